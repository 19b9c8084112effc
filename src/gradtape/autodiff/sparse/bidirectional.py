"""Bidirectional colouring: some entries by forward mode, the others by reverse mode.

One full row gives every column a colour of its own, and one full column every row. If reverse mode
computes the full rows, few colours are enough for the columns. The entries are divided between the
two modes in two ways, and the cheaper one is taken:

- whole rows: without the t longest rows, the columns need about as many colours as the next longest
  row has entries, and the t rows need about t colours. The rest may be a grid. Or whole columns.
- a staircase: rows and columns are removed one after the other, emptiest first, and an entry
  belongs to the row or column that was removed first (Coleman and Verma, The efficient computation
  of sparse Jacobian matrices using automatic differentiation, SIAM J. Sci. Comput. 19, 1998).
  Columns that share a row then need different colours only if forward mode computes one of the two
  entries, and likewise rows.

Both are star bicolourings of the bipartite graph of rows and columns in which lines without entries
of their own have no colour: each entry stands alone in a product with a colour of its row or of its
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gradtape.autodiff.sparse import colouring, greedy, loop_runner
from gradtape.autodiff.sparse.pattern import Pattern, listed_pattern
from gradtape.dtypes import Array
from gradtape.progress import Progress
from gradtape.records import dataclass

# Costs are compared as integers, in units of 1 / SCALE.
SCALE = 1000


@dataclass(frozen=True, eq=False)
class Split:
    """Colours of columns and of rows; `by_rows` marks the entries that reverse mode computes."""

    columns: colouring.Colours
    rows: colouring.Colours
    by_rows: Array


def least_cost(pattern: Pattern, forward_cost: float, reverse_cost: float) -> float:
    """A lower bound for the cost of every direct method, in one direction or both.

    A colour of columns gives at most one entry of each row, a colour of rows one of each column.
    """
    rows, columns = pattern.shape
    if not pattern.nnz:
        return 0.0
    by_rows = np.arange(-(-pattern.nnz // columns) + 1)
    by_columns = np.maximum(0, -(-(pattern.nnz - by_rows * columns) // rows))
    return float((forward_cost * by_columns + reverse_cost * by_rows).min())


# Whole rows, or whole columns.


def estimate(pattern: Pattern, forward_cost: float, reverse_cost: float) -> tuple[float, int]:
    """The approximate cost of a split by rows, and the number of rows for reverse mode."""
    lengths = np.sort(np.diff(pattern.indptr))[::-1]
    # Without any row, the columns need no colour.
    rest = np.append(lengths, 0)
    costs = forward_cost * rest + reverse_cost * np.arange(len(rest))
    taken = int(np.argmin(costs))
    return float(costs[taken]), taken


def colour_split(
    pattern: Pattern,
    forward_cost: float = 1.0,
    reverse_cost: float = 1.0,
    orders: Sequence[str] = colouring.ORDERS,
) -> Split:
    """The cheaper of both splits: full rows by reverse mode, or full columns by forward mode."""
    by_rows, rows = estimate(pattern, forward_cost, reverse_cost)
    by_columns, columns = estimate(pattern.transposed, reverse_cost, forward_cost)
    if by_rows <= by_columns:
        forward, reverse, gone = _split(pattern, rows, orders)
        return Split(forward, reverse, gone[pattern.row_numbers])
    reverse, forward, gone = _split(pattern.transposed, columns, orders)
    return Split(forward, reverse, ~gone[pattern.indices])


def _split(
    pattern: Pattern, count: int, orders: Sequence[str]
) -> tuple[colouring.Colours, colouring.Colours, Array]:
    ranked = np.argsort(-np.diff(pattern.indptr), kind="stable")
    gone = np.zeros(pattern.shape[0], bool)
    gone[ranked[:count]] = True
    return (
        colouring.colour_columns(colouring.without_rows(pattern, gone), orders),
        colouring.colour_rows(colouring.without_rows(pattern, ~gone), orders),
        gone,
    )


# A staircase.


@dataclass(frozen=True, eq=False)
class Staircase:
    """The entries that reverse mode computes, after elimination, and a lower bound of the cost."""

    pattern: Pattern
    by_rows: Array
    cost: float

    @cached_property
    def work(self) -> float:
        """The number of turns of the inner loop that its colouring takes."""
        total = 0.0
        for lines, length, wanted in (
            (self.pattern.row_numbers, self.pattern.shape[0], ~self.by_rows),
            (self.pattern.indices, self.pattern.shape[1], self.by_rows),
        ):
            own = np.bincount(lines[wanted], minlength=length).astype(float)
            every = np.bincount(lines, minlength=length)
            total += float((own * (2 * every - own)).sum())
        return total

    def colour(self, orders: Sequence[str] = colouring.ORDERS) -> Split:
        """Colours for both sides."""
        turned = np.argsort(self.pattern.indices, kind="stable")
        columns = _partly(self.pattern, ~self.by_rows, orders)
        rows = _partly(self.pattern.transposed, self.by_rows[turned], orders)
        return Split(columns, rows, self.by_rows)


def staircase(pattern: Pattern, forward_cost: float, reverse_cost: float) -> Staircase:
    """The partition of the entries by elimination."""
    rows, columns = pattern.shape
    turned = pattern.transposed
    starts = np.concatenate([pattern.indptr, turned.indptr[1:] + pattern.nnz])
    neighbours = np.concatenate([pattern.indices + rows, turned.indices])
    degrees = np.diff(starts)
    room = int(degrees.max(initial=0)) + 1
    count = rows + columns
    times = np.full(count, count)
    most = np.zeros(2, np.int64)
    costs = (round(SCALE * forward_cost), round(SCALE * reverse_cost))
    loop_runner.run(
        greedy.eliminate_lines,
        count,
        (np.array([rows, room, *costs]), starts, neighbours),
        (
            degrees.astype(np.int64),
            np.zeros(2 * room, np.int64),
            *np.zeros((2, count), np.int64),
            times,
            most,
        ),
        8.0 * pattern.nnz,
    )
    by_rows = times[rows:][pattern.indices] < times[:rows][pattern.row_numbers]
    cost = forward_cost * int(most[0]) + reverse_cost * int(most[1])
    return Staircase(pattern, by_rows, cost)


def may_be_coloured(stairs: Staircase) -> bool:
    """Whether colouring the staircase does not take too long."""
    return stairs.work <= colouring.TOO_MUCH


def _partly(pattern: Pattern, wanted: Array, orders: Sequence[str]) -> colouring.Colours:
    """Colours for the columns of the wanted entries, so that each of these stands alone."""
    size = pattern.shape[1]
    has_colour = np.zeros(size, bool)
    has_colour[pattern.indices[wanted]] = True
    kept = has_colour[pattern.indices]
    every = _entries(pattern, kept)
    needed = _entries(pattern, wanted)
    marked = every.with_data(wanted[kept].astype(np.int64) + 1).T.tocsr()
    sides = (
        marked.indptr,
        marked.indices,
        marked.data - 1,
        every.indptr,
        every.indices,
        needed.indptr,
        needed.indices,
    )
    lengths = np.diff(every.indptr).astype(float)
    work = float((np.diff(needed.indptr) * lengths).sum()) * 2
    best: colouring.Colours | None = None
    spent = 0.0
    with Progress("colouring", len(orders)) as progress:
        for order in orders:
            # Rows that reverse mode computes may be long. They matter little to the colouring, but
            # most to the time of this order.
            long = len(orders) > 1 and colouring.work_of(every) > 4.0 * work
            dear = order == "smallest_last" and long
            if best is not None and (dear or spent + work > colouring.PATIENCE):
                break
            sequence = colouring.order_columns(every, order)
            sequence = sequence[has_colour[sequence]]
            spent += work
            colours = np.full(size, -1)
            forbidden = np.zeros(size + 1, np.int64)
            count = loop_runner.run(
                greedy.colour_partly, len(sequence), (sequence, *sides), (colours, forbidden), work
            )
            if best is None or count < best.count:
                best = colouring.Colours(colours, count)
            progress.advance()
    assert best is not None
    return best


def _entries(pattern: Pattern, kept: Array) -> Pattern:
    """The pattern with some of its entries."""
    counts = np.bincount(pattern.row_numbers[kept], minlength=pattern.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return listed_pattern(pattern.shape, indptr, pattern.indices[kept])
