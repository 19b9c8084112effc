"""The written-out run of a small plan: filling its slots, as one Python function without loops.

Everything a compiled plan does around its native call is written out by name: it takes memory for
the outputs, packs addresses and numbers into the slots, calls the native code, and counts.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.plan import PlanFunction, RunMemory, SlotLayout
from gradtape.config import MOST_WRITTEN_OUT_VALUES, SMALL_BUFFER
from gradtape.runtime.buffer_pool import RECYCLED, allocate, capacity_for, counts, taker
from gradtape.runtime.source_text import written_out
from gradtape.trace import Value

# By dtype, the format that `struct` has for one number, with its padding.
FORMATS = {
    "f8": "d",
    "f4": "f4x",
    "i8": "q",
    "i4": "i4x",
    "i2": "h6x",
    "i1": "b7x",
    "u8": "Q",
    "u4": "I4x",
    "u2": "H6x",
    "u1": "B7x",
    "b1": "?7x",
    "c16": "dd",
    "c8": "ff",
}


def _numbers(layout: SlotLayout, names: dict[str, Any]) -> list[str]:
    """Expressions of the scalar inputs: Python numbers, or read from the memory of 0-d tensors."""
    found = []
    for number, (position, dtype) in enumerate(layout.scalars):
        given, read = f"x{number}", f"read{number}"
        names[read] = np.ctypeslib.as_ctypes_type(dtype).from_address
        read_from = f"({given} := inputs[{position}])"
        found.append(
            f"{read}({given}._address or {given}.address).value "
            f"if type{read_from} is Value else {given}"
        )
    return found


def unrolled_run(
    layout: SlotLayout, idle: list[RunMemory], slow: PlanFunction
) -> PlanFunction | None:
    """The run as a function of the list of inputs; None if the plan has too many.

    `slow` is the same run with loops; it takes over when an input is not a `Value` or a number,
    when no memory is idle, and when a kernel fails.
    """
    if len(layout.arrays) + len(layout.scalars) + len(layout.written) > MOST_WRITTEN_OUT_VALUES:
        return None
    # Sizes and offsets are names, so that plans of other sizes share the code object.
    names: dict[str, Any] = {"arena_size": layout.arena, "ops": layout.ops, "taken": 0}
    numbers = _numbers(layout, names)
    for number, nbytes in enumerate(layout.written):
        # A small block comes from C code, without a call of Python code.
        small = nbytes <= SMALL_BUFFER
        names["taken"] += capacity_for(nbytes) if small else 0
        take = taker(capacity_for(nbytes)) if small else partial(allocate, nbytes)
        names[f"take{number}"] = take
    packed = [
        "arena" if layout.arena else "0",
        "base + slots",
        "base + status",
        *[f"(v := inputs[{position}])._address or v.address" for position in layout.arrays],
        *[f"b{number}" for number in range(len(layout.written))],
        *(["*unset"] if layout.unset else []),
        *numbers,
    ]
    names |= {"slots": 8 * layout.slots, "status": layout.status, "unset": layout.unset}
    names |= {"allocate": allocate, "new_memory": layout.new_memory, "pack": layout.pack}
    names |= {
        "counts": COUNTS,
        "Value": Value,
        "recycled": counts(),
        "error": struct.error,
        "slow": slow,
    }
    names |= {"pop": idle.pop, "push": idle.append, "stretch": layout.stretch.run}
    return written_out(
        "run",
        [
            "def run(inputs):",
            # Another thread may have taken the memory of the last run.
            "    try:",
            "        memory, base = pop()",
            "    except IndexError:",
            "        memory, base = new_memory()",
            *(["    arena = allocate(arena_size)"] if layout.arena else []),
            "    try:",
            *[f"        b{number} = take{number}()" for number in range(len(layout.written))],
            f"        pack(memory, 0, {', '.join(packed)})",
            "    except (AttributeError, IndexError, OverflowError, error):",
            "        return slow(inputs)",
            "    if stretch(base):",
            "        return slow(inputs)",
            "    push((memory, base))",
            f"    recycled[{RECYCLED}] += taken",
            "    counts.plans_run += 1",
            "    counts.ops_run += ops",
            f"    return [{', '.join(f'b{position}' for position in layout.order)}]",
        ],
        **names,
    )
