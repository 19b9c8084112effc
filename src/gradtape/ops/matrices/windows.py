"""Windows over the spatial axes of a tensor: convolution, and the maximum or mean of each window.

    x (batch, lengths..., channels)

Any number of spatial axes; channels are the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, cast

from gradtape.argument_checks import as_count
from gradtape.errors import ArgumentError, ShapeError, shown
from gradtape.ops.arrays.creation import ones
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.ops.elementwise.arithmetic import divide, record_operand
from gradtape.ops.families.convolution_phases import Steps
from gradtape.ops.matrices.convolution import convolve
from gradtape.ops.reductions.window_extrema import window_max

if TYPE_CHECKING:
    from gradtape.tensor import Tensor, TensorLike

# "same", "valid", or a pair of numbers (before, after) for each axis.
Padding: TypeAlias = "str | Sequence[Sequence[SupportsIndex]]"
# One number for all spatial axes, or one for each.
PerAxis: TypeAlias = "int | Sequence[int]"


def conv(
    x: TensorLike,
    kernel: TensorLike,
    /,
    *,
    strides: PerAxis = 1,
    padding: Padding = "valid",
    dilations: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of x (batch, lengths..., channels) with a kernel (window..., channels, outputs).

    >>> x = gt.reshape(gt.arange(4.0), (1, 4, 1))
    >>> gt.conv(x, gt.ones((2, 1, 1))).tolist()
    [[[1.0], [3.0], [5.0]]]
    >>> gt.conv(np.ones((8, 28, 28, 3)), np.ones((5, 5, 3, 16)), padding="same").shape
    (8, 28, 28, 16)

    The kernel is not flipped, as in all libraries for neural networks. With `groups`, channels are
    divided into as many parts that are convolved apart: the kernel has channels / groups inputs.
    """
    image, taps = record_operand(x), record_operand(kernel)
    spatial = image.ndim - 2
    if spatial < 1 or taps.ndim != image.ndim:
        raise ShapeError(
            f"conv: x of shape {image.shape} and a kernel of shape {taps.shape}. Pass x (batch, "
            "lengths..., channels) and a kernel (window..., channels, outputs)."
        )
    channels, (inside, outside) = image.spec.shape[-1], taps.spec.shape[-2:]
    parts = as_count("conv: groups", groups, least=1)
    if inside * parts != channels or outside % parts:
        raise ShapeError(
            f"conv: a kernel for {inside} channels with {outside} outputs, {parts} groups, and x "
            f"has {channels} channels. The kernel needs channels / groups inputs, and a multiple "
            "of groups as outputs."
        )
    windows = Windows(
        "conv",
        image.spec.shape[1:-1],
        taps.spec.shape[:-2],
        per_axis("conv: strides", strides, spatial),
        per_axis("conv: dilations", dilations, spatial),
        padding,
    )
    return cast("Tensor", convolved(image, taps, parts, windows.steps()))


