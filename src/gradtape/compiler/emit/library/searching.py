"""The routine that searches in sorted arrays, for as many elements at a time as a vector has."""

from __future__ import annotations

from gradtape.compiler.emit.library.elements import register_type
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Routine, every_lane
from gradtape.compiler.objects import llvm


def search_rows(dtype: str, side: str) -> str:
    """Where elements would stand in a sorted array: before equal elements, or behind them.

    All lanes take as many steps: each halves the part of the array that is left, and a lane moves
    on by half of it if the element there comes before its own.

    Words: the length of the array. Items: elements.
    """
    of = LibraryRoutine("search_rows", 2, 1, ("length",))
    r, length, lanes = of.r, of.words["length"], max(2, llvm.host().bits // 64)
    array, values = of.operands
    stored = "i8" if dtype == "b1" else register_type(dtype)
    words, kind = f"<{lanes} x i64>", f"<{lanes} x {stored}>"
    first, count = r.variable(words, "zeroinitializer"), r.variable("i64", 0)

    def moved_by(step: str, wanted: str, probe: str) -> None:
        """Move lanes on by a step if the element before their new place comes before theirs."""
        at = r.add(first.get(), r.splat(probe, lanes))
        places = r.let(f"getelementptr {stored}, ptr {array}, {words} {at}", f"<{lanes} x ptr>")
        every = every_lane("i1", "1", lanes)
        before = _before(r, dtype, r.gather(kind, places, every), wanted, side)
        moved = r.add(first.get(), r.splat(step, lanes))
        first.set(r.select(before, moved, first.get()))

    with r.vectors("%hi", lanes, "%lo") as (item, inside):
        wanted = r.load_lanes(kind, r.item(stored, values, item), inside)
        first.set("zeroinitializer")
        count.set(length)
        with r.repeat() as over:
            left = count.get()
            r.go_if(r.compare("sle", left, 0), over)
            # Of one element that is left, the half is that element.
            half = r.op("lshr", r.add(left, 1), 1)
            moved_by(half, wanted, r.subtract(half, 1))
            rest = r.subtract(left, half)
            count.set(r.select(r.equal(left, 1), 0, rest))
        r.store_lanes(first.get(), r.item("i64", of.results[0], item), inside, 8)
    return of.text()


def _before(r: Routine, dtype: str, element: str, wanted: str, side: str) -> str:
    """Whether an element of the array comes before the place that is wanted; NaN comes last."""
    if dtype[0] != "f":
        how = "s" if dtype[0] == "i" else "u"
        return r.compare(how + ("lt" if side == "left" else "le"), element, wanted)
    nan = r.compare("uno", wanted, wanted)
    if side == "left":
        last = r.op("and", nan, r.compare("ord", element, element))
        return r.op("or", r.compare("olt", element, wanted), last)
    return r.op("or", r.compare("ole", element, wanted), nan)
