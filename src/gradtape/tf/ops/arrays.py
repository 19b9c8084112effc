"""Shapes and arrangement: reshape, transpose, join, split, pad and repeat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.libraries import check_exports, normalize_axis
from gradtape.ops.arrays import joining, movement, padding
from gradtape.ops.elementwise import arithmetic
from gradtape.tf.base.conversion import as_axes, as_lengths, as_shape, common, concrete, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype, int32
from gradtape.tf.base.shapes import Dims, TensorShape
from gradtape.tf.base.tensor import Tensor, from_value
from gradtape.tf.base.types import (
    Axis,
    CountLike,
    DTypeLike,
    IntLike,
    IntsLike,
    Name,
    ShapeLike,
    TensorLike,
)
from gradtape.trace.value import host_value

__all__ = [
    "broadcast_to",
    "concat",
    "ensure_shape",
    "expand_dims",
    "identity",
    "identity_n",
    "pad",
    "rank",
    "repeat",
    "reshape",
    "reverse",
    "roll",
    "shape",
    "shape_n",
    "size",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
    "broadcast_dynamic_shape",
]


@operation
def identity(input: TensorLike, name: Name = None) -> Tensor:
    """The same value as a new tensor; for a variable, its current value.

    >>> tf.identity(tf.Variable(2.0)).numpy().item()
    2.0
    """
    return arithmetic.identity(convert(input))


@operation
def identity_n(input: Iterable[TensorLike], name: Name = None) -> list[Tensor]:
    """The same values as new tensors.

    >>> [x.numpy().item() for x in tf.identity_n([1, 2])]
    [1, 2]
    """
    return [arithmetic.identity(convert(x)) for x in input]


def _numbers(values: object, dtype: DTypeLike | None) -> Tensor:
    return from_value(host_value(values, as_dtype(int32 if dtype is None else dtype).dtype))


@operation
def shape(input: TensorLike, out_type: DTypeLike | None = None, name: Name = None) -> Tensor:
    """The shape as a tensor; `x.shape` is the same as a TensorShape.

    >>> tf.shape([[1, 2, 3]]).numpy().tolist()
    [1, 3]
    """
    return _numbers(convert(input).spec.shape, out_type)


@operation
def shape_n(
    input: Iterable[TensorLike], out_type: DTypeLike = int32, name: Name = None
) -> list[Tensor]:
    """The shapes of several tensors.

    >>> [s.numpy().tolist() for s in tf.shape_n([[1, 2], [3]])]
    [[2], [1]]
    """
    return [_numbers(convert(x).spec.shape, out_type) for x in input]


@operation
def size(input: TensorLike, out_type: DTypeLike | None = None, name: Name = None) -> Tensor:
    """The number of elements as a tensor.

    >>> tf.size([[1, 2, 3]]).numpy().item()
    3
    """
    return _numbers(convert(input).spec.size, out_type)


@operation
def rank(input: TensorLike, name: Name = None) -> Tensor:
    """The number of axes as a tensor.

    >>> tf.rank([[1, 2, 3]]).numpy().item()
    2
    """
    return _numbers(convert(input).spec.ndim, int32)


@operation
def reshape(tensor: TensorLike, shape: ShapeLike, name: Name = None) -> Tensor:
    """The same elements in another shape; one length may be -1.

    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy().tolist()
    [[1, 2], [3, 4]]
    """
    return movement.reshape(convert(tensor), as_shape(shape))


@operation
def ensure_shape(x: TensorLike, shape: Dims, name: Name = None) -> Tensor:
    """The tensor itself, if it has this shape; None stands for any length.

    >>> tf.ensure_shape([1.0, 2.0], [None]).shape
    TensorShape([2])
    """
    x = convert(x)
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise ShapeError(f"ensure_shape: the tensor has shape {x.shape}, not {TensorShape(shape)}.")
    return x


@operation
def broadcast_to(input: TensorLike, shape: ShapeLike, name: Name = None) -> Tensor:
    """The tensor stretched to a shape, by repeating it along axes of length 1.

    >>> tf.broadcast_to([1, 2], [2, 2]).numpy().tolist()
    [[1, 2], [1, 2]]
    """
    return movement.broadcast_to(convert(input), as_shape(shape))


@operation
def broadcast_dynamic_shape(shape_x: ShapeLike, shape_y: ShapeLike) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    >>> tf.broadcast_dynamic_shape([2, 1], [3]).numpy().tolist()
    [2, 3]
    """
    return _numbers(np.broadcast_shapes(as_lengths(shape_x), as_lengths(shape_y)), int32)


