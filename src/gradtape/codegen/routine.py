"""Routine: a function of IR over words and pointers in memory, written with loops and conditions.

For native code that works on tables of words and on the interpreter's objects. A value is the
name of an i64 or of a pointer; numbers that are known are written as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

Word = str | int


class Routine:
    """Collects the lines of one function."""

    def __init__(self, head: str) -> None:
        self._lines = [f"define {head} {{", "entry:"]
        self._count = 0
        self._block = "entry"
        self._ended = False

    def text(self) -> str:
        """The function."""
        return "\n".join([*self._lines, "}", ""])

    # Lines and blocks.

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def line(self, text: str) -> None:
        if not self._ended:
            self._lines.append(f"  {text}")

    def let(self, text: str) -> str:
        """A new name for the result of an instruction."""
        name = f"%v{self.fresh()}"
        self.line(f"{name} = {text}")
        return name

    def end(self, text: str) -> None:
        """The last line of a block."""
        self.line(text)
        self._ended = True

    def block(self, name: str) -> None:
        """Begin a block, to which the one before goes on if it has not ended."""
        if not self._ended:
            self.line(f"br label %{name}")
        self._ended = False
        self._lines.append(f"{name}:")
        self._block = name

    def go_if(self, condition: str, name: str) -> None:
        """Go on at a block if a condition holds."""
        following = f"on{self.fresh()}"
        self.end(f"br i1 {condition}, label %{name}, label %{following}")
        self.block(following)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is done only if a condition holds."""
        number = self.fresh()
        self.end(f"br i1 {condition}, label %then{number}, label %done{number}")
        self.block(f"then{number}")
        yield
        self.block(f"done{number}")

    @contextlib.contextmanager
    def loop(self, count: Word) -> Iterator[str]:
        """What is done for each number below a count."""
        number, before = self.fresh(), self._block
        index = f"%index{number}"
        self.block(f"loop{number}")
        self.line(f"{index} = phi i64 [ 0, %{before} ], [ %next{number}, %latch{number} ]")
        more = self.let(f"icmp slt i64 {index}, {count}")
        self.end(f"br i1 {more}, label %body{number}, label %after{number}")
        self.block(f"body{number}")
        yield index
        self.block(f"latch{number}")
        self.line(f"%next{number} = add i64 {index}, 1")
        self.end(f"br label %loop{number}")
        self.block(f"after{number}")

    # Memory. A place is a pointer and bytes beyond it.

    def at(self, base: str, offset: Word) -> str:
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def row(self, table: str, index: str, words: int) -> str:
        """The address of a row of a table."""
        return self.at(table, self.let(f"mul i64 {index}, {8 * words}"))

    def word(self, base: str, offset: Word = 0) -> str:
        return self.let(f"load i64, ptr {self.at(base, offset)}")

    def pointer(self, base: str, offset: Word = 0) -> str:
        return self.let(f"load ptr, ptr {self.at(base, offset)}")

    def put(self, base: str, offset: Word, value: Word) -> None:
        self.line(f"store i64 {value}, ptr {self.at(base, offset)}")

    def put_pointer(self, base: str, offset: Word, value: str) -> None:
        self.line(f"store ptr {value}, ptr {self.at(base, offset)}")

    def add_to(self, base: str, offset: Word, value: Word) -> None:
        place = self.at(base, offset)
        more = self.let(f"add i64 {self.let(f'load i64, ptr {place}')}, {value}")
        self.line(f"store i64 {more}, ptr {place}")

    # Values.

    def scaled(self, index: str) -> str:
        """The bytes before a word."""
        return self.let(f"shl i64 {index}, 3")

    def same(self, x: str, y: str) -> str:
        return self.let(f"icmp eq ptr {x}, {y}")

    def differ(self, x: str, y: str) -> str:
        return self.let(f"icmp ne ptr {x}, {y}")

    def equal(self, x: str, y: Word) -> str:
        return self.let(f"icmp eq i64 {x}, {y}")

    def unequal(self, x: str, y: Word) -> str:
        return self.let(f"icmp ne i64 {x}, {y}")
