"""Derivatives prepared once: pattern, colours and program are kept, and calls only evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.argument_checks import check_methods
from gradtape.autodiff.sparse.choose_colouring import METHODS, SYMMETRIC_METHODS, Coloured
from gradtape.autodiff.sparse.colouring import known_order
from gradtape.autodiff.sparse.detect import given_pattern
from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.autodiff.sparse.programs import (
    SparseProgram,
    prepare_sparse_hessian,
    prepare_sparse_jacobian,
)
from gradtape.compiler.counts import COUNTS
from gradtape.config import LARGE_MATRIX, MOST_PREPARED_PATHS
from gradtape.jit.function import function
from gradtape.tape.function_at_point import (
    FunctionAtPoint,
    NotPendingError,
    Preparation,
    layout_of,
    pays,
    recorded_matrix,
)
from gradtape.tape.grad_vjp_jvp import argument_position, chosen_arguments
from gradtape.tape.tape_jacobians import check_mode, check_sparse
from gradtape.tensor.tensor import Tensor
from gradtape.trace.recording import Recording, state

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from gradtape.tape.tape_jacobians import SparseOption

    # The evaluated matrix, by whether it is dense or sparse.
    _HostMatrix: TypeAlias = np.ndarray | csr_array

# Classes of arguments that are inputs of a captured evaluation.
_REPLAYED = frozenset((float, np.ndarray))

__all__ = ["PreparedHessian", "PreparedJacobian", "prepare_hessian", "prepare_jacobian"]


class PreparedJacobian:
    """The Jacobian of a function as a matrix, at any arguments like the examples.

    >>> jacobian = gt.prepare_jacobian(lambda x: x[1:] * x[:-1], np.ones(4), sparse=True)
    >>> jacobian
    Jacobian of shape (3, 4), 6 of 12 entries, column colouring, 2 products
    >>> jacobian.method, jacobian.colours, jacobian.pattern.nnz
    ('column', 2, 6)
    """

    _name = "Jacobian"
    _scalar: str | None = None
    _colourings: tuple[str, ...] = METHODS

    def __init__(
        self,
        f: Callable[..., object],
        examples: tuple[object, ...],
        argnums: int = 0,
        sparse: SparseOption = "auto",
        mode: str = "auto",
        colouring: str | None = None,
        order: str | None = None,
    ) -> None:
        name = f"prepare_{self._name.lower()}"
        sparse = check_sparse(name, sparse)
        check_mode(name, mode)
        self._check_colouring(name, colouring, order, sparse, mode)
        if colouring is not None and isinstance(sparse, str):
            sparse = True
        self._colouring = colouring
        self._order = order
        self._f = f
        chosen = chosen_arguments(name, argnums)
        if not isinstance(chosen, int):
            raise TypeError(
                f"{name}: argnums={argnums!r}: the matrix is by one argument. Use an int, or make "
                "one nest of several arguments."
            )
        self._position = argument_position(name, chosen, len(examples))
        self._layout = layout_of(examples[self._position], name)
        self._mode = mode
        self._given = sparse if not isinstance(sparse, (bool, str)) else True
        point = self._at(examples)
        self.shape: tuple[int, int] = self._shape(point)
        self._sparse = sparse is not False
        if isinstance(sparse, str) and self.shape[0] * self.shape[1] < LARGE_MATRIX:
            self._sparse = False
        self._coloured: Coloured | None = None
        if self._sparse:
            prepared = self._prepared(point)
            self._sparse = not isinstance(sparse, str) or pays(prepared)
            self._coloured = prepared.coloured if self._sparse else None
        # What replays captured evaluations, and the colours of matrices with these index arrays.
        self._replayed: Callable[..., Any] | None = None
        self._colours: dict[int, tuple[object, Coloured]] = {}
        # The first run uses the numpy plan, the second compiles: from here on calls only evaluate.
        for _ in range(2):
            self(*examples)
        if self._sparse and self._prepared(point).may_be_pending:
            self._capture(examples)

    def _check_colouring(
        self,
        name: str,
        colouring: str | None,
        order: str | None,
        sparse: SparseOption,
        mode: str,
    ) -> None:
        if order is not None:
            known_order(order)
        if colouring is None:
            return
        if colouring not in self._colourings:
            raise ValueError(
                f"{name}: colouring {colouring!r} is unknown. Use one of "
                f"{', '.join(self._colourings)}."
            )
        if sparse is False or mode != "auto":
            raise ValueError(
                f"{name}: colouring={colouring!r} says how a sparse matrix is computed. "
                "Drop sparse=False and mode=."
            )

    def _at(self, args: tuple[object, ...]) -> FunctionAtPoint:
        at = self._position
        x = self._layout.ravel(args[at])
        return FunctionAtPoint(self._f, x, self._layout, args[:at], args[at + 1 :], self._scalar)

    def _shape(self, point: FunctionAtPoint) -> tuple[int, int]:
        return point.shape

    def _prepared(self, point: FunctionAtPoint) -> SparseProgram:
        return point.prepared(self._preparation())

    def _preparation(self) -> Preparation:
        given, how, order = self._given, self._colouring or self._mode, self._order
        return lambda point: prepare_sparse_jacobian(*point, how, given_pattern(given), order)

    def _evaluation(self) -> Callable[..., Any]:
        """The function from the flat source and the other arguments to the matrix."""
        f, at, layout, scalar = self._f, self._position, self._layout, self._scalar
        preparation = self._preparation()

        def evaluation(flat: Tensor, *others: object) -> Any:
            before, after = others[:at], others[at:]
            return recorded_matrix(f, flat, layout, before, after, scalar, preparation)

        return evaluation

    def _capture(self, examples: tuple[object, ...]) -> None:
        """Capture an evaluation, if a call can be replayed without the user's Python."""
        evaluation = self._evaluation()
        self._replayed = evaluation  # a given pattern is tested in the first call
        self(*examples)
        self._replayed = function(evaluation)
        hits = -1
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            # Two runs are compared, the third call may be a check.
            for _ in range(4):
                hits = COUNTS.derivative_hits
                self(*examples)
        # A run in Python looks the derivative up in the cache.
        if warned or COUNTS.derivative_hits != hits:
            self._replayed = None

    def _replay(self, args: tuple[object, ...]) -> _HostMatrix | None:
        """The matrix by a captured evaluation, or None where one may not be used.

        A tape or a traced function around must not see the evaluation, and arguments of other
        classes may be anything.
        """
        if self._replayed is None or state.tapes or type(state.recording) is not Recording:
            return None
        at = self._position
        others = (*args[:at], *args[at + 1 :])
        if not _REPLAYED.issuperset(map(type, others)):
            return None
        layout = self._layout
        flat: Any = args[at]
        # Both are taken as they are; the value of a tensor is not even copied.
        usual = type(flat) in (np.ndarray, Tensor) and layout.is_vector
        if not usual or flat.dtype != layout.dtype or flat.shape != layout.shapes[0]:
            flat = layout.ravel(flat)
        try:
            found: Any = self._replayed(flat, *others)
        except NotPendingError:
            return None
        known = self._colours.get(id(found.indices))
        if known is None:
            # The function took a path that is new here.
            if len(self._colours) >= MOST_PREPARED_PATHS:
                self._colours.clear()
            coloured = self._prepared(self._at(args)).coloured
            known = self._colours[id(found.indices)] = (found.indices, coloured)
        self._coloured = known[1]
        return found

    def _dense(self, point: FunctionAtPoint) -> np.ndarray:
        return point.jacobian(self._mode)

    def __call__(self, *args: object) -> _HostMatrix:
        """The matrix at these arguments: a CSR array, or a NumPy array if it is dense."""
        found = self._replay(args)
        if found is not None:
            return found
        point = self._at(args)
        if not self._sparse:
            return self._dense(point)
        # This is a look-up by the structure of the recording. Where the function takes another
        # path, or indexes by other integers, it is prepared for these as well.
        prepared = self._prepared(point)
        self._coloured = prepared.coloured
        return point.matrix(prepared)

    @property
    def pattern(self) -> Pattern | None:
        """The entries that can be nonzero; None if the matrix is dense."""
        return None if self._coloured is None else self._coloured.pattern

    @property
    def method(self) -> str:
        """The grouping of entries into products: `column`, `row`, `bidirectional`, or `dense`."""
        return "dense" if self._coloured is None else self._coloured.method

    @property
    def colours(self) -> int | None:
        """The number of products that an evaluation takes; None if the matrix is dense."""
        found = self._coloured
        return None if found is None else found.forward_count + found.reverse_count

    def __repr__(self) -> str:
        if self.pattern is None:
            return f"{self._name} of shape {self.shape}, dense"
        total = self.shape[0] * self.shape[1]
        return (
            f"{self._name} of shape {self.shape}, {self.pattern.nnz} of {total} entries, "
            f"{self.method} colouring, {self.colours} products"
        )


