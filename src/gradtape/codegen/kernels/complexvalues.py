"""Complex values in kernels: pairs of real vectors, and what a builder does with them.

Products and quotients are the textbook's and Smith's, as NumPy's are, without C's recovery of
infinities (Annex G). NumPy rounds products once on some machines; here z times its conjugate is
real to the last bit, because products are not joined with sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradtape.codegen.kernels.builder import Builder, NotLowered, Vector, scalar_type
from gradtape.codegen.math import complexmath
from gradtape.dtypes import REAL_OF


def pair(real: Vector, imaginary: Vector, dtype: Any) -> Vector:
    """The complex value with these parts."""
    return Vector(real.name, dtype, imaginary.name)


def real(x: Vector) -> Vector:
    return Vector(x.name, REAL_OF[x.dtype])


def imaginary(x: Vector) -> Vector:
    return Vector(x.imaginary, REAL_OF[x.dtype])


def constant(b: Builder, value: Any, dtype: Any) -> Vector:
    number, part = complex(value), REAL_OF[dtype]
    return pair(b.constant(number.real, part), b.constant(number.imag, part), dtype)


def negative(b: Builder, x: Vector) -> Vector:
    return pair(b.negative(real(x)), b.negative(imaginary(x)), x.dtype)


def conjugate(b: Builder, x: Vector) -> Vector:
    return pair(real(x), b.negative(imaginary(x)), x.dtype)


def arithmetic(b: Builder, name: str, x: Vector, y: Vector) -> Vector:
    """`name` is the instruction that does the same for real numbers."""
    if name == "fdiv":
        return _function(b, "divide", x, y)
    if name == "fmul":
        return multiply(b, x, y)
    return pair(
        _real(b, name, real(x), real(y)), _real(b, name, imaginary(x), imaginary(y)), x.dtype
    )


def multiply(b: Builder, x: Vector, y: Vector) -> Vector:
    a, c = (real(x), imaginary(x)), (real(y), imaginary(y))
    upper = _real(b, "fsub", _real(b, "fmul", a[0], c[0]), _real(b, "fmul", a[1], c[1]))
    lower = _real(b, "fadd", _real(b, "fmul", a[0], c[1]), _real(b, "fmul", a[1], c[0]))
    return pair(upper, lower, x.dtype)


def _real(b: Builder, name: str, x: Vector, y: Vector) -> Vector:
    return b.arithmetic(name, "", x, y, contract=False)


def compare(b: Builder, predicate: str, x: Vector, y: Vector) -> Vector:
    if predicate not in ("eq", "ne"):
        raise NotLowered(f"complex numbers have no order: {predicate}")
    name, join = ("oeq", "and") if predicate == "eq" else ("une", "or")
    upper = b.compare(name, predicate, real(x), real(y))
    return b.bits(join, upper, b.compare(name, predicate, imaginary(x), imaginary(y)))


def cast(b: Builder, x: Vector, dtype: Any) -> Vector:
    """To complex from anything; from complex to complex and bool."""
    if dtype.kind == "b":
        return compare(b, "ne", x, b.constant(0, x.dtype))
    if dtype.kind != "c":
        raise NotLowered(f"cast {x.dtype} to {dtype}")
    part = REAL_OF[dtype]
    lower = b.cast(imaginary(x), part) if x.imaginary else b.constant(0, part)
    return pair(b.cast(b.real(x), part), lower, dtype)


def call(b: Builder, name: str, *operands: Vector) -> Vector:
    """A function by op name."""
    composed = _COMPOSED.get(name)
    if composed is not None:
        return composed(b, *operands)
    return _function(b, name, *operands)


def _function(b: Builder, name: str, *operands: Vector) -> Vector:
    dtype = operands[0].dtype
    element = scalar_type(dtype)
    if not complexmath.supported(name, element):
        raise NotLowered(f"{name} on {dtype}")
    symbol, definitions = complexmath.complex_function(name, element, b.lanes)
    for text in definitions:
        b.define(text)
    vector = b.vector_type(dtype)
    listed = ", ".join(f"{vector} {part}" for operand in operands for part in operand.parts)
    both = f"{{{vector}, {vector}}}"
    found = b.let(f"call {both} @{symbol}({listed})")
    upper, lower = (b.let(f"extractvalue {both} {found}, {k}") for k in range(2))
    return Vector(upper, dtype, lower)


def _scaled(b: Builder, x: Vector, factor: float) -> Vector:
    """A complex value times a real number, as NumPy does it: part by part."""
    number = b.constant(factor, REAL_OF[x.dtype])
    return pair(_real(b, "fmul", real(x), number), _real(b, "fmul", imaginary(x), number), x.dtype)


def _logarithm(base: float) -> Callable[[Builder, Vector], Vector]:
    return lambda b, x: _scaled(b, _function(b, "log", x), 1.0 / math.log(base))


def _exp2(b: Builder, x: Vector) -> Vector:
    return _function(b, "exp", _scaled(b, x, math.log(2.0)))


def _log1p(b: Builder, x: Vector) -> Vector:
    above = _real(b, "fadd", real(x), b.constant(1, REAL_OF[x.dtype]))
    size = b.call("hypot", above, imaginary(x))
    return pair(b.call("log", size), b.call("atan2", imaginary(x), above), x.dtype)


def _expm1(b: Builder, x: Vector) -> Vector:
    """As the op's own kernel: what cancels near 0 is summed in terms that are small there."""
    upper, lower = real(x), imaginary(x)
    part = upper.dtype
    found = _function(b, "exp", x)
    far = _real(b, "fsub", real(found), b.constant(1, part))
    half = b.call("sin", _real(b, "fmul", lower, b.constant(0.5, part)))
    bend = _real(b, "fmul", b.constant(2, part), _real(b, "fmul", half, half))
    rise = _real(b, "fmul", b.call("expm1", upper), b.call("cos", lower))
    near = _real(b, "fadd", _real(b, "fsub", rise, bend), b.constant(0, part))
    small = b.compare("olt", "lt", b.intrinsic("fabs", upper), b.constant(40, part))
    finite = b.compare("olt", "lt", b.intrinsic("fabs", lower), b.constant(math.inf, part))
    return pair(b.select(b.bits("and", small, finite), near, far), imaginary(found), x.dtype)


