"""Tensor: the user's handle. Operators record, observation computes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never, NoReturn, overload

import numpy as np

from gradtape.argument_checks import as_flag, is_choice
from gradtape.compiler.cpython import switch
from gradtape.display import Displayed, Fields, as_html
from gradtape.dtypes import COMPLEX_OF, DType, as_dtype, default_dtype, of_scalar
from gradtape.errors import InPlaceError, LostDerivativeError, ShapeError, shown
from gradtape.ir.hooks import hooks
from gradtape.ir.node import Node
from gradtape.ir.program import Program, program
from gradtape.ir.spec import Spec, spec
from gradtape.ops.arrays import indexing
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.ops.families.casting import cast
from gradtape.pytree import Tree, flatten
from gradtape.runtime import tiers
from gradtape.runtime.flush import compute_handle
from gradtape.suggestions import explain_attributes, unexpected_arguments
from gradtape.tensor.array_api import check_version
from gradtape.tensor.operators import Operators
from gradtape.trace.capturing import note_text
from gradtape.trace.followed_number import Followed
from gradtape.trace.record import any_handle, entered_array, scalar_spec, stack_nest
from gradtape.trace.recording import state
from gradtape.trace.value import Handle, Value, host_value

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike
    from gradtape.tensor.tensor_like import TensorLike
    from gradtape.tensor.variable import Variable

__all__ = ["Tensor", "asarray", "evaluate", "from_dlpack", "program_of"]


def _in_place_operator(
    operate: Callable[[Any, Any], Any], symbol: str
) -> Callable[[Tensor, TensorLike], Tensor]:
    """The method of an in-place operator."""

    def method(self: Tensor, other: TensorLike) -> Tensor:
        return self._in_place(operate(self, other), f"x {symbol}= v")

    return method


class Tensor(Handle, Operators, Displayed):
    """A lazy array: ops on it are recorded, and computed when a value is read.

    >>> x = gt.asarray([1.0, 2.0])
    >>> x * x + 1.0
    Tensor([2., 5.], shape=(2,), dtype=float64)

    Handles may be rebound; values never change. `x += v` and `x[i] = v` are recorded and
    differentiable like any other op:

    >>> y = gt.asarray([1.0, 2.0])
    >>> y[0] = 5.0
    >>> y.tolist()
    [5.0, 2.0]
    """

    __slots__ = ()

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return self.computed.spec if self.node is None else self.node.spec  # type: ignore[union-attr]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The length of each axis."""
        node = self.node
        return (self if node is None else node).spec.shape

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The element type."""
        node = self.node
        return (self if node is None else node).spec.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        node = self.node
        return (self if node is None else node).spec.ndim

    def numpy(self) -> np.ndarray:
        """The value as a read-only NumPy array, computed now if it is pending.

        >>> gt.asarray([1.0, 2.0]).numpy()
        array([1., 2.])
        """
        recording = self.recording
        if recording is not None and recording.capturing:
            recording.capturing.escape()
        elif state.recording.capturing:
            state.recording.capturing.guard_outside(self)
        if self.computed is None:
            compute_handle(self)
        array = self.computed.array  # type: ignore[union-attr]
        array.flags.writeable = False
        return array

    def _look(self) -> np.ndarray:
        """The value for people to read: unlike `numpy`, it sets no guard in a captured function."""
        if self.computed is None:
            compute_handle(self)
        array = self.computed.array  # type: ignore[union-attr]
        array.flags.writeable = False
        return array

    def __repr__(self) -> str:
        note_text()
        values = np.array2string(self._look(), separator=", ", prefix="Tensor(")
        return f"Tensor({values}, shape={self.shape}, dtype={self.dtype})"

    def _fields(self) -> Fields:
        if self.computed is None:
            # Showing a pending tensor in a report must not compute it.
            return [("shape", self.shape), ("dtype", str(self.dtype)), ("pending", True)]
        values = np.array2string(self._look(), separator=", ", threshold=200)
        return [(None, values), ("shape", self.shape), ("dtype", str(self.dtype))]

    def _repr_html_(self) -> str:
        """The tensor in a notebook: its value is computed."""
        self._look()
        return as_html(type(self).__name__, self._fields())

    # In-place operations rebind this handle to a new node: other handles on the old value keep it,
    # and derivatives pass through the operation like through any other.

    def __setitem__(self, key: object, value: TensorLike) -> None:
        self.rebind(indexing.set_item(self, key, value), "x[...] = v")

    def rebind(self, new: Tensor, what: str) -> None:
        """Point this handle at another value of the same shape and dtype."""
        if new.shape != self.shape:
            raise ShapeError(
                f"{what}: the result has shape {new.shape} and the tensor {self.shape}. "
                "A tensor keeps its shape; write x = x op v instead."
            )
        if new.dtype != self.dtype:
            if new.dtype.kind != self.dtype.kind:
                _refuse_dtype(self, new, what)
            new = cast(new, self.dtype)
        recording = state.recording
        if recording.capturing:
            recording.capturing.rebinding(self, new)
        self.node, self.recording, self.computed = new.node, new.recording, new.computed
        if self.computed is None and self.recording is not None:
            self.recording.handles.append(self)

    def _in_place(self, new: Tensor, what: str) -> Tensor:
        self.rebind(new, what)
        return self

    __iadd__ = _in_place_operator(operator.add, "+")
    __isub__ = _in_place_operator(operator.sub, "-")
    __imul__ = _in_place_operator(operator.mul, "*")
    __itruediv__ = _in_place_operator(operator.truediv, "/")
    __ifloordiv__ = _in_place_operator(operator.floordiv, "//")
    __imod__ = _in_place_operator(operator.mod, "%")
    __ipow__ = _in_place_operator(operator.pow, "**")
    __imatmul__ = _in_place_operator(operator.matmul, "@")
    __iand__ = _in_place_operator(operator.and_, "&")
    __ior__ = _in_place_operator(operator.or_, "|")
    __ixor__ = _in_place_operator(operator.xor, "^")
    __ilshift__ = _in_place_operator(operator.lshift, "<<")
    __irshift__ = _in_place_operator(operator.rshift, ">>")

    # Copies and exports.

    def copy(self) -> Tensor:
        """Another handle on the same value."""
        return identity(self)

    def __copy__(self) -> Tensor:
        return identity(self)

    def __deepcopy__(self, memo: object) -> Tensor:
        if self.recording is not None and self.recording.capturing:
            return identity(self)
        return from_value(host_value(self.numpy()))

    def __reduce__(self) -> tuple[object, ...]:
        return asarray, (np.array(self.numpy()),)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        self._refuse_to_lose("a NumPy array")
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def is_tracked(self) -> bool:
        """Whether a tape that records now watches this tensor, or one that it depends on."""
        tapes = state.tapes
        return bool(tapes) and any(tape.follows(self) for tape in tapes)

    def _refuse_to_lose(self, what: str) -> None:
        """Raise if a derivative would end here without a word."""
        if state.tapes and self.is_tracked():
            raise LostDerivativeError(
                f"a tensor that a tape tracks was to become {what}, where no derivative passes. "
                "Use NumPy's or gt functions on the tensor itself (gt.stack for a list of "
                "tensors), or x.numpy() where only the value is meant."
            )

    def __dlpack__(
        self,
        /,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        self._refuse_to_lose("memory of another library")
        array = self.numpy()
        # Older versions cannot say that memory is read-only: they get a copy.
        if max_version is None or max_version < (1, 0):
            if copy is False:
                raise BufferError(
                    "__dlpack__: copy=False, but DLPack before 1.0 cannot say that memory is "
                    "read-only. Pass max_version=(1, 0), or allow a copy."
                )
            copy = True
        given = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
        options: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        return (array.copy() if copy else array).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return check_version(api_version)


Tensor.result_class = Tensor
explain_attributes(Tensor)
hooks.handle_class = Tensor
switch.offer(Tensor, tiers.MODE != "off")


def _refuse_dtype(old: Tensor, new: Tensor, what: str) -> NoReturn:
    raise InPlaceError(
        f"{what}: the result has dtype {new.dtype} and the tensor {old.dtype}. "
        "A tensor keeps its dtype; write x = x op v instead, or cast v."
    )


def from_value(value: Value) -> Tensor:
    """A handle on a computed value."""
    made = Tensor(None, None, value)
    recording = state.recording
    if recording.capturing:
        recording.capturing.tensors.made.add(made)
    return made


def _from_number(number: Followed, dtype: DTypeLike | None) -> Tensor:
    """A tensor of a number that may be another one in the next call of a captured function."""
    of = scalar_spec(number.plain, type(number.plain), None)
    if dtype is not None:
        of = spec((), as_dtype(dtype))
    recording = state.recording
    if recording.outer is None and not recording.capturing:
        return from_value(host_value(number.read(), of.dtype))
    node = recording.add_number(number, of)
    if not recording.capturing:
        return recording.hold(node, Tensor)
    return Tensor(node, recording, host_value(number.plain, of.dtype))


def asarray(
    obj: TensorLike,
    /,
    dtype: DTypeLike | None = None,
    *more: Never,
    device: str | None = None,
    copy: bool | None = None,
    **unknown: Never,
) -> Tensor:
    """A tensor of numbers, arrays, nests of them or of tensors. Host memory is copied.

    >>> gt.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    if device is not None and not is_choice(device, ("cpu",)):
        raise ValueError(f"asarray: {shown(device)} is not a device here. The only one is 'cpu'.")
    if copy is not None:
        copy = as_flag("asarray: copy", copy)
    if isinstance(obj, Tensor):
        found = obj.copy() if copy else obj
    elif isinstance(obj, Followed):
        return _from_number(obj, dtype)
    elif isinstance(obj, (bool, int, float, complex)) and type(obj) in (bool, int, float, complex):
        return from_value(host_value(obj, of_scalar(type(obj), None) if dtype is None else dtype))
    elif hasattr(obj, "enter") or hasattr(obj, "__gradtape__"):
        found = identity(obj)
    elif isinstance(obj, (list, tuple)):
        if any_handle(obj):
            found = stack_nest(obj)
        else:
            return from_value(host_value(obj, dtype if dtype is not None else _default_for(obj)))
    else:
        if copy is False:
            raise ValueError(
                "asarray: copy=False, but host memory is always copied. Drop copy=False."
            )
        return from_value(entered_array(state.recording, obj, dtype))
    return found if dtype is None or found.dtype == as_dtype(dtype) else cast(found, dtype)