class PreparedHessian(PreparedJacobian):
    """The Hessian of a scalar function as a matrix, at any arguments like the examples.

    >>> gt.prepare_hessian(lambda x: gt.sum(x[1:] * x[:-1]), np.ones(4), sparse=True)
    Hessian of shape (4, 4), 6 of 16 entries, star colouring, 3 products
    """

    _name = "Hessian"
    _scalar = "prepare_hessian"
    _colourings = SYMMETRIC_METHODS

    def _shape(self, point: FunctionAtPoint) -> tuple[int, int]:
        return point.shape[1], point.shape[1]

    def _preparation(self) -> Preparation:
        given, how, order = self._given, self._colouring or "star", self._order
        return lambda point: prepare_sparse_hessian(*point, how, given_pattern(given), order)

    def _dense(self, point: FunctionAtPoint) -> np.ndarray:
        return point.hessian()


def prepare_jacobian(
    f: Callable[..., object],
    *examples: object,
    argnums: int = 0,
    sparse: SparseOption = "auto",
    mode: str = "auto",
    colouring: str | None = None,
    order: str | None = None,
) -> PreparedJacobian:
    """The Jacobian of `f` with everything done that does not depend on values.

    >>> jacobian = gt.prepare_jacobian(lambda x: x[1:] * x[:-1], np.ones(4), sparse=True)
    >>> jacobian(np.arange(1.0, 5.0)).toarray().tolist()
    [[2.0, 1.0, 0.0, 0.0], [0.0, 3.0, 2.0, 0.0], [0.0, 0.0, 4.0, 3.0]]

    The result is a matrix with a row for each element of the value and a column for each element of
    argument number `argnums`, of nests too: a CSR array with `sparse=True` or a pattern, a NumPy
    array with `sparse=False`, and with `"auto"` a CSR array where the matrix is large and one entry
    in eight or fewer can be nonzero. All CSR arrays share their index arrays, which are read-only.
    `.pattern`, `.colours` and `.method` describe what was found.

    The cheapest colouring is chosen; `colouring` chooses `"column"`, `"row"` or `"bidirectional"`,
    and `order` for one in which columns or rows are coloured: `"natural"`, `"largest_first"` or
    `"smallest_last"`.
    """
    return PreparedJacobian(f, examples, argnums, sparse, mode, colouring, order)


def prepare_hessian(
    f: Callable[..., object],
    *examples: object,
    argnums: int = 0,
    sparse: SparseOption = "auto",
    colouring: str | None = None,
    order: str | None = None,
) -> PreparedHessian:
    """The Hessian of a scalar `f` with everything done that does not depend on values.

    >>> hessian = gt.prepare_hessian(lambda x: gt.sum(x[1:] * x[:-1] ** 2), np.ones(3))
    >>> hessian(np.array([1.0, 2.0, 3.0])).tolist()
    [[4.0, 2.0, 0.0], [2.0, 6.0, 4.0], [0.0, 4.0, 0.0]]

    The result, `sparse` and `order` are as in `prepare_jacobian`. `colouring` is `"star"`, or
    `"acyclic"` for sometimes fewer products, from which entries follow by substitution.
    """
    return PreparedHessian(f, examples, argnums, sparse, colouring=colouring, order=order)


check_methods(PreparedJacobian)
