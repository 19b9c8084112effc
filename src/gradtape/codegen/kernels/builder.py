"""Builder: SSA lines of vector IR for one kernel, typed by dtype.

Ops lower themselves with it: an Op's `llvm` rule is called as `llvm(builder, *values, **params)`.
A value is an IR name with a dtype; its vector width is the builder's. A complex value is two names,
and what the methods do with it is written in `complexvalues`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.codegen.math import vectormath

_TYPES = {
    "b": "i1", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64", "f4": "float", "f8": "double",
    "c8": "float", "c16": "double",
}  # fmt: skip
BOOL = np.dtype(bool)

# GRADTAPE_CONTRACT=off rounds every product before it is added, as NumPy does.
CONTRACT = os.environ.get("GRADTAPE_CONTRACT", "on")
if CONTRACT not in ("on", "off"):
    raise ValueError(f"GRADTAPE_CONTRACT={CONTRACT!r} is unknown. Use on or off.")


# What `gt.function(fastmath=True)` allows: sums in another order, quotients by reciprocals, 0.0 for
# -0.0. Not allowed is to take for granted that no NaN and no infinity appears.
_FLAGS = {"on": "contract", "off": "", "fast": "reassoc nsz arcp contract"}


class _Rounding(threading.local):
    """How the thread that compiles rounds now."""

    fast = False


_rounding = _Rounding()


@contextlib.contextmanager
def rounding(fast: bool) -> Iterator[None]:
    """Compile kernels that round as is quickest, or strictly."""
    before, _rounding.fast = _rounding.fast, fast
    try:
        yield
    finally:
        _rounding.fast = before


def rounding_mode() -> str:
    """What tells kernels apart that compute the same and round differently."""
    return "fast" if _rounding.fast else CONTRACT


class NotLowered(Exception):  # noqa: N818 - a question answered, not a fault
    """This op has no lowering for these dtypes; it runs as a library call."""


def scalar_type(dtype: Any) -> str:
    """The IR type of one element in a register, or of one part of a complex number.

    Booleans are single bits there.
    """
    dtype = np.dtype(dtype)
    found = _TYPES.get(dtype.kind if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}")
    if found is None:
        raise NotLowered(str(dtype))
    return found


def memory_type(dtype: Any) -> str:
    """The IR type of one element in memory; booleans are bytes there."""
    return "i8" if np.dtype(dtype).kind == "b" else scalar_type(dtype)


@dataclass(frozen=True)
class Vector:
    """One SSA value, one element per lane; of complex numbers the real parts, and another name."""

    name: str
    dtype: Any
    imaginary: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all that make up the value."""
        return (self.name, self.imaginary) if self.imaginary else (self.name,)


def _complex() -> Any:
    """What is done with complex values; imported when the first one is met."""
    from gradtape.codegen.kernels import complexvalues

    return complexvalues


