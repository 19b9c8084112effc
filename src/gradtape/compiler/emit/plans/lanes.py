"""Lanes: sums of products of vectors, lane by lane, for convolutions of each channel by itself.

    c[row, lane] = sum over depth of a[row, depth, lane] * b[depth, lane]

Lanes lie side by side in all three. A tile of a few rows and one or two vectors is summed up in
registers over the whole depth. Offsets of rows and of depth are in tables, as in `tiles`, and
nothing is packed: vectors of `b` are read where they lie, once for each tile. If `b` is the same in
all lanes, its elements are spread over vectors.

The loops, from the outside in: outer rows, panels of lanes, tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gradtape.compiler.emit.plans.frame import SPLIT_PANELS, SPLIT_ROWS, SPLIT_TILES, Frame
from gradtape.compiler.emit.plans.packing import FLOATS, TileShape, add_product, masks
from gradtape.compiler.emit.writer import Routine, Typed, module
from gradtape.compiler.objects import llvm
from gradtape.config import LANE_TILE_ROWS


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
    # The number of lanes, and offsets along the depth.
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


def lane_shape(size: int, bits: int, lanes: int, rows: int, integer: bool) -> TileShape:
    """The shape for elements of `size` bytes and vectors of `bits`, by lanes and rows."""
    kind, width = f"i{8 * size}" if integer else FLOATS[size], bits // (8 * size)
    vectors = 2 if lanes > width else 1
    most = LANE_TILE_ROWS[bits == 512, vectors]
    # The fewest rows of a tile that need no more tiles.
    return TileShape(kind, size, width, vectors, -(-rows // -(-rows // most)))


def lanes_ir(shape: TileShape, spreads: bool) -> str:
    """The module with `lanes`, in which `b` is the same in all lanes if it `spreads`."""
    tiles = (_tile(shape, spreads, whole) for whole in (True, False))
    return module(*tiles, _kernel(shape, spreads))


def _tile(shape: TileShape, spreads: bool, whole: bool) -> Routine:
    """Some rows of a panel, of which all lanes are there or the first `width`."""
    vector, size, rows = shape.vector, shape.size, shape.rows
    r = Routine(
        f"internal void @{'whole' if whole else 'some'}(ptr noalias %a, ptr noalias %rows_a, "
        "ptr noalias %depth_a, ptr noalias %b, ptr noalias %depth_b, ptr noalias %c, "
        "ptr noalias %rows_c, i64 %k, i64 %width, i64 %adds) "
        f"{llvm.aligned_stack(shape.lanes * size)}"
    )
    numbers = range(shape.vectors)
    present = [None for _ in numbers] if whole else masks(r, shape, "%width")

    def load(place: str, number: int) -> Typed:
        return r.load_lanes(vector, place, present[number], size)

    def beside(place: str, number: int) -> str:
        return r.at(place, number * shape.lanes * size)

    starts = [r.at("%a", r.word("%rows_a", 8 * row)) for row in range(rows)]
    with r.fold("%k", [Typed("zeroinitializer", vector)] * (rows * shape.vectors)) as fold:
        offset = r.scaled(fold.index)
        place = r.at("%b", r.word("%depth_b", offset))
        if spreads:
            factors = [r.splat(r.load(shape.kind, place, size), shape.lanes)] * shape.vectors
        else:
            factors = [load(beside(place, number), number) for number in numbers]
        along = r.word("%depth_a", offset)
        for row, start in enumerate(starts):
            place = r.at(start, along)
            for number in numbers:
                at = row * shape.vectors + number
                element = load(beside(place, number), number)
                fold.values[at] = add_product(r, element, factors[number], fold.values[at])
    places = [
        beside(r.at("%c", r.word("%rows_c", 8 * row)), number)
        for row in range(rows)
        for number in numbers
    ]

    def store(values: Sequence[str]) -> None:
        for at, (value, place) in enumerate(zip(values, places, strict=True)):
            r.store_lanes(value, place, present[at % shape.vectors], size)
        r.end("ret void")

    r.go_if(r.unequal("%adds", 0), "adding")
    store(fold.values)
    r.block("adding")
    # Rows that fill up the last tile repeat its last row: all are loaded before any is stored.
    old = [load(place, at % shape.vectors) for at, place in enumerate(places)]
    store([r.op(shape.add, *pair) for pair in zip(fold.values, old, strict=True)])
    return r


def _kernel(shape: TileShape, spreads: bool) -> Routine:
    width, size = shape.width, shape.size
    frame = Frame("lanes", LaneArguments._fields, shape.rows)
    r, w, (a, b, c) = frame.r, frame.words, frame.bases
    panels, tiles = frame.part(SPLIT_PANELS, "panels"), frame.part(SPLIT_TILES, "tiles")
    with r.loop(*frame.part(SPLIT_ROWS, "outer_rows")) as row, r.loop(*panels) as panel:
        first = r.multiply(panel, width)
        left = r.subtract(w["n"], first)
        aside = r.multiply(first, size)
        row_a, row_c = (
            r.at(frame.of_row(a, "a", row), aside),
            r.at(frame.of_row(c, "c", row), aside),
        )
        panel_b = b if spreads else r.at(b, aside)
        function = r.select(r.compare("sge", left, width), "@whole", "@some", "ptr")
        with r.loop(*tiles) as tile:
            rows_a, rows_c = (frame.tile_offsets(x, tile) for x in "ac")
            operands = (row_a, rows_a, w["depth_a"], panel_b, w["depth_b"], row_c, rows_c)
            r.do(function, *operands, w["k"], left, w["adds"])
    return r
