"""StackRoutine: a kernel that computes something of each matrix of a stack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Word
from gradtape.records import dataclass


@dataclass(frozen=True)
class Elements:
    """The type of a matrix's elements in IR, by the letter of LAPACK's routines."""

    letter: str

    @property
    def is_complex(self) -> bool:
        """Whether an element is two numbers."""
        return self.letter in "cz"

    @property
    def real(self) -> str:
        """The type of a real number."""
        return "float" if self.letter in "sc" else "double"

    @property
    def real_bytes(self) -> int:
        """The size of a real number."""
        return 4 if self.letter in "sc" else 8

    @property
    def nbytes(self) -> int:
        """The size of an element."""
        return self.real_bytes * (2 if self.is_complex else 1)

    @property
    def bits(self) -> str:
        """A type that copies one element."""
        return {4: "i32", 8: "i64", 16: "<2 x i64>"}[self.nbytes]


class StackRoutine(LibraryRoutine):
    """A routine whose words begin with the bytes from one matrix of a stack to the next.

    There is one such word for each operand and each result.
    """

    def __init__(
        self,
        name: str,
        letter: str,
        operands: Sequence[str],
        results: Sequence[str],
        words: Sequence[str] = (),
    ) -> None:
        self._names = (*operands, *results)
        steps = [f"{each} step" for each in self._names]
        super().__init__(name, len(operands), len(results), [*steps, *words])
        self.elements = Elements(letter)
        # Declarations and functions of the module, by name.
        self.declared: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self._bases = dict(zip(self._names, (*self.operands, *self.results), strict=True))

    def text(self) -> str:
        """The module."""
        function = super().text()
        return "\n".join([*self.declared.values(), *self.functions.values(), function])

    # Places.

    @contextlib.contextmanager
    def items(self) -> Iterator[list[str]]:
        """Lines that run for each matrix: the addresses of its operands and results."""
        with self.r.loop("%hi", "%lo") as item:
            yield [self.of_item(name, item) for name in self._names]

    def of_item(self, name: str, item: Word) -> str:
        """The address of an operand or result of one item."""
        r = self.r
        return r.at(self._bases[name], r.multiply(item, self.words[f"{name} step"]))

    def element(self, base: str, index: Word) -> str:
        """The address of an element of a matrix."""
        return self.r.at(base, self.r.multiply(index, self.elements.nbytes))

    # Values.

    def load(self, place: str) -> list[str]:
        """The real numbers of an element."""
        real, nbytes = self.elements.real, self.elements.real_bytes
        places = [place, self.r.at(place, nbytes)] if self.elements.is_complex else [place]
        return [self.r.let(f"load {real}, ptr {each}") for each in places]

    def store(self, place: str, values: Sequence[str]) -> None:
        """Write the real numbers of an element."""
        for number, value in enumerate(values):
            each = self.r.at(place, number * self.elements.real_bytes)
            self.r.line(f"store {self.elements.real} {value}, ptr {each}")

    def is_positive(self, place: str) -> str:
        """Whether a real number is above 0, which NaN is not."""
        found = self.r.let(f"load {self.elements.real}, ptr {place}")
        return self.r.let(f"fcmp ogt {self.elements.real} {found}, 0.0")

    def is_nan(self, place: str) -> str:
        """Whether a real number is NaN."""
        found = self.r.let(f"load {self.elements.real}, ptr {place}")
        return self.r.let(f"fcmp uno {self.elements.real} {found}, 0.0")

    def is_zero(self, values: Sequence[str], or_nan: bool) -> str:
        """Whether an element is 0, or also NaN."""
        found = [self.r.let(f"fcmp oeq {self.elements.real} {each}, 0.0") for each in values]
        zero = found[0] if len(found) == 1 else self.r.both(*found)
        if or_nan:
            for each in values:
                zero = self.r.either(zero, self.r.let(f"fcmp uno {self.elements.real} {each}, 0.0"))
        return zero

    def fail_if(self, condition: str) -> None:
        """Stop the plan if a condition holds."""
        with self.r.when(condition):
            self.fail()

    def function(self, name: str, head: str) -> str:
        """The name of a function of C, declared as `head` is."""
        self.declared[name] = f"declare {head}"
        return f"@{name}"
