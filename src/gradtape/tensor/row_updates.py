"""Row-sparse gradients: repeated rows summed, and single rows of a table read and replaced.

The number of different rows is never computed: it would depend on values, and the step would have
to stop for it. Arrays keep the length of the look-up, and repeats are made harmless instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.ops.arrays.creation import zeros
from gradtape.ops.arrays.gathering import GATHER, SCATTER_ADD, SCATTER_SET
from gradtape.ops.arrays.sorting import SEARCHSORTED, sort
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.trace.record import record


def combined_rows(gradient: RowSparse) -> RowSparse:
    """The same gradient with indices in order, where of equal rows the first holds the sum.

    The others are zero. So sums over its values see each row of the table once.

    >>> rows = gt.RowSparse(gt.asarray([1, 1]), gt.asarray([[1.0], [2.0]]), gt.zeros((3, 1)).spec)
    >>> gt.libraries.combined_rows(rows).values.tolist()
    [[3.0], [0.0]]
    """
    indices, values = gradient.rows
    ordered = sort(indices)
    # Where an index stands first among the ordered ones is the same for all its repeats.
    first = record(SEARCHSORTED, (ordered, indices), ("left",))
    nothing = zeros(values.shape, dtype=values.dtype)
    sums = record(SCATTER_ADD, (nothing, first, values), (0,))
    return RowSparse(ordered, sums, gradient.spec)


def add_to_rows(table: Tensor, gradient: RowSparse, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The table with `function(values)` added to the rows that the gradient names.

    >>> rows = gt.RowSparse(gt.asarray([1, 1]), gt.asarray([[1.0], [2.0]]), gt.zeros((3, 1)).spec)
    >>> gt.libraries.add_to_rows(gt.zeros((3, 1)), rows, lambda x: -x).tolist()
    [[0.0], [-3.0], [0.0]]
    """
    indices, values = gradient.rows
    return record(SCATTER_ADD, (table, indices, function(values)), (0,))


def update_rows(
    tables: Sequence[Tensor], gradient: RowSparse, function: Callable[..., Sequence[Tensor]]
) -> list[Tensor]:
    """Tables in which the rows that the gradient names are replaced.

    `function(gradient, rows of each table)` gives the new rows. A row that is named several times
    is computed as often from the same sum, so it does not matter which of them is written last.

    >>> rows = gt.RowSparse(gt.asarray([1, 1]), gt.asarray([[1.0], [2.0]]), gt.zeros((3, 1)).spec)
    >>> (found,) = gt.libraries.update_rows([gt.ones((3, 1))], rows, lambda g, row: [row - g])
    >>> found.tolist()
    [[1.0], [-2.0], [1.0]]
    """
    gradient = combined_rows(gradient)
    indices, sums = gradient.rows
    first = record(SEARCHSORTED, (indices, indices), ("left",))
    sums = record(GATHER, (sums, first), (0,))
    new = function(sums, *[record(GATHER, (table, indices), (0,)) for table in tables])
    return [
        record(SCATTER_SET, (table, indices, rows), (0,))
        for table, rows in zip(tables, new, strict=True)
    ]
