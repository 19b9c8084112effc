"""LU factors of one large matrix, as kernels, in the form in which LAPACK's `getrf` leaves them.

The matrix lies column after column. `WIDTH` columns at a time are factored as a panel, by one
thread: row interchanges are found there. `update` then applies them to the columns on the right,
solves for the rows of U, and subtracts the product of the panel and these rows; threads share its
columns. The thread that has the first columns factors them as the next panel at once, while others
still work on theirs. `interchange` repeats all interchanges on the columns on the left, at the end.

A factored panel leaves a copy of its columns with the sign changed: first the square part, then the
rows below it in bands as tall as a vector, each of them column after column. So a tile of `update`
reads its left operand in one run, with every sum in a register.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended
from gradtape.codegen.plans.instructions import kernel_routine
from gradtape.codegen.plans.panels import PLACES, WIDTH, column_at, panels_ir
from gradtape.codegen.routine import Routine, Word

# Columns of a tile.
STRIP = 4
# A panel takes as long to factor as so many strips take to update, of about the same height.
_PANEL_STRIPS = 14
# Bands of rows that a tile spans, and tiles that pass over a strip before the next strip.
_BANDS = 3
_TILES = 4
# Steps of depth that the loop over a tile takes at once.
_STEPS = 4
_LINE = 64


class FactorArguments(NamedTuple):
    """The words of all kernels. Offsets are bytes."""

    slot_from: int
    offset_from: int
    slot: int
    offset: int
    slot_pivots: int
    offset_pivots: int
    # The copy of the panel, and where the copy of the next one is to lie.
    slot_panel: int
    offset_panel: int
    slot_next: int
    offset_next: int
    order: int
    # The first column of the panel, and how many it has.
    first: int
    width: int


def factors_ir(lanes: Lanes) -> str:
    """The module with the kernels `copy`, `panel`, `update` and `interchange`."""
    written = [
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        panels_ir(lanes), *(_solve(lanes, columns) for columns in (1, 2)),
        *(_tile(lanes, bands, columns) for bands in (1, _BANDS) for columns in (1, STRIP)),
        *(_edge(lanes, columns) for columns in (1, STRIP)),
        *(_sweep(lanes, bands) for bands in (1, _BANDS)),
        _copy(lanes), _panel(lanes), _apply(lanes), _update(lanes), _interchange(lanes),
    ]  # fmt: skip
    return "\n".join(written)


def _solve(lanes: Lanes, columns: int) -> str:
    """Rows of U: solve with the square part of a panel, for some columns at a time."""
    r = ElementRoutine(
        f"internal void @solve{columns}(ptr noalias %panel, ptr noalias %x, i64 %leading)", lanes
    )
    vector, count = lanes.vector, lanes.per_vector
    starts = [r.at("%x", r.multiply("%leading", column)) for column in range(columns)]
    parts = range(WIDTH // count)
    places = [[r.at(start, part * lanes.bytes) for part in parts] for start in starts]
    values = [[r.load(place, vector) for place in listed] for listed in places]
    for row in range(WIDTH):
        at, lane = divmod(row, count)
        known = [r.lane_everywhere(column[at], lane) for column in values]
        for part in parts[at:]:
            if part == at and lane == count - 1:
                continue
            factor = r.load(r.at("%panel", (row * WIDTH + part * count) * lanes.size), vector)
            for column, number in zip(values, known, strict=True):
                found = r.intrinsic("fmuladd", vector, factor, number, column[part])
                if part == at:
                    below = ", ".join(f"i1 {str(other > lane).lower()}" for other in range(count))
                    others = f"{vector} {found}, {vector} {column[part]}"
                    found = r.let(f"select <{count} x i1> <{below}>, {others}")
                column[part] = found
    for listed, column in zip(places, values, strict=True):
        for place, value in zip(listed, column, strict=True):
            r.store(value, place, vector)
    return ended(r)


def _sums(r: ElementRoutine, bands: int, columns: int) -> list[list[str]]:
    """The product of some bands at `%l` and some columns at `%u`, as vectors by column."""
    lanes = r.lanes
    tops = [r.at("%u", r.multiply("%leading", column)) for column in range(columns)]
    zeros = ["zeroinitializer"] * (bands * columns)
    with r.fold(WIDTH // _STEPS, lanes.vector, zeros) as fold:
        sums = list(fold.values)
        depth = r.multiply(fold.index, _STEPS)
        left, above = r.at("%l", r.multiply(depth, lanes.bytes)), r.multiply(depth, lanes.size)
        rights = [r.at(top, above) for top in tops]
        for step in range(_STEPS):
            factors = [
                r.load(r.at(left, band * WIDTH * lanes.bytes + step * lanes.bytes), lanes.vector)
                for band in range(bands)
            ]
            for column, right in enumerate(rights):
                other = r.load(r.at(right, step * lanes.size), lanes.kind)
                spread = r.spread(other, lanes.vector)
                for band, factor in enumerate(factors):
                    at = column * bands + band
                    sums[at] = r.intrinsic("fmuladd", lanes.vector, factor, spread, sums[at])
        fold.values = sums
    return [fold.values[column * bands : (column + 1) * bands] for column in range(columns)]


_TILE = "(ptr noalias %l, ptr noalias %u, ptr noalias %c, i64 %leading{more})"


def _tile(lanes: Lanes, bands: int, columns: int) -> str:
    """Add the product of some bands and some columns to a tile."""
    r = ElementRoutine(f"internal void @tile{bands}x{columns}{_TILE.format(more='')}", lanes)
    places = [r.at("%c", r.multiply("%leading", column)) for column in range(columns)]
    for place in places:
        for near in range(0, bands * lanes.bytes, _LINE):
            r.do("@llvm.prefetch.p0", f"ptr {r.at(place, near)}", "i32 1", "i32 3", "i32 1")
    for place, sums in zip(places, _sums(r, bands, columns), strict=True):
        for band, total in enumerate(sums):
            at = r.at(place, band * lanes.bytes)
            old = r.load(at, lanes.vector)
            r.store(r.let(f"fadd {lanes.vector} {old}, {total}"), at, lanes.vector)
    return ended(r)


def _edge(lanes: Lanes, columns: int) -> str:
    """Add the product of the last band, which has fewer rows than lanes, and some columns."""
    r = ElementRoutine(f"internal void @edge{columns}{_TILE.format(more=', i64 %rows')}", lanes)
    held = r.let(f"alloca {lanes.vector}")
    for column, (total,) in enumerate(_sums(r, 1, columns)):
        r.store(total, held, lanes.vector)
        place = r.at("%c", r.multiply("%leading", column))
        with r.loop("%rows") as row:
            at = r.element(place, row)
            old, more = r.load(at, lanes.kind), r.load(r.element(held, row), lanes.kind)
            r.store(r.let(f"fadd {lanes.kind} {old}, {more}"), at, lanes.kind)
    return ended(r)


def _sweep(lanes: Lanes, bands: int) -> str:
    """Add the product of some tiles of bands, one below the other, to all columns of a range."""
    r = ElementRoutine(
        f"internal void @sweep{bands}(ptr %l, i64 %tiles, ptr %u, ptr %c, i64 %leading, "
        "i64 %columns)",
        lanes,
    )
    strips = r.let(f"sdiv i64 %columns, {STRIP}")

    def column_tiles(columns: int, first: str) -> None:
        right = r.multiply("%leading", first)
        u, c = r.at("%u", right), r.at("%c", right)
        with r.loop("%tiles") as tile:
            left = r.at("%l", r.multiply(tile, bands * WIDTH * lanes.bytes))
            down = r.at(c, r.multiply(tile, bands * lanes.bytes))
            pointers = (f"ptr {left}", f"ptr {u}", f"ptr {down}")
            r.do(f"@tile{bands}x{columns}", *pointers, "i64 %leading")

    with r.loop(strips) as strip:
        column_tiles(STRIP, r.multiply(strip, STRIP))
    with r.loop("%columns", r.multiply(strips, STRIP)) as column:
        column_tiles(1, column)
    return ended(r)


def _apply(lanes: Lanes) -> str:
    """Apply a panel to some columns on its right."""
    r = ElementRoutine(f"internal void @apply({PLACES}, i64 %from, i64 %to)", lanes)
    columns, end = r.subtract("%to", "%from"), r.add("%first", WIDTH)
    leading = "i64 %leading"
    with r.loop("%to", "%from") as column:
        swapped = ("i64 %first", f"i64 {end}")
        r.do("@swap_rows", f"ptr {column_at(r, column)}", "ptr %pivots", *swapped)
    pairs = r.let(f"sdiv i64 {columns}, 2")
    top = r.element(column_at(r, "%from"), "%first")
    with r.loop(pairs) as pair:
        here = r.at(top, r.multiply(r.multiply(pair, 2), "%leading"))
        r.do("@solve2", "ptr %panel", f"ptr {here}", leading)
    with r.loop(columns, r.multiply(pairs, 2)) as column:
        here = r.at(top, r.multiply(column, "%leading"))
        r.do("@solve1", "ptr %panel", f"ptr {here}", leading)
    below, start = r.at(top, WIDTH * lanes.size), r.at("%panel", WIDTH * WIDTH * lanes.size)
    rows = r.subtract("%order", end)
    bands = r.let(f"sdiv i64 {rows}, {lanes.per_vector}")
    tiles = r.let(f"sdiv i64 {bands}, {_BANDS}")

    def sweep(height: int, band: str, count: str) -> None:
        """Apply so many tiles of some height, from a band on."""
        left = r.at(start, r.multiply(band, WIDTH * lanes.bytes))
        down = r.at(below, r.multiply(band, lanes.bytes))
        pointers = (f"ptr {left}", f"i64 {count}", f"ptr {top}", f"ptr {down}")
        r.do(f"@sweep{height}", *pointers, leading, f"i64 {columns}")

    with r.loop(r.let(f"sdiv i64 {r.add(tiles, _TILES - 1)}, {_TILES}")) as block:
        done = r.multiply(block, _TILES)
        left = r.subtract(tiles, done)
        count = r.select(r.compare("slt", left, _TILES), left, _TILES)
        sweep(_BANDS, r.multiply(done, _BANDS), count)
    tall = r.multiply(tiles, _BANDS)
    sweep(1, tall, r.subtract(bands, tall))
    rest = r.subtract(rows, r.multiply(bands, lanes.per_vector))
    with r.when(r.compare("sgt", rest, 0)):
        last = f"ptr {r.at(start, r.multiply(bands, WIDTH * lanes.bytes))}"
        down = r.at(below, r.multiply(bands, lanes.bytes))
        strips = r.let(f"sdiv i64 {columns}, {STRIP}")
        for width, count, since in ((STRIP, strips, "0"), (1, columns, r.multiply(strips, STRIP))):
            with r.loop(count, since) as index:
                right = r.multiply(r.multiply(index, width), "%leading")
                pointers = (last, f"ptr {r.at(top, right)}", f"ptr {r.at(down, right)}")
                r.do(f"@edge{width}", *pointers, leading, f"i64 {rest}")
    return ended(r)


class _Matrix(NamedTuple):
    """What all kernels read from their words, and the arguments of `factor` and `apply`."""

    words: dict[str, str]
    start: str
    pivots: str
    panel: str
    leading: str

    def column(self, r: Routine, number: Word) -> str:
        """The address of a column."""
        return r.at(self.start, r.multiply(self.leading, number))

    def places(self, panel: str, first: str) -> tuple[str, ...]:
        """The arguments of a panel that begins with some column."""
        numbers = (f"i64 {self.leading}", f"i64 {self.words['order']}", f"i64 {first}")
        return f"ptr {self.start}", f"ptr {self.pivots}", f"ptr {panel}", *numbers


def _place(r: Routine, words: dict[str, str], suffix: str) -> str:
    slot = r.pointer("%slots", r.scaled(words[f"slot{suffix}"]))
    return r.at(slot, words[f"offset{suffix}"])


def _kernel(name: str, lanes: Lanes) -> tuple[ElementRoutine, _Matrix]:
    r = ElementRoutine(kernel_routine(name).head, lanes)
    words = r.words("%args", FactorArguments._fields)
    start, pivots, panel = (_place(r, words, suffix) for suffix in ("", "_pivots", "_panel"))
    return r, _Matrix(words, start, pivots, panel, r.multiply(words["order"], lanes.size))


def _copy(lanes: Lanes) -> str:
    """Columns of the matrix, into the place of its factors."""
    r, matrix = _kernel("copy", lanes)
    source = r.at(_place(r, matrix.words, "_from"), r.multiply(matrix.leading, "%lo"))
    count = r.multiply(matrix.leading, r.subtract("%hi", "%lo"))
    pointers = (f"ptr {matrix.column(r, '%lo')}", f"ptr {source}")
    r.do("@llvm.memcpy.p0.p0.i64", *pointers, f"i64 {count}", "i1 false")
    return ended(r)


def _panel(lanes: Lanes) -> str:
    """Factor the first panel."""
    r, matrix = _kernel("panel", lanes)
    places = matrix.places(matrix.panel, matrix.words["first"])
    r.do("@factor", *places, f"i64 {matrix.words['width']}")
    return ended(r)


def update_range(columns: int) -> int:
    """The range of `update` for so many columns: strips, and some numbers for the next panel."""
    return -(-columns // STRIP) + _PANEL_STRIPS


def _update(lanes: Lanes) -> str:
    """Apply a panel to the columns on its right, and factor the first of them as the next panel.

    The range begins with numbers that stand for the work on that panel. Whoever has the number
    zero updates all its columns, so it need not wait for others before it factors them.
    """
    r, matrix = _kernel("update", lanes)
    order, first = matrix.words["order"], matrix.words["first"]
    end = r.add(first, WIDTH)
    rest = r.subtract(order, end)
    width = r.select(r.compare("slt", rest, WIDTH), rest, WIDTH)

    def first_column(number: str) -> str:
        """The first column that belongs to numbers from this one on."""
        columns = r.multiply(r.subtract(number, _PANEL_STRIPS), STRIP)
        columns = r.select(r.compare("slt", columns, rest), columns, rest)
        columns = r.select(r.compare("sgt", columns, width), columns, width)
        return r.add(end, r.select(r.equal(number, 0), 0, columns))

    bounds = (f"i64 {first_column('%lo')}", f"i64 {first_column('%hi')}")
    r.do("@apply", *matrix.places(matrix.panel, first), *bounds)
    with r.when(r.equal("%lo", 0)):
        following = _place(r, matrix.words, "_next")
        r.do("@factor", *matrix.places(following, end), f"i64 {width}")
    return ended(r)


def _interchange(lanes: Lanes) -> str:
    """Repeat the interchanges of all later panels on some columns."""
    r, matrix = _kernel("interchange", lanes)
    with r.loop("%hi", "%lo") as column:
        panel = r.add(r.let(f"sdiv i64 {column}, {WIDTH}"), 1)
        since = r.multiply(panel, WIDTH)
        ends = (f"i64 {since}", f"i64 {matrix.words['order']}")
        r.do("@swap_rows", f"ptr {matrix.column(r, column)}", f"ptr {matrix.pivots}", *ends)
    return ended(r)
