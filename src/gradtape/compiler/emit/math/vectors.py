"""FunctionBody as IR text: values are names, and operators append instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.compiler.emit.math.mathlibrary import cold_function
from gradtape.compiler.emit.writer import Routine, Typed, every_lane
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import FoundFunction, real_text, vector
from gradtape.config import LONGEST_REGISTER_KEEPING_FUNCTION
from gradtape.ir.math_function import Intrinsic, MathFunction
from gradtape.ops.families.math_functions import COPYSIGN, FABS
from gradtape.records import dataclass

Resolver = Callable[[MathFunction, str, int], FoundFunction]

FLOAT, INTEGER, MASK = "float", "integer", "mask"
_WIDTHS = {"float": 32, "double": 64}


# A function whose symbol begins so keeps half of the 32 vector registers of AVX-512 for its caller,
# by a convention that LLVM has for OpenCL. Other functions keep none. A kernel that calls several
# of those stores its values before each call, which took longer than the functions themselves.
KEEPING = "gradtape_keeping_"


def convention(symbol: str) -> str:
    """The calling convention of a symbol, as text of the IR before the type of the result."""
    return "intel_ocl_bicc " if symbol.startswith(KEEPING) else ""


@dataclass(frozen=True, eq=False)
class VectorValue:
    """A named vector of floats, integers of the same width, or bits; operators act lane by lane."""

    body: Body
    name: Typed
    kind: str

    def _binary(
        self, other: VectorValue | float | int, operation: str, swapped: bool = False
    ) -> VectorValue:
        second = self.body.lift(other, self.kind)
        left, right = (second, self) if swapped else (self, second)
        found = self.body.r.op(operation, left.name, right.name)
        return VectorValue(self.body, found, self.kind)

    def _arithmetic(self, operation: str) -> str:
        """LLVM's instruction: that for integers has the name of that for floats, less its f."""
        return operation if self.kind == FLOAT else operation.removeprefix("f")

    def __add__(self, other: VectorValue | float | int) -> VectorValue:
        return self._binary(other, self._arithmetic("fadd"))

    __radd__ = __add__

    def __sub__(self, other: VectorValue | float | int) -> VectorValue:
        return self._binary(other, self._arithmetic("fsub"))

    def __rsub__(self, other: float | int) -> VectorValue:
        return self._binary(other, self._arithmetic("fsub"), swapped=True)

    def __mul__(self, other: VectorValue | float | int) -> VectorValue:
        return self._binary(other, self._arithmetic("fmul"))

    __rmul__ = __mul__

    def __truediv__(self, other: VectorValue | float) -> VectorValue:
        return self._binary(other, "fdiv")

    def __rtruediv__(self, other: float) -> VectorValue:
        return self._binary(other, "fdiv", swapped=True)

    def __neg__(self) -> VectorValue:
        return VectorValue(self.body, self.body.r.negative(self.name), FLOAT)

    def __and__(self, other: VectorValue | int) -> VectorValue:
        return self._binary(other, "and")

    def __or__(self, other: VectorValue | int) -> VectorValue:
        return self._binary(other, "or")

    def __xor__(self, other: VectorValue | int) -> VectorValue:
        return self._binary(other, "xor")

    def __invert__(self) -> VectorValue:
        return self._binary(-1 if self.kind == INTEGER else 1, "xor")

    def __lshift__(self, count: int) -> VectorValue:
        return self._binary(count, "shl")

    def shift_right(self, count: int, signed: bool = False) -> VectorValue:
        """Bits moved down; zeros or copies of the sign move in."""
        return self._binary(count, "ashr" if signed else "lshr")

    def compare(self, predicate: str, other: VectorValue | float | int) -> VectorValue:
        """A mask: `olt`, `une`, … for floats; `slt`, `eq`, … for integers."""
        second = self.body.lift(other, self.kind)
        return VectorValue(self.body, self.body.r.compare(predicate, self.name, second.name), MASK)

    def __lt__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("olt", other)

    def __le__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("ole", other)

    def __gt__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("ogt", other)

    def __ge__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("oge", other)

    def equals(self, other: VectorValue | float) -> VectorValue:
        """A mask of equal floats; a NaN equals nothing."""
        return self.compare("oeq", other)

    def isnan(self) -> VectorValue:
        """A mask of NaN."""
        return self.compare("uno", self)

    def bits(self) -> VectorValue:
        """The same bits as integers."""
        return self._cast("bitcast", INTEGER)

    def floats(self) -> VectorValue:
        """The same bits as floats."""
        return self._cast("bitcast", FLOAT)

    def converted(self) -> VectorValue:
        """Signed integers as the floats nearest to them."""
        return self._cast("sitofp", FLOAT)

    def _cast(self, operation: str, target: str) -> VectorValue:
        found = self.body.r.cast(operation, self.name, self.body.type(target))
        return VectorValue(self.body, found, target)


