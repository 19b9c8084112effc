"""Functions of matrices: pseudo-inverse, exponential, rank, trace, norms, and the cross product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.dtypes import to_inexact
from gradtape.errors import ShapeError
from gradtape.ir import Node, Op, Shape, Spec, Undefined, apply, declare, outputs, spec
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.creation import FULL, constant_beside
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.arrays.triangles import diagonal as diagonals
from gradtape.ops.blas_lapack import LETTERS
from gradtape.ops.elementwise.arithmetic import greater, record_operand, where
from gradtape.ops.elementwise.complexes import abs
from gradtape.ops.families import batching, cast, independence, promotion
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, normalize_axis, reduce_to
from gradtape.ops.families.signatures import Axes, DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import Reads, RuleInput, agreeing, each, nothing
from gradtape.ops.matrices import checks, lapack_calls, operation_counts
from gradtape.ops.matrices.contraction import adjoint, bilinear_jvp, conjugate, matmul, own
from gradtape.ops.matrices.linalg import by_columns
from gradtape.ops.matrices.product_difference import cross_by_components
from gradtape.ops.matrices.spectral import SVD_OP, SVDVALS, svdvals
from gradtape.ops.reductions.extrema import max, min
from gradtape.ops.reductions.norm import norm
from gradtape.ops.reductions.reduction import any, sum
from gradtape.trace.record import record


def _relative(name: str, x: Any, rtol: Any) -> Any:
    """The tolerance as a hashable param: None, a number, or nested tuples (one per matrix)."""
    if rtol is None or isinstance(rtol, (int, float)):
        return None if rtol is None else float(rtol)
    # Params are part of the node and need values, so a tensor of tolerances is computed here.
    values = np.asarray(rtol.numpy() if hasattr(rtol, "result_class") else rtol, np.float64)
    batch = tuple(x.shape[:-2])
    if broadcast_shapes(name, [batch, values.shape]) != batch:
        raise ShapeError(
            f"{name}: rtol of shape {values.shape} is more than one for each matrix of {x.shape}. "
            f"Give one number, or numbers of shape {batch}."
        )

    def nest(items: Any) -> Any:
        return tuple(nest(item) for item in items) if isinstance(items, list) else items

    # An empty stack needs no tolerance, and empty tuples would lose its shape.
    return nest(values.tolist()) if values.size else None


def _pinv_spec(x: Spec, rtol: Any) -> Spec:
    checks.require_matrix("pinv", x)
    *batch, rows, columns = x.shape
    return spec((*batch, columns, rows), x.dtype)


def _tolerance(x: Any, rtol: Any) -> Any:
    """The array API's tolerance: singular values below this share of the largest count as 0."""
    if rtol is None:
        return np.max(x.shape[-2:], initial=0) * np.finfo(x.dtype).eps
    return np.asarray(rtol)


def _counts(x: Node, values: Node, rtol: Any) -> Node | None:
    """A mask of the singular values that count; None if each matrix has its own tolerance."""
    if isinstance(rtol, tuple) or not x.size or x.dtype.name not in LETTERS:
        return None
    limit = max(values, axis=-1, keepdims=True) * float(_tolerance(x, rtol))
    return greater(values, limit)


def _pinv_composition(x: Node, rtol: Any) -> Node | None:
    u, s, vh = outputs(apply(SVD_OP, (x,), (False,)))
    counts = _counts(x, s, rtol)
    if counts is None:
        return None
    inverse = where(counts, 1.0 / where(counts, s, 1.0), 0.0)
    return matmul(adjoint(vh), cast(checks.as_column(inverse), x.dtype) * adjoint(u))


def _rank_composition(x: Node, rtol: Any) -> Node | None:
    values = apply(SVDVALS, (x,))
    counts = _counts(x, values, rtol)
    return None if counts is None else sum(cast(counts, np.dtype(np.int64)), axis=-1)


def _pinv_jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...], rtol: Any) -> Node:
    # The rule of Golub and Pereyra (1973) is exact while the rank stays the same.
    (x,), (dx,) = inputs, tangents
    back = adjoint(dx)
    rows = matmul(back, matmul(x, y))
    columns = matmul(matmul(y, x), back)
    outside_rows = matmul(matmul(y, adjoint(y)), back - rows)
    outside_columns = matmul(back - columns, matmul(adjoint(y), y))
    return outside_rows + outside_columns - matmul(matmul(y, dx), y)


def _pinv_samples() -> list[Sample]:
    shapes: tuple[Shape, ...] = ((3, 2), (2, 3), (2, 2, 2), (2, 0), (0, 0))
    found = [Sample((x,), {"rtol": None}) for x in checks.sample_matrices("pinv", shapes)]
    deficient = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    return [*found, Sample((deficient,), {"rtol": 1e-10}, order=0)]


