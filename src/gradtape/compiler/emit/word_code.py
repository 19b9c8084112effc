"""Routine: one function of IR over words and pointers in memory, written with loops and conditions.

It writes native code that works on tables of words and on the interpreter's objects. A value is the
name of an i64 or of a pointer in the IR; a number that is known beforehand is written as it is.

>>> r = Routine("i64 @total(ptr %words, i64 %count, ptr %sum)")
>>> with r.loop("%count") as index:
...     r.add_to("%sum", 0, r.word("%words", r.scaled(index)))
>>> r.end(f"ret i64 {r.word('%sum')}")
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

Word = str | int


class Fold:
    """The index of a loop, and the values that its rounds hand on."""

    def __init__(self, index: str, values: Sequence[str]) -> None:
        self.index = index
        self.values = list(values)


class Variable:
    """A variable of a routine. Routines with variables are compiled with `has_variables`."""

    def __init__(self, r: Routine, kind: str) -> None:
        self._r = r
        self._kind = kind
        self.place = r.entry_line(f"alloca {kind}")

    def get(self) -> str:
        """The value."""
        return self._r.let(f"load {self._kind}, ptr {self.place}")

    def set(self, value: Word) -> None:
        """Change the value."""
        self._r.line(f"store {self._kind} {value}, ptr {self.place}")


class Routine:
    """Collects the lines of one function. `head` is the text between `define` and the brace."""

    def __init__(self, head: str) -> None:
        self.head = head
        self._lines = [f"define {head} {{", "entry:"]
        self._count = 0
        # The name of the block that lines are added to, for the phis of the next one.
        self.here = "entry"
        self._ended = False

    def text(self) -> str:
        """The function."""
        return "\n".join([*self._lines, "}", ""])

    # Lines and blocks.

    def fresh(self) -> int:
        """A number that no name of the function ends with yet."""
        self._count += 1
        return self._count

    def line(self, text: str) -> None:
        """Add an instruction; nothing is added after the end of a block."""
        if not self._ended:
            self._lines.append(f"  {text}")

    def let(self, text: str) -> str:
        """A new name for the result of an instruction."""
        name = f"%v{self.fresh()}"
        self.line(f"{name} = {text}")
        return name

    def end(self, text: str) -> None:
        """Add the last instruction of a block."""
        self.line(text)
        self._ended = True

    def block(self, name: str) -> None:
        """Begin a block; the block before continues with it unless it has ended."""
        if not self._ended:
            self.line(f"br label %{name}")
        self._ended = False
        self._lines.append(f"{name}:")
        self.here = name

    def go(self, name: str) -> None:
        """Continue with a block."""
        self.end(f"br label %{name}")

    def go_if(self, condition: str, name: str) -> None:
        """Continue with a block if a condition holds, else with the next line."""
        following = f"on{self.fresh()}"
        self.end(f"br i1 {condition}, label %{name}, label %{following}")
        self.block(following)

    def go_if_null(self, pointer: str, name: str) -> None:
        """Continue with a block if a pointer is null, else with the next line."""
        self.go_if(self.same(pointer, "null"), name)

    def give(self, value: str, kind: str = "ptr") -> None:
        """Return a value."""
        self.end(f"ret {kind} {value}")

    def phi(self, kind: str, *ways: tuple[Word, str]) -> str:
        """In the beginning of a block: a value by the name of the block that came before."""
        return self.let(f"phi {kind} " + ", ".join(f"[ {x}, %{name} ]" for x, name in ways))

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Lines that run only if a condition holds."""
        number = self.fresh()
        self.end(f"br i1 {condition}, label %then{number}, label %done{number}")
        self.block(f"then{number}")
        yield
        self.block(f"done{number}")

    @contextlib.contextmanager
    def loop(self, count: Word, start: Word = 0) -> Iterator[str]:
        """Lines that run for each number from `start` to below `count`."""
        number = self.fresh()
        index, following = f"%index{number}", f"%next{number}"
        some = self.compare("slt", start, count)
        before = self.here
        self.end(f"br i1 {some}, label %body{number}, label %after{number}")
        self.block(f"body{number}")
        self.line(f"{index} = phi i64 [ {start}, %{before} ], [ {following}, %latch{number} ]")
        yield index
        # The test is at the end: modules are compiled without LLVM's rotation of loops.
        self.block(f"latch{number}")
        self.line(f"{following} = add i64 {index}, 1")
        more = self.compare("slt", following, count)
        self.end(f"br i1 {more}, label %body{number}, label %after{number}")
        self.block(f"after{number}")

    @contextlib.contextmanager
    def fold(self, count: Word, kind: str, values: Sequence[str]) -> Iterator[Fold]:
        """A loop from zero that carries values of one type in registers.

        Its body reads and replaces `values`; after the loop they are those of the last round.
        """
        before, carried = self.here, [f"%carried{self.fresh()}" for _ in values]
        with self.loop(count) as index:
            latch, place = index.replace("%index", "latch"), len(self._lines)
            fold = Fold(index, carried)
            yield fold
            last = list(fold.values)
            self._lines[place:place] = [
                f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{latch} ]"
                for name, first, value in zip(carried, values, last, strict=True)
            ]
        fold.values = [
            self.phi(kind, (first, before), (value, latch))
            for first, value in zip(values, last, strict=True)
        ]

    @contextlib.contextmanager
    def repeat(self) -> Iterator[str]:
        """Lines that run again and again, until they continue with the block of this name."""
        number = self.fresh()
        self.block(f"again{number}")
        yield f"enough{number}"
        self.go(f"again{number}")
        self.block(f"enough{number}")

    # Variables. LLVM moves them to registers.

    def entry_line(self, text: str) -> str:
        """A new name for the result of an instruction in the first block."""
        name = f"%v{self.fresh()}"
        self._lines.insert(2, f"  {name} = {text}")
        return name

    def variable(self, kind: str, value: Word) -> Variable:
        """A variable of a type, which has a value from here on."""
        made = Variable(self, kind)
        made.set(value)
        return made

    # Calls. An argument is written with its type: `ptr %x`.

    def do(self, function: str, *arguments: str) -> None:
        """Call a function that returns nothing."""
        self.line(f"call void {function}({', '.join(arguments)})")

    def call(self, kind: str, function: str, *arguments: str) -> str:
        """The result, of this type, of a call."""
        return self.let(f"call {kind} {function}({', '.join(arguments)})")

    # Memory. A place is a pointer and bytes beyond it.

    def at(self, base: str, offset: Word) -> str:
        """The address so many bytes beyond a pointer."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def row(self, table: str, index: str, words: int) -> str:
        """The address of a row of a table whose rows have so many words."""
        return self.at(table, self.let(f"mul i64 {index}, {8 * words}"))

    def word(self, base: str, offset: Word = 0) -> str:
        """The word at a place."""
        return self.let(f"load i64, ptr {self.at(base, offset)}")

    def words(
        self, base: str, names: Sequence[str], pointers: Collection[str] = ()
    ) -> dict[str, str]:
        """Consecutive words by name; those among `pointers` are loaded as pointers."""
        return {
            name: (self.pointer if name in pointers else self.word)(base, 8 * index)
            for index, name in enumerate(names)
        }

    def pointer(self, base: str, offset: Word = 0) -> str:
        """The pointer at a place."""
        return self.let(f"load ptr, ptr {self.at(base, offset)}")

    def put(self, base: str, offset: Word, value: Word) -> None:
        """Store a word at a place."""
        self.line(f"store i64 {value}, ptr {self.at(base, offset)}")

    def put_pointer(self, base: str, offset: Word, value: str) -> None:
        """Store a pointer at a place."""
        self.line(f"store ptr {value}, ptr {self.at(base, offset)}")

    def add_to(self, base: str, offset: Word, value: Word) -> None:
        """Add to the word at a place."""
        place = self.at(base, offset)
        more = self.let(f"add i64 {self.let(f'load i64, ptr {place}')}, {value}")
        self.line(f"store i64 {more}, ptr {place}")

    def replaced(self, place: str, old: int, new: int, orders: str) -> str:
        """Whether an i32 was `old` and is `new` now, atomically; with LLVM's memory orders."""
        swap = self.let(f"cmpxchg ptr {place}, i32 {old}, i32 {new} {orders}")
        return self.let(f"extractvalue {{ i32, i1 }} {swap}, 1")

    # Values.

    def add(self, x: Word, y: Word) -> str:
        """The sum of two words."""
        return self.let(f"add i64 {x}, {y}")

    def subtract(self, x: Word, y: Word) -> str:
        """The difference of two words."""
        return self.let(f"sub i64 {x}, {y}")

    def multiply(self, x: Word, y: Word) -> str:
        """The product of two words."""
        return self.let(f"mul i64 {x}, {y}")

    def scaled(self, index: str) -> str:
        """The bytes before the word of this number."""
        return self.let(f"shl i64 {index}, 3")

    def select(self, condition: str, x: Word, y: Word, kind: str = "i64") -> str:
        """One value if a condition holds, else the other."""
        return self.let(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def compare(self, how: str, x: Word, y: Word, kind: str = "i64") -> str:
        """A comparison by its name in LLVM, such as `slt`."""
        return self.let(f"icmp {how} {kind} {x}, {y}")

    def either(self, x: str, y: str) -> str:
        """Whether one of two conditions holds."""
        return self.let(f"or i1 {x}, {y}")

    def both(self, x: str, y: str) -> str:
        """Whether two conditions hold."""
        return self.let(f"and i1 {x}, {y}")

    def negated(self, condition: str) -> str:
        """Whether a condition does not hold."""
        return self.let(f"xor i1 {condition}, true")

    def same(self, x: str, y: str) -> str:
        """Whether two pointers are equal."""
        return self.compare("eq", x, y, "ptr")

    def differ(self, x: str, y: str) -> str:
        """Whether two pointers are not equal."""
        return self.compare("ne", x, y, "ptr")

    def equal(self, x: str, y: Word) -> str:
        """Whether two words are equal."""
        return self.compare("eq", x, y)

    def unequal(self, x: str, y: Word) -> str:
        """Whether two words are not equal."""
        return self.compare("ne", x, y)
