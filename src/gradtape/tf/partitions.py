"""Parts of tensors by what integers say: partitions, stitches, sequences of different length."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import IndexRangeError, ShapeError
from gradtape.ops.arrays import indexing as core
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.tf.conversion import as_shape, common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.dtypes import as_dtype
from gradtape.tf.indexing import as_indices
from gradtape.tf.tensor import Tensor

__all__ = [
    "bitcast", "dynamic_partition", "dynamic_stitch", "reverse_sequence", "unravel_index",
]  # fmt: skip


@operation
def dynamic_partition(
    data: Any, partitions: Any, num_partitions: Any, name: str | None = None
) -> list[Tensor]:
    """The slices of a tensor in so many lists, each in the one that its number names.

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
    rows = reshape(x, (numbers.size, *x.spec.shape[numbers.ndim :]))
    flat = numbers.reshape(-1)
    return [core.take(rows, np.flatnonzero(flat == part), axis=0) for part in range(count)]


@operation
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """One tensor of the slices of several, each at the index beside it; the last one wins.

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
    rows = concat([reshape(part, (at.size, *rest)) for at, part in zip(places, parts, strict=True)])
    flat = np.concatenate([at.reshape(-1) for at in places])
    length = int(flat.max(initial=-1)) + 1
    source = np.full(length, -1)
    source[flat] = np.arange(flat.size)
    found = core.take(rows, np.maximum(source, 0), axis=0)
    if (source < 0).any():
        shape = (length,) + (1,) * len(rest)
        found = found * convert((source >= 0).reshape(shape).astype(found.spec.dtype))
    return found


@operation
def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: Any = None,
    batch_axis: Any = None,
    name: str | None = None,
) -> Tensor:
    """The first elements of each example in reverse order, as many as its length says.

    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy().tolist()
    [[2, 1, 3], [6, 5, 4]]
    """
    x = convert(input)
    along, batch = int(seq_axis) % x.ndim, int(batch_axis or 0) % x.ndim
    lengths = np.asarray(as_indices("reverse_sequence", seq_lengths).read())
    count, most = x.spec.shape[batch], x.spec.shape[along]
    if lengths.shape != (count,) or lengths.max(initial=0) > most or lengths.min(initial=0) < 0:
        raise ShapeError(
            f"reverse_sequence: lengths {lengths.tolist()} do not fit {count} sequences of {most}."
        )
    steps = np.broadcast_to(np.arange(most), (count, most))
    order = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    moved = moveaxis(x, (batch, along), (0, 1))
    return moveaxis(moved[np.arange(count)[:, None], order], (0, 1), (batch, along))


@operation
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Coordinates, one row for each axis, of positions in a flattened tensor.

    >>> tf.unravel_index([2, 5], [3, 3]).numpy().tolist()
    [[0, 1], [2, 2]]
    """
    places, shape = np.asarray(as_indices("unravel_index", indices).read()), as_shape(dims)
    if places.size and not 0 <= places.min() <= places.max() < np.prod(shape):
        raise IndexRangeError(f"unravel_index: an index is outside a tensor of shape {shape}.")
    return convert(np.stack(np.unravel_index(places, shape)).astype(places.dtype))


@operation
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
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
