"""Functions of complex numbers as pairs of vectors: fast for ordinary numbers, C's for the rest.

Formulas in real functions hold where nothing overflows, underflows or cancels. Where any lane is
outside that range, the whole vector goes through libm's complex functions lane by lane, which know
what infinities, NaNs and signed zeros give.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache

from gradtape.codegen import llvm
from gradtape.codegen.math import mathlibrary
from gradtape.codegen.math.vectormath import accurate_function
from gradtape.codegen.math.vectors import MASK, Body, Found, Value, exact_sum, vector

Pair = tuple[Value, ...]
_LIBM = frozenset((
    "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh",
))  # fmt: skip
_CALLED = "noinline nounwind"


def supported(name: str, ty: str) -> bool:
    """Whether `complex_function` has this function for pairs of this type on this machine."""
    if ty not in ("float", "double"):
        return False
    if name in _EXACT:
        return name != "abs" or mathlibrary.available("hypot")
    if name == "pow":
        return supported("exp", ty) and supported("log", ty)
    known = llvm.host().machine in ("x86_64", "aarch64") and sys.platform != "win32"
    return name in _LIBM and known and mathlibrary.c_symbol(_c_name(name, ty))


def complex_function(name: str, ty: str, lanes: int) -> Found:
    """The symbol of a function on complex vectors, and the snippets that the module must contain.

    Each operand is two vectors, real and imaginary part; the result is `{real, imaginary}`, for
    `abs` one vector. Snippets are shared as those of `vectormath.function`.
    """
    return _complex_function(name, ty, lanes, mathlibrary.preference())


@lru_cache(maxsize=256)
def _complex_function(name: str, ty: str, lanes: int, preference: str) -> Found:
    write = _EXACT.get(name) or _FAST.get(name)
    if preference == "scalar" and name not in _EXACT and name not in ("tanh", "pow"):
        write = None
    if write is None:
        return _lane_by_lane(name, ty, lanes)
    body = Body(ty, lanes, accurate_function)
    names = ["a", "b", "c", "d"][: 4 if name in ("multiply", "divide", "pow") else 2]
    result = write(body, *(body.operand(operand) for operand in names))
    symbol = f"gradtape_complex_{name}_{ty}{lanes}"
    return symbol, body.function(symbol, names, result, _CALLED)


def _c_name(name: str, ty: str) -> str:
    return f"c{name}" + ("f" if ty == "float" else "")


def _lane_by_lane(name: str, ty: str, lanes: int) -> Found:
    """A function of <complex.h>, called once per lane."""
    target, kind = _c_name(name, ty), vector(ty, lanes)
    mathlibrary.c_symbol(target)
    # x86-64 passes two floats packed in one register; everything else as two registers.
    packed = ty == "float" and llvm.host().machine == "x86_64"
    scalar = "<2 x float>" if packed else f"{{{ty}, {ty}}}"
    takes = scalar if packed else f"{ty}, {ty}"
    pair = f"{{{kind}, {kind}}}"
    symbol = f"gradtape_lanes_complex_{name}_{ty}{lanes}"
    lines = [f"define internal {pair} @{symbol}({kind} %a, {kind} %b) cold noinline {{"]
    totals = ["poison", "poison"]
    for lane in range(lanes):
        parts = ["%a", "%b"]
        if lanes > 1:
            parts = [f"%a{lane}", f"%b{lane}"]
            for whole, part in zip(("%a", "%b"), parts, strict=True):
                lines.append(f"  {part} = extractelement {kind} {whole}, i32 {lane}")
        operands = f"{ty} {parts[0]}, {ty} {parts[1]}"
        if packed:
            lines += [
                f"  %h{lane} = insertelement {scalar} poison, {ty} {parts[0]}, i32 0",
                f"  %p{lane} = insertelement {scalar} %h{lane}, {ty} {parts[1]}, i32 1",
            ]
            operands = f"{scalar} %p{lane}"
        lines.append(f"  %r{lane} = call {scalar} @{target}({operands})")
        for k in range(2):
            take = f"extractelement {scalar} %r{lane}, i32 {k}"
            if not packed:
                take = f"extractvalue {scalar} %r{lane}, {k}"
            lines.append(f"  %s{lane}_{k} = {take}")
            if lanes > 1:
                insert = f"insertelement {kind} {totals[k]}, {ty} %s{lane}_{k}, i32 {lane}"
                lines.append(f"  %t{lane}_{k} = {insert}")
            totals[k] = f"%{'t' if lanes > 1 else 's'}{lane}_{k}"
    lines += [
        f"  %first = insertvalue {pair} poison, {kind} {totals[0]}, 0",
        f"  %both = insertvalue {pair} %first, {kind} {totals[1]}, 1",
        f"  ret {pair} %both",
        "}",
    ]
    return symbol, (f"declare {scalar} @{target}({takes})", "\n".join(lines))


def _or_libm(body: Body, name: str, operands: Pair, ordinary: Value, result: Pair) -> Pair:
    """The result where all lanes are ordinary, else libm's."""
    symbol, snippets = _lane_by_lane(name, body.ty, body.lanes)
    body.need(snippets)
    return body.unless(~ordinary, result, symbol, operands)


