"""Formulas of ops that kernels compute from a few other functions of floats.

Each formula is compiled as one function on vectors. Declarations of ops refer to the formulas.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gradtape.caches import remembered
from gradtape.ir.math_function import Composition
from gradtape.ops.families import math_functions as mathlib
from gradtape.ops.families.math_functions import (
    COS,
    EXP,
    FLOOR,
    FMOD,
    LOG,
    LOG1P,
    RINT,
    SIN,
    TANH,
    TRUNC,
)

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import Body, VectorValue


def _maximum(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    return body.select(x.isnan(), x, body.select(x > y, x, y))


def _minimum(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    return body.select(x.isnan(), x, body.select(x < y, x, y))


def two_sum(a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
    """a + b, and the rounding error of that sum (Knuth's two-sum)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _sigmoid(body: Body, x: VectorValue) -> VectorValue:
    # exp(-|x|) never overflows, and both branches use it.
    small = body.apply(EXP, -body.absolute(x))
    return body.select(x >= 0.0, 1.0, small) / (small + 1.0)


def _sigmoid_slope(body: Body, x: VectorValue) -> VectorValue:
    small = body.apply(EXP, -body.absolute(x))
    whole = small + 1.0
    return small / (whole * whole)


def _tanh_slope(body: Body, x: VectorValue) -> VectorValue:
    return _sigmoid_slope(body, x + x) * 4.0


def _sigmoid_and_slope(body: Body, x: VectorValue) -> tuple[VectorValue, VectorValue]:
    small = body.apply(EXP, -body.absolute(x))
    large_part = 1.0 / (small + 1.0)
    small_part = small * large_part
    return body.select(x < 0.0, small_part, large_part), small_part * large_part


# (tanh(x) / x - 1) / x² as polynomials of x² where |x| < 0.55: relative errors of tanh are below
# 2e-9 and 2e-16. By bits of the fraction.
_TANH_NEAR_ZERO = {
    23: (-0.33333317, 0.1333258, -0.053851865, 0.021070254, -0.0062726075),
    52: (
        -0.33333333333332316,
        0.1333333333316638,
        -0.05396825387514208,
        0.02186948594946876,
        -0.00886319408098411,
        0.0035917155585186294,
        -0.0014531930578056758,
        0.0005790589903215448,
        -0.0002101659073362888,
        5.092338905760369e-05,
    ),
}


def _tanh_and_slope(body: Body, x: VectorValue) -> tuple[VectorValue, VectorValue]:
    if not body.fused:
        return body.apply(TANH, x), _tanh_slope(body, x)
    magnitude = body.absolute(x)
    small = body.apply(EXP, -(magnitude + magnitude))
    inverse = 1.0 / (small + 1.0)
    square = magnitude * magnitude
    # 1 - exp(-2 |x|) has few digits left where x is near zero.
    bend = square * body.polynomial(square, _TANH_NEAR_ZERO[body.fraction])
    near, far = body.fma(magnitude, bend, magnitude), (1.0 - small) * inverse
    value = body.copysign(body.select(magnitude < 0.55, near, far), x)
    return value, small * inverse * inverse * 4.0


def _softplus(body: Body, x: VectorValue) -> VectorValue:
    positive = body.select(x < 0.0, 0.0, x)
    return positive + body.apply(LOG1P, body.apply(EXP, -body.absolute(x)))


def _log_sigmoid(body: Body, x: VectorValue) -> VectorValue:
    return -_softplus(body, -x)


def _logaddexp(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    largest, smallest = _maximum(body, x, y), _minimum(body, x, y)
    distance, dropped = two_sum(smallest, -largest)
    # inf - inf is NaN, but the difference of equal operands must be 0.
    small = body.apply(EXP, body.select(x.equals(y), 0.0, distance))
    # The rounding error of the difference matters where operands are large and the result small.
    small = small + small * body.select(dropped.isnan(), 0.0, dropped)
    return largest + body.apply(LOG1P, small)


def _xlogy(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    zero = x.equals(0.0) & y.compare("ord", y)
    return body.select(zero, 0.0, x * body.apply(LOG, y))


def _multiply_no_nan(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    return body.select(y.equals(0.0), 0.0, x * y)


def _erfcinv(body: Body, x: VectorValue) -> VectorValue:
    # SciPy gives -0.0 at 1; adding 0 gives 0.0.
    return body.apply(mathlib.ERFCINV, x) + 0.0


def _erfcinv_slope(body: Body, x: VectorValue) -> VectorValue:
    # exp(y²) = erfcx(y) / erfc(y): the rounding error of y² is not multiplied by y².
    nearer = _minimum(body, x, 2.0 - x)
    found = body.apply(mathlib.ERFCX, body.apply(mathlib.ERFCINV, nearer)) / nearer
    return found * (-1.0 / (2.0 / math.sqrt(math.pi)))


@remembered(64)
def sinc_derivative(order: int) -> Composition:
    """A derivative of sinc: a series near 0, a recurrence elsewhere.

    The recurrence u sⁿ = sinⁿ(u) - n sⁿ⁻¹, where u = πx, multiplies errors by n / u at each step,
    and the terms of the series Σ ±uʲ / (j! (j+n+1)) grow with u: at u = n / 2 both lose little.
    """
    lowest = order % 2
    powers = range(lowest, lowest + 2 * (10 + order) + 1, 2)
    factors = [
        (-1.0 if (j + order) // 2 % 2 else 1.0) / (math.factorial(j) * (j + order + 1))
        for j in powers
    ]

    def write(body: Body, x: VectorValue) -> VectorValue:
        u = x * math.pi
        near = body.absolute(u) < max(1.0, order / 2.0)
        small, large = body.select(near, u, 0.0), body.select(near, 1.0, u)
        square, series = small * small, body.lift(factors[-1])
        for factor in factors[-2::-1]:
            series = series * square + factor
        series = series * small if lowest else series
        # sin(πx) = ± sin(π (x - n)) for the nearest integer n, and x - n is exact.
        nearest = body.apply(RINT, x)
        half = nearest * 0.5
        odd = half.compare("une", body.apply(RINT, half))
        angle = (x - nearest) * math.pi
        sine, cosine = body.apply(SIN, angle), body.apply(COS, angle)
        sine, cosine = body.select(odd, -sine, sine), body.select(odd, -cosine, cosine)
        derivatives = (sine, cosine, -sine, -cosine)
        far = sine / large
        for n in range(1, order + 1):
            far = (derivatives[n % 4] - far * float(n)) / large
        return body.select(near, series, far) * math.pi**order

    return Composition(f"sinc_{order}", write)


def _fmod(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    """Remainder with the sign of x, exact.

    If the integer part q of the quotient is exact, then so is x - q y, unless the quotient was
    rounded up to an integer: in that case the remainder is negative and y is added back.
    """
    if not body.fused:
        return body.apply(FMOD, x, y)
    a, b = body.absolute(x), body.absolute(y)
    quotient = a / b
    rest = body.fma(body.apply(TRUNC, quotient), -b, a)
    rest = body.copysign(body.select(rest < 0.0, rest + b, rest), x)
    # Also true for NaN, and if y is zero or infinite.
    hard = ~((quotient < 2.0**body.fraction) & (b < math.inf))
    return body.library_where(hard, FMOD, (x, y), rest)


def _remainder(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    rest = _fmod(body, x, y)
    exact = rest.equals(0.0)
    other = body.select((rest < 0.0) ^ (y < 0.0), rest + y, rest)
    return body.select(exact, body.copysign(body.lift(0.0), y), other)


def _floor_divide(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    rest = _fmod(body, x, y)
    quotient = x / y
    found = (x - rest) / y
    uneven = rest.compare("une", 0.0) & ((rest < 0.0) ^ (y < 0.0))
    found = body.select(uneven, found - 1.0, found)
    floor = body.apply(FLOOR, found)
    floor = body.select(found - floor > 0.5, floor + 1.0, floor)
    floor = body.select(found.equals(0.0), body.copysign(body.lift(0.0), quotient), floor)
    # The array API standard requires the plain quotient where an operand is infinite.
    plain = y.equals(0.0) | body.absolute(x).equals(math.inf) | body.absolute(y).equals(math.inf)
    return body.select(plain, quotient, floor)


def _nextafter(body: Body, x: VectorValue, y: VectorValue) -> VectorValue:
    one = body.integer(1)
    # Floats of one sign are ordered like their bits as integers; larger bits are further from zero.
    outward = (y > x) ^ (x < 0.0)
    step = body.select(outward, one, body.integer(-1))
    smallest = body.copysign(one.floats(), y)
    moved = body.select(x.equals(0.0), smallest, (x.bits() + step).floats())
    moved = body.select(x.equals(y), y, moved)
    return body.select(x.compare("uno", y), x + y, moved)


SIGMOID = Composition("sigmoid", _sigmoid)
SIGMOID_SLOPE = Composition(
    "sigmoid_slope", _sigmoid_slope, beside=SIGMOID, write_both=_sigmoid_and_slope
)
TANH_SLOPE = Composition("tanh_slope", _tanh_slope, beside=TANH, write_both=_tanh_and_slope)
SOFTPLUS = Composition("softplus", _softplus)
LOG_SIGMOID = Composition("log_sigmoid", _log_sigmoid)
LOGADDEXP = Composition("logaddexp", _logaddexp, 2)
XLOGY = Composition("xlogy", _xlogy, 2)
MULTIPLY_NO_NAN = Composition("multiply_no_nan", _multiply_no_nan, 2)
ERFCINV = Composition("erfcinv_of", _erfcinv)
ERFCINV_SLOPE = Composition("erfcinv_slope", _erfcinv_slope)
REMAINDER = Composition("remainder", _remainder, 2)
FLOOR_DIVIDE = Composition("floor_divide", _floor_divide, 2)
NEXTAFTER = Composition("nextafter", _nextafter, 2)
