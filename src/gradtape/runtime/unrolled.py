"""Unrolled: what a small plan does around its native call, as one Python function without loops.

A plan of a few microseconds spends half of them in loops over two or three inputs and outputs. So
its run is written out once, by name, and compiled by Python itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.graph.recording import Value
from gradtape.runtime.buffers import allocate
from gradtape.runtime.counters import COUNTS

# Plans with more inputs and outputs than this gain nothing.
MOST = 96


def unrolled_run(
    *,
    arrays: Sequence[int],
    scalars: Sequence[tuple[int, Any]],
    written: Sequence[int],
    order: Sequence[int],
    unset: Sequence[int],
    arena: int,
    slots: int,
    ops: int,
    step: Callable[[int], None],
    pack: Any,
    idle: list[Any],
    new_memory: Callable[[], Any],
    slow: Callable[[Any], Any],
) -> Callable[[Sequence[Any]], list[Any]] | None:
    """A function of the inputs that gives the outputs; it leaves what is unusual to `slow`."""
    if len(arrays) + len(scalars) + len(written) > MOST:
        return None
    buffers = [f"b{number}" for number in range(len(written))]
    words = [
        "arena.address" if arena else "0",
        "base + slots",
        *[f"inputs[{position}].address" for position in arrays],
        *[f"{buffer}.address" for buffer in buffers],
        *(["*unset"] if unset else []),
        *[_number(number, position) for number, (position, _) in enumerate(scalars)],
    ]
    lines = [
        "def run(inputs):",
        "    try:",
        "        memory, base = pop()",
        "    except IndexError:",
        "        memory, base = new_memory()",
        *(["    arena = allocate(arena_size)"] if arena else []),
        *[f"    {buffer} = allocate(size_{buffer})" for buffer in buffers],
        "    try:",
        f"        pack(memory, 0, {', '.join(words)})",
        "    except (AttributeError, OverflowError, error):",
        "        return slow(inputs)",
        "    step(base)",
        "    push((memory, base))",
        "    counts.plans_run += 1",
        "    counts.ops_run += ops",
        f"    return [{', '.join(buffers[position] for position in order)}]",
    ]
    names: dict[str, Any] = {
        "allocate": allocate, "counts": COUNTS, "error": struct.error, "new_memory": new_memory,
        "pack": pack, "pop": idle.pop, "push": idle.append, "slow": slow, "step": step,
        "arena_size": arena, "ops": ops, "slots": 8 * slots, "unset": unset,
    }  # fmt: skip
    for buffer, nbytes in zip(buffers, written, strict=True):
        names[f"size_{buffer}"] = nbytes
    for number, (_, dtype) in enumerate(scalars):
        names[f"kind{number}"] = float if dtype.kind == "f" else int
        names[f"read{number}"] = _reader(dtype)
    exec(_code("\n".join(lines)), names)
    return names["run"]


@lru_cache(maxsize=1024)
def _code(text: str) -> Any:
    """Compiled once for all plans with as many inputs and outputs: sizes are names in it."""
    return compile(text, "<plan>", "exec")


def _number(number: int, position: int) -> str:
    """A number as it is, or read from the memory of a 0-d tensor."""
    name = f"x{number}"
    return f"{name} if type({name} := inputs[{position}]) is kind{number} else read{number}({name})"


def _reader(dtype: Any) -> Callable[[Any], Any]:
    kind = float if dtype.kind == "f" else int
    memory = np.ctypeslib.as_ctypes_type(dtype).from_address

    def read(given: Any) -> Any:
        return memory(given.address).value if type(given) is Value else kind(given)

    return read