def _multiply(body: Body, a: Value, b: Value, c: Value, d: Value) -> Pair:
    return a * c - b * d, a * d + b * c


def _divide(body: Body, a: Value, b: Value, c: Value, d: Value) -> Pair:
    """Smith's method, in the order of operations that NumPy has."""
    real, imaginary = body.absolute(c), body.absolute(d)
    # Which part of the divisor is larger decides who plays which role.
    first = real.compare("oge", imaginary)
    large, small = body.select(first, c, d), body.select(first, d, c)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    upper = body.select(first, a + b * ratio, a * ratio + b) * scale
    lower = body.select(first, b - a * ratio, b * ratio - a) * scale
    zero = real.equals(0.0) & imaginary.equals(0.0)
    return body.select(zero, a / real, upper), body.select(zero, b / real, lower)


def _reciprocal(body: Body, a: Value, b: Value) -> Pair:
    return _divide(body, body.lift(1.0), body.lift(0.0), a, b)


def _abs(body: Body, a: Value, b: Value) -> Pair:
    return (body.apply("hypot", a, b),)


def _exp(body: Body, a: Value, b: Value) -> Pair:
    size = body.apply("exp", a)
    result = size * body.apply("cos", b), size * body.apply("sin", b)
    ordinary = (body.absolute(a) < body.pick(87.0, 708.0)) & (body.absolute(b) < math.inf)
    return _or_libm(body, "exp", (a, b), ordinary, result)


def _hyperbolic(body: Body, x: Value) -> Pair:
    """sinh and cosh, from exp(|x|) - 1."""
    grown = body.apply("expm1", body.absolute(x))
    shrunk = grown / (grown + 1.0)
    return body.copysign((grown + shrunk) * 0.5, x), grown * shrunk * 0.5 + 1.0


def _waves(body: Body, name: str, angle: Value, size: Value) -> tuple[Pair, Value]:
    """sine, cosine of one part, sinh, cosh of the other; and where all are ordinary."""
    high = body.pick(80.0, 700.0) if name not in ("tan", "tanh") else body.pick(20.0, 170.0)
    ordinary = (body.absolute(size) < high) & (body.absolute(angle) < math.inf)
    parts = body.apply("sin", angle), body.apply("cos", angle), *_hyperbolic(body, size)
    return parts, ordinary


def _sin(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "sin", a, b)
    return _or_libm(body, "sin", (a, b), ordinary, (sine * cosh, cosine * sinh))


def _cos(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "cos", a, b)
    return _or_libm(body, "cos", (a, b), ordinary, (cosine * cosh, -(sine * sinh)))


def _sinh(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "sinh", b, a)
    return _or_libm(body, "sinh", (a, b), ordinary, (sinh * cosine, cosh * sine))


def _cosh(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "cosh", b, a)
    return _or_libm(body, "cosh", (a, b), ordinary, (cosh * cosine, sinh * sine))


def _tan(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "tan", a, b)
    below = cosine * cosine + sinh * sinh
    result = sine * cosine / below, sinh * cosh / below
    return _or_libm(body, "tan", (a, b), ordinary, result)


def _tanh(body: Body, a: Value, b: Value) -> Pair:
    (sine, cosine, sinh, cosh), ordinary = _waves(body, "tanh", b, a)
    below = cosine * cosine + sinh * sinh
    result = sinh * cosh / below, sine * cosine / below
    real, imaginary = _or_libm(body, "tanh", (a, b), ordinary, result)
    # At infinity C gives the imaginary zero the sign of sin(2b), the array API standard that of b.
    limit = body.absolute(a).equals(math.inf) & (body.absolute(b) < math.inf)
    return real, body.select(limit, body.copysign(body.lift(0.0), b), imaginary)


def _sorted(body: Body, a: Value, b: Value, low: float, high: float) -> tuple[Value, Value, Value]:
    """The larger and the smaller of |a| and |b|, and where their squares are safe."""
    x, y = body.absolute(a), body.absolute(b)
    swap = x < y
    large, small = body.select(swap, y, x), body.select(swap, x, y)
    # Says no to NaN in either: then one of the sums is.
    return large, small, (large > low) & (large + small < high)


