"""Types of the rules by which an Op tells the compiler how to compute it.

Rules are written against the protocols below, so that they can stand beside their ops: codegen
implements the protocols, and neither graph nor ops imports codegen. Both import this module for
type checking only, for the classes here would take a few milliseconds of every import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar

from gradtape.dtypes import DType
from gradtape.ir.math_function import MathFunction
from gradtape.records import dataclass


class Vector(NamedTuple):
    """The IR name of one value, with one element of `dtype` per lane.

    A complex value has two names: its real parts, and its imaginary parts. It is a tuple because
    one is made for every instruction, and a tuple is made quickly.
    """

    name: str
    dtype: DType
    imaginary: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """All IR names that make up the value."""
        return (self.name, self.imaginary) if self.imaginary else (self.name,)


class Builder(Protocol):
    """Appends instructions to a kernel. An Op's `llvm` rule is called with one.

    A method raises NotLowered where a dtype has no such instruction.
    """

    def constant(self, value: complex, dtype: DType) -> Vector:
        """The same number in every lane."""

    def arithmetic(
        self, real: str, whole: str, x: Vector, y: Vector, contract: bool = True
    ) -> Vector:
        """One instruction for floats, another for integers.

        With `contract`, LLVM may join a product and a sum into one instruction that rounds once.
        """

    def bits(self, name: str, x: Vector, y: Vector) -> Vector:
        """`and`, `or` or `xor` of booleans or integers."""

    def compare(self, real: str, whole: str, x: Vector, y: Vector) -> Vector:
        """A comparison: LLVM's predicate for floats; for integers eq, ne, lt, le, gt or ge."""

    def select(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        """`x` where the condition holds, `y` elsewhere."""

    def pair(self, real: Vector, imaginary: Vector) -> Vector:
        """The complex value with these parts."""

    def real(self, x: Vector) -> Vector:
        """The real part; a real number is its own."""

    def imaginary(self, x: Vector) -> Vector:
        """The imaginary part; 0 for a real number."""

    def conjugate(self, x: Vector) -> Vector:
        """The complex conjugate."""

    def negative(self, x: Vector) -> Vector:
        """-x."""

    def invert(self, x: Vector) -> Vector:
        """All bits inverted."""

    def call(self, function: MathFunction, *operands: Vector) -> Vector:
        """A mathematical function of floats or of complex numbers."""

    def cast(self, x: Vector, dtype: DType) -> Vector:
        """The value in another dtype, converted as NumPy does."""


LlvmRule = Callable[..., Vector]


class Lanes(Protocol):
    """A vector inside a Composition: floats, integers of the same width, or a mask.

    Operators act lane by lane, and comparisons give masks.
    """

    def __add__(self, other: Self | float) -> Self: ...
    def __radd__(self, other: float) -> Self: ...
    def __sub__(self, other: Self | float) -> Self: ...
    def __rsub__(self, other: float) -> Self: ...
    def __mul__(self, other: Self | float) -> Self: ...
    def __rmul__(self, other: float) -> Self: ...
    def __truediv__(self, other: Self | float) -> Self: ...
    def __rtruediv__(self, other: float) -> Self: ...
    def __neg__(self) -> Self: ...
    def __and__(self, other: Self | int) -> Self: ...
    def __or__(self, other: Self | int) -> Self: ...
    def __xor__(self, other: Self | int) -> Self: ...
    def __invert__(self) -> Self: ...
    def __lt__(self, other: Self | float) -> Self: ...
    def __gt__(self, other: Self | float) -> Self: ...
    def __ge__(self, other: Self | float) -> Self: ...

    def compare(self, predicate: str, other: Self | float) -> Self:
        """A mask by LLVM's predicate: `olt`, `une`, … for floats; `slt`, `eq`, … for integers."""

    def equals(self, other: Self | float) -> Self:
        """A mask of equal floats; a NaN equals nothing."""

    def isnan(self) -> Self:
        """A mask of NaNs."""

    def bits(self) -> Self:
        """The bits of floats as integers."""

    def floats(self) -> Self:
        """The bits of integers as floats."""


V = TypeVar("V", bound=Lanes)


class FunctionBody(Protocol[V]):
    """Writes the function that a Composition is, for floats of one type."""

    @property
    def fraction(self) -> int:
        """The number of bits that hold the fraction of a float."""

    @property
    def fused(self) -> bool:
        """Whether the machine multiplies and adds in one instruction."""

    def lift(self, value: float) -> V:
        """The same number in every lane."""

    def integer(self, value: int) -> V:
        """The same integer, as wide as a float is, in every lane."""

    def apply(self, function: MathFunction, *operands: V) -> V:
        """Another function, by its most accurate implementation: errors of parts add up."""

    def fma(self, a: V, b: V | float, c: V | float) -> V:
        """a b + c with one rounding."""

    def polynomial(self, x: V, coefficients: Sequence[float]) -> V:
        """The polynomial whose coefficients are listed from the lowest power."""

    def absolute(self, x: V) -> V:
        """|x|."""

    def copysign(self, x: V, sign: V | float) -> V:
        """`x` with the sign of another value."""

    def select(self, mask: V, chosen: V | float, other: V | float) -> V:
        """Lanes of `chosen` where the mask is set, of `other` elsewhere."""

    def library_where(self, mask: V, function: MathFunction, operands: tuple[V, ...], fast: V) -> V:
        """`fast`; if the mask is set in any lane, the library's function for all lanes."""


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
