"""Movement: ops that reorder, reshape or repeat the elements of one operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Never, SupportsIndex

import numpy as np

from gradtape.argument_checks import as_flag
from gradtape.errors import IndexRangeError, ShapeError, shown
from gradtape.ir import Node, Op, Shape, Spec, View, apply, spec
from gradtape.ops.arrays.slicing import read_part
from gradtape.ops.elementwise.arithmetic import identity, record_operand
from gradtape.ops.families import batching, identities, independence, memory_copies, shapes
from gradtape.ops.families.define import define, mask_broadcast
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.signatures import Axes, ShapeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import SAME, each
from gradtape.suggestions import unexpected_arguments
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode


def _reshape_spec(x: Spec, shape: Shape) -> Spec:
    if math.prod(shape) != x.size:
        raise ShapeError(
            f"reshape: {x.shape} has {x.size} elements and {shape} has {math.prod(shape)}. "
            "Choose a shape with as many elements."
        )
    return spec(shape, x.dtype)


RESHAPE = define(
    "reshape",
    "movement",
    params=("shape",),
    spec=_reshape_spec,
    numpy=lambda x, shape: np.reshape(x, shape),
    mask=lambda index, mask, y, inputs, shape: reshape_node(mask, inputs[0].shape),
    transpose=lambda g, x, shape: reshape_node(g, x.shape),
    batch=lambda inputs, batched, y, shape: apply(y.op, inputs, ((inputs[0].shape[0], *shape),)),
    examples=independence.in_place,
    sparsity=each(lambda operand, result, shape: SAME),
    view=View.RESHAPE,
    simpler=identities.view,
    samples=drawn(
        "reshape", ("shape",), ((2, 3), (3, 2)), ((2, 3), (6,)), ((), (1, 1)), ((0, 3), (3, 0))
    ),
)


def reshape_node(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else apply(RESHAPE, (node,), (shape,))


@kind_of_operand
def reshape(
    x: TensorLike,
    /,
    shape: ShapeLike,
    *more: SupportsIndex,
    copy: bool | None = None,
    **unknown: Never,
) -> Tensor:
    """The same elements in another shape; one length may be -1.

    >>> gt.reshape(gt.asarray([1, 2, 3, 4]), (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    if unknown:
        raise unexpected_arguments((), unknown)
    x = record_operand(x)
    shape = shapes.normalize_shape("reshape", (shape, *more) if more else shape)
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        if rest == 0 or x.size % rest:
            raise ShapeError(
                f"reshape: {x.shape} has {x.size} elements, which {shape} cannot divide. "
                "Choose lengths whose product divides it."
            )
        shape = tuple(x.size // rest if n == -1 else n for n in shape)
    if any(n < 0 for n in shape):
        raise ShapeError(f"reshape: {shape} has a negative length. At most one may be -1.")
    result = record(RESHAPE, (x,), (shape,))
    if copy is not None and as_flag("reshape: copy", copy):
        return identity(result)
    return result


def _broadcast_spec(x: Spec, shape: Shape) -> Spec:
    if shapes.broadcast_shapes("broadcast_to", [x.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: {x.shape} cannot become {shape}, which is smaller.")
    return spec(shape, x.dtype)


BROADCAST_TO = define(
    "broadcast_to",
    "movement",
    params=("shape",),
    spec=_broadcast_spec,
    numpy=np.broadcast_to,
    mask=mask_broadcast,
    transpose=lambda g, x, shape: shapes.reduce_to(g, x.shape),
    batch=lambda inputs, batched, y, shape: apply(
        y.op, (batching.lifted(inputs[0], y.ndim),), ((inputs[0].shape[0], *shape),)
    ),
    examples=independence.elementwise,
    view=View.BROADCAST,
    simpler=identities.view,
    samples=drawn(
        "broadcast_to", ("shape",), ((3,), (2, 3)), ((2, 1), (2, 3)), ((), (2,)), ((1, 3), (0, 3))
    ),
)


@kind_of_operand
def broadcast_to(x: TensorLike, /, shape: ShapeLike, *more: SupportsIndex) -> Tensor:
    """Stretch to a shape by repeating along axes of length 1.

    >>> gt.broadcast_to(gt.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    found = shapes.sizes("broadcast_to", (shape, *more) if more else shape)
    return record(BROADCAST_TO, (record_operand(x),), (found,))


def broadcast_arrays(*arrays: TensorLike) -> list[Tensor]:
    """Each operand stretched to the shape that all have in common.

    >>> [y.shape for y in gt.broadcast_arrays(gt.asarray([1, 2]), gt.asarray([[3], [4]]))]
    [(2, 2), (2, 2)]
    """
    given = [record_operand(array) for array in arrays]
    shape = shapes.broadcast_shapes("broadcast_arrays", [array.shape for array in given])
    return [broadcast_to(array, shape) for array in given]


PERMUTE_DIMS = define(
    "permute_dims",
    "movement",
    params=("axes",),
    spec=lambda x, axes: spec(tuple(x.shape[axis] for axis in axes), x.dtype),
    numpy=np.transpose,
    transpose=lambda g, x, axes: permute(g, tuple(np.argsort(axes).tolist())),
    batch=lambda inputs, batched, y, axes: apply(
        y.op, inputs, ((0, *(axis + 1 for axis in axes)),)
    ),
    examples=independence.permuted,
    view=View.PERMUTE,
    simpler=identities.view,
    samples=drawn(
        "permute_dims",
        ("axes",),
        ((2, 3), (1, 0)),
        ((2, 3, 4), (1, 2, 0)),
        ((2, 0), (1, 0)),
        ((), ()),
    ),
)


def permute(x: TensorOrNode, axes: tuple[int, ...]) -> TensorOrNode:
    """Axes in another order; x itself if the order does not change."""
    return x if axes == tuple(range(len(axes))) else record(PERMUTE_DIMS, (x,), (axes,))


@kind_of_operand
def permute_dims(
    x: TensorLike,
    /,
    axes: Sequence[SupportsIndex] | SupportsIndex,
    *more: SupportsIndex,
    **unknown: Never,
) -> Tensor:
    """Axes in the given order.

    >>> gt.permute_dims(gt.asarray([[1, 2, 3]]), (1, 0)).shape
    (3, 1)
    """
    if unknown:
        raise unexpected_arguments((), unknown)
    x = record_operand(x)
    axes = (axes, *more) if more else axes  # type: ignore[arg-type]
    if not isinstance(axes, (tuple, list, range, np.ndarray)):
        raise TypeError(f"permute_dims: axes={shown(axes)} is not a sequence. Pass a tuple.")
    order = tuple(
        shapes.normalize_axis("permute_dims", axis, x.ndim) for axis in shapes.listed(axes)
    )
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(
            f"permute_dims: axes {tuple(axes)} do not name each of the {x.ndim} axes once."
        )
    return record(PERMUTE_DIMS, (x,), (order,))


@kind_of_operand
def matrix_transpose(x: TensorLike, /) -> Tensor:
    """The last two axes exchanged.

    >>> gt.matrix_transpose(gt.asarray([[1, 2, 3]])).shape
    (3, 1)
    """
    x = record_operand(x)
    if x.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: shape {x.shape} has fewer than 2 axes. Reshape it to a matrix."
        )
    return record(PERMUTE_DIMS, (x,), ((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2),))


@kind_of_operand
def moveaxis(x: TensorLike, source: ShapeLike, destination: ShapeLike, /) -> Tensor:
    """Axes moved to other positions; the others keep their order.

    >>> gt.moveaxis(gt.asarray([[1, 2, 3]]), 0, -1).shape
    (3, 1)
    """
    x = record_operand(x)
    sources = _axes_in_order("moveaxis", source, x.ndim)
    destinations = _axes_in_order("moveaxis", destination, x.ndim)
    if len(sources) != len(destinations):
        raise ShapeError(
            f"moveaxis: {len(sources)} sources and {len(destinations)} destinations. "
            "Give one destination for each source."
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(target, axis)
    return record(PERMUTE_DIMS, (x,), (tuple(order),))


def _axes_in_order(name: str, axis: object, ndim: int) -> tuple[int, ...]:
    """Non-negative axes in the listed order, or an error if one is listed twice."""
    shapes.normalize_axes(name, axis, ndim)
    return tuple(shapes.normalize_axis(name, one, ndim) for one in shapes.listed(axis))


@kind_of_operand
def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged.

    >>> gt.swapaxes(gt.asarray([[1, 2, 3]]), 0, 1).shape
    (3, 1)
    """
    x = record_operand(x)
    first = shapes.normalize_axis("swapaxes", axis1, x.ndim)
    second = shapes.normalize_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return record(PERMUTE_DIMS, (x,), (tuple(order),))


@kind_of_operand
def expand_dims(x: TensorLike, /, axis: ShapeLike, *more: Never, **unknown: Never) -> Tensor:
    """With new axes of length 1 at the given positions of the result.

    >>> gt.expand_dims(gt.asarray([1, 2]), axis=1).shape
    (2, 1)
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    count = len(shapes.listed(axis))
    try:
        axes = shapes.normalize_axes("expand_dims", axis, x.ndim + count)
    except ShapeError as error:  # the array API standard says IndexError
        raise IndexRangeError(str(error)) from None
    lengths = iter(x.shape)
    shape = tuple(1 if at in axes else next(lengths) for at in range(x.ndim + count))
    return record(RESHAPE, (x,), (shape,))


@kind_of_operand
def squeeze(x: TensorLike, /, axis: Axes = None, *more: Never, **unknown: Never) -> Tensor:
    """Without the given axes, which must have length 1; by default without all that have.

    >>> gt.squeeze(gt.asarray([[1, 2]]), axis=0).shape
    (2,)
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    if axis is None:
        axes = tuple(at for at, n in enumerate(x.shape) if n == 1)
    else:
        axes = shapes.normalize_axes("squeeze", axis, x.ndim)
    for at in axes:
        if x.shape[at] != 1:
            raise ShapeError(
                f"squeeze: axis {at} of shape {x.shape} has length {x.shape[at]}, not 1. "
                "Index it, or reduce over it."
            )
    return record(RESHAPE, (x,), (tuple(n for at, n in enumerate(x.shape) if at not in axes),))


@kind_of_operand
def flip(x: TensorLike, /, axis: Axes = None, *more: Never, **unknown: Never) -> Tensor:
    """Elements in reverse order along the given axes, all by default.

    >>> gt.flip(gt.asarray([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    axes = shapes.normalize_axes("flip", axis, x.ndim)
    starts = tuple(max(n - 1, 0) if at in axes else 0 for at, n in enumerate(x.shape))
    steps = tuple(-1 if at in axes else 1 for at in range(x.ndim))
    return read_part(x, starts, x.shape, steps, x.shape)


ROLL: Op = define(
    "roll",
    "movement",
    params=("shift", "axis"),
    spec=lambda x, shift, axis: x,
    numpy=np.roll,
    transpose=lambda g, x, shift, axis: apply(ROLL, (g,), (tuple(-n for n in shift), axis)),
    batch=batching.shifted("axis"),
    examples=independence.along_axes,
    copies=memory_copies.roll,
    samples=drawn(
        "roll",
        ("shift", "axis"),
        ((2, 3), (1,), (1,)),
        ((2, 3), (1, -2), (0, 1)),
        ((3,), (7,), (0,)),
        ((0, 2), (1,), (0,)),
    ),
)


@kind_of_operand
def roll(
    x: TensorLike, /, shift: ShapeLike, axis: Axes = None, *more: Never, **unknown: Never
) -> Tensor:
    """Elements shifted along axes; what leaves at one end enters at the other.

    >>> gt.roll(gt.asarray([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, axis=0), x.shape)
    axes, shifts = shapes.listed(axis), shapes.listed(shift)
    if shifts == (shift,):
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes. Give one for each.")
    if not axes:
        return identity(x)
    amounts = shapes.normalize_integers("roll: shift", shifts)
    order = tuple(shapes.normalize_axis("roll", one, x.ndim) for one in axes)
    return record(ROLL, (x,), (amounts, order))
