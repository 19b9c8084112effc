"""Loops: the parts of a kernel's IR function, `void kernel(slots, args, lo, hi, worker)`.

`args` holds the sizes of the axes and, for each array, its slot, offset and strides in bytes.
[lo, hi) is the part of the outermost axis to compute (of the chunks, in a whole reduction).
`nests` and `reductions` put these parts together, one function for each layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from gradtape.compiler.emit.memory import Memory, VectorPlace
from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.lower.kernel import BOOL, SAME, SCALAR, Kernel, KernelArray, KernelLayout
from gradtape.compiler.objects import llvm
from gradtape.ops.families.lowering import add
from gradtape.ops.families.vector_code import Vector

# Stands for a scalar of the table that is not loaded yet.
_UNREAD = Vector("", BOOL)


class Emitter(Memory):
    """Appends the loops of one kernel: arguments, control flow, addresses and the body."""

    def __init__(self, kernel: Kernel, lanes: int, name: str, in_strips: bool = True) -> None:
        aligned = llvm.aligned_stack(llvm.host().bits // 8)
        super().__init__(lanes, kernel_routine(name, f" {aligned} #0"))
        self.kernel = kernel
        # Whether columns are summed in strips, where that pays for many of them.
        self.in_strips = in_strips
        self._argument = 0
        # All arrays: first those that are read, then stores, then results of reductions.
        self.operands = [
            *kernel.operands,
            *(store.target for store in kernel.stores),
            *(KernelArray(reduction.dtype, reduction.access) for reduction in kernel.reductions),
        ]
        # A whole reduction over several axes also gets the length of its chunks.
        more = 1 if kernel.layout is KernelLayout.WHOLE and kernel.axes > 1 else 0
        self.sizes = [self._load_argument() for _ in range(kernel.axes + more)]
        self.bases: list[str] = []
        self.strides: list[list[str]] = []
        # For each array, bytes per position and the last position of each index that moves it.
        self.moves: list[list[tuple[str, str]]] = []
        table = kernel.tabled
        # The offset of each scalar in the table, in bytes.
        self.tabled: dict[int, int] = {}
        for number, operand in enumerate(self.operands):
            if number in table:
                self.bases.append("")
                self.strides.append([])
                self.moves.append([])
                continue
            slot, offset = self._load_argument(), self._load_argument()
            self.bases.append(self._base(slot, offset))
            self.strides.append([self._load_argument() for _ in range(kernel.axes)])
            self.moves.append(
                [(self._load_argument(), self._load_argument()) for _ in operand.indices]
            )
        self.hoisted: dict[int, Vector] = {}
        self._fill_table(table)
        # The numbers of values that are stored or reduced; -1 stands for no factor.
        self._results = {s.value for s in kernel.stores}
        for r in kernel.reductions:
            self._results |= {r.value, r.factor}
        self._results.discard(-1)
        for index, operand in enumerate(kernel.operands):
            if operand.access == SCALAR and index not in self.tabled:
                self.hoisted[index] = self.load_scalar(self.bases[index], operand)

    # Arguments.

    def _load_argument(self) -> str:
        self._argument += 1
        return self.r.word("%args", 8 * (self._argument - 1))

    def _base(self, slot: str, offset: str) -> str:
        return self.r.at(self.r.pointer("%slots", self.r.scaled(slot)), offset)

    def _fill_table(self, table: tuple[int, ...]) -> None:
        """Copy scalars from their slots to one table on the stack, by a loop per dtype."""
        if not table:
            return
        r, end = self.r, 0
        self._table = r.entry_line(f"alloca [{16 * len(table)} x i8], align 64")
        for dtype, group in itertools.groupby(table, lambda number: self.operands[number].dtype):
            members, size = list(group), np.dtype(dtype).itemsize
            first = r.at("%args", 8 * self._argument)
            with r.loop(len(members)) as index:
                place = r.row(first, index, 2)
                value = r.load(f"i{8 * size}", self._base(r.word(place), r.word(place, 8)), 1)
                r.store(value, r.at(self._table, r.add(r.multiply(index, size), end)), align=1)
            for position, number in enumerate(members):
                self.tabled[number] = end + position * size
            self._argument += 2 * len(members)
            end += -(-len(members) * size // 16) * 16

    # Control flow.

    def loop(self, low: Word, high: Word, step: Word, body: Callable[[str], None]) -> None:
        """`for i in range(low, high, step)`, with results in memory only."""
        with self.r.loop(high, low, step) as index:
            body(index)

    def carry(
        self,
        low: Word,
        high: Word,
        step: Word,
        start: Sequence[str],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop that carries values from one round to the next, and gives their final names."""
        with self.r.fold(high, start, low, step) as fold:
            fold.values = body(fold.index, fold.values)
        return fold.values

    def bounded(self, index: str, step: Word, last: Word) -> str:
        """The end of a step from an index on: `min(index + step, last)`."""
        return self.r.least(self.r.add(index, step), last)

    def outer_loops(self, count: int, body: Callable[[list[str]], None]) -> None:
        """Loops over the first `count` axes; the outermost runs over [lo, hi)."""

        def nest(indices: list[str]) -> None:
            axis = len(indices)
            if axis == count:
                body(indices)
                return
            low, high = ("%lo", "%hi") if axis == 0 else (0, self.sizes[axis])
            with self.r.loop(high, low) as index:
                nest([*indices, index])

        nest([])

    # Addresses.

    def row(self, outer: list[str], entry: int) -> str:
        """The address of an array at these indices of the outer axes."""
        pointer = self.bases[entry]
        if self.operands[entry].access == SCALAR:
            return pointer
        for index, stride in zip(outer, self.strides[entry], strict=False):
            pointer = self.r.at(pointer, self.r.multiply(index, stride))
        return pointer

    def rows(self, outer: list[str]) -> list[str]:
        """The addresses of all arrays at these indices of the outer axes."""
        return [self.row(outer, entry) for entry in range(len(self.bases))]

    def place(
        self, entry: int, rows: list[str], index: str, axis: int, mask: str | None
    ) -> VectorPlace:
        """The position of a vector of an array along the innermost axis."""
        return VectorPlace(rows[entry], index, self.strides[entry][axis], mask)

    def moved(self, rows: list[str]) -> list[str]:
        """Addresses, moved by positions that are the same all along a row."""
        r, found = self.r, list(rows)
        for entry, operand in enumerate(self.operands):
            for index, (step, last) in zip(operand.indices, self.moves[entry], strict=True):
                if self.operands[index].access in (SAME, SCALAR):
                    position = self._inside(r.word(rows[index]), last)
                    found[entry] = r.at(found[entry], r.multiply(position, step))
        return found

    def _inside(self, position: str, last: str) -> str:
        """A position, bounded: a wrong one stays inside the array."""
        return self.r.intrinsic("umin", position, last)

    def _scattered(self, entry: int, values: list[Vector]) -> str | None:
        """The offset of each lane by positions that change along a row, if there are any."""
        r, total = self.r, None
        for index, move in zip(self.operands[entry].indices, self.moves[entry], strict=True):
            if self.operands[index].access in (SAME, SCALAR):
                continue
            step, last = (r.splat(each, self.lanes) for each in move)
            offset = r.multiply(self._inside(values[index].name, last), step)
            total = offset if total is None else r.add(total, offset)
        return total

    # The body.

    def point(
        self, rows: list[str], index: str, axis: int, mask: str | None, same: dict[int, Vector]
    ) -> list[Vector]:
        """All values of the body at one vector of points; elementwise results are stored."""
        b, kernel = self.b, self.kernel
        values: list[Vector] = []
        for number, operand in enumerate(kernel.operands):
            if number in self.hoisted:
                values.append(self.hoisted[number])
            elif number in same:
                values.append(same[number])
            elif number in self.tabled:
                values.append(_UNREAD)
            else:
                offsets = self._scattered(number, values) if operand.indices else None
                stride = self.strides[number][axis]
                place = VectorPlace(rows[number], index, stride, mask, offsets)
                values.append(self.load(operand, place))
        # Functions that were computed together with an earlier one.
        computed: dict[int, Vector] = {}
        for position, instruction in enumerate(kernel.body):
            # A scalar of the table is read where it is first used: registers are few.
            op, params, numbers, _ = instruction
            if self.tabled:
                self._read_from_table(values, numbers)
            assert op.llvm is not None
            arguments = [values[number] for number in numbers]
            if position in kernel.joint:
                if position not in computed:
                    call = kernel.joint[position]
                    both = b.call_both(call.function, *arguments)
                    computed[call.beside], computed[call.position] = both
                values.append(computed[position])
                continue
            keywords = op.keywords(params) if params else {}
            values.append(op.llvm(b, *arguments, **keywords))
        self._read_from_table(values, self._results)
        first = len(kernel.operands)
        for entry, item in enumerate(kernel.stores, first):
            place = self.place(entry, rows, index, axis, mask)
            value = values[item.value]
            if item.adds:
                value = add(b, self.load(item.target, place), value)
            self.store(value, item.target, place, item.streaming)
        return values

    def element(self, rows: list[str]) -> None:
        """The one value of a kernel without vectors at these addresses, stored or added."""
        b, kernel = self.b, self.kernel
        (item,) = kernel.stores
        if item.value < len(kernel.operands):
            found = self.hoisted.get(item.value)
            value = found or self.load_scalar(rows[item.value], kernel.operands[item.value])
        else:
            (constant,) = kernel.body
            assert constant.op.llvm is not None
            value = constant.op.llvm(b, **constant.op.keywords(constant.params))
        if item.adds:
            value = add(b, self.load_scalar(rows[-1], item.target), value)
        self.store_scalar(rows[-1], value.parts, item.target.dtype)

    def _read_from_table(self, values: list[Vector], numbers: Iterable[int]) -> None:
        """Load the scalars of the table among these values that are not loaded yet."""
        for number in numbers:
            if values[number] is _UNREAD:
                at = self.r.at(self._table, self.tabled[number])
                values[number] = self.load_scalar(at, self.operands[number])

    def same_in_row(self, rows: list[str]) -> dict[int, Vector]:
        """Operands that do not move along the innermost axis, loaded once per row."""
        return {
            number: self.load_scalar(rows[number], operand)
            for number, operand in enumerate(self.kernel.operands)
            if operand.access == SAME
        }

    def routine(self) -> Routine:
        """The function, when its loops are emitted."""
        if any(item.streaming for item in self.kernel.stores):
            # Writes past the caches must have arrived before other threads read the results.
            self.r.do("@llvm.x86.sse.sfence")
        return self.r
