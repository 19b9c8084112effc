"""Linear systems, inverses and determinants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape.dtypes import REAL_OF, as_dtype
from gradtape.errors import MatrixError, ShapeError
from gradtape.ir import Node, Shape, Spec, apply, outputs, spec
from gradtape.ops import blas_lapack
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.creation import FULL, constant_beside
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.triangles import tril, triu
from gradtape.ops.elementwise.arithmetic import equal, identity, record_operand, where
from gradtape.ops.elementwise.complexes import imag, real
from gradtape.ops.families import Sample, batching, cast
from gradtape.ops.families.elementwise import zeros_like
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, reduce_to
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand, kind_of_operands
from gradtape.ops.families.sparsity import RuleInput, agreeing
from gradtape.ops.matrices import checks, lapack_calls, operation_counts
from gradtape.ops.matrices.contraction import (
    adjoint,
    as_columns,
    conjugate,
    entry,
    from_columns,
    matmul,
    own,
)
from gradtape.ops.matrices.factors import (
    det_by_factors,
    determinant,
    inverse_by_factors,
    slogdet_by_factors,
    solve_by_factors,
    spread,
)
from gradtape.ops.matrices.sparse_solve import sparse_solve
from gradtape.ops.matrices.spectral import SVD_OP
from gradtape.ops.reductions.reduction import prod, sum
from gradtape.records import described
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode


def _system_spec(name: str, a: Spec, b: Spec) -> Spec:
    checks.require_square(name, a)
    checks.require_matrix(name, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name}: shapes {a.shape} and {b.shape} do not match (axis {a.ndim - 1}: "
            f"{a.shape[-1]}, axis {b.ndim - 2}: {b.shape[-2]}). "
            "The right-hand side needs a row for each row of the matrix."
        )
    batch = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    return spec(batch + b.shape[-2:], a.dtype)


def _system_samples(name: str, **params: Any) -> list[Sample]:
    found = []
    for dtype in checks.DTYPES:
        shapes: tuple[Shape, ...] = ((3, 3), (2, 2, 2), (2, 2), (2, 1, 2, 2), (0, 0), (3, 3))
        sides: tuple[Shape, ...] = ((3, 2), (2, 2, 1), (3, 2, 2), (3, 2, 1), (0, 2), (3, 0))
        matrices = checks.sample_matrices(name, shapes, (dtype,))
        right = checks.sample_matrices(name + " right", sides, (dtype,))
        found += [Sample((a, b), params) for a, b in zip(matrices, right, strict=True)]
    return found


def _system_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    """Factor a matrix that all examples share once, with their right-hand sides as columns."""
    a, b = inputs
    if not batched[0] and a.ndim == 2:
        return from_columns(apply(y.op, (a, as_columns(b)), y.params), (b.shape[0], *y.shape))
    return apply(y.op, batching.aligned(inputs, batched, y.ndim), y.params)


def _system_sparsity(y: Node, operands: tuple[RuleInput, ...], **_: Any) -> tuple[Any, ...]:
    """A column of the solution reads the whole matrix and one column of the right-hand side."""
    a, b = operands

    def stacked(operand: RuleInput) -> list[tuple[int, int]]:
        return [(at, y.ndim - operand.ndim + at) for at in range(operand.ndim - 2)]

    columns = [*stacked(b), (b.ndim - 1, y.ndim - 1)]
    return (
        agreeing(a.shape, y.shape, stacked(a)) if a.active else None,
        agreeing(b.shape, y.shape, columns) if b.active else None,
    )


def _part_read(x: TensorOrNode, lower: bool | None, unit_diagonal: bool) -> TensorOrNode:
    """The part of a matrix that a solve reads: all of it, or a triangle."""
    if lower is None:
        return x
    beside = 1 if unit_diagonal else 0
    return tril(x, k=-beside) if lower else triu(x, k=beside)


def _system_jvp(
    tangents: Sequence[Node | None],
    y: Node,
    inputs: tuple[Node, ...],
    lower: bool | None = None,
    unit_diagonal: bool = False,
) -> Node:
    da, db = tangents
    right = db
    if da is not None:
        change = matmul(_part_read(da, lower, unit_diagonal), y)
        right = -change if db is None else db - change
    return record(y.op, (inputs[0], right), y.params)


def _system_vjp(
    index: int,
    g: Node,
    y: Node,
    inputs: tuple[Node, ...],
    lower: bool | None = None,
    unit_diagonal: bool = False,
) -> Node:
    params = () if lower is None else (not lower, unit_diagonal)
    back = record(y.op, (adjoint(inputs[0]), g), params)
    if index == 0:
        back = -_part_read(matmul(back, adjoint(y)), lower, unit_diagonal)
    return reduce_to(back, inputs[index].shape)


def by_columns(solve: Callable[[Any], Any], b: Any) -> Any:
    """Solve for one vector, or for a stack of matrices of columns."""
    if b.ndim != 1:
        return solve(b)
    found = solve(checks.as_column(b))
    return own(movement.reshape(found, found.shape[:-1]))


SOLVE = checks.of_matrices(
    "solve",
    lambda a, b: _system_spec("solve", a, b),
    np.linalg.solve,
    failure=checks.SINGULAR,
    jvp=_system_jvp,
    vjp=_system_vjp,
    mask=checks.batch_mask(2),
    batch=_system_batch,
    sparsity=_system_sparsity,
    composition=solve_by_factors,
    flops=operation_counts.of_systems(lambda n: 2.0 * n * n, operation_counts.lu),
    solves=True,
    samples=lambda: _system_samples("solve"),
)


@kind_of_operands
def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The x for which x1 @ x = x2; a 1-d x2 is one vector, else x2 is a stack of matrices.

    >>> gt.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]).tolist()
    [1.0, 1.0]

    If x1 is a matrix of `scipy.sparse`, `sparse_solve` computes the result.
    """
    if hasattr(x1, "tocsr"):
        return sparse_solve(x1, x2)
    a, b = record_operand(x1), record_operand(x2)
    return by_columns(lambda columns: record(SOLVE, (a, columns)), b)


