"""Unrolled: what a small plan does around its native call, as one Python function without loops.

A plan of a few microseconds spends half of them in loops over two or three inputs and outputs. So
its run is written out once, by name, and compiled by Python itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.recording.value import Value
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.native_stretches import Stretch

# Plans with more inputs and outputs than this gain nothing.
MOST = 96
_LETTERS = {
    "f8": "d", "f4": "f", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I",
    "u2": "H", "u1": "B",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How the slots of a plan are filled, with what takes part in a run."""

    # Where the addresses and the numbers come from: positions among the inputs of the plan.
    arrays: Sequence[int]
    scalars: Sequence[tuple[int, Any]]
    # Bytes into the memory of a run, of each number.
    offsets: Sequence[int]
    # Sizes of the outputs, and in which order they are returned.
    written: Sequence[int]
    order: Sequence[int]
    unset: Sequence[int]
    arena: int
    slots: int
    ops: int
    stretch: Stretch
    # Packs all slots and numbers; the slots alone; makes `struct` take numbers of any kind.
    pack: Any
    pack_slots: Any
    converted: Callable[[Sequence[Any]], list[Any]]
    new_memory: Callable[[], Any]


def unrolled_run(layout: Layout, idle: list[Any], slow: Callable[[Any], Any]) -> Any:
    """A function of the inputs that gives the outputs; it leaves what is unusual to `slow`."""
    if len(layout.arrays) + len(layout.scalars) + len(layout.written) > MOST:
        return None
    words = [f"inputs[{position}].address" for position in layout.arrays]
    numbers = [
        _number(number, f"inputs[{position}]")
        for number, (position, _) in enumerate(layout.scalars)
    ]
    names = _names(layout, idle, layout.new_memory)
    names["slow"] = slow
    names["pack"] = layout.pack
    packed = ", ".join([*_slots(layout, words), *numbers])
    return _written_out(layout, "inputs", [f"pack(memory, 0, {packed})"], "slow(inputs)", names)


def bound_run(layout: Layout, fixed: Mapping[int, Any], slow: Callable[..., Any]) -> Any:
    """The same where some inputs are always the same: a function of the others, one by one.

    Numbers that never change are in the memory of a run before it begins.
    """
    given = {*layout.arrays, *(position for position, _ in layout.scalars)}.difference(fixed)
    if len(given) + len(layout.arrays) + len(layout.written) > MOST:
        return None
    constants = [fixed.get(position, 0) for position, _ in layout.scalars]
    numbers = layout.converted(constants)

    def new_memory() -> Any:
        memory, base = layout.new_memory()
        layout.pack(memory, 0, *[0] * layout.slots, *numbers)
        return memory, base

    names = _names(layout, [], new_memory)
    names["slow"] = slow
    names["pack"] = layout.pack_slots
    words = []
    for position in layout.arrays:
        if position in fixed:
            names[f"fixed{position}"] = fixed[position]
            words.append(f"fixed{position}.address")
        else:
            words.append(f"a{position}.address")
    packing = [f"pack(memory, 0, {', '.join(_slots(layout, words))})"]
    for number, (position, dtype) in enumerate(layout.scalars):
        if position not in fixed:
            names[f"pack{number}"] = struct.Struct(f"={_LETTERS[dtype.str[1:]]}").pack_into
            value = _number(number, f"a{position}")
            packing.append(f"pack{number}(memory, {layout.offsets[number]}, {value})")
    parameters = ", ".join(f"a{position}" for position in sorted(given))
    return _written_out(layout, parameters, packing, f"slow({parameters})", names)


def _slots(layout: Layout, words: list[str]) -> list[str]:
    return [
        "arena.address" if layout.arena else "0",
        "base + slots",
        *words,
        *[f"b{number}.address" for number in range(len(layout.written))],
        *(["*unset"] if layout.unset else []),
    ]


def _names(layout: Layout, idle: list[Any], new_memory: Callable[[], Any]) -> dict[str, Any]:
    names: dict[str, Any] = {
        "allocate": allocate, "counts": COUNTS, "error": struct.error, "new_memory": new_memory,
        "pop": idle.pop, "push": idle.append, "step": layout.stretch.run,
        "arena_size": layout.arena, "ops": layout.ops, "slots": 8 * layout.slots,
        "unset": layout.unset,
    }  # fmt: skip
    for number, nbytes in enumerate(layout.written):
        names[f"size{number}"] = nbytes
    for number, (_, dtype) in enumerate(layout.scalars):
        names[f"kind{number}"] = float if dtype.kind == "f" else int
        names[f"read{number}"] = _reader(dtype)
    return names


def _written_out(
    layout: Layout, parameters: str, packing: list[str], slow: str, names: dict[str, Any]
) -> Any:
    lines = [
        f"def run({parameters}):",
        "    try:",
        "        memory, base = pop()",
        "    except IndexError:",
        "        memory, base = new_memory()",
        *(["    arena = allocate(arena_size)"] if layout.arena else []),
        *[f"    b{number} = allocate(size{number})" for number in range(len(layout.written))],
        "    try:",
        *[f"        {line}" for line in packing],
        "    except (AttributeError, OverflowError, error):",
        f"        return {slow}",
        "    step(base)",
        "    push((memory, base))",
        "    counts.plans_run += 1",
        "    counts.ops_run += ops",
        f"    return [{', '.join(f'b{position}' for position in layout.order)}]",
    ]
    exec(_code("\n".join(lines)), names)
    return names["run"]


@lru_cache(maxsize=1024)
def _code(text: str) -> Any:
    """Compiled once for all plans with as many inputs and outputs: sizes are names in it."""
    return compile(text, "<plan>", "exec")


def _number(number: int, given: str) -> str:
    """A number as it is, or read from the memory of a 0-d tensor."""
    name = f"x{number}"
    return f"{name} if type({name} := {given}) is kind{number} else read{number}({name})"


def _reader(dtype: Any) -> Callable[[Any], Any]:
    kind = float if dtype.kind == "f" else int
    memory = np.ctypeslib.as_ctypes_type(dtype).from_address

    def read(given: Any) -> Any:
        return memory(given.address).value if type(given) is Value else kind(given)

    return read
