"""Builder: SSA lines of vector IR for one kernel, typed by dtype.

An Op's `llvm` rule is called as `llvm(builder, *values, **params)` and appends its instructions.
A value is an IR name with a dtype, and all values have the builder's number of lanes. A complex
value has two names; `complexvalues` writes complex arithmetic as arithmetic of parts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from gradtape.compiler.emit import complexvalues, conversions
from gradtape.compiler.emit.math import complexmath, vectormath
from gradtape.compiler.emit.math.vectors import convention
from gradtape.compiler.emit.writer import Routine, Typed, every_lane
from gradtape.compiler.lower.kernel import BOOL, scalar_type
from gradtape.compiler.objects.llvm import FoundFunction, real_text, vector
from gradtape.config import variable
from gradtape.dtypes import COMPLEX_OF, DType
from gradtape.ir.math_function import Composition, Intrinsic, MathFunction, NotLowered
from gradtape.ops.families.vector_code import Vector

# GRADTAPE_CONTRACT=off rounds every product before it is added, as NumPy does.
CONTRACT = variable("CONTRACT", "on", ("on", "off"))


# LLVM's flags of float instructions. `gt.function(fastmath=True)` allows sums in another order,
# quotients by reciprocals, and 0.0 for -0.0. LLVM may never assume away NaNs and infinities.
_FLAGS = {"on": "contract", "off": "", "fast": "reassoc nsz arcp contract"}


class _Rounding(threading.local):
    """Whether the kernels that this thread compiles may round as is fastest."""

    fast = False


_rounding = _Rounding()


@contextlib.contextmanager
def rounding(fast: bool) -> Iterator[None]:
    """Compile kernels that round as is fastest, or strictly."""
    before, _rounding.fast = _rounding.fast, fast
    try:
        yield
    finally:
        _rounding.fast = before


def rounding_mode() -> str:
    """A key by which kernels differ that compute the same and round differently."""
    return "fast" if _rounding.fast else CONTRACT


class Builder:
    """Appends instructions to a routine, for values of `lanes` lanes; one lane is a scalar."""

    def __init__(self, lanes: int, r: Routine | None = None) -> None:
        self.lanes = lanes
        self.r = r or Routine()

    def vector_type(self, dtype: DType | str) -> str:
        """The IR type of a vector, or of one part of a complex vector."""
        return vector(scalar_type(dtype), self.lanes)

    def written(self, text: str, dtype: DType) -> Vector:
        """Append an instruction whose result has a dtype."""
        return Vector(self.r.let(text, self.vector_type(dtype)), dtype)

    def constant(self, value: complex, dtype: DType) -> Vector:
        """The same number in every lane."""
        if dtype.kind == "c":
            return complexvalues.constant(self, value, dtype)
        kind = scalar_type(dtype)
        return Vector(every_lane(kind, _literal(value.real, dtype, kind), self.lanes), dtype)

    # The methods of the protocol that `llvm` rules are written with.

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
            if real == "fdiv":
                found = complexmath.quotient(scalar_type(x.dtype), self.lanes)
                return self._complex_call(found, x, y)
            return complexvalues.arithmetic(self, real, x, y)
        else:
            raise NotLowered(f"{real} on {x.dtype}")
        return self.written(f"{name} {self.vector_type(x.dtype)} {x.name}, {y.name}", x.dtype)

    def bits(self, name: str, x: Vector, y: Vector) -> Vector:
        """`and`, `or` or `xor` of booleans or integers."""
        if x.dtype.kind not in "biu":
            raise NotLowered(f"{name} on {x.dtype}")
        return self.written(f"{name} {self.vector_type(x.dtype)} {x.name}, {y.name}", x.dtype)

    def compare(self, real: str, whole: str, x: Vector, y: Vector) -> Vector:
        """A comparison: LLVM's predicate for floats; for integers eq, ne, lt, le, gt or ge."""
        kind = x.dtype.kind
        of_type = self.vector_type(x.dtype)
        if kind == "c":
            return complexvalues.compare(self, whole, x, y)
        if kind == "f":
            return self.written(f"fcmp {real} {of_type} {x.name}, {y.name}", BOOL)
        if whole not in ("eq", "ne"):
            whole = ("s" if kind == "i" else "u") + whole
        return self.written(f"icmp {whole} {of_type} {x.name}, {y.name}", BOOL)

    def select(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        """`x` where the condition holds, `y` elsewhere."""
        of_type = self.vector_type(x.dtype)
        bits = f"{self.vector_type(BOOL)} {condition.name}"
        parts = [
            self.r.let(f"select {bits}, {of_type} {a}, {of_type} {b}", of_type)
            for a, b in zip(x.parts, y.parts, strict=True)
        ]
        return Vector(parts[0], x.dtype, *parts[1:])

    def pair(self, real: Vector, imaginary: Vector) -> Vector:
        """The complex value with these parts."""
        return Vector(real.name, COMPLEX_OF[real.dtype], imaginary.name)

    def real(self, x: Vector) -> Vector:
        """The real part; a real number is its own."""
        return complexvalues.real(x) if x.imaginary else x

    def imaginary(self, x: Vector) -> Vector:
        """The imaginary part; 0 for a real number."""
        return complexvalues.imaginary(x) if x.imaginary else self.constant(0, x.dtype)

    def conjugate(self, x: Vector) -> Vector:
        """The complex conjugate."""
        return self.pair(self.real(x), self.negative(self.imaginary(x))) if x.imaginary else x

    def negative(self, x: Vector) -> Vector:
        """-x."""
        if x.imaginary:
            return self.pair(self.negative(self.real(x)), self.negative(self.imaginary(x)))
        of_type = self.vector_type(x.dtype)
        if x.dtype.kind == "f":
            return self.written(f"fneg {of_type} {x.name}", x.dtype)
        return self.written(f"sub {of_type} zeroinitializer, {x.name}", x.dtype)

    def invert(self, x: Vector) -> Vector:
        """All bits inverted."""
        ones = self.constant(True if x.dtype.kind == "b" else -1, x.dtype)
        return self.bits("xor", x, ones)

    def call(self, function: MathFunction, *operands: Vector) -> Vector:
        """A mathematical function of floats or of complex numbers."""
        dtype = operands[0].dtype
        if dtype.kind not in "fc":
            raise NotLowered(f"{function.name} on {dtype}")
        element = scalar_type(dtype)
        if dtype.kind == "c":
            found = complexmath.complex_function(function, element, self.lanes)
            return self._complex_call(found, *operands)
        if isinstance(function, Intrinsic):
            typed = [Typed(each.name, self.vector_type(dtype)) for each in operands]
            return Vector(self.r.intrinsic(function.name, *typed), dtype)
        found = vectormath.function(function, element, self.lanes)
        return Vector(self._called(found, self.vector_type(dtype), operands), dtype)

    def call_both(self, function: Composition, *operands: Vector) -> tuple[Vector, Vector]:
        """A function of floats, and before it the one that it shares its work with."""
        dtype = operands[0].dtype
        found = vectormath.joint_function(function, scalar_type(dtype), self.lanes)
        first, second = self._call_for_pair(found, *operands)
        return Vector(first, dtype), Vector(second, dtype)

    def _complex_call(self, found: FoundFunction, *operands: Vector) -> Vector:
        """A function that takes and gives both parts of complex numbers."""
        real, imaginary = self._call_for_pair(found, *operands)
        return Vector(real, operands[0].dtype, imaginary)

    def _call_for_pair(self, found: FoundFunction, *operands: Vector) -> tuple[str, str]:
        """The names of both results of a function, which takes all parts of its operands."""
        of_type = self.vector_type(operands[0].dtype)
        both = f"{{{of_type}, {of_type}}}"
        first, second = self.r.parts(self._called(found, both, operands))
        return first, second

    def _called(self, found: FoundFunction, returns: str, operands: Sequence[Vector]) -> Typed:
        symbol, definitions = found
        self.r.definitions.update(dict.fromkeys(definitions))
        of_type = self.vector_type(operands[0].dtype)
        listed = ", ".join(f"{of_type} {part}" for operand in operands for part in operand.parts)
        return self.r.let(f"call {convention(symbol)}{returns} @{symbol}({listed})", returns)

    def cast(self, x: Vector, dtype: DType) -> Vector:
        """The value in another dtype, converted as NumPy does."""
        old, new = x.dtype.kind, dtype.kind
        if dtype == x.dtype:
            return x
        if "c" in (old, new):
            return complexvalues.cast(self, x, dtype)
        if new == "b":
            return self.compare("une", "ne", x, self.constant(0, x.dtype))
        source, target = self.vector_type(x.dtype), self.vector_type(dtype)
        wider = dtype.itemsize > x.dtype.itemsize
        if old == "b":
            word = "uitofp" if new == "f" else "zext"
        elif old == "f" and new == "f":
            word = "fpext" if wider else "fptrunc"
        elif old in "iu" and new == "f":
            word = "sitofp" if old == "i" else "uitofp"
        elif old in "iu" and new in "iu":
            if dtype.itemsize == x.dtype.itemsize:
                return Vector(x.name, dtype)
            word = ("sext" if old == "i" else "zext") if wider else "trunc"
        else:
            return conversions.to_integers(self, x, dtype)
        return self.written(f"{word} {source} {x.name} to {target}", dtype)


def _literal(value: float, dtype: DType, kind: str) -> str:
    """A number as text of the IR."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    return real_text(float(dtype.type(value)), kind)
