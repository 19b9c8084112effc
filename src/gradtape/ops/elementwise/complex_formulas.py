"""`llvm` rules for complex operands of ops that kernels compute from other functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gradtape.ops.families import math_functions as mathlib
from gradtape.ops.families.lowering import absolute

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import Builder, LlvmRule, Vector


def _strict(b: Builder, instruction: str, x: Vector, y: Vector) -> Vector:
    """One real instruction that is never contracted, so that it rounds as in NumPy."""
    return b.arithmetic(instruction, "", x, y, contract=False)


def _scaled(b: Builder, x: Vector, factor: float) -> Vector:
    """A complex value times a real number, part by part."""
    number = b.constant(factor, b.real(x).dtype)
    return b.pair(_strict(b, "fmul", b.real(x), number), _strict(b, "fmul", b.imaginary(x), number))


def logarithm(base: float) -> LlvmRule:
    """log(x) / log(base)."""
    return lambda b, x: _scaled(b, b.call(mathlib.LOG, x), 1.0 / math.log(base))


def exp2(b: Builder, x: Vector) -> Vector:
    """exp(x log 2)."""
    return b.call(mathlib.EXP, _scaled(b, x, math.log(2.0)))


def log1p(b: Builder, x: Vector) -> Vector:
    """The logarithm of |1 + x|, and the angle of 1 + x."""
    real, imaginary = b.real(x), b.imaginary(x)
    above = _strict(b, "fadd", real, b.constant(1, real.dtype))
    size = b.call(mathlib.HYPOT, above, imaginary)
    return b.pair(b.call(mathlib.LOG, size), b.call(mathlib.ATAN2, imaginary, above))


def expm1(b: Builder, x: Vector) -> Vector:
    """exp(x) - 1 by the formula of the NumPy kernel: a sum of terms that are small near 0."""
    real, imaginary = b.real(x), b.imaginary(x)
    part = real.dtype
    found = b.call(mathlib.EXP, x)
    far = _strict(b, "fsub", b.real(found), b.constant(1, part))
    half = b.call(mathlib.SIN, _strict(b, "fmul", imaginary, b.constant(0.5, part)))
    bend = _strict(b, "fmul", b.constant(2, part), _strict(b, "fmul", half, half))
    rise = _strict(b, "fmul", b.call(mathlib.EXPM1, real), b.call(mathlib.COS, imaginary))
    # Adding 0 turns a real part of -0.0 into 0.0.
    near = _strict(b, "fadd", _strict(b, "fsub", rise, bend), b.constant(0, part))
    small = b.compare("olt", "lt", b.call(mathlib.FABS, real), b.constant(40, part))
    finite = b.compare("olt", "lt", b.call(mathlib.FABS, imaginary), b.constant(math.inf, part))
    return b.pair(b.select(b.bits("and", small, finite), near, far), b.imaginary(found))


def rounded(b: Builder, x: Vector) -> Vector:
    """Both parts rounded to integers."""
    return b.pair(b.call(mathlib.RINT, b.real(x)), b.call(mathlib.RINT, b.imaginary(x)))


def _with_finite_size(b: Builder, x: Vector) -> Vector:
    """x, or a quarter of it where a part is so large that |x| could overflow."""
    real, imaginary = b.real(x), b.imaginary(x)
    limit = b.constant(float(np.finfo(real.dtype).max) / 4, real.dtype)
    quarter = b.constant(0.25, real.dtype)
    large = [b.compare("ogt", "gt", b.call(mathlib.FABS, a), limit) for a in (real, imaginary)]
    parts = []
    for a in (real, imaginary):
        less = _strict(b, "fmul", a, quarter)
        parts.append(b.select(large[0], less, b.select(large[1], less, a)))
    return b.pair(parts[0], parts[1])


def sign(b: Builder, x: Vector) -> Vector:
    """x / |x|; 0 at 0, the unit along its axis if one part is infinite, NaN if both are."""
    x = _with_finite_size(b, x)
    real, imaginary = b.real(x), b.imaginary(x)
    part = real.dtype
    zero, infinity = b.constant(0, part), b.constant(math.inf, part)
    size = absolute(b, x)
    infinite = b.compare("oeq", "eq", size, infinity)

    def direction(a: Vector) -> Vector:
        """1 or -1 for an infinite part, 0 for a finite one."""
        there = b.compare("oeq", "eq", b.call(mathlib.FABS, a), infinity)
        return b.select(there, b.call(mathlib.COPYSIGN, b.constant(1, part), a), zero)

    # Used only where the size is infinite: equal magnitudes then are two infinite parts, so NaN.
    both = b.compare("oeq", "eq", b.call(mathlib.FABS, real), b.call(mathlib.FABS, imaginary))
    unknown = b.constant(math.nan, part)
    missing = b.compare("uno", "ne", size, size)
    parts = []
    for a in (real, imaginary):
        found = b.select(b.compare("oeq", "eq", size, zero), zero, _strict(b, "fdiv", a, size))
        found = b.select(infinite, b.select(both, unknown, direction(a)), found)
        parts.append(b.select(missing, unknown, found))
    return b.pair(parts[0], parts[1])
