"""Lanes: sums of products of vectors, lane by lane, for convolutions of each channel by itself.

    c[row, lane] = sum over depth of a[row, depth, lane] * b[depth, lane]

Lanes lie side by side in all three. A tile of a few rows and one or two vectors is summed up in
registers over the whole depth. Offsets of rows and of depth are in tables, as in `tiles`, and
nothing is packed: vectors of `b` are read where they lie, once for each tile. If `b` is the same in
all lanes, its elements are spread over vectors.

The loops, from the outside in: outer rows, panels of lanes, tiles.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.plans.packing import (
    FLOATS,
    Shape,
    add_product,
    masked_load,
    masks,
    splat,
)
from gradtape.compiler.emit.plans.tiles import SPLIT_PANELS, SPLIT_ROWS, SPLIT_TILES
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm

# Rows of a tile, by whether there are 32 registers and by the vectors of its width.
_ROWS = {(True, 1): 9, (True, 2): 9, (False, 1): 9, (False, 2): 6}


class LaneArguments(NamedTuple):
    """The words of the kernel. Offsets and steps are bytes; tables are addresses of words."""

    slot_a: int
    offset_a: int
    slot_b: int
    offset_b: int
    slot_c: int
    offset_c: int
    # Outer rows, with the steps of a and c along them, and offsets of the rows in each.
    outer_rows: int
    outer_a: int
    outer_c: int
    # Tiles; the tables of offsets are filled up to whole tiles with the last row.
    tiles: int
    rows_a: int
    rows_c: int
    # How many lanes there are, and offsets along the depth.
    n: int
    k: int
    depth_a: int
    depth_b: int
    split: int
    # Whether products are added to what is in c.
    adds: int
    panels: int
    # There is no batch beside the lanes.
    batch: int = 1


def lane_shape(size: int, bits: int, lanes: int, rows: int, integer: bool) -> Shape:
    """The shape for elements of some bytes, vectors of some bits, and so many lanes and rows."""
    kind, width = f"i{8 * size}" if integer else FLOATS[size], bits // (8 * size)
    vectors = 2 if lanes > width else 1
    most = _ROWS[bits == 512, vectors]
    # The fewest rows of a tile that need no more tiles.
    return Shape(kind, size, width, vectors, -(-rows // -(-rows // most)))


def lanes_ir(shape: Shape, spreads: bool) -> str:
    """The module with `lanes`, in which `b` is the same in all lanes if it `spreads`."""
    vector, mask = shape.vector, f"<{shape.lanes} x i1>"
    fused = f"declare {vector} @llvm.fmuladd.{shape.suffix}({vector}, {vector}, {vector})"
    return f"""
{"" if shape.integer else fused}
declare {vector} @llvm.masked.load.{shape.suffix}.p0(ptr, i32, {mask}, {vector})
declare void @llvm.masked.store.{shape.suffix}.p0({vector}, ptr, i32, {mask})
{_tile(shape, spreads, True)}{_tile(shape, spreads, False)}{_kernel(shape, spreads)}"""


def _tile(shape: Shape, spreads: bool, whole: bool) -> str:
    """Some rows of a panel, of which all lanes are there or the first `width`."""
    vector, size, rows = shape.vector, shape.size, shape.rows
    r = Routine(
        f"internal void @{'whole' if whole else 'some'}(ptr noalias %a, ptr noalias %rows_a, "
        "ptr noalias %depth_a, ptr noalias %b, ptr noalias %depth_b, ptr noalias %c, "
        "ptr noalias %rows_c, i64 %k, i64 %width, i64 %adds) "
        f"{llvm.aligned_stack(shape.lanes * size)}"
    )
    present = [] if whole else masks(r, shape, "%width")

    def load(place: str, number: int) -> str:
        at = r.at(place, number * shape.lanes * size)
        if whole:
            return r.let(f"load {vector}, ptr {at}, align {size}")
        return masked_load(r, shape, at, present[number])

    starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(rows)]
    numbers = range(shape.vectors)
    with r.fold("%k", [Typed("zeroinitializer", vector)] * (rows * shape.vectors)) as fold:
        beside = r.scaled(fold.index)
        place = r.at("%b", r.word("%depth_b", beside))
        if spreads:
            element = r.let(f"load {shape.kind}, ptr {place}, align {size}")
            factors = [splat(r, shape, element)] * shape.vectors
        else:
            factors = [load(place, number) for number in numbers]
        along = r.word("%depth_a", beside)
        for row, start in enumerate(starts):
            place = r.at(start, along)
            for number in numbers:
                at = row * shape.vectors + number
                name = f"%sum{at}"
                add_product(r, shape, name, load(place, number), factors[number], fold.values[at])
                fold.values[at] = name
    places = [
        r.at(r.at("%c", r.word("%rows_c", 8 * row)), number * shape.lanes * size)
        for row in range(rows)
        for number in numbers
    ]

    def store(values: list[str]) -> None:
        for at, (value, place) in enumerate(zip(values, places, strict=True)):
            if whole:
                r.line(f"store {vector} {value}, ptr {place}, align {size}")
            else:
                mask = f"<{shape.lanes} x i1> {present[at % shape.vectors]}"
                r.do(
                    f"@llvm.masked.store.{shape.suffix}.p0",
                    f"{vector} {value}",
                    f"ptr {place}",
                    f"i32 {size}",
                    mask,
                )
        r.end("ret void")

    r.go_if(r.unequal("%adds", 0), "adding")
    store(fold.values)
    r.block("adding")
    # Rows that fill up the last tile repeat its last row: all are loaded before any is stored.
    old = [
        r.let(f"load {vector}, ptr {place}, align {size}")
        if whole
        else masked_load(r, shape, place, present[at % shape.vectors])
        for at, place in enumerate(places)
    ]
    store(
        [
            r.let(f"{shape.add} {vector} {value}, {before}")
            for value, before in zip(fold.values, old, strict=True)
        ]
    )
    return r.text()


def _kernel(shape: Shape, spreads: bool) -> str:
    width, size = shape.width, shape.size
    r = kernel_routine("lanes")
    w = r.words("%args", LaneArguments._fields)
    table = {
        name: r.let(f"inttoptr i64 {w[name]} to ptr")
        for name in ("rows_a", "rows_c", "depth_a", "depth_b")
    }
    a, b, c = (
        r.at(r.pointer("%slots", r.scaled(w[f"slot_{name}"])), w[f"offset_{name}"])
        for name in "abc"
    )

    def part(split: int, whole: str) -> tuple[str, str]:
        here = r.equal(w["split"], split)
        return r.select(here, "%lo", 0), r.select(here, "%hi", whole)

    row_from, row_to = part(SPLIT_ROWS, w["outer_rows"])
    panel_from, panel_to = part(SPLIT_PANELS, w["panels"])
    tile_from, tile_to = part(SPLIT_TILES, w["tiles"])
    with r.loop(row_to, row_from) as row, r.loop(panel_to, panel_from) as panel:
        first = r.multiply(panel, width)
        left = r.subtract(w["n"], first)
        aside = r.multiply(first, size)
        row_a = r.at(r.at(a, r.let(f"mul i64 {row}, {w['outer_a']}")), aside)
        row_c = r.at(r.at(c, r.let(f"mul i64 {row}, {w['outer_c']}")), aside)
        panel_b = b if spreads else r.at(b, aside)
        function = r.select(r.compare("sge", left, width), "@whole", "@some", "ptr")
        with r.loop(tile_to, tile_from) as tile:
            rows_a, rows_c = (r.row(table[f"rows_{n}"], tile, shape.rows) for n in "ac")
            r.do(
                function,
                f"ptr {row_a}",
                f"ptr {rows_a}",
                f"ptr {table['depth_a']}",
                f"ptr {panel_b}",
                f"ptr {table['depth_b']}",
                f"ptr {row_c}",
                f"ptr {rows_c}",
                f"i64 {w['k']}",
                f"i64 {left}",
                f"i64 {w['adds']}",
            )
    r.end("ret void")
    return r.text()