def _round(b: Builder, x: Vector) -> Vector:
    return pair(b.call("round", real(x)), b.call("round", imaginary(x)), x.dtype)


def size_of(b: Builder, x: Vector) -> Vector:
    """|x|."""
    return b.call("hypot", real(x), imaginary(x))


def sign(b: Builder, x: Vector) -> Vector:
    """x / |x|; 0 at 0; along the axis to which one infinite part points."""
    upper, lower = real(x), imaginary(x)
    part = upper.dtype
    zero, infinity = b.constant(0, part), b.constant(math.inf, part)
    size = size_of(b, x)
    endless = b.compare("oeq", "eq", size, infinity)

    def direction(a: Vector) -> Vector:
        """1, -1 or 0 for an infinite number."""
        there = b.compare("oeq", "eq", b.intrinsic("fabs", a), infinity)
        return b.select(there, b.copysign(b.constant(1, part), a), zero)

    # Asked only where the size is infinite.
    both = b.compare("oeq", "eq", b.intrinsic("fabs", upper), b.intrinsic("fabs", lower))
    unknown = b.constant(math.nan, part)
    missing = b.compare("uno", "ne", size, size)
    parts = []
    for a in (upper, lower):
        found = b.select(b.compare("oeq", "eq", size, zero), zero, _real(b, "fdiv", a, size))
        found = b.select(endless, b.select(both, unknown, direction(a)), found)
        parts.append(b.select(missing, unknown, found))
    return pair(parts[0], parts[1], x.dtype)


_COMPOSED: dict[str, Callable[..., Vector]] = {
    "log2": _logarithm(2.0), "log10": _logarithm(10.0), "exp2": _exp2, "log1p": _log1p,
    "expm1": _expm1, "round": _round, "abs": size_of, "sign": sign,
}  # fmt: skip
