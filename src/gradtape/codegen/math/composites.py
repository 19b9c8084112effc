"""Functions made of others: exact ones, and those that need one or two elementary functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gradtape.codegen.math.mathlibrary import cold_function
from gradtape.codegen.math.polynomials import fused, small_sine
from gradtape.codegen.math.vectors import INTEGER, Body, Value, exact_sum


@dataclass(frozen=True)
class Composite:
    """How many operands a function takes, how it is written, and which functions it applies."""

    arity: int
    write: Callable[..., Value]
    applies: tuple[str, ...] = ()


def _intrinsic(name: str) -> Callable[..., Value]:
    return lambda body, *operands: body.intrinsic(name, *operands)


def _rsqrt(body: Body, x: Value) -> Value:
    return 1.0 / body.intrinsic("sqrt", x)


def _maximum(body: Body, x: Value, y: Value) -> Value:
    return body.select(x.isnan(), x, body.select(x > y, x, y))


def _minimum(body: Body, x: Value, y: Value) -> Value:
    return body.select(x.isnan(), x, body.select(x < y, x, y))


def _sigmoid(body: Body, x: Value) -> Value:
    # exp of a non-positive number never overflows, and both branches share it.
    small = body.apply("exp", -body.absolute(x))
    return body.select(x >= 0.0, 1.0, small) / (small + 1.0)


def _softplus(body: Body, x: Value) -> Value:
    positive = body.select(x < 0.0, 0.0, x)
    return positive + body.apply("log1p", body.apply("exp", -body.absolute(x)))


def _log_sigmoid(body: Body, x: Value) -> Value:
    return -_softplus(body, -x)


def _logaddexp(body: Body, x: Value, y: Value) -> Value:
    largest, smallest = _maximum(body, x, y), _minimum(body, x, y)
    distance, dropped = exact_sum(smallest, -largest)
    # Equal infinities have no difference.
    small = body.apply("exp", body.select(x.equals(y), 0.0, distance))
    # What the difference lost to rounding counts where it is large and the result small.
    small = small + small * body.select(dropped.isnan(), 0.0, dropped)
    return largest + body.apply("log1p", small)


def _xlogy(body: Body, x: Value, y: Value) -> Value:
    zero = x.equals(0.0) & y.compare("ord", y)
    return body.select(zero, 0.0, x * body.apply("log", y))


def _multiply_no_nan(body: Body, x: Value, y: Value) -> Value:
    return body.select(y.equals(0.0), 0.0, x * y)


def _sinc(body: Body, x: Value) -> Value:
    # sin(πx) = ± sin(π (x - n)) for the nearest integer n, and x - n is exact.
    nearest = body.intrinsic("rint", x)
    half = nearest * 0.5
    odd = half.compare("une", body.intrinsic("rint", half))
    r = (x - nearest) * math.pi
    sine = small_sine(body, r)
    value = body.select(odd, -sine, sine) / (x * math.pi)
    return body.select(x.equals(0.0), 1.0, value)


def _fmod(body: Body, x: Value, y: Value) -> Value:
    """Remainder with the sign of x, exact.

    If the quotient is a number whose integer part is exact, so is x - q y, except that the
    quotient may have been rounded up to an integer: then y is missing.
    """
    symbol, snippets = cold_function("fmod", body.ty, body.lanes)
    body.need(snippets)
    if not fused():
        return body.call(symbol, x, y)
    a, b = body.absolute(x), body.absolute(y)
    quotient = a / b
    rest = body.fma(body.intrinsic("trunc", quotient), -b, a)
    rest = body.copysign(body.select(rest < 0.0, rest + b, rest), x)
    # Also true for NaN and for a zero or infinite y.
    hard = ~((quotient < 2.0**body.fraction) & (b < math.inf))
    return body.unless(hard, (rest,), symbol, (x, y))[0]


def _negative(x: Value) -> Value:
    return x.compare("olt", 0.0)


def _remainder(body: Body, x: Value, y: Value) -> Value:
    rest = _fmod(body, x, y)
    exact = rest.equals(0.0)
    other = body.select(_negative(rest) ^ _negative(y), rest + y, rest)
    return body.select(exact, body.copysign(body.lift(0.0), y), other)


def _floor_divide(body: Body, x: Value, y: Value) -> Value:
    rest = _fmod(body, x, y)
    quotient = x / y
    found = (x - rest) / y
    uneven = rest.compare("une", 0.0) & (_negative(rest) ^ _negative(y))
    found = body.select(uneven, found - 1.0, found)
    floor = body.intrinsic("floor", found)
    floor = body.select(found - floor > 0.5, floor + 1.0, floor)
    floor = body.select(found.equals(0.0), body.copysign(body.lift(0.0), quotient), floor)
    # As the array API standard has it: an infinite operand gives the quotient itself.
    plain = y.equals(0.0) | body.absolute(x).equals(math.inf) | body.absolute(y).equals(math.inf)
    return body.select(plain, quotient, floor)


def _nextafter(body: Body, x: Value, y: Value) -> Value:
    one = body.lift(1, INTEGER)
    # Floats of one sign are ordered as their bits are: away from zero is up.
    outward = (y > x) ^ _negative(x)
    step = body.select(outward, one, body.lift(-1, INTEGER))
    smallest = body.copysign(one.floats(), y)
    moved = body.select(x.equals(0.0), smallest, (x.bits() + step).floats())
    moved = body.select(x.equals(y), y, moved)
    return body.select(x.compare("uno", y), x + y, moved)


COMPOSITES = {
    "sqrt": Composite(1, _intrinsic("sqrt")),
    "floor": Composite(1, _intrinsic("floor")),
    "ceil": Composite(1, _intrinsic("ceil")),
    "trunc": Composite(1, _intrinsic("trunc")),
    "round": Composite(1, _intrinsic("rint")),
    "abs": Composite(1, _intrinsic("fabs")),
    "copysign": Composite(2, _intrinsic("copysign")),
    "rsqrt": Composite(1, _rsqrt),
    "maximum": Composite(2, _maximum),
    "minimum": Composite(2, _minimum),
    "remainder": Composite(2, _remainder, ("fmod",)),
    "floor_divide": Composite(2, _floor_divide, ("fmod",)),
    "nextafter": Composite(2, _nextafter),
    "sigmoid": Composite(1, _sigmoid, ("exp",)),
    "softplus": Composite(1, _softplus, ("exp", "log1p")),
    "log_sigmoid": Composite(1, _log_sigmoid, ("exp", "log1p")),
    "logaddexp": Composite(2, _logaddexp, ("exp", "log1p")),
    "xlogy": Composite(2, _xlogy, ("log",)),
    "multiply_no_nan": Composite(2, _multiply_no_nan),
    "sinc": Composite(1, _sinc),
}
