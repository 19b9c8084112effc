"""Linear systems with a sparse matrix: its entries, rows and columns are operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.dtypes import default_dtype
from gradtape.errors import MatrixError, ShapeError
from gradtape.graph.node import Node, apply, constant
from gradtape.ops.arrays.gathering import GATHER, SCATTER_ADD
from gradtape.ops.arrays.movement import swapaxes
from gradtape.ops.elementwise.arithmetic import record_operand
from gradtape.ops.families.casting import cast
from gradtape.ops.families.signatures import Tensor, TensorLike
from gradtape.ops.matrices.contraction import conjugate
from gradtape.ops.matrices.linear_map_solve import SYSTEM
from gradtape.ops.reductions.reduction import sum as total
from gradtape.recording.record import record


@dataclass(frozen=True)
class SparseSystem:
    """The system of a square matrix of entries, rows and columns; see linear_map_solve.py."""

    size: int
    turned: bool = False

    def solve(self, b: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
        """Solve for each row of `b`, with one decomposition for all."""
        # SciPy is loaded at first use: importing it takes longer than importing gradtape.
        from scipy.sparse import coo_array
        from scipy.sparse.linalg import splu

        entries, rows, columns = others
        if self.turned:
            entries, rows, columns = np.conj(entries), columns, rows
        sides = b.reshape(-1, self.size).T
        if not sides.size:
            return b
        wide = np.result_type(entries.dtype, b.dtype, np.float64)
        matrix = coo_array((entries.astype(wide), (rows, columns)), shape=(self.size, self.size))
        try:
            return splu(matrix.tocsc()).solve(np.ascontiguousarray(sides, wide)).T.reshape(b.shape)
        except RuntimeError as error:
            raise MatrixError(
                f"solve: a sparse matrix of shape {matrix.shape} is singular ({error}). "
                "Add a multiple of the identity."
            ) from None

    def adjoint(self) -> SparseSystem:
        return SparseSystem(self.size, not self.turned)

    def push(self, x: Node, others: Any, tangents: Any) -> Node | None:
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
