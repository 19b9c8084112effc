"""Rearranging: blocks of images, partitions and stitches by number, sequences, and bits."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import gradtape as gt
from gradtape.errors import IndexRangeError, ShapeError
from gradtape.libraries import check_exports, normalize_axis
from gradtape.tf.base.conversion import as_shape, common, concrete, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import DTypeLike, IntLike, Name, ShapeLike, SizeLike, TensorLike
from gradtape.tf.ops.indexing import as_indices

__all__ = [
    "batch_to_space",
    "bitcast",
    "depth_to_space",
    "dynamic_partition",
    "dynamic_stitch",
    "reverse_sequence",
    "space_to_batch",
    "space_to_depth",
    "unravel_index",
]


@operation
def space_to_batch(
    input: TensorLike, block_shape: ShapeLike, paddings: TensorLike, name: Name = None
) -> Tensor:
    """Blocks of the axes after the first, with each position in the blocks as its own examples.

    >>> x = tf.reshape(tf.range(4), [1, 4])
    >>> tf.space_to_batch(x, [2], [[0, 0]]).numpy().tolist()
    [[0, 2], [1, 3]]
    """
    x, blocks = convert(input), as_shape(block_shape)
    widths = [tuple(pair) for pair in concrete(paddings).tolist()]
    count = len(blocks)
    if len(widths) != count or x.ndim <= count:
        raise ShapeError(
            f"space_to_batch: {count} blocks and {len(widths)} paddings for a tensor of shape "
            f"{x.shape}. Give one of each for the axes after the first."
        )
    x = gt.pad(x, [(0, 0), *widths, *[(0, 0)] * (x.ndim - 1 - count)])
    batch, rest = x.spec.shape[0], x.spec.shape[1 + count :]
    split: list[int] = []
    for n, block in zip(x.spec.shape[1:], blocks, strict=False):
        if block < 1 or n % block:
            raise ShapeError(f"space_to_batch: an axis of length {n} has no blocks of {block}.")
        split += [n // block, block]
    x = gt.reshape(x, (batch, *split, *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    x = gt.permute_dims(x, (*inner, 0, *outer, *range(2 * count + 1, x.ndim)))
    return gt.reshape(x, (batch * math.prod(blocks), *split[::2], *rest))


@operation
def batch_to_space(
    input: TensorLike, block_shape: ShapeLike, crops: TensorLike, name: Name = None
) -> Tensor:
    """The inverse of space_to_batch.

    >>> tf.batch_to_space([[0, 2], [1, 3]], [2], [[0, 0]]).numpy().tolist()
    [[0, 1, 2, 3]]
    """
    x, blocks = convert(input), as_shape(block_shape)
    count, total = len(blocks), math.prod(blocks)
    if x.ndim <= count or min(blocks, default=1) < 1 or x.spec.shape[0] % total:
        raise ShapeError(
            f"batch_to_space: a tensor of shape {x.shape} does not come from blocks {blocks}."
        )
    batch, lengths = x.spec.shape[0] // total, x.spec.shape[1 : count + 1]
    rest = x.spec.shape[count + 1 :]
    x = gt.reshape(x, (*blocks, batch, *x.spec.shape[1:]))
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    x = gt.permute_dims(x, (*order, *range(2 * count + 1, x.ndim)))
    whole = [n * block for n, block in zip(lengths, blocks, strict=True)]
    x = gt.reshape(x, (batch, *whole, *rest))
    key = [slice(None)]
    for (before, after), n in zip(concrete(crops).tolist(), whole, strict=True):
        key.append(slice(before, n - after))
    return x[tuple(key)]


def _formatted(name: str, data_format: str) -> bool:
    """Whether channels come last."""
    if data_format not in ("NHWC", "NCHW"):
        raise InvalidValueError(
            f"{name}: data_format {data_format!r} is neither 'NHWC' nor 'NCHW'."
        )
    return data_format == "NHWC"


@operation
def space_to_depth(
    input: TensorLike, block_size: SizeLike, data_format: str = "NHWC", name: Name = None
) -> Tensor:
    """Blocks of an image as channels.

    >>> tf.nn.space_to_depth(tf.reshape(tf.range(4), [1, 2, 2, 1]), 2).numpy().tolist()
    [[[[0, 1, 2, 3]]]]
    """
    x, block = convert(input), int(block_size)
    last = _formatted("space_to_depth", data_format)
    x = x if last else gt.permute_dims(x, (0, 2, 3, 1))
    batch, height, width, channels = x.spec.shape
    if height % block or width % block:
        raise ShapeError(f"space_to_depth: {height} by {width} has no blocks of {block}.")
    x = gt.reshape(x, (batch, height // block, block, width // block, block, channels))
    x = gt.permute_dims(x, (0, 1, 3, 2, 4, 5))
    x = gt.reshape(x, (batch, height // block, width // block, block * block * channels))
    return x if last else gt.permute_dims(x, (0, 3, 1, 2))


@operation
def depth_to_space(
    input: TensorLike, block_size: SizeLike, data_format: str = "NHWC", name: Name = None
) -> Tensor:
    """Channels of an image as blocks: the inverse of space_to_depth.

    >>> tf.nn.depth_to_space([[[[0, 1, 2, 3]]]], 2).shape
    TensorShape([1, 2, 2, 1])
    """
    x, block = convert(input), int(block_size)
    last = _formatted("depth_to_space", data_format)
    x = x if last else gt.permute_dims(x, (0, 2, 3, 1))
    batch, height, width, channels = x.spec.shape
    if channels % (block * block):
        raise ShapeError(
            f"depth_to_space: {channels} channels do not fill blocks of {block} by {block}."
        )
    x = gt.reshape(x, (batch, height, width, block, block, channels // (block * block)))
    x = gt.permute_dims(x, (0, 1, 3, 2, 4, 5))
    x = gt.reshape(x, (batch, height * block, width * block, channels // (block * block)))
    return x if last else gt.permute_dims(x, (0, 3, 1, 2))


@operation
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: SizeLike, name: Name = None
) -> list[Tensor]:
    """The slices of a tensor as several tensors; a number for each slice says which one.

    >>> [x.numpy().tolist() for x in tf.dynamic_partition([1, 2, 3], [1, 0, 1], 2)]
    [[2], [1, 3]]
    """
    x, numbers = convert(data), np.asarray(as_indices("dynamic_partition", partitions).read())
    count = int(num_partitions)
    if x.spec.shape[: numbers.ndim] != numbers.shape:
        raise ShapeError(
            f"dynamic_partition: partitions of shape {numbers.shape} do not begin the shape "
            f"{x.shape} of the data."
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise IndexRangeError(
            f"dynamic_partition: a partition is outside 0 to {count - 1}. Give more partitions."
        )
    rows = gt.reshape(x, (numbers.size, *x.spec.shape[numbers.ndim :]))
    flat = numbers.reshape(-1)
    return [gt.take(rows, np.flatnonzero(flat == part), axis=0) for part in range(count)]


@operation
def dynamic_stitch(
    indices: Iterable[TensorLike], data: Iterable[TensorLike], name: Name = None
) -> Tensor:
    """One tensor of the slices of several, each at its index; later ones overwrite earlier ones.

    >>> tf.dynamic_stitch([[0, 2], [1]], [[1.0, 3.0], [2.0]]).numpy().tolist()
    [1.0, 2.0, 3.0]
    """
    places = [np.asarray(as_indices("dynamic_stitch", each).read()) for each in indices]
    parts = common(list(data), "dynamic_stitch")
    rest = parts[0].spec.shape[places[0].ndim :]
    for at, part in zip(places, parts, strict=True):
        if part.spec.shape != (*at.shape, *rest):
            raise ShapeError(
                f"dynamic_stitch: data of shape {part.shape} beside indices of shape {at.shape}: "
                f"it needs shape {(*at.shape, *rest)}."
            )
    rows = gt.concat(
        [gt.reshape(part, (at.size, *rest)) for at, part in zip(places, parts, strict=True)]
    )
    flat = np.concatenate([at.reshape(-1) for at in places])
    length = int(flat.max(initial=-1)) + 1
    source = np.full(length, -1)
    source[flat] = np.arange(flat.size)
    result = gt.take(rows, np.maximum(source, 0), axis=0)
    if (source < 0).any():
        shape = (length,) + (1,) * len(rest)
        result = result * convert((source >= 0).reshape(shape).astype(result.spec.dtype))
    return result


@operation
def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: IntLike | None = None,
    batch_axis: IntLike | None = None,
    name: Name = None,
) -> Tensor:
    """Each sequence with its first elements, as many as its length says, in reverse order.

    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy().tolist()
    [[2, 1, 3], [6, 5, 4]]
    """
    x = convert(input)
    if seq_axis is None:
        raise TypeError("reverse_sequence: seq_axis is missing.")
    along = normalize_axis("reverse_sequence", int(seq_axis), x.ndim)
    batch = normalize_axis("reverse_sequence", int(batch_axis or 0), x.ndim)
    lengths = np.asarray(as_indices("reverse_sequence", seq_lengths).read())
    count, most = x.spec.shape[batch], x.spec.shape[along]
    if lengths.shape != (count,) or lengths.max(initial=0) > most or lengths.min(initial=0) < 0:
        raise ShapeError(
            f"reverse_sequence: lengths {lengths.tolist()} do not fit {count} sequences of {most}."
        )
    steps = np.broadcast_to(np.arange(most), (count, most))
    order = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    moved = gt.moveaxis(x, (batch, along), (0, 1))
    return gt.moveaxis(moved[np.arange(count)[:, None], order], (0, 1), (batch, along))


@operation
def unravel_index(indices: TensorLike, dims: ShapeLike, name: Name = None) -> Tensor:
    """Coordinates, one row for each axis, of positions in a flattened tensor.

    >>> tf.unravel_index([2, 5], [3, 3]).numpy().tolist()
    [[0, 1], [2, 2]]
    """
    places, shape = np.asarray(as_indices("unravel_index", indices).read()), as_shape(dims)
    if places.size and not 0 <= places.min() <= places.max() < math.prod(shape):
        raise IndexRangeError(f"unravel_index: an index is outside a tensor of shape {shape}.")
    return convert(np.stack(np.unravel_index(places, shape)).astype(places.dtype))


@operation
def bitcast(input: TensorLike, type: DTypeLike, name: Name = None) -> Tensor:
    """The same bits as numbers of another dtype; it has no derivative.

    >>> tf.bitcast(1.0, tf.int32).numpy().item()
    1065353216
    """
    array, wanted = np.ascontiguousarray(convert(input).read()), as_dtype(type).dtype
    have, want = array.dtype.itemsize, wanted.itemsize
    if have < want:
        if not array.ndim or array.shape[-1] * have != want:
            raise ShapeError(f"bitcast: the last axis of {array.shape} does not make one {wanted}.")
        return convert(array.view(wanted)[..., 0])
    if have > want:
        return convert(array[..., None].view(wanted))
    return convert(array.view(wanted))


check_exports(globals(), __all__)
