"""Functions of complex numbers as pairs of vectors, by formulas or by C's <complex.h>.

A formula in real functions holds where nothing overflows, underflows or cancels. If any lane is
outside that range, libm's complex function computes the whole vector lane by lane: it gives the
right results for infinities, NaNs and signed zeros.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from gradtape.caches import remembered
from gradtape.compiler.emit.math import mathlibrary
from gradtape.compiler.emit.math.vectormath import accurate_function
from gradtape.compiler.emit.math.vectors import MASK, Body, VectorValue
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import FoundFunction, vector
from gradtape.ir.math_function import MathFunction, NotLowered
from gradtape.ops.elementwise.compositions import two_sum
from gradtape.ops.families import math_functions as mathlib

Pair = tuple[VectorValue, ...]
ComplexFormula = Callable[..., Pair]
# Up to where products of hyperbolic functions do not overflow, in float32 and in float64; and up
# to where their squares do not.
_PRODUCTS = (80.0, 700.0)
_SQUARES = (20.0, 170.0)


def complex_function(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """The symbol of a function on complex vectors, and the snippets that the module must contain.

    Each operand is two vectors, real and imaginary part, and the result is `{real, imaginary}`. A
    function that this machine lacks raises NotLowered.
    """
    return _complex_function(function, ty, lanes, mathlibrary.preference())


@remembered(256)
def _complex_function(
    function: MathFunction, ty: str, lanes: int, preference: str
) -> FoundFunction:
    known = llvm.host().machine in ("x86_64", "aarch64") and sys.platform != "win32"
    if not function.has_complex or not known:
        raise NotLowered(f"{function.name} of complex numbers")
    formula = _FORMULAS.get(function)
    if formula is None or (preference == "scalar" and function not in _NEEDED):
        return _lane_by_lane(function, ty, lanes)
    body = Body(ty, lanes, accurate_function)
    return body.function(f"complex_{function.name}", 2 * function.arity, formula)


@remembered(32)
def quotient(ty: str, lanes: int) -> FoundFunction:
    """The function that divides two complex vectors, as `complex_function` gives it."""
    return Body(ty, lanes, accurate_function).function("complex_quotient", 4, _divide)


def _lane_by_lane(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """A function of <complex.h>, called once per lane."""
    target = f"c{function.name}" + ("f" if ty == "float" else "")
    kind = vector(ty, lanes)
    if not mathlibrary.c_symbol(target):
        raise NotLowered(f"libm has no {target}")
    # On x86-64 two floats are packed in one register; all else is passed in two registers.
    packed = ty == "float" and llvm.host().machine == "x86_64"
    scalar = "<2 x float>" if packed else f"{{{ty}, {ty}}}"
    symbol = f"gradtape_lanes_complex_{function.name}_{ty}{lanes}"
    r = Routine(f"internal {{{kind}, {kind}}} @{symbol}({kind} %a, {kind} %b) cold noinline")
    found = [Typed("poison", kind)] * 2
    for lane in range(lanes):
        given = [r.lane(whole, lane) for whole in ("%a", "%b")]
        if packed:
            both = Typed("poison", scalar)
            for k, part in enumerate(given):
                both = r.with_lane(both, k, part)
            both = r.call(scalar, f"@{target}", both)
            given = [r.lane(both, k) for k in range(2)]
        else:
            given = r.parts(r.call(scalar, f"@{target}", *given))
        if lanes > 1:
            given = [r.with_lane(*each) for each in zip(found, (lane, lane), given, strict=True)]
        found = given
    r.give(r.together(*found))
    return symbol, (*r.definitions, r.text())


def _or_libm(
    body: Body, function: MathFunction, operands: Pair, ordinary: VectorValue, result: Pair
) -> Pair:
    """The result if all lanes are ordinary, else libm's."""
    found = _lane_by_lane(function, body.ty, body.lanes)
    return body.unless(~ordinary, result, found, *operands)


def _multiply(body: Body, a: VectorValue, b: VectorValue, c: VectorValue, d: VectorValue) -> Pair:
    return a * c - b * d, a * d + b * c


