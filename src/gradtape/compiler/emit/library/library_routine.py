"""LibraryRoutine: a kernel that finds its operands, results, scratch memory and words by name."""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.plans.instructions import kernel_routine, write_failure
from gradtape.compiler.emit.writer import Routine, module

# Words of the arguments before those of the call: the places of operands, of results and of
# scratch memory, and the bytes of the latter for each thread.
PLACE_WORDS = 2


class LibraryRoutine:
    """The routine of an op: its text is written with `r`, and ends with `text`.

    `operands` and `results` are pointers to the first element of each; `words` are the constant
    words of the call by name; `scratch` points to memory of this thread.
    """

    def __init__(self, name: str, operands: int, results: int, words: Sequence[str] = ()) -> None:
        self.r = r = kernel_routine(name)
        # Functions and constants of the module, by name.
        self.functions: dict[str, Routine | str] = {}
        places = iter(range(0, 8 * PLACE_WORDS * (operands + results + 1), 8 * PLACE_WORDS))
        self.operands = [_pointer(r, next(places)) for _ in range(operands)]
        self.results = [_pointer(r, next(places)) for _ in range(results)]
        last = next(places)
        size = r.word("%args", last + 8 * PLACE_WORDS)
        self.scratch = r.at(_pointer(r, last), r.multiply(size, "%part"))
        first = last + 8 * PLACE_WORDS + 8
        # The address of each word, for functions that take numbers by reference.
        self.places = {name: r.at("%args", first + 8 * at) for at, name in enumerate(words)}
        self.words = {name: r.word(place) for name, place in self.places.items()}

    def fail(self) -> None:
        """Stop the plan: NumPy computes the program again, and raises its own error."""
        write_failure(self.r)

    def text(self) -> str:
        """The module."""
        return module(*self.functions.values(), self.r)


def _pointer(r: Routine, at: int) -> str:
    """The address of the place that begins at a byte of the arguments."""
    slot, offset = r.word("%args", at), r.word("%args", at + 8)
    return r.at(r.pointer("%slots", r.scaled(slot)), offset)
