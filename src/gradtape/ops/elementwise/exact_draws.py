"""Formulas of random numbers in operations that IEEE 754 rounds exactly, in a fixed order.

One key must give the same numbers in every tier and on every machine, but the functions of NumPy,
libm and our kernels differ in their last bits. These formulas use no function but the square root.
They are written once: kernels write them with vectors of IR, and NumPy runs them on `Numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.config import DRAWN_AT_ONCE
from gradtape.dtypes import Array, DType
from gradtape.ops.families.math_functions import FLOOR, SQRT
from gradtape.ops.families.numpy_body import computed

# Terms of the series: by the number of bits of the fraction.
_LOG_TERMS = {52: 10, 23: 5}
_ANGLE_TERMS = {52: 8, 23: 5}
# The bits of √½, so that the mantissa lies between this and its double.
_ROOT_HALF = {52: 0x3FE6A09E667F3BCD, 23: 0x3F3504F3}
# ln 2 in two parts: multiples of the first by an exponent are exact.
_LN2 = {52: 0.6931471803691238, 23: 0.693115234375}
_LN2_REST = {52: 1.9082149292705877e-10, 23: 3.194618329871446e-05}


def normal_pair(body: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Box-Muller: a radius and an angle from two uniform numbers in [0, 1)."""
    radius = body.apply(SQRT, logarithm(body, 1.0 - first) * -2.0)
    cosine, sine = _turned(body, second)
    return radius * cosine, radius * sine


def exponential(body: Any, uniform: Any) -> tuple[Any]:
    """Minus the logarithm of a uniform number that is never 0."""
    return (-logarithm(body, 1.0 - uniform),)


def logarithm(body: Any, x: Any) -> Any:
    """log(x) of normal positive numbers: 2 artanh((m - 1) / (m + 1)) + e log(2)."""
    bits = x.bits()
    exponent = (bits - _ROOT_HALF[body.fraction]).shift_right(body.fraction, signed=True)
    mantissa = (bits - (exponent << body.fraction)).floats()
    power = exponent.converted()
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    terms = _LOG_TERMS[body.fraction]
    tail = _series(body, square, [1.0 / (2 * k + 1) for k in range(1, terms + 1)])
    twice = ratio + ratio
    small = twice + twice * (square * tail)
    return power * _LN2[body.fraction] + (small + power * _LN2_REST[body.fraction])


def _turned(body: Any, turns: Any) -> tuple[Any, Any]:
    """Cosine and sine of an angle in turns, from 0 to 1."""
    quarters = turns * 4.0
    nearest = body.apply(FLOOR, quarters + 0.5)
    angle = (quarters - nearest) * (math.pi / 2.0)
    square = angle * angle
    terms = range(1, _ANGLE_TERMS[body.fraction] + 1)
    of_sine = [(-1.0) ** k / math.factorial(2 * k + 1) for k in terms]
    of_cosine = [(-1.0) ** k / math.factorial(2 * k) for k in terms]
    sine = angle + angle * (square * _series(body, square, of_sine))
    cosine = square * _series(body, square, of_cosine) + 1.0
    one, two, three = (nearest.equals(float(k)) for k in (1, 2, 3))
    odd = one | three
    x, y = body.select(odd, sine, cosine), body.select(odd, cosine, sine)
    return body.select(one | two, -x, x), body.select(two | three, -y, y)


def _series(body: Any, x: Any, coefficients: list[float]) -> Any:
    found = body.lift(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        found = found * x + coefficient
    return found


def in_parts(formula: Callable[..., tuple[Any, ...]], dtype: DType, *uniform: Array) -> Array:
    """The results of a formula of one-dimensional arrays, side by side along a last axis."""
    starts = range(0, max(uniform[0].size, 1), DRAWN_AT_ONCE)
    parts = [
        np.stack(
            computed(formula, dtype, *(x[at : at + DRAWN_AT_ONCE] for x in uniform)),
            axis=-1,
        )
        for at in starts
    ]
    return np.asarray(np.concatenate(parts))
