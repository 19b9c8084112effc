"""The writer of IR: one function, written with loops and conditions.

A value is its name in the IR, which knows its type (`Typed`); a number that is known beforehand is
written as it is. `simd` writes vectors, and `builder` the bodies of kernels, with the same writer.

>>> r = Routine("i64 @total(ptr %words, i64 %count, ptr %sum)")
>>> with r.loop("%count") as index:
...     r.add_to("%sum", 0, r.word("%words", r.scaled(index)))
>>> r.end(f"ret i64 {r.word('%sum')}")
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from gradtape.compiler.objects.llvm import vector

Word = str | int
_PARAMETER = re.compile(r"([^(,]+?)(?: noalias)? (%[\w.]+)")
_SYMBOL = re.compile(r"@[\w.$]+")


class Typed(str):
    """The name of a value in the IR, and its type."""

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, name: str, kind: str) -> Typed:
        """A name of a type."""
        found = super().__new__(cls, name)
        found.kind = kind
        return found


class Fold:
    """The index of a loop, and the values that its rounds carry."""

    def __init__(self, index: str, values: Sequence[str]) -> None:
        self.index = index
        self.values = list(values)


class StackVariable:
    """A variable of a routine. Modules with variables are compiled at level 3."""

    def __init__(self, r: Routine, kind: str) -> None:
        self._r = r
        self._kind = kind
        self.place = r.entry_line(f"alloca {kind}")

    def get(self) -> Typed:
        """The value."""
        return self._r.load(self._kind, self.place)

    def set(self, value: Word) -> None:
        """Change the value."""
        self._r.line(f"store {self._kind} {value}, ptr {self.place}")


class Routine:
    """Collects the lines of one function. `head` is the text between `define` and the brace."""

    def __init__(self, head: str = "") -> None:
        self.head = head
        self.entry: list[str] = []
        self.lines: list[str] = []
        # Declarations, and other texts that the module must contain, each once.
        self.definitions: dict[str, None] = {}
        self._kinds: dict[str, str] = {
            name: kind.strip() for kind, name in _PARAMETER.findall(head)
        }
        self._numbers = itertools.count(1)
        # The name of the block that lines are added to, for the phis of the next one.
        self.here = "entry"
        self._ended = False

    def text(self) -> str:
        """The function; it returns nothing at its end, unless it has ended otherwise."""
        self.end("ret void")
        return "\n".join([f"define {self.head} {{", "entry:", *self.entry, *self.lines, "}", ""])

    # Lines and blocks.

    def fresh(self) -> int:
        """A number that no name of the function ends with yet."""
        return next(self._numbers)

    def line(self, text: str) -> None:
        """Add an instruction; nothing is added after the end of a block."""
        if not self._ended:
            self.lines.append(f"  {text}")

    def let(self, text: str, kind: str = "i64") -> Typed:
        """A new name, of a type, for the result of an instruction."""
        name = f"%v{next(self._numbers)}"
        if not self._ended:
            self.lines.append(f"  {name} = {text}")
        return Typed(name, kind)

    def entry_line(self, text: str, kind: str = "ptr") -> Typed:
        """A new name for the result of an instruction in the first block."""
        name = f"%v{next(self._numbers)}"
        self.entry.insert(0, f"  {name} = {text}")
        return Typed(name, kind)

    def end(self, text: str) -> None:
        """Add the last instruction of a block."""
        self.line(text)
        self._ended = True

    def block(self, name: str) -> None:
        """Begin a block; the block before continues with it unless it has ended."""
        if not self._ended:
            self.line(f"br label %{name}")
        self._ended = False
        self.lines.append(f"{name}:")
        self.here = name

    def go(self, name: str) -> None:
        """Continue with a block."""
        self.end(f"br label %{name}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Continue with one of two blocks."""
        self.end(f"br i1 {condition}, label %{yes}, label %{no}")

    def go_if(self, condition: str, name: str) -> None:
        """Continue with a block if a condition holds, else with the next line."""
        following = f"on{self.fresh()}"
        self.branch(condition, name, following)
        self.block(following)

    def go_if_null(self, pointer: str, name: str) -> None:
        """Continue with a block if a pointer is null, else with the next line."""
        self.go_if(self.equal(pointer, "null"), name)

    def give_if(self, condition: str, value: Word) -> None:
        """Return a value if a condition holds."""
        with self.when(condition):
            self.give(value)

    def give_if_null(self, pointer: str, value: Word = "null") -> None:
        """Return null, or another value, if a pointer is null."""
        self.give_if(self.equal(pointer, "null"), value)

    def give(self, value: Word) -> None:
        """Return a value."""
        self.end(f"ret {self.kind(value)} {value}")

    def give_call(self, function: str, *arguments: Word) -> None:
        """Return the pointer that a function returns, as a call in the end."""
        self.give(self.let(f"tail {self._called('ptr', function, arguments)}", "ptr"))

    def phi(self, kind: str, *ways: tuple[Word, str]) -> Typed:
        """In the beginning of a block: a value by the name of the block that came before."""
        return self.let(f"phi {kind} " + ", ".join(f"[ {x}, %{name} ]" for x, name in ways), kind)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Lines that run only if a condition holds."""
        number = self.fresh()
        self.branch(condition, f"then{number}", f"done{number}")
        self.block(f"then{number}")
        yield
        self.block(f"done{number}")

    @contextlib.contextmanager
    def fold(
        self, count: Word, values: Sequence[str], start: Word = 0, step: Word = 1
    ) -> Iterator[Fold]:
        """Lines that run for each number from `start` to below `count`, with values in registers.

        Their body reads and replaces `values`; after the loop they are those of the last round.
        """
        number, before = self.fresh(), self.here
        head, body, latch, after = [f"{x}{number}" for x in ("head", "body", "latch", "after")]
        index, following = Typed(f"%index{number}", "i64"), f"%next{number}"
        carried = [Typed(f"%carried{self.fresh()}", self.kind(value)) for value in values]
        # The test is at the head. With one before the loop and one at its end, LLVM moves more out
        # of the loop than registers hold across a call, and reloads it in each round.
        self.block(head)
        place = len(self.lines)
        self.branch(self.compare("slt", index, count), body, after)
        self.block(body)
        fold = Fold(index, carried)
        yield fold
        self.lines[place:place] = [
            f"  {name} = phi {name.kind} [ {first}, %{before} ], [ {value}, %{latch} ]"
            for name, first, value in zip(
                (index, *carried), (start, *values), (following, *fold.values), strict=True
            )
        ]
        self.block(latch)
        self.line(f"{following} = add i64 {index}, {step}")
        self.go(head)
        self.block(after)
        fold.values = list(carried)

    @contextlib.contextmanager
    def loop(self, count: Word, start: Word = 0, step: Word = 1) -> Iterator[str]:
        """Lines that run for each number from `start` to below `count`."""
        with self.fold(count, (), start, step) as fold:
            yield fold.index

    @contextlib.contextmanager
    def repeat(self) -> Iterator[str]:
        """Lines that run again and again, until they continue with the block of this name."""
        number = self.fresh()
        self.block(f"again{number}")
        yield f"enough{number}"
        self.go(f"again{number}")
        self.block(f"enough{number}")

    def variable(self, kind: str, value: Word) -> StackVariable:
        """A variable of a type, which has a value from here on. LLVM moves it to a register."""
        made = StackVariable(self, kind)
        made.set(value)
        return made

    # Calls. An argument whose type is not known is written with it: `i32 1`.

    def kind(self, value: Word) -> str:
        """The type of a value: that of a name, else of a symbol, a condition or a word."""
        if isinstance(value, Typed):
            return value.kind
        if isinstance(value, int):
            return "i64"
        if value.startswith("@") or value == "null":
            return "ptr"
        return self._kinds.get(value, "i1" if value in ("true", "false") else "i64")

    def common(self, x: Word, y: Word) -> str:
        """The type of two values, of which one may be a literal."""
        known = isinstance(x, Typed) or str(x) in self._kinds
        return self.kind(x if known else y)

    def do(self, function: str, *arguments: Word) -> None:
        """Call a function that returns nothing."""
        self.line(self._called("void", function, arguments))

    def call(self, kind: str, function: str, *arguments: Word) -> Typed:
        """The result, of this type, of a call; a variadic function is called by its own type."""
        return self.let(self._called(kind, function, arguments), kind.partition(" (")[0])

    def _called(self, kind: str, function: str, arguments: Iterable[Word]) -> str:
        typed = [
            (self.kind(x), x) if isinstance(x, int | Typed) or " " not in x else x.split(" ", 1)
            for x in arguments
        ]
        if function.startswith("@"):
            result, _, variadic = kind.partition(" (")
            kinds = variadic[:-1] if variadic else ", ".join(kind for kind, _ in typed)
            self.definitions[f"declare {result} {function}({kinds})"] = None
        return f"call {kind} {function}({', '.join(f'{kind} {x}' for kind, x in typed)})"

    def intrinsic(self, name: str, *arguments: Word) -> Typed:
        """The result of one of LLVM's functions, of the type of its first argument."""
        kind = self.kind(arguments[0])
        return self.call(kind, f"@llvm.{name}.{suffix(kind)}", *arguments)

    # Memory. A place is a pointer and bytes beyond it.

    def alloca(self, kind: str = "i64", count: Word = 1) -> Typed:
        """The address of memory on the stack."""
        many = "" if count == 1 else f", i64 {count}"
        return self.let(f"alloca {kind}{many}", "ptr")

    def copy(self, target: str, source: str, nbytes: Word) -> None:
        """Copy memory."""
        self.do("@llvm.memcpy.p0.p0.i64", target, source, nbytes, "false")

    def fill(self, target: str, nbytes: Word) -> None:
        """Write zeros."""
        self.do("@llvm.memset.p0.i64", target, "i8 0", nbytes, "false")

    def load(self, kind: str, place: str, align: int = 0) -> Typed:
        """The value of a type at an address."""
        return self.let(f"load {kind}, ptr {place}" + (f", align {align}" if align else ""), kind)

    def store(self, value: Word, place: str, kind: str = "", align: int = 0) -> None:
        """Write a value to an address."""
        ending = f", align {align}" if align else ""
        self.line(f"store {kind or self.kind(value)} {value}, ptr {place}{ending}")

    def at(self, base: str, offset: Word) -> Typed:
        """The address `offset` bytes beyond a pointer."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}", "ptr")

    def item(self, kind: str, base: str, index: Word) -> Typed:
        """The address of an element of an array."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}", "ptr")

    def row(self, table: str, index: Word, words: int) -> Typed:
        """The address of a row of a table whose rows have `words` words."""
        return self.at(table, self.multiply(index, 8 * words))

    def word(self, base: str, offset: Word = 0) -> Typed:
        """The word at a place."""
        return self.load("i64", self.at(base, offset))

    def words(
        self, base: str, names: Sequence[str], pointers: Collection[str] = ()
    ) -> dict[str, Typed]:
        """Consecutive words by name; those among `pointers` are loaded as pointers."""
        return {
            name: (self.pointer if name in pointers else self.word)(base, 8 * index)
            for index, name in enumerate(names)
        }

    def pointer(self, base: str, offset: Word = 0) -> Typed:
        """The pointer at a place."""
        return self.load("ptr", self.at(base, offset))

    def put(self, base: str, offset: Word, value: Word) -> None:
        """Store a word at a place."""
        self.store(value, self.at(base, offset), "i64")

    def put_pointer(self, base: str, offset: Word, value: str) -> None:
        """Store a pointer at a place."""
        self.store(value, self.at(base, offset), "ptr")

    def add_to(self, base: str, offset: Word, value: Word) -> None:
        """Add to the word at a place."""
        place = self.at(base, offset)
        self.store(self.add(self.load("i64", place), value), place)

    def load_shared(self, place: str, kind: str = "i64", order: str = "monotonic") -> Typed:
        """A value that other threads write; with LLVM's memory order."""
        size = 4 if kind == "i32" else 8
        return self.let(f"load atomic {kind}, ptr {place} {order}, align {size}", kind)

    def store_shared(
        self, value: Word, place: str, kind: str = "i64", order: str = "monotonic"
    ) -> None:
        """Write a value that other threads read; with LLVM's memory order."""
        size = 4 if kind == "i32" else 8
        self.line(f"store atomic {kind} {value}, ptr {place} {order}, align {size}")

    def exchanged(self, how: str, place: str, value: Word, order: str = "monotonic") -> Typed:
        """The value before an atomic change, such as `add`, with LLVM's memory order."""
        kind = self.kind(value)
        return self.let(f"atomicrmw {how} ptr {place}, {kind} {value} {order}", kind)

    def replaced(self, place: str, old: int, new: int, orders: str) -> Typed:
        """Whether an i32 was `old` and is `new` now, atomically; with LLVM's memory orders."""
        swap = self.let(f"cmpxchg ptr {place}, i32 {old}, i32 {new} {orders}", "{i32, i1}")
        return self.parts(swap)[1]

    # Values.

    def op(self, name: str, x: Word, y: Word) -> Typed:
        """An instruction on two values of one type, by its name in LLVM."""
        kind = self.common(x, y)
        return self.let(f"{name} {kind} {x}, {y}", kind)

    def add(self, x: Word, y: Word) -> Typed:
        """The sum of two integers."""
        return self.op("add", x, y)

    def subtract(self, x: Word, y: Word) -> Typed:
        """The difference of two integers."""
        return self.op("sub", x, y)

    def multiply(self, x: Word, y: Word) -> Typed:
        """The product of two integers."""
        return self.op("mul", x, y)

    def divided(self, x: Word, y: Word) -> Typed:
        """The quotient of two words that are not negative, rounded down."""
        return self.op("udiv", x, y)

    def blocks(self, count: Word, size: Word) -> Typed:
        """The number of blocks of `size` that hold `count` elements; the last may be shorter."""
        more = size - 1 if isinstance(size, int) else self.subtract(size, 1)
        return self.divided(self.add(count, more), size)

    def negative(self, x: str) -> Typed:
        """-x, of floats."""
        return self.let(f"fneg {self.kind(x)} {x}", self.kind(x))

    def least(self, x: Word, y: Word) -> Typed:
        """The smaller of two words."""
        return self.select(self.compare("slt", x, y), x, y)

    def scaled(self, index: Word) -> Typed:
        """The bytes before the word of this number."""
        return self.op("shl", index, 3)

    def cast(self, name: str, x: Word, kind: str) -> Typed:
        """A value in another type, by the name of the conversion in LLVM."""
        return self.let(f"{name} {self.kind(x)} {x} to {kind}", kind)

    def select(self, condition: str, x: Word, y: Word, kind: str = "") -> Typed:
        """One value if a condition holds, else the other."""
        kind = kind or self.common(x, y)
        vector = isinstance(condition, Typed) and condition.kind.endswith("i1>")
        test = self.kind(condition) if vector else "i1"
        return self.let(f"select {test} {condition}, {kind} {x}, {kind} {y}", kind)

    def compare(self, how: str, x: Word, y: Word, kind: str = "") -> Typed:
        """A comparison by its name in LLVM, such as `slt`, or `olt` of floats."""
        kind = kind or self.common(x, y)
        word = "fcmp" if "float" in kind or "double" in kind else "icmp"
        lanes, found, _ = kind.partition(" x ")
        return self.let(f"{word} {how} {kind} {x}, {y}", f"{lanes} x i1>" if found else "i1")

    def either(self, x: str, y: str) -> Typed:
        """Whether one of two conditions holds."""
        return self.let(f"or i1 {x}, {y}", "i1")

    def both(self, x: str, y: str) -> Typed:
        """Whether two conditions hold."""
        return self.let(f"and i1 {x}, {y}", "i1")

    def negated(self, condition: str) -> Typed:
        """Whether a condition does not hold."""
        return self.let(f"xor i1 {condition}, true", "i1")

    def equal(self, x: Word, y: Word) -> Typed:
        """Whether two words or pointers are equal."""
        return self.compare("eq", x, y)

    def unequal(self, x: Word, y: Word) -> Typed:
        """Whether two words or pointers are not equal."""
        return self.compare("ne", x, y)

    def parts(self, x: Typed) -> list[Typed]:
        """The members of an aggregate, such as `{double, double}`."""
        kinds = x.kind.strip("{ }").split(", ")
        return [self.let(f"extractvalue {x.kind} {x}, {k}", kind) for k, kind in enumerate(kinds)]

    def together(self, *members: Typed) -> Typed:
        """An aggregate; a single member is its own."""
        if len(members) == 1:
            return members[0]
        kind, found = f"{{{', '.join(each.kind for each in members)}}}", "poison"
        for k, each in enumerate(members):
            found = self.let(f"insertvalue {kind} {found}, {each.kind} {each}, {k}", kind)
        return Typed(found, kind)

    # Vectors. One lane is a plain scalar.

    def splat(self, x: Word, lanes: int) -> Typed:
        """A vector with the same value in each lane."""
        kind = self.kind(x)
        if lanes == 1:
            return Typed(str(x), kind)
        whole = vector(kind, lanes)
        first = self.let(f"insertelement {whole} poison, {kind} {x}, i32 0", whole)
        return self.shuffle(first, [0] * lanes)

    def shuffle(self, x: str, lanes: Iterable[int], y: str = "poison") -> Typed:
        """The lanes with these numbers of one vector, or of two."""
        kind, chosen = self.kind(x), list(lanes)
        if len(chosen) == 1:
            return self.lane(x, *chosen)
        mask = constants("i32", chosen)
        found = vector(split_type(kind)[0], len(chosen))
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, {mask.kind} {mask}", found)

    def lane(self, x: str, number: int) -> Typed:
        """One lane of a vector."""
        kind = self.kind(x)
        element, lanes = split_type(kind)
        if lanes == 1:
            return Typed(x, kind)
        return self.let(f"extractelement {kind} {x}, i32 {number}", element)

    def with_lane(self, x: str, number: int, value: Word) -> Typed:
        """A vector with another value in one lane."""
        kind = self.kind(x)
        return self.let(
            f"insertelement {kind} {x}, {split_type(kind)[0]} {value}, i32 {number}", kind
        )

    def transposed(self, rows: Sequence[str]) -> list[str]:
        """The columns of a square of vectors, by exchanging ever larger parts."""
        found, lanes = list(rows), len(rows)
        step = lanes // 2
        while step:
            low = [k if not k & step else lanes + k - step for k in range(lanes)]
            high = [k + step if not k & step else lanes + k for k in range(lanes)]
            for k in range(lanes):
                if not k & step:
                    pair = found[k], found[k + step]
                    found[k] = self.shuffle(pair[0], low, pair[1])
                    found[k + step] = self.shuffle(pair[0], high, pair[1])
            step //= 2
        return found

    def first_lanes(self, count: Word, lanes: int, start: int = 0) -> Typed:
        """A mask of the lanes whose numbers, from `start` on, are below a count."""
        numbers = constants("i64", range(start, start + lanes))
        return self.compare("slt", numbers, self.splat(count, lanes))

    @contextlib.contextmanager
    def vectors(self, count: Word, lanes: int, start: Word = 0) -> Iterator[tuple[str, Typed]]:
        """Lines for each vector of a range: its first number, and a mask of the lanes inside."""
        with self.loop(count, start, lanes) as index:
            yield index, self.first_lanes(self.subtract(count, index), lanes)

    def load_lanes(
        self,
        kind: str,
        place: str,
        mask: str | None,
        align: int = 1,
        other: str = "zeroinitializer",
    ) -> Typed:
        """The lanes of a mask from memory, and other values elsewhere; without a mask all lanes."""
        if mask is None:
            return self.load(kind, place, align)
        name = f"@llvm.masked.load.{suffix(kind)}.p0"
        return self.call(kind, name, place, f"i32 {align}", mask, Typed(other, kind))

    def gather(
        self, kind: str, places: str, mask: str, align: int = 1, other: str = "poison"
    ) -> Typed:
        """The lanes of a mask, each from an address of its own, and other values elsewhere."""
        name = f"@llvm.masked.gather.{suffix(kind)}.{suffix(self.kind(places))}"
        return self.call(kind, name, places, f"i32 {align}", mask, Typed(other, kind))

    def scatter(self, value: str, places: str, mask: str, align: int = 1) -> None:
        """Write the lanes of a mask, each to an address of its own."""
        name = f"@llvm.masked.scatter.{suffix(self.kind(value))}.{suffix(self.kind(places))}"
        self.do(name, value, places, f"i32 {align}", mask)

    def store_lanes(self, value: str, place: str, mask: str | None, align: int = 1) -> None:
        """Write the lanes of a mask; without one all lanes."""
        if mask is None:
            self.store(value, place, align=align)
            return
        name = f"@llvm.masked.store.{suffix(self.kind(value))}.p0"
        self.do(name, value, place, f"i32 {align}", mask)


