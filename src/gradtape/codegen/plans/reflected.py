"""The product of all reflectors of a tridiagonal form with vectors, as kernels.

`WIDTH` reflectors together are 1 - V T Vᵀ, with V their vectors as columns and T a triangle. The
kernel `pack` writes V, and Y = V T beside it, row after row. `apply` takes some vectors at a time
through all blocks, the last one first: C becomes C - Y (Vᵀ C). Vectors do not depend on one
another, so threads share them, and any number of threads gives the same bits.

Both products are tiles of a few rows and `VECTORS` vectors of sums in registers. Vectors that are
applied to lie side by side, as they do in the result: `apply` copies them from their rows.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended, in_pairs
from gradtape.codegen.plans.instructions import kernel_routine
from gradtape.codegen.routine import Word

# Reflectors of a block; a multiple of all lengths of vectors, and of rows of a tile.
WIDTH = 16
# Machine vectors of a strip, and strips that a block is applied to in turn.
VECTORS = 3
_STRIPS = 3


class ReflectedArguments(NamedTuple):
    """The words of both kernels. Offsets are bytes."""

    slot_reflectors: int
    offset_reflectors: int
    slot_tau: int
    offset_tau: int
    slot_from: int
    offset_from: int
    slot_to: int
    offset_to: int
    # The scratch memory: see `Scratch`. Blocks lie first.
    slot_work: int
    offset_work: int
    scaled: int
    squares: int
    strips: int
    sums: int
    # Rows of the blocks, of which those past the order are zero.
    rows: int
    order: int


class Scratch(NamedTuple):
    """Offsets in the scratch memory, and the number of rows of a strip."""

    # Y of all blocks, three square matrices for each block, strips, and Vᵀ C for each strip.
    scaled: int
    squares: int
    strips: int
    sums: int
    rows: int
    nbytes: int


def strip_of(lanes: Lanes) -> int:
    """Vectors that a strip has side by side."""
    return VECTORS * lanes.per_vector


def blocks_of(order: int) -> int:
    """How many blocks the reflectors are."""
    return -(-(order - 1) // WIDTH)


def scratch_for(lanes: Lanes, order: int) -> Scratch:
    """The scratch memory for a matrix."""
    tall = _rows_of(lanes)
    rows = -(-order // tall) * tall
    blocks, strips = blocks_of(order), -(-order // strip_of(lanes))
    scaled = lanes.size * WIDTH * (blocks * rows - WIDTH * blocks * (blocks - 1) // 2)
    squares = 2 * scaled
    first_strip = squares + blocks * 3 * WIDTH * WIDTH * lanes.size
    sums = first_strip + strips * rows * strip_of(lanes) * lanes.size
    nbytes = sums + strips * WIDTH * strip_of(lanes) * lanes.size
    return Scratch(scaled, squares, first_strip, sums, rows, nbytes)


def reflected_ir(lanes: Lanes) -> str:
    """The module with the kernels `pack` and `apply`."""
    vector, suffix = lanes.vector, f"v{lanes.per_vector}f{8 * lanes.size}"
    written = [
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})",
        _combination(lanes), _pack(lanes), _projected(lanes), _subtracted(lanes), _apply(lanes),
    ]  # fmt: skip
    return "\n".join(written)


def _rows_of(lanes: Lanes) -> int:
    """Rows of a tile whose sums the registers hold: processors with long vectors have more."""
    return 8 if lanes.bytes == 64 else 4


class _Blocks:
    """What both kernels read from their words."""

    def __init__(self, r: ElementRoutine) -> None:
        self.r = r
        self.words = r.words("%args", ReflectedArguments._fields)
        self.work, self.source, self.target, self.tau, self.reflectors = (
            self.place(name) for name in ("work", "from", "to", "tau", "reflectors")
        )
        self.order, self.rows = self.words["order"], self.words["rows"]

    def place(self, name: str) -> str:
        slot = self.r.pointer("%slots", self.r.scaled(self.words[f"slot_{name}"]))
        return self.r.at(slot, self.words[f"offset_{name}"])

    def part(self, name: str, number: str, size: Word) -> str:
        """The address of one of some parts of equal size of the scratch memory."""
        base = self.r.at(self.work, self.words[name])
        return self.r.at(base, self.r.multiply(number, size))

    def block(self, number: str) -> tuple[str, str, str]:
        """The addresses of V and Y of a block, and how many rows they have."""
        r = self.r
        row = WIDTH * r.lanes.size
        first = r.multiply(number, WIDTH)
        earlier = r.multiply(number, r.subtract(number, 1))
        missing = r.multiply(earlier, WIDTH // 2)
        before = r.multiply(r.subtract(r.multiply(number, self.rows), missing), row)
        v = r.at(self.work, before)
        return v, r.at(v, self.words["scaled"]), r.subtract(self.rows, first)

    def count(self) -> str:
        """How many blocks there are."""
        return self.r.let(f"sdiv i64 {self.r.add(self.order, WIDTH - 2)}, {WIDTH}")


def _kernel(name: str, lanes: Lanes) -> tuple[ElementRoutine, _Blocks]:
    r = ElementRoutine(kernel_routine(name).head, lanes)
    return r, _Blocks(r)


def _combination(lanes: Lanes) -> str:
    """A sum of rows of `WIDTH` elements, each times a number."""
    r = ElementRoutine(
        "internal void @combination(ptr %x, ptr %factors, i64 %apart, i64 %count, ptr %to)",
        lanes,
    )
    vector = lanes.vector
    offsets = range(0, WIDTH * lanes.size, lanes.bytes)
    with r.fold("%count", vector, ["zeroinitializer"] * len(offsets)) as fold:
        row = r.at("%x", r.multiply(fold.index, WIDTH * lanes.size))
        place = r.at("%factors", r.multiply(fold.index, "%apart"))
        factor = r.spread(r.load(place, lanes.kind), vector)
        fold.values = [
            r.intrinsic("fmuladd", vector, r.load(r.at(row, offset), vector), factor, total)
            for offset, total in zip(offsets, fold.values, strict=True)
        ]
    for offset, total in zip(offsets, fold.values, strict=True):
        r.store(total, r.at("%to", offset), vector)
    return ended(r)


def _pack(lanes: Lanes) -> str:
    """Write V and Y of pairs of blocks, which take equally long.

    A reflector whose scale is zero is left out: it changes nothing, and may not be finite.
    """
    r, blocks = _kernel("pack", lanes)
    kind, size = lanes.kind, lanes.size
    square, row_bytes = WIDTH * WIDTH * size, WIDTH * size

    def combined(x: str, factors: str, apart: Word, count: Word, to: str) -> None:
        numbers = (f"i64 {apart}", f"i64 {count}")
        r.do("@combination", f"ptr {x}", f"ptr {factors}", *numbers, f"ptr {to}")

    def scale_of(place: str, by: str) -> None:
        for offset in range(0, row_bytes, lanes.bytes):
            value = r.load(r.at(place, offset), lanes.vector)
            scaled = r.let(f"fmul {lanes.vector} {value}, {r.spread(by, lanes.vector)}")
            r.store(scaled, r.at(place, offset), lanes.vector)

    def block(number: str) -> None:
        v, y, rows = blocks.block(number)
        first = r.multiply(number, WIDTH)
        nbytes = r.multiply(rows, row_bytes)
        r.do("@llvm.memset.p0.i64", f"ptr {v}", "i8 0", f"i64 {nbytes}", "i1 false")
        gram = blocks.part("squares", number, 3 * square)
        columns, triangle = r.at(gram, square), r.at(gram, 2 * square)
        r.do("@llvm.memset.p0.i64", f"ptr {columns}", "i8 0", f"i64 {2 * square}", "i1 false")
        past = r.subtract(blocks.order, 1)
        over = r.subtract(past, first)
        count = r.select(r.compare("slt", over, WIDTH), over, WIDTH)
        with r.loop(count) as step:
            column = r.add(first, step)
            scale = r.load(r.element(blocks.tau, column), kind)
            with r.when(r.let(f"fcmp une {kind} {scale}, 0.0")):
                start = r.element(v, step)
                head = r.at(start, r.multiply(r.add(step, 1), row_bytes))
                r.store("1.0", head, kind)
                line = r.multiply(r.multiply(blocks.order, column), size)
                source = r.at(blocks.reflectors, line)
                with r.loop(blocks.order, r.add(column, 2)) as row:
                    to = r.at(start, r.multiply(r.subtract(row, first), row_bytes))
                    r.store(r.load(r.element(source, row), kind), to, kind)
        # With T_k the columns before k, those of V and of T: t_k = -tau_k T_k V_kᵀ v_k.
        with r.loop(count) as step:
            line = r.at(gram, r.multiply(step, row_bytes))
            combined(v, r.element(v, step), row_bytes, rows, line)
            here = r.at(columns, r.multiply(step, row_bytes))
            combined(columns, line, size, step, here)
            scale = r.load(r.element(blocks.tau, r.add(first, step)), kind)
            scale_of(here, r.let(f"fneg {kind} {scale}"))
            r.store(scale, r.element(here, step), kind)
            with r.loop(r.add(step, 1)) as row:
                to = r.element(r.at(triangle, r.multiply(row, row_bytes)), step)
                r.store(r.load(r.element(here, row), kind), to, kind)
        with r.loop(rows) as row:
            offset = r.multiply(row, row_bytes)
            combined(triangle, r.at(v, offset), size, WIDTH, r.at(y, offset))

    in_pairs(r, blocks.count(), block)
    return ended(r)


def _tile_sums(r: ElementRoutine, count: Word, apart: int, along: int, x: str) -> list[str]:
    """Sums over rows of a strip at `x`: each of some lines times the same row.

    The factors at `%factors` are `apart` bytes from line to line, and `along` from row to row.
    """
    lanes, vector, tall = r.lanes, r.lanes.vector, _rows_of(r.lanes)
    width = strip_of(lanes) * lanes.size
    with r.fold(count, vector, ["zeroinitializer"] * (tall * VECTORS)) as fold:
        row = r.at(x, r.multiply(fold.index, width))
        values = [r.load(r.at(row, each * lanes.bytes), vector) for each in range(VECTORS)]
        start = r.at("%factors", r.multiply(fold.index, along))
        found: list[str] = []
        for line in range(tall):
            factor = r.spread(r.load(r.at(start, line * apart), lanes.kind), vector)
            for each, value in enumerate(values):
                total = fold.values[line * VECTORS + each]
                found.append(r.intrinsic("fmuladd", vector, value, factor, total))
        fold.values = found
    return list(fold.values)


def _stored(r: ElementRoutine, to: str, sums: list[str], subtract: bool) -> None:
    """Write the sums of a tile to lines of a strip, or subtract them."""
    lanes, vector = r.lanes, r.lanes.vector
    for number, total in enumerate(sums):
        place = r.at(to, number * lanes.bytes)
        if subtract:
            total = r.let(f"fsub {vector} {r.load(place, vector)}, {total}")
        r.store(total, place, vector)


def _projected(lanes: Lanes) -> str:
    """Some rows of Vᵀ C: the factors are a few columns of V."""
    r = ElementRoutine(
        "internal void @projected(ptr noalias %factors, ptr noalias %x, i64 %rows, "
        "ptr noalias %to)",
        lanes,
    )
    _stored(r, "%to", _tile_sums(r, "%rows", lanes.size, WIDTH * lanes.size, "%x"), False)
    return ended(r)


def _subtracted(lanes: Lanes) -> str:
    """Subtract some rows of Y (Vᵀ C) from C: the factors are a few rows of Y."""
    r = ElementRoutine(
        "internal void @subtracted(ptr noalias %factors, ptr noalias %x, ptr noalias %to)", lanes
    )
    _stored(r, "%to", _tile_sums(r, WIDTH, WIDTH * lanes.size, lanes.size, "%x"), True)
    return ended(r)


def _apply(lanes: Lanes) -> str:
    """Take strips of vectors through all blocks; the range counts strips."""
    r, blocks = _kernel("apply", lanes)
    size, tall, wide = lanes.size, _rows_of(lanes), strip_of(lanes)
    line = wide * size
    strip_bytes = r.multiply(blocks.rows, line)

    def inside(strip: str) -> tuple[str, str]:
        """The first vector of a strip, and how many it has."""
        first = r.multiply(strip, wide)
        left = r.subtract(blocks.order, first)
        return first, r.select(r.compare("slt", left, wide), left, wide)

    def filled(strip: str) -> None:
        place = blocks.part("strips", strip, strip_bytes)
        first, count = inside(strip)
        r.do("@llvm.memset.p0.i64", f"ptr {place}", "i8 0", f"i64 {strip_bytes}", "i1 false")
        with r.loop(count) as number:
            offset = r.multiply(r.multiply(r.add(first, number), blocks.order), size)
            source, to = r.at(blocks.source, offset), r.element(place, number)
            with r.loop(blocks.order) as row:
                value = r.load(r.element(source, row), lanes.kind)
                r.store(value, r.at(to, r.multiply(row, line)), lanes.kind)

    def reflected(strip: str, v: str, y: str, rows: str) -> None:
        sums = blocks.part("sums", strip, WIDTH * line)
        start = r.multiply(r.subtract(blocks.rows, rows), line)
        place = r.at(blocks.part("strips", strip, strip_bytes), start)
        for column in range(0, WIDTH, tall):
            factors, to = r.at(v, column * size), r.at(sums, column * line)
            r.do("@projected", f"ptr {factors}", f"ptr {place}", f"i64 {rows}", f"ptr {to}")
        with r.loop(r.let(f"sdiv i64 {rows}, {tall}")) as number:
            factors = r.at(y, r.multiply(number, tall * WIDTH * size))
            to = r.at(place, r.multiply(number, tall * line))
            r.do("@subtracted", f"ptr {factors}", f"ptr {sums}", f"ptr {to}")

    def written(strip: str) -> None:
        place = blocks.part("strips", strip, strip_bytes)
        first, count = inside(strip)
        whole = r.equal(count, wide)

        def rows(copy: bool) -> None:
            with r.loop(blocks.order) as row:
                offset = r.multiply(r.multiply(row, blocks.order), size)
                to = r.element(r.at(blocks.target, offset), first)
                source = r.at(place, r.multiply(row, line))
                if copy:
                    for each in range(0, line, lanes.bytes):
                        value = r.load(r.at(source, each), lanes.vector)
                        r.store(value, r.at(to, each), lanes.vector)
                else:
                    with r.loop(count) as number:
                        value = r.load(r.element(source, number), lanes.kind)
                        r.store(value, r.element(to, number), lanes.kind)

        with r.when(whole):
            rows(True)
        with r.when(r.negated(whole)):
            rows(False)

    count = blocks.count()
    many = r.add(r.subtract("%hi", "%lo"), _STRIPS - 1)
    with r.loop(r.let(f"sdiv i64 {many}, {_STRIPS}")) as turn:
        since = r.add("%lo", r.multiply(turn, _STRIPS))
        until = r.add(since, _STRIPS)
        until = r.select(r.compare("slt", until, "%hi"), until, "%hi")
        with r.loop(until, since) as strip:
            filled(strip)
        with r.loop(count) as number:
            v, y, rows = blocks.block(r.subtract(r.subtract(count, 1), number))
            with r.loop(until, since) as strip:
                reflected(strip, v, y, rows)
        with r.loop(until, since) as strip:
            written(strip)
    return ended(r)
