"""Colouring of symmetric patterns: star colouring, and acyclic colouring with fewer colours.

Of each pair of entries (i, j) and (j, i) one is enough. After a star colouring it stands alone in
the compressed Hessian (Coleman and Moré, Estimation of sparse Hessian matrices and graph coloring
problems, 1984, doi:10.1007/BF02612334). After an acyclic colouring others have to be subtracted
from it (Coleman and Cai, The cyclic coloring problem and estimation of sparse Hessian matrices,
1986, doi:10.1137/0607026).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.colouring import (
    ORDERS,
    Colours,
    all_different,
    best_of,
    compact,
    work_of,
)
from gradtape.autodiff.sparse.grid_colouring import lattice_colours
from gradtape.autodiff.sparse.pattern import Pattern, listed_pattern
from gradtape.config import COLOURING_PATIENCE, LARGEST_STAR_COLOURING
from gradtape.dtypes import Array
from gradtape.errors import ShapeError, SparsityError


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
    whole = _with_diagonal(pattern)
    found = lattice_colours(whole, int(np.diff(whole.indptr).max(initial=0)))
    return None if found is None else compact(found[0], present)


def _with_diagonal(pattern: Pattern) -> Pattern:
    from scipy.sparse import eye_array  # slow to import

    size = pattern.shape[0]
    found = (pattern.matrix + eye_array(size, dtype=bool, format="csr")).tocsr()
    return listed_pattern(pattern.shape, found.indptr, found.indices)


def _without_hubs(graph: Pattern) -> tuple[Pattern | None, Array]:
    """The graph without the vertices with so many neighbours that passes would take too long.

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
