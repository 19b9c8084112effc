"""Elementary functions of C's libm as polynomials in vector code.

Each reduces its argument to a small interval, where a minimax polynomial (fitted with Remez's
algorithm at 50 digits; the one of erfc at Chebyshev's points) approximates the function; comments
give its relative error. Total errors are below 2 ulp, those of erfc and ndtr below 3 ulp, subnormal
results included. All need fused multiply-add in hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gradtape.compiler.emit.math.vectors import FLOAT, Body, VectorValue
from gradtape.compiler.emit.writer import Typed, Word
from gradtape.compiler.objects import llvm
from gradtape.ir.math_function import MathFunction
from gradtape.ops.families import math_functions as mathlib

# exp(r) = 1 + r + r² P(r) for |r| <= ln(2)/2: 2^-26 and 2^-55.
_EXP = {
    "float": (
        0.4999999814311238,
        0.16666543176800233,
        0.04166720206735151,
        0.008366580499073673,
        0.001388249310820609,
    ),
    "double": (
        0.5000000000000006,
        0.16666666666666588,
        0.041666666666576105,
        0.00833333333338994,
        0.0013888888931796253,
        0.00019841269718390715,
        2.480150497760678e-05,
        2.755740781540154e-06,
        2.7626161871666045e-07,
        2.5053793697026546e-08,
    ),
}
# log(1 + f) = f - f²/2 + f³ P(f) for 3/4 <= 1 + f <= 3/2: 2^-27 and 2^-56.
_LOG = {
    "float": (
        0.3333344914422667,
        -0.2500009592787785,
        0.19990859726050383,
        -0.16647306501924733,
        0.14478407110492672,
        -0.13161272413864472,
        0.10463127009640806,
        -0.04507512096746786,
    ),
    "double": (
        0.3333333333333375,
        -0.25000000000010586,
        0.19999999999850201,
        -0.16666666663798138,
        0.14285714299932767,
        -0.12500000290781635,
        0.11111110773043031,
        -0.09999985538033487,
        0.09090893000156042,
        -0.08333704456465406,
        0.07693387715885561,
        -0.07138582182000412,
        0.06643355911917516,
        -0.062498410757776846,
        0.060830545648426805,
        -0.059681596638103115,
        0.050696586266420735,
        -0.029389486822368367,
        0.008091066815846204,
    ),
}
# sin(r) = r + r³ P(r²) for |r| <= π/2: 2^-27 and 2^-61.
_SIN = {
    "float": (
        -0.1666665894455814,
        0.008333049513157416,
        -0.00019808305124370957,
        2.6027753974418898e-06,
    ),
    "double": (
        -0.16666666666666666,
        0.008333333333333174,
        -0.0001984126984120141,
        2.7557319209775276e-06,
        -2.5052106746138785e-08,
        1.6058933250255884e-10,
        -7.642821409003286e-13,
        2.719364387063493e-15,
    ),
}
# erf(x) = x + x P(x²) for |x| <= 1, log(erfc(x)) = Q(x) for 1 <= x <= 4: 2^-29.
_ERF_SMALL = (
    0.12837916572682917,
    -0.3761262582368373,
    0.11283585142055534,
    -0.026853811673379135,
    0.005188327210657878,
    -0.000801018959933892,
    7.853848398861451e-05,
)
_ERF_LARGE = (
    0.0001884663483763856,
    -1.1295803044962556,
    -0.6332164105841889,
    -0.10842208499328046,
    0.025210330703083584,
    -0.004205281460424438,
    0.0004414719986197124,
    -2.169755954268852e-05,
)
# exp(x²) erfc(x) (x + 4) = P(t) for t = (x - 4) / (x + 4), up to where erfc is 0: 2^-28 and 2^-59.
_SCALED_ERFC = {
    "float": (
        1.0959956645965576,
        -0.9765487313270569,
        0.7732088565826416,
        -0.540852963924408,
        0.3308488130569458,
        -0.174025759100914,
        0.07638746500015259,
        -0.026278162375092506,
        0.006195326801389456,
        -0.0004329962539486587,
        -0.0007747735944576561,
    ),
    "double": (
        1.095995661000491,
        -0.976548729080882,
        0.7732087022652374,
        -0.5408538313132368,
        0.33085158787799085,
        -0.1740109372398645,
        0.07638151490993866,
        -0.02637005334154019,
        0.006112055646301874,
        -0.0002809588544600414,
        -0.00045505260369331697,
        0.00017681276235889215,
        -3.6355961487298794e-06,
        -1.8860729646756052e-05,
        4.6958644741193655e-06,
        1.4240059955447907e-06,
        -8.494215484449161e-07,
        -7.568853688031865e-08,
        1.2867215146802265e-07,
        1.6999320255878013e-09,
        -1.9098527570864875e-08,
        -9.158831426055293e-10,
        2.2681123161281883e-09,
        4.805436123800187e-10,
    ),
}
# Constants as sums of numbers of the type, the largest first.
_PI = {
    "float": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    "double": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
_LN2 = {
    "float": (0.6931471824645996, -1.9046542121259336e-09),
    "double": (0.6931471805599453, 2.3190468138462996e-17),
}
_LOG10_2 = {
    "float": (0.3010300099849701, -1.4320989e-08),
    "double": (0.3010299956639812, -2.8037281277851704e-18),
}
# 1 / ln(base).
_BINARY_SCALE = {
    "float": (1.4426950216293335, 1.925963033500e-08),
    "double": (1.4426950408889634, 2.0355273740931033e-17),
}
_DECIMAL_SCALE = {
    "float": (0.4342944920063019, -1.0103049952192e-08),
    "double": (0.4342944819032518, 1.098319650216765e-17),
}
_ROOT_HALF = {
    "float": (0.7071067690849304, 1.2101617485882343e-08),
    "double": (0.7071067811865476, -4.833646656726457e-17),
}
Scale = dict[str, tuple[float, float]]


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
    high, low = _LN2[body.ty]
    r = body.fma(n, -low, body.fma(n, -high, x))
    return shifted, _small_expm1(body, r)


def _small_expm1(body: Body, r: VectorValue) -> VectorValue:
    return body.fma(r * r, body.polynomial(r, _EXP[body.ty]), r)


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
    return f * f * body.fma(f, body.polynomial(f, _LOG[body.ty]), -0.5)


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
    high, low = _LN2[body.ty]
    return body.fma(n, high, f + body.fma(n, low, _log1p_tail(body, f)))


def log(body: Body, x: VectorValue) -> VectorValue:
    """Natural logarithm: n ln 2 + log(1 + f)."""
    return _logarithm(body, x, _natural)


def _scaled_logarithm(body: Body, f: VectorValue, scale: Scale) -> VectorValue:
    tail = _log1p_tail(body, f)
    total = f + tail
    rest = tail - (total - f)
    high, low = scale[body.ty]
    return body.fma(total, high, body.fma(total, low, rest * high))


def log2(body: Body, x: VectorValue) -> VectorValue:
    """Logarithm to base 2, exact for powers of 2."""
    return _logarithm(body, x, lambda body, n, f: n + _scaled_logarithm(body, f, _BINARY_SCALE))


def _decimal(body: Body, n: VectorValue, f: VectorValue) -> VectorValue:
    high, low = _LOG10_2[body.ty]
    return body.fma(n, high, body.fma(n, low, _scaled_logarithm(body, f, _DECIMAL_SCALE)))


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
    return body.fma(r * square, body.polynomial(square, _SIN[body.ty]), r)


def _less_multiple_of_pi(body: Body, x: VectorValue, multiple: VectorValue) -> VectorValue:
    # The first difference is exact: its bits fit. Near a multiple of π only the others are left,
    # each rounded relative to itself.
    for part in _PI[body.ty]:
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
    near = body.fma(x, body.polynomial(x * x, _ERF_SMALL), x)
    limited = body.select(magnitude > 4.0, 4.0, magnitude)
    shifted, small = _reduced_exp(body, body.polynomial(limited, _ERF_LARGE))
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
        high, low = _ROOT_HALF[body.ty]
        z = x * high
        lost = body.fma(x, low, body.fma(x, high, -z))
    whole = z + 4.0
    inverse = 1.0 / whole
    # 1 / (z + 4) is inverse (1 + off).
    off = body.fma(-((z - (whole - 4.0)) + lost), inverse, body.fma(-whole, inverse, 1.0))
    t = body.fma(inverse * -8.0, off, body.fma(inverse, -8.0, 1.0))
    lowest, following, *others = _SCALED_ERFC[body.ty]
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


POLYNOMIALS: dict[tuple[MathFunction, str], Callable[[Body, VectorValue], VectorValue]] = {
    (function, ty): write
    for function, write in (
        (mathlib.COS, cos),
        (mathlib.ERFC, erfc),
        (mathlib.EXP, exp),
        (mathlib.EXP2, exp2),
        (mathlib.EXPM1, expm1),
        (mathlib.LOG, log),
        (mathlib.LOG10, log10),
        (mathlib.LOG1P, log1p),
        (mathlib.LOG2, log2),
        (mathlib.NDTR, ndtr),
        (mathlib.SIN, sin),
        (mathlib.TANH, tanh),
    )
    for ty in ("float", "double")
}
# Two polynomials are too few for the precision of float64.
POLYNOMIALS[mathlib.ERF, "float"] = erf
