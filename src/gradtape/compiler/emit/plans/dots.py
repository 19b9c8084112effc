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

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.plans.packing import FLOATS
from gradtape.compiler.emit.plans.tiles import SPLIT_BATCH, SPLIT_ROWS, SPLIT_TILES
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm

# The bytes of the packed right operand, at most.
PACKED = 1 << 17
# The offset of a lane beyond its run.
NOTHING = -1
# Sums that are in registers, by whether there are 32 of these, and rows of a tile, at most.
_SUMS = {True: 16, False: 12}
_ROWS = 8


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
    # Steps with all lanes, and those with so many lanes; offsets of each in a.
    steps: int
    rests: int
    rest_lanes: int
    depth_a: int
    # The offset in b of each lane of all steps, or `NOTHING`.
    depth_b: int
    split: int


class DotShape(NamedTuple):
    """How a product is cut: lanes of a vector, columns, and groups of rows whose sums fill one."""

    kind: str
    size: int
    lanes: int
    columns: int
    groups: int

    @property
    def group(self) -> int:
        """The rows of a group."""
        return min(self.lanes // self.columns, _ROWS)

    @property
    def rows(self) -> int:
        """The rows of a tile."""
        return self.groups * self.group

    @property
    def vector(self) -> str:
        """The type of a vector in IR."""
        return f"<{self.lanes} x {self.kind}>"

    @property
    def suffix(self) -> str:
        """The type of a vector in names of intrinsics."""
        return f"v{self.lanes}f{8 * self.size}"


def dot_shape(size: int, bits: int, columns: int) -> DotShape:
    """The shape for elements of some bytes, vectors of some bits, and so many columns."""
    one = DotShape(FLOATS[size], size, bits // (8 * size), columns, 1)
    groups = min(_SUMS[bits == 512] // (one.group * columns), _ROWS // one.group)
    return one._replace(groups=max(1, groups))


def dots_ir(shape: DotShape) -> str:
    """The module with `dots`."""
    vector, mask = shape.vector, f"<{shape.lanes} x i1>"
    return f"""
declare {vector} @llvm.fmuladd.{shape.suffix}({vector}, {vector}, {vector})
declare {vector} @llvm.masked.load.{shape.suffix}.p0(ptr, i32, {mask}, {vector})
{_pack(shape)}{_tile(shape)}{_kernel(shape)}"""


def _pack(shape: DotShape) -> str:
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
            element = r.let(f"load {kind}, ptr {r.at(start, known)}, align {size}")
            value = r.select(beyond, "0.0", element, kind)
            place = r.at(target, column * shape.lanes * size)
            r.line(f"store {kind} {value}, ptr {place}, align {size}")
    r.end("ret void")
    return r.text()


def _tile(shape: DotShape) -> str:
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
    for depth, panel, count, whole in (
        ("%depth", "%b", "%steps", True),
        (rest_depth, rest, "%rests", False),
    ):
        with r.fold(count, sums) as fold:
            place = r.at(panel, r.multiply(fold.index, line))
            factors = [
                r.let(f"load {vector}, ptr {r.at(place, column * line // columns)}, align {size}")
                for column in range(columns)
            ]
            along = r.word(depth, r.scaled(fold.index))
            for row, start in enumerate(starts):
                at = r.at(start, along)
                if whole:
                    found = r.let(f"load {vector}, ptr {at}, align {size}")
                else:
                    found = r.call(
                        vector,
                        f"@llvm.masked.load.{shape.suffix}.p0",
                        f"ptr {at}",
                        f"i32 {size}",
                        f"<{shape.lanes} x i1> %mask",
                        f"{vector} zeroinitializer",
                    )
                for column, factor in enumerate(factors):
                    number = row * columns + column
                    fold.values[number] = r.call(
                        vector,
                        f"@llvm.fmuladd.{shape.suffix}",
                        f"{vector} {found}",
                        f"{vector} {factor}",
                        f"{vector} {fold.values[number]}",
                    )
        sums = fold.values
    for group in range(shape.groups):
        first = group * shape.group
        own = sums[first * columns : (first + shape.group) * columns]
        total = _added_up(r, shape, own)
        for row in range(shape.group):
            lanes = ", ".join(f"i32 {row * columns + column}" for column in range(columns))
            pair = f"{vector} {total}, {vector} poison"
            part = r.let(f"shufflevector {pair}, <{columns} x i32> <{lanes}>")
            target = r.at("%c", r.word("%rows_c", 8 * (first + row)))
            kind = f"<{columns} x {shape.kind}>"
            r.line(f"store {kind} {part}, ptr {target}, align {size}")
    r.end("ret void")
    return r.text()


def _added_up(r: Routine, shape: DotShape, sums: Sequence[str]) -> str:
    """A vector whose lanes are the totals of the lanes of each sum, in order.

    Two vectors become one with the halves of each added, then with quarters of four, and so on.
    """
    vector, lanes = shape.vector, shape.lanes
    block = lanes
    while block > 1:
        half = block // 2
        low = [i for start in range(0, 2 * lanes, block) for i in range(start, start + half)]
        joined = []
        for at in range(0, len(sums), 2):
            pair = (*sums[at : at + 2], "poison")[:2]
            operands = ", ".join(f"{vector} {one}" for one in pair)
            parts = [
                r.let(
                    f"shufflevector {operands}, <{lanes} x i32> "
                    f"<{', '.join(f'i32 {i + shift}' for i in low)}>"
                )
                for shift in (0, half)
            ]
            joined.append(r.let(f"fadd {vector} {parts[0]}, {parts[1]}"))
        sums, block = joined, half
    return sums[0]


def _kernel(shape: DotShape) -> str:
    r = kernel_routine("dots")
    r.line(f"%panel = alloca [{PACKED} x i8], align 64")
    w = r.words("%args", DotArguments._fields)
    table = {
        name: r.let(f"inttoptr i64 {w[name]} to ptr")
        for name in ("batch_table", "rows_a", "rows_c", "columns_b", "depth_a", "depth_b")
    }
    bases = {
        name: r.at(r.pointer("%slots", r.scaled(w[f"slot_{name}"])), w[f"offset_{name}"])
        for name in "abc"
    }
    numbers = ", ".join(f"i64 {lane}" for lane in range(shape.lanes))
    one = r.let(f"insertelement <{shape.lanes} x i64> poison, i64 {w['rest_lanes']}, i32 0")
    zeros = f"<{shape.lanes} x i32> zeroinitializer"
    limit = r.let(
        f"shufflevector <{shape.lanes} x i64> {one}, <{shape.lanes} x i64> poison, {zeros}"
    )
    mask = r.let(f"icmp slt <{shape.lanes} x i64> <{numbers}>, {limit}")

    def part(split: int, whole: str) -> tuple[str, str]:
        here = r.equal(w["split"], split)
        return r.select(here, "%lo", 0), r.select(here, "%hi", whole)

    (item_from, item_to), (row_from, row_to), (tile_from, tile_to) = (
        part(split, w[name])
        for split, name in (
            (SPLIT_BATCH, "batch"),
            (SPLIT_ROWS, "outer_rows"),
            (SPLIT_TILES, "tiles"),
        )
    )
    steps = r.add(w["steps"], w["rests"])
    with r.loop(item_to, item_from) as item:
        moved = r.row(table["batch_table"], item, 3)
        a, b, c = (r.at(bases[name], r.word(moved, 8 * at)) for at, name in enumerate("abc"))
        r.do(
            "@pack",
            "ptr %panel",
            f"ptr {b}",
            f"ptr {table['depth_b']}",
            f"ptr {table['columns_b']}",
            f"i64 {steps}",
        )
        with r.loop(row_to, row_from) as row:
            row_a = r.at(a, r.let(f"mul i64 {row}, {w['outer_a']}"))
            row_c = r.at(c, r.let(f"mul i64 {row}, {w['outer_c']}"))
            with r.loop(tile_to, tile_from) as tile:
                rows_a, rows_c = (r.row(table[f"rows_{n}"], tile, shape.rows) for n in "ac")
                r.do(
                    "@tile",
                    f"ptr {row_a}",
                    f"ptr {rows_a}",
                    f"ptr {table['depth_a']}",
                    "ptr %panel",
                    f"ptr {row_c}",
                    f"ptr {rows_c}",
                    f"i64 {w['steps']}",
                    f"i64 {w['rests']}",
                    f"<{shape.lanes} x i1> {mask}",
                )
    r.end("ret void")
    return r.text()
