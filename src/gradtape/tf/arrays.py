"""Shapes and arrangement: reshape, transpose, join, split, pad and repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ops.arrays import joining, movement, padding
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.shapes import normalize_axis
from gradtape.recording.value import host_value
from gradtape.tf.conversion import as_axes, as_shape, common, concrete, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.dtypes import as_dtype, int32
from gradtape.tf.shapes import TensorShape
from gradtape.tf.tensor import Tensor, from_value

__all__ = [
    "broadcast_to", "concat", "ensure_shape", "expand_dims", "identity", "identity_n", "pad",
    "rank", "repeat", "reshape", "reverse", "roll", "shape", "shape_n", "size", "split", "squeeze",
    "stack", "tile", "transpose", "unstack", "broadcast_dynamic_shape",
]  # fmt: skip


@operation
def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value as a new tensor; of a variable the value of now.

    >>> tf.identity(tf.Variable(2.0)).numpy().item()
    2.0
    """
    return arithmetic.identity(convert(input))


@operation
def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """The same values as new tensors.

    >>> [x.numpy().item() for x in tf.identity_n([1, 2])]
    [1, 2]
    """
    return [arithmetic.identity(convert(x)) for x in input]


def _numbers(values: Any, dtype: Any) -> Tensor:
    return from_value(host_value(values, as_dtype(int32 if dtype is None else dtype).dtype))


@operation
def shape(input: Any, out_type: Any = None, name: str | None = None) -> Tensor:
    """The shape as a tensor; `x.shape` is the same as a TensorShape.

    >>> tf.shape([[1, 2, 3]]).numpy().tolist()
    [1, 3]
    """
    return _numbers(convert(input).spec.shape, out_type)


