"""Orders in which a greedy algorithm may colour the columns of a pattern.

`largest_first`: Welsh and Powell, An upper bound for the chromatic number of a graph, 1967,
doi:10.1093/comjnl/10.1.85. `smallest_last`: Matula and Beck, Smallest-last ordering and clustering
and graph coloring algorithms, 1983, doi:10.1145/2402.322385.
"""

from __future__ import annotations

import numpy as np

from gradtape.dtypes import Array
from gradtape.sparsity import greedy, loop_runner
from gradtape.sparsity.pattern import Pattern

# Cheap orders first.
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
