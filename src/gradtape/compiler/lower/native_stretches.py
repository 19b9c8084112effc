"""Stretches: the native instructions of a plan, run by one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gradtape.compiler import thread_team as threads
from gradtape.compiler.counts import COUNTS
from gradtape.compiler.emit.kernels import AnyKernel, KernelCode, compile_kernels
from gradtape.compiler.emit.plans.instructions import Instruction, Instructions
from gradtape.compiler.emit.register_code import RegisterCode
from gradtape.compiler.lower.arguments import Lowered
from gradtape.compiler.lower.kernel_chains import chains_among
from gradtape.compiler.lower.llvm_effort import Effort, effort_for
from gradtape.compiler.lower.plan import SlotPlace, Stretch
from gradtape.compiler.objects.llvm import NativeFunction, NativeModule
from gradtape.config import AWAKE_LOOP_WORK, PARALLEL_LOOP_WORK, QUICK_PLAN_WORK
from gradtape.ir.node import Node
from gradtape.records import dataclass


@dataclass(frozen=True)
class PlacedKernel:
    """A lowered loop, and the places of the values that it reads and writes."""

    lowered: Lowered
    places: Mapping[Node | str, SlotPlace]


@dataclass(frozen=True)
class PreparedInstruction:
    """An instruction with the properties of a stretch that it brings along."""

    instruction: Instruction
    # Whether it calls BLAS or LAPACK.
    products: bool
    work: int
    parallel: bool
    # The tables and bodies that the instruction names by address.
    kept: object = None
    # The names of ops that it, or an instruction of its bodies, calls in Python.
    python_ops: frozenset[str] = frozenset()


def product_of(made: Instruction) -> PreparedInstruction:
    """A matrix product as part of a stretch."""
    return PreparedInstruction(made, True, max(QUICK_PLAN_WORK, made.work), made.parallel)


StretchItem = PlacedKernel | PreparedInstruction


@dataclass(frozen=True)
class Assembled:
    """The instructions of a stretch, and their demands on BLAS, the GIL and the thread team."""

    instructions: list[Instruction]
    products: bool
    work: int
    # Whether any instruction, or one in a body, is cut for several threads.
    parallel: bool


def kernel_codes(
    stretch: Iterable[StretchItem], repeated: bool = False
) -> dict[AnyKernel, KernelCode]:
    """The machine code of all kernels, compiled together where they are new.

    Kernels that a run calls repeatedly, in a loop, are compiled with full effort, however few
    points they have.
    """
    stretch = list(stretch)
    items = [item.lowered for item in stretch if isinstance(item, PlacedKernel)]
    efforts: dict[AnyKernel, Effort] = {}
    for item in items:
        least = efforts.get(item.kernel, Effort.FULL if repeated else Effort.QUICK)
        efforts[item.kernel] = max(least, effort_for(item.points))
        if isinstance(item.kernel, RegisterCode) and not item.kernel.is_short:
            efforts[item.kernel] = Effort.QUICK
    found = compile_kernels(efforts, [threads.runner_module(), *_modules_of(stretch)])
    COUNTS.kernels_compiled += found.compiled
    COUNTS.kernels_loaded += found.loaded
    COUNTS.kernels_reused += len(items) - found.compiled - found.loaded
    return found.of


def _modules_of(stretch: Iterable[StretchItem]) -> Iterator[NativeModule]:
    """The modules of instructions that are no kernels."""
    prepared = [item for item in stretch if isinstance(item, PreparedInstruction)]
    for item in prepared:
        for function in item.instruction.functions():
            if isinstance(function, NativeFunction):
                yield function.module
    if any(item.products for item in prepared):
        # Loaded with the first product.
        from gradtape.compiler.lower.products import blas

        holding = blas.hold_module()
        if holding is not None:
            yield holding


def stretch_of(items: Sequence[StretchItem], codes: Mapping[AnyKernel, KernelCode]) -> Stretch:
    """Native instructions as one call."""
    found = assembled(items, codes)
    instructions, preparing = found.instructions, 0
    loops = [(i.lowered, i.places) if isinstance(i, PlacedKernel) else None for i in items]
    for first, chain in chains_among(loops):
        members = instructions[first : first + len(chain.scales)]
        parallel = any(each.parallel for each in members)
        instructions[first] = replace(instructions[first], chain=chain, parallel=parallel)
    if found.products:
        # Loaded with the first product.
        from gradtape.compiler.lower.products import blas

        before, after = blas.hold_instruction(), blas.release_instruction()
        instructions = [i for i in (before, *instructions, after) if i is not None]
        preparing = int(before is not None)
    stream = Instructions(instructions)
    parallel = found.parallel or stream.parallel
    quick = not found.products and found.work < QUICK_PLAN_WORK
    runner = threads.plan_runner(keep_gil=quick)
    # The tables of loops and branches live as long as the instructions that name them.
    kept = (stream, items)
    if not parallel:
        run = partial(runner, 0, stream.address, stream.count)
        run.kept = kept  # type: ignore[attr-defined]
        return Stretch(run, stream, parallel, quick, preparing)

    def run_by_team(slots: int) -> int:
        return runner(threads.team(), kept[0].address, stream.count, slots)

    return Stretch(run_by_team, stream, parallel, quick, preparing)


def assembled(
    items: Sequence[StretchItem], codes: Mapping[AnyKernel, KernelCode], repeated: bool = False
) -> Assembled:
    """The items of a stretch as instructions.

    In the body of a loop, which is `repeated`, threads stay awake from one round to the next.
    """
    instructions: list[Instruction] = []
    products, work, parallel = False, 0, False
    for item in items:
        if isinstance(item, PreparedInstruction):
            products, parallel = products or item.products, parallel or item.parallel
            work += item.work
            instructions.append(item.instruction)
        else:
            lowered, code = item.lowered, codes[item.lowered.kernel]
            work += lowered.work
            instructions.append(
                Instruction(
                    code.address,
                    _arguments(lowered, item.places),
                    lowered.total,
                    lowered.grain,
                    lowered.work >= PARALLEL_LOOP_WORK,
                    lowered.work,
                    code=code,
                )
            )
    awake = parallel or repeated
    return Assembled(_shared_while_awake(items, instructions, awake), products, work, parallel)


def _shared_while_awake(
    items: Sequence[StretchItem], instructions: list[Instruction], awake: bool
) -> list[Instruction]:
    """The instructions, with smaller loops shared as well if threads are awake for others."""
    if not awake and not any(each.parallel for each in instructions):
        return instructions
    return [
        replace(instruction, parallel=True)
        if isinstance(item, PlacedKernel) and instruction.work >= AWAKE_LOOP_WORK
        else instruction
        for item, instruction in zip(items, instructions, strict=True)
    ]


def _arguments(item: Lowered, places: Mapping[Node | str, SlotPlace]) -> list[int]:
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
