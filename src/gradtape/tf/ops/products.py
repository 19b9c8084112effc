"""Matrix products and contractions, and norms and clipping by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports
from gradtape.ops.matrices import contraction, einsum as contractions, products
from gradtape.ops.matrices.matrix_functions import matrix_norm
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import as_axes, common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.operators import beside
from gradtape.tf.base.slices import IndexedSlices
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Axis, DTypeLike, Name, TensorLike
from gradtape.trace.recording import state
from gradtape.typing import NonNegative

__all__ = [
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "einsum",
    "global_norm",
    "l2_normalize",
    "matmul",
    "matvec",
    "norm",
    "tensordot",
]


def _oriented(x: Tensor, transpose: bool, adjoint: bool) -> Tensor:
    if transpose and adjoint:
        raise ValueError("matmul: a matrix can be transposed or adjoint, not both.")
    if not (transpose or adjoint):
        return x
    transposed = gt.matrix_transpose(x)
    return gt.conj(transposed) if adjoint and x.spec.dtype.kind == "c" else transposed


@operation
def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DTypeLike | None = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: Name = None,
) -> Tensor:
    """The product of matrices in the last two axes; others broadcast.

    >>> tf.matmul([[1.0, 2.0]], [[3.0, 4.0]], transpose_b=True).numpy().tolist()
    [[11.0]]
    """
    a, b = common([a, b], "matmul")
    if output_type is not None:
        a, b = cast(a, output_type), cast(b, output_type)
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(
            f"matmul: operands of shape {a.shape} and {b.shape}: both need two axes or more. Use "
            "tf.linalg.matvec or tf.tensordot."
        )
    return contraction.matmul(
        _oriented(a, transpose_a, adjoint_a), _oriented(b, transpose_b, adjoint_b)
    )


@operation
def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: Name = None,
) -> Tensor:
    """The product of matrices with vectors in the last axis; others broadcast.

    >>> tf.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy().tolist()
    [3.0, 7.0]
    """
    a, b = common([a, b], "matvec")
    if a.ndim < 2 or not b.ndim:
        raise ShapeError(f"matvec: {a.shape} and {b.shape} are not a matrix and a vector.")
    return contraction.matmul(_oriented(a, transpose_a, adjoint_a), b[..., None])[..., 0]


@operation
def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: Name = None) -> Tensor:
    """Sum of products over the last `axes` axes of a and the first of b, or over pairs of axes.

    >>> tf.tensordot([[1.0, 2.0]], [3.0, 4.0], axes=1).numpy().tolist()
    [11.0]
    """
    a, b = common([a, b], "tensordot")
    if np.ndim(axes) == 0:
        return products.tensordot(a, b, axes=axes)
    left, right = (np.atleast_1d(np.asarray(side)).tolist() for side in axes)
    return products.tensordot(a, b, axes=(tuple(left), tuple(right)))


@operation
def einsum(equation: str, *inputs: TensorLike, **kwargs: object) -> Tensor:
    """Sum of products named by subscripts, as in "ij,jk->ik".

    >>> tf.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy().tolist()
    [3.0, 7.0]
    """
    unknown = set(kwargs) - {"name", "optimize"}
    if unknown:
        raise TypeError(f"einsum: unknown arguments {sorted(unknown)}.")
    return adopt(contractions.einsum(equation, *common(inputs, "einsum")))


@operation
def norm(
    tensor: TensorLike,
    ord: float | str = "euclidean",
    axis: Axis = None,
    keepdims: bool | None = None,
    name: Name = None,
) -> Tensor:
    """The norm of vectors along an axis, of matrices along two, or of all elements.

    >>> tf.norm([3.0, 4.0]).numpy().item(), tf.norm([3.0, -4.0], ord=1).numpy().item()
    (5.0, 7.0)
    """
    x = convert(tensor)
    if x.spec.dtype.kind not in "fc":
        raise DtypeError(f"norm: a tensor of dtype {x.dtype.name} has no norm. Use tf.cast first.")
    # TensorFlow gives the norm of complex numbers as a complex number.
    return cast(_norm(x, ord, as_axes(axis), bool(keepdims)), x.spec.dtype)


def _norm(x: Tensor, ord: float | str, axes: int | tuple[int, ...] | None, keep: bool) -> Tensor:
    if isinstance(axes, tuple) and len(axes) == 2:
        if ord in ("euclidean", "fro"):
            return gt.norm(x, 2, axes, keep)
        moved = gt.moveaxis(x, axes, (-2, -1))
        result = matrix_norm(moved, ord=ord, keepdims=keep)
        return gt.moveaxis(result, (-2, -1), axes) if keep else result
    if ord == "fro":
        raise ValueError("norm: 'fro' is a norm of matrices. Give two axes.")
    return gt.norm(x, 2 if ord == "euclidean" else ord, axes, keep)


@operation
def l2_normalize(
    x: TensorLike,
    axis: Axis = None,
    epsilon: NonNegative = 1e-12,
    name: Name = None,
    dim: Axis = None,
) -> Tensor:
    """Vectors along axes divided by their length, which is at least the root of epsilon.

    >>> tf.math.l2_normalize([3.0, 4.0]).numpy().round(4)
    array([0.6, 0.8], dtype=float32)
    """
    x = convert(x)
    if x.spec.dtype.kind not in "fc":
        raise DtypeError(f"l2_normalize: dtype {x.dtype.name} is not accepted. Use tf.cast first.")
    axes = as_axes(dim if axis is None else axis)
    size = gt.square(x) if x.spec.dtype.kind == "f" else gt.square(x.real) + gt.square(x.imag)
    factor = gt.rsqrt(gt.maximum(gt.sum(size, axis=axes, keepdims=True), epsilon))
    return x * cast(factor, x.spec.dtype)


@operation
def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: Name = None
) -> Tensor:
    """The values clipped to two bounds.

    >>> tf.clip_by_value([-1.0, 0.5, 2.0], 0, 1).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    if isinstance(t, IndexedSlices):
        values = clip_by_value(t.values, clip_value_min, clip_value_max)
        return IndexedSlices(values, t.indices, t.spec.shape)
    x = convert(t)
    low = beside("clip_by_value", x, clip_value_min)
    high = beside("clip_by_value", x, clip_value_max)
    # The lower bound holds even above the upper one.
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    result = gt.clip(x, low, max(low, high) if numbers else gt.maximum(low, high))
    if result.spec.shape != x.spec.shape:
        raise ShapeError(f"clip_by_value: the bounds stretch shape {x.shape} to {result.shape}.")
    return result