def _default_for(nest: object) -> DType | None:
    """Python floats in lists take the default dtype; None leaves the dtype to NumPy."""
    try:
        kind = np.asarray(nest).dtype
    except (ValueError, TypeError, OverflowError):
        # The conversion that follows says what is wrong.
        return None
    if kind == np.float64:
        return default_dtype() if not _has_numpy(nest) else None
    return COMPLEX_OF[default_dtype()] if kind == np.complex128 and not _has_numpy(nest) else None


def _has_numpy(nest: object) -> bool:
    if isinstance(nest, (list, tuple)):
        return any(_has_numpy(item) for item in nest)
    return isinstance(nest, (np.ndarray, np.generic))


def from_dlpack(
    x: Any, /, *, device: str | tuple[int, int] | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor from any object that speaks DLPack; its memory is copied.

    >>> gt.from_dlpack(np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """
    if not is_choice(device, (None, "cpu")) and not (type(device) is tuple and device == (1, 0)):
        raise ValueError(
            f"from_dlpack: {shown(device)} is not a device here. The only one is 'cpu'."
        )
    if isinstance(x, Tensor):
        return identity(x)
    if copy is False:
        raise BufferError(
            "from_dlpack: copy=False, but memory of others is always copied. Drop copy=False."
        )
    return from_value(host_value(np.from_dlpack(x)))


@overload
def evaluate(tree: Tree, /) -> Tree: ...


@overload
def evaluate(*trees: Tree) -> tuple[Tree, ...]: ...


def evaluate(*trees: object) -> object:
    """Compute everything in the arguments now, and return them.

    >>> x = gt.evaluate(gt.asarray(2.0) * 3.0)
    >>> float(x)
    6.0
    """
    for tree in trees:
        for leaf in flatten(tree)[0]:
            if isinstance(leaf, Tensor):
                if leaf.computed is None:
                    compute_handle(leaf)
            elif isinstance(leaf, Operators):
                leaf.numpy()
    return trees[0] if len(trees) == 1 else trees


def program_of(*tensors: Tensor | Variable) -> Program:
    """The program that would compute these tensors now; print it to read it.

    >>> print(gt.program_of(gt.sin(gt.asarray(1.0))))
    program(a: float64[]) -> b
      b: float64[] = sin(a)
    """
    recording = state.recording
    for tensor in tensors:
        if not hasattr(tensor, "enter"):
            raise TypeError(f"program_of: {shown(tensor)} is not a tensor. Pass tensors.")
    nodes: list[Node] = [tensor.enter(recording) for tensor in tensors]
    return program(nodes, recording.values.keys())