def _sqrt(body: Body, a: Value, b: Value) -> Pair:
    low, high = body.pick(2.0**-40, 2.0**-400), body.pick(2.0**40, 2.0**400)
    large, small, ordinary = _sorted(body, a, b, low, high)
    size = body.intrinsic("sqrt", large * large + small * small)
    root = body.intrinsic("sqrt", (size + body.absolute(a)) * 0.5)
    other = body.absolute(b) / (root + root)
    right = a >= 0.0
    result = body.select(right, root, other), body.copysign(body.select(right, other, root), b)
    return _or_libm(body, "sqrt", (a, b), ordinary, result)


def _log(body: Body, a: Value, b: Value) -> Pair:
    low, high = body.pick(2.0**-40, 2.0**-400), body.pick(2.0**40, 2.0**400)
    large, small, ordinary = _sorted(body, a, b, low, high)
    square = large * large
    rest = small * small
    total = square + rest
    # Near |z| = 1 the logarithm needs |z|² - 1, with what rounding the squares dropped.
    dropped = body.fma(large, large, -square) + body.fma(small, small, -rest)
    above, first = exact_sum(square, body.lift(-1.0))
    above, second = exact_sum(above, rest)
    difference = above + (first + second + dropped)
    near = (total > 0.5) & (total < 2.0)
    exact = ~(near & (body.absolute(difference) < body.pick(2.0**-16, 2.0**-44)))
    close = body.apply("log1p", body.select(near, difference, 0.0))
    real = body.select(near, close, body.apply("log", total)) * 0.5
    return _or_libm(body, "log", (a, b), ordinary & exact, (real, body.apply("atan2", b, a)))


def _applied(body: Body, name: str, a: Value, b: Value) -> Pair:
    """Another function of this module."""
    symbol, snippets = complex_function(name, body.ty, body.lanes)
    body.need(snippets)
    both = f"{{{body.type()}, {body.type()}}}"
    found = body.call(symbol, a, b, returns=both).name
    return tuple(body.emit(f"extractvalue {both} {found}, {k}") for k in range(2))


def _pow(body: Body, a: Value, b: Value, c: Value, d: Value) -> Pair:
    """As NumPy: products for whole exponents below 100, exp(y log x) for the others."""
    size, angle = _applied(body, "log", a, b)
    found = _applied(body, "exp", *_multiply(body, size, angle, c, d))
    times = body.absolute(c)
    whole = d.equals(0.0) & body.intrinsic("floor", c).equals(c) & (times < 100.0)
    product = _whole_power(body, a, b, body.select(whole, times, 0.0))
    inverse = _reciprocal(body, *product)
    below = c < 0.0
    zero_base = a.equals(0.0) & b.equals(0.0)
    zero_exponent = c.equals(0.0) & d.equals(0.0)
    result = []
    for k in range(2):
        part = body.select(whole, body.select(below, inverse[k], product[k]), found[k])
        nothing = body.select(c > 0.0, 0.0, math.nan)
        part = body.select(zero_base, nothing, part)
        result.append(body.select(zero_exponent, 1.0 - k, part))
    return tuple(result)


def _whole_power(body: Body, a: Value, b: Value, exponent: Value) -> Pair:
    """A power from 0 to 127 by repeated squaring."""
    result: Pair = (body.lift(1.0), body.lift(0.0))
    power: Pair = (a, b)
    begun = body.lift(0, MASK)
    for position in range(7):
        half = body.intrinsic("floor", exponent * 0.5)
        odd = exponent.compare("one", half * 2.0)
        exponent = half
        if position:
            power = _multiply(body, *power, *power)
        taken = _multiply(body, *result, *power)
        # The first factor is not multiplied by 1: that would make NaNs of infinities.
        result = tuple(
            body.select(odd, body.select(begun, taken[k], power[k]), result[k]) for k in range(2)
        )
        begun = begun | odd
    return result


_EXACT: dict[str, Callable[..., Pair]] = {
    "multiply": _multiply, "divide": _divide, "reciprocal": _reciprocal, "abs": _abs,
}  # fmt: skip
_FAST: dict[str, Callable[..., Pair]] = {
    "exp": _exp, "log": _log, "sqrt": _sqrt, "sin": _sin, "cos": _cos, "tan": _tan, "sinh": _sinh,
    "cosh": _cosh, "tanh": _tanh, "pow": _pow,
}  # fmt: skip
