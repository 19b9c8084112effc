"""A function recorded at one point: its value and derivatives there, as NumPy arrays.

Solvers, prepared derivatives and the SciPy adapters use it. `Layout` turns a nest of arrays into
one flat vector, which SciPy's solvers take, and back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.argument_checks import check_returned
from gradtape.autodiff.products import derive_value_and_gradient, product
from gradtape.autodiff.sparse.detect import given_pattern
from gradtape.autodiff.sparse.programs import (
    SparseProgram,
    prepare_sparse_hessian,
    prepare_sparse_jacobian,
)
from gradtape.autodiff.window import Window
from gradtape.config import LARGE_MATRIX, SPARSE_SHARE
from gradtape.dtypes import DType
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir import Node, Shape
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.ops.families.casting import cast
from gradtape.pytree import LEAF, Structure, flatten, unflatten
from gradtape.records import dataclass
from gradtape.tape.gradient_tape import function_tape
from gradtape.tensor.tensor import Tensor, asarray, from_value
from gradtape.trace import Recording, host_value
from gradtape.trace.capturing import capturing
from gradtape.trace.recording import state

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from gradtape.tape.tape_jacobians import SparseOption

# Finds the program of a sparse derivative, given the window, the target and the source.
Preparation = Callable[[tuple[Window, Node, Node]], SparseProgram]


@contextlib.contextmanager
def apart(recording: Recording | None = None) -> Iterator[Recording]:
    """Compute in a recording of its own with no tape entered, and leave the user's untouched."""
    outer, tapes = state.recording, state.tapes
    capture = capturing(outer)
    if capture is not None:
        capture.escape("a solver computes with values of this call")
    inner = Recording() if recording is None else recording
    state.recording, state.tapes = inner, []
    try:
        yield inner
    finally:
        # Computing a tensor from outside may have flushed and closed the outer recording.
        state.recording = Recording() if outer.closed else outer
        state.tapes = tapes


