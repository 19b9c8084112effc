"""Loops over the elements of square matrices as functions of a module: sums, norms and tests.

A matrix may be complex; functions that treat both parts alike take it as real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gradtape.compiler.emit.library.butterflies import Vectors
from gradtape.compiler.emit.library.stack_routine import ElementType, StackRoutine
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm

_FACTORS = ("p", "q", "s")
# Gives the addresses of the elements of an array with this name.
_Place = Callable[[str], str]


def add_matrix_functions(w: StackRoutine) -> None:
    """Add the functions to the module of a routine."""
    factors = ", ".join(f"double %{each}" for each in _FACTORS)
    for name, arguments, write in (
        ("scale", "ptr %x, double %factor", _scaled),
        ("halves", "ptr %x, ptr %y", _split),
        ("combine", f"ptr %x, ptr %a, ptr %b, ptr %c, {factors}", _combined),
    ):
        r = Routine(f"internal void @{name}({arguments}, i64 %count) nounwind")
        for by, index in _vectors(r, w.elements.real, "%count", w.elements.real_bytes):
            write(by, _places(r, r.multiply(index, by.size)))
        w.functions[name] = r
    for name, is_below in (("has_below", True), ("has_above", False)):
        w.functions[name] = _has(name, w.elements, is_below)
    w.functions["add_row"] = _add_row(w.elements)
    w.functions["column_norm"] = _norm(w.elements)
    w.functions["power_norm"] = _power_norm(w.elements)


def _places(r: Routine, offset: str) -> _Place:
    return lambda array: r.at(f"%{array}", offset)


def _vectors(r: Routine, real: str, count: str, size: int) -> Iterator[tuple[Vectors, str]]:
    """Lines for each vector of numbers of some bytes, and for each number that is left."""
    lanes = llvm.host().bits // (8 * size)
    whole = r.op("and", count, -lanes)
    with r.loop(whole, step=lanes) as index:
        yield Vectors(r, real, lanes), index
    with r.loop(count, whole) as index:
        yield Vectors(r, real, 1), index


def _factor(by: Vectors, name: str) -> str:
    number = f"%{name}"
    return by.spread(number if by.real == "double" else by.r.cast("fptrunc", number, "float"))


def _scaled(by: Vectors, at: _Place) -> None:
    by.store(at("x"), by.multiply(by.load(at("x")), _factor(by, "factor")))


def _split(by: Vectors, at: _Place) -> None:
    """y - x and y + x, in the place of x and y."""
    x, y = by.load(at("x")), by.load(at("y"))
    by.store(at("x"), by.subtract(y, x))
    by.store(at("y"), by.add(y, x))


def _combined(by: Vectors, at: _Place) -> None:
    total = by.load(at("x"))
    for array, name in zip(("a", "b", "c"), _FACTORS, strict=True):
        total = by.add(total, by.multiply(by.load(at(array)), _factor(by, name)))
    by.store(at("x"), total)


def _add_row(elements: ElementType) -> Routine:
    """Add the absolute values of a row, times a factor, to doubles."""
    r = Routine("internal void @add_row(ptr %row, double %factor, ptr %to, i64 %n) nounwind")
    for by, index in _vectors(r, "double", "%n", 8):
        given = Vectors(r, elements.real, by.lanes)
        place = r.at("%row", r.multiply(index, elements.nbytes))
        values = list(given.load_pairs(place)) if elements.is_complex else [given.load(place)]
        if elements.real == "float":
            values = [r.cast("fpext", x, by.kind) for x in values]
        target = r.at("%to", r.scaled(index))
        term = by.multiply(_absolute(by, values), by.spread("%factor"))
        by.store(target, by.add(by.load(target), term))
    return r


def _absolute(by: Vectors, values: Sequence[str]) -> str:
    if len(values) == 1:
        return by.r.intrinsic("fabs", *values)
    squares = [by.multiply(value, value) for value in values]
    return by.r.intrinsic("sqrt", by.add(*squares))


def _fill(r: Routine, vector: str, value: str) -> None:
    with r.loop("%n") as i:
        r.store(value, r.item("double", vector, i), "double")


def _add_rows(r: Routine, size: int, to: str, factor_of: Callable[[str], str]) -> None:
    with r.loop("%n") as i:
        row = r.at("%x", r.multiply(r.multiply(i, "%n"), size))
        r.do("@add_row", row, factor_of(i), to, "%n")


def _give_largest(r: Routine) -> Routine:
    with r.fold("%n", [Typed("0.0", "double")]) as most:
        value = r.load("double", r.item("double", "%vectors", most.index))
        # NaN is larger than all numbers.
        above = r.compare("ugt", value, most.values[0])
        most.values = [r.select(above, value, most.values[0])]
    r.give(most.values[0])
    return r


def _norm(elements: ElementType) -> Routine:
    """The largest sum of absolute values of a column."""
    r = Routine("internal double @column_norm(ptr %x, ptr %vectors, i64 %n) nounwind")
    _fill(r, "%vectors", "0.0")
    _add_rows(r, elements.nbytes, "%vectors", lambda i: Typed("1.0", "double"))
    return _give_largest(r)


def _power_norm(elements: ElementType) -> Routine:
    """The norm of a power of the absolute values, times the same power of a factor.

    That is the largest element of a vector of ones times the power.
    """
    arguments = "ptr %x, ptr %vectors, double %factor, i64 %n, i64 %power"
    r = Routine(f"internal double @power_norm({arguments}) nounwind")
    second = r.at("%vectors", r.scaled("%n"))

    def factor_of(i: str) -> str:
        return r.op("fmul", r.load("double", r.item("double", "%vectors", i)), "%factor")

    _fill(r, "%vectors", "1.0")
    with r.loop("%power"):
        _fill(r, second, "0.0")
        _add_rows(r, elements.nbytes, second, factor_of)
        r.copy("%vectors", second, r.scaled("%n"))
    return _give_largest(r)


def _has(name: str, elements: ElementType, is_below: bool) -> Routine:
    """Whether an element below, or above, the diagonal is not 0."""
    r = Routine(f"internal i1 @{name}(ptr %x, i64 %n) nounwind")
    with r.loop("%n") as i, r.loop(i) as j:
        row, column = (i, j) if is_below else (j, i)
        place = r.at("%x", r.multiply(r.add(r.multiply(row, "%n"), column), elements.nbytes))
        for part in range(elements.parts):
            value = r.load(elements.real, r.at(place, part * elements.real_bytes))
            r.give_if(r.compare("une", value, "0.0"), "true")
    r.give("false")
    return r
