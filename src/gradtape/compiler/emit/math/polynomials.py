"""Elementary functions of C's libm as polynomials in vector code.

Each reduces its argument to a small interval, where a minimax polynomial (fitted with Remez's
algorithm at 50 digits; the one of erfc at Chebyshev's points) approximates the function; comments
give its relative error. Total errors are below 2 ulp, those of erfc and ndtr below 3 ulp, subnormal
results included. All need fused multiply-add in hardware.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from gradtape.compiler.emit.math.vectors import FLOAT, Body, VectorValue
from gradtape.compiler.emit.writer import Typed, Word
from gradtape.compiler.objects import llvm
from gradtape.ir.math_function import MathFunction
from gradtape.ops.families import math_functions as mathlib

# Coefficients from the lowest power, and constants as sums of numbers, the largest first, by type:
# - exp(r) = 1 + r + r² exp_rest(r) for |r| <= ln(2)/2: 2^-26 and 2^-55
# - log(1 + f) = f - f²/2 + f³ log_rest(f) for 3/4 <= 1 + f <= 3/2: 2^-27 and 2^-56
# - sin(r) = r + r³ sin_rest(r²) for |r| <= π/2: 2^-27 and 2^-61
# - erf(x) = x + x erf_small(x²) for |x| <= 1, log(erfc(x)) = erf_large(x) for 1 <= x <= 4: 2^-29
# - exp(x²) erfc(x) (x + 4) = scaled_erfc(t) for t = (x - 4) / (x + 4), up to where erfc is 0:
#   2^-28 and 2^-59
# - pi, ln2, log10_2, binary_scale = 1 / ln(2), decimal_scale = 1 / ln(10), root_half = √½
_TABLE: dict[str, dict[str, list[float]]] = json.loads(
    Path(__file__).with_name("coefficients.json").read_text(encoding="utf-8")
)


def _magic(body: Body) -> float:
    # A sum with this number holds the nearest integer in its lowest bits.
    return body.pick(1.5 * 2.0**23, 1.5 * 2.0**52)


def _limited(body: Body, x: VectorValue, low: float, high: float) -> VectorValue:
    """x, not below `low` and not above `high`; NaN stays."""
    x = body.select(x > high, high, x)
    return body.select(x < low, low, x)


def _wide(body: Body) -> bool:
    """Whether vectors are AVX-512's, which takes numbers apart and scales them in hardware."""
    return llvm.host().bits == 512 and body.lanes * body.width == 512


def _instruction(body: Body, name: str, *operands: Word) -> VectorValue:
    """One of AVX-512's masked instructions, on all lanes, with the current rounding."""
    kind, first = body.type(), operands[0]
    symbol = f"@llvm.x86.avx512.mask.{name}.p{body.ty[0].replace('f', 's')}.512"
    rest = (first, Typed("-1", f"i{body.lanes}"), "i32 4")
    return VectorValue(body, body.r.call(kind, symbol, *operands, *rest), FLOAT)


def _scaled(body: Body, x: VectorValue, shifted: VectorValue) -> VectorValue:
    """x 2^n, where n is the integer in the lowest bits of `shifted`."""
    if _wide(body):
        return _instruction(body, "scalef", x.name, (shifted - _magic(body)).name)
    # Two factors, so that each is a normal number and a subnormal result is rounded once.
    magic = body.lift(_magic(body)).bits()
    twice = shifted.bits() - magic + 2 * body.bias
    first = twice.shift_right(1)
    second = twice - first
    return x * (first << body.fraction).floats() * (second << body.fraction).floats()


