"""StackRoutine: a kernel that computes something of each matrix of a stack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Typed, Word


class ElementType:
    """The type of a matrix's elements in IR, by the letter of LAPACK's routines."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.is_complex = letter in "cz"
        is_single = letter in "sc"
        # The type of a real number, its bytes, and what the names of C's functions of it end with.
        self.real, self.real_bytes, self.suffix = (
            ("float", 4, "f") if is_single else ("double", 8, "")
        )
        # The number of real numbers of an element, its bytes, and a type that copies one.
        self.parts = 2 if self.is_complex else 1
        self.nbytes = self.real_bytes * self.parts
        self.bits = {4: "i32", 8: "i64", 16: "<2 x i64>"}[self.nbytes]


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
        self.elements = ElementType(letter)
        self._bases = dict(zip(self._names, (*self.operands, *self.results), strict=True))

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
        return [self.r.load(real, each) for each in places]

    def store(self, place: str, values: Sequence[str]) -> None:
        """Write the real numbers of an element."""
        for number, value in enumerate(values):
            each = self.r.at(place, number * self.elements.real_bytes)
            self.r.store(value, each, self.elements.real)

    def compares(self, how: str, place: str) -> Typed:
        """Whether a real number compares with 0, by LLVM's name: `uno` is true of NaN."""
        return self.r.compare(how, self.r.load(self.elements.real, place), "0.0")

    def is_zero(self, values: Sequence[str], or_nan: bool) -> Typed:
        """Whether an element is 0, or also NaN."""
        found = [self.r.compare("oeq", each, "0.0") for each in values]
        zero = found[0] if len(found) == 1 else self.r.both(*found)
        if or_nan:
            for each in values:
                zero = self.r.either(zero, self.r.compare("uno", each, "0.0"))
        return zero

    def fail_if(self, condition: str) -> None:
        """Stop the plan if a condition holds."""
        with self.r.when(condition):
            self.fail()
