"""Routines of element-wise functions with loops that depend on the element."""

from __future__ import annotations

import math
from fractions import Fraction

from gradtape.compiler.emit.library.elements import Elements
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Routine, Typed, Word
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
    results, bad = Elements(r, of.results[0], dtype), r.variable("i1", "false")
    power = _Power(r, "mul", bases.kind, bases.kind)
    with r.loop("%hi", "%lo") as at:
        exponent = exponents.get(at)
        if dtype[0] == "i":
            bad.set(r.either(bad.get(), r.compare("slt", exponent, 0)))
        results.put(at, power.write(bases.get(at), exponent, 1))
    with r.when(bad.get()):
        of.fail()
    return of.text()


class _Power:
    """Powers by repeated squares, in variables of a routine."""

    def __init__(self, r: Routine, multiply: str, kind: str, exponent: str) -> None:
        self._r, self._multiply = r, multiply
        self._power, self._found = r.variable(kind, "poison"), r.variable(kind, "poison")
        self._left = r.variable(exponent, "poison")

    def write(self, base: Word, exponent: Word, one: Word) -> Typed:
        """The base to the power of an exponent that is not negative."""
        r, power, found, left = self._r, self._power, self._found, self._left
        for each, start in ((power, base), (found, one), (left, exponent)):
            each.set(start)
        with r.repeat() as over:
            bits = left.get()
            r.go_if(r.equal(bits, 0), over)
            odd = r.cast("trunc", bits, "i1")
            more = r.op(self._multiply, found.get(), power.get())
            found.set(r.select(odd, more, found.get()))
            power.set(r.op(self._multiply, power.get(), power.get()))
            left.set(r.op("lshr", bits, 1))
        return found.get()


def polygammas(dtype: str) -> str:
    """Derivatives of digamma: a factor times the Hurwitz zeta function Σ (x + k)^-s.

    Words: s, and the bits of the factor. Items: elements.
    """
    of = LibraryRoutine("polygammas", 1, 1, ("order", "factor"))
    of.functions["inverse_power"] = _inverse_power()
    r, order = of.r, of.words["order"]
    factor, s = r.cast("bitcast", of.words["factor"], "double"), r.cast("sitofp", order, "double")
    enough = r.op("fadd", s, _number(BEYOND))
    xs, results = Elements(r, of.operands[0], dtype), Elements(r, of.results[0], dtype)
    place, total = r.variable("double", _number(0)), r.variable("double", _number(0))
    with r.loop("%hi", "%lo") as at:
        x = xs.get(at)
        x = x if dtype == "f8" else r.cast("fpext", x, "double")
        # A pole at each integer that is not positive.
        whole = r.compare("oeq", x, r.intrinsic("floor", x))
        pole = r.both(whole, r.compare("ole", x, _number(0)))
        place.set(r.select(pole, enough, x))
        total.set(r.select(pole, _number(math.inf), _number(0)))
        with r.repeat() as over:
            here = place.get()
            r.go_if(r.compare("uge", here, enough), over)
            power = r.call("double", "@inverse_power", here, order)
            total.set(r.op("fadd", total.get(), power))
            place.set(r.op("fadd", here, _number(1)))
        found = r.op("fmul", factor, r.op("fadd", total.get(), _tail(r, place.get(), s, order)))
        results.put(at, found if dtype == "f8" else r.cast("fptrunc", found, "float"))
    return of.text()


def _number(value: float) -> Typed:
    return Typed(llvm.real_text(value, "double"), "double")


def _inverse_power() -> Routine:
    """The function x^-n."""
    r = Routine("internal double @inverse_power(double %x, i64 %order)")
    inverse = r.op("fdiv", _number(1), "%x")
    r.give(_Power(r, "fmul", "double", "i64").write(inverse, "%order", _number(1)))
    return r


def _tail(r: Routine, a: str, s: str, order: Word) -> Typed:
    """The rest of the sum from a on: a^-s (a / (s - 1) + 1/2 + Σ B(2j) / (2j)! s … / a^(2j-1))."""
    op, inverse = r.op, r.op("fdiv", _number(1), a)
    power = r.call("double", "@inverse_power", a, order)
    # x / (s - 1) times a^-s: the power may be 0 where x is infinite.
    less = op("fsub", s, _number(1))
    first = r.call("double", "@inverse_power", a, r.cast("fptosi", less, "i64"))
    rising, total = op("fmul", s, inverse), _number(0.5)
    for j in range(1, TERMS + 1):
        number = float(bernoulli(2 * j) / math.factorial(2 * j))
        total = op("fadd", total, op("fmul", rising, _number(number)))
        for k in (2 * j - 1, 2 * j):
            rising = op("fmul", rising, op("fmul", op("fadd", s, _number(k)), inverse))
    return op("fadd", op("fdiv", first, less), op("fmul", power, total))


def bernoulli(n: int) -> Fraction:
    """A Bernoulli number."""
    row = [Fraction(0)] * (n + 1)
    for m in range(n + 1):
        row[m] = Fraction(1, m + 1)
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
    return row[0]
