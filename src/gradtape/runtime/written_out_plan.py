"""The written-out run of a small plan: filling its slots, as one Python function without loops.

Everything a compiled plan does around its native call is written out by name: it takes memory for
the outputs, packs addresses and numbers into the slots, calls the native code, and counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.plan import BoundRun, Input, Layout, Run, RunMemory
from gradtape.ir.node import Node
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.source_text import SourceText
from gradtape.trace import Value

# By dtype, the letter that `struct` has for one number; and the format of one with its padding.
LETTERS = {
    "f8": "d",
    "f4": "f",
    "i8": "q",
    "i4": "i",
    "i2": "h",
    "i1": "b",
    "u8": "Q",
    "u4": "I",
    "u2": "H",
    "u1": "B",
    "b1": "?",
}
FORMATS = {kind: f"{letter}{8 - int(kind[1])}x" for kind, letter in LETTERS.items()}
FORMATS |= {"c16": "dd", "c8": "ff"}

Conversion = Callable[[Input], complex]


def python_types(node: Node) -> Sequence[Conversion]:
    """Conversions of a scalar to the Python numbers that `struct` takes; two for a complex one."""
    if node.dtype.kind == "c":
        return (_real_part, _imaginary_part)
    return ({"f": float, "b": bool}.get(node.dtype.kind, int),)


def _real_part(value: Input) -> float:
    return complex(value).real


def _imaginary_part(value: Input) -> float:
    return complex(value).imag


def python_number(value: Input, conversion: Conversion) -> complex:
    """A Python number for `struct`."""
    return conversion(value.array.item() if type(value) is Value else value)


# Plans with more inputs and outputs than this gain nothing.
MOST = 96


def unrolled_run(layout: Layout, idle: list[RunMemory], slow: Run) -> Run | None:
    """The run as a function of the list of inputs; None if the plan has too many.

    `slow` is the same run with loops; it takes over when an input is not a `Value` or a number.
    """
    if len(layout.arrays) + len(layout.scalars) + len(layout.written) > MOST:
        return None
    text = _common_names(layout, idle, layout.new_memory)
    text.name(slow, "slow")
    text.name(layout.pack, "pack")
    words = [f"inputs[{position}].address" for position in layout.arrays]
    numbers = [
        _number(text, dtype, f"x{number}", f"inputs[{position}]")
        for number, (position, dtype) in enumerate(layout.scalars)
    ]
    packed = ", ".join([*_slots(layout, words), *numbers])
    return _written_out(text, layout, "inputs", [f"pack(memory, 0, {packed})"])


def bound_run(layout: Layout, fixed: Mapping[int, Input], slow: BoundRun) -> BoundRun | None:
    """The run with some inputs fixed: a function of the other inputs, one parameter each.

    The fixed numbers are written into the memory of a run when that memory is made.
    """
    free = {*layout.arrays, *(position for position, _ in layout.scalars)}.difference(fixed)
    if len(free) + len(layout.arrays) + len(layout.written) > MOST:
        return None
    numbers = layout.converted([fixed.get(position, 0) for position, _ in layout.scalars])

    def new_memory() -> RunMemory:
        memory, base = layout.new_memory()
        layout.pack(memory, 0, *[0] * layout.slots, *numbers)
        return memory, base

    text = _common_names(layout, [], new_memory)
    text.name(slow, "slow")
    text.name(layout.pack_slots, "pack")
    words = []
    for position in layout.arrays:
        owner = text.name(fixed[position], "fixed") if position in fixed else f"a{position}"
        words.append(f"{owner}.address")
    packing = [f"pack(memory, 0, {', '.join(_slots(layout, words))})"]
    for number, (position, dtype) in enumerate(layout.scalars):
        if position not in fixed:
            pack = text.name(struct.Struct(f"={LETTERS[dtype.str[1:]]}").pack_into, "pack")
            value = _number(text, dtype, f"x{number}", f"a{position}")
            packing.append(f"{pack}(memory, {layout.offsets[number]}, {value})")
    parameters = ", ".join(f"a{position}" for position in sorted(free))
    return _written_out(text, layout, parameters, packing)


def _slots(layout: Layout, words: list[str]) -> list[str]:
    return [
        "arena" if layout.arena else "0",
        "base + slots",
        "base + status",
        *words,
        *[f"b{number}" for number in range(len(layout.written))],
        *(["*unset"] if layout.unset else []),
    ]


def _common_names(
    layout: Layout, idle: list[RunMemory], new_memory: Callable[[], RunMemory]
) -> SourceText:
    return SourceText(
        allocate=allocate,
        counts=COUNTS,
        error=struct.error,
        new_memory=new_memory,
        pop=idle.pop,
        push=idle.append,
        stretch=layout.stretch.run,
        arena_size=layout.arena,
        ops=layout.ops,
        slots=8 * layout.slots,
        status=layout.status,
        unset=layout.unset,
    )


def _written_out(text: SourceText, layout: Layout, parameters: str, packing: list[str]) -> BoundRun:
    text.line(f"def run({parameters}):")
    with text.block():
        # Another thread may have taken the memory of the last run.
        text.line("try:")
        text.line("    memory, base = pop()")
        text.line("except IndexError:")
        text.line("    memory, base = new_memory()")
        if layout.arena:
            text.line("arena = allocate(arena_size)")
        for number, nbytes in enumerate(layout.written):
            # A size is a name, so that plans of other sizes share the code object.
            text.line(f"b{number} = allocate({text.name(nbytes, 'size')})")
        text.line("try:")
        for line in packing:
            text.line(f"    {line}")
        text.line("except (AttributeError, OverflowError, error):")
        text.line(f"    return slow({parameters})")
        # A kernel has failed: `slow` finds out why.
        text.line("if stretch(base):")
        text.line(f"    return slow({parameters})")
        text.line("push((memory, base))")
        text.line("counts.plans_run += 1")
        text.line("counts.ops_run += ops")
        text.line(f"return [{', '.join(f'b{position}' for position in layout.order)}]")
    return text.compiled("run")


def _number(text: SourceText, dtype: np.dtype[Any], local: str, source: str) -> str:
    """A Python number as it is, or read from the memory of a 0-d tensor."""
    kind = text.name(float if dtype.kind == "f" else int, "kind")
    read = text.name(_reader(dtype), "read")
    return f"{local} if type({local} := {source}) is {kind} else {read}({local})"


def _reader(dtype: np.dtype[Any]) -> Callable[[Input], float | int]:
    kind = float if dtype.kind == "f" else int
    memory = np.ctypeslib.as_ctypes_type(dtype).from_address

    def read(given: Input) -> float | int:
        number: float | int = memory(given.address).value if type(given) is Value else kind(given)
        return number

    return read
