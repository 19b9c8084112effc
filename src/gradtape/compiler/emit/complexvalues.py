"""Arithmetic of complex values in kernels: pairs of real vectors.

Products are the textbook's, as NumPy's are, without C's recovery of infinities (Annex G). NumPy
rounds products once on some machines. Here products are not joined with sums, so that z times its
conjugate is real to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradtape.dtypes import REAL_OF, DType
from gradtape.ir.math_function import NotLowered
from gradtape.ops.families.vector_code import Vector

if TYPE_CHECKING:
    from gradtape.compiler.emit.builder import Builder


def real(x: Vector) -> Vector:
    """The real parts of a complex vector."""
    return Vector(x.name, REAL_OF[x.dtype])


def imaginary(x: Vector) -> Vector:
    """The imaginary parts of a complex vector."""
    return Vector(x.imaginary, REAL_OF[x.dtype])


def constant(b: Builder, value: complex, dtype: DType) -> Vector:
    """The same complex number in every lane."""
    number, part = complex(value), REAL_OF[dtype]
    return b.pair(b.constant(number.real, part), b.constant(number.imag, part))


def arithmetic(b: Builder, name: str, x: Vector, y: Vector) -> Vector:
    """A sum, difference or product; `name` is the instruction that does it for real numbers."""
    if name == "fmul":
        return _multiply(b, x, y)
    return b.pair(_real(b, name, real(x), real(y)), _real(b, name, imaginary(x), imaginary(y)))


def _multiply(b: Builder, x: Vector, y: Vector) -> Vector:
    a, c = (real(x), imaginary(x)), (real(y), imaginary(y))
    upper = _real(b, "fsub", _real(b, "fmul", a[0], c[0]), _real(b, "fmul", a[1], c[1]))
    lower = _real(b, "fadd", _real(b, "fmul", a[0], c[1]), _real(b, "fmul", a[1], c[0]))
    return b.pair(upper, lower)


def _real(b: Builder, name: str, x: Vector, y: Vector) -> Vector:
    return b.arithmetic(name, "", x, y, contract=False)


def compare(b: Builder, predicate: str, x: Vector, y: Vector) -> Vector:
    """Whether two complex numbers are equal or not; they have no order."""
    if predicate not in ("eq", "ne"):
        raise NotLowered(f"complex numbers have no order: {predicate}")
    name, join = ("oeq", "and") if predicate == "eq" else ("une", "or")
    upper = b.compare(name, predicate, real(x), real(y))
    return b.bits(join, upper, b.compare(name, predicate, imaginary(x), imaginary(y)))


def cast(b: Builder, x: Vector, dtype: DType) -> Vector:
    """Anything to complex; complex to complex and bool."""
    if dtype.kind == "b":
        return compare(b, "ne", x, b.constant(0, x.dtype))
    if dtype.kind != "c":
        raise NotLowered(f"cast {x.dtype} to {dtype}")
    part = REAL_OF[dtype]
    lower = b.cast(imaginary(x), part) if x.imaginary else b.constant(0, part)
    return b.pair(b.cast(b.real(x), part), lower)