def _triangular_kernel(
    a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool
) -> np.ndarray:
    diagonals = np.diagonal(a, axis1=-2, axis2=-1)
    zeros = np.any(diagonals == 0, axis=tuple(range(a.ndim - 2)))
    if b.size and zeros.any() and not unit_diagonal:
        raise MatrixError(
            f"triangular_solve: a matrix is singular (0 at position {int(np.argmax(zeros))} of its "
            "diagonal). Add a multiple of the identity, or use gt.linalg.lstsq."
        )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    right = np.broadcast_to(b, batch + b.shape[-2:])
    return _substituted(a, right, lower, unit_diagonal) if b.size else right


def _substituted(a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool) -> np.ndarray:
    """Triangular solutions by halves, for all matrices of a stack at once."""
    if b.shape[-2] == 1:
        return b if unit_diagonal else b / a
    parts = slice(None, b.shape[-2] // 2), slice(b.shape[-2] // 2, None)
    first, last = parts if lower else parts[::-1]
    x = np.empty_like(b)
    x[..., first, :] = _substituted(a[..., first, first], b[..., first, :], lower, unit_diagonal)
    rest = b[..., last, :] - a[..., last, first] @ x[..., first, :]
    x[..., last, :] = _substituted(a[..., last, last], rest, lower, unit_diagonal)
    return x


def _triangular_composition(a: Node, b: Node, lower: bool, unit_diagonal: bool) -> Node | None:
    """The same with stacks as routines take them."""
    if not b.size:
        return None
    batch = broadcast_shapes("triangular_solve", [a.shape[:-2], b.shape[:-2]])
    operands = spread(a, batch, 2), spread(b, batch, 2)
    return apply(TRIANGULAR_SOLVE, operands, (lower, unit_diagonal))


TRIANGULAR_SOLVE = checks.of_matrices(
    "triangular_solve",
    lambda a, b, lower, unit_diagonal: _system_spec("triangular_solve", a, b),
    _triangular_kernel,
    params=("lower", "unit_diagonal"),
    jvp=_system_jvp,
    vjp=_system_vjp,
    mask=checks.batch_mask(2),
    batch=_system_batch,
    sparsity=_system_sparsity,
    solves=True,
    flops=operation_counts.of_systems(lambda n: 1.0 * n * n),
    may_fail=True,
    composition=_triangular_composition,
    native=lapack_calls.triangular_solve,
    samples=lambda: [
        *_system_samples("triangular_solve", lower=True, unit_diagonal=False),
        *_system_samples("triangular_solve", lower=False, unit_diagonal=True),
    ],
)


@kind_of_operand
def triangular_solve(
    x1: TensorLike, x2: TensorLike, /, *, lower: bool = True, unit_diagonal: bool = False
) -> Tensor:
    """The x for which x1 @ x = x2, where only one triangle of x1 is read.

    >>> gt.linalg.triangular_solve([[2.0, 9.0], [1.0, 1.0]], [2.0, 3.0]).tolist()
    [1.0, 2.0]
    """
    a, b = record_operand(x1), record_operand(x2)
    params = (bool(lower), bool(unit_diagonal))
    return by_columns(lambda columns: record(TRIANGULAR_SOLVE, (a, columns), params), b)


INV = checks.of_matrices(
    "inv",
    checks.square_spec("inv"),
    np.linalg.inv,
    failure=checks.SINGULAR,
    jvp=lambda tangents, y, inputs: -matmul(matmul(y, tangents[0]), y),
    vjp=lambda index, g, y, inputs: -matmul(matmul(adjoint(y), g), adjoint(y)),
    mask=checks.batch_mask(2),
    composition=inverse_by_factors,
    solves=True,
    flops=operation_counts.of_matrices(operation_counts.inverse),
)


@kind_of_operand
def inv(x: TensorLike, /) -> Tensor:
    """The inverse of square matrices. To apply it to something, `solve` is faster and exacter.

    >>> gt.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return record(INV, (x,))


def _cofactor_kernel(x: np.ndarray) -> np.ndarray:
    """det(x) x⁻ᵀ by the SVD, also for singular x: products of all singular values but one."""
    if not x.size:
        return np.zeros_like(x)
    u, s, vh = np.linalg.svd(x)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), s.dtype.type(1), s[..., None, :]).prod(-1)
    signs = np.linalg.det(u) * np.linalg.det(vh)
    scaled = (np.conj(u) * (signs[..., None, None] * others[..., None, :])) @ np.conj(vh)
    return scaled.astype(x.dtype, copy=False)


def _small_cofactors(x: Node) -> Node:
    """The cofactors of matrices of order 2 or 3, as products of elements."""
    n, row = x.shape[-1], x.ndim - 2

    def element(i: int, j: int) -> Node:
        return entry(entry(x, row, i), row + 1, j)

    def minor(i: int, j: int) -> Node:
        # Rows and columns in cyclic order have the sign of the cofactor already.
        a, b = ((i + 1) % n, (i + 2) % n), ((j + 1) % n, (j + 2) % n)
        if n == 2:
            found = element(a[0], b[0])
            return found if i == j else -found
        product = element(a[0], b[0]) * element(a[1], b[1])
        return product - element(a[0], b[1]) * element(a[1], b[0])

    rows = [apply(CONCAT, tuple(minor(i, j) for j in range(n)), (row + 1,)) for i in range(n)]
    return apply(CONCAT, tuple(rows), (row,))


def _cofactor_composition(x: Node) -> Node | None:
    """Products of elements for orders 2 and 3, else the kernel in ops."""
    if x.size and x.shape[-1] in (2, 3):
        return _small_cofactors(x)
    if not x.size or x.dtype.name not in blas_lapack.LETTERS:
        return None
    u, s, vh = outputs(apply(SVD_OP, (x,), (False,)))
    row = broadcast_to(checks.as_row(s), (*s.shape, s.shape[-1]))
    on_diagonal = equal(checks.identity_like(row), 1)
    others = prod(where(on_diagonal, 1.0, row), axis=-1)
    signs = movement.reshape(determinant(u) * determinant(vh), (*x.shape[:-2], 1, 1))
    scale = signs * cast(checks.as_row(others), x.dtype)
    return matmul(conjugate(u) * scale, conjugate(vh))


def _cofactor_jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...]) -> Node:
    # det(x) (tr(x⁻¹ dx) x⁻ᵀ - (x⁻¹ dx x⁻¹)ᵀ): a second derivative needs the inverse.
    (x,), (dx,) = inputs, tangents
    inverse = record(INV, (x,))
    moved = matmul(inverse, dx)
    trace = sum(moved * checks.identity_like(moved), axis=(-2, -1), keepdims=True)
    change = trace * inverse - matmul(moved, inverse)
    size = movement.reshape(record(DET, (x,)), (*x.shape[:-2], 1, 1))
    return size * movement.matrix_transpose(change)


COFACTOR = checks.of_matrices(
    "cofactor",
    checks.square_spec("cofactor"),
    _cofactor_kernel,
    jvp=_cofactor_jvp,
    mask=checks.batch_mask(2),
    flops=operation_counts.of_matrices(operation_counts.cofactors),
    composition=_cofactor_composition,
)


def _det_spec(x: Spec) -> Spec:
    checks.require_square("det", x)
    return spec(x.shape[:-2], x.dtype)


def _det_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...]) -> Node:
    scale = movement.reshape(g, (*g.shape, 1, 1))
    return scale * conjugate(record(COFACTOR, inputs))


DET = checks.of_matrices(
    "det",
    _det_spec,
    lambda x: np.asarray(np.linalg.det(x)),
    jvp=lambda tangents, y, inputs: sum(record(COFACTOR, inputs) * tangents[0], axis=(-2, -1)),
    vjp=_det_vjp,
    mask=checks.batch_mask(0),
    flops=operation_counts.of_matrices(operation_counts.lu),
    composition=det_by_factors,
)


@kind_of_operand
def det(x: TensorLike, /) -> Tensor:
    """The determinant of square matrices; its first derivative exists at singular ones too.

    >>> round(float(gt.linalg.det([[2.0, 0.0], [0.0, 4.0]])), 6)
    8.0
    """
    return record(DET, (x,))


@described(
    sign="The sign of the determinant, or its phase.",
    logabsdet="The logarithm of its absolute value.",
)
class Slogdet(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant.

    >>> float(gt.linalg.slogdet([[-1.0, 0.0], [0.0, 1.0]]).sign)
    -1.0
    """

    sign: Tensor
    logabsdet: Tensor


def _slogdet_spec(x: Spec) -> tuple[Spec, Spec]:
    checks.require_square("slogdet", x)
    return spec(x.shape[:-2], x.dtype), spec(x.shape[:-2], as_dtype(REAL_OF[x.dtype]))


def _slogdet_jvp(
    tangents: tuple[Node, ...], y: tuple[Node, ...], inputs: tuple[Node, ...]
) -> tuple[Node, Node]:
    # The trace of a product, computed without the product.
    change = sum(movement.matrix_transpose(record(INV, inputs)) * tangents[0], axis=(-2, -1))
    if change.dtype.kind == "f":
        return zeros_like(y[0]), change
    # The real part of d log(det) changes the absolute value, the imaginary part the phase.
    return y[0] * (cast(imag(change), change.dtype) * 1j), real(change)


SLOGDET = checks.of_matrices(
    "slogdet",
    _slogdet_spec,
    lambda x: tuple(map(np.asarray, np.linalg.slogdet(x))),
    jvp=_slogdet_jvp,
    composition=slogdet_by_factors,
    flops=operation_counts.of_matrices(operation_counts.lu),
)


def slogdet(x: TensorLike, /) -> Slogdet:
    """Sign and logarithm of the absolute value of the determinant, without overflow.

    >>> float(gt.linalg.slogdet([[1.0, 0.0], [0.0, 1.0]]).logabsdet)
    0.0

    Of a singular matrix they are 0 and minus infinity, and the derivative raises LinAlgError.
    """
    return Slogdet(*checks.outputs_of(record(SLOGDET, (x,))))


@kind_of_operand
def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """A square matrix times itself n times; a negative n inverts first.

    >>> gt.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    x = record_operand(x)
    checks.require_square("matrix_power", spec(tuple(x.shape), x.dtype))
    exponent = operator.index(n)
    if exponent == 0:
        nothing = constant_beside(x, FULL, (tuple(x.shape), 0, x.dtype))
        return nothing + checks.identity_like(x)
    if exponent == 1:
        return identity(x)
    if exponent < 0:
        x, exponent = inv(x), -exponent
    result: Any = None
    while exponent:
        if exponent & 1:
            result = x if result is None else matmul(result, x)
        exponent >>= 1
        x = matmul(x, x) if exponent else x
    return result
