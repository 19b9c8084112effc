"""Tiles: sums of products as a kernel, without BLAS, for operands that lie in any order.

A contraction is `c[row, column] += a[row, depth] * b[depth, column]`, in which each of `row`,
`column` and `depth` may stand for several axes of a tensor: the position in the window and the
channel of a convolution, for example. The address of an element of `a` is the sum of one offset for
its row and one for its depth, which tables hold; likewise for `b` and `c`. So neither windows nor
permuted axes are copied before they are multiplied.

A BLAS blocks a product for depths of hundreds, and packs both operands. Here a panel of some
columns of `b`, up to `DEPTH` deep, is packed into the innermost cache, and tiles of a few rows of
`a` pass over it, with all sums in registers. Each element of `a` is loaded by itself and spread
over a vector.

The loops, from the outside in: batch, blocks of rows, outer depth, blocks of `DEPTH`, panels, outer
rows, tiles. A block of rows of `a`, as deep as a panel, stays in the second cache while all panels
pass. If its rows do not lie in runs, as in a transposed operand, it is turned before: each step of
depth would touch a line of the cache of its own, for a few elements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from gradtape.codegen import llvm
from gradtape.codegen.plans.instructions import kernel_routine
from gradtape.codegen.routine import Routine

DEPTH = 256
LINE = 64  # bytes of a line of the cache
# Bytes of the memory for turned tiles of the left operand.
TURNED = 3 << 16

# Values of `split`: what the range of the kernel counts.
SPLIT_BATCH, SPLIT_PANELS, SPLIT_ROWS, SPLIT_TILES = range(4)


# Values of `lie`.
SCATTERED, SIDE_BY_SIDE, IN_ONE_RUN = range(3)


class TileArguments(NamedTuple):
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
    # How many outer rows and how many tiles a block has.
    block_rows: int
    block_tiles: int
    # Columns, the offset of each in b, and how they lie there: `SCATTERED`, `SIDE_BY_SIDE`, or
    # each with its depth `IN_ONE_RUN`.
    n: int
    columns_b: int
    lie: int
    # Outer depth, with the steps of a and b along it, and offsets along the inner depth.
    outer_depth: int
    deep_a: int
    deep_b: int
    k: int
    depth_a: int
    depth_b: int
    split: int
    # Whether tiles of `a` are turned into memory of their own before panels pass.
    turns: int


class Shape(NamedTuple):
    """How a product is cut: lanes of a vector, vectors of a panel's width, rows of a tile."""

    kind: str
    size: int
    lanes: int
    vectors: int
    rows: int

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    @property
    def vector(self) -> str:
        """The type of a vector in IR."""
        return f"<{self.lanes} x {self.kind}>"

    @property
    def suffix(self) -> str:
        """The type of a vector in names of intrinsics."""
        return f"v{self.lanes}f{8 * self.size}"


# Rows of a tile by the vectors of its width: sums take three quarters of 32 registers of 512 bits,
# or of 16 that are shorter; one vector of width needs eight rows to hide the latency of additions.
_ROWS = {True: {1: 8, 2: 8, 3: 8}, False: {1: 8, 2: 6, 3: 4}}


