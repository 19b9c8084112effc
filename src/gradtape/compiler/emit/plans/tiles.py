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

A contraction without depth writes zeros.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.compiler.emit.plans.bundles import cut_in_blocks
from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.plans.packing import (
    DEPTH,
    TURNED,
    Shape,
    add_product,
    masked_load,
    masks,
    pack,
    splat,
    turn,
    turned_offsets,
)
from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects import llvm

# Values of `split`: what the range of the kernel counts.
SPLIT_BATCH, SPLIT_PANELS, SPLIT_ROWS, SPLIT_TILES = range(4)


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
    # each with its depth `IN_RUNS` as long as a vector; or that they are `COMPLEX`.
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
    # How deep a panel is, at most.
    panel_depth: int
    # Whether products are added to what is in c.
    adds: int
    panels: int


def tiles_ir(shape: Shape) -> str:
    """The module with `tiles`."""
    vector, mask = shape.vector, f"<{shape.lanes} x i1>"
    fused = f"declare {vector} @llvm.fmuladd.{shape.suffix}({vector}, {vector}, {vector})"
    declarations = f"""
{"" if shape.integer else fused}
declare {vector} @llvm.masked.load.{shape.suffix}.p0(ptr, i32, {mask}, {vector})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""
    return (
        declarations
        + turned_offsets(shape)
        + ("" if shape.direct else pack(shape))
        + "".join(write(shape) for write in (_tile, turn, _kernel))
    )


def _tile(shape: Shape) -> str:
    """Some rows times a panel; of the last panel only so many columns are written."""
    vector, size, rows = shape.vector, shape.size, shape.rows
    r = Routine(
        "internal void @tile(ptr noalias %a, ptr noalias %rows_a, ptr noalias %depth, "
        "ptr noalias %b, ptr noalias %depth_b, ptr noalias %c, ptr noalias %rows_c, i64 %k, "
        "i64 %width, i64 %adds) "
        f"{llvm.aligned_stack(shape.lanes * size)}"
    )
    if shape.beside:
        first = r.at("%a", r.word("%rows_a"))
        starts = [r.at(first, row * size) for row in range(rows)]
    else:
        starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(rows)]
    sums = [(row, column) for row in range(rows) for column in range(shape.vectors)]
    some = r.compare("sgt", "%k", 0)
    r.end(f"br i1 {some}, label %loop, label %write")
    r.block("loop")
    r.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for row, column in sums:
        r.line(
            f"%sum{row}.{column} = phi {vector} [ zeroinitializer, %entry ], "
            f"[ %next{row}.{column}, %loop ]"
        )
    along = r.word("%depth", r.scaled("%i"))
    at_once = {at: f"%sum{at[0]}.{at[1]}" for at in sums}
    for step in range(shape.run):
        number = "%i" if step == 0 else r.add("%i", step)
        if shape.direct:
            place = r.at("%b", r.word("%depth_b", r.scaled(number)))
        else:
            place = r.at("%b", r.multiply(number, size * shape.width))
        loaded = [
            r.let(f"load {vector}, ptr {r.at(place, column * shape.lanes * size)}, align {size}")
            for column in range(shape.vectors)
        ]
        for row in range(rows):
            at = r.at(r.at(starts[row], along), step * size)
            spread = splat(r, shape, r.let(f"load {shape.kind}, ptr {at}, align {size}"))
            for column, factor in enumerate(loaded):
                name = f"%next{row}.{column}" + (f".{step}" if step < shape.run - 1 else "")
                add_product(r, shape, name, spread, factor, at_once[row, column])
                at_once[row, column] = name
    r.line(f"%next = add i64 %i, {shape.run}")
    again = r.compare("slt", "%next", "%k")
    r.end(f"br i1 {again}, label %loop, label %write")
    r.block("write")
    for row, column in sums:
        ways = ("zeroinitializer", "entry"), (f"%next{row}.{column}", "loop")
        r.line(f"%more{row}.{column} = " + _phi(vector, *ways))
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
        old: str = r.let(f"load {vector}, ptr {places[row, column]}, align {size}")
        r.line(f"%both{row}.{column} = {shape.add} {vector} {old}, %more{row}.{column}")
    for row, column in sums:
        r.line(f"store {vector} %both{row}.{column}, ptr {places[row, column]}, align {size}")
    r.end("ret void")
    r.block("all.store")
    for row, column in sums:
        r.line(f"store {vector} %more{row}.{column}, ptr {places[row, column]}, align {size}")
    r.end("ret void")
    r.block("some")
    present = masks(r, shape, "%width")
    r.end(f"br i1 {fresh}, label %some.store, label %some.add")
    r.block("some.add")
    kept = [masked_load(r, shape, places[row, column], present[column]) for row, column in sums]
    for old, (row, column) in zip(kept, sums, strict=True):
        r.line(f"%part{row}.{column} = {shape.add} {vector} {old}, %more{row}.{column}")
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

    item_from, item_to = part(SPLIT_BATCH, w["batch"])
    panel_from, panel_to = part(SPLIT_PANELS, w["panels"])
    row_from, row_to = part(SPLIT_ROWS, w["outer_rows"])
    tile_from, tile_to = part(SPLIT_TILES, w["tiles"])
    deep = w["panel_depth"]
    deep_blocks = r.let(f"udiv i64 {r.add(w['k'], r.subtract(deep, 1))}, {deep}")
    deep_blocks = r.select(r.equal(w["k"], 0), 1, deep_blocks)
    turns = r.unequal(w["turns"], 0)
    tile_bytes = shape.rows * size
    with (
        r.loop(item_to, item_from) as item,
        cut_in_blocks(r, row_from, row_to, w["block_rows"]) as (row_first, row_last),
        cut_in_blocks(r, tile_from, tile_to, w["block_tiles"]) as (tile_first, tile_last),
        r.loop(w["outer_depth"]) as outer,
        r.loop(deep_blocks) as block,
    ):
        moved = r.row(table["batch_table"], item, 3)
        a, b, c = (r.at(bases[name], r.word(moved, 8 * at)) for at, name in enumerate("abc"))
        deep_a = r.at(a, r.let(f"mul i64 {outer}, {w['deep_a']}"))
        deep_b = r.at(b, r.let(f"mul i64 {outer}, {w['deep_b']}"))
        top = r.multiply(block, deep)
        rest = r.subtract(w["k"], top)
        k = r.select(r.compare("slt", rest, deep), rest, deep)
        depth_a, depth_b = (r.at(table[f"depth_{name}"], r.scaled(top)) for name in "ab")
        earlier = r.either(r.unequal(outer, 0), r.unequal(block, 0))
        earlier = r.either(earlier, r.unequal(w["adds"], 0))
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
            r.do(
                "@turn",
                f"ptr {turned(row, tile)}",
                f"ptr {row_a}",
                f"ptr {rows_a}",
                f"ptr {depth_a}",
                f"i64 {k}",
            )
        with r.loop(panel_to, panel_from) as panel:
            first = r.multiply(panel, width)
            left = r.subtract(w["n"], first)
            columns = r.select(r.compare("slt", left, width), left, width)
            columns_b = r.at(table["columns_b"], r.scaled(first))
            panel_b = "%panel"
            if shape.direct:
                panel_b = r.at(deep_b, r.word(columns_b))
            else:
                r.do(
                    "@pack",
                    "ptr %panel",
                    f"ptr {deep_b}",
                    f"ptr {depth_b}",
                    f"ptr {columns_b}",
                    f"i64 {k}",
                    f"i64 {columns}",
                    f"i64 {w['lie']}",
                )
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
                    r.do(
                        "@tile",
                        *(f"ptr {each}" for each in left_operand),
                        f"ptr {panel_b}",
                        f"ptr {depth_b}",
                        f"ptr {row_c}",
                        f"ptr {rows_c}",
                        f"i64 {k}",
                        f"i64 {columns}",
                        f"i64 {adds}",
                    )
    r.end("ret void")
    return r.text()
