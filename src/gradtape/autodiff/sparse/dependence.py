"""Dependence: the elements of the source that each element of an intermediate value depends on.

Sets of elements are the rows of a boolean CSR matrix, and elements refer to them by number. So
movement only maps numbers, a broadcast sum is one set for all elements, and only the union of
different sets makes new rows. Everything is array work in NumPy and SciPy, with no loop over
elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.autodiff.sparse.pattern import SparseMatrix
from gradtape.dtypes import Array
from gradtape.ir.spec import Shape
from gradtape.ops.families.sparsity import Reads, agreeing
from gradtape.records import dataclass


@dataclass(frozen=True, eq=False)
class Dependence:
    """Element k depends on set number `chosen[k]`, or on set k if `chosen` is None.

    The last row of `sets` is always the empty set.
    """

    size: int
    sets: SparseMatrix
    chosen: Array | None = None

    @property
    def width(self) -> int:
        """The number of elements of the source."""
        return int(self.sets.shape[1])

    @property
    def empty(self) -> int:
        """The number of the empty set."""
        return int(self.sets.shape[0]) - 1

    def numbers(self) -> Array:
        """The number of the set of each element."""
        return np.arange(self.size) if self.chosen is None else self.chosen

    def counts(self) -> Array:
        """The number of elements of the source that each element depends on."""
        counts: Array = np.diff(self.sets.indptr)
        return counts[: self.size] if self.chosen is None else counts[self.chosen]

    def total(self) -> int:
        """The number of entries if every element lists its own."""
        return int(self.counts().sum(dtype=np.int64))

    def listed(self) -> SparseMatrix:
        """One row per element, as a CSR matrix."""
        if self.chosen is None:
            return _rows(self.sets, self.size)
        return self.sets[self.chosen]


def _rows(matrix: SparseMatrix, count: int) -> SparseMatrix:
    """The first rows of a matrix whose other rows are empty."""
    return _matrix(matrix.indptr[: count + 1], matrix.indices, count, matrix.shape[1])


def _matrix(indptr: Array, indices: Array, rows: int, columns: int) -> SparseMatrix:
    from scipy.sparse import csr_array  # slow to import

    data = np.ones(len(indices), bool)
    found = csr_array((data, indices, indptr), shape=(rows, columns))
    found.has_sorted_indices = found.has_canonical_format = True
    return found


def _with_empty(matrix: SparseMatrix) -> SparseMatrix:
    indptr = np.append(matrix.indptr, matrix.indptr[-1])
    return _matrix(indptr, matrix.indices, matrix.shape[0] + 1, matrix.shape[1])


def itself(size: int) -> Dependence:
    """The source: each element depends on itself."""
    indptr = np.minimum(np.arange(size + 2), size)
    return Dependence(size, _matrix(indptr, np.arange(size), size + 1, size))


def picked(found: Dependence, positions: Array) -> Dependence:
    """Element k depends on what element `positions[k]` does; on nothing if that is -1."""
    numbers = np.append(found.numbers(), found.empty)
    return Dependence(len(positions), found.sets, numbers[positions])


def one_set(found: Dependence, size: int, where: Array | None = None) -> Dependence:
    """Each of `size` elements depends on everything that the given elements depend on."""
    chosen = found.numbers() if where is None else found.numbers()[where]
    used = np.zeros(found.empty + 1, bool)
    used[chosen] = True
    sets = found.sets if used.all() else found.sets[np.flatnonzero(used)]
    marks = np.zeros(found.width, bool)
    marks[sets.indices] = True
    indices = np.flatnonzero(marks)
    count = len(indices)
    return Dependence(
        size, _matrix(np.array([0, count, count]), indices, 2, found.width), np.zeros(size, np.intp)
    )


def grouped(found: Dependence, groups: Array, count: int, limit: int) -> Dependence | None:
    """One element for each group, with the union of its members' sets; None past the limit."""
    members = found.numbers()
    if count == 1:
        return one_set(found, 1, groups == 0)
    if groups.min(initial=0) < 0:
        kept = groups >= 0
        groups, members = groups[kept], members[kept]
    return _joined_sets(found, groups, members, count, limit)


def _joined_sets(
    found: Dependence, groups: Array, members: Array, count: int, limit: int
) -> Dependence | None:
    """One element for each group, with the union of the sets that are its members."""
    from scipy.sparse import csr_array  # slow to import

    belongs = csr_array(
        (np.ones(len(groups), bool), (groups, members)), shape=(count + 1, found.empty + 1)
    )
    belongs.sum_duplicates()
    if int(np.diff(found.sets.indptr)[belongs.indices].sum(dtype=np.int64)) > 4 * limit:
        return None
    joined = belongs @ found.sets
    joined.sort_indices()
    joined.has_canonical_format = True
    return Dependence(count, joined)


