"""LU factors of one large matrix, and its inverse, by blocks of columns that threads share.

LAPACK factors a panel of columns; then each thread brings some of the columns to the right up to
date by BLAS. Of an inverse, each thread computes some blocks of columns. The library itself runs on
one thread: its own threads wait busily, and where other processes use the processors too, they take
several times as long as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gradtape.compiler.emit.library.lapack import fail_if_singular
from gradtape.compiler.emit.library.lapack_routine import LapackRoutine
from gradtape.compiler.emit.library.shared_work import write_shared
from gradtape.compiler.emit.library.triangles import RightDivision
from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.config import LARGE_FACTOR_GRAIN

# The words of the memory that the threads read, in which a panel is described.
_CONTEXT = (
    "matrix",
    "pivots",
    "n",
    "first",
    "count",
    "height",
    "below",
    "first pivot",
    "last pivot",
    "one",
)
_AT = {name: 8 * index for index, name in enumerate(_CONTEXT)}


def factor_large_lu(letter: str) -> str:
    """LU factors in column-major memory, and pivots, which count from 1."""
    words = ["n", "block", "narrow", "team"]
    w = LapackRoutine("factor_large_lu", letter, ["x"], ["factors", "pivots"], words)
    r, n, block = w.r, w.words["n"], w.words["block"]
    team = r.cast("inttoptr", w.words["team"], "ptr")
    x, factors, pivots = (w.of_item(name, 0) for name in ("x", "factors", "pivots"))
    small = pivots if w.integer == "i64" else w.area("narrow")
    context = r.alloca(count=len(_CONTEXT))
    at = {name: r.at(context, offset) for name, offset in _AT.items()}
    for name, pointer in (("matrix", factors), ("pivots", small)):
        r.put_pointer(at[name], 0, pointer)
    r.put(at["n"], 0, n)
    r.put(at["one"], 0, 1)
    w.transpose(x, factors, n, n)
    with r.loop(n, step=block) as first:
        height = r.subtract(n, first)
        count = r.least(block, height)
        last = r.add(first, count)
        below = r.subtract(height, count)
        for name, value in {
            "first": first,
            "count": count,
            "height": height,
            "below": below,
            "first pivot": r.add(first, 1),
            "last pivot": last,
        }.items():
            r.put(at[name], 0, value)
        corner = w.element(factors, r.multiply(first, r.add(n, 1)))
        found = _pivot(w, small, first)
        w.lapack("getrf", at["height"], at["count"], corner, at["n"], found, checked=False)
        with r.loop(count) as i:
            place = _pivot(w, small, r.add(first, i))
            shift = first if w.integer == "i64" else r.cast("trunc", first, "i32")
            r.store(r.add(r.load(w.integer, place), shift), place)
        write_shared(r, team, "@update", context, below, LARGE_FACTOR_GRAIN)
        # Rows of the columns to the left are exchanged too.
        write_shared(r, team, "@exchange", context, first, 4 * LARGE_FACTOR_GRAIN)
    w.widen_pivots(small, pivots, n)
    _write_update(w)
    _write_exchange(w)
    return w.text()


def _pivot(w: LapackRoutine, pivots: str, index: str) -> str:
    return w.r.item(w.integer, pivots, index)


@contextmanager
def _kernel(w: LapackRoutine, name: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """A kernel of the module on some columns: the words of the context, and their addresses."""
    outer, w.r = w.r, kernel_routine(name)
    w.functions[name] = r = w.r
    r.head = f"internal {r.head}"
    at: dict[str, str] = {each: r.at("%slots", offset) for each, offset in _AT.items()}
    pointers = {"matrix", "pivots"}
    of = {each: (r.pointer if each in pointers else r.word)(place) for each, place in at.items()}
    at["columns"] = w.stored(r.subtract("%hi", "%lo"))
    with r.when(r.compare("slt", "%lo", "%hi")):
        yield of, at
    w.r = outer


def _swap_rows(w: LapackRoutine, of: Mapping[str, str], at: Mapping[str, str], column: str) -> None:
    pivots = (at["first pivot"], at["last pivot"], of["pivots"], at["one"])
    w.blas("laswp", at["columns"], column, at["n"], *pivots)


def _write_exchange(w: LapackRoutine) -> None:
    with _kernel(w, "exchange") as (of, at):
        _swap_rows(w, of, at, w.element(of["matrix"], w.r.multiply("%lo", of["n"])))


def _write_update(w: LapackRoutine) -> None:
    with _kernel(w, "update") as (of, at):
        r, n = w.r, of["n"]
        after = r.add(of["first"], of["count"])
        column = w.element(of["matrix"], r.multiply(r.add(after, "%lo"), n))
        _swap_rows(w, of, at, column)
        corner = w.element(of["matrix"], r.multiply(of["first"], r.add(n, 1)))
        top, rest = w.element(column, of["first"]), w.element(column, after)
        panel = w.element(corner, of["count"])
        lead, columns = at["n"], at["columns"]
        system = (at["count"], columns, w.one(), corner, lead, top, lead)
        w.blas("trsm", "L", "L", "N", "U", *system)
        factors = (w.one("-1.0"), panel, lead, top, lead, w.one(), rest, lead)
        w.blas("gemm", "N", "N", at["below"], columns, at["count"], *factors)


def invert_large_by_lu(letter: str) -> str:
    """The inverse U⁻¹ L⁻¹ P of one matrix, from LU factors.

    Items are pairs of blocks of columns, one from the left and one from the right: L⁻¹ has zeros
    above its diagonal, so that blocks to the left take longer.
    """
    words = ["n", "width", "blocks", "block", "order"]
    w = LapackRoutine("invert_large_by_lu", letter, ["factors", "pivots"], ["y"], words)
    r, n = w.r, w.words["n"]
    factors, pivots, y = (w.of_item(name, 0) for name in ("factors", "pivots", "y"))
    block, order = w.area("block"), w.area("order")
    count_at, division = w.stored(0), RightDivision(w)
    fail_if_singular(w, factors)
    _write_order(w, pivots, order)
    with r.loop("%hi", "%lo") as pair, r.loop(2) as side:
        other = r.subtract(r.subtract(w.words["blocks"], 1), pair)
        is_first = r.equal(side, 0)
        number = r.select(is_first, pair, other)
        # The block in the middle has no partner.
        with r.when(r.either(is_first, r.unequal(pair, other))):
            first = r.multiply(number, w.words["width"])
            height = r.subtract(n, first)
            count = r.least(height, w.words["width"])
            r.put(count_at, 0, count)
            w.clear(block, r.multiply(n, count))
            with r.loop(count) as j:
                place = r.add(r.multiply(r.add(first, j), count), j)
                w.copy(w.one(), w.element(block, place), 1)
            corner = w.element(factors, r.multiply(first, r.add(n, 1)))
            lower = w.element(block, r.multiply(first, count))
            # Rows of the block are LAPACK's columns, so that it is divided from the right.
            for uplo, unit, order_of, matrix, rows in (
                ("L", "U", height, corner, lower),
                ("U", "N", n, factors, block),
            ):
                known = (order_of, matrix, w.places["n"], rows, count_at, count, count_at)
                division.write(uplo, "T", unit, *known)
            _write_columns(w, block, y, first, count, order)
    return w.text()


def _write_order(w: LapackRoutine, pivots: str, order: str) -> None:
    """The number of the row of the matrix that each row of the factors comes from."""
    r, n = w.r, w.words["n"]
    with r.loop(n) as i:
        r.put(order, r.scaled(i), i)
    with r.loop(n) as i:
        here = r.scaled(i)
        there = r.scaled(r.subtract(r.word(pivots, here), 1))
        one, other = r.word(order, here), r.word(order, there)
        r.put(order, here, other)
        r.put(order, there, one)


def _write_columns(
    w: LapackRoutine, block: str, y: str, first: str, count: str, order: str
) -> None:
    """Copy the columns of a block to their places in the inverse."""
    r, n, bits, aligned = w.r, w.words["n"], w.elements.bits, w.elements.real_bytes
    with r.loop(n) as i, r.loop(count) as j:
        source = w.element(block, r.add(r.multiply(i, count), j))
        value = r.load(bits, source, aligned)
        column = r.word(order, r.scaled(r.add(first, j)))
        target = w.element(y, r.add(r.multiply(i, n), column))
        r.store(value, target, align=aligned)
