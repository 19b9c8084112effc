"""Colouring of columns and rows: columns of one colour share no row, rows no column.

The product of the Jacobian with the sum of the columns of one colour then holds every entry of
these columns by itself (Curtis, Powell and Reid, On the estimation of sparse Jacobian matrices,
1974, doi:10.1093/imamat/13.1.117).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.grid_colouring import lattice_colours
from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.config import COLOURING_PATIENCE, COLOURING_REPEATS, LARGEST_COLOURING
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
    lowest = int(np.diff(pattern.indptr).max(initial=0))
    if lowest == present.sum():
        return all_different(present)
    if lowest == 1:
        return Colours(np.where(present, 0, -1), 1)
    found = lattice_colours(pattern, lowest) if tuple(orders) == ORDERS else None
    best = None if found is None else compact(found[0], present)
    if best is None or best.count > lowest:
        # If arithmetic finds a colouring at all, other orders rarely find a better one.
        every = np.ones(pattern.nnz, bool)
        other = colour_partly(pattern, every, orders if best is None else orders[:1])
        best = other if best is None or other.count < best.count else best
    return best


def colour_rows(pattern: Pattern, orders: Sequence[str] = ORDERS) -> Colours:
    """Rows that share a column get different colours."""
    return colour_columns(pattern.transposed, orders)


def all_different(present: Array) -> Colours:
    """A colour of its own for each vertex that is present."""
    return Colours(np.where(present, np.cumsum(present) - 1, -1), int(present.sum()))


def compact(colours: Array, present: Array) -> Colours:
    """Colours numbered without gaps; -1 for vertices that are not present."""
    numbers, renumbered = np.unique(colours[present], return_inverse=True)
    found = np.full(len(colours), -1)
    found[present] = renumbered
    return Colours(found, len(numbers))


def colour_partly(pattern: Pattern, wanted: Array, orders: Sequence[str]) -> Colours:
    """Colours for the columns of the wanted entries, so that each of these stands alone."""
    size = pattern.shape[1]
    present = np.zeros(size, bool)
    present[pattern.indices[wanted]] = True
    kept = present[pattern.indices]
    every, needed = pattern.keeping(kept), pattern.keeping(wanted)
    marked = every.with_data(wanted[kept].astype(np.int64) + 1).T.tocsr()
    sides = (
        *(marked.indptr, marked.indices, marked.data - 1),
        *(every.indptr, every.indices, needed.indptr, needed.indices),
    )
    own, lengths = np.diff(needed.indptr).astype(float), np.diff(every.indptr)
    work = float((own * (2 * lengths - own)).sum())
    if work > LARGEST_COLOURING:
        return all_different(present)
    if len(orders) > 1 and work_of(every) > 4.0 * work:
        # Rows with few wanted entries may be long. They matter little to the colouring, but most to
        # the time of this order.
        orders = [order for order in orders if order != "smallest_last"]

    def one_pass(sequence: Array) -> Colours:
        sequence = sequence[present[sequence]]
        colours, forbidden = np.full(size, -1), np.zeros(size + 1, np.int64)
        loop, outputs = greedy.colour_partly, (colours, forbidden)
        count = loop_runner.run(loop, len(sequence), (sequence, *sides), outputs, work)
        return Colours(colours, count)

    # A pass in the order of the colours of another pass, last colour first, never takes more
    # colours and often fewer (Culberson, Iterated greedy graph coloring and the difficulty
    # landscape, technical report 92-07, University of Alberta, 1992).
    repeats = COLOURING_REPEATS if len(orders) > 1 else 0
    return best_of(every, (*orders, *(None,) * repeats), one_pass, work, int(own.max(initial=0)))


def best_of(
    pattern: Pattern,
    orders: Sequence[str | None],
    one_pass: Callable[[Array], Colours],
    work: float,
    lowest: int,
    best: Colours | None = None,
    patience: float = COLOURING_PATIENCE,
) -> Colours:
    """The best of greedy passes over the columns in some orders, and of a colouring found before.

    The search ends with the `lowest` number of colours, or after `patience`. The order None is that
    of the best colours, last colour first.
    """
    spent = 0.0
    with Progress("colouring", len(orders)) as progress:
        for order in orders:
            if best is not None and (best.count <= lowest or spent + work > patience):
                break
            if order is None:
                assert best is not None
                sequence = np.argsort(-best.of, kind="stable")
            else:
                sequence = order_columns(pattern, order)
            spent += 4.0 * work if order == "smallest_last" else work
            found = one_pass(sequence)
            if best is None or found.count < best.count + (order is None):
                best = found
            progress.advance()
    assert best is not None
    return best
