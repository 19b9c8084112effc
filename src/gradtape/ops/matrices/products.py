"""Products by name: tensordot, vecdot, inner, outer, kron and dot, each a contraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

import numpy as np

from gradtape.argument_checks import as_integer
from gradtape.errors import ShapeError, shown
from gradtape.ops.arrays import movement
from gradtape.ops.elementwise.arithmetic import multiply, record_operand
from gradtape.ops.families.shapes import broadcast_shapes, listed, normalize_axis
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand, kind_of_operands
from gradtape.ops.matrices.contraction import check_equal_lengths, conjugate, matmul, own
from gradtape.ops.matrices.einsum import contract
from gradtape.suggestions import unexpected_arguments

AxisPair = tuple[Sequence[int], Sequence[int]]


@kind_of_operand
def tensordot(
    x1: TensorLike, x2: TensorLike, /, axes: int | AxisPair = 2, *more: Never, **unknown: Never
) -> Tensor:
    """Sum of products over the last `axes` axes of x1 and the first of x2, or over pairs of axes.

    >>> gt.tensordot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], axes=1).tolist()
    [3.0, 7.0]
    >>> gt.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], axes=((0, 1), (0, 1))).tolist()
    5
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    a, b = record_operand(x1), record_operand(x2)
    pairs = _axis_pairs(a, b, axes)
    check_equal_lengths("tensordot", a, b, pairs)
    left = [f"a{axis}" for axis in range(a.ndim)]
    right = [f"b{axis}" for axis in range(b.ndim)]
    for first, second in pairs:
        right[second] = left[first]
    output = [label for label in left if label not in right]
    output += [label for label in right if label not in left]
    return own(contract([a, b], [tuple(left), tuple(right)], tuple(output)))


def _axis_pairs(a: Tensor, b: Tensor, axes: int | AxisPair) -> list[tuple[int, int]]:
    if not isinstance(axes, (tuple, list, np.ndarray)) or np.ndim(axes) == 0:
        axes = as_integer("tensordot: axes", axes)
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: axes={axes} for shapes {tuple(a.shape)} and {tuple(b.shape)}. "
                f"Choose 0 to {min(a.ndim, b.ndim)}."
            )
        return [(a.ndim - axes + number, number) for number in range(axes)]
    if len(axes) != 2:
        raise ShapeError(f"tensordot: axes={shown(axes)} is not a pair. Pass one for each operand.")
    first, second = map(listed, axes)
    if len(first) != len(second):
        raise ShapeError(
            f"tensordot: axes {tuple(first)} and {tuple(second)} do not pair up. "
            "Name as many axes of x1 as of x2."
        )
    left = [normalize_axis("tensordot", axis, a.ndim) for axis in first]
    right = [normalize_axis("tensordot", axis, b.ndim) for axis in second]
    if len({*left}) != len(left) or len({*right}) != len(right):
        raise ShapeError(f"tensordot: axes {shown(axes)} name an axis twice. Name each once.")
    return list(zip(left, right, strict=True))


@kind_of_operand
def vecdot(
    x1: TensorLike, x2: TensorLike, /, axis: int = -1, *more: Never, **unknown: Never
) -> Tensor:
    """Inner product of vectors along an axis, the first conjugated; other axes broadcast.

    >>> gt.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    a, b = record_operand(x1), record_operand(x2)
    first = normalize_axis("vecdot", axis, a.ndim)
    second = normalize_axis("vecdot", axis, b.ndim)
    check_equal_lengths("vecdot", a, b, [(first, second)])
    left, right = _aligned_labels(a.ndim, first), _aligned_labels(b.ndim, second)
    broadcast_shapes("vecdot", [_without(a.shape, first), _without(b.shape, second)])
    longer = left if a.ndim >= b.ndim else right
    output = tuple(label for label in longer if label != "sum")
    return own(contract([conjugate(a), b], [left, right], output))


def _aligned_labels(ndim: int, axis: int) -> tuple[str, ...]:
    """Labels numbered from the last axis, as broadcasting aligns them; one axis is summed."""
    batch = [f".{number}" for number in reversed(range(ndim - 1))]
    return (*batch[:axis], "sum", *batch[axis:])


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n for position, n in enumerate(shape) if position != axis)


@kind_of_operands
def inner(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Sum of products over the last axis of both; nothing is conjugated.

    >>> float(gt.inner([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    a, b = record_operand(x1), record_operand(x2)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    check_equal_lengths("inner", a, b, [(a.ndim - 1, b.ndim - 1)])
    return tensordot(a, b, axes=((-1,), (-1,)))


@kind_of_operands
def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Every product of an element of x1 with one of x2; operands are flattened.

    >>> gt.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    a, b = record_operand(x1), record_operand(x2)
    return multiply(movement.reshape(a, (a.size, 1)), movement.reshape(b, (1, b.size)))


@kind_of_operands
def kron(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Kronecker product: x2 scaled by every element of x1, in blocks.

    >>> gt.kron([1, 10], [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    a, b = record_operand(x1), record_operand(x2)
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + tuple(a.shape)
    right = (1,) * (ndim - b.ndim) + tuple(b.shape)
    blocks = multiply(
        movement.reshape(a, tuple(n for m in left for n in (m, 1))),
        movement.reshape(b, tuple(n for m in right for n in (1, m))),
    )
    shape = tuple(m * n for m, n in zip(left, right, strict=True))
    return own(movement.reshape(blocks, shape))


@kind_of_operands
def dot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """NumPy's dot: over the last axis of x1 and the second-last, or only, axis of x2.

    >>> float(gt.dot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    a, b = record_operand(x1), record_operand(x2)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b)
    axis = max(b.ndim - 2, 0)
    check_equal_lengths("dot", a, b, [(a.ndim - 1, axis)])
    return tensordot(a, b, axes=((a.ndim - 1,), (axis,)))
