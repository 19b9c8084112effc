"""Register code: a routine without loops, in which every element of every array is a scalar.

It is its own cache key, as a Kernel is. Steps are numbered, and a step names earlier ones. Numbers
of steps that nothing needs are left out: their place holds None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.emit.accumulators import accumulator
from gradtape.compiler.emit.builder import Builder, rounding_mode
from gradtape.compiler.emit.memory import Memory
from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.lower.kernel import (
    SAME,
    SCALAR,
    KernelArray,
    KernelLayout,
    Reduce,
    joint_calls,
)
from gradtape.compiler.passes.scalar_steps import (
    Apply,
    Combine,
    Computed,
    Follow,
    Literal,
    Load,
    Step,
)
from gradtape.config import REGISTER_BLOCK_STEPS, SHORT_REGISTER_CODE
from gradtape.ir import Op
from gradtape.ops.families.vector_code import Vector
from gradtape.records import dataclass

# An array that is written, the byte there, and the step.
Stored = tuple[int, int, int]


@dataclass(frozen=True)
class RegisterCode:
    """Steps, and where their results are stored. Arrays are numbered, those that are read first."""

    steps: tuple[Step | None, ...]
    stores: tuple[Stored, ...]
    # As a Kernel has them.
    layout: ClassVar[KernelLayout] = KernelLayout.REGISTERS
    axes: ClassVar[int] = 0
    tabled: ClassVar[tuple[int, ...]] = ()

    def __hash__(self) -> int:
        # Computed once: there may be thousands of steps.
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.steps, self.stores))

    @property
    def is_short(self) -> bool:
        """Whether LLVM's passes may take their time."""
        return len(self.steps) <= SHORT_REGISTER_CODE


def register_routine(code: RegisterCode, name: str) -> Routine:
    """The IR function of a routine."""
    writer = _Writer(code, kernel_routine(name, " #0"))
    writer.write()
    return writer.memory.r


class _Text(NamedTuple):
    """The lines of an op as a format for `%`, of a number of its own and the names of operands."""

    lines: str
    # The fields of the lines, in order: 0 is the number, others are parts of operands.
    fields: tuple[int, ...]
    # For each part of the result: its text, or the field that it is.
    parts: tuple[str | int, ...]
    definitions: tuple[str, ...]


_OWN = re.compile(r"%([a-z]+[0-9]+)")
_FIELD = re.compile(r"<([0-9]+)>")


@remembered(4096)
def _text(
    kind: type[Computed], head: tuple[Any, ...], codes: tuple[str, ...], dtype: str, mode: str
) -> _Text:
    """The lines of a step on operands of some dtypes; `mode` is that of rounding.

    A long program has thousands of steps of some twenty kinds, and a format is filled in less time
    than the lines are written.
    """
    b = Builder(1)
    count = 1
    operands = []
    for each in map(np.dtype, codes):
        parts = 2 if each.kind == "c" else 1
        first, *second = [f"<{number}>" for number in range(count, count + parts)]
        operands.append(Vector(first, each, *second))
        count += parts
    result = _WRITERS[kind](b, head, operands, dtype)
    # Names of values get the number of the step.
    lines = _OWN.sub(r"%x<0>\1", "\n".join(b.r.lines))
    fields = tuple(map(int, _FIELD.findall(lines)))
    parts_of: list[str | int] = []
    for part in result:
        field = _FIELD.fullmatch(part)
        parts_of.append(int(field[1]) if field else _OWN.sub(r"%x<0>\1", part))
    lines = _FIELD.sub("%s", lines.replace("%", "%%"))
    return _Text(lines, fields, tuple(parts_of), tuple(b.r.definitions))


def _write_op(
    b: Builder, head: tuple[Any, ...], operands: Sequence[Vector], dtype: str
) -> Sequence[str]:
    op: Op = head[0]
    assert op.llvm is not None
    return op.llvm(b, *operands, **op.keywords(head[1])).parts


def _write_reduction(
    b: Builder, head: tuple[Any, ...], operands: Sequence[Vector], dtype: str
) -> Sequence[str]:
    accumulation, compared = head
    total = accumulator(b, Reduce(0, accumulation, dtype, SAME, compared=compared))
    found = [total.of(each, str(at), None) for at, each in enumerate(operands)]
    # In pairs: sums then are as exact as a tree makes them, and wait less for each other.
    while len(found) > 1:
        odd = found[-1:] if len(found) % 2 else []
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [total.combine(*pair) for pair in pairs] + odd
    return total.result(found[0], 1)