@operation
def clip_by_norm(
    t: TensorLike, clip_norm: TensorLike, axes: Axis = None, name: Name = None
) -> Tensor:
    """The tensor, scaled down to a norm if its own is larger.

    >>> tf.clip_by_norm([3.0, 4.0], 1.0).numpy().round(4)
    array([0.6, 0.8], dtype=float32)
    """
    slices = t if isinstance(t, IndexedSlices) else None
    x = convert(t if slices is None else slices.values)
    size = gt.norm(x, 2, as_axes(axes), True)
    bound = beside("clip_by_norm", x, clip_norm)
    result = x * bound / gt.maximum(size, bound)
    if slices is None:
        return result
    return IndexedSlices(result, slices.indices, slices.spec.shape)


@operation
def global_norm(t_list: Iterable[TensorLike | None], name: Name = None) -> Tensor:
    """The norm of all elements of several tensors; None entries are left out.

    >>> tf.linalg.global_norm([[3.0], [4.0]]).numpy().item()
    5.0
    """
    parts = [convert(getattr(t, "values", t)) for t in t_list if t is not None]
    squares = [gt.sum(gt.square(part)) for part in parts]
    result = squares[0]
    for each in squares[1:]:
        result = result + each
    return gt.where(gt.equal(result, 0.0), 0.0, gt.sqrt(result)) if state.tapes else gt.sqrt(result)


@operation
def clip_by_global_norm(
    t_list: Sequence[TensorLike | None],
    clip_norm: TensorLike,
    use_norm: TensorLike | None = None,
    name: Name = None,
) -> tuple[list[Tensor | None], Tensor]:
    """Tensors, scaled down by one factor if their common norm is larger, and that norm.

    >>> clipped, norm = tf.clip_by_global_norm([[3.0], [4.0]], 1.0)
    >>> [t.numpy().round(4).item() < 1.0 for t in clipped], norm.numpy().item()
    ([True, True], 5.0)
    """
    size = global_norm(t_list) if use_norm is None else convert(use_norm)
    bound = beside("clip_by_global_norm", size, clip_norm)
    factor = bound * gt.minimum(1.0 / size, 1.0 / bound)
    # A norm that is not finite makes every result NaN, as in TensorFlow, so that it is noticed.
    factor = gt.where(gt.isfinite(size), factor, float("nan"))
    return [None if t is None else _scaled(t, factor) for t in t_list], size


def _scaled(t: TensorLike, factor: Tensor) -> Tensor:
    if isinstance(t, IndexedSlices):
        return IndexedSlices(t.values * factor, t.indices, t.spec.shape)
    return convert(t) * factor


check_exports(globals(), __all__)
