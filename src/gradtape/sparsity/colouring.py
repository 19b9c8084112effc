"""Colouring of columns and rows: those of one colour share no row, or no column.

One product with the sum of the columns of a colour then carries all of them, each entry alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.sparsity import greedy, loop_runner
from gradtape.sparsity.lattice import lattice_colours
from gradtape.sparsity.orders import ORDERS, order_columns, work_of
from gradtape.sparsity.pattern import Pattern, listed_pattern

# Steps of greedy passes after which no further order is tried, and past which none is begun.
PATIENCE = 1e8
TOO_MUCH = 4e9
# Passes over the classes of the best colouring found.
REPEATS = 4


@dataclass(frozen=True, eq=False)
class Colours:
    """A colour for each vertex, from 0; -1 for one that takes no part."""

    of: Any
    count: int


def colour_columns(pattern: Pattern, orders: Sequence[str] = ORDERS) -> Colours:
    """Columns that share a row get different colours; the best of some orders.

    No row can have more entries than there are colours, so as soon as there are as few as that,
    the search ends.
    """
    columns = pattern.shape[1]
    if pattern.rows is None:
        return Colours(np.arange(columns), columns)
    present = np.zeros(columns, bool)
    present[pattern.indices] = True
    used = int(present.sum())
    lowest = int(np.diff(pattern.indptr).max(initial=0))
    if lowest == used:
        return Colours(np.where(present, np.cumsum(present) - 1, -1), used)
    if lowest == 1:
        return Colours(np.where(present, 0, -1), 1)
    found = lattice_colours(pattern, lowest) if tuple(orders) == ORDERS else None
    best = None if found is None else compact(found[0], present)
    if best is None or best.count > lowest:
        # Where arithmetic finds a colouring at all, other orders hardly find a better one.
        other = _greedy(pattern, orders if best is None else orders[:1], lowest, present)
        best = other if best is None or other.count < best.count else best
    return best


def colour_rows(pattern: Pattern, orders: Sequence[str] = ORDERS) -> Colours:
    """Rows that share a column get different colours."""
    return colour_columns(pattern.transposed, orders)


def compact(colours: Any, present: Any) -> Colours:
    """Colours numbered without gaps, and none for what is not present."""
    numbers, renumbered = np.unique(colours[present], return_inverse=True)
    found = np.full(len(colours), -1)
    found[present] = renumbered
    return Colours(found, len(numbers))


def _greedy(pattern: Pattern, orders: Sequence[str], lowest: int, present: Any) -> Colours:
    start = np.full(pattern.shape[1], -1)
    work = work_of(pattern)
    if 10.0 * lowest * lowest > work:
        # One row makes most of the work. Its columns differ from all of each other in any case;
        # once they do, the row has nothing more to say.
        fullest = int(np.argmax(np.diff(pattern.indptr)))
        start[pattern.indices[pattern.indptr[fullest] : pattern.indptr[fullest + 1]]] = np.arange(
            lowest
        )
        pattern = without_rows(pattern, np.arange(pattern.shape[0]) == fullest)
        work = work_of(pattern)
    if work > TOO_MUCH:
        return Colours(np.where(present, np.cumsum(present) - 1, -1), int(present.sum()))
    sides = (
        pattern.transposed.indptr,
        pattern.transposed.indices,
        pattern.indptr,
        pattern.indices,
    )
    best: Colours | None = None
    spent = 0.0
    # Where several orders may be tried, so may what a pass found: class by class, the last first.
    # That never takes more colours, and often fewer (Culberson, Iterated greedy graph coloring).
    repeats = REPEATS if len(orders) > 1 else 0
    for order in (*orders, *(None,) * repeats):
        if best is not None and (best.count == lowest or spent + work > PATIENCE):
            break
        if order is None:
            assert best is not None
            sequence = np.argsort(-best.of, kind="stable")
        else:
            sequence = order_columns(pattern, order)
        spent += 4.0 * work if order == "smallest_last" else work
        colours = start.copy()
        forbidden = np.zeros(pattern.shape[1] + 1, np.int64)
        count = loop_runner.run(
            greedy.colour_apart, len(sequence), (sequence, *sides), (colours, forbidden), work
        )
        count = max(count, int(start.max(initial=-1)) + 1)
        if best is None or count < best.count + (order is None):
            best = Colours(np.where(present, colours, -1), count)
    assert best is not None
    return best


def without_rows(pattern: Pattern, gone: Any) -> Pattern:
    """The pattern with the entries of some rows taken out."""
    kept = ~gone[pattern.row_numbers]
    counts = np.where(gone, 0, np.diff(pattern.indptr))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return listed_pattern(pattern.shape, indptr, pattern.indices[kept])
