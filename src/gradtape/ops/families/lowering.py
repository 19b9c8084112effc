"""How element-wise ops become IR: the `llvm` rules that several ops share.

A rule gets a builder and one vector per operand, and returns the vector of results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.dtypes import DType
from gradtape.ir import Accumulation, MathFunction, NotLowered
from gradtape.ops.families.math_functions import ATAN2, COPYSIGN, FABS, HYPOT, SQRT
from gradtape.ops.families.vector_code import LlvmRule, Vector
from gradtape.records import dataclass

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import Builder


_BOOL = np.dtype(bool)
_DOUBLE = np.dtype(np.float64)


def call(function: MathFunction, of_complex: LlvmRule | None = None) -> LlvmRule:
    """A rule that calls a mathematical function; `of_complex` replaces it for complex operands."""

    def rule(b: Builder, *values: Vector) -> Vector:
        return b.call(function, *values)

    return rule if of_complex is None else for_complex(of_complex, rule)


def for_complex(rule: LlvmRule, otherwise: LlvmRule) -> LlvmRule:
    """A rule for complex operands, and another for all others."""
    return lambda b, *values: (rule if values[0].dtype.kind == "c" else otherwise)(b, *values)


def in_double(function_of: Callable[..., MathFunction]) -> LlvmRule:
    """A rule that calls the function for some params, in float64 whatever the dtype."""

    def rule(b: Builder, x: Vector, **params: Any) -> Vector:
        if x.dtype.kind != "f":
            raise NotLowered(f"a function of {x.dtype}")
        return b.cast(b.call(function_of(**params), b.cast(x, _DOUBLE)), x.dtype)

    return rule


def arithmetic(real: str, whole: str, logic: str = "") -> LlvmRule:
    """A rule with one instruction for floats, one for integers, and one for booleans."""

    def rule(b: Builder, x: Vector, y: Vector) -> Vector:
        if logic and x.dtype.kind == "b":
            return b.bits(logic, x, y)
        return b.arithmetic(real, whole, x, y)

    return rule


def comparison(real: str, whole: str) -> LlvmRule:
    return lambda b, x, y: b.compare(real, whole, x, y)


def bits(name: str) -> LlvmRule:
    return lambda b, x, y: b.bits(name, x, y)


def for_integers(rule: LlvmRule, otherwise: LlvmRule) -> LlvmRule:
    """A rule for integers and booleans, and another for all other operands."""
    return lambda b, *values: (rule if values[0].dtype.kind in "biu" else otherwise)(b, *values)


def rounding(function: MathFunction, of_complex: LlvmRule | None = None) -> LlvmRule:
    """A rule that rounds to integers, and returns integers unchanged."""
    return for_integers(lambda b, x: x, call(function, of_complex))


def integer_remainder(b: Builder, x: Vector, y: Vector) -> Vector:
    """x - y floor(x / y); 0 where y is 0, as in NumPy."""
    rest, _, uneven = _divided(b, x, y)
    return b.select(uneven, b.arithmetic("fadd", "add", rest, y), rest)


def integer_floor_divide(b: Builder, x: Vector, y: Vector) -> Vector:
    """The quotient rounded down; 0 where y is 0, as in NumPy."""
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    _, quotient, uneven = _divided(b, x, y)
    found = b.select(uneven, b.arithmetic("fsub", "sub", quotient, one), quotient)
    if x.dtype.kind == "i":
        found = b.select(_equals(b, y, -1), b.negative(x), found)
    return b.select(_equals(b, y, 0), zero, found)


def _equals(b: Builder, x: Vector, value: int) -> Vector:
    return b.compare("oeq", "eq", x, b.constant(value, x.dtype))


def _divided(b: Builder, x: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
    """Remainder and quotient rounded towards zero, and a mask of quotients to be rounded down.

    Dividing by 0, or the smallest integer by -1, would trap, so 1 replaces the divisors 0 and -1.
    """
    signed = x.dtype.kind == "i"
    zero = b.constant(0, x.dtype)
    hard = b.bits("or", _equals(b, y, 0), _equals(b, y, -1)) if signed else _equals(b, y, 0)
    safe = b.select(hard, b.constant(1, x.dtype), y)
    rest = b.arithmetic("frem", "srem" if signed else "urem", x, safe)
    quotient = b.arithmetic("fdiv", "sdiv" if signed else "udiv", x, safe)
    apart = b.bits("xor", b.compare("olt", "lt", rest, zero), b.compare("olt", "lt", y, zero))
    return rest, quotient, b.bits("and", b.compare("une", "ne", rest, zero), apart)


def left_shift(b: Builder, x: Vector, count: Vector) -> Vector:
    """x shifted left; 0 where the count is negative or at least the number of bits."""
    fits, safe = _shifted(b, x, count)
    return b.select(fits, b.arithmetic("fadd", "shl", x, safe), b.constant(0, x.dtype))


def right_shift(b: Builder, x: Vector, count: Vector) -> Vector:
    """x shifted right; 0, or -1 for a negative x, where the count is out of range, as in NumPy."""
    fits, safe = _shifted(b, x, count)
    zero = b.constant(0, x.dtype)
    if x.dtype.kind == "u":
        return b.select(fits, b.arithmetic("fadd", "lshr", x, safe), zero)
    signs = b.select(b.compare("olt", "lt", x, zero), b.constant(-1, x.dtype), zero)
    return b.select(fits, b.arithmetic("fadd", "ashr", x, safe), signs)


def _shifted(b: Builder, x: Vector, count: Vector) -> tuple[Vector, Vector]:
    """A mask of the counts that are below the number of bits, and those counts, 0 elsewhere."""
    fits = b.compare("olt", "lt", count, b.constant(8 * x.dtype.itemsize, x.dtype))
    zero = b.constant(0, x.dtype)
    if x.dtype.kind == "i":
        fits = b.bits("and", fits, b.compare("oge", "ge", count, zero))
    return fits, b.select(fits, count, zero)


def square(b: Builder, x: Vector) -> Vector:
    return b.arithmetic("fmul", "mul", x, x)


def reciprocal(b: Builder, x: Vector) -> Vector:
    return b.arithmetic("fdiv", "sdiv", b.constant(1, x.dtype), x)


def angle(b: Builder, x: Vector) -> Vector:
    return b.call(ATAN2, b.imaginary(x), b.real(x))


def absolute(b: Builder, x: Vector) -> Vector:
    if x.dtype.kind == "c":
        return b.call(HYPOT, b.real(x), b.imaginary(x))
    if x.dtype.kind == "f":
        return b.call(FABS, x)
    if x.dtype.kind == "u":
        return x
    return b.select(b.compare("olt", "lt", x, b.constant(0, x.dtype)), b.negative(x), x)


def sign(b: Builder, x: Vector) -> Vector:
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    # The sign of 0.0 and of -0.0 is 0.0, and the sign of NaN is NaN, as in NumPy.
    rest = b.select(b.compare("oeq", "eq", x, zero), zero, x)
    if x.dtype.kind != "u":
        rest = b.select(b.compare("olt", "lt", x, zero), b.constant(-1, x.dtype), rest)
    return b.select(b.compare("ogt", "gt", x, zero), one, rest)


def larger(b: Builder, x: Vector, y: Vector) -> Vector:
    """The larger of two numbers; NaN if either is NaN, as in NumPy."""
    return b.select(_or_nan(b, b.compare("ogt", "gt", x, y), x), x, y)


def smaller(b: Builder, x: Vector, y: Vector) -> Vector:
    """The smaller of two numbers; NaN if either is NaN, as in NumPy."""
    return b.select(_or_nan(b, b.compare("olt", "lt", x, y), x), x, y)


def _or_nan(b: Builder, chosen: Vector, x: Vector) -> Vector:
    return b.bits("or", chosen, isnan(b, x)) if x.dtype.kind == "f" else chosen


def relu(b: Builder, x: Vector) -> Vector:
    return larger(b, x, b.constant(0, x.dtype))


def _predicate(of_float: LlvmRule, of_integers: bool) -> LlvmRule:
    """A rule for a predicate that has one value for all integers.

    It holds for a complex number if it holds for both parts, or, if integers do not satisfy it,
    for either part.
    """
    join = "and" if of_integers else "or"

    def rule(b: Builder, x: Vector) -> Vector:
        if x.dtype.kind == "c":
            return b.bits(join, rule(b, b.real(x)), rule(b, b.imaginary(x)))
        if x.dtype.kind != "f":
            return b.constant(of_integers, _BOOL)
        return of_float(b, x)

    return rule


def _against_infinity(real: str, whole: str) -> LlvmRule:
    """A comparison of |x| with infinity."""
    return lambda b, x: b.compare(real, whole, b.call(FABS, x), b.constant(math.inf, x.dtype))


isnan = _predicate(lambda b, x: b.compare("uno", "ne", x, x), of_integers=False)
isinf = _predicate(_against_infinity("oeq", "eq"), of_integers=False)
isfinite = _predicate(_against_infinity("olt", "lt"), of_integers=True)


def signbit(b: Builder, x: Vector) -> Vector:
    if x.dtype.kind == "f":
        x = b.call(COPYSIGN, b.constant(1, x.dtype), x)
    return b.compare("olt", "lt", x, b.constant(0, x.dtype))


def reciprocal_root(b: Builder, x: Vector) -> Vector:
    return reciprocal(b, b.call(SQRT, x))


def integer_power(b: Builder, x: Vector, exponent: int) -> Vector:
    """A power with an integer exponent, as products by repeated squaring."""
    if exponent == 0:
        return b.constant(1, x.dtype)
    if exponent < 0:
        found = reciprocal(b, integer_power(b, x, -exponent))
        if x.dtype.kind != "c":
            return found
        # Negative powers of a complex zero are NaN, not infinite, as in NumPy.
        nan = b.constant(complex(math.nan, math.nan), x.dtype)
        return b.select(_equals(b, x, 0), nan, found)
    result, power = None, x
    while True:
        if exponent & 1:
            result = power if result is None else b.arithmetic("fmul", "mul", result, power)
        exponent >>= 1
        if not exponent:
            break
        power = square(b, power)
    assert result is not None
    return result


def add(b: Builder, x: Vector, y: Vector) -> Vector:
    """x + y, never contracted to a fused multiply-add, which would round differently from NumPy."""
    return b.arithmetic("fadd", "add", x, y, contract=False)


def _multiply(b: Builder, x: Vector, y: Vector) -> Vector:
    return b.arithmetic("fmul", "mul", x, y, contract=False)


def _recurrence_step(b: Builder, state: Vector, factor: Vector, term: Vector) -> Vector:
    """factor * state + term, where a state of 0 adds nothing even if the factor is infinite."""
    zero = b.constant(0, state.dtype)
    grown = _multiply(b, factor, state)
    return add(b, b.select(b.compare("oeq", "eq", state, zero), zero, grown), term)


def _lowest(dtype: DType) -> float:
    if dtype.kind == "b":
        return False
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _highest(dtype: DType) -> float:
    if dtype.kind == "b":
        return True
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


@dataclass(frozen=True, eq=False)
class Combination:
    """How kernels accumulate: `join(builder, x, y)` combines two partial results.

    `identity(dtype)` is the partial result of no values, and `kinds` are the kinds of dtype that
    can be combined. Positions are found by comparing values: `better` is "gt" or "lt". A scan calls
    `step(builder, state, *operands)` for each element; without a step, it joins.
    """

    identity: Callable[[DType], complex]
    join: LlvmRule
    kinds: str = "biufc"
    better: str = ""
    step: LlvmRule | None = None


def _always(value: int) -> Callable[[DType], int]:
    return lambda dtype: value


COMBINATIONS: dict[Accumulation, Combination] = {
    Accumulation.SUM: Combination(_always(0), add),
    Accumulation.PROD: Combination(_always(1), _multiply),
    Accumulation.ANY: Combination(_always(False), bits("or")),
    Accumulation.ALL: Combination(_always(True), bits("and")),
    Accumulation.MAX: Combination(_lowest, larger, kinds="biuf"),
    Accumulation.MIN: Combination(_highest, smaller, kinds="biuf"),
    Accumulation.ARGMAX: Combination(_lowest, larger, kinds="biuf", better="gt"),
    Accumulation.ARGMIN: Combination(_highest, smaller, kinds="biuf", better="lt"),
    # Its partial results have several parts, so `join` alone does not combine them.
    Accumulation.SQUARED_DEVIATIONS: Combination(_always(0), add, kinds="f"),
    Accumulation.RECURRENCE: Combination(_always(0), add, step=_recurrence_step),
}