class FunctionAtPoint:
    """One recording of a function at one point, from which all its derivatives there come."""

    def __init__(
        self,
        f: Callable[..., object],
        x: np.ndarray,
        layout: Layout,
        before: tuple[object, ...] = (),
        args: tuple[object, ...] = (),
        scalar: str | None = None,
    ) -> None:
        with apart():
            self._tape = tape = function_tape(persistent=True)
            with tape:
                source = from_value(host_value(x))
                tape.watch(source)
                result = f(*before, layout.unravel(source), *args)
                self._value = as_scalar(scalar, result) if scalar else join(result)
            self._window = tape.window()
            self._recording = self._window.recording
            self._x = tape._source(source)
            self._y = self._value.enter(self._recording)
        if scalar and self._y.dtype.kind == "c" and self._x.dtype.kind == "f":
            raise DtypeError(
                f"{scalar}: the function returned {self._y.dtype}, not a real number. Return a "
                "real one, such as gt.real(y) or gt.abs(y)."
            )
        if self._y.dtype.kind not in "fc":
            raise DtypeError(
                f"the function returned dtype {self._y.dtype}, which has no derivative. "
                "Return floats."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the Jacobian."""
        return self._y.size, self._x.size

    @property
    def dtype(self) -> DType:
        """The dtype of the Jacobian."""
        return np.result_type(self._y.dtype, self._x.dtype)

    def value(self) -> np.ndarray:
        """The value, as a new array."""
        with apart(self._recording):
            return np.array(self._value.numpy())

    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """A scalar value and its gradient, in one run."""
        with apart(self._recording):
            plan = derive_value_and_gradient(self._window, self._y, self._x)
            value, slope = plan.arrays(self._recording)
            return float(value), np.array(slope)

    def gradient(self) -> np.ndarray:
        """The gradient of a scalar."""
        with apart(self._recording):
            found = self._tape.gradient(self._value, self._source(), unconnected_gradients="zero")
            return np.array(found.numpy())

    def jacobian(self, mode: str = "auto") -> np.ndarray:
        """The dense Jacobian, as an array of two axes."""
        with apart(self._recording):
            found = self._tape.jacobian(self._value, self._source(), "zero", mode=mode)
            return np.array(found.numpy()).reshape(self.shape)

    def hessian(self) -> np.ndarray:
        """The dense Hessian of a scalar."""
        with apart(self._recording):
            found = self._tape.hessian(self._value, self._source(), "zero")
            return np.array(found.numpy())

    def _source(self) -> Tensor:
        (source,) = (leaf for leaf, _ in self._tape._watched.values() if isinstance(leaf, Tensor))
        return source

    def sparse_jacobian(
        self, sparse: SparseOption = True, mode: str = "auto", order: str | None = None
    ) -> SparseProgram:
        """Pattern, colours and program of the sparse Jacobian here."""
        with apart(self._recording):
            given = given_pattern(sparse)
            return prepare_sparse_jacobian(self._window, self._y, self._x, mode, given, order)

    def sparse_hessian(
        self, sparse: SparseOption = True, method: str = "star", order: str | None = None
    ) -> SparseProgram:
        """Pattern, colours and program of the sparse Hessian of a scalar here."""
        with apart(self._recording):
            given = given_pattern(sparse)
            return prepare_sparse_hessian(self._window, self._y, self._x, method, given, order)

    def matrix(self, prepared: SparseProgram) -> csr_array:
        """A sparse derivative here, as a CSR array."""
        with apart(self._recording):
            return prepared.matrix(self._recording)

    def product(self, kind: str, direction: np.ndarray, count: int | None = None) -> np.ndarray:
        """The Jacobian (`push`), its adjoint (`pull`) or the Hessian times a direction."""
        with apart(self._recording):
            found = product(self._window, kind, self._y, self._x, count)
            return found(self._recording, direction)

    def prepared(self, preparation: Preparation) -> SparseProgram:
        """A sparse derivative here."""
        with apart(self._recording):
            return preparation((self._window, self._y, self._x))


class NotPendingError(Exception):
    """A captured evaluation of a sparse derivative cannot be replayed."""


def recorded_matrix(
    f: Callable[..., object],
    x: Tensor,
    layout: Layout,
    before: tuple[object, ...],
    args: tuple[object, ...],
    scalar: str | None,
    preparation: Preparation,
) -> csr_array:
    """The matrix of a sparse derivative, recorded in the current recording, not apart.

    Raises NotPendingError in a capture that would have to read the entries.
    """
    tape = function_tape(persistent=True)
    with tape:
        source = identity(x)
        tape.watch(source)
        result = f(*before, layout.unravel(source), *args)
        value = as_scalar(scalar, result) if scalar else join(result)
    window = tape.window()
    recording = window.recording
    found = preparation((window, value.enter(recording), tape._source(source)))
    if recording.capturing and not found.may_be_pending:
        raise NotPendingError
    return found.matrix(recording)


def pays(prepared: SparseProgram) -> bool:
    """Whether a matrix is large and empty enough that solvers gain from its sparse form."""
    rows, columns = prepared.pattern.shape
    total = rows * columns
    few = prepared.pattern.nnz * SPARSE_SHARE <= total
    return total >= LARGE_MATRIX and few and not prepared.pattern.dense


def as_scalar(name: str, result: object) -> Tensor:
    """The one number that a function returned, in a nest or a tensor of any shape."""
    leaves, _ = flatten(result)
    found = asarray(leaves[0]) if len(leaves) == 1 else join(result)
    if found.size != 1:
        raise ShapeError(
            f"{name}: the function returned {found.size} numbers, not one. Sum them, or use "
            "gt.residuals."
        )
    return found if found.shape == () else reshape(found, ())


@dataclass(frozen=True)
class Layout:
    """The positions of the leaves of a nest in a flat vector."""

    structure: Structure
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(map(math.prod, self.shapes))

    @property
    def dtype(self) -> DType:
        """The dtype of the vector, which holds every leaf."""
        return np.result_type(*self.dtypes) if self.dtypes else np.dtype(np.float64)

    @property
    def is_vector(self) -> bool:
        """Whether the nest is a flat vector itself."""
        return self.structure.kind is None and len(self.shapes[0]) == 1

    def ravel(self, tree: object) -> np.ndarray:
        """The vector of a nest like the one this was made from, as a NumPy array."""
        leaves, structure = flatten(tree)
        arrays = [_host(leaf) for leaf in leaves]
        if structure != self.structure or tuple(a.shape for a in arrays) != self.shapes:
            raise ShapeError(
                f"ravel: leaves of shapes {[a.shape for a in arrays]} do not fit a nest of "
                f"shapes {list(self.shapes)}. Pass a nest like the example."
            )
        return np.concatenate([a.reshape(-1) for a in arrays], dtype=self.dtype)

    def unravel(self, flat: Tensor | np.ndarray) -> Any:
        """The nest of a vector: of tensors if it is one, of arrays if it is an array."""
        on_tensors = isinstance(flat, Tensor)
        if len(self.shapes) == 1:
            part = _shaped(flat, self.shapes[0], self.dtypes[0], on_tensors)
            return unflatten(self.structure, [part])
        parts = []
        start = 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            stop = start + math.prod(shape)
            parts.append(_shaped(flat[start:stop], shape, dtype, on_tensors))
            start = stop
        return unflatten(self.structure, parts)


def layout_of(tree: object, name: str) -> Layout:
    """The layout of nests like this one; `name` is the caller, for the error."""
    leaves, structure = flatten(tree)
    # Of tensors only shape and dtype are read: they may have no values yet.
    arrays = [leaf if isinstance(leaf, Tensor) else _host(leaf) for leaf in leaves]
    dtypes = tuple(a.dtype if a.dtype.kind in "fc" else np.dtype(np.float64) for a in arrays)
    for array in arrays:
        if array.dtype.kind not in "biufc":
            raise DtypeError(
                f"{name}: a leaf has dtype {array.dtype}, not numbers. Pass arrays of floats."
            )
    return Layout(structure, tuple(a.shape for a in arrays), dtypes)


def vector_layout(size: int, dtype: DType | None = None) -> Layout:
    """The layout of a flat vector, of float64 by default: `ravel` and `unravel` keep it."""
    return Layout(LEAF, ((size,),), (np.dtype(np.float64) if dtype is None else dtype,))


def join(tree: object) -> Tensor:
    """A nest of tensors and numbers as one flat tensor."""
    leaves, _ = flatten(tree)
    check_returned("the function of a solver", None, tree)
    parts = [asarray(leaf) for leaf in leaves]
    parts = [part if part.ndim == 1 else reshape(part, (-1,)) for part in parts]
    return parts[0] if len(parts) == 1 else concat(parts)


def _host(leaf: Any) -> np.ndarray:
    return np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)


def _shaped(
    part: Tensor | np.ndarray, shape: Shape, dtype: DType, on_tensors: bool
) -> Tensor | np.ndarray:
    if part.shape != shape:
        part = reshape(part, shape) if on_tensors else part.reshape(shape)
    if part.dtype == dtype:
        return part
    return cast(part, dtype) if on_tensors else part.astype(dtype)
