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

import numpy as np

from gradtape.autodiff.sparse import colouring, greedy, loop_runner
from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.dtypes import Array
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
    turned = pattern.transposed
    by_rows, rows = estimate(pattern, forward_cost, reverse_cost)
    by_columns, columns = estimate(turned, reverse_cost, forward_cost)
    if by_rows <= by_columns:
        marked = _longest(pattern, rows)[pattern.row_numbers]
    else:
        marked = ~_longest(turned, columns)[pattern.indices]
    return Split(
        colouring.colour_columns(pattern.keeping(~marked), orders),
        colouring.colour_rows(pattern.keeping(marked), orders),
        marked,
    )


def _longest(pattern: Pattern, count: int) -> Array:
    """Marks of the `count` longest rows."""
    found = np.zeros(pattern.shape[0], bool)
    found[np.argsort(-np.diff(pattern.indptr), kind="stable")[:count]] = True
    return found


# A staircase.


@dataclass(frozen=True, eq=False)
class Staircase:
    """The entries that reverse mode computes, after elimination, and a lower bound of the cost."""

    pattern: Pattern
    by_rows: Array
    cost: float

    def colour(self, orders: Sequence[str] = colouring.ORDERS) -> Split:
        """Colours for both sides."""
        turned = np.argsort(self.pattern.indices, kind="stable")
        columns = colouring.colour_partly(self.pattern, ~self.by_rows, orders)
        rows = colouring.colour_partly(self.pattern.transposed, self.by_rows[turned], orders)
        return Split(columns, rows, self.by_rows)


def staircase(pattern: Pattern, forward_cost: float, reverse_cost: float) -> Staircase:
    """The partition of the entries by elimination."""
    rows, columns = pattern.shape
    turned = pattern.transposed
    starts = np.concatenate([pattern.indptr, turned.indptr[1:] + pattern.nnz])
    neighbours = np.concatenate([pattern.indices + rows, turned.indices])
    degrees = np.diff(starts).astype(np.int64)
    room = int(degrees.max(initial=0)) + 1
    degrees[rows:] += room
    count = rows + columns
    times = np.full(count, count)
    costs = np.array([round(SCALE * forward_cost), round(SCALE * reverse_cost)])
    most, more = np.zeros((2, 2), np.int64)
    left, floors = np.array([rows, columns]), np.array([0, room])
    lists = (np.zeros(2 * room, np.int64), *np.zeros((2, count), np.int64))
    loop_runner.run(
        greedy.eliminate_lines,
        count,
        (starts, neighbours, costs, floors),
        (degrees, *lists, times, left, most, floors.copy(), more),
        8.0 * pattern.nnz,
    )
    by_rows = times[rows:][pattern.indices] < times[:rows][pattern.row_numbers]
    cost = forward_cost * int(most[0]) + reverse_cost * int(most[1])
    return Staircase(pattern, by_rows, cost)
