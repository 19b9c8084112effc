"""How element-wise ops become IR, where it is not a call by their own name.

Each is an `llvm` rule: it gets a builder (codegen.kernels.builder) and values, and gives a value.
Where a dtype has no lowering the builder raises, and the op runs in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]


def by_name(name: str) -> Rule:
    """A function of the vector math library, called by the op's name."""
    return lambda b, *values, **params: b.call(name, *values)


def arithmetic(real: str, whole: str) -> Rule:
    """One instruction for floats, one for integers."""
    return lambda b, x, y: b.arithmetic(real, whole, x, y)


def comparison(real: str, whole: str) -> Rule:
    return lambda b, x, y: b.compare(real, whole, x, y)


def bits(name: str) -> Rule:
    return lambda b, x, y: b.bits(name, x, y)


def whole_or_call(name: str) -> Rule:
    """Rounding: whole numbers are as they are."""
    return lambda b, x: x if x.dtype.kind in "iu" else b.call(name, x)


def remainder(b: Any, x: Any, y: Any) -> Any:
    """Whole numbers by division; by 0 it is 0, as in NumPy."""
    if x.dtype.kind not in "iu":
        return b.call("remainder", x, y)
    rest, _, uneven = _divided(b, x, y)
    return b.select(uneven, b.arithmetic("fadd", "add", rest, y), rest)


def floor_divide(b: Any, x: Any, y: Any) -> Any:
    """Whole numbers by division; by 0 it is 0, as in NumPy."""
    if x.dtype.kind not in "iu":
        return b.call("floor_divide", x, y)
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    _, quotient, uneven = _divided(b, x, y)
    found = b.select(uneven, b.arithmetic("fsub", "sub", quotient, one), quotient)
    if x.dtype.kind == "i":
        found = b.select(_is(b, y, -1), b.negative(x), found)
    return b.select(_is(b, y, 0), zero, found)


def _is(b: Any, x: Any, value: int) -> Any:
    return b.compare("oeq", "eq", x, b.constant(value, x.dtype))


def _divided(b: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Remainder and quotient towards zero, and where the quotient is to be rounded down.

    Division by 0, and of the smallest number by -1, would trap: it is done by 1.
    """
    signed = x.dtype.kind == "i"
    zero = b.constant(0, x.dtype)
    hard = b.bits("or", _is(b, y, 0), _is(b, y, -1)) if signed else _is(b, y, 0)
    safe = b.select(hard, b.constant(1, x.dtype), y)
    rest = b.arithmetic("frem", "srem" if signed else "urem", x, safe)
    quotient = b.arithmetic("fdiv", "sdiv" if signed else "udiv", x, safe)
    apart = b.bits("xor", b.compare("olt", "lt", rest, zero), b.compare("olt", "lt", y, zero))
    return rest, quotient, b.bits("and", b.compare("une", "ne", rest, zero), apart)


def same(b: Any, x: Any) -> Any:
    return x


def negative(b: Any, x: Any) -> Any:
    return b.negative(x)


def square(b: Any, x: Any) -> Any:
    return b.arithmetic("fmul", "mul", x, x)


def reciprocal(b: Any, x: Any) -> Any:
    return b.arithmetic("fdiv", "sdiv", b.constant(1, x.dtype), x)


def invert(b: Any, x: Any) -> Any:
    return b.invert(x)


def real(b: Any, x: Any) -> Any:
    return b.real(x)


def imag(b: Any, x: Any) -> Any:
    return b.imaginary(x)


def conjugate(b: Any, x: Any) -> Any:
    return b.conjugate(x)


def angle(b: Any, x: Any) -> Any:
    return b.call("atan2", b.imaginary(x), b.real(x))


def absolute(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return b.call("abs", x)
    if x.dtype.kind == "f":
        return b.intrinsic("fabs", x)
    if x.dtype.kind == "u":
        return x
    return b.select(b.compare("olt", "lt", x, b.constant(0, x.dtype)), b.negative(x), x)


def sign(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return b.call("sign", x)
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    # Of zero the positive one, as NumPy has it; NaN stays.
    rest = b.select(b.compare("oeq", "eq", x, zero), zero, x)
    if x.dtype.kind != "u":
        rest = b.select(b.compare("olt", "lt", x, zero), b.constant(-1, x.dtype), rest)
    return b.select(b.compare("ogt", "gt", x, zero), one, rest)


def larger(b: Any, x: Any, y: Any) -> Any:
    """NaN wins, as in NumPy."""
    return b.select(_or_nan(b, b.compare("ogt", "gt", x, y), x), x, y)


def smaller(b: Any, x: Any, y: Any) -> Any:
    return b.select(_or_nan(b, b.compare("olt", "lt", x, y), x), x, y)


def _or_nan(b: Any, chosen: Any, x: Any) -> Any:
    return b.bits("or", chosen, isnan(b, x)) if x.dtype.kind == "f" else chosen


def relu(b: Any, x: Any) -> Any:
    return larger(b, x, b.constant(0, x.dtype))


def _in_parts(b: Any, rule: Rule, join: str, x: Any) -> Any:
    """A question about a complex number, asked of its parts."""
    return b.bits(join, rule(b, b.real(x)), rule(b, b.imaginary(x)))


def isnan(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return _in_parts(b, isnan, "or", x)
    if x.dtype.kind != "f":
        return b.constant(False, bool)
    return b.compare("uno", "ne", x, x)


def isinf(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return _in_parts(b, isinf, "or", x)
    if x.dtype.kind != "f":
        return b.constant(False, bool)
    return b.compare("oeq", "eq", b.intrinsic("fabs", x), b.constant(float("inf"), x.dtype))


def isfinite(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return _in_parts(b, isfinite, "and", x)
    if x.dtype.kind != "f":
        return b.constant(True, bool)
    return b.compare("olt", "lt", b.intrinsic("fabs", x), b.constant(float("inf"), x.dtype))


def signbit(b: Any, x: Any) -> Any:
    if x.dtype.kind == "f":
        x = b.copysign(b.constant(1, x.dtype), x)
    return b.compare("olt", "lt", x, b.constant(0, x.dtype))


def copysign(b: Any, x: Any, y: Any) -> Any:
    return b.copysign(x, y)


def square_root(b: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return b.call("sqrt", x)
    return b.intrinsic("sqrt", x)


def reciprocal_root(b: Any, x: Any) -> Any:
    return reciprocal(b, square_root(b, x))


def integer_power(b: Any, x: Any, exponent: int) -> Any:
    """Products by repeated squaring."""
    if exponent == 0:
        return b.constant(1, x.dtype)
    if exponent < 0:
        found = reciprocal(b, integer_power(b, x, -exponent))
        if x.dtype.kind != "c":
            return found
        # A complex zero has no negative powers, not even infinite ones.
        none = b.compare("oeq", "eq", x, b.constant(0, x.dtype))
        nan = float("nan")
        return b.select(none, b.constant(complex(nan, nan), x.dtype), found)
    result, power = None, x
    while exponent:
        if exponent & 1:
            result = power if result is None else b.arithmetic("fmul", "mul", result, power)
        exponent >>= 1
        if exponent:
            power = square(b, power)
    return result


def select(b: Any, condition: Any, x: Any, y: Any) -> Any:
    return b.select(condition, x, y)


def cast(b: Any, x: Any, dtype: Any) -> Any:
    return b.cast(x, dtype)