PINV = checks.of_matrices(
    "pinv",
    _pinv_spec,
    lambda x, rtol: np.linalg.pinv(x, rcond=_tolerance(x, rtol)),
    failure=checks.NOT_CONVERGED,
    params=("rtol",),
    jvp=_pinv_jvp,
    mask=checks.batch_mask(2),
    flops=operation_counts.of_matrices(operation_counts.pseudo_inverse),
    composition=_pinv_composition,
    samples=_pinv_samples,
)


@kind_of_operand
def pinv(x: TensorLike, /, rtol: TensorLike | None = None) -> Tensor:
    """The Moore-Penrose pseudo-inverse; singular values below rtol times the largest count as 0.

    >>> gt.linalg.pinv([[2.0], [0.0]]).tolist()
    [[0.5, 0.0]]

    Its derivative is that of matrices of the same rank.
    """
    x = record_operand(x)
    return record(PINV, (x,), (_relative("pinv", x, rtol),))


@kind_of_operand
def lstsq(x1: TensorLike, x2: TensorLike, /, rtol: TensorLike | None = None) -> Tensor:
    """The shortest x for which x1 @ x is nearest to x2.

    >>> round(gt.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).item(), 6)
    2.0
    """
    a, b = record_operand(x1), record_operand(x2)
    inverse = pinv(a, rtol=rtol)
    return by_columns(lambda columns: matmul(inverse, columns), b)


def _expm_kernel(x: np.ndarray) -> np.ndarray:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy.linalg import expm as exponential

    return np.asarray(exponential(x)).astype(x.dtype, copy=False) if x.size else x


def _expm_along(x: Node, direction: Node) -> Node:
    """The derivative of expm along a direction: a corner of expm([[x, direction], [0, x]])."""
    n = x.shape[-1]
    nothing = constant_beside(x, FULL, (x.shape, 0, x.dtype))
    upper, lower = concat([x, direction], axis=-1), concat([nothing, x], axis=-1)
    whole = expm(concat([upper, lower], axis=-2))
    corner = along_axis(whole, whole.ndim - 2, 0, n)
    return along_axis(corner, whole.ndim - 1, n, n)


EXPM = checks.of_matrices(
    "expm",
    checks.square_spec("expm"),
    _expm_kernel,
    jvp=lambda tangents, y, inputs: _expm_along(inputs[0], tangents[0]),
    vjp=lambda index, g, y, inputs: _expm_along(adjoint(inputs[0]), g),
    mask=checks.batch_mask(2),
    flops=operation_counts.of_matrices(operation_counts.exponential),
    native=lapack_calls.expm,
    samples=lambda: [
        Sample((x * np.array(0.2, x.dtype),))
        for x in checks.sample_matrices("expm", ((2, 2), (2, 3, 3), (0, 0)))
    ],
)


@kind_of_operand
def expm(x: TensorLike, /) -> Tensor:
    """The exponential of square matrices.

    >>> gt.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return record(EXPM, (x,))


def _rank_spec(x: Spec, rtol: Any) -> Spec:
    checks.require_matrix("matrix_rank", x)
    return spec(x.shape[:-2], np.dtype(np.int64))


def _rank_kernel(x: np.ndarray, rtol: Any) -> np.ndarray | np.int64:
    values = np.linalg.svd(x, compute_uv=False)
    largest = np.max(values, axis=-1, keepdims=True, initial=0)
    limit = largest * _tolerance(x, rtol)[..., None]
    return np.sum(values > limit, axis=-1, dtype=np.int64)


MATRIX_RANK = checks.of_matrices(
    "matrix_rank",
    _rank_spec,
    _rank_kernel,
    params=("rtol",),
    jvp=Undefined("a rank is an integer"),
    vjp=Undefined("a rank is an integer"),
    flops=operation_counts.of_matrices(operation_counts.singular_values),
    sparsity=nothing,
    composition=_rank_composition,
    samples=lambda: [
        Sample((x,), {"rtol": None}, order=0)
        for x in checks.sample_matrices("matrix_rank", ((3, 2), (2, 2, 2), (0, 2)))
    ],
)


@kind_of_operand
def matrix_rank(x: TensorLike, /, rtol: TensorLike | None = None) -> Tensor:
    """The number of singular values that exceed rtol times the largest.

    >>> int(gt.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]]))
    1
    """
    x = record_operand(x)
    return record(MATRIX_RANK, (x,), (_relative("matrix_rank", x, rtol),))


@kind_of_operand
def diagonal(x: TensorLike, /, offset: int = 0) -> Tensor:
    """The offset-th diagonal of the last two axes.

    >>> gt.linalg.diagonal(gt.asarray([[1, 2], [3, 4]]), offset=1).tolist()
    [2]
    """
    return diagonals(x, offset=offset)


@kind_of_operand
def trace(x: TensorLike, /, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum along a diagonal of the last two axes.

    >>> int(gt.linalg.trace(gt.asarray([[1, 2], [3, 4]])))
    5
    """
    return sum(diagonals(x, offset=offset), axis=-1, dtype=dtype)