def _divide(body: Body, a: VectorValue, b: VectorValue, c: VectorValue, d: VectorValue) -> Pair:
    """Smith's method, in NumPy's order of operations."""
    real, imaginary = body.absolute(c), body.absolute(d)
    # Both parts are divided by the larger part of the divisor, so that nothing overflows.
    first = real.compare("oge", imaginary)
    large, small = body.select(first, c, d), body.select(first, d, c)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    upper = body.select(first, a + b * ratio, a * ratio + b) * scale
    lower = body.select(first, b - a * ratio, b * ratio - a) * scale
    zero = real.equals(0.0) & imaginary.equals(0.0)
    return body.select(zero, a / real, upper), body.select(zero, b / real, lower)


def _reciprocal(body: Body, a: VectorValue, b: VectorValue) -> Pair:
    return _divide(body, body.lift(1.0), body.lift(0.0), a, b)


def _exp(body: Body, a: VectorValue, b: VectorValue) -> Pair:
    size = body.apply(mathlib.EXP, a)
    result = size * body.apply(mathlib.COS, b), size * body.apply(mathlib.SIN, b)
    ordinary = (body.absolute(a) < body.pick(87.0, 708.0)) & (body.absolute(b) < math.inf)
    return _or_libm(body, mathlib.EXP, (a, b), ordinary, result)


def _hyperbolic(body: Body, x: VectorValue) -> Pair:
    """sinh and cosh, from exp(|x|) - 1."""
    grown = body.apply(mathlib.EXPM1, body.absolute(x))
    shrunk = grown / (grown + 1.0)
    return body.copysign((grown + shrunk) * 0.5, x), grown * shrunk * 0.5 + 1.0


def _waves(
    function: MathFunction,
    limits: tuple[float, float],
    write: Callable[..., Pair],
    exchanged: bool = False,
) -> ComplexFormula:
    """A formula of sine and cosine of one part, and of sinh and cosh of the other.

    Of hyperbolic functions the parts are exchanged before and after: sinh z = -i sin iz.
    """

    def formula(body: Body, a: VectorValue, b: VectorValue) -> Pair:
        angle, size = (b, a) if exchanged else (a, b)
        ordinary = (body.absolute(size) < body.pick(*limits)) & (body.absolute(angle) < math.inf)
        waves = body.apply(mathlib.SIN, angle), body.apply(mathlib.COS, angle)
        result = write(*waves, *_hyperbolic(body, size))
        return _or_libm(body, function, (a, b), ordinary, result[::-1] if exchanged else result)

    return formula


def _sin(sine: VectorValue, cosine: VectorValue, sinh: VectorValue, cosh: VectorValue) -> Pair:
    return sine * cosh, cosine * sinh


def _cos(sine: VectorValue, cosine: VectorValue, sinh: VectorValue, cosh: VectorValue) -> Pair:
    return cosine * cosh, -(sine * sinh)


def _cosh(sine: VectorValue, cosine: VectorValue, sinh: VectorValue, cosh: VectorValue) -> Pair:
    return sinh * sine, cosh * cosine


def _tan(sine: VectorValue, cosine: VectorValue, sinh: VectorValue, cosh: VectorValue) -> Pair:
    below = cosine * cosine + sinh * sinh
    return sine * cosine / below, sinh * cosh / below


def _tanh(body: Body, a: VectorValue, b: VectorValue) -> Pair:
    real, imaginary = _waves(mathlib.TANH, _SQUARES, _tan, exchanged=True)(body, a, b)
    # At infinity the imaginary zero has the sign of sin(2b) in C; the array API requires that of b.
    limit = body.absolute(a).equals(math.inf) & (body.absolute(b) < math.inf)
    return real, body.select(limit, body.copysign(body.lift(0.0), b), imaginary)


def _sorted(
    body: Body, a: VectorValue, b: VectorValue, low: float, high: float
) -> tuple[VectorValue, VectorValue, VectorValue]:
    """The larger and the smaller of |a| and |b|, and where their squares are safe."""
    x, y = body.absolute(a), body.absolute(b)
    swap = x < y
    large, small = body.select(swap, y, x), body.select(swap, x, y)
    # A NaN in either makes one of the sums NaN, and the comparison false.
    return large, small, (large > low) & (large + small < high)


