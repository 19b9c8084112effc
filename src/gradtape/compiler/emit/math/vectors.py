"""FunctionBody as IR text: values are names, and operators append instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.compiler.emit.math.mathlibrary import cold_function
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
    """How a function is called, by its symbol, as IR writes it before the type of the result."""
    return "intel_ocl_bicc " if symbol.startswith(KEEPING) else ""


@dataclass(frozen=True, eq=False)
class VectorValue:
    """A named vector of floats, integers of the same width, or bits; operators act lane by lane."""

    body: Body
    name: str
    kind: str

    def _binary(
        self, other: VectorValue | float | int, operation: str, swapped: bool = False
    ) -> VectorValue:
        second = self.body.lift(other, self.kind)
        left, right = (second, self) if swapped else (self, second)
        text = f"{operation} {self.body.type(self.kind)} {left.name}, {right.name}"
        return self.body.emit(text, self.kind)

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
        return self.body.emit(f"fneg {self.body.type(FLOAT)} {self.name}", FLOAT)

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
        operation = "fcmp" if self.kind == FLOAT else "icmp"
        text = f"{operation} {predicate} {self.body.type(self.kind)} {self.name}, {second.name}"
        return self.body.emit(text, MASK)

    def __lt__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("olt", other)

    def __le__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("ole", other)

    def __gt__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("ogt", other)

    def __ge__(self, other: VectorValue | float) -> VectorValue:
        return self.compare("oge", other)

    def equals(self, other: VectorValue | float) -> VectorValue:
        """Where two floats are equal; a NaN equals nothing."""
        return self.compare("oeq", other)

    def isnan(self) -> VectorValue:
        """Where the value is NaN."""
        return self.compare("uno", self)

    def bits(self) -> VectorValue:
        """The same bits as integers."""
        return self._cast("bitcast", FLOAT, INTEGER)

    def floats(self) -> VectorValue:
        """The same bits as floats."""
        return self._cast("bitcast", INTEGER, FLOAT)

    def converted(self) -> VectorValue:
        """Signed integers as the floats nearest to them."""
        return self._cast("sitofp", INTEGER, FLOAT)

    def _cast(self, operation: str, source: str, target: str) -> VectorValue:
        body = self.body
        return body.emit(
            f"{operation} {body.type(source)} {self.name} to {body.type(target)}", target
        )


class Body:
    """The body of one function on vectors of `lanes` floats of one type (a FunctionBody).

    `resolve` finds the functions that it applies.
    """

    def __init__(self, ty: str, lanes: int, resolve: Resolver) -> None:
        self.ty = ty
        self.lanes = lanes
        self._resolve = resolve
        self.width = _WIDTHS[ty]
        self._lines: list[str] = []
        self._needs: dict[str, None] = {}
        self._count = 0
        self._block = "entry"
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

    def operand(self, name: str) -> VectorValue:
        """A parameter of the function."""
        return VectorValue(self, "%" + name, FLOAT)

    def emit(self, text: str, kind: str = FLOAT) -> VectorValue:
        """Append an instruction and name its result."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return VectorValue(self, name, kind)

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
        if self.lanes > 1:
            text = "<" + ", ".join([f"{element} {text}"] * self.lanes) + ">"
        return VectorValue(self, text, kind)

    def integer(self, value: int) -> VectorValue:
        """The same integer, as wide as a float is, in every lane."""
        return self.lift(value, INTEGER)

    def need(self, snippets: Sequence[str]) -> None:
        """Make the module contain these snippets."""
        self._needs.update(dict.fromkeys(snippets))

    def call(self, symbol: str, *operands: VectorValue, returns: str | None = None) -> VectorValue:
        """Call a function on vectors of this type."""
        if not symbol.startswith(("llvm.", KEEPING)):
            self._calls_others = True
        listed = ", ".join(f"{self.type(operand.kind)} {operand.name}" for operand in operands)
        return self.emit(f"call {convention(symbol)}{returns or self.type()} @{symbol}({listed})")

    def apply(self, function: MathFunction, *operands: VectorValue) -> VectorValue:
        """Call a mathematical function, by its most accurate implementation."""
        if isinstance(function, Intrinsic):
            return self._intrinsic(function.name, *operands)
        symbol, snippets = self._resolve(function, self.ty, self.lanes)
        self.need(snippets)
        return self.call(symbol, *operands)

    def _intrinsic(self, name: str, *operands: VectorValue) -> VectorValue:
        suffix = f"f{self.width}" if self.lanes == 1 else f"v{self.lanes}f{self.width}"
        symbol = f"llvm.{name}.{suffix}"
        self.need([f"declare {self.type()} @{symbol}({', '.join([self.type()] * len(operands))})"])
        return self.call(symbol, *operands)

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
        kind = self.type(first.kind)
        return self.emit(
            f"select {self.type(MASK)} {mask.name}, {kind} {first.name}, {kind} {second.name}",
            first.kind,
        )

    def absolute(self, x: VectorValue) -> VectorValue:
        """|x|."""
        return self.apply(FABS, x)

    def copysign(self, x: VectorValue, sign: VectorValue | float) -> VectorValue:
        """x with the sign of another value."""
        return self.apply(COPYSIGN, x, self.lift(sign))

    def unless(
        self,
        mask: VectorValue,
        result: Sequence[VectorValue],
        symbol: str,
        operands: Sequence[VectorValue],
    ) -> tuple[VectorValue, ...]:
        """The result; if the mask is set in any lane, that of a slower function for all lanes."""
        types = [self.type()] * len(result)
        returns = types[0] if len(types) == 1 else "{" + ", ".join(types) + "}"
        condition = mask.name
        if self.lanes > 1:
            packed = self.emit(f"bitcast {self.type(MASK)} {mask.name} to i{self.lanes}").name
            condition = self.emit(f"icmp ne i{self.lanes} {packed}, 0").name
        self._count += 1
        here, slow, join = self._block, f"slow{self._count}", f"join{self._count}"
        self._lines += [f"  br i1 {condition}, label %{slow}, label %{join}", f"{slow}:"]
        found = self.call(symbol, *operands, returns=returns).name
        parts = [found]
        if len(result) > 1:
            parts = [
                self.emit(f"extractvalue {returns} {found}, {k}").name for k in range(len(result))
            ]
        self._lines += [f"  br label %{join}", f"{join}:"]
        self._block = join
        return tuple(
            self.emit(f"phi {self.type()} [ {fast.name}, %{here} ], [ {part}, %{slow} ]")
            for fast, part in zip(result, parts, strict=True)
        )

    def library_where(
        self,
        mask: VectorValue,
        function: MathFunction,
        operands: tuple[VectorValue, ...],
        fast: VectorValue,
    ) -> VectorValue:
        """`fast`; if the mask is set in any lane, the library's function for all lanes."""
        symbol, snippets = cold_function(function, self.ty, self.lanes)
        self.need(snippets)
        return self.unless(mask, (fast,), symbol, operands)[0]

    def function(
        self, name: str, operands: Sequence[str], result: Sequence[VectorValue], attributes: str
    ) -> FoundFunction:
        """The symbol of the function, and all snippets that define it and what it needs."""
        host = llvm.host()
        short = len(self._lines) <= LONGEST_REGISTER_KEEPING_FUNCTION and not self._calls_others
        keeps = host.machine == "x86_64" and host.bits == 512 and short
        symbol = f"{KEEPING if keeps else 'gradtape_'}{name}_{self.ty}{self.lanes}"
        returns, last = self.type(), result[0].name
        if len(result) > 1:
            returns = "{" + ", ".join([self.type()] * len(result)) + "}"
            last = "poison"
            for position, value in enumerate(result):
                text = f"insertvalue {returns} {last}, {self.type()} {value.name}, {position}"
                last = self.emit(text).name
        listed = ", ".join(f"{self.type()} %{name}" for name in operands)
        # What a function that keeps registers has on the stack are those, which LLVM never aligns.
        aligned = "" if keeps else llvm.aligned_stack(self.lanes * self.width // 8)
        head = (
            f"define internal {convention(symbol)}{returns} @{symbol}({listed}) "
            f"{attributes} {aligned} {{"
        )
        lines = [head, "entry:", *self._lines, f"  ret {returns} {last}", "}"]
        return symbol, (*self._needs, "\n".join(lines))