VectorValues = tuple[VectorValue, ...]


class Body:
    """The body of one function on vectors of `lanes` floats of one type (a FunctionBody).

    `resolve` finds the functions that it applies.
    """

    def __init__(self, ty: str, lanes: int, resolve: Resolver) -> None:
        self.ty = ty
        self.lanes = lanes
        self._resolve = resolve
        self.width = _WIDTHS[ty]
        self.r = Routine()
        # Whether it calls functions that keep no registers.
        self._calls_others = False

    @property
    def fraction(self) -> int:
        """The number of bits that hold the fraction of a float."""
        return 23 if self.ty == "float" else 52

    @property
    def fused(self) -> bool:
        """Whether the machine multiplies and adds in one instruction."""
        return llvm.host().fused

    @property
    def bias(self) -> int:
        """The number that is added to an exponent where it is stored."""
        return 127 if self.ty == "float" else 1023

    def type(self, kind: str = FLOAT) -> str:
        """The IR type of a kind of value."""
        element = {FLOAT: self.ty, INTEGER: f"i{self.width}", MASK: "i1"}[kind]
        return vector(element, self.lanes)

    def pick(self, single: float, double: float) -> float:
        """The constant for this body's type of float."""
        return single if self.ty == "float" else double

    def emit(self, text: str, kind: str = FLOAT) -> VectorValue:
        """Append an instruction and name its result."""
        return VectorValue(self, self.r.let(text, self.type(kind)), kind)

    def lift(self, value: VectorValue | float | int, kind: str = FLOAT) -> VectorValue:
        """A number as the same constant in every lane."""
        if isinstance(value, VectorValue):
            return value
        if kind == FLOAT:
            text, element = real_text(float(value), self.ty), self.ty
        elif kind == INTEGER:
            text, element = str(int(value)), f"i{self.width}"
        else:
            text, element = ("true" if value else "false"), "i1"
        return VectorValue(self, every_lane(element, text, self.lanes), kind)

    def integer(self, value: int) -> VectorValue:
        """The same integer, as wide as a float is, in every lane."""
        return self.lift(value, INTEGER)

    def need(self, snippets: Sequence[str]) -> None:
        """Make the module contain these snippets."""
        self.r.definitions.update(dict.fromkeys(snippets))

    def call(self, found: FoundFunction, *operands: VectorValue, results: int = 1) -> VectorValues:
        """Call a function of this type, which returns `results` vectors."""
        symbol, snippets = found
        self.need(snippets)
        if not symbol.startswith(KEEPING):
            self._calls_others = True
        kind = self.type()
        listed = ", ".join(f"{kind} {operand.name}" for operand in operands)
        returns = kind if results == 1 else f"{{{', '.join([kind] * results)}}}"
        given = self.r.let(f"call {convention(symbol)}{returns} @{symbol}({listed})", returns)
        parts = [given] if results == 1 else self.r.parts(given)
        return tuple(VectorValue(self, part, FLOAT) for part in parts)

    def apply(self, function: MathFunction, *operands: VectorValue) -> VectorValue:
        """Call a mathematical function, by its most accurate implementation."""
        if isinstance(function, Intrinsic):
            return self._intrinsic(function.name, *operands)
        return self.call(self._resolve(function, self.ty, self.lanes), *operands)[0]

    def _intrinsic(self, name: str, *operands: VectorValue) -> VectorValue:
        found = self.r.intrinsic(name, *(operand.name for operand in operands))
        return VectorValue(self, found, FLOAT)

    def fma(self, a: VectorValue, b: VectorValue | float, c: VectorValue | float) -> VectorValue:
        """a b + c with one rounding."""
        return self._intrinsic("fma", a, self.lift(b), self.lift(c))

    def polynomial(self, x: VectorValue, coefficients: Sequence[float]) -> VectorValue:
        """The polynomial whose coefficients are listed from the lowest power.

        Estrin's scheme adds pairs of terms first: in Horner's, each product would wait for the
        one before it.
        """
        terms = [self.lift(coefficient) for coefficient in coefficients]
        while len(terms) > 1:
            odd = terms[-1:] if len(terms) % 2 else []
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [self.fma(high, x, low) for low, high in pairs] + odd
            if len(terms) > 1:
                x = x * x
        return terms[0]

    def select(
        self, mask: VectorValue, chosen: VectorValue | float, other: VectorValue | float
    ) -> VectorValue:
        """Lanes of `chosen` where the mask is set, of `other` elsewhere."""
        first, second = self.lift(chosen), self.lift(other)
        found = self.r.select(mask.name, first.name, second.name)
        return VectorValue(self, found, first.kind)

    def absolute(self, x: VectorValue) -> VectorValue:
        """|x|."""
        return self.apply(FABS, x)

    def copysign(self, x: VectorValue, sign: VectorValue | float) -> VectorValue:
        """x with the sign of another value."""
        return self.apply(COPYSIGN, x, self.lift(sign))

    def unless(
        self, mask: VectorValue, result: VectorValues, found: FoundFunction, *operands: VectorValue
    ) -> VectorValues:
        """The result; if the mask is set in any lane, that of a slower function for all lanes."""
        r, condition = self.r, mask.name
        if self.lanes > 1:
            condition = r.unequal(r.cast("bitcast", condition, f"i{self.lanes}"), 0)
        here = r.here
        with r.when(condition):
            slow, there = self.call(found, *operands, results=len(result)), r.here
        return tuple(
            VectorValue(self, r.phi(self.type(), (x.name, here), (y.name, there)), FLOAT)
            for x, y in zip(result, slow, strict=True)
        )

    def library_where(
        self,
        mask: VectorValue,
        function: MathFunction,
        operands: tuple[VectorValue, ...],
        fast: VectorValue,
    ) -> VectorValue:
        """`fast`; if the mask is set in any lane, the library's function for all lanes."""
        found = cold_function(function, self.ty, self.lanes)
        return self.unless(mask, (fast,), found, *operands)[0]

    def function(
        self, name: str, arity: int, write: Callable[..., VectorValue | VectorValues]
    ) -> FoundFunction:
        """The symbol of a function of `arity` operands, and all snippets that it needs.

        It is compiled once, like a library function: inlined fifty times, one takes LLVM half a
        second.
        """
        r, host = self.r, llvm.host()
        operands = [VectorValue(self, Typed(f"%x{k}", self.type()), FLOAT) for k in range(arity)]
        given = write(self, *operands)
        result = (given,) if isinstance(given, VectorValue) else given
        is_short = len(r.lines) <= LONGEST_REGISTER_KEEPING_FUNCTION and not self._calls_others
        keeps = host.machine == "x86_64" and host.bits == 512 and is_short
        symbol = f"{KEEPING if keeps else 'gradtape_'}{name}_{self.ty}{self.lanes}"
        found = r.together(*(each.name for each in result))
        r.give(found)
        listed = ", ".join(f"{self.type()} {operand.name}" for operand in operands)
        # What a function that keeps registers has on the stack are those, which LLVM never aligns.
        aligned = "" if keeps else llvm.aligned_stack(self.lanes * self.width // 8)
        head = f"internal {convention(symbol)}{found.kind} @{symbol}({listed})"
        r.head = f"{head} noinline nounwind {aligned}"
        return symbol, (*r.definitions, r.text())