def _reduced_exp(body: Body, x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """n with magic added, and exp(r) - 1, where x = n ln 2 + r."""
    shifted = body.fma(x, 1.0 / math.log(2.0), _magic(body))
    n = shifted - _magic(body)
    high, low = _TABLE["ln2"][body.ty]
    r = body.fma(n, -low, body.fma(n, -high, x))
    return shifted, _small_expm1(body, r)


def _small_expm1(body: Body, r: VectorValue) -> VectorValue:
    return body.fma(r * r, body.polynomial(r, _TABLE["exp_rest"][body.ty]), r)


def exp(body: Body, x: VectorValue) -> VectorValue:
    """Exponential: 2^n exp(r)."""
    x = _limited(body, x, body.pick(-104.0, -746.0), body.pick(89.0, 710.0))
    shifted, small = _reduced_exp(body, x)
    return _scaled(body, small + 1.0, shifted)


def exp2(body: Body, x: VectorValue) -> VectorValue:
    """Power of two: x - n is exact, so only one product is rounded."""
    x = _limited(body, x, body.pick(-151.0, -1077.0), body.pick(129.0, 1025.0))
    shifted = x + _magic(body)
    r = (x - (shifted - _magic(body))) * math.log(2.0)
    return _scaled(body, _small_expm1(body, r) + 1.0, shifted)


def expm1(body: Body, x: VectorValue) -> VectorValue:
    """exp(x) - 1 as 2 (2^(n-1) (exp(r) - 1) + 2^(n-1) - 1/2): no overflow before the result's."""
    limited = _limited(body, x, body.pick(-40.0, -60.0), body.pick(89.0, 710.0))
    shifted, small = _reduced_exp(body, limited)
    half = ((shifted.bits() + (body.bias - 1)) << body.fraction).floats()
    result = body.fma(small, half, half - 0.5) * 2.0
    # Keeps the sign of zero and the last bit of subnormal numbers.
    return body.select(body.absolute(x) < body.pick(2.0**-30, 2.0**-60), x, result)


def _split_logarithm(body: Body, x: VectorValue) -> tuple[VectorValue, VectorValue]:
    """The exponent n as integers and f, where x = 2^n (1 + f) is a positive normal number."""
    lowest = body.lift(0.75).bits()
    n = (x.bits() - lowest).shift_right(body.fraction, signed=True)
    return n, (x.bits() - (n << body.fraction)).floats() - 1.0


def _integers_to_floats(body: Body, n: VectorValue) -> VectorValue:
    # By magic: not every processor converts 64-bit integers in vectors.
    magic = body.lift(_magic(body))
    return (n + magic.bits()).floats() - magic


def _log1p_tail(body: Body, f: VectorValue) -> VectorValue:
    """log(1 + f) - f."""
    return f * f * body.fma(f, body.polynomial(f, _TABLE["log_rest"][body.ty]), -0.5)


def _logarithm(
    body: Body, x: VectorValue, combine: Callable[[Body, VectorValue, VectorValue], VectorValue]
) -> VectorValue:
    """A logarithm; `combine` computes it from n and f, where x = 2^n (1 + f)."""
    if _wide(body):
        # 11 is the mantissa in [3/4, 3/2), NaN for negative numbers.
        mantissa = _instruction(body, "getmant", x.name, "i32 11")
        n, lower = (_instruction(body, "getexp", value.name) for value in (x, mantissa))
        n, f = n - lower, mantissa - 1.0
        # Zero and infinity have infinite exponents, and f = 0 unless the sign is wrong.
        return body.select((n - n).equals(0.0), combine(body, n, f), n + f)
    subnormal = x < body.pick(2.0**-126, 2.0**-1022)
    shift = body.fraction
    exponent, f = _split_logarithm(body, body.select(subnormal, x * 2.0**shift, x))
    exponent = exponent - body.select(subnormal, body.integer(shift), body.integer(0))
    result = combine(body, _integers_to_floats(body, exponent), f)
    result = body.select(x < math.inf, result, x)
    return body.select(x > 0.0, result, body.select(x.equals(0.0), -math.inf, math.nan))


def _natural(body: Body, n: VectorValue, f: VectorValue) -> VectorValue:
    high, low = _TABLE["ln2"][body.ty]
    return body.fma(n, high, f + body.fma(n, low, _log1p_tail(body, f)))


def log(body: Body, x: VectorValue) -> VectorValue:
    """Natural logarithm: n ln 2 + log(1 + f)."""
    return _logarithm(body, x, _natural)


def _scaled_logarithm(body: Body, f: VectorValue, scale: str) -> VectorValue:
    tail = _log1p_tail(body, f)
    total = f + tail
    rest = tail - (total - f)
    high, low = _TABLE[scale][body.ty]
    return body.fma(total, high, body.fma(total, low, rest * high))


def log2(body: Body, x: VectorValue) -> VectorValue:
    """Logarithm to base 2, exact for powers of 2."""
    return _logarithm(body, x, lambda body, n, f: n + _scaled_logarithm(body, f, "binary_scale"))


def _decimal(body: Body, n: VectorValue, f: VectorValue) -> VectorValue:
    high, low = _TABLE["log10_2"][body.ty]
    return body.fma(n, high, body.fma(n, low, _scaled_logarithm(body, f, "decimal_scale")))


def log10(body: Body, x: VectorValue) -> VectorValue:
    """Logarithm to base 10."""
    return _logarithm(body, x, _decimal)


def log1p(body: Body, x: VectorValue) -> VectorValue:
    """log(1 + x): the rounding error of 1 + x is added to f."""
    total = x + 1.0
    large = x > 1.0
    dropped = body.select(large, 1.0 - (total - x), x - (total - 1.0))
    n, f = _split_logarithm(body, total)
    # One more than the exponent of 2^-n, which may be too small to be stored.
    raised = ((body.integer(body.bias + 1) - n) << body.fraction).floats()
    f = body.fma(dropped, raised * 0.5, f)
    result = body.copysign(_natural(body, _integers_to_floats(body, n), f), x)
    result = body.select(x.compare("ult", math.inf), result, x)
    outside = body.select(x.equals(-1.0), -math.inf, math.nan)
    return body.select(x.compare("ogt", -1.0), result, body.select(x.isnan(), x, outside))


def _small_sine(body: Body, r: VectorValue) -> VectorValue:
    """Sine for |r| <= π/2."""
    square = r * r
    return body.fma(r * square, body.polynomial(square, _TABLE["sin_rest"][body.ty]), r)


def _less_multiple_of_pi(body: Body, x: VectorValue, multiple: VectorValue) -> VectorValue:
    # The first difference is exact: its bits fit. Near a multiple of π only the others are left,
    # each rounded relative to itself.
    for part in _TABLE["pi"][body.ty]:
        x = body.fma(multiple, -part, x)
    return x


def sin(body: Body, x: VectorValue) -> VectorValue:
    """Sine: r = |x| - n π, and the sign of (-1)^n x."""
    magnitude = body.absolute(x)
    shifted = body.fma(magnitude, 1.0 / math.pi, _magic(body))
    r = _less_multiple_of_pi(body, magnitude, shifted - _magic(body))
    sign = (shifted.bits() << (body.width - 1)) ^ (x.bits() ^ magnitude.bits())
    return _unless_far(
        body, mathlib.SIN, x, magnitude, (_small_sine(body, r).bits() ^ sign).floats()
    )


def cos(body: Body, x: VectorValue) -> VectorValue:
    """Cosine: r = |x| - (n + 1/2) π, and minus the sign of (-1)^n."""
    magnitude = body.absolute(x)
    shifted = body.fma(magnitude, 1.0 / math.pi, -0.5) + _magic(body)
    r = _less_multiple_of_pi(body, magnitude, (shifted - _magic(body)) + 0.5)
    sign = ~shifted.bits() << (body.width - 1)
    return _unless_far(
        body, mathlib.COS, x, magnitude, (_small_sine(body, r).bits() ^ sign).floats()
    )


def _unless_far(
    body: Body, function: MathFunction, x: VectorValue, magnitude: VectorValue, result: VectorValue
) -> VectorValue:
    """The result; libm's where |x| has too many periods to count here, infinities included."""
    far = magnitude > body.pick(2.0**17, 2.0**30)
    return body.library_where(far, function, (x,), result)


def tanh(body: Body, x: VectorValue) -> VectorValue:
    """E / (E + 2), where E = exp(2 |x|) - 1."""
    magnitude = body.absolute(x)
    doubled = magnitude + magnitude
    limited = body.select(doubled > body.pick(20.0, 45.0), body.pick(20.0, 45.0), doubled)
    shifted, small = _reduced_exp(body, limited)
    power = ((shifted.bits() + body.bias) << body.fraction).floats()
    grown = body.fma(small, power, power - 1.0)
    result = body.copysign(grown / (grown + 2.0), x)
    # Here tanh(x) rounds to x, and doubling and halving x may lose its last bit.
    return body.select(magnitude < body.pick(2.0**-14, 2.0**-28), x, result)


def erf(body: Body, x: VectorValue) -> VectorValue:
    """Error function in float32: a polynomial, or 1 - exp(Q(|x|)) from 1 on."""
    magnitude = body.absolute(x)
    near = body.fma(x, body.polynomial(x * x, _TABLE["erf_small"][body.ty]), x)
    limited = body.select(magnitude > 4.0, 4.0, magnitude)
    shifted, small = _reduced_exp(body, body.polynomial(limited, _TABLE["erf_large"][body.ty]))
    power = ((shifted.bits() + body.bias) << body.fraction).floats()
    far = body.copysign((1.0 - power) - power * small, x)
    return body.select(magnitude < 1.0, near, far)


def _upper_tail(body: Body, x: VectorValue, halved: bool) -> VectorValue:
    """erfc(x) for x >= 0, or erfc(x / √2) if `halved`.

    The argument of exp, x / √2 and the divisor are rounded; the result is corrected for that.
    """
    square = x * x
    dropped = body.fma(x, x, -square)
    z, lost = x, body.lift(0.0)
    if halved:
        high, low = _TABLE["root_half"][body.ty]
        z = x * high
        lost = body.fma(x, low, body.fma(x, high, -z))
    whole = z + 4.0
    inverse = 1.0 / whole
    # 1 / (z + 4) is inverse (1 + off).
    off = body.fma(-((z - (whole - 4.0)) + lost), inverse, body.fma(-whole, inverse, 1.0))
    t = body.fma(inverse * -8.0, off, body.fma(inverse, -8.0, 1.0))
    lowest, following, *others = _TABLE["scaled_erfc"][body.ty]
    # The sums of the two largest terms are kept with their rounding errors.
    rest = body.polynomial(t, others)
    inner = body.fma(t, rest, following)
    value = body.fma(t, inner, lowest)
    below = body.fma(t, body.fma(t, rest, following - inner), body.fma(t, inner, lowest - value))
    exponent = -0.5 if halved else -1.0
    off = body.fma(dropped, exponent, off)
    shifted, small = _reduced_exp(body, square * exponent)
    grown = small + 1.0
    scaled = inverse * value
    error = body.fma(inverse, value, -scaled)
    small = body.fma(off, grown, small)
    error = grown * body.fma(inverse, below, error)
    return _scaled(body, scaled + body.fma(scaled, small, error), shifted)


def erfc(body: Body, x: VectorValue) -> VectorValue:
    """1 - erf(x); exact where that is small."""
    tail = _upper_tail(body, _limited(body, body.absolute(x), 0.0, body.pick(10.6, 27.9)), False)
    return body.select(x < 0.0, 2.0 - tail, tail)


def ndtr(body: Body, x: VectorValue) -> VectorValue:
    """The normal distribution: half of erfc(-x / √2), and no rounding of that argument."""
    limited = _limited(body, body.absolute(x), 0.0, body.pick(14.9, 39.4))
    tail = _upper_tail(body, limited, True) * 0.5
    return body.select(x > 0.0, 1.0 - tail, tail)


_WRITERS = (cos, erfc, exp, exp2, expm1, log, log10, log1p, log2, ndtr, sin, tanh)
POLYNOMIALS: dict[tuple[MathFunction, str], Callable[[Body, VectorValue], VectorValue]] = {
    (getattr(mathlib, write.__name__.upper()), ty): write
    for write in _WRITERS
    for ty in ("float", "double")
}
# Two polynomials are too few for the precision of float64.
POLYNOMIALS[mathlib.ERF, "float"] = erf
