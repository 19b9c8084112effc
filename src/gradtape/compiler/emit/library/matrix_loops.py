"""Loops over the elements of square matrices as functions of a module: sums, norms and tests.

A matrix may be complex; functions that treat both parts alike take it as real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.compiler.emit.library.butterflies import Vectors
from gradtape.compiler.emit.library.stack_routine import StackRoutine
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm

_POWERS = ("ptr %a", "ptr %b", "ptr %c")
_FACTORS = ("p", "q", "s")
# Gives the addresses of the elements of an array with this name.
_Place = Callable[[str], str]


def add_matrix_functions(w: StackRoutine) -> None:
    """Add the functions to the module of a routine."""
    real, parts = w.elements.real, 2 if w.elements.is_complex else 1
    found: dict[str, str] = {}
    for name, arguments, write in (
        ("copy", ("ptr %x", "ptr %y"), _copied),
        ("clear", ("ptr %x",), _cleared),
        ("scale", ("ptr %x", "double %factor"), _scaled),
        ("halves", ("ptr %x", "ptr %y"), _split),
        ("combine", ("ptr %x", *_POWERS, *[f"double %{k}" for k in _FACTORS]), _combined),
    ):
        found[name] = _over_elements(name, arguments, real, write)
    for name, is_below in (("has_below", True), ("has_above", False)):
        found[name] = _has(name, real, parts, is_below)
    for name, text in (("add_row", _add_row), ("column_norm", _norm), ("power_norm", _power_norm)):
        found[name] = text(real, parts)
    _declare(w)
    w.functions.update(found)


def _over_elements(
    name: str, arguments: Sequence[str], real: str, write: Callable[[Vectors, _Place], None]
) -> str:
    r = Routine(f"internal void @{name}({', '.join(arguments)}, i64 %count) nounwind")
    lanes = llvm.host().bits // (8 * (4 if real == "float" else 8))
    whole = r.let(f"udiv i64 %count, {lanes}")
    for by, first, last in (
        (Vectors(r, real, lanes), "0", whole),
        (Vectors(r, real, 1), r.multiply(whole, lanes), "%count"),
    ):
        with r.loop(last, first) as index:
            offset = r.multiply(index, by.nbytes)
            write(by, lambda array, offset=offset: r.at(f"%{array}", offset))  # type: ignore[misc]
    r.end("ret void")
    return r.text()


def _factor(by: Vectors, name: str) -> str:
    number = f"%{name}"
    narrow = number if by.real == "double" else by.r.let(f"fptrunc double {number} to float")
    return by.spread(narrow)


def _copied(by: Vectors, at: _Place) -> None:
    by.store(at("y"), by.load(at("x")))


def _cleared(by: Vectors, at: _Place) -> None:
    by.store(at("x"), by.constant(0.0))


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


def _add_row(real: str, parts: int) -> str:
    """Add the absolute values of a row, times a factor, to doubles."""
    head = "void @add_row(ptr %row, double %factor, ptr %to, i64 %n) nounwind"
    r = Routine(f"internal {head}")
    lanes = llvm.host().bits // 64
    whole = r.let(f"udiv i64 %n, {lanes}")
    for width, first, last in ((lanes, "0", whole), (1, r.multiply(whole, lanes), "%n")):
        given, by = Vectors(r, real, width), Vectors(r, "double", width)
        with r.loop(last, first) as index:
            place = r.at("%row", r.multiply(index, parts * given.nbytes))
            values = list(given.load_pairs(place)) if parts == 2 else [given.load(place)]
            if real == "float":
                values = [r.let(f"fpext {given.kind} {x} to {by.kind}") for x in values]
            target = r.at("%to", r.multiply(index, by.nbytes))
            term = by.multiply(_absolute(by, values), by.spread("%factor"))
            by.store(target, by.add(by.load(target), term))
    r.end("ret void")
    return r.text()


def _absolute(by: Vectors, values: Sequence[str]) -> str:
    suffix = "f64" if by.lanes == 1 else f"v{by.lanes}f64"
    if len(values) == 1:
        return by.r.call(by.kind, f"@llvm.fabs.{suffix}", f"{by.kind} {values[0]}")
    squares = [by.multiply(value, value) for value in values]
    return by.r.call(by.kind, f"@llvm.sqrt.{suffix}", f"{by.kind} {by.add(*squares)}")


def _declare(w: StackRoutine) -> None:
    lanes = llvm.host().bits // 64
    for name in ("llvm.fabs", "llvm.sqrt"):
        for width, suffix in ((1, "f64"), (lanes, f"v{lanes}f64")):
            kind = llvm.vector("double", width)
            w.function(f"{name}.{suffix}", f"{kind} @{name}.{suffix}({kind})")


def _fill(r: Routine, vector: str, value: str) -> None:
    with r.loop("%n") as i:
        r.line(f"store double {value}, ptr {r.at(vector, r.scaled(i))}")


def _add_rows(r: Routine, size: int, to: str, factor_of: Callable[[str], str]) -> None:
    with r.loop("%n") as i:
        row = r.at("%x", r.multiply(r.multiply(i, "%n"), size))
        r.do("@add_row", f"ptr {row}", f"double {factor_of(i)}", f"ptr {to}", "i64 %n")


def _give_largest(r: Routine) -> None:
    with r.fold("%n", [Typed("0.0", "double")]) as most:
        value = r.let(f"load double, ptr {r.at('%vectors', r.scaled(most.index))}")
        # NaN is larger than all numbers.
        above = r.let(f"fcmp ugt double {value}, {most.values[0]}")
        most.values = [r.select(above, value, most.values[0], "double")]
    r.give(most.values[0], "double")


def _norm(real: str, parts: int) -> str:
    """The largest sum of absolute values of a column."""
    r = Routine("internal double @column_norm(ptr %x, ptr %vectors, i64 %n) nounwind")
    _fill(r, "%vectors", "0.0")
    _add_rows(r, parts * (4 if real == "float" else 8), "%vectors", lambda i: "1.0")
    _give_largest(r)
    return r.text()


def _power_norm(real: str, parts: int) -> str:
    """The norm of a power of the absolute values, times the same power of a factor.

    That is the largest element of a vector of ones times the power.
    """
    arguments = "ptr %x, ptr %vectors, double %factor, i64 %n, i64 %power"
    r = Routine(f"internal double @power_norm({arguments}) nounwind")
    second = r.at("%vectors", r.scaled("%n"))

    def factor_of(i: str) -> str:
        value = r.let(f"load double, ptr {r.at('%vectors', r.scaled(i))}")
        return r.let(f"fmul double {value}, %factor")

    _fill(r, "%vectors", "1.0")
    with r.loop("%power"):
        _fill(r, second, "0.0")
        _add_rows(r, parts * (4 if real == "float" else 8), second, factor_of)
        with r.loop("%n") as i:
            r.put("%vectors", r.scaled(i), r.word(second, r.scaled(i)))
    _give_largest(r)
    return r.text()


def _has(name: str, real: str, parts: int, is_below: bool) -> str:
    """Whether an element below, or above, the diagonal is not 0."""
    r = Routine(f"internal i1 @{name}(ptr %x, i64 %n) nounwind")
    size = 4 if real == "float" else 8
    with r.loop("%n") as i, r.loop(i) as j:
        row, column = (i, j) if is_below else (j, i)
        index = r.multiply(r.add(r.multiply(row, "%n"), column), parts)
        for part in range(parts):
            place = r.at("%x", r.multiply(r.add(index, part), size))
            value = r.let(f"load {real}, ptr {place}")
            r.go_if(r.let(f"fcmp une {real} {value}, 0.0"), "found")
    r.give("false", "i1")
    r.block("found")
    r.give("true", "i1")
    return r.text()
