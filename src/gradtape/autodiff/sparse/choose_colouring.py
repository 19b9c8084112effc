"""Chooses a colouring: from a pattern to the products that give all its entries at least cost.

Compression: seeds from colours, and the places of the entries in the products.

Forward products (JVPs) with one seed per colour of the columns give an array of shape
(colours, rows); reverse products (VJPs) with one seed per colour of the rows one of shape
(colours, columns). Each entry of the matrix is one element of these arrays laid end to end:
decompression is one gather, at positions computed once. Gebremedhin, Tarafdar, Pothen and Walther,
Efficient computation of sparse Hessians using coloring and automatic differentiation, 2009,
doi:10.1287/ijoc.1080.0286, does the same for symmetric matrices, directly and by substitution.

Bidirectional colouring: some entries by forward mode, the others by reverse mode.

One full row gives every column a colour of its own, and one full column every row. If reverse mode
computes the full rows, few colours are enough for the columns. Without the t longest rows, the
columns need about as many colours as the next longest row has entries, and the t rows need about t
colours. The rest may be a grid. Or the longest columns by forward mode, whichever is cheaper.

It is a star bicolouring of the bipartite graph of rows and columns in which lines without entries
of their own have no colour: each entry stands alone in a product with a colour of its row or of its
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.colouring import (
    ORDERS,
    Colours,
    colour_columns,
    colour_rows,
    colour_vertices,
    edge_numbers,
    known_order,
)
from gradtape.autodiff.sparse.pattern import Pattern, SparseMatrix, pattern_of
from gradtape.config import REVERSE_PRODUCT_COST
from gradtape.dtypes import Array, DType
from gradtape.errors import SparsityError
from gradtape.records import dataclass

BOOL = np.dtype(bool)
METHODS = ("column", "row", "bidirectional")
SYMMETRIC_METHODS = ("star", "acyclic")


@dataclass(frozen=True, eq=False, repr=False)
class Coloured:
    """A pattern with colours: the products to compute, and the places of the entries in them.

    `method` is `column` (forward products only), `row` (reverse products only), `bidirectional`
    (both), or `star` or `acyclic` (Hessian-vector products).
    """

    pattern: Pattern
    method: str
    columns: Colours | None = None
    rows: Colours | None = None
    split: Split | None = None

    @property
    def symmetric(self) -> bool:
        """Whether the colours are those of a Hessian."""
        return self.method in SYMMETRIC_METHODS

    @property
    def forward_count(self) -> int:
        """The number of forward products."""
        return 0 if self.columns is None else self.columns.count

    @property
    def reverse_count(self) -> int:
        """The number of reverse products."""
        return 0 if self.rows is None else self.rows.count

    def cost(self, forward_cost: float = 1.0, reverse_cost: float = REVERSE_PRODUCT_COST) -> float:
        """The cost of all products together."""
        return forward_cost * self.forward_count + reverse_cost * self.reverse_count

    def forward_seeds(self, dtype: DType = BOOL) -> Array:
        """The directions of the forward products, of shape (forward_count, columns)."""
        return seeds_of(self.columns, self.pattern.shape[1], dtype)

    def reverse_seeds(self, dtype: DType = BOOL) -> Array:
        """The weights of the reverse products, of shape (reverse_count, rows)."""
        return seeds_of(self.rows, self.pattern.shape[0], dtype)

    @cached_property
    def positions(self) -> Array | None:
        """For each entry of the pattern its place in the flat products, forward ones first.

        None after an acyclic colouring, where an entry is not one element: see `substitution`.
        """
        if self.method == "acyclic":
            return None
        if self.method == "star":
            assert self.columns is not None
            return star_positions(self.pattern, self.columns)
        if self.split is not None:
            return split_positions(self.pattern, self.split)
        if self.columns is not None:
            return column_positions(self.pattern, self.columns)
        assert self.rows is not None
        return row_positions(self.pattern, self.rows)

    @cached_property
    def substitution(self) -> Substitution | None:
        """The triangular system for the entries after an acyclic colouring, or None."""
        if self.method != "acyclic" or self.columns is None:
            return None
        return substitution(self.pattern, self.columns)

    def decompress(self, *products: Array) -> Array:
        """The entries, in the order of the pattern, from the forward and the reverse products."""
        parts = [np.reshape(part, -1) for part in products]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self.substitution is not None:
            return self.substitution.apply(flat)
        assert self.positions is not None
        return flat.take(self.positions)

    def __repr__(self) -> str:
        return (
            f"Coloured {self.pattern!r}: {self.method}, {self.forward_count} forward and "
            f"{self.reverse_count} reverse products"
        )


def colour(
    pattern: Any,
    method: str = "auto",
    *,
    order: str | None = None,
    forward_cost: float = 1.0,
    reverse_cost: float = REVERSE_PRODUCT_COST,
) -> Coloured:
    """Colours for a Jacobian with this pattern, by one of METHODS or, if `auto`, the cheapest.

    A method is tried only while its lower bound is below the cost found so far. Both directions
    together never cost more than one of them. `order` is the one of ORDERS in which columns or rows
    are coloured; without it, the arithmetic of grids is tried first and then several orders.

    >>> gt.colour(np.eye(3), "column").columns.count
    1
    """
    pattern = pattern if isinstance(pattern, Pattern) else pattern_of(pattern)
    orders = _orders(order)
    if method == "column":
        return Coloured(pattern, "column", columns=colour_columns(pattern, orders))
    if method == "row":
        return Coloured(pattern, "row", rows=colour_rows(pattern, orders))
    if method not in ("auto", "bidirectional"):
        raise ValueError(f"colour: method {method!r} is unknown. Choose auto or one of {METHODS}.")
    best: Coloured | None = None
    cost = np.inf
    costs = forward_cost, reverse_cost
    # Each with an estimate of its least cost; on a tie, simple methods first.
    for bound, _, way in sorted(_candidates(pattern, *costs)):
        if cost <= bound:
            break
        if way == "bidirectional":
            found = _split(pattern, colour_split(pattern, *costs, orders))
        else:
            found = colour(pattern, way, order=order)
        if found.cost(*costs) < cost:
            best, cost = found, found.cost(*costs)
    assert best is not None
    return best if method == "auto" else replace(best, method=method)


def _candidates(
    pattern: Pattern, forward_cost: float, reverse_cost: float
) -> list[tuple[float, int, str]]:
    """The least cost of each method that may be the cheapest, its rank and its name."""
    tallest, longest = pattern.shape
    if pattern.rows is not None:
        longest = int(np.diff(pattern.indptr).max(initial=0))
        tallest = int(np.bincount(pattern.indices, minlength=1).max())
    found = [(forward_cost * longest, 0, "column"), (reverse_cost * tallest, 1, "row")]
    if pattern.rows is not None:
        by_rows, _ = estimate(pattern, forward_cost, reverse_cost)
        by_columns, _ = estimate(pattern.transposed, reverse_cost, forward_cost)
        bound = min(by_rows, by_columns)
        if bound < min(found)[0]:
            found.append((bound, 2, "bidirectional"))
    return found


def _split(pattern: Pattern, split: Split) -> Coloured:
    if not split.rows.count:
        return Coloured(pattern, "column", split.columns)
    if not split.columns.count:
        return Coloured(pattern, "row", rows=split.rows)
    return Coloured(pattern, "bidirectional", split.columns, split.rows, split)


def colour_symmetric(
    pattern: Pattern, method: str = "star", *, order: str | None = None
) -> Coloured:
    """Colours for a Hessian, whose pattern is symmetric, by one of SYMMETRIC_METHODS."""
    if method in SYMMETRIC_METHODS:
        columns = colour_vertices(pattern, method == "acyclic", _orders(order))
        return Coloured(pattern, method, columns)
    raise ValueError(
        f"colour_symmetric: method {method!r} is unknown. Choose one of {SYMMETRIC_METHODS}."
    )


def _orders(order: str | None) -> Sequence[str]:
    return ORDERS if order is None else (known_order(order),)


def seeds_of(colours: Colours | None, size: int, dtype: DType) -> Array:
    """One row per colour: 1 at the columns, or rows, that have it."""
    if colours is None:
        return np.zeros((0, size), dtype)
    found = np.zeros((colours.count, size), dtype)
    present = np.flatnonzero(colours.of >= 0)
    found[colours.of[present], present] = 1
    return found


def column_positions(pattern: Pattern, colours: Colours) -> Array:
    """The place of entry (i, j): in the product with the colour of j, at i."""
    return colours.of[pattern.indices] * pattern.shape[0] + pattern.row_numbers


def row_positions(pattern: Pattern, colours: Colours) -> Array:
    """The place of entry (i, j): in the product with the colour of i, at j."""
    return colours.of[pattern.row_numbers] * pattern.shape[1] + pattern.indices


def split_positions(pattern: Pattern, split: Split) -> Array:
    """The place of each entry: forward products come first, then reverse products."""
    offset = split.columns.count * pattern.shape[0]
    return np.where(
        split.by_rows,
        offset + row_positions(pattern, split.rows),
        column_positions(pattern, split.columns),
    )


def star_positions(pattern: Pattern, colours: Colours) -> Array:
    """The place of entry (i, j): in the product with the colour of j at i, or of i at j.

    It is the first if no other column of row i has the colour of j. In a star colouring each entry
    stands alone in at least one of the two places.
    """
    size = pattern.shape[0]
    own = column_positions(pattern, colours)
    alone = np.bincount(own, minlength=1)[own] == 1
    mirrored = row_positions(pattern, colours)
    alone_there = np.bincount(own, minlength=mirrored.max(initial=0) + 1)[mirrored] == 1
    if not (alone | alone_there).all():
        raise SparsityError(
            f"compression: {colours.count} colours of {size} columns are no star colouring of this "
            "pattern: some entries never stand alone. Use colour_symmetric."
        )
    return np.where(alone, own, mirrored)


@dataclass(frozen=True, eq=False)
class Substitution:
    """The triangular system for the entries of a Hessian after an acyclic colouring.

    Each compressed value is the sum over a group of edges. The edges are solved in a sequence in
    which each is the last unknown one of some group: a triangular system with a unit diagonal.
    """

    # The places of the sums in the flat products, in the order in which edges are solved.
    sums: Array
    system: SparseMatrix
    # For each entry of the pattern the number of its edge, or -1 on the diagonal; and the place of
    # the diagonal entry of its row.
    entries: Array
    diagonal: Array

    def apply(self, compressed: Array) -> Array:
        """The entries, in the order of the pattern."""
        flat = np.reshape(compressed, -1)
        found = flat[self.sums]
        if self.system.nnz > self.system.shape[0]:
            from scipy.sparse.linalg import spsolve_triangular  # slow to import

            system = self.system
            # Older versions of SciPy solve with 32-bit indices only.
            system.indices = system.indices.astype(np.int32, copy=False)
            system.indptr = system.indptr.astype(np.int32, copy=False)
            found = spsolve_triangular(system, found, lower=True, unit_diagonal=True)
        on_diagonal = self.entries < 0
        if not len(found):
            return flat[self.diagonal]
        return np.where(on_diagonal, flat[self.diagonal], found[self.entries]).astype(flat.dtype)


def substitution(pattern: Pattern, colours: Colours) -> Substitution:
    """The triangular system that an acyclic colouring of a symmetric pattern gives."""
    from scipy.sparse import csr_array  # slow to import

    size = pattern.shape[0]
    off = pattern.row_numbers != pattern.indices
    graph = pattern.keeping(off)
    rows, columns = graph.row_numbers, graph.indices
    numbers, count = edge_numbers(graph)
    places, groups = np.unique(colours.of[columns] * np.int64(size) + rows, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    edge_groups = groups[order].astype(np.int64)
    members = csr_array(
        (np.ones(len(groups), bool), (groups, numbers)), shape=(len(places), max(count, 1))
    )
    left = np.diff(members.indptr).astype(np.int64)
    queue, sequence = np.zeros(len(places) + 1, np.int64), np.zeros(count, np.int64)
    solved_from = np.full(count, -1)
    solved = loop_runner.run(
        greedy.peel_trees,
        len(places),
        (edge_groups, members.indptr, members.indices),
        (left, queue, sequence, solved_from),
        4.0 * count,
    )
    if solved < count:
        raise SparsityError(
            f"compression: {colours.count} colours of {size} columns are no acyclic colouring of "
            f"this pattern: {count - solved} entries are not determined. Use colour_symmetric."
        )
    rank = np.zeros(max(count, 1), np.int64)
    rank[sequence] = np.arange(count)
    used = members[solved_from[sequence]]
    system = csr_array((np.ones(used.nnz), rank[used.indices], used.indptr), shape=(count, count))
    system.sort_indices()
    entries = np.full(pattern.nnz, -1)
    entries[off] = rank[numbers]
    diagonal = colours.of[pattern.row_numbers] * size + pattern.row_numbers
    return Substitution(places[solved_from[sequence]], system, entries, diagonal)


@dataclass(frozen=True, eq=False)
class Split:
    """Colours of columns and of rows; `by_rows` marks the entries that reverse mode computes."""

    columns: Colours
    rows: Colours
    by_rows: Array


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
    orders: Sequence[str] = ORDERS,
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
        colour_columns(pattern.keeping(~marked), orders),
        colour_rows(pattern.keeping(marked), orders),
        marked,
    )


def _longest(pattern: Pattern, count: int) -> Array:
    """Marks of the `count` longest rows."""
    found = np.zeros(pattern.shape[0], bool)
    found[np.argsort(-np.diff(pattern.indptr), kind="stable")[:count]] = True
    return found
