"""The NumPy plan, tier 0: a program over numbered slots, run op by op by the NumPy rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradtape.graph import Node, Program
from gradtape.graph.lines import mark
from gradtape.recording.value import Content, Value
from gradtape.runtime.beyond_memory import check_stored
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.plan import Input

# A dead value this large is dropped at once; smaller ones wait until their slot is used again.
LARGE = 1 << 16
# Programs whose results take no more than this together keep all of them until the run ends.
LARGE_IN_ALL = 1 << 22
# So do programs with results of this many bytes on average: objects of Python take as much.
SMALL = 64

Step = tuple[Callable[..., Any], tuple[int, ...], int, tuple[int, ...]]


class NumpyPlan:
    """Steps over slots. Inputs fill the first ones."""

    __slots__ = ("inputs", "output_slots", "output_specs", "program", "size", "steps")

    def __init__(self, program: Program) -> None:
        check_stored(program.nodes)
        self.program = program
        slot = {node: index for index, node in enumerate(program.inputs)}
        # Where all results together are small, each has a slot of its own: finding out which of
        # them are dead would take longer than running the plan.
        of_one = self._sharing_slots if _is_large(program) else self._apart
        self.steps, self.size = of_one(program, slot)
        self.inputs = tuple(_convert(node) for node in program.inputs)
        self.output_slots = tuple(slot[node] for node in program.outputs)
        self.output_specs = tuple(node.spec for node in program.outputs)

    @staticmethod
    def _apart(program: Program, slot: dict[Node, int]) -> tuple[list[Step], int]:
        """Steps whose results each have a slot of their own."""
        steps: list[Step] = []
        for target, node in enumerate(program.nodes, len(slot)):
            sources = tuple([slot[parent] for parent in node.inputs])
            slot[node] = target
            kernel = node.op.numpy if not node.params else _kernel(node)
            steps.append((kernel, sources, target, ()))
        return steps, len(slot)

    @staticmethod
    def _sharing_slots(program: Program, slot: dict[Node, int]) -> tuple[list[Step], int]:
        """Steps that use the slot of a dead value again."""
        last_use = last_uses(program)
        free: list[int] = []
        size = len(slot)
        steps: list[Step] = []
        # Written without inner functions: a new program waits for this before it first runs.
        for position, node in enumerate(program.nodes):
            parents = node.inputs
            sources = tuple([slot[parent] for parent in parents])
            dying = [parent for parent in parents if last_use[parent] == position]
            if len(dying) > 1:
                dying = list(dict.fromkeys(dying))
            if dying:
                free += [slot[parent] for parent in dying]
            if free:
                target = free.pop()
            else:
                target, size = size, size + 1
            slot[node] = target
            drop: tuple[int, ...] = ()
            if dying:
                drop = tuple([slot[p] for p in dying if slot[p] != target and _bytes(p) >= LARGE])
            steps.append((_kernel(node), sources, target, drop))
            if last_use[node] == position:
                free.append(target)
        return steps, size

    def timed_run(self, inputs: Sequence[Input]) -> tuple[list[Content], list[int]]:
        """`run`, and the nanoseconds that each step took."""
        times: list[int] = []
        clock = time.perf_counter_ns

        def timed(kernel: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arrays: Any) -> Any:
                begin = clock()
                found = kernel(*arrays)
                times.append(clock() - begin)
                return found

            return call

        copy = object.__new__(NumpyPlan)
        for name in NumpyPlan.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.steps = [(timed(kernel), *rest) for kernel, *rest in self.steps]  # type: ignore[misc]
        return copy.run(inputs), times

    def run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers; gives one array per output."""
        slots: list[Any] = [None] * self.size
        for index, (convert, value) in enumerate(zip(self.inputs, inputs, strict=True)):
            slots[index] = value.array if type(value) is Value else convert(value)
        with np.errstate(all="ignore"):
            try:
                for step in self.steps:
                    kernel, sources, target, drop = step
                    if len(sources) == 2:
                        slots[target] = kernel(slots[sources[0]], slots[sources[1]])
                    elif len(sources) == 1:
                        slots[target] = kernel(slots[sources[0]])
                    else:
                        slots[target] = kernel(*[slots[source] for source in sources])
                    for dead in drop:
                        slots[dead] = None
            except Exception as error:
                pairs = zip(self.program.nodes, self.steps, strict=True)
                mark(error, next(node for node, each in pairs if each is step))
                raise
        COUNTS.plans_run += 1
        COUNTS.ops_run += len(self.steps)
        return [
            np.asarray(slots[slot], of.dtype)
            for slot, of in zip(self.output_slots, self.output_specs, strict=True)
        ]


def _is_large(program: Program) -> bool:
    """Whether the memory of dead values is worth using again."""
    limit = max(LARGE_IN_ALL, SMALL * len(program.nodes))
    total = 0
    for node in program.nodes:
        total += _bytes(node)
        if total > limit:
            return True
    return False


def last_uses(program: Program) -> dict[Node, int]:
    """The position of the step that reads each value last; outputs are read after all steps."""
    last = dict.fromkeys(program.inputs, -1)
    for position, node in enumerate(program.nodes):
        last[node] = position
        for parent in node.inputs:
            last[parent] = position
    never = len(program.nodes)
    last.update((node, never) for node in program.outputs)
    return last


def _bytes(node: Node) -> int:
    return LARGE if type(node.spec) is tuple else node.spec.nbytes


def _kernel(node: Node) -> Callable[..., Any]:
    return partial(node.op.numpy, **node.keywords) if node.params else node.op.numpy


def _convert(node: Node) -> Callable[[Any], Any]:
    # A Python scalar takes the leaf's dtype here; NumPy would read it as float64 in some kernels.
    convert: Callable[[Any], Any] = node.dtype.type
    return convert
