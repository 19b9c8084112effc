"""Lattice colouring: patterns of grids and bands, coloured by arithmetic on the column number.

On a grid with rows of length s, the colour of column j is (j mod s + t (j div s)) mod k for some t,
and likewise with one more axis; in a band it is j mod k. The strides are among the distances
between entries of one row. A candidate is first tested on a few rows and then on the whole
pattern, so every colouring returned is valid. On grids and bands it has the fewest colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.config import (
    GRID_COMMON_ROWS,
    GRID_FIRST_ROWS,
    GRID_ROW_KINDS,
    GRID_SAMPLE,
    GRID_SEARCH,
    GRID_SLACK,
    GRID_TRIALS,
)
from gradtape.dtypes import Array

# A stride, or a weight, for each axis of a grid.
_Axes = tuple[int, ...]


def lattice_colours(pattern: Pattern, lowest: int) -> tuple[Array, int] | None:
    """Colours of the columns, at least `lowest` of them and hardly more, or None."""
    rows = _full_rows(pattern, lowest)
    if rows is None:
        return None
    found = _by_strides(pattern, *rows, lowest)
    if found is None or found[1] > lowest:
        other = _by_blocks(pattern, lowest)
        if found is None or (other is not None and other[1] < found[1]):
            found = other
    return found


def _by_strides(
    pattern: Pattern, columns: Array, distances: Array, lowest: int
) -> tuple[Array, int] | None:
    trials = 0
    for count in range(lowest, lowest + GRID_SLACK + 1):
        for strides, weights in _candidates(columns, distances, count):
            if trials == GRID_TRIALS:
                return None
            trials += 1
            colours = _coloured(np.arange(pattern.shape[1]), strides, weights) % count
            if keeps_apart(pattern, colours, count):
                return colours, count
    return None


def _by_blocks(pattern: Pattern, lowest: int) -> tuple[Array, int] | None:
    """Colours of a periodic band: blocks of nearly one length, colours in order in each."""
    size = pattern.shape[1]
    blocks = max(1, size // lowest)
    starts = np.arange(blocks + 1) * size // blocks
    lengths = np.diff(starts)
    count = int(lengths.max())
    if count > lowest + max(GRID_SLACK, lowest // 8):
        return None
    colours = np.arange(size) - np.repeat(starts[:-1], lengths)
    return (colours, count) if keeps_apart(pattern, colours, count) else None


def keeps_apart(pattern: Pattern, colours: Array, count: int) -> bool:
    """Whether no row has two columns of one colour."""
    if not pattern.nnz:
        return True
    taken = pattern.row_numbers * np.int64(count) + colours[pattern.indices]
    return int(np.bincount(taken, minlength=1).max()) <= 1


def _full_rows(pattern: Pattern, lowest: int) -> tuple[Array, Array] | None:
    """The columns of some of the longest rows, and the distances within the common kinds of rows.

    None if the rows are of many kinds.
    """
    if lowest < 2 or lowest > 64:
        return None
    full = np.flatnonzero(np.diff(pattern.indptr) == lowest)
    if len(full) > GRID_SAMPLE:
        # A random sample: with a fixed stride it could miss the rows along an axis of the grid.
        full = np.random.default_rng(0).choice(full, GRID_SAMPLE, replace=False)
    columns = pattern.indices[pattern.indptr[full][:, None] + np.arange(lowest)].astype(np.int64)
    kinds, number, sizes = np.unique(
        columns - columns[:, :1], axis=0, return_inverse=True, return_counts=True
    )
    if len(kinds) > GRID_ROW_KINDS:
        return None
    # A few rows of each kind, because rows of one kind can lie differently to the strides. Common
    # kinds come first: they rule out most strides.
    several = np.concatenate(
        [np.flatnonzero(number.reshape(-1) == k)[:4] for k in np.argsort(-sizes)]
    )
    common = kinds[sizes >= GRID_COMMON_ROWS * len(full)]
    between = common[:, :, None] - common[:, None, :]
    return columns[several], np.unique(between[between > 1])


def _candidates(columns: Array, distances: Array, count: int) -> Iterator[tuple[_Axes, _Axes]]:
    if _distinct(columns, (), count).size:
        yield (), ()
    for axes in (1, 2):
        if len(distances) ** axes * columns.size * count**axes > GRID_SEARCH:
            return
        for strides in combinations(distances.tolist(), axes):
            if axes == 2 and strides[1] < 2 * strides[0]:
                continue
            good = _distinct(columns[:GRID_FIRST_ROWS], strides, count)
            if good.size and len(columns) > GRID_FIRST_ROWS:
                good = _distinct(columns, strides, count)
            if good.size:
                weights = np.unravel_index(int(good[0]), (count,) * axes)
                yield strides, tuple(int(weight) for weight in weights)


def _distinct(columns: Array, strides: _Axes, count: int) -> Array:
    """The weights, each tuple as a number, that give the columns of each row different colours."""
    axes = len(strides)
    number = np.arange(count**axes)
    weights = tuple(number // count ** (axes - 1 - axis) % count for axis in range(axes))
    colours = np.sort(_coloured(columns[..., None], strides, weights) % count, axis=1)
    apart = np.diff(colours, axis=1) != 0
    return np.flatnonzero(np.broadcast_to(apart.all(axis=(0, 1)), number.shape))


def _coloured(number: Array, strides: _Axes, weights: Sequence[Array | int]) -> Array:
    """The weighted sum of the places along the axes of the grid."""
    total: Array | int = 0
    for stride, weight in zip(reversed(strides), reversed(weights), strict=True):
        total = total + number // stride * weight
        number = number % stride
    return total + number