class Builder:
    """Collects lines, and the definitions and constants that they need."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.definitions: dict[str, None] = {}
        self._count = 0
        self._constants: dict[tuple[str, str], str] = {}

    # Names, lines, blocks.

    def fresh(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def let(self, text: str, hint: str = "v") -> str:
        """A new name for the result of an instruction."""
        name = self.fresh(hint)
        self.line(f"{name} = {text}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def define(self, text: str) -> None:
        self.definitions[text] = None

    def vector_type(self, dtype: Any) -> str:
        return f"<{self.lanes} x {scalar_type(dtype)}>"

    # Constants and splats live in the entry block.

    def constant(self, value: Any, dtype: Any) -> Vector:
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            return _complex().constant(self, value, dtype)
        literal = _literal(value, dtype)
        kind = scalar_type(dtype)
        found = self._constants.get((literal, kind))
        if found is None:
            found = self.splat(literal, kind, self.entry)
            self._constants[literal, kind] = found
        return Vector(found, dtype)

    def splat(self, scalar: str, kind: str, lines: list[str] | None = None) -> str:
        """All lanes equal to one scalar."""
        into = self.lines if lines is None else lines
        vector = f"<{self.lanes} x {kind}>"
        one, all_ = self.fresh("s"), self.fresh("s")
        into.append(f"  {one} = insertelement {vector} poison, {kind} {scalar}, i32 0")
        into.append(
            f"  {all_} = shufflevector {vector} {one}, {vector} poison, "
            f"<{self.lanes} x i32> zeroinitializer"
        )
        return all_

    # What lowerings are written with.

    def arithmetic(
        self, real: str, whole: str, x: Vector, y: Vector, contract: bool = True
    ) -> Vector:
        """One instruction for floats, which may join another in one rounding, or for integers."""
        kind = x.dtype.kind
        if kind == "f":
            name = f"{real} {_FLAGS[rounding_mode()]}" if contract else real
        elif kind in "iu":
            name = whole
        elif kind == "c":
            return _complex().arithmetic(self, real, x, y)
        else:
            raise NotLowered(f"{real} on {x.dtype}")
        return Vector(self.let(f"{name} {self.vector_type(x.dtype)} {x.name}, {y.name}"), x.dtype)

    def bits(self, name: str, x: Vector, y: Vector) -> Vector:
        if x.dtype.kind not in "biu":
            raise NotLowered(f"{name} on {x.dtype}")
        return Vector(self.let(f"{name} {self.vector_type(x.dtype)} {x.name}, {y.name}"), x.dtype)

    def compare(self, real: str, whole: str, x: Vector, y: Vector) -> Vector:
        """`real` is a float predicate, `whole` an integer one: eq, ne, or lt/le/gt/ge to sign."""
        kind = x.dtype.kind
        vector = self.vector_type(x.dtype)
        if kind == "c":
            return _complex().compare(self, whole, x, y)
        if kind == "f":
            return Vector(self.let(f"fcmp {real} {vector} {x.name}, {y.name}"), BOOL)
        if whole not in ("eq", "ne"):
            whole = ("s" if kind == "i" else "u") + whole
        return Vector(self.let(f"icmp {whole} {vector} {x.name}, {y.name}"), BOOL)

    def select(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        vector = self.vector_type(x.dtype)
        bits = f"<{self.lanes} x i1> {condition.name}"
        parts = [
            self.let(f"select {bits}, {vector} {a}, {vector} {b}")
            for a, b in zip(x.parts, y.parts, strict=True)
        ]
        return Vector(parts[0], x.dtype, *parts[1:])

    def real(self, x: Vector) -> Vector:
        """The real part; of a real number itself."""
        return _complex().real(x) if x.imaginary else x

    def imaginary(self, x: Vector) -> Vector:
        """The imaginary part; of a real number 0."""
        return _complex().imaginary(x) if x.imaginary else self.constant(0, x.dtype)

    def conjugate(self, x: Vector) -> Vector:
        return _complex().conjugate(self, x) if x.imaginary else x

    def negative(self, x: Vector) -> Vector:
        vector = self.vector_type(x.dtype)
        if x.imaginary:
            return _complex().negative(self, x)
        if x.dtype.kind == "f":
            return Vector(self.let(f"fneg {vector} {x.name}"), x.dtype)
        return Vector(self.let(f"sub {vector} zeroinitializer, {x.name}"), x.dtype)

    def invert(self, x: Vector) -> Vector:
        ones = self.constant(True if x.dtype.kind == "b" else -1, x.dtype)
        return self.bits("xor", x, ones)

    def intrinsic(self, name: str, *operands: Vector) -> Vector:
        """An LLVM intrinsic over floats, such as `fabs`."""
        dtype = operands[0].dtype
        if dtype.kind != "f":
            raise NotLowered(f"{name} on {dtype}")
        vector = self.vector_type(dtype)
        symbol = f"@llvm.{name}.v{self.lanes}f{dtype.itemsize * 8}"
        kinds = ", ".join([vector] * len(operands))
        self.define(f"declare {vector} {symbol}({kinds})")
        return self._call(symbol, dtype, operands)

    def copysign(self, x: Vector, y: Vector) -> Vector:
        return self.intrinsic("copysign", x, y)

    def call(self, name: str, *operands: Vector) -> Vector:
        """A function of the vector math library, by op name."""
        dtype = operands[0].dtype
        if dtype.kind == "c":
            return _complex().call(self, name, *operands)
        if dtype.kind != "f" or not vectormath.supported(name, scalar_type(dtype)):
            raise NotLowered(f"{name} on {dtype}")
        symbol, definitions = vectormath.function(name, scalar_type(dtype), self.lanes)
        for text in definitions:
            self.define(text)
        return self._call(symbol if symbol.startswith("@") else f"@{symbol}", dtype, operands)

    def _call(self, symbol: str, dtype: Any, operands: tuple[Vector, ...]) -> Vector:
        vector = self.vector_type(dtype)
        listed = ", ".join(f"{vector} {operand.name}" for operand in operands)
        return Vector(self.let(f"call {vector} {symbol}({listed})"), dtype)

    def cast(self, x: Vector, dtype: Any) -> Vector:
        """NumPy's conversions between dtypes."""
        dtype = np.dtype(dtype)
        if dtype == x.dtype:
            return x
        if "c" in (x.dtype.kind, dtype.kind):
            return _complex().cast(self, x, dtype)
        source, target = self.vector_type(x.dtype), self.vector_type(dtype)
        old, new = x.dtype.kind, dtype.kind
        if new == "b":
            zero = self.constant(0, x.dtype)
            return self.compare("une", "ne", x, zero)
        if old == "b":
            word = "uitofp" if new == "f" else "zext"
        elif old == "f" and new == "f":
            word = "fpext" if dtype.itemsize > x.dtype.itemsize else "fptrunc"
        elif old in "iu" and new == "f":
            word = "sitofp" if old == "i" else "uitofp"
        elif old in "iu" and new in "iu":
            if dtype.itemsize == x.dtype.itemsize:
                return Vector(x.name, dtype)
            wider = dtype.itemsize > x.dtype.itemsize
            word = ("sext" if old == "i" else "zext") if wider else "trunc"
        else:
            # Float to integer is undefined out of range, in LLVM and differently in NumPy.
            raise NotLowered(f"cast {x.dtype} to {dtype}")
        return Vector(self.let(f"{word} {source} {x.name} to {target}"), dtype)


def _literal(value: Any, dtype: Any) -> str:
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    number = float(dtype.type(value))
    return "0x" + struct.pack(">d", number).hex().upper()
