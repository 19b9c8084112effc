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

from collections.abc import Sequence
from typing import NamedTuple

from gradtape.compiler.emit.plans.bundles import cut_in_blocks
from gradtape.compiler.emit.plans.frame import (
    SPLIT_BATCH,
    SPLIT_PANELS,
    SPLIT_ROWS,
    SPLIT_TILES,
    Frame,
)
from gradtape.compiler.emit.plans.packing import (
    TURNED_TABLES,
    TileShape,
    add_product,
    masks,
    pack,
    turn,
    turned_offsets,
)
from gradtape.compiler.emit.writer import Routine, Typed, module
from gradtape.compiler.objects import llvm
from gradtape.config import PANEL_DEPTH, TURNED_TILES_BYTES


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
    # The number of outer rows and of tiles of a block.
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
    # The maximum depth of a panel.
    panel_depth: int
    # Whether products are added to what is in c.
    adds: int
    panels: int


def tiles_ir(shape: TileShape) -> str:
    """The module with `tiles`."""
    packing = [] if shape.direct else [pack(shape)]
    return module(turned_offsets(shape), *packing, _tile(shape), turn(shape), _kernel(shape))


def _tile(shape: TileShape) -> Routine:
    """Some rows times a panel; of the last panel only the existing columns are written."""
    vector, size = shape.vector, shape.size
    r = Routine(
        "internal void @tile(ptr noalias %a, ptr noalias %rows_a, ptr noalias %depth, "
        "ptr noalias %b, ptr noalias %depth_b, ptr noalias %c, ptr noalias %rows_c, i64 %k, "
        "i64 %width, i64 %adds) "
        f"{llvm.aligned_stack(shape.lanes * size)}"
    )
    sums = [(row, column) for row in range(shape.rows) for column in range(shape.vectors)]
    values = _sums(r, shape)
    lines = [r.at("%c", r.word("%rows_c", 8 * row)) for row in range(shape.rows)]
    places = [r.at(lines[row], column * shape.lanes * size) for row, column in sums]
    fresh = r.equal("%adds", 0)

    def store(values: Sequence[str]) -> None:
        for value, place in zip(values, places, strict=True):
            r.store(value, place, align=size)
        r.end("ret void")

    def added(old: Sequence[str]) -> list[str]:
        return [r.op(shape.add, *pair) for pair in zip(old, values, strict=True)]

    r.branch(r.equal("%width", shape.width), "wide", "some")
    r.block("wide")
    with r.when(fresh):
        store(values)
    # Rows that fill up the last tile repeat its last row: all are loaded before any is stored.
    store(added([r.load(vector, place, size) for place in places]))
    r.block("some")
    present = masks(r, shape, "%width")
    r.branch(fresh, "store", "add")
    r.block("add")
    kept = zip(places, sums, strict=True)
    total = added([r.load_lanes(vector, at, present[column], size) for at, (_, column) in kept])
    r.block("store")
    last = [
        r.phi(vector, (value, "add"), (new, "some"))
        for value, new in zip(total, values, strict=True)
    ]
    for column in range(shape.vectors):
        left = r.subtract("%width", column * shape.lanes)
        every = slice(column, None, shape.vectors)
        _store_first(r, shape, last[every], places[every], left)
    return r


def _sums(r: Routine, shape: TileShape) -> list[str]:
    """The sums over the depth of a panel: a vector for each row and vector of columns."""
    size, count = shape.size, shape.rows * shape.vectors
    if shape.beside:
        first = r.at("%a", r.word("%rows_a"))
        starts = [r.at(first, row * size) for row in range(shape.rows)]
    else:
        starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(shape.rows)]
    with r.fold("%k", [Typed("zeroinitializer", shape.vector)] * count, step=shape.run) as fold:
        along = r.word("%depth", r.scaled(fold.index))
        for step in range(shape.run):
            number = fold.index if step == 0 else r.add(fold.index, step)
            if shape.direct:
                place = r.at("%b", r.word("%depth_b", r.scaled(number)))
            else:
                place = r.at("%b", r.multiply(number, size * shape.width))
            loaded = [
                r.load(shape.vector, r.at(place, column * shape.lanes * size), size)
                for column in range(shape.vectors)
            ]
            for row, start in enumerate(starts):
                at = r.at(r.at(start, along), step * size)
                spread = r.splat(r.load(shape.kind, at, size), shape.lanes)
                for column, factor in enumerate(loaded):
                    at_once = row * shape.vectors + column
                    fold.values[at_once] = add_product(r, spread, factor, fold.values[at_once])
    return fold.values


