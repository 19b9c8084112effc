"""Eigenvectors of both halves of a tridiagonal matrix, as a kernel that calls LAPACK's `stedc`.

A product of a vector with itself is subtracted, so that the matrix falls in two parts that threads
take one each; what joins them again is not done here. The library is held to one thread meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended
from gradtape.codegen.plans.instructions import kernel_routine


class HalvesArguments(NamedTuple):
    """The words of the kernel. LAPACK reads those of a half at their addresses."""

    slot_diagonal: int
    offset_diagonal: int
    slot_beside: int
    offset_beside: int
    slot_values: int
    offset_values: int
    slot_vectors: int
    offset_vectors: int
    slot_failures: int
    offset_failures: int
    # Scratch memory of both halves, its bytes for one, and where its parts begin after `beside`.
    slot_work: int
    offset_work: int
    work_bytes: int
    work_reals: int
    work_numbers: int
    # The address of `stedc`, and a letter for it.
    routine: int
    letter: int
    order: int
    cut: int
    # Of the first half, and of the second one: rows, and how long its scratch memory is.
    rows: int
    reals: int
    numbers: int
    rows_of_second: int
    reals_of_second: int
    numbers_of_second: int


_OF_HALF = 3


def words_of_halves(lanes: Lanes, order: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The words for scratch memory, and for both halves."""
    cut = order // 2
    sizes = [(rows, 1 + 4 * rows + rows * rows, 3 + 5 * rows) for rows in (cut, order - cut)]
    rows, reals, numbers = sizes[1]
    work_reals = rows * lanes.size
    work_numbers = work_reals + reals * lanes.size
    nbytes = -(-(work_numbers + 4 * numbers) // 64) * 64
    return (nbytes, work_reals, work_numbers), (*sizes[0], *sizes[1])


def halves_ir(lanes: Lanes) -> str:
    """The module with the kernel `halves`."""
    kind, size = lanes.kind, lanes.size
    r = ElementRoutine(kernel_routine("halves").head, lanes)
    names = HalvesArguments._fields
    words = r.words("%args", names)

    def place(name: str) -> str:
        slot = r.pointer("%slots", r.scaled(words[f"slot_{name}"]))
        return r.at(slot, words[f"offset_{name}"])

    diagonal, beside, values, vectors, failures, work = (
        place(name) for name in ("diagonal", "beside", "values", "vectors", "failures", "work")
    )
    routine = r.pointer("%args", 8 * names.index("routine"))
    letter, order = (r.at("%args", 8 * names.index(name)) for name in ("letter", "order"))
    first = r.at("%args", 8 * names.index("rows"))
    cut = words["cut"]
    corner = r.load(r.element(beside, r.subtract(cut, 1)), kind)
    corner = r.intrinsic("fabs", kind, corner)
    with r.loop("%hi", "%lo") as half:
        sizes = r.at(first, r.multiply(half, 8 * _OF_HALF))
        rows = r.word(sizes)
        start = r.multiply(half, cut)
        own, own_work = r.element(values, start), r.at(work, r.multiply(half, words["work_bytes"]))
        # LAPACK is not asked about numbers that are not finite.
        with r.fold(rows, "i64", ["0"]) as fold:
            value = r.load(r.element(r.element(diagonal, start), fold.index), kind)
            r.store(value, r.element(own, fold.index), kind)
            fold.values = [r.add(fold.values[0], _is_bad(r, value))]
        bad = fold.values[0]
        between = r.subtract(rows, 1)
        with r.fold(between, "i64", ["0"]) as fold:
            value = r.load(r.element(r.element(beside, start), fold.index), kind)
            r.store(value, r.element(own_work, fold.index), kind)
            fold.values = [r.add(fold.values[0], _is_bad(r, value))]
        bad = r.add(bad, r.add(fold.values[0], _is_bad(r, corner)))
        # The last element of the first half, and the first one of the second.
        edge = r.element(own, r.select(r.equal(half, 0), between, 0))
        r.store(r.let(f"fsub {kind} {r.load(edge, kind)}, {corner}"), edge, kind)
        line = r.multiply(words["order"], size)
        lines = r.at(vectors, r.multiply(start, line))
        nbytes = r.multiply(rows, line)
        r.do("@llvm.memset.p0.i64", f"ptr {lines}", "i8 0", f"i64 {nbytes}", "i1 false")
        failure = r.at(failures, r.multiply(half, 4))
        r.line(f"store i32 1, ptr {failure}")
        with r.when(r.equal(bad, 0)):
            reals, numbers = (
                r.at(own_work, words[f"work_{name}"]) for name in ("reals", "numbers")
            )
            r.do(
                routine, f"ptr {letter}", f"ptr {sizes}", f"ptr {own}", f"ptr {own_work}",
                f"ptr {r.element(lines, start)}", f"ptr {order}", f"ptr {reals}",
                f"ptr {r.at(sizes, 8)}", f"ptr {numbers}", f"ptr {r.at(sizes, 16)}",
                f"ptr {failure}",
            )  # fmt: skip
    suffix = f"f{8 * size}"
    declarations = (
        f"declare {kind} @llvm.fabs.{suffix}({kind})",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    )
    return "\n".join([*declarations, ended(r)])


def _is_bad(r: ElementRoutine, value: str) -> str:
    """1 if a number is not finite."""
    kind = r.lanes.kind
    nothing = r.let(f"fsub {kind} {value}, {value}")
    return r.let(f"zext i1 {r.let(f'fcmp une {kind} {nothing}, 0.0')} to i64")
