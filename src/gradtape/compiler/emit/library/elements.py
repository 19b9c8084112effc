"""Elements of arrays in routines: loads, stores and comparisons by dtype.

A dtype is written as NumPy's kind and size: f8, i4, u1, b1.
"""

from __future__ import annotations

from gradtape.compiler.emit.writer import Routine, Typed, Word


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
        return self._r.item(stored, self.base, index)

    def get(self, index: Word) -> Typed:
        """An element."""
        r = self._r
        if self.dtype[0] == "b":
            return r.unequal(r.load("i8", self.at(index)), 0)
        return r.load(self.kind, self.at(index))

    def put(self, index: Word, value: Word) -> None:
        """Store an element."""
        r = self._r
        if self.dtype[0] == "b":
            r.store(r.cast("zext", value, "i8"), self.at(index))
        else:
            r.store(value, self.at(index), self.kind)

    def integer(self, index: Word) -> Typed:
        """An integer as a word."""
        found = self.get(index)
        if self.size == 8:
            return found
        return self._r.cast("sext" if self.dtype[0] == "i" else "zext", found, "i64")

    def exceeds(self, y: str, x: str) -> str:
        """Whether y comes after x in sorted order: NaN comes last."""
        r = self._r
        if self.dtype[0] == "f":
            last = r.both(r.compare("ord", x, x), r.compare("uno", y, y))
            return r.either(r.compare("olt", x, y), last)
        how = "slt" if self.dtype[0] == "i" else "ult"
        return r.compare(how, x, y)