def shape_for(size: int, bits: int, columns: int) -> Shape:
    """The shape for elements of some bytes, vectors of some bits, and so many columns."""
    kind, lanes = {4: "float", 8: "double"}[size], bits // (8 * size)
    needed = -(-columns // lanes)
    # The width that leaves the fewest vectors of the last panel empty; of equals, the wider.
    vectors = min((3, 2, 1), key=lambda v: (-(-needed // v) * v, -v)) if needed > 1 else 1
    if vectors == 1 and needed > 1:
        vectors = 2
    return Shape(kind, size, lanes, vectors, _ROWS[bits == 512][vectors])


def tiles_ir(shape: Shape) -> str:
    """The module with `tiles`."""
    vector, mask = shape.vector, f"<{shape.lanes} x i1>"
    declarations = f"""
declare {vector} @llvm.fmuladd.{shape.suffix}({vector}, {vector}, {vector})
declare {vector} @llvm.masked.load.{shape.suffix}.p0(ptr, i32, {mask}, {vector})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""
    return (
        declarations
        + _turned_offsets(shape)
        + "".join(write(shape) for write in (_tile, _pack, _turn, _kernel))
    )


def _turned_offsets(shape: Shape) -> str:
    """The tables of offsets of a tile that was turned: depth after depth, its rows side by side."""
    rows = [row * shape.size for row in range(shape.rows)]
    depth = [step * shape.rows * shape.size for step in range(DEPTH)]
    return "".join(
        f"@turned.{name} = internal constant [{len(words)} x i64] "
        f"[{', '.join(f'i64 {word}' for word in words)}]\n"
        for name, words in (("rows", rows), ("depth", depth))
    )


def _splat(r: Routine, shape: Shape, scalar: str) -> str:
    one = r.let(f"insertelement {shape.vector} poison, {shape.kind} {scalar}, i32 0")
    zeros = f"<{shape.lanes} x i32> zeroinitializer"
    return r.let(f"shufflevector {shape.vector} {one}, {shape.vector} poison, {zeros}")


def _masks(r: Routine, shape: Shape, width: str) -> list[str]:
    """For each vector of a panel: the lanes that are among the first `width` columns."""
    integers = f"<{shape.lanes} x i64>"
    numbers = ", ".join(f"i64 {lane}" for lane in range(shape.lanes))
    limit = _splat(r, Shape("i64", 8, shape.lanes, 0, 0), width)
    masks = []
    for column in range(shape.vectors):
        first = ", ".join([f"i64 {column * shape.lanes}"] * shape.lanes)
        lanes = r.let(f"add {integers} <{numbers}>, <{first}>")
        masks.append(r.let(f"icmp slt {integers} {lanes}, {limit}"))
    return masks


def _tile(shape: Shape) -> str:
    """Some rows times a panel; of the last panel only so many columns are written."""
    vector, size, rows = shape.vector, shape.size, shape.rows
    r = Routine(
        "internal void @tile(ptr noalias %a, ptr noalias %rows_a, ptr noalias %depth, "
        "ptr noalias %b, ptr noalias %c, ptr noalias %rows_c, i64 %k, i64 %width, i64 %adds) "
        f"{llvm.aligned_stack(shape.lanes * size)}"
    )
    starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(rows)]
    sums = [(row, column) for row in range(rows) for column in range(shape.vectors)]
    r.block("loop")
    r.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for row, column in sums:
        r.line(f"%sum{row}.{column} = phi {vector} [ zeroinitializer, %entry ], "
               f"[ %more{row}.{column}, %loop ]")  # fmt: skip
    place = r.at("%b", r.multiply("%i", size * shape.width))
    loaded = [
        r.let(f"load {vector}, ptr {r.at(place, column * shape.lanes * size)}, align {size}")
        for column in range(shape.vectors)
    ]
    along = r.word("%depth", r.scaled("%i"))
    for row in range(rows):
        element = r.let(f"load {shape.kind}, ptr {r.at(starts[row], along)}, align {size}")
        spread = _splat(r, shape, element)
        for column, factor in enumerate(loaded):
            operands = f"{vector} {spread}, {vector} {factor}, {vector} %sum{row}.{column}"
            r.line(f"%more{row}.{column} = call {vector} @llvm.fmuladd.{shape.suffix}({operands})")
    r.line("%next = add i64 %i, 1")
    again = r.compare("slt", "%next", "%k")
    r.end(f"br i1 {again}, label %loop, label %write")
    r.block("write")
    lines = {row: r.at("%c", r.word("%rows_c", 8 * row)) for row in range(rows)}
    places = {at: r.at(lines[at[0]], at[1] * shape.lanes * size) for at in sums}
    whole = r.equal("%width", shape.width)
    fresh = r.equal("%adds", 0)
    r.end(f"br i1 {whole}, label %wide, label %some")
    r.block("wide")
    r.end(f"br i1 {fresh}, label %all.store, label %all.add")
    r.block("all.add")
    # Rows that fill up the last tile repeat its last row: all are loaded before any is stored.
    for row, column in sums:
        old = r.let(f"load {vector}, ptr {places[row, column]}, align {size}")
        r.line(f"%both{row}.{column} = fadd {vector} {old}, %more{row}.{column}")
    for row, column in sums:
        r.line(f"store {vector} %both{row}.{column}, ptr {places[row, column]}, align {size}")
    r.end("ret void")
    r.block("all.store")
    for row, column in sums:
        r.line(f"store {vector} %more{row}.{column}, ptr {places[row, column]}, align {size}")
    r.end("ret void")
    r.block("some")
    masks = _masks(r, shape, "%width")
    r.end(f"br i1 {fresh}, label %some.store, label %some.add")
    r.block("some.add")
    kept = [_masked_load(r, shape, places[row, column], masks[column]) for row, column in sums]
    for old, (row, column) in zip(kept, sums, strict=True):
        r.line(f"%part{row}.{column} = fadd {vector} {old}, %more{row}.{column}")
    r.block("some.store")
    for row, column in sums:
        ways = (f"%part{row}.{column}", "some.add"), (f"%more{row}.{column}", "some")
        r.line(f"%last{row}.{column} = " + _phi(vector, *ways))
    for column in range(shape.vectors):
        values = [f"%last{row}.{column}" for row in range(rows)]
        left = r.subtract("%width", column * shape.lanes)
        _store_first(r, shape, values, [places[row, column] for row in range(rows)], left)
    r.end("ret void")
    return r.text()


def _phi(kind: str, *ways: tuple[str, str]) -> str:
    return f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in ways)


def _store_first(
    r: Routine, shape: Shape, values: list[str], places: list[str], count: str
) -> None:
    """Store the first lanes of some vectors, in halves: masked stores can be very slow."""
    with r.when(r.compare("sge", count, shape.lanes)):
        for value, place in zip(values, places, strict=True):
            r.line(f"store {shape.vector} {value}, ptr {place}, align {shape.size}")
    lanes = shape.lanes
    some = r.both(r.compare("sgt", count, 0), r.compare("slt", count, lanes))
    with r.when(some):
        while lanes > 1:
            half = lanes // 2
            kind = f"<{half} x {shape.kind}>"
            bit = r.let(f"and i64 {count}, {half}")
            has = r.unequal(bit, 0)
            low, high = (
                [_lanes_of(r, shape.kind, value, lanes, first, half) for value in values]
                for first in (0, half)
            )
            with r.when(has):
                for value, place in zip(low, places, strict=True):
                    r.line(f"store {kind} {value}, ptr {place}, align {shape.size}")
            values = [r.select(has, b, a, kind) for a, b in zip(low, high, strict=True)]
            skipped = r.multiply(bit, shape.size)
            places = [r.at(place, skipped) for place in places]
            lanes = half


def _lanes_of(r: Routine, kind: str, value: str, lanes: int, first: int, count: int) -> str:
    numbers = ", ".join(f"i32 {first + lane}" for lane in range(count))
    pair = f"<{lanes} x {kind}> {value}, <{lanes} x {kind}> poison"
    return r.let(f"shufflevector {pair}, <{count} x i32> <{numbers}>")


def _masked_load(r: Routine, shape: Shape, place: str, mask: str) -> str:
    lanes = f"<{shape.lanes} x i1> {mask}, {shape.vector} zeroinitializer"
    name = f"@llvm.masked.load.{shape.suffix}.p0"
    return r.let(f"call {shape.vector} {name}(ptr {place}, i32 {shape.size}, {lanes})")


def _pack(shape: Shape) -> str:
    """Some columns of the right operand, row after row, with zeros where there are fewer."""
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @pack(ptr noalias %to, ptr noalias %b, ptr noalias %depth, "
        "ptr noalias %columns, i64 %k, i64 %width, i64 %lie)"
    )
    offsets = [column * shape.lanes * size for column in range(shape.vectors)]
    start = r.at("%b", r.word("%columns"))
    r.go_if(r.unequal("%lie", SIDE_BY_SIDE), "apart")
    r.go_if(r.equal("%width", shape.width), "vectors")
    masks = _masks(r, shape, "%width")
    with r.loop("%k") as row:
        source = r.at(start, r.word("%depth", r.scaled(row)))
        target = r.at("%to", r.multiply(row, size * shape.width))
        for offset, mask in zip(offsets, masks, strict=True):
            found = _masked_load(r, shape, r.at(source, offset), mask)
            r.line(f"store {shape.vector} {found}, ptr {r.at(target, offset)}, align {size}")
    r.end("ret void")
    r.block("vectors")
    with r.loop("%k") as row:
        source = r.at(start, r.word("%depth", r.scaled(row)))
        target = r.at("%to", r.multiply(row, size * shape.width))
        for near in range(0, shape.width * size, LINE):
            # The next panel: rows of a wide operand are pages apart, and nothing else fetches them.
            ahead = r.at(source, shape.width * size + near)
            r.do("@llvm.prefetch.p0", f"ptr {ahead}", "i32 0", "i32 2", "i32 1")
        for offset in offsets:
            found = r.let(f"load {shape.vector}, ptr {r.at(source, offset)}, align {size}")
            r.line(f"store {shape.vector} {found}, ptr {r.at(target, offset)}, align {size}")
    r.end("ret void")
    r.block("apart")
    # Whole blocks of as many columns as lanes are turned in registers, if their depth is in order.
    blocks = r.let(f"sdiv i64 {r.select(r.equal('%lie', IN_ONE_RUN), '%k', 0)}, {shape.lanes}")
    turned = r.multiply(blocks, shape.lanes)
    for offset, first in zip(offsets, range(0, shape.width, shape.lanes), strict=True):
        full = r.compare("sle", first + shape.lanes, "%width")
        done = r.select(full, turned, 0)
        with r.loop(r.select(full, blocks, 0)) as block:
            row = r.multiply(block, shape.lanes)
            along = r.word("%depth", r.scaled(row))
            sources = [
                r.at(r.at("%b", r.word("%columns", 8 * (first + lane))), along)
                for lane in range(shape.lanes)
            ]
            block_rows = [r.let(f"load {shape.vector}, ptr {at}, align {size}") for at in sources]
            target = r.at(r.at("%to", r.multiply(row, size * shape.width)), offset)
            for lane, turn in enumerate(_transposed(r, shape, block_rows)):
                place = r.at(target, lane * size * shape.width)
                r.line(f"store {shape.vector} {turn}, ptr {place}, align {size}")
        with r.loop(first + shape.lanes, first) as column:
            inside = r.compare("slt", column, "%width")
            # Columns beyond the last are zero: the address is that of the last, and is not used.
            known = r.select(inside, column, r.subtract("%width", 1))
            source = r.at("%b", r.word("%columns", r.scaled(known)))
            target = r.at("%to", r.multiply(column, size))
            with r.loop("%k", done) as row:
                at = r.at(source, r.word("%depth", r.scaled(row)))
                element = r.let(f"load {kind}, ptr {at}, align {size}")
                value = r.let(f"select i1 {inside}, {kind} {element}, {kind} 0.0")
                place = r.at(target, r.multiply(row, size * shape.width))
                r.line(f"store {kind} {value}, ptr {place}, align {size}")
    r.end("ret void")
    return r.text()


def _turn(shape: Shape) -> str:
    """The elements of a tile of the left operand, depth after depth, with its rows side by side."""
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @turn(ptr noalias %to, ptr noalias %a, ptr noalias %rows, "
        "ptr noalias %depth, i64 %k)"
    )
    starts = [r.at("%a", r.word("%rows", 8 * row)) for row in range(shape.rows)]
    with r.loop("%k") as step:
        along = r.word("%depth", r.scaled(step))
        target = r.at("%to", r.multiply(step, shape.rows * size))
        for row, start in enumerate(starts):
            element = r.let(f"load {kind}, ptr {r.at(start, along)}, align {size}")
            r.line(f"store {kind} {element}, ptr {r.at(target, row * size)}, align {size}")
    r.end("ret void")
    return r.text()


def _transposed(r: Routine, shape: Shape, rows: list[str]) -> list[str]:
    """A square block of vectors with rows and columns exchanged, by swapping ever larger parts."""
    lanes = shape.lanes
    step = 1
    while step < lanes:
        found = list(rows)
        for row in range(lanes):
            if row & step:
                continue
            first = [i if not i & step else lanes + i - step for i in range(lanes)]
            second = [i + step if not i & step else lanes + i for i in range(lanes)]
            for at, chosen in ((row, first), (row + step, second)):
                numbers = ", ".join(f"i32 {number}" for number in chosen)
                pair = f"{shape.vector} {rows[row]}, {shape.vector} {rows[row + step]}"
                found[at] = r.let(f"shufflevector {pair}, <{lanes} x i32> <{numbers}>")
        rows = found
        step *= 2
    return rows


def _kernel(shape: Shape) -> str:
    size, width = shape.size, shape.width
    r = kernel_routine("tiles")
    r.line(f"%panel = alloca [{DEPTH * width} x {shape.kind}], align 64")
    r.line(f"%turned = alloca [{TURNED} x i8], align 64")
    w = r.words("%args", TileArguments._fields)
    table = {
        name: r.let(f"inttoptr i64 {w[name]} to ptr")
        for name in ("batch_table", "rows_a", "rows_c", "columns_b", "depth_a", "depth_b")
    }
    bases = {
        name: r.at(r.pointer("%slots", r.scaled(w[f"slot_{name}"])), w[f"offset_{name}"])
        for name in "abc"
    }

    def part(split: int, whole: str) -> tuple[str, str]:
        here = r.equal(w["split"], split)
        return r.select(here, "%lo", 0), r.select(here, "%hi", whole)

    panels = r.let(f"udiv i64 {r.add(w['n'], width - 1)}, {width}")
    item_from, item_to = part(SPLIT_BATCH, w["batch"])
    panel_from, panel_to = part(SPLIT_PANELS, panels)
    row_from, row_to = part(SPLIT_ROWS, w["outer_rows"])
    tile_from, tile_to = part(SPLIT_TILES, w["tiles"])
    deep_blocks = r.let(f"udiv i64 {r.add(w['k'], DEPTH - 1)}, {DEPTH}")
    turns = r.unequal(w["turns"], 0)
    tile_bytes = shape.rows * size
    with (
        r.loop(item_to, item_from) as item,
        _blocks(r, row_from, row_to, w["block_rows"]) as (row_first, row_last),
        _blocks(r, tile_from, tile_to, w["block_tiles"]) as (tile_first, tile_last),
        r.loop(w["outer_depth"]) as outer,
        r.loop(deep_blocks) as block,
    ):
        moved = r.row(table["batch_table"], item, 3)
        a, b, c = (r.at(bases[name], r.word(moved, 8 * at)) for at, name in enumerate("abc"))
        deep_a = r.at(a, r.let(f"mul i64 {outer}, {w['deep_a']}"))
        deep_b = r.at(b, r.let(f"mul i64 {outer}, {w['deep_b']}"))
        top = r.multiply(block, DEPTH)
        rest = r.subtract(w["k"], top)
        k = r.select(r.compare("slt", rest, DEPTH), rest, DEPTH)
        depth_a, depth_b = (r.at(table[f"depth_{name}"], r.scaled(top)) for name in "ab")
        earlier = r.either(r.unequal(outer, 0), r.unequal(block, 0))
        adds = r.let(f"zext i1 {earlier} to i64")
        tiles = r.subtract(tile_last, tile_first)
        turned_bytes = r.multiply(k, tile_bytes)

        def turned(row: str, tile: str) -> str:
            """Where the turned elements of a tile lie."""
            number = r.multiply(r.subtract(row, row_first), tiles)
            number = r.add(number, r.subtract(tile, tile_first))
            return r.at("%turned", r.multiply(number, turned_bytes))

        with (
            r.loop(r.select(turns, row_last, row_first), row_first) as row,
            r.loop(tile_last, tile_first) as tile,
        ):
            row_a = r.at(deep_a, r.let(f"mul i64 {row}, {w['outer_a']}"))
            rows_a = r.row(table["rows_a"], tile, shape.rows)
            r.do("@turn", f"ptr {turned(row, tile)}", f"ptr {row_a}", f"ptr {rows_a}",
                 f"ptr {depth_a}", f"i64 {k}")  # fmt: skip
        with r.loop(panel_to, panel_from) as panel:
            first = r.multiply(panel, width)
            left = r.subtract(w["n"], first)
            columns = r.select(r.compare("slt", left, width), left, width)
            columns_b = r.at(table["columns_b"], r.scaled(first))
            r.do("@pack", "ptr %panel", f"ptr {deep_b}", f"ptr {depth_b}", f"ptr {columns_b}",
                 f"i64 {k}", f"i64 {columns}", f"i64 {w['lie']}")  # fmt: skip
            start_c = r.at(c, r.multiply(first, size))
            with r.loop(row_last, row_first) as row:
                row_a = r.at(deep_a, r.let(f"mul i64 {row}, {w['outer_a']}"))
                row_c = r.at(start_c, r.let(f"mul i64 {row}, {w['outer_c']}"))
                with r.loop(tile_last, tile_first) as tile:
                    rows_a, rows_c = (r.row(table[f"rows_{n}"], tile, shape.rows) for n in "ac")
                    left_operand = (
                        r.select(turns, turned(row, tile), row_a, "ptr"),
                        r.select(turns, "@turned.rows", rows_a, "ptr"),
                        r.select(turns, "@turned.depth", depth_a, "ptr"),
                    )
                    r.do("@tile", *(f"ptr {each}" for each in left_operand), "ptr %panel",
                         f"ptr {row_c}", f"ptr {rows_c}", f"i64 {k}", f"i64 {columns}",
                         f"i64 {adds}")  # fmt: skip
    r.end("ret void")
    return r.text()


@contextlib.contextmanager
def _blocks(r: Routine, start: str, stop: str, step: str) -> Iterator[tuple[str, str]]:
    """Lines that run for each block of a range: its first number, and the one after its last."""
    length = r.add(r.subtract(stop, start), r.subtract(step, 1))
    with r.loop(r.let(f"sdiv i64 {length}, {step}")) as number:
        first = r.add(start, r.multiply(number, step))
        last = r.add(first, step)
        yield first, r.select(r.compare("slt", last, stop), last, stop)
