"""Linear systems with a sparse matrix, or with a linear map whose matrix is never formed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradtape.config import LARGEST_KEPT_FACTORS
from gradtape.dtypes import Array, default_dtype
from gradtape.errors import MatrixError, ShapeError
from gradtape.ir import Node, Op, apply, constant, declare
from gradtape.ops.arrays.gathering import GATHER, SCATTER_ADD
from gradtape.ops.arrays.movement import swapaxes
from gradtape.ops.elementwise.arithmetic import record_operand
from gradtape.ops.families import Sample, batching, cast, independence
from gradtape.ops.families.signatures import Tensor, TensorLike
from gradtape.ops.families.sparsity import dense
from gradtape.ops.matrices.checks import sample_matrices
from gradtape.ops.matrices.contraction import conjugate
from gradtape.ops.reductions.reduction import sum as total
from gradtape.records import dataclass
from gradtape.trace.record import record

if TYPE_CHECKING:

    class LinearSystem(Protocol):
        """A linear map A that the op solves with; systems that compute the same are equal."""

        def solve(self, b: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
            """The solution for arrays; rows of `b` are right-hand sides."""

        def adjoint(self) -> LinearSystem:
            """The system of the adjoint map."""

        def push(
            self, x: Node, others: tuple[Node, ...], tangents: Sequence[Node | None]
        ) -> Node | None:
            """The tangent of A x, for a constant x."""

        def pull(self, index: int, g: Node, x: Node, others: tuple[Node, ...]) -> Node | None:
            """The cotangent of others[index], from the cotangent g of A x."""


def _jvp(
    tangents: Sequence[Node | None], y: Node, inputs: tuple[Node, ...], system: LinearSystem
) -> Node | None:
    """From A y = b follows A dy = db - dA y."""
    right = tangents[0]
    if any(tangent is not None for tangent in tangents[1:]):
        moved = system.push(y, inputs[1:], tangents[1:])
        if moved is not None:
            right = -moved if right is None else right - moved
    return None if right is None else apply(SYSTEM, (right, *inputs[1:]), (system,))


def _vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...], system: LinearSystem
) -> Node | None:
    back = apply(SYSTEM, (g, *inputs[1:]), (system.adjoint(),))
    return back if index == 0 else system.pull(index - 1, -back, y, inputs[1:])


def _batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, system: LinearSystem) -> Node:
    """A map that all examples share solves for all their right-hand sides together."""
    if any(batched[1:]):
        return batching.one_by_one(inputs, batched, y, system=system)
    return apply(SYSTEM, inputs, (system,))


def _samples() -> list[Sample]:
    places = np.divmod(np.arange(9), 3)
    return [
        Sample((right, matrix.reshape(9), *places), {"system": SparseSystem(3, turned)})
        for (matrix, sides) in zip(
            sample_matrices("solve_system", ((3, 3),)),
            sample_matrices("solve_system right", ((2, 3),)),
            strict=True,
        )
        for right in (sides[0], sides)
        for turned in (False, True)
    ]


SYSTEM = declare(
    Op(
        "solve_system",
        "library",
        params=("system",),
        spec=lambda b, *others, system: b,
        numpy=lambda b, *others, system: np.asarray(system.solve(b, others), b.dtype).reshape(
            b.shape
        ),
        jvp=_jvp,
        vjp=_vjp,
        batch=_batch,
        examples=independence.matrices,
        sparsity=dense,
        expensive=True,
        may_fail=True,
        samples=_samples,
    )
)


# The last matrix that was factored, as bytes, and its factors. A solution and its derivatives have
# the same matrix, and mostly follow each other: comparing its entries takes a hundredth of the time
# of factoring it. The factors are no arrays, so that programs cannot pass them on.
_last: tuple[Any, Any] = (None, None)


def forget_factors() -> None:
    """Forget the factors of the last sparse matrix."""
    global _last
    _last = (None, None)


def _factored(size: int, dtype: np.dtype[Any], arrays: tuple[Array, ...]) -> Any:
    """SciPy's factors of the matrix with these entries, rows and columns."""
    global _last
    key = (size, dtype, *[(x.dtype, x.tobytes()) for x in arrays])
    known, found = _last
    if key != known:
        found = _factors_of(size, dtype, *arrays)
        _last = (key, found) if found.nnz * dtype.itemsize <= LARGEST_KEPT_FACTORS else (None, None)
    return found


