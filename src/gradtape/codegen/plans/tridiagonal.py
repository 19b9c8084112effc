"""The reduction of one large symmetric matrix to tridiagonal form, as kernels.

Reflectors from both sides make the matrix zero below the diagonal beside its own, a column at a
time; the results are those of LAPACK's `sytrd` for the lower triangle. `WIDTH` columns are reduced
as a panel while the rest stays as it is: what the reflectors v would have changed is kept as the
product of two narrow matrices, which have the same columns in different order.

    left  = v0 w0 v1 w1 ...        reduced = matrix - left @ right.T
    right = w0 v0 w1 v1 ...

Column i takes two kernels. `column` completes w of the column before, reduces this column and makes
its reflector v; `product` multiplies the rest of the matrix by v. `close` completes the last w of a
panel, `update` subtracts the product of the narrow matrices, and `keep` writes the reflectors to
their places in the result.

Only blocks on the diagonal and below it are stored: `product` reads an element once and counts it
for its own row and for its mirror image's. The columns are dealt to slices, whose sums have memory
of their own; how many slices there are depends on the order alone, so any number of threads gives
the same bits. See `reduction` for the copy that all of this works on.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended, in_pairs
from gradtape.codegen.plans.instructions import kernel_routine
from gradtape.codegen.plans.reduction import (
    BANDS,
    DEPTH,
    STRIP,
    TILES,
    WIDTH,
    ReducedMatrix,
    bytes_apart,
    tiles_ir,
)
from gradtape.codegen.plans.reflectors import GROUP, reflectors_ir, step_of, symmetric_product_ir
from gradtape.codegen.routine import Word

# Sums of `product` that have memory of their own, at most.
SLICES = 8


class TridiagonalArguments(NamedTuple):
    """The words of all kernels. Offsets and lengths of columns are bytes."""

    slot_from: int
    offset_from: int
    slot_to: int
    offset_to: int
    slot_diagonal: int
    offset_diagonal: int
    slot_beside: int
    offset_beside: int
    # The scales of the reflectors.
    slot_tau: int
    offset_tau: int
    # The scratch memory: see `Scratch`.
    slot_work: int
    offset_work: int
    left: int
    products: int
    pairs: int
    leading: int
    order: int
    # The first column of the panel, and the column that is reduced.
    first: int
    column: int
    # The slices of the product: of this column in `product`, else of the column before.
    slices: int


class Scratch(NamedTuple):
    """Offsets in the scratch memory: the copy of the matrix lies first."""

    left: int
    # The sums of `product`, a column for each slice, and factors of corrections.
    products: int
    pairs: int
    leading: int
    nbytes: int


def scratch_for(lanes: Lanes, order: int) -> Scratch:
    """The scratch memory of a matrix."""
    step = step_of(lanes)
    leading = bytes_apart(lanes, order)
    left = leading * (-(-order // step) * step)
    products = left + DEPTH * leading
    pairs = products + SLICES * leading
    return Scratch(left, products, pairs, leading, pairs + 2 * DEPTH * lanes.size)


def tridiagonal_ir(lanes: Lanes) -> str:
    """The module with the kernels `copy`, `column`, `product`, `close`, `update` and `keep`."""
    written = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        reflectors_ir(lanes), symmetric_product_ir(lanes), _halved(lanes), _copy(lanes),
        _column(lanes), _product(lanes), _close(lanes), tiles_ir(lanes, swapped=True),
        _update(lanes), _keep(lanes),
    ]  # fmt: skip
    return "\n".join(written)


def _kernel(name: str, lanes: Lanes) -> tuple[ElementRoutine, ReducedMatrix]:
    r = ElementRoutine(kernel_routine(name).head, lanes)
    return r, ReducedMatrix(r, TridiagonalArguments._fields)


def _cleared(r: ElementRoutine, place: str, nbytes: Word) -> None:
    r.do("@llvm.memset.p0.i64", f"ptr {place}", "i8 0", f"i64 {nbytes}", "i1 false")


def _halved(lanes: Lanes) -> str:
    """Write half the sum of some columns and of as many rows."""
    r = ElementRoutine(
        "internal void @halved(ptr %across, ptr %down, ptr %to, i64 %apart, i64 %leading, "
        "i64 %rows, i64 %columns)",
        lanes,
    )
    kind = lanes.kind

    def moved(row: str, column: Word) -> None:
        across = r.element(r.at("%across", r.multiply(row, "%apart")), column)
        down = r.element(r.at("%down", r.multiply("%apart", column)), row)
        total = r.let(f"fadd {kind} {r.load(across, kind)}, {r.load(down, kind)}")
        to = r.element(r.at("%to", r.multiply("%leading", column)), row)
        r.store(r.let(f"fmul {kind} {total}, 0.5"), to, kind)

    whole = r.equal("%columns", GROUP)
    with r.when(whole), r.loop("%rows") as row:
        for number in range(GROUP):
            moved(row, number)
    with r.when(r.negated(whole)), r.loop("%columns") as column, r.loop("%rows") as row:
        moved(row, column)
    return ended(r)


def _copy(lanes: Lanes) -> str:
    """Groups of columns of the symmetric part to the copy; those of each pair take equally long.

    Columns begin with the block on the diagonal. The copy has zeros at the end of its columns, and
    on the right.
    """
    r, matrix = _kernel("copy", lanes)
    order, source = matrix.words["order"], matrix.place("from")
    apart = r.multiply(order, lanes.size)
    step = step_of(lanes)
    over = r.let(f"and i64 {r.add(order, step - 1)}, {-step}")

    def group(number: str) -> None:
        first = r.multiply(number, GROUP)
        begin = matrix.begin(first)
        left = r.subtract(order, first)
        inside = r.select(r.compare("slt", left, GROUP), left, GROUP)
        inside = r.select(r.compare("slt", inside, 0), 0, inside)
        rows = r.subtract(order, begin)
        across = r.element(r.at(source, r.multiply(apart, begin)), first)
        down = r.element(r.at(source, r.multiply(apart, first)), begin)
        target = matrix.at(first, begin)
        r.do(
            "@halved", *(f"ptr {place}" for place in (across, down, target)),
            *(f"i64 {word}" for word in (apart, matrix.leading, rows, inside)),
        )  # fmt: skip
        filled = r.multiply(rows, lanes.size)
        most = r.subtract(matrix.leading, r.multiply(begin, lanes.size))
        with r.loop(GROUP) as column:
            done = r.select(r.compare("slt", column, inside), filled, 0)
            to = r.at(target, r.multiply(column, matrix.leading))
            _cleared(r, r.at(to, done), r.subtract(most, done))

    in_pairs(r, r.let(f"sdiv i64 {over}, {GROUP}"), group)
    return ended(r)


def _completed(r: ElementRoutine, matrix: ReducedMatrix, column: str, source: str, to: str) -> None:
    """Complete w of the column before this one, and reduce the elements at `source`.

    With p the product of that column, w = tau (p - left coefficients) - tau q v, where q makes the
    update symmetric. `combine` reads the coefficients, and those that reduce this column, as pairs.
    """
    kind, vector, size = r.lanes.kind, r.lanes.vector, r.lanes.size
    before = r.subtract(column, 1)
    count = r.subtract(before, matrix.first)
    number = r.multiply(count, 2)
    begin = matrix.begin(column)
    vectors = matrix.vectors(begin, "order")
    tau = r.load(matrix.scalar("tau", before), kind)
    product, v = r.element(matrix.products, begin), matrix.of_left(number, begin)
    with r.loop(matrix.words["slices"], 1) as slice_number:
        more = r.at(product, r.multiply(matrix.leading, slice_number))
        with r.loop(vectors) as step:
            here = r.multiply(step, r.lanes.bytes)
            x, y = (r.load(r.at(place, here), vector) for place in (product, more))
            r.store(r.let(f"fadd {vector} {x}, {y}"), r.at(product, here), vector)
    spare = r.element(matrix.pairs, 2 * (DEPTH - 1))
    r.do("@one", f"ptr {product}", "i64 0", f"ptr {v}", f"i64 {vectors}", f"ptr {spare}")
    with r.fold(count, kind, ["0.0", "0.0"]) as fold:
        pair = r.at(matrix.pairs, r.multiply(fold.index, 4 * size))
        twice = r.multiply(fold.index, 2)
        with_v, with_w = r.load(pair, kind), r.load(r.at(pair, 2 * size), kind)
        v_here = r.load(matrix.of_left(twice, column), kind)
        w_here = r.load(matrix.of_left(r.add(twice, 1), column), kind)
        for offset, value in enumerate((with_w, w_here, with_v, v_here)):
            r.store(value, r.at(pair, offset * size), kind)
        both, near = fold.values
        near = r.intrinsic("fmuladd", kind, with_w, v_here, near)
        fold.values = [
            r.intrinsic("fmuladd", kind, with_v, with_w, both),
            r.intrinsic("fmuladd", kind, with_v, w_here, near),
        ]
    both, near = fold.values
    half = r.let(f"fmul {kind} {r.load(spare, kind)}, 0.5")
    q = r.let(f"fmul {kind} {tau}, {r.let(f'fsub {kind} {half}, {both}')}")
    here = r.load(r.element(matrix.products, column), kind)
    rest = r.let(f"fsub {kind} {r.let(f'fsub {kind} {here}, {near}')}, {q}")
    pair = r.at(matrix.pairs, r.multiply(count, 4 * size))
    r.store(q, pair, kind)
    r.store(r.let(f"fmul {kind} {tau}, {rest}"), r.at(pair, size), kind)
    known = r.add(number, 1)
    places = (product, matrix.of_left(known, begin), source, to)
    r.do(
        "@combine", f"ptr {matrix.of_left(0, begin)}", f"i64 {matrix.leading}", f"i64 {known}",
        f"ptr {matrix.pairs}", f"{kind} {tau}", *(f"ptr {place}" for place in places),
        f"i64 {vectors}",
    )  # fmt: skip


def _column(lanes: Lanes) -> str:
    """Complete w of the column before; reduce this column and make its reflector v."""
    r, matrix = _kernel("column", lanes)
    kind, column, number = lanes.kind, matrix.column, matrix.place_in_panel()
    begin = matrix.begin(column)
    source, to = matrix.at(column, begin), matrix.of_left(number, begin)
    with r.when(r.equal(number, 0)):
        nbytes = r.multiply(matrix.vectors(begin, "order"), lanes.bytes)
        r.do("@llvm.memcpy.p0.p0.i64", f"ptr {to}", f"ptr {source}", f"i64 {nbytes}", "i1 false")
    with r.when(r.unequal(number, 0)):
        _completed(r, matrix, column, source, to)
    reduced = r.load(matrix.of_left(number, column), kind)
    r.store(reduced, matrix.scalar("diagonal", column), kind)
    following = r.add(column, 1)
    with r.when(r.compare("slt", following, matrix.words["order"])):
        begin = matrix.begin(following)
        vectors = matrix.vectors(begin, "order")
        v = matrix.of_left(number, begin)
        results = (matrix.scalar("beside", column), matrix.scalar("tau", column))
        r.do(
            "@reflect", f"ptr {v}", f"i64 {r.subtract(following, begin)}", f"i64 {vectors}",
            *(f"ptr {place}" for place in results),
        )  # fmt: skip
        r.do(
            "@dots", f"ptr {matrix.of_left(0, begin)}", f"i64 {matrix.leading}", f"i64 {number}",
            f"ptr {v}", f"i64 {vectors}", f"ptr {matrix.pairs}",
        )  # fmt: skip
    return ended(r)


def _close(lanes: Lanes) -> str:
    """Complete the last w of a panel."""
    r, matrix = _kernel("close", lanes)
    following = r.add(matrix.column, 1)
    spare = r.element(matrix.products, matrix.begin(following))
    _completed(r, matrix, following, spare, spare)
    return ended(r)


def _product(lanes: Lanes) -> str:
    """Multiply slices of the rest of the matrix by v: every so many blocks of columns."""
    r, matrix = _kernel("product", lanes)
    step = step_of(lanes)
    begin = matrix.begin(r.add(matrix.column, 1))
    vectors = matrix.vectors(begin, "order")
    per_block = step // lanes.per_vector
    blocks = r.let(f"sdiv i64 {vectors}, {per_block}")
    slices = matrix.words["slices"]
    with r.loop("%hi", "%lo") as number:
        total = r.at(matrix.products, r.multiply(matrix.leading, number))
        _cleared(r, r.element(total, begin), r.multiply(vectors, lanes.bytes))
        left = r.add(r.subtract(blocks, number), r.subtract(slices, 1))
        with r.loop(r.let(f"sdiv i64 {left}, {slices}")) as turn:
            block = r.add(number, r.multiply(turn, slices))
            column = r.add(begin, r.multiply(block, step))
            below = r.subtract(vectors, r.multiply(r.add(block, 1), per_block))
            v = matrix.of_left(matrix.place_in_panel(), column)
            r.do(
                "@symmetric", f"ptr {matrix.at(column, column)}", f"i64 {matrix.leading}",
                f"ptr {v}", f"i64 {below}", f"ptr {r.element(total, column)}",
            )  # fmt: skip
    return ended(r)


def _update(lanes: Lanes) -> str:
    """Subtract the narrow product from pairs of strips of columns, one long and one short."""
    r, matrix = _kernel("update", lanes)
    end = r.add(matrix.first, WIDTH)
    vectors = matrix.vectors(end, "order")
    strips = r.let(f"sdiv i64 {r.multiply(vectors, lanes.per_vector)}, {STRIP}")
    tiles = r.let(f"sdiv i64 {vectors}, {BANDS}")

    def strip(number: str, bands: int, since: str, until: str) -> None:
        """Tiles of a strip, but not those above the block on the diagonal."""
        column = r.add(end, r.multiply(number, STRIP))
        above = r.subtract(matrix.begin(column), end)
        above = r.let(f"sdiv i64 {above}, {bands * lanes.per_vector}")
        begin = r.select(r.compare("sgt", above, since), above, since)
        c, right, left = matrix.at(column, end), matrix.of_left(0, column), matrix.of_left(0, end)
        with r.loop(until, begin) as tile:
            below = r.multiply(tile, bands * lanes.bytes)
            pointers = (f"ptr {r.at(left, below)}", f"ptr {right}", f"ptr {r.at(c, below)}")
            r.do(f"@tile{bands}", *pointers, *[f"i64 {matrix.leading}"] * 2)

    def sweep(bands: int, since: str, until: str) -> None:
        in_pairs(r, strips, lambda number: strip(number, bands, since, until))

    with r.loop(r.let(f"sdiv i64 {r.add(tiles, TILES - 1)}, {TILES}")) as block:
        since = r.multiply(block, TILES)
        until = r.add(since, TILES)
        sweep(BANDS, since, r.select(r.compare("slt", until, tiles), until, tiles))
    sweep(1, r.multiply(tiles, BANDS), vectors)
    return ended(r)


def _keep(lanes: Lanes) -> str:
    """Write columns of a panel to the result: zeros, the form, and the rest of the reflector."""
    r, matrix = _kernel("keep", lanes)
    kind, order = lanes.kind, matrix.words["order"]
    target = matrix.place("to")
    with r.loop("%hi", "%lo") as number:
        column = r.add(matrix.first, number)
        following = r.add(column, 1)
        to = r.at(target, r.multiply(r.multiply(order, column), lanes.size))
        _cleared(r, to, r.multiply(column, lanes.size))
        place = r.element(to, column)
        r.store(r.load(matrix.scalar("diagonal", column), kind), place, kind)
        with r.when(r.compare("slt", following, order)):
            beside = r.load(matrix.scalar("beside", column), kind)
            r.store(beside, r.at(place, lanes.size), kind)
            v = matrix.of_left(r.multiply(number, 2), r.add(column, 2))
            nbytes = r.multiply(r.subtract(r.subtract(order, column), 2), lanes.size)
            below = r.at(place, 2 * lanes.size)
            r.do("@llvm.memcpy.p0.p0.i64", f"ptr {below}", f"ptr {v}", f"i64 {nbytes}", "i1 false")
    return ended(r)
