"""Elements of arrays in routines: loads, stores and comparisons by dtype.

A dtype is written as NumPy's kind and size: f8, i4, u1, b1.
"""

from __future__ import annotations

from gradtape.compiler.emit.writer import Routine, Word


def register_type(dtype: str) -> str:
    """The IR type of an element in a register; booleans are single bits."""
    if dtype[0] == "f":
        return "double" if dtype == "f8" else "float"
    return "i1" if dtype[0] == "b" else f"i{8 * int(dtype[1])}"


class Elements:
    """A contiguous array of one dtype."""

    def __init__(self, r: Routine, base: str, dtype: str) -> None:
        self._r = r
        self.base = base
        self.dtype = dtype
        self.kind = register_type(dtype)
        self.size = int(dtype[1])

    def at(self, index: Word) -> str:
        """The address of an element."""
        stored = "i8" if self.dtype[0] == "b" else self.kind
        return self._r.let(f"getelementptr {stored}, ptr {self.base}, i64 {index}")

    def get(self, index: Word) -> str:
        """An element."""
        r = self._r
        if self.dtype[0] == "b":
            byte = r.let(f"load i8, ptr {self.at(index)}")
            return r.let(f"icmp ne i8 {byte}, 0")
        return r.let(f"load {self.kind}, ptr {self.at(index)}")

    def put(self, index: Word, value: Word) -> None:
        """Store an element."""
        r = self._r
        if self.dtype[0] == "b":
            byte = r.let(f"zext i1 {value} to i8")
            r.line(f"store i8 {byte}, ptr {self.at(index)}")
        else:
            r.line(f"store {self.kind} {value}, ptr {self.at(index)}")

    def integer(self, index: Word) -> str:
        """An integer as a word."""
        found = self.get(index)
        if self.size == 8:
            return found
        word = "sext" if self.dtype[0] == "i" else "zext"
        return self._r.let(f"{word} {self.kind} {found} to i64")

    def less(self, x: str, y: str) -> str:
        """Whether x comes before y in sorted order: NaN comes last."""
        r = self._r
        if self.dtype[0] == "f":
            smaller = r.let(f"fcmp olt {self.kind} {x}, {y}")
            is_number = r.let(f"fcmp ord {self.kind} {x}, {x}")
            is_nan = r.let(f"fcmp uno {self.kind} {y}, {y}")
            return r.either(smaller, r.both(is_number, is_nan))
        how = "slt" if self.dtype[0] == "i" else "ult"
        return r.compare(how, x, y, self.kind)

    def exceeds(self, x: str, y: str) -> str:
        """Whether x comes after y in sorted order."""
        return self.less(y, x)
