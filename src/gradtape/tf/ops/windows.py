"""Windows of convolutions and pooling: their number, their padding and the elements they see."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from gradtape.errors import ShapeError
from gradtape.ops.arrays.padding import pad
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import IntLike

# "SAME", "VALID", or a pair of numbers (before, after) for each axis.
Padding: TypeAlias = "str | Sequence[Sequence[IntLike]]"
# One number for all spatial axes, one for each, or also those of batch and channels.
PerAxis: TypeAlias = "IntLike | Sequence[IntLike]"


def channels_last(data_format: str | None) -> bool:
    """Whether channels are the last axis, and not the second."""
    return data_format is None or not data_format.startswith("NC")


def per_axis(name: str, values: PerAxis | None, ndim: int, last: bool) -> tuple[int, ...]:
    """One number for each spatial axis, 1 by default."""
    if values is None:
        return (1,) * ndim
    items = [int(n) for n in values] if hasattr(values, "__iter__") else [int(values)] * ndim
    if len(items) == 1:
        items = items * ndim
    if len(items) == ndim + 2:
        ends = (items[0], items[-1]) if last else (items[0], items[1])
        if ends != (1, 1):
            raise ValueError(f"{name}: {items} moves along batch or channels. Use 1 there.")
        items = items[1:-1] if last else items[2:]
    if len(items) != ndim:
        raise ShapeError(f"{name}: {values} has no entry for each of {ndim} spatial axes.")
    return tuple(items)


def spatial_padding(padding: Padding, ndim: int, last: bool) -> Padding:
    """The padding without the pairs of batch and channels, if there are any."""
    if isinstance(padding, str) or len(padding) != ndim + 2:
        return padding
    return padding[1:-1] if last else padding[2:]


class Windows:
    """The padding of each spatial axis, and the number of windows along it."""

    def __init__(
        self, name: str, lengths: Sequence[int], window: Sequence[int], strides: Sequence[int],
        dilations: Sequence[int], padding: Padding,
    ) -> None:  # fmt: skip
        self.window, self.strides, self.dilations = window, strides, dilations
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
        if isinstance(padding, str):
            kind = padding.upper()
            if kind not in ("SAME", "VALID"):
                raise InvalidValueError(
                    f"{name}: padding {padding!r}: use 'SAME', 'VALID' or pairs."
                )
            self.padding = [
                _same(n, r, s) if kind == "SAME" else (0, 0)
                for n, r, s in zip(lengths, reach, strides, strict=True)
            ]
        else:
            self.padding = [(int(before), int(after)) for before, after in padding]
        self.counts = [
            (n + sum(pair) - r) // s + 1
            for n, pair, r, s in zip(lengths, self.padding, reach, strides, strict=True)
        ]
        if min(self.counts) < 1:
            raise ShapeError(
                f"{name}: windows of {tuple(window)} do not fit into {tuple(lengths)}. Pad it."
            )

    def parts(self, x: Tensor, filler: float) -> list[Tensor]:
        """For each position in the window, the elements that all windows see there.

        Channels are the last axis.
        """
        widths = [(0, 0), *self.padding, (0, 0)]
        x = pad(x, widths, constant_values=filler) if any(map(any, self.padding)) else x
        return [
            x[(slice(None), *self._slices(position), slice(None))]
            for position in itertools.product(*map(range, self.window))
        ]

    def _slices(self, position: tuple[int, ...]) -> list[slice]:
        result = []
        for at, dilation, stride, count in zip(
            position, self.dilations, self.strides, self.counts, strict=True
        ):
            start = at * dilation
            result.append(slice(start, start + (count - 1) * stride + 1, stride))
        return result


def _same(length: int, reach: int, stride: int) -> tuple[int, int]:
    missing = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
    return missing // 2, missing - missing // 2
