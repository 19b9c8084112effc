"""Lattice colouring: patterns of grids and bands, coloured by arithmetic on the column number.

On a grid with rows of length s, the colour of column j is (j mod s + t (j div s)) mod k for some t,
and likewise with one more axis; in a band it is j mod k. The strides are among the distances
between entries of one row. A candidate is first tested on those distances and then on the whole
pattern, so whatever is returned is valid, and on grids and bands it has the fewest colours that
there can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from gradtape.sparsity.pattern import Pattern

# Rows looked at to find the distances, and how many kinds of full rows a grid may have.
SAMPLE = 256
KINDS = 8
# More distances than these make no search over two, or one, strides.
DISTANCES = {1: 80, 2: 24}
# Candidates that are tested on the whole pattern, and colours beyond the lower bound.
TRIALS = 8
SLACK = 2

Strides = tuple[int, ...]
Weights = tuple[int, ...]


def lattice_colours(pattern: Pattern, lowest: int) -> tuple[Any, int] | None:
    """Colours of the columns, at least `lowest` of them and hardly more, or None."""
    distances = _distances(pattern, lowest)
    if distances is None:
        return None
    trials = 0
    for count in range(lowest, lowest + SLACK + 1):
        for strides, weights in _candidates(distances, count):
            if trials == TRIALS:
                return None
            trials += 1
            colours = _coloured(pattern.shape[1], strides, weights, count)
            if keeps_apart(pattern, colours, count):
                return colours, count
    return None


def keeps_apart(pattern: Pattern, colours: Any, count: int) -> bool:
    """Whether no row has two columns of one colour."""
    if not pattern.nnz:
        return True
    taken = pattern.row_numbers * np.int64(count) + colours[pattern.indices]
    return int(np.bincount(taken, minlength=1).max()) <= 1


def _distances(pattern: Pattern, lowest: int) -> Any:
    """The distances between entries of one row, in full rows; None if these are of many kinds."""
    counts = np.diff(pattern.indptr)
    full = np.flatnonzero(counts == lowest)
    if lowest < 2 or lowest > 64:
        return None
    # From all parts of the matrix.
    full = full[:: max(1, len(full) // SAMPLE)][:SAMPLE]
    columns = pattern.indices[pattern.indptr[full][:, None] + np.arange(lowest)].astype(np.int64)
    shapes = np.unique(columns - columns[:, :1], axis=0)
    if len(shapes) > KINDS:
        return None
    between = shapes[:, :, None] - shapes[:, None, :]
    return np.unique(between[between > 0])


def _candidates(distances: Any, count: int) -> Iterator[tuple[Strides, Weights]]:
    if _differ(distances, (), count).size:
        yield (), ()
    for axes in (1, 2):
        if len(distances) > DISTANCES[axes]:
            return
        for strides in combinations(distances[distances > 2].tolist(), axes):
            if axes == 2 and strides[1] < 3 * strides[0]:
                continue
            good = _differ(distances, strides, count)
            if good.size:
                weights = np.unravel_index(int(good[0]), (count,) * axes)
                yield strides, tuple(int(weight) for weight in weights)


def _differ(distances: Any, strides: Strides, count: int) -> Any:
    """Which weights give no two columns at these distances the same colour."""
    steps: list[Any] = []
    rest = distances
    for stride in reversed(strides):
        # The nearest multiple: one step along the outer axis and one back along the inner.
        whole = (rest + stride // 2) // stride
        rest = rest - whole * stride
        steps.insert(0, whole)
    shift = rest[..., None]
    for axis, whole in enumerate(steps):
        weights = np.arange(count ** len(steps)) // count ** (len(steps) - 1 - axis) % count
        shift = shift + whole[:, None] * weights
    return np.flatnonzero((shift % count != 0).all(axis=0))


def _coloured(size: int, strides: Strides, weights: Weights, count: int) -> Any:
    number = np.arange(size)
    total = np.zeros(size, np.int64)
    for stride, weight in zip(reversed(strides), reversed(weights), strict=True):
        total += number // stride * weight
        number = number % stride
    return (total + number) % count