@kind_of_operand
def vector_norm(
    x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """A norm over axes, all by default; its derivative is 0 where it is 0.

    >>> float(gt.linalg.vector_norm([3.0, 4.0]))
    5.0
    """
    return norm(x, ord, axis, keepdims)


@kind_of_operand
def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """A norm of the matrices in the last two axes: "fro", "nuc", 1, 2, inf, or their negatives.

    >>> float(gt.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    >>> float(gt.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord=2))
    4.0
    """
    x = record_operand(x)
    checks.require_matrix("matrix_norm", spec(tuple(x.shape), x.dtype))
    x = cast(x, to_inexact(x.dtype)) if x.dtype.kind not in "fc" else x
    if ord == "fro":
        return norm(x, 2, (x.ndim - 2, x.ndim - 1), keepdims)
    of_singular_values: dict[Any, Any] = {"nuc": sum, 2: max, -2: min}
    if ord in (*of_singular_values,):
        found = of_singular_values[ord](svdvals(x), axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        # The largest or smallest sum of absolute values of a column (1) or row (infinity).
        found = (max if ord > 0 else min)(sum(abs(x), axis=-2 if ord in (1, -1) else -1), axis=-1)
    else:
        raise ValueError(
            f"matrix_norm: ord {ord!r} is not known. Use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."
        )
    return own(movement.reshape(found, (*found.shape, 1, 1))) if keepdims else found


def _cross_spec(a: Spec, b: Spec, axis: int) -> Spec:
    for operand in (a, b):
        if operand.ndim < -axis or operand.shape[axis] != 3:
            raise ShapeError(
                f"cross: shapes {a.shape} and {b.shape} do not both have length 3 "
                f"along axis {axis}. "
                "A cross product needs three components."
            )
    return spec(broadcast_shapes("cross", [a.shape, b.shape]), a.dtype)


def _cross_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], axis: int) -> Node:
    a, b = inputs
    pair = (conjugate(b), g) if index == 0 else (g, conjugate(a))
    return reduce_to(record(CROSS, pair, (axis,)), inputs[index].shape)


def _cross_mask(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], axis: int) -> Node:
    """A mask rule with one bit per vector: a cross product mixes the components."""
    bits = broadcast_to(any(mask, axis=axis, keepdims=True), y.shape)
    return reduce_to(bits, inputs[index].shape, "any")


def _cross_reads(operand: RuleInput, result: Spec, axis: int) -> Reads:
    """An element reads one whole vector of the operand; `axis` counts from the end."""
    lead = result.ndim - operand.ndim
    mixed = operand.ndim + axis
    pairs = [(at, lead + at) for at in range(operand.ndim) if at != mixed]
    return agreeing(operand.shape, result.shape, pairs)


def _cross_samples() -> list[Sample]:
    rng = generator("cross")
    cases: list[tuple[Shape, Shape, int]] = [
        ((3,), (3,), -1),
        ((2, 3), (3,), -1),
        ((3, 1), (2, 3, 2), -2),
        ((0, 3), (0, 3), -1),
    ]
    return [
        Sample((uniform(rng, (-2, 2), a, dtype), uniform(rng, (-2, 2), b, dtype)), {"axis": axis})
        for dtype in ("float64", "complex128", "float32", "int32")
        for a, b, axis in cases
    ]


CROSS = declare(
    Op(
        "cross",
        "contraction",
        params=("axis",),
        spec=_cross_spec,
        numpy=lambda a, b, axis: np.cross(a, b, axis=axis),
        promote=promotion("cross", "same", "numeric"),
        jvp=bilinear_jvp,
        vjp=_cross_vjp,
        mask=_cross_mask,
        batch=batching.broadcasting,
        examples=independence.crossed,
        sparsity=each(_cross_reads),
        composition=cross_by_components,
        expensive=True,
        samples=_cross_samples,
    )
)


@kind_of_operand
def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three components; other axes broadcast.

    >>> gt.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = record_operand(x1), record_operand(x2)
    ndim = a.ndim if a.ndim > b.ndim else b.ndim
    return record(CROSS, (a, b), (normalize_axis("cross", axis, ndim) - ndim,))
