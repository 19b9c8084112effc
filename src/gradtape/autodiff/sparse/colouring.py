"""Colouring of columns and rows: columns of one colour share no row, rows no column.

The product of the Jacobian with the sum of the columns of one colour then holds every entry of
these columns by itself (Curtis, Powell and Reid, On the estimation of sparse Jacobian matrices,
1974, doi:10.1093/imamat/13.1.117).

Colouring of symmetric patterns: star colouring, and acyclic colouring with fewer colours.

Of each pair of entries (i, j) and (j, i) one is enough. After a star colouring it stands alone in
the compressed Hessian (Coleman and Moré, Estimation of sparse Hessian matrices and graph coloring
problems, 1984, doi:10.1007/BF02612334). After an acyclic colouring others have to be subtracted
from it (Coleman and Cai, The cyclic coloring problem and estimation of sparse Hessian matrices,
1986, doi:10.1137/0607026).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.grid_colouring import lattice_colours
from gradtape.autodiff.sparse.pattern import Pattern, listed_pattern
from gradtape.config import (
    COLOURING_PATIENCE,
    COLOURING_REPEATS,
    LARGEST_COLOURING,
    LARGEST_STAR_COLOURING,
)
from gradtape.dtypes import Array
from gradtape.errors import ShapeError, SparsityError
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
        other = _colour_apart(pattern, present, orders if best is None else orders[:1])
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


def _colour_apart(pattern: Pattern, present: Array, orders: Sequence[str]) -> Colours:
    """The best of greedy colourings of the columns that are present, in some orders."""
    size, turned, work = pattern.shape[1], pattern.transposed, work_of(pattern)
    if work > LARGEST_COLOURING:
        return all_different(present)
    sides = (turned.indptr, turned.indices, pattern.indptr, pattern.indices)

    def one_pass(sequence: Array) -> Colours:
        sequence = sequence[present[sequence]]
        colours, forbidden = np.full(size, -1), np.zeros(size + 1, np.int64)
        loop, outputs = greedy.colour_apart, (colours, forbidden)
        count = loop_runner.run(loop, len(sequence), (sequence, *sides), outputs, work)
        return Colours(colours, count)

    # A pass in the order of the colours of another pass, last colour first, never takes more
    # colours and often fewer (Culberson, Iterated greedy graph coloring and the difficulty
    # landscape, technical report 92-07, University of Alberta, 1992).
    repeats = COLOURING_REPEATS if len(orders) > 1 else 0
    lowest = int(np.diff(pattern.indptr).max(initial=0))
    return best_of(pattern, (*orders, *(None,) * repeats), one_pass, work, lowest)


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


def require_symmetric(pattern: Pattern) -> None:
    """Raise unless the pattern is square and equal to its transpose."""
    if pattern.shape[0] != pattern.shape[1]:
        raise ShapeError(
            f"colouring: a pattern of shape {pattern.shape} is not square, so it is not that of a "
            "Hessian. Colour its columns or rows."
        )
    turned = pattern.transposed
    same = np.array_equal(turned.indptr, pattern.indptr)
    if not same or not np.array_equal(turned.indices, pattern.indices):
        raise SparsityError(
            "colouring: the pattern is not symmetric. Add its transpose, or colour its columns."
        )


def colour_vertices(pattern: Pattern, acyclic: bool, orders: Sequence[str] = ORDERS) -> Colours:
    """Neighbours differ, and any two colours induce stars: each entry can be read off.

    After an `acyclic` colouring they induce trees: entries follow by substitution.
    """
    size = pattern.shape[1]
    if pattern.rows is None:
        return Colours(np.arange(size), size)
    require_symmetric(pattern)
    present = np.diff(pattern.indptr) > 0
    graph, hubs = _without_hubs(pattern.keeping(pattern.row_numbers != pattern.indices))
    if graph is None:
        return all_different(present)
    numbers, edges = edge_numbers(graph)
    work = work_of(graph)

    def one_pass(sequence: Array) -> Colours:
        inputs = (sequence, graph.indptr, graph.indices, numbers)
        colours = np.full(size, -1)
        room = np.zeros((4, size + 2), np.int64)
        if acyclic:
            outputs = (colours, *room[:3], np.arange(edges), *np.zeros((2, edges), np.int64))
            loop_runner.run(greedy.colour_trees, size, inputs, outputs, 2 * work)
        else:
            treated, stars = np.zeros(size, np.int64), np.zeros((2, edges + 1), np.int64)
            outputs = (colours, *room, treated, *stars)
            loop_runner.run(greedy.colour_stars, size, inputs, outputs, 2 * work)
        colours[hubs] = colours.max(initial=-1) + 1 + np.arange(len(hubs))
        return compact(colours, present)

    best = _by_lattice(pattern, present) if tuple(orders) == ORDERS else None
    # On a grid one more pass is enough. Elsewhere orders differ much: at least two are tried.
    chosen = orders if best is None else orders[:1]
    lowest = _fewest(graph, acyclic) + len(hubs)
    # Vertices two steps apart are columns that share a row, the diagonal included.
    return best_of(graph, chosen, one_pass, work, lowest, best, max(COLOURING_PATIENCE, 2 * work))


def _fewest(graph: Pattern, acyclic: bool) -> int:
    """A lower bound for the number of colours."""
    if not graph.nnz:
        return 1
    ends = np.diff(graph.indptr)
    # An edge between two vertices with other neighbours lies on a path of four, or on a triangle.
    inner = (ends[graph.row_numbers] > 1) & (ends[graph.indices] > 1)
    return 3 if inner.any() and not acyclic else 2


def _by_lattice(pattern: Pattern, present: Array) -> Colours | None:
    """A colouring in which columns of one colour share no row: on grids often the best."""
    from scipy.sparse import eye_array  # slow to import

    filled = (pattern.matrix + eye_array(pattern.shape[0], dtype=bool, format="csr")).tocsr()
    whole = listed_pattern(pattern.shape, filled.indptr, filled.indices)
    found = lattice_colours(whole, int(np.diff(whole.indptr).max(initial=0)))
    return None if found is None else compact(found[0], present)


def _without_hubs(graph: Pattern) -> tuple[Pattern | None, Array]:
    """The graph without hubs: vertices with too many neighbours for passes in reasonable time.

    A hub with a colour of its own is in no conflict. The graph is None if there are many hubs.
    """
    degrees = np.diff(graph.indptr)
    if work_of(graph) <= LARGEST_STAR_COLOURING:
        return graph, np.zeros(0, np.int64)
    ranked = np.argsort(-degrees, kind="stable")
    squares = np.square(degrees[ranked].astype(float))
    rest = squares.sum() - np.cumsum(squares)
    count = int(np.argmax(rest <= LARGEST_STAR_COLOURING)) + 1
    if count > graph.shape[0] // 2:
        return None, ranked[:0]
    is_hub = np.zeros(graph.shape[0], bool)
    is_hub[ranked[:count]] = True
    kept = ~is_hub[graph.row_numbers] & ~is_hub[graph.indices]
    return graph.keeping(kept), ranked[:count]


def edge_numbers(graph: Pattern) -> tuple[Array, int]:
    """For each entry of a symmetric pattern without diagonal the number of its edge."""
    rows = graph.row_numbers
    # Transposing the numbers of the entries gives each entry its counterpart.
    mates = graph.with_data(np.arange(graph.nnz)).T.tocsr().data
    upper = rows < graph.indices
    count = int(upper.sum())
    numbers = np.zeros(graph.nnz, np.int64)
    numbers[upper] = np.arange(count)
    numbers[~upper] = numbers[mates[~upper]]
    return numbers, count
