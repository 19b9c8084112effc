"""Ops that enlarge a tensor: tile, repeat and pad."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from gradtape.argument_checks import as_integer
from gradtape.dtypes import DType
from gradtape.errors import ShapeError, SizeError, shown
from gradtape.ir import Node, Shape, constant, spec
from gradtape.ops.arrays.gathering import gather_host
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.arrays.slicing import SET_SLICE, UNSLICE
from gradtape.ops.elementwise.arithmetic import identity, record_operand
from gradtape.ops.families import cast, normalize_axis
from gradtape.ops.families.shapes import listed
from gradtape.ops.families.signatures import ShapeLike, Tensor, TensorLike, kind_of_operand
from gradtape.trace.record import record

# The dtype of the positions that elements are copied from.
_POSITION = np.dtype(np.int64)
# Modes that copy elements of the tensor: np.pad on an array of positions gives their positions.
COPYING = ("edge", "reflect", "symmetric", "wrap")


@kind_of_operand
def tile(x: TensorLike, repetitions: ShapeLike, /) -> Tensor:
    """The whole tensor repeated along each axis.

    >>> gt.tile(gt.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x = record_operand(x)
    counts = tuple(_count("tile", n) for n in listed(repetitions))
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    counts = (1,) * (ndim - len(counts)) + counts
    return _spread("tile", x, [(1, n) for n in shape], list(zip(counts, shape, strict=True)))


@kind_of_operand
def repeat(x: TensorLike, repeats: TensorLike, /, axis: int | None = None) -> Tensor:
    """Each element repeated in place, all equally often or each as often as `repeats` says.

    >>> gt.repeat(gt.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> gt.repeat(gt.asarray([1, 2]), [0, 3]).tolist()
    [2, 2, 2]
    """
    x = record_operand(x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    # The shape depends on the repeats, so a tensor of repeats is computed here.
    numbers: Any = repeats
    counts = np.asarray(numbers.numpy() if hasattr(numbers, "result_class") else numbers)
    integers = counts.dtype.kind in "iu"
    if not integers and isinstance(numbers, (int, list, tuple)):
        # NumPy has no dtype for integers beyond 64 bits.
        exact = np.asarray(numbers, object)
        if {*map(type, exact.flat)} == {int}:
            counts, integers = exact, True
    if not integers or counts.ndim > 1:
        raise TypeError(
            f"repeat: repeats of dtype {counts.dtype} and shape {counts.shape} are not an integer "
            "or a list of integers."
        )
    if counts.size == 1:
        one = _count("repeat", counts.reshape(())[()])
        before = [(n, 1) if at == axis else (n,) for at, n in enumerate(x.shape)]
        after = [(n, one) if at == axis else (n,) for at, n in enumerate(x.shape)]
        return _spread("repeat", x, before, after)
    if counts.size != x.shape[axis] or (counts < 0).any():
        raise ShapeError(
            f"repeat: {counts.size} repeats for axis {axis} of length {x.shape[axis]}. "
            "Give one that is not negative for each position."
        )
    # NumPy adds the repeats without a check for overflow, and writes beyond its memory.
    shape = (*x.shape[:axis], sum(counts.tolist()), *x.shape[axis + 1 :])
    _check_size("repeat", shape, x.dtype, _POSITION)
    return gather_host(x, np.repeat(np.arange(counts.size), counts.astype(np.int64)), axis)


def _check_size(name: str, shape: Shape, *dtypes: DType) -> None:
    """Raise if a result is too large, in the name of the function that the user has called."""
    try:
        for dtype in dtypes:
            spec(shape, dtype)
    except SizeError as error:
        raise SizeError(f"{name}: {error}") from None


def _count(name: str, n: SupportsIndex) -> int:
    found = as_integer(f"{name}: repetitions", n)
    if found < 0:
        raise ValueError(f"{name}: {found} repetitions are negative. Use 0 or more.")
    return found


def _spread(name: str, x: Any, before: Sequence[Shape], after: Sequence[Shape]) -> Any:
    """Reshape, stretch, and merge each group of axes into one."""
    shape = tuple(map(math.prod, after))
    _check_size(name, shape, x.dtype)
    if x.size:
        x = broadcast_to(reshape(x, sum(before, ())), sum(after, ()))
    # `identity` gives the result its own memory, as in NumPy, which copies here.
    return identity(reshape(x, shape))


@kind_of_operand
def pad(
    x: TensorLike,
    pad_width: ShapeLike | Sequence[ShapeLike],
    mode: str = "constant",
    constant_values: TensorLike = 0,
) -> Tensor:
    """With more elements before and after along each axis.

    `pad_width` is one number, a pair (before, after), or a pair for each axis. The mode is
    `constant`, or one that copies from the tensor: `edge`, `reflect`, `symmetric`, `wrap`.

    >>> gt.pad(gt.asarray([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    >>> gt.pad(gt.asarray([1, 2, 3]), 1, mode="reflect").tolist()
    [2, 1, 2, 3, 2]
    """
    x = record_operand(x)
    widths = _pairs("pad_width", pad_width, x.ndim)
    if any(operator.index(n) < 0 for pair in widths for n in pair):
        raise ValueError(f"pad: pad_width {pad_width} has a negative width. Slice instead.")
    shape = tuple(n + sum(map(operator.index, p)) for n, p in zip(x.shape, widths, strict=True))
    _check_size("pad", shape, x.dtype, *([] if mode == "constant" else [_POSITION]))
    if mode == "constant":
        return _pad_constant(x, widths, shape, constant_values)
    if mode not in COPYING:
        raise ValueError(
            f"pad: mode {mode!r} is not one of 'constant', {', '.join(map(repr, COPYING))}."
        )
    if not (type(constant_values) in (bool, int, float) and constant_values == 0):
        raise ValueError(
            f"pad: mode {mode!r} copies elements, and constant_values={shown(constant_values)} has "
            "no effect. Leave it out, or use mode='constant'."
        )
    for axis, pair in enumerate(widths):
        if pair != (0, 0):
            if not x.shape[axis]:
                raise ShapeError(
                    f"pad: axis {axis} of shape {x.shape} is empty, so {mode!r} has nothing to "
                    "copy. Use mode='constant'."
                )
            positions = np.pad(np.arange(x.shape[axis]), pair, mode=mode)  # type: ignore[call-overload]
            x = gather_host(x, positions, axis)
    return x


def _pairs(name: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis, from one value, one pair, or one pair per axis."""
    if not isinstance(given, (tuple, list, np.ndarray)):
        return [(given, given)] * ndim
    items = [item.tolist() if isinstance(item, np.ndarray) else item for item in given]
    if not any(isinstance(item, (tuple, list)) for item in items):
        items = [tuple(items)]
    found = [tuple(item) * (2 if len(item) == 1 else 1) for item in items]
    if len(found) == 1:
        found = found * ndim
    if len(found) != ndim or any(len(pair) != 2 for pair in found):
        raise ShapeError(
            f"pad: {name} {given} is not a number, a pair, or a pair for each of {ndim} axes."
        )
    return found


def _pad_constant(x: Any, widths: list[tuple[int, int]], shape: Shape, constant_values: Any) -> Any:
    starts = tuple(before for before, _ in widths)
    params = (starts, x.shape, (1,) * x.ndim)
    if not isinstance(constant_values, (tuple, list)):
        if type(constant_values) in (bool, int, float) and constant_values == 0:
            return record(UNSLICE, (x,), (*params, shape))
        background = broadcast_to(_filling(constant_values, x), shape)
        return record(SET_SLICE, (background, x), (*params, x.shape))
    for axis, values in enumerate(_pairs("constant_values", constant_values, x.ndim)):
        ends = [
            broadcast_to(_filling(value, x), (*x.shape[:axis], width, *x.shape[axis + 1 :]))
            for value, width in zip(values, widths[axis], strict=True)
        ]
        x = concat([ends[0], x, ends[1]], axis=axis)
    return x


def _filling(value: Any, x: Any) -> Any:
    """A padding value in the dtype of the tensor x."""
    if type(x) is Node and type(value) is not Node:
        return constant(value, spec((), x.dtype))
    return cast(record_operand(value), x.dtype)
