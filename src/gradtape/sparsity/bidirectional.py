"""Bidirectional colouring: some rows by reverse mode, all else by forward mode, or the like.

A few full rows make every column differ from every other, and a few full columns every row. Taking
the full rows out, to be had by products from the left, leaves columns that few colours tell apart.
Which rows that are follows from their lengths alone: with t rows taken out there are about t
colours for them and as many for the columns as the next longest row has entries. The same for
columns. This is the direct determination of Coleman and Verma (SIAM J. Sci. Comput. 19, 1998) with
a partition along whole rows, or whole columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.sparsity.colouring import Colours, colour_columns, colour_rows, without_rows
from gradtape.sparsity.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Split:
    """Colours of columns and of rows; `by_rows` says which rows are recovered from the latter.

    Other entries come from the columns. If `by_columns` is given it is the other way round: it says
    which columns are recovered from the colours of the columns, and other entries from the rows.
    """

    columns: Colours
    rows: Colours
    by_rows: Any = None
    by_columns: Any = None


def estimate(pattern: Pattern, forward_cost: float, reverse_cost: float) -> tuple[float, int]:
    """What a split by rows will cost about, and how many of the longest rows it takes out."""
    lengths = np.sort(np.diff(pattern.indptr))[::-1]
    # With all rows out nothing is left for the columns.
    rest = np.append(lengths, 0)
    costs = forward_cost * rest + reverse_cost * np.arange(len(rest))
    taken = int(np.argmin(costs))
    return float(costs[taken]), taken


def colour_split(pattern: Pattern, forward_cost: float = 1.0, reverse_cost: float = 1.0) -> Split:
    """The cheaper of both splits: full rows by reverse mode, or full columns by forward mode."""
    by_rows, rows = estimate(pattern, forward_cost, reverse_cost)
    by_columns, columns = estimate(pattern.transposed, reverse_cost, forward_cost)
    if by_rows <= by_columns:
        forward, reverse, gone = _split(pattern, rows)
        return Split(forward, reverse, by_rows=gone)
    reverse, forward, gone = _split(pattern.transposed, columns)
    return Split(forward, reverse, by_columns=gone)


def _split(pattern: Pattern, count: int) -> tuple[Colours, Colours, Any]:
    ranked = np.argsort(-np.diff(pattern.indptr), kind="stable")
    gone = np.zeros(pattern.shape[0], bool)
    gone[ranked[:count]] = True
    return (
        colour_columns(without_rows(pattern, gone)),
        colour_rows(without_rows(pattern, ~gone)),
        gone,
    )
