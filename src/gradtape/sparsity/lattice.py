"""Lattice colouring: patterns of grids and bands, coloured by arithmetic on the column number.

On a grid with rows of length s, the colour of column j is (j mod s + t (j div s)) mod k for some t,
and likewise with one more axis; in a band it is j mod k. The strides are among the distances
between entries of one row. A candidate is first tested on a few rows and then on the whole
pattern, so whatever is returned is valid, and on grids and bands it has the fewest colours that
there can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from gradtape.sparsity.pattern import Pattern

# Rows looked at to find the distances, and how many kinds of full rows a grid may have: inner ones,
# and on one that closes to a ring those at edges and corners, for each of a few fields.
SAMPLE = 256
KINDS = 40
# Rows that a candidate is tested on first.
FEW = 8
# Strides are among the distances of kinds that make at least this part of the rows.
COMMON = 1 / 16
# Steps of the search for strides and weights past which it is not made.
SEARCH = 5e7
# Candidates that are tested on the whole pattern, and colours beyond the lower bound.
TRIALS = 8
SLACK = 2

Strides = tuple[int, ...]
Weights = tuple[int, ...]


def lattice_colours(pattern: Pattern, lowest: int) -> tuple[Any, int] | None:
    """Colours of the columns, at least `lowest` of them and hardly more, or None."""
    columns, distances = _full_rows(pattern, lowest)
    if columns is None:
        return None
    found = _by_strides(pattern, columns, distances, lowest)
    if found is None or found[1] > lowest:
        other = _by_blocks(pattern, lowest)
        if found is None or (other is not None and other[1] < found[1]):
            found = other
    return found


def _by_strides(
    pattern: Pattern, columns: Any, distances: Any, lowest: int
) -> tuple[Any, int] | None:
    trials = 0
    for count in range(lowest, lowest + SLACK + 1):
        for strides, weights in _candidates(columns, distances, count):
            if trials == TRIALS:
                return None
            trials += 1
            colours = _coloured(np.arange(pattern.shape[1]), strides, weights) % count
            if keeps_apart(pattern, colours, count):
                return colours, count
    return None


def _by_blocks(pattern: Pattern, lowest: int) -> tuple[Any, int] | None:
    """A band that closes to a ring: blocks of nearly one length, colours in order in each."""
    size = pattern.shape[1]
    blocks = max(1, size // lowest)
    starts = np.arange(blocks + 1) * size // blocks
    lengths = np.diff(starts)
    count = int(lengths.max())
    if count > lowest + max(SLACK, lowest // 8):
        return None
    colours = np.arange(size) - np.repeat(starts[:-1], lengths)
    return (colours, count) if keeps_apart(pattern, colours, count) else None


def keeps_apart(pattern: Pattern, colours: Any, count: int) -> bool:
    """Whether no row has two columns of one colour."""
    if not pattern.nnz:
        return True
    taken = pattern.row_numbers * np.int64(count) + colours[pattern.indices]
    return int(np.bincount(taken, minlength=1).max()) <= 1


def _full_rows(pattern: Pattern, lowest: int) -> tuple[Any, Any]:
    """The columns of some of the longest rows, and what lies between those of the common kinds.

    None and None if the rows are of many kinds.
    """
    if lowest < 2 or lowest > 64:
        return None, None
    full = np.flatnonzero(np.diff(pattern.indptr) == lowest)
    if len(full) > SAMPLE:
        # From all parts of the matrix, in no step that an axis of a grid may have, too.
        full = np.random.default_rng(0).choice(full, SAMPLE, replace=False)
    columns = pattern.indices[pattern.indptr[full][:, None] + np.arange(lowest)].astype(np.int64)
    kinds, number, sizes = np.unique(
        columns - columns[:, :1], axis=0, return_inverse=True, return_counts=True
    )
    if len(kinds) > KINDS:
        return None, None
    # A few of each kind: rows of one kind can lie differently to the strides.
    # Common ones come first: they rule out most strides.
    several = np.concatenate(
        [np.flatnonzero(number.reshape(-1) == k)[:4] for k in np.argsort(-sizes)]
    )
    common = kinds[sizes >= COMMON * len(full)]
    between = common[:, :, None] - common[:, None, :]
    return columns[several], np.unique(between[between > 1])


def _candidates(columns: Any, distances: Any, count: int) -> Iterator[tuple[Strides, Weights]]:
    if _distinct(columns, (), count).size:
        yield (), ()
    for axes in (1, 2):
        if len(distances) ** axes * columns.size * count**axes > SEARCH:
            return
        for strides in combinations(distances.tolist(), axes):
            if axes == 2 and strides[1] < 2 * strides[0]:
                continue
            good = _distinct(columns[:FEW], strides, count)
            if good.size and len(columns) > FEW:
                good = _distinct(columns, strides, count)
            if good.size:
                weights = np.unravel_index(int(good[0]), (count,) * axes)
                yield strides, tuple(int(weight) for weight in weights)


def _distinct(columns: Any, strides: Strides, count: int) -> Any:
    """Which weights, as one number, give the columns of each row different colours."""
    axes = len(strides)
    number = np.arange(count**axes)
    weights = tuple(number // count ** (axes - 1 - axis) % count for axis in range(axes))
    colours = np.sort(_coloured(columns[..., None], strides, weights) % count, axis=1)
    apart = np.diff(colours, axis=1) != 0
    return np.flatnonzero(np.broadcast_to(apart.all(axis=(0, 1)), number.shape))


def _coloured(number: Any, strides: Strides, weights: tuple[Any, ...]) -> Any:
    """Places along the axes of the grid, weighed and added up."""
    total = 0
    for stride, weight in zip(reversed(strides), reversed(weights), strict=True):
        total = total + number // stride * weight
        number = number % stride
    return total + number
