"""Windows along axes of a tensor: how many fit, and which elements each of them reads.

Axes are (leading..., lengths..., channels). Window `p` reads elements `stride * p + dilation * q`
for each position `q` in it. Padding is a tensor of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape.ir import Shape
from gradtape.ops.families.shapes import Ints


def counts_of(lengths: Shape, window: Shape, strides: Ints, dilations: Ints) -> Shape:
    """The number of windows that fit along each axis."""
    return tuple(
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(lengths, window, strides, dilations, strict=True)
    )


def read_lengths(counts: Shape, window: Shape, strides: Ints, dilations: Ints) -> Shape:
    """Elements along each axis up to the last one that a window reads."""
    return tuple(
        (w - 1) * d + (n - 1) * s + 1
        for n, w, s, d in zip(counts, window, strides, dilations, strict=True)
    )


def windows_of(x: np.ndarray, window: Shape, strides: Ints, dilations: Ints) -> np.ndarray:
    """A view of shape (leading..., counts..., channels, window...)."""
    axes = tuple(range(x.ndim - len(window) - 1, x.ndim - 1))
    reach = tuple((w - 1) * d + 1 for w, d in zip(window, dilations, strict=True))
    found = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    steps = [slice(None, None, s) for s in (*strides, 1, *dilations)]
    index: tuple[Any, ...] = (..., *steps)
    strided: np.ndarray = found[index]
    return strided


def positions(
    shape: Shape, window: Shape, strides: Ints, dilations: Ints
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """For each position in the window: starts, lengths and steps of the part that windows read."""
    lead = len(shape) - len(window) - 1
    counts = counts_of(shape[lead:-1], window, strides, dilations)
    lengths = (*shape[:lead], *counts, shape[-1])
    steps = (*(1,) * lead, *strides, 1)
    for position in itertools.product(*map(range, window)):
        starts = tuple(q * d for q, d in zip(position, dilations, strict=True))
        yield (*(0,) * lead, *starts, 0), lengths, steps
