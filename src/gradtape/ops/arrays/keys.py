"""Keys: the index expressions of `x[...]`, parsed by NumPy's rules.

Every key is a regular part of the tensor, then index arrays on some of the part's axes.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.errors import DtypeError, IndexRangeError
from gradtape.ir.spec import Shape
from gradtape.ops.arrays.positions import checked, is_symbolic, observed, refuse
from gradtape.records import dataclass
from gradtape.trace.record import any_handle, stack_nest

NAME = "x[...]"
WHOLE = slice(None)


@dataclass(frozen=True)
class IndexKey:
    """A key of one tensor: a part of it (see slicing.py) and index arrays on axes of that part."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    # The shape of the part, without axes that integers dropped, with axes that None added.
    shape: Shape
    # Whether the part has all elements of the tensor, in their order.
    whole: bool
    # Pairs of an axis of the part and the positions to read there, axes ascending.
    arrays: tuple[tuple[int, Any], ...] = ()
    # The position of the index arrays' axes among the remaining axes of the result.
    position: int = 0


@dataclass(frozen=True)
class Mask:
    """A boolean mask, as the positions where it is true."""

    shape: Shape
    positions: tuple[Any, ...]


def parse(key: Any, full: Shape) -> IndexKey:
    """Read a key of a tensor of shape `full`."""
    items = key if isinstance(key, tuple) else (key,)
    plain = _plain_items(items)
    if plain is not None:
        return _parse_plain(plain, full)
    return _parse([_item(item) for item in items], full)


def _plain_items(items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Integers, slices, None and ellipses in a hashable form; None if the key has other items."""
    found: list[Any] = []
    for item in items:
        if type(item) is slice:
            bounds = (item.start, item.stop, item.step)
            for bound in bounds:
                if bound is not None and type(bound) is not int:
                    return None
            found.append(bounds)
        elif type(item) is int or item is None or item is Ellipsis:
            found.append(item)
        else:
            return None
    return tuple(found)


@remembered(4096)
def _parse_plain(items: tuple[Any, ...], full: Shape) -> IndexKey:
    return _parse([slice(*item) if type(item) is tuple else item for item in items], full)


def _parse(items: list[Any], full: Shape) -> IndexKey:
    items = _expanded(items, full)
    starts, lengths, steps = [], [], []
    shape: list[int] = []
    arrays: list[tuple[int, Any]] = []
    indexed_at: list[int] = []  # places in the key that NumPy counts as index arrays
    before = 0
    axis = 0
    for place, item in enumerate(items):
        if item is Ellipsis:
            continue
        if item is None:
            shape.append(1)
            continue
        if isinstance(item, Mask) and not item.shape:
            # NumPy's rule: a 0-d mask adds an axis of length 1, as None does, and indexes it.
            indexed_at.append(place)
            arrays.append((len(shape), item.positions[0]))
            shape.append(1)
            continue
        taken = len(item.shape) if isinstance(item, Mask) else 1
        if isinstance(item, slice):
            start, length, step = _bounds(item, full[axis])
            shape.append(length)
        elif isinstance(item, int):
            if not -full[axis] <= item < full[axis]:
                refuse(NAME, item, axis, full[axis])
            start, length, step = item % full[axis], 1, 1
            indexed_at.append(place)
        else:
            indexed_at.append(place)
            for at, positions in enumerate(_positions(item, axis, full)):
                arrays.append((len(shape), positions))
                shape.append(full[axis + at])
                starts.append(0)
                lengths.append(full[axis + at])
                steps.append(1)
            axis += taken
            continue
        starts.append(start)
        lengths.append(length)
        steps.append(step)
        axis += 1
    if arrays:
        neighbours = indexed_at[-1] - indexed_at[0] == len(indexed_at) - 1
        first = items[: indexed_at[0]]
        before = sum(item is not Ellipsis for item in first) if neighbours else 0
    part = (tuple(starts), tuple(lengths), tuple(steps))
    whole = part[1] == full and all(step == 1 for step in steps)
    return IndexKey(*part, tuple(shape), whole, tuple(arrays), before)


def _item(item: Any) -> Any:
    """One of: None, Ellipsis, slice, int, Mask, or an index array of any kind."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return Mask((), (np.zeros(int(item), np.int64),))
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple)) and any_handle(item):
        item = stack_nest(item)
    if is_symbolic(item):
        return _mask(observed(NAME, item)) if item.dtype.kind == "b" else item
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise TypeError(f"{NAME}: a list of other lists is not an index: {error}") from None
    if array.dtype.kind == "b":
        return _mask(array)
    if not array.size and isinstance(item, (list, tuple)):
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        what = repr(item) if array.ndim == 0 else f"an array of dtype {array.dtype}"
        raise DtypeError(
            f"{NAME}: {what} cannot be an index. Use integers, slices, ..., None, or arrays of "
            "integers or booleans."
        )
    return array if array.ndim else int(array)


def _mask(array: np.ndarray) -> Mask:
    if array.ndim == 0:
        return Mask((), (np.zeros(int(array), np.int64),))
    return Mask(array.shape, np.nonzero(array))


def _positions(item: Any, axis: int, full: Shape) -> tuple[Any, ...]:
    """In-range positions along one axis, or along the axes of a mask."""
    if not isinstance(item, Mask):
        return (checked(NAME, item, axis, full[axis]),)
    check_mask(item.shape, full[axis : axis + len(item.shape)], axis)
    return item.positions


def check_mask(shape: Shape, expected: Shape, axis: int = 0) -> None:
    for at, (m, n) in enumerate(zip(shape, expected, strict=True)):
        # A length of 0 is allowed by the standard: such a mask selects nothing.
        if m not in (n, 0):
            raise IndexRangeError(
                f"{NAME}: a mask of shape {shape} has length {m} where axis {axis + at} of the "
                f"tensor has length {n}. A mask has the lengths of the axes that it selects from."
            )


def _expanded(items: list[Any], full: Shape) -> list[Any]:
    """The items of a key, with a full slice for each axis that the key leaves out."""
    used = 0
    for item in items:
        if isinstance(item, Mask):
            used += len(item.shape)
        elif item is not None and item is not Ellipsis:
            used += 1
    if used > len(full):
        raise IndexRangeError(
            f"{NAME}: the key names {used} axes and the tensor of shape {full} has {len(full)}. "
            "Leave some out."
        )
    missing: list[Any] = [WHOLE] * (len(full) - used)
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise IndexRangeError(f"{NAME}: the key has {len(places)} ellipses (...). Use at most one.")
    if not places:
        return [*items, *missing]
    # The ellipsis stays even if it stands for no axis: it still separates index arrays.
    at = places[0]
    return [*items[:at], *(missing or [Ellipsis]), *items[at + 1 :]]


def _bounds(item: slice, length: int) -> tuple[int, int, int]:
    """Start, length and step of a slice along an axis."""
    if item.step is not None and operator.index(item.step) == 0:
        raise ValueError(f"{NAME}: the step of a slice is 0. Use another step.")
    found = range(length)[item]
    # All empty slices start at 0, so that they are one program.
    return (found.start, len(found), found.step) if len(found) else (0, 0, 1)
