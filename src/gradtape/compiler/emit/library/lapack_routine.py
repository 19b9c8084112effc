"""LapackRoutine: a kernel that calls BLAS and LAPACK for each matrix of a stack.

Matrices are row-major in gradtape and column-major in LAPACK. A routine therefore copies a matrix
to column-major memory, calls, tests `info`, and copies results back. Symmetric matrices, and
triangular ones whose systems are solved from the right, need no such copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.library.stack_routine import Elements, StackRoutine
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.objects.llvm import add_symbol
from gradtape.ops.blas_lapack import library

_LOCAL_THREADS = "gradtape_set_threads_local"


class LapackRoutine(StackRoutine):
    """A routine that calls the library, which is held to one thread meanwhile."""

    def __init__(
        self,
        name: str,
        letter: str,
        operands: Sequence[str],
        results: Sequence[str],
        words: Sequence[str] = (),
    ) -> None:
        super().__init__(name, letter, operands, results, words)
        found = library()
        self.integer = "i64" if found.integers.itemsize == 8 else "i32"
        self.info = self.r.let("alloca i64")
        self._threads = ""
        if found.set_threads_local and not found.sequential:
            add_symbol(_LOCAL_THREADS, found.set_threads_local)
            self.declared[_LOCAL_THREADS] = f"declare i32 @{_LOCAL_THREADS}(i32)"
            self._threads = self.r.call("i32", f"@{_LOCAL_THREADS}", "i32 1")

    def text(self) -> str:
        """The module."""
        if self._threads:
            self.r.call("i32", f"@{_LOCAL_THREADS}", f"i32 {self._threads}")
        return super().text()

    def area(self, name: str) -> str:
        """The address of scratch memory, by the word that holds its offset."""
        return self.r.at(self.scratch, self.words[name])

    def stored(self, value: Word) -> str:
        """The address of a number that functions take by reference."""
        place = self.r.let("alloca i64")
        self.r.put(place, 0, value)
        return place

    # Calls.

    def blas(self, routine: str, *arguments: str) -> None:
        """Call a routine. A letter is written as it is, all else is an address."""
        name = f"gradtape_{self.elements.letter}{routine}"
        add_symbol(name, library().address(self.elements.letter + routine))
        letters = [each for each in arguments if len(each) == 1]
        addresses = [f"ptr {self._letter(x) if len(x) == 1 else x}" for x in arguments]
        # Fortran passes the lengths of letters behind all arguments.
        kinds = ["ptr"] * len(addresses) + ["i64"] * len(letters)
        self.declared[name] = f"declare void @{name}({', '.join(kinds)})"
        self.r.do(f"@{name}", *addresses, *["i64 1"] * len(letters))

    def lapack(self, routine: str, *arguments: str, checked: bool = True) -> None:
        """Call a routine of LAPACK, whose last argument is `info`; the plan fails if it is set."""
        self.r.put(self.info, 0, 0)
        self.blas(routine, *arguments, self.info)
        if checked:
            self.fail_if(self.r.unequal(self.r.word(self.info), 0))

    def one(self, value: str = "1.0") -> str:
        """The address of the number 1 or -1."""
        real, parts = self.elements.real, 2 if self.elements.is_complex else 1
        values = ", ".join(f"{real} {each}" for each in (value, "0.0")[:parts])
        name = "@one" if value == "1.0" else "@minus"
        self.declared[name] = f"{name} = private constant [{parts} x {real}] [{values}]"
        return name

    def _letter(self, letter: str) -> str:
        name = f"@letter.{letter}"
        self.declared[name] = f"{name} = private constant i8 {ord(letter)}"
        return name

    # Matrices.

    def transpose(self, source: str, target: str, rows: Word, columns: Word) -> None:
        """Copy a row-major matrix to column-major memory, or the reverse of its transpose."""
        self.functions["transpose"] = _transpose(self.elements)
        pointers = (f"ptr {source}", f"ptr {target}")
        self.r.do("@transpose", *pointers, f"i64 {rows}", f"i64 {columns}")

    def copy(self, source: str, target: str, elements: Word) -> None:
        """Copy so many elements."""
        nbytes = self.r.multiply(elements, self.elements.nbytes)
        self.copy_bytes(source, target, nbytes)

    def copy_bytes(self, source: str, target: str, nbytes: Word) -> None:
        """Copy memory."""
        self.declared["memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        pointers = (f"ptr {target}", f"ptr {source}")
        self.r.do("@llvm.memcpy.p0.p0.i64", *pointers, f"i64 {nbytes}", "i1 false")

    def clear(self, target: str, elements: Word) -> None:
        """Write so many zeros."""
        nbytes = self.r.multiply(elements, self.elements.nbytes)
        self.declared["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        self.r.do("@llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {nbytes}", "i1 false")

    def symmetric_part(self, source: str, target: str, order: Word, triangle: bool) -> None:
        """Half the sum of a matrix and its adjoint, column-major.

        With `triangle` it is row-major, and zeros are above the diagonal.
        """
        name = "lower_part" if triangle else "whole_part"
        self.functions[name] = _symmetric_part(self, name, triangle)
        self.r.do(f"@{name}", f"ptr {source}", f"ptr {target}", f"i64 {order}")

    def narrow_pivots(self, source: str, target: str, count: Word) -> str:
        """Pivots as the library's integers: the words themselves, or copies at `target`."""
        if self.integer == "i64":
            return source
        with self.r.loop(count) as index:
            small = self.r.let(f"trunc i64 {self.r.word(source, self.r.scaled(index))} to i32")
            place = self.r.at(target, self.r.multiply(index, 4))
            self.r.line(f"store i32 {small}, ptr {place}")
        return target

    def widen_pivots(self, source: str, target: str, count: Word) -> None:
        """Pivots as words, of the library's integers."""
        if self.integer == "i64":
            return
        with self.r.loop(count) as index:
            place = self.r.at(source, self.r.multiply(index, 4))
            wide = self.r.let(f"sext i32 {self.r.let(f'load i32, ptr {place}')} to i64")
            self.r.put(target, self.r.scaled(index), wide)


