"""Colouring of columns and rows: columns of one colour share no row, rows no column.

The product of the Jacobian with the sum of the columns of one colour then holds every entry of
these columns by itself (Curtis, Powell and Reid, On the estimation of sparse Jacobian matrices,
1974, doi:10.1093/imamat/13.1.117).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.grid_colouring import lattice_colours
from gradtape.autodiff.sparse.pattern import Pattern, listed_pattern
from gradtape.dtypes import Array
from gradtape.progress import Progress
from gradtape.records import dataclass

# Cheap orders first. `largest_first`: Welsh and Powell 1967, doi:10.1093/comjnl/10.1.85;
# `smallest_last`: Matula and Beck 1983, doi:10.1145/2402.322385.
ORDERS = ("natural", "largest_first", "smallest_last")


def known_order(order: str) -> str:
    """The name of an order; raises if there is none of that name."""
    if order not in ORDERS:
        raise ValueError(f"colouring: order {order!r} is unknown. Choose one of {ORDERS}.")
    return order


def order_columns(pattern: Pattern, order: str) -> Array:
    """Column numbers in one of ORDERS."""
    if known_order(order) == "natural":
        return np.arange(pattern.shape[1])
    degrees = column_degrees(pattern)
    if order == "largest_first":
        return np.argsort(-degrees, kind="stable")
    return _smallest_last(pattern, degrees)


def column_degrees(pattern: Pattern) -> Array:
    """For each column the number of other entries in its rows."""
    others = np.diff(pattern.indptr) - 1
    found = np.bincount(pattern.indices, others[pattern.row_numbers], minlength=pattern.shape[1])
    return found.astype(np.int64)


def work_of(pattern: Pattern) -> float:
    """The number of turns of the inner loop of a greedy pass over the columns."""
    return float(np.square(np.diff(pattern.indptr).astype(float)).sum())


def _smallest_last(pattern: Pattern, degrees: Array) -> Array:
    count = pattern.shape[1]
    sides = (pattern.transposed.indptr, pattern.transposed.indices, pattern.indptr, pattern.indices)
    heads = np.zeros(int(degrees.max(initial=0)) + 1, np.int64)
    following, preceding, order = np.zeros((3, count), np.int64)
    loop_runner.run(
        greedy.order_smallest_last,
        count,
        sides,
        (degrees.copy(), heads, following, preceding, order),
        3 * work_of(pattern),
    )
    return order


# Turns of inner loops after which no further order is tried, and past which no pass is begun.
PATIENCE = 1e8
TOO_MUCH = 4e9
# Passes in the order of the colours of the best colouring found.
REPEATS = 4


@dataclass(frozen=True, eq=False)
class Colours:
    """A colour for each vertex, from 0; -1 for a vertex without entries."""

    of: Array
    count: int


def colour_columns(pattern: Pattern, orders: Sequence[str] = ORDERS) -> Colours:
    """Columns that share a row get different colours; the best colouring of some orders.

    The longest row needs as many colours as it has entries: the search ends with so few.
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
        # If arithmetic finds a colouring at all, other orders rarely find a better one.
        other = _greedy(pattern, orders if best is None else orders[:1], lowest, present)
        best = other if best is None or other.count < best.count else best
    return best


def colour_rows(pattern: Pattern, orders: Sequence[str] = ORDERS) -> Colours:
    """Rows that share a column get different colours."""
    return colour_columns(pattern.transposed, orders)


def compact(colours: Array, present: Array) -> Colours:
    """Colours numbered without gaps; -1 for vertices that are not present."""
    numbers, renumbered = np.unique(colours[present], return_inverse=True)
    found = np.full(len(colours), -1)
    found[present] = renumbered
    return Colours(found, len(numbers))


def _greedy(pattern: Pattern, orders: Sequence[str], lowest: int, present: Array) -> Colours:
    start = np.full(pattern.shape[1], -1)
    work = work_of(pattern)
    if 10.0 * lowest * lowest > work:
        # One row makes most of the work. Its columns get different colours in any case: give them
        # these colours now, and leave the row out.
        fullest = int(np.argmax(np.diff(pattern.indptr)))
        start[pattern.indices[pattern.indptr[fullest] : pattern.indptr[fullest + 1]]] = np.arange(
            lowest
        )
        pattern = without_rows(pattern, np.arange(pattern.shape[0]) == fullest)
        work = work_of(pattern)
    if work > TOO_MUCH:
        return Colours(np.where(present, np.cumsum(present) - 1, -1), int(present.sum()))
    sides = (pattern.transposed.indptr, pattern.transposed.indices, pattern.indptr, pattern.indices)
    best: Colours | None = None
    spent = 0.0
    # A pass in the order of the colours of another pass, last colour first, never takes more
    # colours and often fewer (Culberson, Iterated greedy graph coloring and the difficulty
    # landscape, technical report 92-07, University of Alberta, 1992).
    repeats = REPEATS if len(orders) > 1 else 0
    passes = (*orders, *(None,) * repeats)
    with Progress("colouring", len(passes)) as progress:
        for order in passes:
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
            progress.advance()
    assert best is not None
    return best


def without_rows(pattern: Pattern, gone: Array) -> Pattern:
    """The pattern without the entries of some rows."""
    kept = ~gone[pattern.row_numbers]
    counts = np.where(gone, 0, np.diff(pattern.indptr))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return listed_pattern(pattern.shape, indptr, pattern.indices[kept])
