"""The frame of a kernel of sums of products: its words, and the parts of its range."""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Typed, Word

# Values of `split`: what the range of the kernel counts.
SPLIT_BATCH, SPLIT_PANELS, SPLIT_ROWS, SPLIT_TILES = range(4)
# Words that are addresses of tables.
_TABLES = {"batch_table", "rows_a", "rows_c", "columns_b", "depth_a", "depth_b"}


class Frame:
    """The routine of a kernel, its words by name, and the addresses of a, b and c."""

    def __init__(self, name: str, words: Sequence[str], tile_rows: int) -> None:
        self._tile_rows = tile_rows
        self.r = r = kernel_routine(name)
        self.words = w = r.words("%args", words, _TABLES)
        self.bases = [
            r.at(r.pointer("%slots", r.scaled(w[f"slot_{each}"])), w[f"offset_{each}"])
            for each in "abc"
        ]

    def part(self, split: int, whole: str) -> tuple[Typed, Typed]:
        """The end and the begin of a loop: of the whole range if it is not split here."""
        here = self.r.equal(self.words["split"], split)
        return self.r.select(here, "%hi", self.words[whole]), self.r.select(here, "%lo", 0)

    def of_item(self, item: Word) -> list[Typed]:
        """The addresses of a, b and c in an item of the batch."""
        moved = self.r.row(self.words["batch_table"], item, 3)
        return [self.r.at(base, self.r.word(moved, 8 * at)) for at, base in enumerate(self.bases)]

    def of_row(self, base: str, name: str, row: Word) -> Typed:
        """The address of an outer row of `a` or `c`."""
        return self.r.at(base, self.r.multiply(row, self.words[f"outer_{name}"]))

    def tile_offsets(self, name: str, tile: Word) -> Typed:
        """The table of the offsets of the rows of a tile in `a` or `c`."""
        return self.r.row(self.words[f"rows_{name}"], tile, self._tile_rows)
