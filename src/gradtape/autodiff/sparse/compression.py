"""Compression: seeds from colours, and the places of the entries in the products.

Forward products (JVPs) with one seed per colour of the columns give an array of shape
(colours, rows); reverse products (VJPs) with one seed per colour of the rows one of shape
(colours, columns). Each entry of the matrix is one element of these arrays laid end to end:
decompression is one gather, at positions computed once. Gebremedhin, Tarafdar, Pothen and Walther,
Efficient computation of sparse Hessians using coloring and automatic differentiation, 2009,
doi:10.1287/ijoc.1080.0286, does the same for symmetric matrices, directly and by substitution.
"""

from __future__ import annotations

import numpy as np

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.bidirectional import Split
from gradtape.autodiff.sparse.colouring import Colours
from gradtape.autodiff.sparse.pattern import Pattern, SparseMatrix
from gradtape.autodiff.sparse.symmetric import edge_numbers
from gradtape.dtypes import Array, DType
from gradtape.errors import SparsityError
from gradtape.records import dataclass


def seeds(colours: Colours | None, size: int, dtype: DType) -> Array:
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
