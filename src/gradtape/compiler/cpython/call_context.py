"""Call context: the words and tables from which `caller` reads a signature."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gradtape.compiler.emit.writer import Routine, Typed, Word

CONTEXT = (
    "owner",
    "thread",
    "world",
    "live",
    "busy",
    "calls",
    "held",
    "differs",
    "argument_rows",
    "row",
    "input",
    "inputs",
    "passed",
    "sources",
    "source_rows",
    "values",
    "words",
    "word_rows",
    "numbers",
    "number_rows",
    "buffers",
    "buffer_rows",
    "taken",
    "leaves",
    "leaf_rows",
    "shape",
    "unflatten",
    "structure",
    "updates",
    "update_rows",
    "handles",
    "assign",
    "locks",
    "lock_rows",
    "tensors",
    "tensor_rows",
    "slots",
    "instructions",
    "count",
    "parallel",
    "keep_gil",
    "ops",
    "decision",
    "until_check",
    "guards",
    "guard_rows",
)
# Offsets of the words, in bytes.
AT = {name: 8 * index for index, name in enumerate(CONTEXT)}

# Words of a row of each table.
ARGUMENT = 3  # how, class or object, spec or count
SOURCE = 2  # how, input or object
WORD = 2  # slot, value
NUMBER = 4  # how, value, input or function, bytes into the memory of the run, size
BUFFER = 4  # slot, function that takes an idle buffer or 0, capacity, size as an int object
LEAF = 3  # buffer, object, input or leaf; spec; class, or one of THE_OBJECT, AN_INPUT and A_LEAF
UPDATE = 2  # buffer, spec
LOCK = 2  # how to acquire and to release it
GUARD = 4  # how, address or dictionary, key or memory, what must be there or size

# Kinds of arguments. The rows begin with the tuple of all arguments; containers are
# followed by their entries: a tensor of this class and spec, a float, this very object, a tuple or
# a list of this length, a dictionary with this number of keys and values in turn, a float of these
# bits.
TENSOR, FLOAT, OBJECT, ROW, SERIES, MAPPING, THE_FLOAT = 0, 1, 2, 3, 4, 5, 6
# Guards: a word, an entry of a dictionary, memory that is like other memory.
THE_WORD, AN_ENTRY, SOME_MEMORY = 0, 1, 2
# Sources of values: a tensor among the inputs, a variable, a weak reference to a tensor.
PASSED, VARIABLE, REFERENCE = 0, 1, 2
# Numbers: from the memory of a value; from a float among the inputs, or what a function of the
# inputs gives, as double or as float.
COPIED, DOUBLE, SINGLE, COMPUTED_DOUBLE, COMPUTED_SINGLE = 0, 1, 2, 3, 4
# Leaves that are not new tensors: this object, a tensor among the inputs, an earlier leaf.
THE_OBJECT, AN_INPUT, A_LEAF = 0, 1, 2
# Structures: the only leaf, a tuple, a list, or what `unflatten` makes of the list.
ONLY, TUPLE, LIST, OTHER = 0, 1, 2, 3


def known_object(name: str) -> Typed:
    """An object that lives as long as the process, by the name of its address among the facts."""
    return Typed(f"inttoptr (i64 ${name} to ptr)", "ptr")


class Context:
    """The context `%context` of a routine: its words by name."""

    def __init__(self, r: Routine) -> None:
        self._r = r

    def word(self, name: str) -> Typed:
        """A word."""
        return self._r.word("%context", AT[name])

    def pointer(self, name: str) -> Typed:
        """A word that is an address."""
        return self._r.pointer("%context", AT[name])

    def put(self, name: str, value: int) -> None:
        """Change a word."""
        self._r.put("%context", AT[name], value)

    def add(self, name: str, value: Word) -> None:
        """Add to a word."""
        self._r.add_to("%context", AT[name], value)

    @contextlib.contextmanager
    def rows(self, count: str, table: str, words: int) -> Iterator[tuple[str, Typed]]:
        """Lines for each row of a table: its number and its address."""
        rows = self.pointer(table)
        with self._r.loop(self.word(count)) as index:
            yield index, self._r.row(rows, index, words)