def convolved(x: Any, kernel: Any, groups: int, steps: Steps) -> Any:
    """The convolution of each group of channels with its part of the kernel."""
    if groups == 1:
        found = convolve(
            reshape(x, (1, *x.spec.shape)), reshape(kernel, (1, *kernel.spec.shape)), *steps
        )
        return reshape(found, found.spec.shape[1:])
    *lead, channels = x.spec.shape
    *window, inside, outside = kernel.spec.shape
    parted = reshape(kernel, (*window, inside, groups, outside // groups))
    images = moveaxis(reshape(x, (*lead, groups, channels // groups)), -2, 0)
    found = moveaxis(convolve(images, moveaxis(parted, -2, 0), *steps), 0, -2)
    return reshape(found, (*found.spec.shape[:-2], outside))


def max_pool(
    x: TensorLike,
    /,
    window: PerAxis,
    *,
    strides: PerAxis | None = None,
    padding: Padding = "valid",
    dilations: PerAxis = 1,
) -> Tensor:
    """The maximum of each window of x (batch, lengths..., channels), channel by channel.

    >>> x = gt.reshape(gt.arange(4.0), (1, 4, 1))
    >>> gt.max_pool(x, 2).tolist()
    [[[1.0], [3.0]]]

    Windows lie side by side if `strides` is None. Of equal elements the first has the derivative.
    """
    return pooled("max_pool", x, window, strides, padding, dilations, True)


def avg_pool(
    x: TensorLike,
    /,
    window: PerAxis,
    *,
    strides: PerAxis | None = None,
    padding: Padding = "valid",
    dilations: PerAxis = 1,
) -> Tensor:
    """The mean of each window of x (batch, lengths..., channels), channel by channel.

    >>> x = gt.reshape(gt.arange(4.0), (1, 4, 1))
    >>> gt.avg_pool(x, 2).tolist()
    [[[0.5], [2.5]]]

    Windows lie side by side if `strides` is None. Padding does not count in the mean.
    """
    return pooled("avg_pool", x, window, strides, padding, dilations, False)


def pooled(
    name: str,
    x: TensorLike,
    window: PerAxis,
    strides: PerAxis | None,
    padding: Padding,
    dilations: PerAxis,
    highest: bool,
) -> Tensor:
    """The maximum or the mean of each window."""
    image = record_operand(x)
    spatial = image.ndim - 2
    if spatial < 1:
        raise ShapeError(
            f"{name}: x of shape {image.shape} has no spatial axis. Pass (batch, lengths..., "
            "channels)."
        )
    lengths, dtype = image.spec.shape[1:-1], image.spec.dtype
    windows = Windows(
        name,
        lengths,
        per_axis(f"{name}: window", window, spatial),
        per_axis(f"{name}: strides", window if strides is None else strides, spatial),
        per_axis(f"{name}: dilations", dilations, spatial),
        padding,
    )
    if highest:
        steps = windows.steps()
        found = window_max(
            image, tuple(windows.window), steps.strides, steps.dilations, steps.padding
        )
        return cast("Tensor", found)
    whole = not any(map(any, windows.padding))
    number: Any = math.prod(windows.window)
    if not whole:
        number = windows.sums(ones((1, *lengths, 1), dtype=dtype))
    return cast("Tensor", divide(windows.sums(image), number))


def per_axis(name: str, values: PerAxis, ndim: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    given = list(values) if hasattr(values, "__iter__") else [values] * ndim
    if len(given) != ndim:
        raise ShapeError(
            f"{name}={shown(values)} has {len(given)} numbers for {ndim} spatial axes. Pass one "
            "number, or one for each axis."
        )
    return tuple(as_count(name, n, least=1) for n in given)


class Windows:
    """The padding of each spatial axis, and the number of windows along it."""

    def __init__(
        self,
        name: str,
        lengths: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        padding: Padding,
    ) -> None:
        self.window, self.dilations = window, dilations
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
        self.padding = _pairs(name, padding, lengths, reach, strides)
        wide = [n + sum(pair) for n, pair in zip(lengths, self.padding, strict=True)]
        # A step beyond the padded axis leaves one window, as a step of its length does. NumPy's
        # strides could not hold such a step.
        self.strides = [min(s, max(n, 1)) for n, s in zip(wide, strides, strict=True)]
        self.counts = [(n - r) // s + 1 for n, r, s in zip(wide, reach, self.strides, strict=True)]
        if min(self.counts) < 1:
            raise ShapeError(
                f"{name}: windows of {tuple(window)} do not fit into {tuple(lengths)}. Pad it."
            )

    def steps(self) -> Steps:
        """The params of a convolution with these windows."""
        whole = (1,) * len(self.strides)
        return Steps(tuple(self.strides), tuple(self.dilations), whole, tuple(self.padding))

    def sums(self, x: Any) -> Any:
        """The sum of each window, channel by channel."""
        channels = x.spec.shape[-1]
        taps = ones((*self.window, 1, channels), dtype=x.spec.dtype)
        return convolved(x, taps, channels, self.steps())


def _pairs(
    name: str,
    padding: Padding,
    lengths: Sequence[int],
    reach: Sequence[int],
    strides: Sequence[int],
) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    if isinstance(padding, str):
        if padding.lower() not in ("same", "valid"):
            raise ArgumentError(
                f"{name}: padding={padding!r} is not 'same', 'valid' or pairs of numbers. Pass one."
            )
        if padding.lower() == "valid":
            return [(0, 0)] * len(lengths)
        return [_same(n, r, s) for n, r, s in zip(lengths, reach, strides, strict=True)]
    counts = [len(pair) if hasattr(pair, "__len__") else 0 for pair in padding]
    if counts != [2] * len(lengths):
        raise ShapeError(
            f"{name}: padding={shown(padding)} is not a pair of numbers for each of "
            f"{len(lengths)} spatial axes. Pass those, 'same' or 'valid'."
        )
    return [(int(before), int(after)) for before, after in padding]


def _same(length: int, reach: int, stride: int) -> tuple[int, int]:
    missing = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
    return missing // 2, missing - missing // 2
