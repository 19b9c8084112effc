"""What reductions to bidiagonal and to tridiagonal form share: panels, scratch memory, updates.

A reduction works on a copy of the matrix whose columns begin on cache lines and end in zeros, so
every loop is over whole vectors. Loops begin at a multiple of `step_of`, a little before the first
element that counts. `WIDTH` columns are a panel, whose changes to the rest of the matrix are kept
as the product of two narrow matrices until its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended
from gradtape.codegen.plans.reflectors import step_of
from gradtape.codegen.routine import Word

# Columns of a panel; a multiple of all lengths of vectors.
WIDTH = 16
DEPTH = 2 * WIDTH
# Columns of a tile of an update.
STRIP = 4
# Vectors that a tile of an update is tall, and tiles that pass over all strips in turn.
BANDS = 3
TILES = 4
_LINE = 64


def bytes_apart(lanes: Lanes, count: int) -> int:
    """Bytes of a column: an odd number of cache lines, so that columns share no cache set."""
    step = step_of(lanes)
    nbytes = -(-count // step) * step * lanes.size
    return (-(-nbytes // _LINE) | 1) * _LINE


class ReducedMatrix:
    """What the kernels of a reduction read from their words.

    The words name the slot and the offset of each array, the scratch memory `work` among them,
    where the copy lies first; `left`, `products` and `pairs` are offsets in it, `leading` the bytes
    of a column, `first` the first column of the panel and `column` the one that is reduced.
    """

    def __init__(self, r: ElementRoutine, words: Sequence[str]) -> None:
        self.r = r
        self.words = r.words("%args", words)
        self.work = self.place("work")
        self.left, self.products = self.inside("left"), self.inside("products")
        self.pairs = self.inside("pairs")
        self.leading = self.words["leading"]
        self.column, self.first = self.words["column"], self.words["first"]

    def inside(self, name: str) -> str:
        """The address of a part of the scratch memory."""
        return self.r.at(self.work, self.words[name])

    def place(self, name: str) -> str:
        """The address of an array."""
        slot = self.r.pointer("%slots", self.r.scaled(self.words[f"slot_{name}"]))
        return self.r.at(slot, self.words[f"offset_{name}"])

    def scalar(self, name: str, index: Word) -> str:
        """The address of an element of one of the short results."""
        return self.r.element(self.place(name), index)

    def at(self, column: Word, row: Word) -> str:
        """The address of an element of the copy."""
        return self.r.element(self.r.at(self.work, self.r.multiply(self.leading, column)), row)

    def of_left(self, number: Word, row: Word) -> str:
        """The address of an element of `left`."""
        return self.r.element(self.r.at(self.left, self.r.multiply(self.leading, number)), row)

    def begin(self, index: str) -> str:
        """Where loops begin whose first element is this one."""
        return self.r.let(f"and i64 {index}, {-step_of(self.r.lanes)}")

    def vectors(self, begin: str, end: str) -> str:
        """Vectors from there to the end of a column."""
        step, lanes = step_of(self.r.lanes), self.r.lanes.per_vector
        over = self.r.let(f"and i64 {self.r.add(self.words[end], step - 1)}, {-step}")
        return self.r.let(f"sdiv i64 {self.r.subtract(over, begin)}, {lanes}")

    def place_in_panel(self) -> str:
        """The number of the reflector of this column, in `left`."""
        return self.r.multiply(self.r.subtract(self.column, self.first), 2)


def tiles_ir(lanes: Lanes, swapped: bool) -> str:
    """The functions `tile1` and `tile3`: see `_tile`."""
    return "\n".join(_tile(lanes, bands, swapped) for bands in (1, BANDS))


def _tile(lanes: Lanes, bands: int, swapped: bool) -> str:
    """Subtract the product of some vectors of `left` and four rows of `right`.

    If `swapped`, the columns of `right` are meant with neighbours interchanged.
    """
    r = ElementRoutine(
        f"internal void @tile{bands}(ptr noalias %l, ptr noalias %r, ptr noalias %c, "
        "i64 %leading, i64 %breadth)",
        lanes,
    )
    vector = lanes.vector
    with r.fold(DEPTH // 2, vector, ["zeroinitializer"] * (bands * STRIP)) as fold:
        sums = list(fold.values)
        for half in range(2):
            depth = r.multiply(fold.index, 2)
            other_half = 1 - half if swapped else half
            left = r.at("%l", r.multiply(r.add(depth, half), "%leading"))
            right = r.at("%r", r.multiply(r.add(depth, other_half), "%breadth"))
            factors = [r.load(r.at(left, band * lanes.bytes), vector) for band in range(bands)]
            for column in range(STRIP):
                other = r.load(r.at(right, column * lanes.size), lanes.kind)
                spread = r.spread(other, vector)
                for band, factor in enumerate(factors):
                    at = column * bands + band
                    sums[at] = r.intrinsic("fmuladd", vector, factor, spread, sums[at])
        fold.values = sums
    for column in range(STRIP):
        place = r.at("%c", r.multiply("%leading", column))
        for band in range(bands):
            target = r.at(place, band * lanes.bytes)
            total = fold.values[column * bands + band]
            r.store(r.let(f"fsub {vector} {r.load(target, vector)}, {total}"), target, vector)
    return ended(r)
