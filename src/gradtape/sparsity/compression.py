"""Compression: seeds from colours, and where the entries lie in what the products give.

Forward products (JVPs) with one seed per colour of the columns give an array of shape
(colours, rows); reverse products (VJPs) with one seed per colour of the rows one of shape
(colours, columns). Laid end to end, an entry of the matrix is one element of that: decompression is
one gather, at positions computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.errors import SparsityError
from gradtape.sparsity import greedy, loop_runner
from gradtape.sparsity.bidirectional import Split
from gradtape.sparsity.colouring import Colours
from gradtape.sparsity.pattern import Pattern, listed_pattern
from gradtape.sparsity.symmetric import edge_numbers


def seeds(colours: Colours, dtype: Any = bool) -> Any:
    """One row per colour: 1 at the columns, or rows, that have it."""
    found = np.zeros((colours.count, len(colours.of)), dtype)
    present = np.flatnonzero(colours.of >= 0)
    found[colours.of[present], present] = 1
    return found


def column_positions(pattern: Pattern, colours: Colours) -> Any:
    """Where entry (i, j) lies: in the product with the colour of j, at i."""
    return colours.of[pattern.indices] * pattern.shape[0] + pattern.row_numbers


def row_positions(pattern: Pattern, colours: Colours) -> Any:
    """Where entry (i, j) lies: in the product with the colour of i, at j."""
    return colours.of[pattern.row_numbers] * pattern.shape[1] + pattern.indices


def split_positions(pattern: Pattern, split: Split) -> Any:
    """Where an entry lies: forward products come first, then reverse ones."""
    offset = split.columns.count * pattern.shape[0]
    return np.where(
        split.by_rows,
        offset + row_positions(pattern, split.rows),
        column_positions(pattern, split.columns),
    )


def star_positions(pattern: Pattern, colours: Colours) -> Any:
    """Where entry (i, j) lies: in the product with the colour of j at i, or else of i at j.

    The first if no other column of row i has the colour of j. A star colouring makes one of the two
    true for each entry.
    """
    size = pattern.shape[0]
    own = column_positions(pattern, colours)
    alone = np.bincount(own, minlength=1)[own] == 1
    mirrored = row_positions(pattern, colours)
    alone_there = np.bincount(own, minlength=mirrored.max(initial=0) + 1)[mirrored] == 1
    if not (alone | alone_there).all():
        raise SparsityError(
            f"compression: {colours.count} colours of {size} columns are no star colouring of this "
            "pattern: some entries never stand alone. Use colour_star."
        )
    return np.where(alone, own, mirrored)


def dense_positions(pattern: Pattern) -> Any:
    """Where the entries lie in the flattened dense matrix."""
    return pattern.row_numbers.astype(np.intp) * pattern.shape[1] + pattern.indices


@dataclass(frozen=True, eq=False)
class Substitution:
    """How entries follow from Hessian-vector products after an acyclic colouring.

    Each compressed value adds up a group of edges. Edges are solved in a sequence in which each is
    the last unknown one of some group: a triangular system with ones on its diagonal.
    """

    sums: Any
    system: Any
    # For each entry of the pattern the edge it is, or -1 on the diagonal; and where that lies.
    entries: Any
    diagonal: Any

    def apply(self, compressed: Any) -> Any:
        """The entries, in the order of the pattern."""
        flat = np.reshape(compressed, -1)
        found = flat[self.sums]
        if self.system.nnz > self.system.shape[0]:
            from scipy.sparse.linalg import spsolve_triangular

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
    """The elimination that an acyclic colouring of a symmetric pattern allows."""
    from scipy.sparse import csr_array

    size = pattern.shape[0]
    off = pattern.row_numbers != pattern.indices
    rows, columns = pattern.row_numbers[off], pattern.indices[off]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))])
    graph = listed_pattern(pattern.shape, indptr, columns)
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
            f"this pattern: {count - solved} entries are not determined. Use colour_acyclic."
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