def split_type(kind: str) -> tuple[str, int]:
    """The type of a vector's elements, and their number."""
    count, found, element = kind[1:-1].partition(" x ")
    return (element, int(count)) if found and kind[0] == "<" else (kind, 1)


def constants(kind: str, values: Iterable[object]) -> Typed:
    """A vector of known numbers of a type."""
    listed = [f"{kind} {value}" for value in values]
    return Typed(f"<{', '.join(listed)}>", vector(kind, len(listed)))


def every_lane(kind: str, text: Word, lanes: int) -> Typed:
    """A known number of a type in each lane of a vector."""
    return Typed(str(text) if lanes == 1 else f"splat ({kind} {text})", vector(kind, lanes))


def suffix(kind: str) -> str:
    """A type in the names of LLVM's functions."""
    element, lanes = split_type(kind)
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"


def module(*parts: Routine | str) -> str:
    """The text of a module: functions, globals, and declarations of all else that is called."""
    texts = [part if isinstance(part, str) else part.text() for part in parts]
    needed = dict.fromkeys(
        each for part in parts if isinstance(part, Routine) for each in part.definitions
    )
    defined = {_SYMBOL.findall(part.head)[0] for part in parts if isinstance(part, Routine)}
    kept = (x for x in needed if x[:7] != "declare" or _SYMBOL.findall(x)[0] not in defined)
    return "\n".join([*kept, *texts])