def _factors_of(
    size: int, dtype: np.dtype[Any], entries: Array, rows: Array, columns: Array
) -> Any:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    matrix = coo_array((entries.astype(dtype), (rows, columns)), shape=(size, size))
    try:
        return splu(matrix.tocsc())
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise MatrixError(
            f"solve: a sparse matrix of shape {matrix.shape} is singular ({error}). "
            "Add a multiple of the identity."
        ) from None


@dataclass(frozen=True)
class SparseSystem:
    """The system of a square matrix of entries, rows and columns; see linear_map_solve.py."""

    size: int
    turned: bool = False

    def solve(self, b: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
        """Solve for each row of `b`, with one decomposition for all."""
        sides = b.reshape(-1, self.size).T
        if not sides.size:
            return b
        wide = np.result_type(others[0].dtype, b.dtype, np.float64)
        # The adjoint has the same factors, so that a derivative factors nothing.
        factors = _factored(self.size, wide, others)
        found = factors.solve(np.ascontiguousarray(sides, wide), "H" if self.turned else "N")
        return found.T.reshape(b.shape)

    def adjoint(self) -> SparseSystem:
        return SparseSystem(self.size, not self.turned)

    def push(
        self, x: Node, others: tuple[Node, ...], tangents: Sequence[Node | None]
    ) -> Node | None:
        """The product of x with the tangent of the matrix."""
        tangent = tangents[0]
        if tangent is None:
            return None
        rows, columns = others[1:]
        if self.turned:
            tangent, rows, columns = conjugate(tangent), columns, rows
        last = x.ndim - 1
        parts = apply(GATHER, (x, columns), (last,)) * tangent
        return apply(SCATTER_ADD, (constant(0, x.spec), rows, parts), (last,))

    def pull(self, index: int, g: Node, x: Node, others: tuple[Node, ...]) -> Node | None:
        """The cotangent of the entries."""
        if index:
            return None
        rows, columns = others[1:]
        if self.turned:
            g, x = x, g
        last = x.ndim - 1
        found = apply(GATHER, (g, rows), (last,)) * conjugate(apply(GATHER, (x, columns), (last,)))
        return total(found, axis=tuple(range(last))) if last else found


def sparse_solve(matrix: Any, b: TensorLike, data: TensorLike | None = None) -> Tensor:
    """The x for which matrix @ x = b, where the matrix is one of `scipy.sparse`.

    >>> from scipy.sparse import diags_array
    >>> matrix = diags_array([2.0, 4.0]).tocsr()
    >>> gt.linalg.sparse_solve(matrix, gt.asarray([2.0, 4.0])).tolist()
    [1.0, 1.0]
    >>> slope = gt.grad(lambda data: gt.sum(gt.linalg.sparse_solve(matrix, [2.0, 4.0], data)))
    >>> slope(matrix.data).tolist()
    [-0.5, -0.25]

    A 1-d `b` is one vector, a 2-d one has a right-hand side in each column; all are solved by one
    sparse LU decomposition. `data`, if it is given, are the entries as a tensor, in the order that
    they have in CSR form: derivatives of every order pass through it and through `b`.
    """
    form = matrix.tocsr()
    size = form.shape[0]
    b = record_operand(b)
    if len(form.shape) != 2 or form.shape[1] != size or b.ndim not in (1, 2) or b.shape[0] != size:
        raise ShapeError(
            f"solve: a sparse matrix of shape {form.shape} and a right-hand side of shape "
            f"{b.shape}. Pass a square matrix, and a vector or columns of as many rows."
        )
    entries = record_operand(form.data if data is None else data)
    if entries.shape != form.data.shape:
        raise ShapeError(
            f"sparse_solve: data of shape {entries.shape} for a matrix with {form.nnz} entries. "
            "Give one number for each, in the order of the CSR form."
        )
    rows = np.repeat(np.arange(size), np.diff(form.indptr))
    columns = form.indices.astype(np.int64)
    dtype = np.result_type(entries.dtype, b.dtype)
    if dtype.kind not in "fc":
        dtype = default_dtype()
    sides = cast(b if b.ndim == 1 else swapaxes(b, 0, 1), dtype)
    given = (sides, cast(entries, dtype), record_operand(rows), record_operand(columns))
    found = record(SYSTEM, given, (SparseSystem(size),))
    return found if b.ndim == 1 else swapaxes(found, 0, 1)
