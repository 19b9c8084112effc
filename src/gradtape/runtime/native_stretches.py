"""Stretches: native instructions of a plan between two library calls, as one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradtape.codegen.kernels.lower import Lowered
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.runtime import blas
from gradtape.runtime import native_loops as control
from gradtape.runtime import thread_team as threads

# Work, in operand loads, below which a second thread costs more than it brings.
PARALLEL_WORK = 1 << 18
# Work below which giving up the GIL costs more than it brings to other threads.
QUICK_WORK = 1 << 14


@dataclass(frozen=True)
class Stretch:
    """Native instructions, and how to run them on the slots at an address."""

    run: Callable[[int], None]
    instructions: Instructions
    parallel: bool
    # So quick that the GIL is kept.
    quick: bool


def packed(content: list[Any], addresses: dict[Any, int]) -> Stretch:
    """A stretch of native instructions as one call."""
    instructions, products, work, parallel = unpacked(content, addresses)
    if products:
        before, after = blas.hold_instruction(), blas.release_instruction()
        instructions = [i for i in (before, *instructions, after) if i is not None]
    stream = Instructions(instructions)
    parallel = parallel or stream.parallel
    quick = not products and work < QUICK_WORK
    runner = threads.plan_runner(keep_gil=quick)
    count = stream.count
    # The tables of loops and branches live as long as the instructions that name them.
    kept = (stream, content)

    def run(slots: int) -> None:
        runner(threads.team() if parallel else 0, kept[0].address, count, slots)

    return Stretch(run, stream, parallel, quick)


def unpacked(
    content: list[Any], addresses: dict[Any, int]
) -> tuple[list[Instruction], bool, int, bool]:
    """The instructions of a stretch; whether there are products, the work, and whether any of them,
    or of those inside, is parallel."""
    instructions: list[Instruction] = []
    products, work, parallel = False, 0, False
    for item in content:
        if isinstance(item, Instruction):
            products = True
            work += QUICK_WORK
            parallel = parallel or item.parallel
            instructions.append(item)
            continue
        if isinstance(item, control.ControlInstruction):
            products, parallel = products or item.products, parallel or item.parallel
            work += item.work
            instructions.append(item.instruction)
            continue
        lowered, places = item
        work += lowered.work
        instructions.append(
            Instruction(
                addresses[lowered.kernel],
                _arguments(lowered, places),
                lowered.total,
                lowered.grain,
                lowered.work >= PARALLEL_WORK,
            )
        )
    return instructions, products, work, parallel


def _arguments(item: Lowered, places: dict[Any, tuple[int, int]]) -> list[int]:
    arguments = list(item.sizes)
    table = item.kernel.tabled
    tabled = set(table)
    for number, (owner, offset, strides) in enumerate(item.entries):
        if number in tabled:
            continue
        slot, start = places[owner]
        shift = start if isinstance(owner, str) else start + offset
        padded = (*strides, *[0] * (item.kernel.axes - len(strides)))
        arguments += [slot, shift, *padded]
    for number in table:
        owner, offset, _ = item.entries[number]
        slot, start = places[owner]
        arguments += [slot, start + offset]
    return arguments
