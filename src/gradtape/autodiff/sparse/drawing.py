"""Drawing: a sparsity pattern as text, a Braille dot or a letter for each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradtape.display import Text

if TYPE_CHECKING:
    from gradtape.autodiff.sparse.pattern import Pattern

# The bits of a Braille cell: four rows of two dots.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def drawn(pattern: Pattern, dots: bool = True, width: int = 80) -> Text:
    """A pattern as lines of text; larger ones are scaled down to `width` characters."""
    per_row, per_column = (4, 2) if dots else (1, 1)
    shrink = max(
        1, -(-pattern.shape[1] // (width * per_column)), -(-pattern.shape[0] // (width * per_row))
    )
    rows, columns = (max(1, -(-n // shrink)) for n in pattern.shape)
    grid = np.zeros((-(-rows // per_row) * per_row, -(-columns // per_column) * per_column), bool)
    if pattern.rows is None:
        grid[:rows, :columns] = True
    else:
        grid[pattern.row_numbers // shrink, pattern.indices // shrink] = True
    if not dots:
        marks = grid[:rows, :columns] * 1
        return Text("\n".join("".join(".x"[mark] for mark in row) for row in marks))
    cells = grid.reshape(grid.shape[0] // 4, 4, grid.shape[1] // 2, 2)
    codes = 0x2800 + np.einsum("rick,ik->rc", cells, _DOTS)
    return Text("\n".join("".join(map(chr, row)) for row in codes.tolist()))
