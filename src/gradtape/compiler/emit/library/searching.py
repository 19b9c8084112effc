"""The routine that searches in sorted arrays, for as many elements at a time as a vector has."""

from __future__ import annotations

from gradtape.compiler.emit.library.elements import register_type
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Routine
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
    mask, words = f"<{lanes} x i1>", f"<{lanes} x i64>"
    kind = f"<{lanes} x {stored}>"
    suffix = {"double": "f64", "float": "f32"}.get(stored, stored)
    gather = f"@llvm.masked.gather.v{lanes}{suffix}.v{lanes}p0"
    load = f"@llvm.masked.load.v{lanes}{suffix}.p0"
    store = f"@llvm.masked.store.v{lanes}i64.p0"
    every = "<" + ", ".join(["i1 true"] * lanes) + ">"
    numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
    first, count = r.variable(words, "zeroinitializer"), r.variable("i64", 0)

    def splat(word: str) -> str:
        one = r.let(f"insertelement {words} poison, i64 {word}, i32 0")
        order = f"<{lanes} x i32> zeroinitializer"
        return r.let(f"shufflevector {words} {one}, {words} poison, {order}")

    def moved_by(step: str, wanted: str, probe: str) -> None:
        """Move lanes on by a step if the element before their new place comes before theirs."""
        at = r.let(f"add {words} {first.get()}, {splat(probe)}")
        places = r.let(f"getelementptr {stored}, ptr {array}, {words} {at}")
        found = r.let(
            f"call {kind} {gather}(<{lanes} x ptr> {places}, i32 1, {mask} {every}, {kind} poison)"
        )
        before = _before(r, dtype, kind, mask, found, wanted, side)
        moved = r.let(f"add {words} {first.get()}, {splat(step)}")
        first.set(r.let(f"select {mask} {before}, {words} {moved}, {words} {first.get()}"))

    steps = r.let(f"udiv i64 {r.add(r.subtract('%hi', '%lo'), lanes - 1)}, {lanes}")
    with r.loop(steps) as number:
        item = r.add("%lo", r.multiply(number, lanes))
        inside = r.let(f"icmp slt {words} {numbers}, {splat(r.subtract('%hi', item))}")
        place = r.let(f"getelementptr {stored}, ptr {values}, i64 {item}")
        wanted = r.let(
            f"call {kind} {load}(ptr {place}, i32 1, {mask} {inside}, {kind} zeroinitializer)"
        )
        first.set("zeroinitializer")
        count.set(length)
        with r.repeat() as over:
            left = count.get()
            r.go_if(r.compare("sle", left, 0), over)
            # Of one element that is left, the half is that element.
            half = r.let(f"lshr i64 {r.add(left, 1)}, 1")
            moved_by(half, wanted, r.subtract(half, 1))
            rest = r.subtract(left, half)
            count.set(r.select(r.equal(left, 1), 0, rest))
        target = r.let(f"getelementptr i64, ptr {of.results[0]}, i64 {item}")
        r.do(store, f"{words} {first.get()}", f"ptr {target}", "i32 8", f"{mask} {inside}")
    declared = [
        f"declare {kind} {gather}(<{lanes} x ptr>, i32, {mask}, {kind})",
        f"declare {kind} {load}(ptr, i32, {mask}, {kind})",
        f"declare void {store}({words}, ptr, i32, {mask})",
    ]
    return "\n".join([*declared, of.text()])


def _before(
    r: Routine, dtype: str, kind: str, mask: str, element: str, wanted: str, side: str
) -> str:
    """Whether an element of the array comes before the place that is wanted; NaN comes last."""
    if dtype[0] != "f":
        how = "s" if dtype[0] == "i" else "u"
        return r.let(f"icmp {how}{'lt' if side == 'left' else 'le'} {kind} {element}, {wanted}")
    nan = r.let(f"fcmp uno {kind} {wanted}, {wanted}")
    if side == "left":
        smaller = r.let(f"fcmp olt {kind} {element}, {wanted}")
        number = r.let(f"fcmp ord {kind} {element}, {element}")
        last = r.let(f"and {mask} {nan}, {number}")
        return r.let(f"or {mask} {smaller}, {last}")
    return r.let(f"or {mask} {r.let(f'fcmp ole {kind} {element}, {wanted}')}, {nan}")
