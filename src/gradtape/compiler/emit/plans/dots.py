"""Dots: sums of products with few columns, as inner products of vectors along the depth.

Tiles (`tiles`) have the columns of the result in the lanes of vectors, which most of the lanes are
empty in if there are few columns: the derivative by an image of three channels, or a transposed
convolution that gives one. Here a vector holds neighbours along the depth of both operands, and the
lanes of each sum are added up at the end. The depth must lie in runs in the left operand: the
channels of a convolution, and the positions of its window side by side. A step is a vector of a
run. The rest of each run, shorter than a vector, is read with a mask.

The right operand is packed as a whole: for each step a vector for each column, with zeros in the
lanes beyond a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradtape.compiler.emit.plans.frame import SPLIT_BATCH, SPLIT_ROWS, SPLIT_TILES, Frame
from gradtape.compiler.emit.plans.packing import FLOATS, add_product
from gradtape.compiler.emit.writer import Routine, Typed, module
from gradtape.compiler.objects import llvm
from gradtape.config import DOT_PANEL_BYTES, DOT_ROWS, DOT_SUMS

# The offset of a lane beyond its run.
NOTHING = -1


class DotArguments(NamedTuple):
    """The words of the kernel. Offsets and steps are bytes; tables are addresses of words."""

    slot_a: int
    offset_a: int
    slot_b: int
    offset_b: int
    slot_c: int
    offset_c: int
    # Items of the batch, and three offsets for each: in a, b and c.
    batch: int
    batch_table: int
    # Outer rows, with the steps of a and c along them, and offsets of the rows in each.
    outer_rows: int
    outer_a: int
    outer_c: int
    # Tiles; the tables of offsets are filled up to whole tiles with the last row.
    tiles: int
    rows_a: int
    rows_c: int
    columns_b: int
    # Steps with all lanes, and steps with `rest_lanes` lanes; offsets of each in a.
    steps: int
    rests: int
    rest_lanes: int
    depth_a: int
    # The offset in b of each lane of all steps, or `NOTHING`.
    depth_b: int
    split: int


class DotShape(NamedTuple):
    """Blocks of a product: lanes of a vector, columns, and groups of rows whose sums fill one."""

    kind: str
    size: int
    lanes: int
    columns: int
    groups: int

    @property
    def group(self) -> int:
        """The rows of a group."""
        return min(self.lanes // self.columns, DOT_ROWS)

    @property
    def rows(self) -> int:
        """The rows of a tile."""
        return self.groups * self.group

    @property
    def vector(self) -> str:
        """The type of a vector in IR."""
        return f"<{self.lanes} x {self.kind}>"


def dot_shape(size: int, bits: int, columns: int) -> DotShape:
    """The shape for elements of `size` bytes and vectors of `bits`, by the number of columns."""
    one = DotShape(FLOATS[size], size, bits // (8 * size), columns, 1)
    groups = min(DOT_SUMS[bits == 512] // (one.group * columns), DOT_ROWS // one.group)
    return one._replace(groups=max(1, groups))


def dots_ir(shape: DotShape) -> str:
    """The module with `dots`."""
    return module(_pack(shape), _tile(shape), _kernel(shape))


def _pack(shape: DotShape) -> Routine:
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @pack(ptr noalias %to, ptr noalias %b, ptr noalias %depth, "
        "ptr noalias %columns, i64 %steps)"
    )
    starts = [r.at("%b", r.word("%columns", 8 * column)) for column in range(shape.columns)]
    with r.loop("%steps") as step, r.loop(shape.lanes) as lane:
        number = r.add(r.multiply(step, shape.lanes), lane)
        offset = r.word("%depth", r.scaled(number))
        beyond = r.equal(offset, NOTHING)
        known = r.select(beyond, 0, offset)
        target = r.at("%to", r.multiply(step, shape.columns * shape.lanes * size))
        target = r.at(target, r.multiply(lane, size))
        for column, start in enumerate(starts):
            value = r.select(beyond, "0.0", r.load(kind, r.at(start, known), size))
            r.store(value, r.at(target, column * shape.lanes * size), align=size)
    return r


def _tile(shape: DotShape) -> Routine:
    """Some rows times all columns."""
    vector, size, rows, columns = shape.vector, shape.size, shape.rows, shape.columns
    r = Routine(
        "internal void @tile(ptr noalias %a, ptr noalias %rows_a, ptr noalias %depth, "
        "ptr noalias %b, ptr noalias %c, ptr noalias %rows_c, i64 %steps, i64 %rests, "
        f"<{shape.lanes} x i1> %mask) {llvm.aligned_stack(shape.lanes * size)}"
    )
    starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(rows)]
    line = columns * shape.lanes * size
    sums: list[str] = [Typed("zeroinitializer", vector)] * (rows * columns)
    rest = r.at("%b", r.multiply("%steps", line))
    rest_depth = r.at("%depth", r.scaled("%steps"))
    for depth, panel, count, mask in (
        ("%depth", "%b", "%steps", None),
        (rest_depth, rest, "%rests", "%mask"),
    ):
        with r.fold(count, sums) as fold:
            place = r.at(panel, r.multiply(fold.index, line))
            factors = [
                r.load(vector, r.at(place, column * line // columns), size)
                for column in range(columns)
            ]
            along = r.word(depth, r.scaled(fold.index))
            for row, start in enumerate(starts):
                at = r.at(start, along)
                found = r.load_lanes(vector, at, mask, size)
                for column, factor in enumerate(factors):
                    number = row * columns + column
                    fold.values[number] = add_product(r, found, factor, fold.values[number])
        sums = fold.values
    for group in range(shape.groups):
        first = group * shape.group
        total = _added_up(r, shape, sums[first * columns : (first + shape.group) * columns])
        for row in range(shape.group):
            part = r.shuffle(total, range(row * columns, (row + 1) * columns))
            r.store(part, r.at("%c", r.word("%rows_c", 8 * (first + row))), align=size)
    return r


def _added_up(r: Routine, shape: DotShape, sums: Sequence[str]) -> str:
    """A vector whose lanes are the totals of the lanes of each sum, in order.

    Two vectors become one with the halves of each added, then with quarters of four, and so on.
    """
    lanes = block = shape.lanes
    while block > 1:
        half = block // 2
        low = [i for start in range(0, 2 * lanes, block) for i in range(start, start + half)]
        joined = []
        for at in range(0, len(sums), 2):
            first, second = (*sums[at : at + 2], "poison")[:2]
            parts = (r.shuffle(first, [i + shift for i in low], second) for shift in (0, half))
            joined.append(r.op("fadd", *parts))
        sums, block = joined, half
    return sums[0]


def _kernel(shape: DotShape) -> Routine:
    frame = Frame("dots", DotArguments._fields, shape.rows)
    r, w = frame.r, frame.words
    packed = r.entry_line(f"alloca [{DOT_PANEL_BYTES} x i8], align 64")
    mask = r.first_lanes(w["rest_lanes"], shape.lanes)
    rows, tiles = frame.part(SPLIT_ROWS, "outer_rows"), frame.part(SPLIT_TILES, "tiles")
    steps = r.add(w["steps"], w["rests"])
    with r.loop(*frame.part(SPLIT_BATCH, "batch")) as item:
        a, b, c = frame.of_item(item)
        r.do("@pack", packed, b, w["depth_b"], w["columns_b"], steps)
        with r.loop(*rows) as row:
            row_a, row_c = frame.of_row(a, "a", row), frame.of_row(c, "c", row)
            with r.loop(*tiles) as tile:
                rows_a, rows_c = (frame.tile_offsets(x, tile) for x in "ac")
                operands = (row_a, rows_a, w["depth_a"], packed, row_c, rows_c)
                r.do("@tile", *operands, w["steps"], w["rests"], mask)
    return r
