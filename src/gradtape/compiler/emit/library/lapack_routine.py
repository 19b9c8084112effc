"""LapackRoutine: a kernel that calls BLAS and LAPACK for each matrix of a stack.

Matrices are row-major in gradtape and column-major in LAPACK. A routine therefore copies a matrix
to column-major memory, calls, tests `info`, and copies results back. Symmetric matrices, and
triangular ones whose systems are solved from the right, need no such copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.library.stack_routine import ElementType, StackRoutine
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.objects.llvm import add_symbol
from gradtape.ops.blas_lapack import library

_LOCAL_THREADS = "gradtape_set_threads_local"


class LapackRoutine(StackRoutine):
    """A routine that calls the library, which is held to one thread meanwhile."""

    def __init__(self, name: str, letter: str, *names: Sequence[str]) -> None:
        super().__init__(name, letter, *names)
        found = library()
        self.integer = "i64" if found.integers.itemsize == 8 else "i32"
        self.info = self.r.alloca()
        self._threads = ""
        if found.set_threads_local and not found.sequential:
            add_symbol(_LOCAL_THREADS, found.set_threads_local)
            self._threads = self.r.call("i32", f"@{_LOCAL_THREADS}", "i32 1")

    def text(self) -> str:
        """The module."""
        if self._threads:
            self.r.call("i32", f"@{_LOCAL_THREADS}", self._threads)
        return super().text()

    def area(self, name: str) -> str:
        """The address of scratch memory, by the word that holds its offset."""
        return self.r.at(self.scratch, self.words[name])

    def stored(self, value: Word) -> str:
        """The address of a number that functions take by reference."""
        place = self.r.alloca()
        self.r.put(place, 0, value)
        return place

    # Calls.

    def blas(self, routine: str, *arguments: str) -> None:
        """Call a routine. A letter is written as it is, all else is an address."""
        name = f"gradtape_{self.elements.letter}{routine}"
        add_symbol(name, library().address(self.elements.letter + routine))
        lengths = [len(each) for each in arguments if len(each) == 1]
        addresses = [self._letter(x) if len(x) == 1 else x for x in arguments]
        # Fortran passes the lengths of letters behind all arguments.
        self.r.do(f"@{name}", *addresses, *lengths)

    def lapack(self, routine: str, *arguments: str, checked: bool = True) -> None:
        """Call a routine of LAPACK, whose last argument is `info`; the plan fails if it is set."""
        self.r.put(self.info, 0, 0)
        self.blas(routine, *arguments, self.info)
        if checked:
            self.fail_if(self.r.unequal(self.r.word(self.info), 0))

    def one(self, value: str = "1.0") -> str:
        """The address of the number 1, -1 or 0."""
        real, parts = self.elements.real, self.elements.parts
        values = ", ".join(f"{real} {each}" for each in (value, "0.0")[:parts])
        name = {"1.0": "@one", "-1.0": "@minus", "0.0": "@nothing"}[value]
        self.functions[name] = f"{name} = private constant [{parts} x {real}] [{values}]"
        return name

    def _letter(self, letter: str) -> str:
        name = f"@letter.{letter}"
        self.functions[name] = f"{name} = private constant i8 {ord(letter)}"
        return name

    # Matrices.

    def transpose(self, source: str, target: str, rows: Word, columns: Word) -> None:
        """Copy a row-major matrix to column-major memory, or the reverse of its transpose."""
        self.functions["transpose"] = _transpose(self.elements)
        self.r.do("@transpose", source, target, rows, columns)

    def copy(self, source: str, target: str, elements: Word) -> None:
        """Copy `elements` elements."""
        self.r.copy(target, source, self.r.multiply(elements, self.elements.nbytes))

    def clear(self, target: str, elements: Word) -> None:
        """Write `elements` zeros."""
        self.r.fill(target, self.r.multiply(elements, self.elements.nbytes))

    def symmetric_part(self, source: str, target: str, order: Word, triangle: bool) -> None:
        """Half the sum of a matrix and its adjoint, column-major.

        With `triangle` it is row-major, and zeros are above the diagonal.
        """
        name = "lower_part" if triangle else "whole_part"
        self.functions[name] = _symmetric_part(self.elements, name, triangle)
        self.r.do(f"@{name}", source, target, order)

    def narrow_pivots(self, source: str, target: str, count: Word) -> str:
        """Pivots as the library's integers: the words themselves, or copies at `target`."""
        if self.integer == "i64":
            return source
        with self.r.loop(count) as index:
            small = self.r.cast("trunc", self.r.word(source, self.r.scaled(index)), "i32")
            self.r.store(small, self.r.item("i32", target, index))
        return target

    def widen_pivots(self, source: str, target: str, count: Word) -> None:
        """Pivots as words, of the library's integers."""
        if self.integer == "i64":
            return
        with self.r.loop(count) as index:
            small = self.r.load("i32", self.r.item("i32", source, index))
            self.r.put(target, self.r.scaled(index), self.r.cast("sext", small, "i64"))


def _transpose(elements: ElementType) -> Routine:
    """Blocks of 4 by 4 elements in registers, and the rest one by one."""
    r = Routine("internal void @transpose(ptr %from, ptr %to, i64 %rows, i64 %columns)")
    kind, size = elements.bits, elements.nbytes
    aligned = elements.real_bytes
    whole_rows: Word = 0
    whole_columns: Word = 0

    def source(i: str, j: str) -> str:
        return r.at("%from", r.multiply(r.add(r.multiply(i, "%columns"), j), size))

    def target(i: str, j: str) -> str:
        return r.at("%to", r.multiply(r.add(r.multiply(j, "%rows"), i), size))

    if elements.letter != "z":
        whole_rows, whole_columns = (r.op("and", f"%{x}", -4) for x in ("rows", "columns"))
        with r.loop(whole_rows, step=4) as row, r.loop(whole_columns, step=4) as column:
            places = [source(r.add(row, k), column) for k in range(4)]
            vectors = [r.load(f"<4 x {kind}>", place, aligned) for place in places]
            for k, vector in enumerate(r.transposed(vectors)):
                r.store(vector, target(row, r.add(column, k)), align=aligned)
    for rows, columns in (
        ((whole_rows, 0), ("%columns", whole_columns)),
        (("%rows", whole_rows), ("%columns", 0)),
    ):
        with r.loop(*rows) as i, r.loop(*columns) as j:
            r.store(r.load(kind, source(i, j), aligned), target(i, j), align=aligned)
    return r


def _symmetric_part(elements: ElementType, name: str, triangle: bool) -> Routine:
    r = Routine(f"internal void @{name}(ptr %x, ptr %to, i64 %n)")
    real, size = elements.real, elements.nbytes

    def place(base: str, i: str, j: str) -> str:
        return r.at(base, r.multiply(r.add(r.multiply(i, "%n"), j), size))

    def number(at: str, part: int) -> str:
        return r.load(real, r.at(at, part * elements.real_bytes))

    with r.loop("%n") as i:
        with r.loop(r.add(i, 1) if triangle else "%n") as j:
            here, there = place("%x", i, j), place("%x", j, i)
            if not triangle:
                # Column-major, where a Hermitian matrix is its own conjugate.
                here, there = there, here
            target = place("%to", i, j)
            for part, how in enumerate(("fadd", "fsub")[: elements.parts]):
                half = r.op("fmul", r.op(how, number(here, part), number(there, part)), "5.0e-01")
                r.store(half, r.at(target, part * elements.real_bytes))
        if triangle:
            with r.loop("%n", r.add(i, 1)) as j:
                r.fill(place("%to", i, j), size)
    return r
