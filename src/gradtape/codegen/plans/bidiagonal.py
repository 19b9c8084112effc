"""The reduction of one large matrix to bidiagonal form, as kernels, as LAPACK's `gebrd` leaves it.

The matrix has as many rows as columns or more. Reflectors from the left
and from the right make it zero below its diagonal and right of the next one, a column and a row at
a time. `WIDTH` columns are reduced as a panel while the columns on its right stay as they are: what
the reflectors would have changed is kept as the product of two narrow matrices `left` and `right`.

    left  = v0 x0 v1 x1 ...        reduced = matrix - left @ right.T
    right = y0 u0 y1 u1 ...

Column i takes four kernels. `column` makes the reflector v, `across` multiplies the columns on the
right by it, `row` corrects these products to y and makes the reflector u, and `down` multiplies the
matrix by u; the next `column` corrects that to x. `across` and `down` read the whole matrix, so
threads share them; the others read narrow matrices only. `update` subtracts the product at the end
of a panel, and `keep` writes the reflectors to their places in the result.

All of this works on a copy whose columns begin on cache lines and end in zeros, so every loop is
over whole vectors. Loops begin at a multiple of `step_of`, a little before the first element that
counts: reflectors are zero there, and nothing reads what else is computed there.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended
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
from gradtape.codegen.plans.reflectors import GROUP, reflectors_ir, step_of
from gradtape.codegen.routine import Word


class BidiagonalArguments(NamedTuple):
    """The words of all kernels. Offsets and lengths of columns are bytes."""

    slot_from: int
    offset_from: int
    slot_to: int
    offset_to: int
    slot_diagonal: int
    offset_diagonal: int
    slot_beside: int
    offset_beside: int
    # The scales of the reflectors from the left, and from the right.
    slot_tauq: int
    offset_tauq: int
    slot_taup: int
    offset_taup: int
    # The scratch memory: see `Scratch`.
    slot_work: int
    offset_work: int
    left: int
    right: int
    products: int
    line: int
    pairs: int
    leading: int
    breadth: int
    rows: int
    columns: int
    # The first column of the panel, and the column that is reduced.
    first: int
    column: int


class Scratch(NamedTuple):
    """Offsets in the scratch memory: the copy of the matrix lies first."""

    left: int
    right: int
    # What `across` and `down` compute, the row that is reduced, and factors of corrections.
    products: int
    line: int
    pairs: int
    leading: int
    breadth: int
    nbytes: int


def scratch_for(lanes: Lanes, rows: int, columns: int) -> Scratch:
    """The scratch memory of a matrix."""
    step = step_of(lanes)
    leading, breadth = bytes_apart(lanes, rows), bytes_apart(lanes, columns)
    left = leading * (-(-columns // step) * step)
    right = left + DEPTH * leading
    products = right + DEPTH * breadth
    row = products + max(leading, breadth)
    pairs = row + breadth
    return Scratch(
        left, right, products, row, pairs, leading, breadth, pairs + 2 * DEPTH * lanes.size
    )


def bidiagonal_ir(lanes: Lanes) -> str:
    """The module with the kernels `copy`, `column`, `across`, `row`, `down`, `update`, `keep`."""
    written = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        reflectors_ir(lanes), _copy(lanes), _column(lanes), _across(lanes), _row(lanes),
        _down(lanes), _close(lanes), tiles_ir(lanes, swapped=False), _update(lanes), _keep(lanes),
    ]  # fmt: skip
    return "\n".join(written)


class _Matrix(ReducedMatrix):
    """What all kernels read from their words."""

    def __init__(self, r: ElementRoutine) -> None:
        super().__init__(r, BidiagonalArguments._fields)
        self.right, self.line = self.inside("right"), self.inside("line")
        self.breadth = self.words["breadth"]

    def of_right(self, number: Word, row: Word) -> str:
        """The address of an element of `right`."""
        return self.r.element(self.r.at(self.right, self.r.multiply(self.breadth, number)), row)


def _kernel(name: str, lanes: Lanes) -> tuple[ElementRoutine, _Matrix]:
    r = ElementRoutine(kernel_routine(name).head, lanes)
    return r, _Matrix(r)


def _copy(lanes: Lanes) -> str:
    """Groups of columns of the matrix, whose rows lie one after the other, to the copy.

    The copy has zeros at the end of its columns, and on the right.
    """
    r, matrix = _kernel("copy", lanes)
    rows, columns = matrix.words["rows"], matrix.words["columns"]
    source = matrix.place("from")
    apart = r.multiply(columns, lanes.size)
    filled = r.multiply(rows, lanes.size)
    with r.loop("%hi", "%lo") as group:
        first = r.multiply(group, GROUP)
        start, target = r.element(source, first), matrix.at(first, 0)
        left = r.subtract(columns, first)
        inside = r.select(r.compare("slt", left, GROUP), left, GROUP)

        def moved(count: int, row: str, start: str = start, target: str = target) -> None:
            here = r.at(start, r.multiply(row, apart))
            to = r.element(target, row)
            for column in range(count):
                value = r.load(r.at(here, column * lanes.size), lanes.kind)
                r.store(value, r.at(to, r.multiply(column, matrix.leading)), lanes.kind)

        with r.when(r.equal(inside, GROUP)), r.loop(rows) as row:
            moved(GROUP, row)
        with r.when(r.unequal(inside, GROUP)), r.loop(inside) as column:
            here = r.element(start, column)
            to = r.at(target, r.multiply(column, matrix.leading))
            with r.loop(rows) as row:
                moved(1, row, here, to)
        with r.loop(GROUP) as column:
            begin = r.select(r.compare("slt", column, inside), filled, 0)
            to = r.at(r.at(target, r.multiply(column, matrix.leading)), begin)
            rest = r.subtract(matrix.leading, begin)
            r.do("@llvm.memset.p0.i64", f"ptr {to}", "i8 0", f"i64 {rest}", "i1 false")
    return ended(r)


def _gathered(r: ElementRoutine, pairs: str, first: str, apart: str, count: str) -> None:
    """The second numbers of pairs: elements that lie some bytes apart."""
    with r.loop(count) as index:
        value = r.load(r.at(first, r.multiply(index, apart)), r.lanes.kind)
        pair = r.at(pairs, r.multiply(index, 2 * r.lanes.size))
        r.store(value, r.at(pair, r.lanes.size), r.lanes.kind)


def _corrected_x(r: ElementRoutine, matrix: _Matrix, column: str, source: str, to: str) -> None:
    """Complete x of the column before this one, and reduce the elements at `source`."""
    kind = r.lanes.kind
    known = r.subtract(r.multiply(r.subtract(column, matrix.first), 2), 1)
    begin = matrix.begin(column)
    scale = r.load(matrix.scalar("taup", r.subtract(column, 1)), kind)
    _gathered(r, matrix.pairs, matrix.of_right(0, column), matrix.breadth, known)
    places = (r.element(matrix.products, begin), matrix.of_left(known, begin), source, to)
    r.do(
        "@combine", f"ptr {matrix.of_left(0, begin)}", f"i64 {matrix.leading}", f"i64 {known}",
        f"ptr {matrix.pairs}", f"{kind} {scale}", *(f"ptr {place}" for place in places),
        f"i64 {matrix.vectors(begin, 'rows')}",
    )  # fmt: skip


def _column(lanes: Lanes) -> str:
    """Complete x of the column before; reduce this column and make its reflector v."""
    r, matrix = _kernel("column", lanes)
    column, number = matrix.column, matrix.place_in_panel()
    begin = matrix.begin(column)
    vectors = matrix.vectors(begin, "rows")
    source, v = matrix.at(column, begin), matrix.of_left(number, begin)
    with r.when(r.equal(number, 0)):
        nbytes = r.multiply(vectors, lanes.bytes)
        r.do("@llvm.memcpy.p0.p0.i64", f"ptr {v}", f"ptr {source}", f"i64 {nbytes}", "i1 false")
    with r.when(r.unequal(number, 0)):
        _corrected_x(r, matrix, column, source, v)
    results = (matrix.scalar("diagonal", column), matrix.scalar("tauq", column))
    r.do(
        "@reflect", f"ptr {v}", f"i64 {r.subtract(column, begin)}", f"i64 {vectors}",
        *(f"ptr {place}" for place in results),
    )  # fmt: skip
    # The last column has no reflector from the right; before others, `row` replaces this.
    r.store("0.0", matrix.scalar("taup", column), lanes.kind)
    r.do(
        "@dots", f"ptr {matrix.of_left(0, begin)}", f"i64 {matrix.leading}", f"i64 {number}",
        f"ptr {v}", f"i64 {vectors}", f"ptr {matrix.pairs}",
    )  # fmt: skip
    return ended(r)


def _close(lanes: Lanes) -> str:
    """Complete the last x of a panel."""
    r, matrix = _kernel("close", lanes)
    following = r.add(matrix.column, 1)
    spare = r.element(matrix.products, matrix.begin(following))
    _corrected_x(r, matrix, following, spare, spare)
    return ended(r)


def _across(lanes: Lanes) -> str:
    """Multiply groups of columns by v, and take their elements of the row that is reduced."""
    r, matrix = _kernel("across", lanes)
    column = matrix.column
    begin = matrix.begin(column)
    vectors = matrix.vectors(begin, "rows")
    v = matrix.of_left(matrix.place_in_panel(), begin)
    start = matrix.begin(r.add(column, 1))
    with r.loop("%hi", "%lo") as group:
        first = r.add(start, r.multiply(group, GROUP))
        for number in range(GROUP):
            other = r.add(first, number)
            value = r.load(matrix.at(other, column), lanes.kind)
            r.store(value, r.element(matrix.line, other), lanes.kind)
        r.do(
            "@products", f"ptr {matrix.at(first, begin)}", f"i64 {matrix.leading}", f"ptr {v}",
            f"i64 {vectors}", f"ptr {r.element(matrix.products, first)}",
        )  # fmt: skip
    return ended(r)


def _row(lanes: Lanes) -> str:
    """Complete y; reduce the row and make its reflector u."""
    r, matrix = _kernel("row", lanes)
    column, number = matrix.column, matrix.place_in_panel()
    following = r.add(column, 1)
    begin = matrix.begin(following)
    vectors = matrix.vectors(begin, "columns")
    known = matrix.of_right(0, begin)
    scale = r.load(matrix.scalar("tauq", column), lanes.kind)
    _gathered(r, matrix.pairs, matrix.of_left(0, column), matrix.leading, number)
    y, u = matrix.of_right(number, begin), matrix.of_right(r.add(number, 1), begin)
    places = (r.element(matrix.products, begin), y, r.element(matrix.line, begin), u)
    r.do(
        "@combine", f"ptr {known}", f"i64 {matrix.breadth}", f"i64 {number}", f"ptr {matrix.pairs}",
        f"{lanes.kind} {scale}", *(f"ptr {place}" for place in places), f"i64 {vectors}",
    )  # fmt: skip
    results = (matrix.scalar("beside", column), matrix.scalar("taup", column))
    r.do(
        "@reflect", f"ptr {u}", f"i64 {r.subtract(following, begin)}", f"i64 {vectors}",
        *(f"ptr {place}" for place in results),
    )  # fmt: skip
    r.do(
        "@dots", f"ptr {known}", f"i64 {matrix.breadth}", f"i64 {r.add(number, 1)}", f"ptr {u}",
        f"i64 {vectors}", f"ptr {matrix.pairs}",
    )  # fmt: skip
    return ended(r)


def _down(lanes: Lanes) -> str:
    """Multiply some rows by u; the range counts vectors."""
    r, matrix = _kernel("down", lanes)
    following = r.add(matrix.column, 1)
    begin = matrix.begin(following)
    groups = r.multiply(matrix.vectors(begin, "columns"), lanes.per_vector)
    groups = r.let(f"sdiv i64 {groups}, {GROUP}")
    row = r.add(begin, r.multiply("%lo", lanes.per_vector))
    u = matrix.of_right(r.add(matrix.place_in_panel(), 1), begin)
    r.do(
        "@sums", f"ptr {matrix.at(begin, row)}", f"i64 {matrix.leading}", f"i64 {groups}",
        f"ptr {u}", f"ptr {r.element(matrix.products, row)}", f"i64 {r.subtract('%hi', '%lo')}",
    )  # fmt: skip
    return ended(r)


def _update(lanes: Lanes) -> str:
    """Subtract the product of `left` and `right` from strips of the columns right of the panel."""
    r, matrix = _kernel("update", lanes)
    end = r.add(matrix.first, WIDTH)
    vectors = matrix.vectors(end, "rows")
    tiles = r.let(f"sdiv i64 {vectors}, {BANDS}")

    def sweep(bands: int, since: str, count: str) -> None:
        """So many tiles below one another, for all strips."""
        row = r.add(end, r.multiply(since, lanes.per_vector))
        with r.loop("%hi", "%lo") as strip:
            column = r.add(end, r.multiply(strip, STRIP))
            c, right = matrix.at(column, row), matrix.of_right(0, column)
            left = matrix.of_left(0, row)
            with r.loop(count) as tile:
                below = r.multiply(tile, bands * lanes.bytes)
                pointers = (f"ptr {r.at(left, below)}", f"ptr {right}", f"ptr {r.at(c, below)}")
                strides = (f"i64 {matrix.leading}", f"i64 {matrix.breadth}")
                r.do(f"@tile{bands}", *pointers, *strides)

    with r.loop(r.let(f"sdiv i64 {r.add(tiles, TILES - 1)}, {TILES}")) as block:
        done = r.multiply(block, TILES)
        left = r.subtract(tiles, done)
        count = r.select(r.compare("slt", left, TILES), left, TILES)
        sweep(BANDS, r.multiply(done, BANDS), count)
    tall = r.multiply(tiles, BANDS)
    sweep(1, tall, r.subtract(vectors, tall))
    return ended(r)


def _keep(lanes: Lanes) -> str:
    """Write the reflectors of a panel to columns of the result: its own, and those on its right."""
    r, matrix = _kernel("keep", lanes)
    kind, first = lanes.kind, matrix.first
    rows = matrix.words["rows"]
    target, beside = matrix.place("to"), matrix.place("beside")
    end = r.add(first, WIDTH)
    with r.loop("%hi", "%lo") as number:
        column = r.add(first, number)
        to = r.at(target, r.multiply(r.multiply(rows, column), lanes.size))
        above = r.select(r.compare("slt", column, end), column, end)
        with r.loop(above, first) as row:
            of_row = r.add(r.multiply(r.subtract(row, first), 2), 1)
            r.store(r.load(matrix.of_right(of_row, column), kind), r.element(to, row), kind)
        last = r.subtract(above, 1)
        near = r.both(r.compare("sge", last, first), r.equal(r.add(last, 1), column))
        with r.when(near):
            r.store(r.load(r.element(beside, last), kind), r.element(to, last), kind)
        with r.when(r.compare("slt", column, end)):
            v = matrix.of_left(r.multiply(number, 2), r.add(column, 1))
            count = r.multiply(r.subtract(r.subtract(rows, column), 1), lanes.size)
            below = r.element(to, r.add(column, 1))
            r.do("@llvm.memcpy.p0.p0.i64", f"ptr {below}", f"ptr {v}", f"i64 {count}", "i1 false")
            diagonal = r.load(matrix.scalar("diagonal", column), kind)
            r.store(diagonal, r.element(to, column), kind)
    return ended(r)