def _store_first(
    r: Routine, shape: TileShape, values: Sequence[str], places: Sequence[str], count: str
) -> None:
    """Store the first lanes of some vectors, in halves: masked stores can be very slow."""
    lanes = shape.lanes

    def store() -> None:
        for value, place in zip(values, places, strict=True):
            r.store(value, place, align=shape.size)

    with r.when(r.compare("sge", count, lanes)):
        store()
    with r.when(r.both(r.compare("sgt", count, 0), r.compare("slt", count, lanes))):
        while lanes > 1:
            half = lanes // 2
            bit = r.op("and", count, half)
            has = r.unequal(bit, 0)
            low, high = (
                [r.shuffle(value, range(first, first + half)) for value in values]
                for first in (0, half)
            )
            with r.when(has):
                values = low
                store()
            values = [r.select(has, b, a) for a, b in zip(low, high, strict=True)]
            skipped = r.multiply(bit, shape.size)
            places = [r.at(place, skipped) for place in places]
            lanes = half


def _kernel(shape: TileShape) -> Routine:
    size, width = shape.size, shape.width
    frame = Frame("tiles", TileArguments._fields, shape.rows)
    r, w = frame.r, frame.words
    turned_memory = r.entry_line(f"alloca [{TURNED_TILES_BYTES} x i8], align 64")
    panel_memory = r.entry_line(f"alloca [{PANEL_DEPTH * width} x {shape.kind}], align 64")
    row_to, row_from = frame.part(SPLIT_ROWS, "outer_rows")
    tile_to, tile_from = frame.part(SPLIT_TILES, "tiles")
    panels = frame.part(SPLIT_PANELS, "panels")
    deep = w["panel_depth"]
    deep_blocks = r.select(r.equal(w["k"], 0), 1, r.blocks(w["k"], deep))
    turns = r.unequal(w["turns"], 0)
    with (
        r.loop(*frame.part(SPLIT_BATCH, "batch")) as item,
        cut_in_blocks(r, row_from, row_to, w["block_rows"]) as (row_first, row_last),
        cut_in_blocks(r, tile_from, tile_to, w["block_tiles"]) as (tile_first, tile_last),
        r.loop(w["outer_depth"]) as outer,
        r.loop(deep_blocks) as block,
    ):
        a, b, c = frame.of_item(item)
        deep_a = r.at(a, r.multiply(outer, w["deep_a"]))
        deep_b = r.at(b, r.multiply(outer, w["deep_b"]))
        top = r.multiply(block, deep)
        k = r.least(r.subtract(w["k"], top), deep)
        depth_a, depth_b = (r.at(w[f"depth_{name}"], r.scaled(top)) for name in "ab")
        earlier = r.either(r.unequal(outer, 0), r.unequal(block, 0))
        adds = r.cast("zext", r.either(earlier, r.unequal(w["adds"], 0)), "i64")
        tiles = r.subtract(tile_last, tile_first)
        turned_bytes = r.multiply(k, shape.rows * size)

        def turned(row: str, tile: str) -> str:
            """The address of the turned elements of a tile."""
            number = r.multiply(r.subtract(row, row_first), tiles)
            number = r.add(number, r.subtract(tile, tile_first))
            return r.at(turned_memory, r.multiply(number, turned_bytes))

        with (
            r.loop(r.select(turns, row_last, row_first), row_first) as row,
            r.loop(tile_last, tile_first) as tile,
        ):
            row_a, rows_a = frame.of_row(deep_a, "a", row), frame.tile_offsets("a", tile)
            r.do("@turn", turned(row, tile), row_a, rows_a, depth_a, k)
        with r.loop(*panels) as panel:
            first = r.multiply(panel, width)
            columns = r.least(r.subtract(w["n"], first), width)
            columns_b = r.at(w["columns_b"], r.scaled(first))
            panel_b = panel_memory
            if shape.direct:
                panel_b = r.at(deep_b, r.word(columns_b))
            else:
                r.do("@pack", panel_memory, deep_b, depth_b, columns_b, k, columns, w["lie"])
            start_c = r.at(c, r.multiply(first, size))
            with r.loop(row_last, row_first) as row:
                row_a, row_c = frame.of_row(deep_a, "a", row), frame.of_row(start_c, "c", row)
                with r.loop(tile_last, tile_first) as tile:
                    rows_a, rows_c = (frame.tile_offsets(x, tile) for x in "ac")
                    packed, plain = (turned(row, tile), *TURNED_TABLES), (row_a, rows_a, depth_a)
                    left = [r.select(turns, *each) for each in zip(packed, plain, strict=True)]
                    r.do("@tile", *left, panel_b, depth_b, row_c, rows_c, k, columns, adds)
    return r