def _write_scan(
    b: Builder, head: tuple[Any, ...], operands: Sequence[Vector], dtype: str
) -> Sequence[str]:
    state, *others = operands
    last = len(others) - 1
    scan = accumulator(b, Reduce(last, head[0], dtype, SAME, factor=last - 1))
    return scan.following(list(state.parts), others)


_WRITERS: dict[type[Computed], Callable[..., Sequence[str]]] = {
    Apply: _write_op,
    Combine: _write_reduction,
    Follow: _write_scan,
}


class _Writer:
    """Writes the steps of a routine one after the other."""

    def __init__(self, code: RegisterCode, r: Routine) -> None:
        self.memory = Memory(1, r)
        self._code = code
        # The names of the parts of each step, and its dtype.
        self._parts: list[tuple[str, ...]] = []
        self._codes: list[str] = []
        self._bases: dict[int, str] = {}
        self._texts: dict[tuple[object, ...], _Text] = {}
        self._mode = rounding_mode()

    def write(self) -> None:
        code, b = self._code, self.memory.b
        stores: dict[int, list[Stored]] = {}
        for stored in code.stores:
            stores.setdefault(stored[2], []).append(stored)
        joint = joint_calls((at, each) for at, each in enumerate(code.steps) if type(each) is Apply)
        # Functions that were computed together with an earlier one.
        computed: dict[int, tuple[str, ...]] = {}
        blocks, written = 0, 0
        for at, step in enumerate(code.steps):
            if step is None:
                self._parts.append(())
                self._codes.append("")
                continue
            if isinstance(step, (Load, Literal)):
                parts = self._entered(step)
            elif at not in joint:
                parts = self._computed(at, step)
            else:
                if at not in computed:
                    call = joint[at]
                    both = b.call_both(call.function, *map(self._value, step.arguments))
                    computed[call.beside], computed[call.position] = (each.parts for each in both)
                parts = computed[at]
            self._parts.append(parts)
            self._codes.append(step.dtype)
            for array, byte, _ in stores.get(at, ()):
                self.memory.store_scalar(self._address(array, byte), parts, step.dtype)
            written += 1
            if written == REGISTER_BLOCK_STEPS:
                b.r.block(f"block{blocks}")
                blocks, written = blocks + 1, 0

    def _value(self, number: int) -> Vector:
        first, *second = self._parts[number]
        return Vector(first, np.dtype(self._codes[number]), *second)

    def _computed(self, at: int, step: Computed) -> tuple[str, ...]:
        # Long programs spend their time here.
        head, arguments, dtype = step[:-2], step[-2], step[-1]
        codes, parts = self._codes, self._parts
        key = (head, tuple([codes[each] for each in arguments]), dtype)
        text = self._texts.get(key)
        if text is None:
            kind: Any = type(step)
            text = self._texts[key] = _text(kind, *key, self._mode)
            self.memory.r.definitions.update(dict.fromkeys(text.definitions))
        fields = [str(at)]
        for number in arguments:
            fields += parts[number]
        if text.lines:
            self.memory.r.lines.append(text.lines % tuple([fields[each] for each in text.fields]))
        return tuple(
            [
                fields[part] if isinstance(part, int) else part.replace("<0>", fields[0])
                for part in text.parts
            ]
        )

    def _entered(self, step: Load | Literal) -> tuple[str, ...]:
        if isinstance(step, Load):
            place = self._address(step.array, step.byte)
            return self.memory.load_scalar(place, KernelArray(step.dtype, SCALAR)).parts
        dtype = np.dtype(step.dtype)
        return self.memory.b.constant(np.frombuffer(step.content, dtype)[0].item(), dtype).parts

    def _address(self, array: int, byte: int) -> str:
        """The address of an element; that of the array is found where it is first needed."""
        r = self.memory.r
        base = self._bases.get(array)
        if base is None:
            slot, offset = r.word("%args", 16 * array), r.word("%args", 16 * array + 8)
            base = self._bases[array] = r.at(r.pointer("%slots", r.scaled(slot)), offset)
        return r.at(base, byte) if byte else base