@operation
def expand_dims(input: TensorLike, axis: IntsLike, name: Name = None) -> Tensor:
    """The tensor with a new axis of length 1.

    >>> tf.expand_dims([1, 2], -1).shape
    TensorShape([2, 1])
    """
    return movement.expand_dims(convert(input), as_axes(axis))


@operation
def squeeze(input: TensorLike, axis: Axis = None, name: Name = None) -> Tensor:
    """The tensor without some axes of length 1; by default without all of them.

    >>> tf.squeeze([[1, 2]]).shape
    TensorShape([2])
    """
    axes = as_axes(axis)
    return movement.squeeze(convert(input), axis=None if axes == () else axes)


@operation
def transpose(
    a: TensorLike, perm: ShapeLike | None = None, conjugate: bool = False, name: str = "transpose"
) -> Tensor:
    """The tensor with its axes in another order, reversed by default.

    >>> tf.transpose([[1, 2, 3], [4, 5, 6]]).shape
    TensorShape([3, 2])
    """
    a = convert(a)
    order = tuple(reversed(range(a.ndim))) if perm is None else as_shape(perm)
    result = movement.permute_dims(a, order)
    return result.conj() if conjugate and a.spec.dtype.kind == "c" else result


@operation
def reverse(tensor: TensorLike, axis: IntsLike, name: Name = None) -> Tensor:
    """Elements in reverse order along the given axes.

    >>> tf.reverse([1, 2, 3], [0]).numpy().tolist()
    [3, 2, 1]
    """
    x = convert(tensor)
    axes = as_axes(axis)
    return x if axes == () else movement.flip(x, axis=axes)


@operation
def roll(input: TensorLike, shift: IntsLike, axis: IntsLike, name: Name = None) -> Tensor:
    """Elements shifted along axes; those that leave at one end enter at the other.

    >>> tf.roll([1, 2, 3], 1, 0).numpy().tolist()
    [3, 1, 2]
    """
    return movement.roll(convert(input), as_axes(shift), axis=as_axes(axis))