@operation
def shape_n(input: Any, out_type: Any = int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors.

    >>> [s.numpy().tolist() for s in tf.shape_n([[1, 2], [3]])]
    [[2], [1]]
    """
    return [_numbers(convert(x).spec.shape, out_type) for x in input]


@operation
def size(input: Any, out_type: Any = None, name: str | None = None) -> Tensor:
    """The number of elements as a tensor.

    >>> tf.size([[1, 2, 3]]).numpy().item()
    3
    """
    return _numbers(convert(input).spec.size, out_type)


@operation
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes as a tensor.

    >>> tf.rank([[1, 2, 3]]).numpy().item()
    2
    """
    return _numbers(convert(input).spec.ndim, int32)


@operation
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one length may be -1.

    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy().tolist()
    [[1, 2], [3, 4]]
    """
    return movement.reshape(convert(tensor), as_shape(shape))


@operation
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor itself, if it can have this shape.

    >>> tf.ensure_shape([1.0, 2.0], [None]).shape
    TensorShape([2])
    """
    x = convert(x)
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise ShapeError(f"ensure_shape: the tensor has shape {x.shape}, not {TensorShape(shape)}.")
    return x


@operation
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Stretched to a shape by repeating along axes of length 1.

    >>> tf.broadcast_to([1, 2], [2, 2]).numpy().tolist()
    [[1, 2], [1, 2]]
    """
    return movement.broadcast_to(convert(input), as_shape(shape))


@operation
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two shapes broadcast to, as a tensor.

    >>> tf.broadcast_dynamic_shape([2, 1], [3]).numpy().tolist()
    [2, 3]
    """
    return _numbers(np.broadcast_shapes(as_shape(shape_x), as_shape(shape_y)), int32)


@operation
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """With a new axis of length 1.

    >>> tf.expand_dims([1, 2], -1).shape
    TensorShape([2, 1])
    """
    return movement.expand_dims(convert(input), as_axes(axis))


@operation
def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Without the given axes, which must have length 1; by default without all that have.

    >>> tf.squeeze([[1, 2]]).shape
    TensorShape([2])
    """
    axes = as_axes(axis)
    return movement.squeeze(convert(input), axis=None if axes == () else axes)


@operation
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    """Axes in another order, reversed by default.

    >>> tf.transpose([[1, 2, 3], [4, 5, 6]]).shape
    TensorShape([3, 2])
    """
    a = convert(a)
    order = tuple(reversed(range(a.ndim))) if perm is None else as_shape(perm)
    found = movement.permute_dims(a, order)
    return found.conj() if conjugate and a.spec.dtype.kind == "c" else found


@operation
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Elements in reverse order along the given axes.

    >>> tf.reverse([1, 2, 3], [0]).numpy().tolist()
    [3, 2, 1]
    """
    x = convert(tensor)
    axes = as_axes(axis)
    return x if axes == () else movement.flip(x, axis=axes)


@operation
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Elements shifted along axes; what leaves at one end enters at the other.

    >>> tf.roll([1, 2, 3], 1, 0).numpy().tolist()
    [3, 1, 2]
    """
    return movement.roll(convert(input), as_axes(shift), axis=as_axes(axis))


@operation
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors one after the other along an axis.

    >>> tf.concat([[1, 2], [3]], 0).numpy().tolist()
    [1, 2, 3]
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    return joining.concat(common(values, "concat"), axis=int(axis))


@operation
def stack(values: Any, axis: Any = 0, name: str = "stack") -> Tensor:
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
def unstack(value: Any, num: Any = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """The tensors along an axis, without that axis.

    >>> [x.numpy().tolist() for x in tf.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    found = list(joining.unstack(convert(value), axis=int(axis)))
    if num is not None and num != len(found):
        raise ShapeError(f"unstack: num is {num} and the axis has {len(found)} elements.")
    return found


@operation
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str = "split"
) -> list[Tensor]:
    """Parts along an axis: so many equal ones, or of the given sizes, one of which may be -1.

    >>> [x.numpy().tolist() for x in tf.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    >>> [x.numpy().tolist() for x in tf.split([1, 2, 3, 4], [1, -1])]
    [[1], [2, 3, 4]]
    """
    x = convert(value)
    axis = normalize_axis("split", int(axis), x.ndim)
    length = x.spec.shape[axis]
    sizes = concrete(num_or_size_splits)
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
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """The whole tensor repeated along each axis.

    >>> tf.tile([1, 2], [2]).numpy().tolist()
    [1, 2, 1, 2]
    """
    x, times = convert(input), as_shape(multiples)
    if len(times) != x.ndim:
        raise ShapeError(f"tile: {len(times)} multiples for {x.ndim} axes. Give one for each.")
    return padding.tile(x, times)


@operation
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Each element repeated in place, all alike or each so often as `repeats` says.

    >>> tf.repeat([1, 2], 2).numpy().tolist()
    [1, 1, 2, 2]
    """
    times = concrete(repeats)
    given = int(times) if times.ndim == 0 or times.size == 1 else times
    x = convert(input)
    x = x if isinstance(given, int) else _with_dense_gradient(x)
    return padding.repeat(x, given, axis=None if axis is None else int(axis))


def _with_dense_gradient(x: Tensor) -> Tensor:
    """The same; what looks up rows of this gives no IndexedSlices, since only look-ups should."""
    found: Tensor = x * 1.0 if x.spec.dtype.kind in "fc" else x
    return found


@operation
def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Tensor:
    """With more elements before and after along each axis; `paddings` has a pair for each.

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
                f"pad: paddings {widths.tolist()} are wider than what a tensor of shape {x.shape} "
                f"mirrors with mode {mode!r} (at most {reach})."
            )
    value = constant_values
    if hasattr(value, "enter"):
        value = convert(value).read().item()
    kind = x.spec.dtype.kind
    value = bool(value) if kind == "b" else int(value) if kind in "iu" else value
    pairs = [tuple(pair) for pair in widths.tolist()]
    x = x if mode.upper() == "CONSTANT" else _with_dense_gradient(x)
    return padding.pad(x, pairs, modes[mode.upper()], value)