def listed(found: Dependence, matrix: SparseMatrix, limit: int) -> Dependence | None:
    """Row k depends on what the elements depend on for which row k of a matrix has entries."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return _joined_sets(found, rows, found.numbers()[matrix.indices], matrix.shape[0], limit)


def union(parts: Sequence[Dependence], limit: int) -> Dependence | None:
    """Each element with the union of its sets in all parts; None past the limit."""
    distinct: list[Dependence] = []
    for part in parts:
        if part.sets.nnz and not any(_equal(part, other) for other in distinct):
            distinct.append(part)
    if len(distinct) <= 1:
        return distinct[0] if distinct else parts[0]
    chosen = None
    if any(part.empty < part.size for part in distinct):
        # Elements share sets: only the combinations of sets that occur are joined.
        distinct, chosen = _combinations(distinct)
    if max(part.total() for part in distinct) > limit:
        return None
    total = distinct[0].listed()
    for part in distinct[1:]:
        total = total + part.listed()
        if total.nnz > limit:
            return None
    return Dependence(parts[0].size, _with_empty(total), chosen)


def _equal(one: Dependence, other: Dependence) -> bool:
    if one.sets is not other.sets or one.size != other.size:
        return False
    if one.chosen is None or other.chosen is None:
        return one.chosen is other.chosen
    return one.chosen is other.chosen or bool(np.array_equal(one.chosen, other.chosen))


def _combinations(parts: list[Dependence]) -> tuple[list[Dependence], Array | None]:
    size = parts[0].size
    code = np.zeros(size, np.int64)
    for part in parts:
        code = code * (part.empty + 1) + part.numbers()
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
    if len(first) > size // 2:
        return parts, None
    return [Dependence(len(first), part.sets, part.numbers()[first]) for part in parts], code


def joined(parts: Sequence[Dependence | None], sizes: Sequence[int]) -> Dependence:
    """The elements of several values laid end to end; a part that is None depends on nothing."""
    from scipy.sparse import vstack  # slow to import

    active = [part for part in parts if part is not None]
    stacked = list({id(part.sets): part.sets for part in active}.values())
    if len(stacked) == 1:
        sets, offsets = stacked[0], {id(stacked[0]): 0}
    else:
        # The last row of the last matrix is empty, as it has to be.
        sets = vstack(stacked, format="csr")
        starts = np.cumsum([0] + [matrix.shape[0] for matrix in stacked])
        offsets = {id(matrix): int(start) for matrix, start in zip(stacked, starts, strict=False)}
    nowhere = sets.shape[0] - 1
    numbers = [
        np.full(size, nowhere) if part is None else part.numbers() + offsets[id(part.sets)]
        for part, size in zip(parts, sizes, strict=True)
    ]
    return Dependence(sum(sizes), sets, np.concatenate(numbers))


def running(
    found: Dependence, shape: Shape, axis: int, reverse: bool, limit: int
) -> tuple[Dependence, bool]:
    """Each element depends on those up to it along the axis, or from it on.

    Past the limit it depends on all elements of the axis; the second result is False then.
    """
    others = [(at, at) for at in range(len(shape)) if at != axis]
    lanes = reading(found, agreeing(shape, shape, others), limit)
    length = shape[axis]
    if lanes is None:
        lanes = one_set(found, found.size)
    elif lanes.sets.nnz * length <= 4 * limit:
        numbers = np.moveaxis(np.arange(found.size).reshape(shape), axis, 0)
        step = 1
        while step < length:
            # Doubling: sets that reach 1, 2, 4, … elements back.
            positions = np.full(shape, -1)
            view = np.moveaxis(positions, axis, 0)
            if reverse:
                view[:-step] = numbers[step:]
            else:
                view[step:] = numbers[:-step]
            further = union([found, picked(found, positions.reshape(-1))], limit)
            if further is None:
                return lanes, False
            found = further
            step *= 2
        return found, True
    return lanes, False


def reading(found: Dependence, reads: Reads, limit: int) -> Dependence | None:
    """The dependence of an op's result through one operand; None past the limit."""
    if reads.groups is not None:
        members = grouped(found, reads.groups, reads.count, limit)
        if members is None:
            return None
        found = members
    return found if reads.positions is None else picked(found, reads.positions)