def _sqrt(body: Body, a: VectorValue, b: VectorValue) -> Pair:
    low, high = body.pick(2.0**-40, 2.0**-400), body.pick(2.0**40, 2.0**400)
    large, small, ordinary = _sorted(body, a, b, low, high)
    size = body.apply(mathlib.SQRT, large * large + small * small)
    root = body.apply(mathlib.SQRT, (size + body.absolute(a)) * 0.5)
    other = body.absolute(b) / (root + root)
    right = a >= 0.0
    result = body.select(right, root, other), body.copysign(body.select(right, other, root), b)
    return _or_libm(body, mathlib.SQRT, (a, b), ordinary, result)


def _log(body: Body, a: VectorValue, b: VectorValue) -> Pair:
    low, high = body.pick(2.0**-40, 2.0**-400), body.pick(2.0**40, 2.0**400)
    large, small, ordinary = _sorted(body, a, b, low, high)
    square = large * large
    rest = small * small
    total = square + rest
    # Near |z| = 1 the logarithm needs |z|² - 1, with the rounding errors of the squares.
    dropped = body.fma(large, large, -square) + body.fma(small, small, -rest)
    above, first = two_sum(square, body.lift(-1.0))
    above, second = two_sum(above, rest)
    difference = above + (first + second + dropped)
    near = (total > 0.5) & (total < 2.0)
    exact = ~(near & (body.absolute(difference) < body.pick(2.0**-16, 2.0**-44)))
    close = body.apply(mathlib.LOG1P, body.select(near, difference, 0.0))
    real = body.select(near, close, body.apply(mathlib.LOG, total)) * 0.5
    return _or_libm(
        body, mathlib.LOG, (a, b), ordinary & exact, (real, body.apply(mathlib.ATAN2, b, a))
    )


def _applied(body: Body, function: MathFunction, a: VectorValue, b: VectorValue) -> Pair:
    """Another function of complex numbers."""
    return body.call(complex_function(function, body.ty, body.lanes), a, b, results=2)


def _pow(body: Body, a: VectorValue, b: VectorValue, c: VectorValue, d: VectorValue) -> Pair:
    """As NumPy: products for whole exponents below 100, exp(y log x) for the others."""
    size, angle = _applied(body, mathlib.LOG, a, b)
    found = _applied(body, mathlib.EXP, *_multiply(body, size, angle, c, d))
    times = body.absolute(c)
    whole = d.equals(0.0) & body.apply(mathlib.FLOOR, c).equals(c) & (times < 100.0)
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


def _whole_power(body: Body, a: VectorValue, b: VectorValue, exponent: VectorValue) -> Pair:
    """A power from 0 to 127 by repeated squaring."""
    result: Pair = (body.lift(1.0), body.lift(0.0))
    power: Pair = (a, b)
    begun = body.lift(0, MASK)
    for position in range(7):
        half = body.apply(mathlib.FLOOR, exponent * 0.5)
        odd = exponent.compare("one", half * 2.0)
        exponent = half
        if position:
            power = _multiply(body, *power, *power)
        taken = _multiply(body, *result, *power)
        # The first factor is not multiplied by 1, which would turn infinities into NaNs.
        result = tuple(
            body.select(odd, body.select(begun, taken[k], power[k]), result[k]) for k in range(2)
        )
        begun = begun | odd
    return result


_FORMULAS: dict[MathFunction, ComplexFormula] = {
    mathlib.EXP: _exp,
    mathlib.LOG: _log,
    mathlib.SQRT: _sqrt,
    mathlib.SIN: _waves(mathlib.SIN, _PRODUCTS, _sin),
    mathlib.COS: _waves(mathlib.COS, _PRODUCTS, _cos),
    mathlib.TAN: _waves(mathlib.TAN, _SQUARES, _tan),
    mathlib.SINH: _waves(mathlib.SINH, _PRODUCTS, _sin, exchanged=True),
    mathlib.COSH: _waves(mathlib.COSH, _PRODUCTS, _cosh, exchanged=True),
    mathlib.TANH: _tanh,
    mathlib.POW: _pow,
}
# Functions that C computes otherwise than NumPy or the array API standard do.
_NEEDED = frozenset((mathlib.TANH, mathlib.POW))
