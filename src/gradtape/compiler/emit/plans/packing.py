"""Packing: how operands of sums of products come into the order in which tiles read them.

A panel has some columns of the right operand, depth after depth, so that each step reads whole
vectors. Rows of the left operand that do not lie in runs are turned: they come to lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradtape.compiler.emit.writer import Routine, Typed, Word
from gradtape.config import CACHE_LINE, PANEL_DEPTH, TILE_ROWS, TILE_ROWS_OF_RUNS, TILE_RUN

# Values of `lie`. Complex numbers are multiplied as real ones: a column is two, real and imaginary
# part, and so is a step of depth. A real part of `a` is multiplied with (real, imaginary) of `b`,
# an imaginary part with (-imaginary, real).
SCATTERED, SIDE_BY_SIDE, IN_RUNS, COMPLEX = range(4)


class TileShape(NamedTuple):
    """The tiles of a product: lanes of a vector, vectors of a panel's width, rows of a tile.

    The kind of an element is a type of IR; integers wrap around.
    """

    kind: str
    size: int
    lanes: int
    vectors: int
    rows: int
    # Steps of depth for which the elements of a row of the left operand lie side by side.
    run: int = 1
    # Whether its rows lie side by side.
    beside: bool = False
    # Whether the right operand is read where it lies: for few rows, packing it takes longer.
    direct: bool = False

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    @property
    def vector(self) -> str:
        """The type of a vector in IR."""
        return f"<{self.lanes} x {self.kind}>"

    @property
    def integer(self) -> bool:
        """Whether elements are integers."""
        return self.kind.startswith("i")

    @property
    def add(self) -> str:
        """The instruction that adds."""
        return "add" if self.integer else "fadd"


FLOATS = {4: "float", 8: "double"}


def shape_for(
    size: int, bits: int, columns: int, integer: bool = False, in_runs: bool = False
) -> TileShape:
    """The shape for elements of `size` bytes and vectors of `bits`, by the number of columns.

    The depth of the left operand may be `in_runs`.
    """
    kind, lanes = f"i{8 * size}" if integer else FLOATS[size], bits // (8 * size)
    needed = -(-columns // lanes)
    # The width that leaves the fewest vectors of the last panel empty; of equals, the wider.
    vectors = min((3, 2, 1), key=lambda v: (-(-needed // v) * v, -v)) if needed > 1 else 1
    if vectors == 1 and needed > 1:
        vectors = 2
    if in_runs and bits == 512 and vectors == 1:
        return TileShape(kind, size, lanes, vectors, TILE_ROWS_OF_RUNS, TILE_RUN)
    return TileShape(kind, size, lanes, vectors, TILE_ROWS[bits == 512][vectors])


# The tables of offsets of a tile that was turned: its rows, and its depth.
TURNED_TABLES = (Typed("@turned.rows", "ptr"), Typed("@turned.depth", "ptr"))


def turned_offsets(shape: TileShape) -> str:
    """The tables of offsets of a tile that was turned: depth after depth, its rows side by side."""
    rows = [row * shape.size for row in range(shape.rows)]
    depth = [step * shape.rows * shape.size for step in range(PANEL_DEPTH)]
    return "".join(
        f"@turned.{name} = internal constant [{len(words)} x i64] "
        f"[{', '.join(f'i64 {word}' for word in words)}]\n"
        for name, words in (("rows", rows), ("depth", depth))
    )


def add_product(r: Routine, a: str, b: str, total: str) -> str:
    """A product plus a sum."""
    if " x i" in r.kind(a):
        return r.add(r.multiply(a, b), total)
    return r.intrinsic("fmuladd", a, b, total)


def masks(r: Routine, shape: TileShape, width: Word) -> list[str]:
    """For each vector of a panel: the lanes that are among the first `width` columns."""
    starts = range(0, shape.width, shape.lanes)
    return [r.first_lanes(width, shape.lanes, start) for start in starts]


def pack(shape: TileShape) -> Routine:
    """Some columns of the right operand, row after row, with zeros where there are fewer."""
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @pack(ptr noalias %to, ptr noalias %b, ptr noalias %depth, "
        "ptr noalias %columns, i64 %k, i64 %width, i64 %lie)"
    )
    r.go_if(r.unequal("%lie", SIDE_BY_SIDE), "apart")
    r.go_if(r.equal("%width", shape.width), "vectors")
    _pack_beside(r, shape, masks(r, shape, "%width"))
    r.block("vectors")
    _pack_beside(r, shape, None)
    r.block("apart")
    if not shape.integer:
        r.go_if(r.equal("%lie", COMPLEX), "complex")
    # Whole blocks of as many columns as lanes are turned in registers, if their depth is in runs.
    blocks = r.op("sdiv", r.select(r.equal("%lie", IN_RUNS), "%k", 0), shape.lanes)
    turned = r.multiply(blocks, shape.lanes)
    with r.loop(shape.vectors) as number:
        first = r.multiply(number, shape.lanes)
        after = r.add(first, shape.lanes)
        full = r.compare("sle", after, "%width")
        done = r.select(full, turned, 0)
        columns = r.at("%columns", r.scaled(first))
        with r.loop(r.select(full, blocks, 0)) as block:
            row = r.multiply(block, shape.lanes)
            along = r.word("%depth", r.scaled(row))
            sources = [
                r.at(r.at("%b", r.word(columns, 8 * lane)), along) for lane in range(shape.lanes)
            ]
            block_rows = [r.load(shape.vector, at, size) for at in sources]
            target = r.at("%to", r.multiply(r.add(r.multiply(row, shape.width), first), size))
            for lane, turn in enumerate(r.transposed(block_rows)):
                r.store(turn, r.at(target, lane * size * shape.width), align=size)
        with r.loop(after, first) as column:
            inside = r.compare("slt", column, "%width")
            # Columns beyond the last are zero: the address is that of the last, and is not used.
            known = r.select(inside, column, r.subtract("%width", 1))
            source = r.at("%b", r.word("%columns", r.scaled(known)))
            target = r.at("%to", r.multiply(column, size))
            with r.loop("%k", done) as step:
                at = r.at(source, r.word("%depth", r.scaled(step)))
                value = r.select(inside, r.load(kind, at, size), "0" if shape.integer else "0.0")
                r.store(value, r.at(target, r.multiply(step, size * shape.width)), align=size)
    r.end("ret void")
    if not shape.integer:
        r.block("complex")
        _pack_complex(r, shape)
    return r


def _pack_beside(r: Routine, shape: TileShape, present: Sequence[str] | None) -> None:
    """Pack columns that lie side by side: all of them, or the lanes of some masks."""
    size = shape.size
    start = r.at("%b", r.word("%columns"))
    with r.loop("%k") as row:
        source = r.at(start, r.word("%depth", r.scaled(row)))
        target = r.at("%to", r.multiply(row, size * shape.width))
        for near in () if present else range(0, shape.width * size, CACHE_LINE):
            # The next panel: rows of a wide operand are pages apart, and nothing else fetches them.
            ahead = r.at(source, shape.width * size + near)
            r.do("@llvm.prefetch.p0", ahead, "i32 0", "i32 2", "i32 1")
        for number in range(shape.vectors):
            offset = number * shape.lanes * size
            place, mask = r.at(source, offset), present[number] if present else None
            found = r.load_lanes(shape.vector, place, mask, size)
            r.store(found, r.at(target, offset), align=size)
    r.end("ret void")


def _pack_complex(r: Routine, shape: TileShape) -> None:
    """Pack columns that are real and imaginary parts by turns, with a row of each for each depth.

    In the second row the parts are exchanged, and the first of them is negative.
    """
    size, kind = shape.size, shape.kind
    with r.loop("%k") as row, r.loop(shape.width) as column:
        second = r.op("and", row, 1)
        inside = r.compare("slt", column, "%width")
        known = r.select(inside, r.op("xor", column, second), 0)
        place = r.at("%b", r.word("%columns", r.scaled(known)))
        at = r.at(place, r.word("%depth", r.scaled(row)))
        element = r.load(kind, at, size)
        even = r.equal(r.op("and", column, 1), 0)
        turned = r.both(r.unequal(second, 0), even)
        signed = r.select(turned, r.negative(element), element)
        target = r.add(r.multiply(row, shape.width), column)
        place = r.at("%to", r.multiply(target, size))
        r.store(r.select(inside, signed, "0.0"), place, align=size)


def turn(shape: TileShape) -> Routine:
    """The elements of a tile of the left operand, depth after depth, with its rows side by side."""
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @turn(ptr noalias %to, ptr noalias %a, ptr noalias %rows, "
        "ptr noalias %depth, i64 %k)"
    )
    offsets = [r.word("%rows", 8 * row) for row in range(shape.rows)]
    starts = [r.at("%a", offset) for offset in offsets]
    beside: str = "true"
    for row, offset in enumerate(offsets):
        beside = r.both(beside, r.equal(offset, r.add(offsets[0], row * size)))
    r.go_if(r.negated(beside), "apart")
    some = f"<{shape.rows} x {kind}>"
    with r.loop("%k") as step:
        along = r.word("%depth", r.scaled(step))
        target = r.at("%to", r.multiply(step, shape.rows * size))
        r.store(r.load(some, r.at(starts[0], along), size), target, align=size)
    r.end("ret void")
    r.block("apart")
    with r.loop("%k") as step:
        along = r.word("%depth", r.scaled(step))
        target = r.at("%to", r.multiply(step, shape.rows * size))
        for row, start in enumerate(starts):
            element = r.load(kind, r.at(start, along), size)
            r.store(element, r.at(target, row * size), align=size)
    return r
