"""Blocks of an image as channels or as examples of the batch, and back."""

from __future__ import annotations

import math
from typing import Any

from gradtape.errors import ShapeError
from gradtape.ops.arrays.movement import permute_dims, reshape
from gradtape.ops.arrays.padding import pad
from gradtape.tf.conversion import as_shape, concrete, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.errors import InvalidValueError
from gradtape.tf.tensor import Tensor

__all__ = ["batch_to_space", "depth_to_space", "space_to_batch", "space_to_depth"]


@operation
def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Each position within blocks of the axes after the first as examples of their own.

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
    x = pad(x, [(0, 0), *widths, *[(0, 0)] * (x.ndim - 1 - count)])
    batch, rest = x.spec.shape[0], x.spec.shape[1 + count :]
    split: list[int] = []
    for n, block in zip(x.spec.shape[1:], blocks, strict=False):
        if block < 1 or n % block:
            raise ShapeError(f"space_to_batch: an axis of length {n} has no blocks of {block}.")
        split += [n // block, block]
    x = reshape(x, (batch, *split, *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    x = permute_dims(x, (*inner, 0, *outer, *range(2 * count + 1, x.ndim)))
    return reshape(x, (batch * math.prod(blocks), *split[::2], *rest))


@operation
def batch_to_space(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """What space_to_batch came from.

    >>> tf.batch_to_space([[0, 2], [1, 3]], [2], [[0, 0]]).numpy().tolist()
    [[0, 1, 2, 3]]
    """
    x, blocks = convert(input), as_shape(block_shape)
    count, total = len(blocks), math.prod(blocks)
    if x.ndim <= count or x.spec.shape[0] % total:
        raise ShapeError(
            f"batch_to_space: a tensor of shape {x.shape} does not come from blocks {blocks}."
        )
    batch, lengths = x.spec.shape[0] // total, x.spec.shape[1 : count + 1]
    rest = x.spec.shape[count + 1 :]
    x = reshape(x, (*blocks, batch, *x.spec.shape[1:]))
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    x = permute_dims(x, (*order, *range(2 * count + 1, x.ndim)))
    whole = [n * block for n, block in zip(lengths, blocks, strict=True)]
    x = reshape(x, (batch, *whole, *rest))
    key: list[Any] = [slice(None)]
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
    input: Any, block_size: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Blocks of an image as channels.

    >>> tf.nn.space_to_depth(tf.reshape(tf.range(4), [1, 2, 2, 1]), 2).numpy().tolist()
    [[[[0, 1, 2, 3]]]]
    """
    x, block = convert(input), int(block_size)
    last = _formatted("space_to_depth", data_format)
    x = x if last else permute_dims(x, (0, 2, 3, 1))
    batch, height, width, channels = x.spec.shape
    if height % block or width % block:
        raise ShapeError(f"space_to_depth: {height} by {width} has no blocks of {block}.")
    x = reshape(x, (batch, height // block, block, width // block, block, channels))
    x = permute_dims(x, (0, 1, 3, 2, 4, 5))
    x = reshape(x, (batch, height // block, width // block, block * block * channels))
    return x if last else permute_dims(x, (0, 3, 1, 2))


@operation
def depth_to_space(
    input: Any, block_size: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Channels of an image as blocks: what space_to_depth came from.

    >>> tf.nn.depth_to_space([[[[0, 1, 2, 3]]]], 2).shape
    TensorShape([1, 2, 2, 1])
    """
    x, block = convert(input), int(block_size)
    last = _formatted("depth_to_space", data_format)
    x = x if last else permute_dims(x, (0, 2, 3, 1))
    batch, height, width, channels = x.spec.shape
    if channels % (block * block):
        raise ShapeError(f"depth_to_space: {channels} channels are no blocks of {block} squared.")
    x = reshape(x, (batch, height, width, block, block, channels // (block * block)))
    x = permute_dims(x, (0, 1, 3, 2, 4, 5))
    x = reshape(x, (batch, height * block, width * block, channels // (block * block)))
    return x if last else permute_dims(x, (0, 3, 1, 2))
