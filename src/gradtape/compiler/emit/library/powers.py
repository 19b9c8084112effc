"""Routines of element-wise functions with loops that depend on the element."""

from __future__ import annotations

import math
from fractions import Fraction

from gradtape.compiler.emit.library.elements import Elements
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.objects import llvm

# Terms of the Euler-Maclaurin formula.
TERMS = 12
# The formula is applied from the order plus this number on: the terms are then below 1e-18.
BEYOND = 10


def integer_powers(dtype: str) -> str:
    """Integers to the power of integers; a negative exponent fails. Items: elements."""
    of = LibraryRoutine("integer_powers", 2, 1)
    r = of.r
    bases, exponents = (Elements(r, base, dtype) for base in of.operands)
    results, kind = Elements(r, of.results[0], dtype), bases.kind
    power, found = r.variable(kind, 0), r.variable(kind, 0)
    left, bad = r.variable(kind, 0), r.variable("i1", "false")
    with r.loop("%hi", "%lo") as at:
        exponent = exponents.get(at)
        power.set(bases.get(at))
        found.set(1)
        left.set(exponent)
        if dtype[0] == "i":
            bad.set(r.either(bad.get(), r.compare("slt", exponent, 0, kind)))
        with r.repeat() as over:
            bits = left.get()
            r.go_if(r.compare("eq", bits, 0, kind), over)
            odd = r.let(f"trunc {kind} {bits} to i1")
            more = r.let(f"mul {kind} {found.get()}, {power.get()}")
            found.set(r.select(odd, more, found.get(), kind))
            power.set(r.let(f"mul {kind} {power.get()}, {power.get()}"))
            left.set(r.let(f"lshr {kind} {bits}, 1"))
        results.put(at, found.get())
    with r.when(bad.get()):
        of.fail()
    return of.text()


def polygammas(dtype: str) -> str:
    """Derivatives of digamma: a factor times the Hurwitz zeta function Σ (x + k)^-s.

    Words: s, and the bits of the factor. Items: elements.
    """
    of = LibraryRoutine("polygammas", 1, 1, ("order", "factor"))
    r, order = of.r, of.words["order"]
    factor = r.let(f"bitcast i64 {of.words['factor']} to double")
    s = r.let(f"sitofp i64 {order} to double")
    enough = r.let(f"fadd double {s}, {_number(BEYOND)}")
    xs, results = Elements(r, of.operands[0], dtype), Elements(r, of.results[0], dtype)
    place, total = r.variable("double", _number(0)), r.variable("double", _number(0))
    with r.loop("%hi", "%lo") as at:
        x = xs.get(at)
        x = x if dtype == "f8" else r.let(f"fpext float {x} to double")
        # A pole at each integer that is not positive.
        whole = r.let(f"fcmp oeq double {x}, {r.call('double', '@llvm.floor.f64', f'double {x}')}")
        pole = r.both(whole, r.let(f"fcmp ole double {x}, {_number(0)}"))
        place.set(r.select(pole, enough, x, "double"))
        total.set(r.select(pole, _number(math.inf), _number(0), "double"))
        with r.repeat() as over:
            here = place.get()
            r.go_if(r.let(f"fcmp uge double {here}, {enough}"), over)
            total.set(r.let(f"fadd double {total.get()}, {_inverse_power(r, here, order)}"))
            place.set(r.let(f"fadd double {here}, {_number(1)}"))
        tail = _tail(r, place.get(), s, _inverse_power(r, place.get(), order))
        found = r.let(f"fmul double {factor}, {r.let(f'fadd double {total.get()}, {tail}')}")
        results.put(at, found if dtype == "f8" else r.let(f"fptrunc double {found} to float"))
    return "declare double @llvm.floor.f64(double)\n" + _power_text() + of.text()


def _number(value: float) -> str:
    return llvm.real_text(value, "double")


def _inverse_power(r: Routine, x: str, order: Word) -> str:
    return r.call("double", "@inverse_power", f"double {x}", f"i64 {order}")


def _power_text() -> str:
    """The function x^-n, by repeated squares."""
    r = Routine("internal double @inverse_power(double %x, i64 %order)")
    inverse = r.let(f"fdiv double {_number(1)}, %x")
    power, found = r.variable("double", inverse), r.variable("double", _number(1))
    left = r.variable("i64", "%order")
    with r.repeat() as over:
        bits = left.get()
        r.go_if(r.equal(bits, 0), over)
        odd = r.let(f"trunc i64 {bits} to i1")
        more = r.let(f"fmul double {found.get()}, {power.get()}")
        found.set(r.select(odd, more, found.get(), "double"))
        power.set(r.let(f"fmul double {power.get()}, {power.get()}"))
        left.set(r.let(f"lshr i64 {bits}, 1"))
    r.end(f"ret double {found.get()}")
    return r.text()


def _tail(r: Routine, a: str, s: str, power: str) -> str:
    """The rest of the sum from a on: a^-s (a / (s - 1) + 1/2 + Σ B(2j) / (2j)! s … / a^(2j-1))."""

    def op(name: str, x: str, y: str) -> str:
        return r.let(f"{name} double {x}, {y}")

    inverse = op("fdiv", _number(1), a)
    # x / (s - 1) times a^-s: the power may be 0 where x is infinite.
    less = op("fsub", s, _number(1))
    first = op("fdiv", _inverse_power(r, a, r.let(f"fptosi double {less} to i64")), less)
    rising, total = op("fmul", s, inverse), _number(0.5)
    for j in range(1, TERMS + 1):
        number = float(bernoulli(2 * j) / math.factorial(2 * j))
        total = op("fadd", total, op("fmul", rising, _number(number)))
        for k in (2 * j - 1, 2 * j):
            rising = op("fmul", rising, op("fmul", op("fadd", s, _number(k)), inverse))
    return op("fadd", first, op("fmul", power, total))


def bernoulli(n: int) -> Fraction:
    """A Bernoulli number."""
    row = [Fraction(0)] * (n + 1)
    for m in range(n + 1):
        row[m] = Fraction(1, m + 1)
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
    return row[0]