@operation
def concat(values: TensorLike, axis: IntLike, name: str = "concat") -> Tensor:
    """Tensors one after the other along an axis.

    >>> tf.concat([[1, 2], [3]], 0).numpy().tolist()
    [1, 2, 3]
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    return joining.concat(common(values, "concat"), axis=int(axis))


@operation
def stack(values: TensorLike, axis: IntLike = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis.

    >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    if not isinstance(values, (list, tuple)):
        values = list(convert(values))
    if all(isinstance(value, (bool, int, float, complex)) for value in values):
        values = list(convert(values))
    return joining.stack(common(values, "stack"), axis=int(axis))


@operation
def unstack(
    value: TensorLike, num: CountLike | None = None, axis: IntLike = 0, name: str = "unstack"
) -> list[Tensor]:
    """The tensors along an axis, without that axis.

    >>> [x.numpy().tolist() for x in tf.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    result = list(joining.unstack(convert(value), axis=int(axis)))
    if num is not None and num != len(result):
        raise ShapeError(f"unstack: num is {num} and the axis has {len(result)} elements.")
    return result


@operation
def split(
    value: TensorLike,
    num_or_size_splits: IntsLike,
    axis: IntLike = 0,
    num: CountLike | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Parts along an axis: a number of equal ones, or a list of sizes, one of which may be -1.

    >>> [x.numpy().tolist() for x in tf.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    >>> [x.numpy().tolist() for x in tf.split([1, 2, 3, 4], [1, -1])]
    [[1], [2, 3, 4]]
    """
    x = convert(value)
    axis = normalize_axis("split", int(axis), x.ndim)
    length = x.spec.shape[axis]
    sizes = concrete(num_or_size_splits)
    if sizes.ndim and num is not None and int(num) != len(sizes):
        raise ShapeError(f"split: num is {num} and there are {len(sizes)} sizes.")
    if sizes.ndim == 0:
        count = int(sizes)
        if count < 1 or length % count:
            raise ShapeError(
                f"split: an axis of length {length} does not fall into {count} equal parts. Give "
                "a list of sizes."
            )
        return list(joining.split(x, count, axis=axis))
    parts = sizes.tolist()
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = length - (sum(parts) + 1)
    if sum(parts) != length or min(parts, default=0) < 0:
        raise ShapeError(f"split: sizes {parts} do not add up to the length {length} of the axis.")
    return list(joining.split(x, np.cumsum(parts)[:-1].tolist(), axis=axis))


@operation
def tile(input: TensorLike, multiples: ShapeLike, name: Name = None) -> Tensor:
    """The whole tensor repeated along each axis.

    >>> tf.tile([1, 2], [2]).numpy().tolist()
    [1, 2, 1, 2]
    """
    x, times = convert(input), as_shape(multiples)
    if len(times) != x.ndim:
        raise ShapeError(f"tile: {len(times)} multiples for {x.ndim} axes. Give one for each.")
    return padding.tile(x, times)


@operation
def repeat(
    input: TensorLike, repeats: IntsLike, axis: IntLike | None = None, name: Name = None
) -> Tensor:
    """Each element repeated in place, all equally often, or each as often as `repeats` says.

    >>> tf.repeat([1, 2], 2).numpy().tolist()
    [1, 1, 2, 2]
    """
    times = concrete(repeats)
    if times.ndim > 1:
        raise ShapeError(f"repeat: repeats of shape {times.shape}: give a number or a vector.")
    equally = times.size == 1
    x = convert(input) if equally else _with_dense_gradient(convert(input))
    return padding.repeat(
        x, int(times.item()) if equally else times, axis=None if axis is None else int(axis)
    )


def _with_dense_gradient(x: Tensor) -> Tensor:
    """The same value. Its gradient is dense: only look-ups give an IndexedSlices in TensorFlow."""
    return x * 1.0 if x.spec.dtype.kind in "fc" else x


@operation
def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    constant_values: TensorLike = 0,
    name: Name = None,
) -> Tensor:
    """Elements added before and after along each axis; `paddings` has a pair for each axis.

    >>> tf.pad([1, 2], [[1, 1]], "REFLECT").numpy().tolist()
    [2, 1, 2, 1]
    """
    x = convert(tensor)
    widths = concrete(paddings)
    if widths.shape != (x.ndim, 2):
        raise ShapeError(f"pad: paddings of shape {widths.shape} for {x.ndim} axes: give pairs.")
    modes = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}
    if mode.upper() not in modes:
        raise ValueError(f"pad: mode {mode!r} is unknown. Use one of {', '.join(modes)}.")
    if mode.upper() != "CONSTANT":
        reach = [n - (mode.upper() == "REFLECT") for n in x.spec.shape]
        if any(max(pair) > most for pair, most in zip(widths.tolist(), reach, strict=True)):
            raise ShapeError(
                f"pad: paddings {widths.tolist()} are too wide to mirror a shape of {x.shape} "
                f"with mode {mode!r}: at most {reach}."
            )
    value: Any = constant_values
    if hasattr(value, "enter"):
        value = convert(value).read().item()
    kind = x.spec.dtype.kind
    value = bool(value) if kind == "b" else int(value) if kind in "iu" else value
    pairs = [tuple(pair) for pair in widths.tolist()]
    x = x if mode.upper() == "CONSTANT" else _with_dense_gradient(x)
    return padding.pad(x, pairs, modes[mode.upper()], value)


check_exports(globals(), __all__)