def _transpose(elements: Elements) -> str:
    """Blocks of 4 by 4 elements in registers, and the rest one by one."""
    r = Routine("internal void @transpose(ptr %from, ptr %to, i64 %rows, i64 %columns)")
    kind, size = elements.bits, elements.nbytes
    aligned = elements.real_bytes
    blocks = elements.letter != "z"
    whole_rows, whole_columns = ("0", "0")
    if blocks:
        whole_rows, whole_columns = (r.let(f"and i64 %{x}, -4") for x in ("rows", "columns"))
        down, across = (r.let(f"lshr i64 %{x}, 2") for x in ("rows", "columns"))
        with r.loop(down) as i, r.loop(across) as j:
            row, column = r.multiply(i, 4), r.multiply(j, 4)
            vectors = []
            for k in range(4):
                index = r.add(r.multiply(r.add(row, k), "%columns"), column)
                place = r.at("%from", r.multiply(index, size))
                vectors.append(r.let(f"load <4 x {kind}>, ptr {place}, align {aligned}"))
            for k, vector in enumerate(_turned(r, kind, vectors)):
                index = r.add(r.multiply(r.add(column, k), "%rows"), row)
                place = r.at("%to", r.multiply(index, size))
                r.line(f"store <4 x {kind}> {vector}, ptr {place}, align {aligned}")

    def copy(i: str, j: str) -> None:
        source = r.at("%from", r.multiply(r.add(r.multiply(i, "%columns"), j), size))
        target = r.at("%to", r.multiply(r.add(r.multiply(j, "%rows"), i), size))
        value = r.let(f"load {kind}, ptr {source}, align {aligned}")
        r.line(f"store {kind} {value}, ptr {target}, align {aligned}")

    with r.loop(whole_rows) as i, r.loop("%columns", whole_columns) as j:
        copy(i, j)
    with r.loop("%rows", whole_rows) as i, r.loop("%columns") as j:
        copy(i, j)
    r.end("ret void")
    return r.text()


def _turned(r: Routine, kind: str, rows: Sequence[str]) -> list[str]:
    """The columns of four vectors of four elements."""

    def mixed(x: str, y: str, lanes: tuple[int, ...]) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return r.let(f"shufflevector <4 x {kind}> {x}, <4 x {kind}> {y}, <4 x i32> <{mask}>")

    a, b, c, d = rows
    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    first, second = [(mixed(x, y, low), mixed(x, y, high)) for x, y in ((a, b), (c, d))]
    halves = ((0, 1, 4, 5), (2, 3, 6, 7))
    return [mixed(first[at], second[at], lanes) for at in (0, 1) for lanes in halves]


def _symmetric_part(routine: LapackRoutine, name: str, triangle: bool) -> str:
    r = Routine(f"internal void @{name}(ptr %x, ptr %to, i64 %n)")
    elements = routine.elements
    real, size = elements.real, elements.nbytes

    def place(base: str, i: str, j: str) -> str:
        return r.at(base, r.multiply(r.add(r.multiply(i, "%n"), j), size))

    def number(at: str, part: int) -> str:
        return r.let(f"load {real}, ptr {r.at(at, part * elements.real_bytes)}")

    with r.loop("%n") as i:
        with r.loop(r.add(i, 1) if triangle else "%n") as j:
            here, there = place("%x", i, j), place("%x", j, i)
            if not triangle:
                # Column-major, where a Hermitian matrix is its own conjugate.
                here, there = there, here
            target = place("%to", i, j)
            for part, how in enumerate(("fadd", "fsub")[: 2 if elements.is_complex else 1]):
                total = r.let(f"{how} {real} {number(here, part)}, {number(there, part)}")
                half = r.let(f"fmul {real} {total}, 5.0e-01")
                r.line(f"store {real} {half}, ptr {r.at(target, part * elements.real_bytes)}")
        if triangle:
            with r.loop("%n", r.add(i, 1)) as j:
                for part in range(2 if elements.is_complex else 1):
                    spot = r.at(place("%to", i, j), part * elements.real_bytes)
                    r.line(f"store {real} 0.0, ptr {spot}")
    r.end("ret void")
    return r.text()
