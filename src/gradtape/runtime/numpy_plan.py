"""The NumPy plan, tier 0: a program over numbered slots, run op by op by the NumPy rules."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, length_hint
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.beyond_memory import check_specs
from gradtape.compiler.lower.plan import Input
from gradtape.ir import Node, Program
from gradtape.ir.lines import mark
from gradtape.trace.value import Content, Value

# A dead value this large is dropped at once; smaller ones wait until their slot is used again.
LARGE = 1 << 16
# Programs whose results take no more than this together keep all of them until the run ends.
LARGE_IN_ALL = 1 << 22
# So do programs with results of this many bytes on average: objects of Python take as much.
SMALL = 64

Kernel = Callable[..., Any]
Slots = tuple[int, ...]


class NumpyPlan:
    """Steps over slots. Inputs fill the first ones."""

    __slots__ = (
        "_drops",
        "_sources",
        "_targets",
        "inputs",
        "output_slots",
        "output_specs",
        "program",
        "size",
        "steps",
    )

    def __init__(self, program: Program) -> None:
        specs = Counter(map(attrgetter("spec"), program.nodes))
        check_specs(specs, program.nodes)
        self.program = program
        slot = {node: index for index, node in enumerate(program.inputs)}
        # What each step calls, the slots that it reads, the slot that it fills and those that it
        # empties. These are lists and not one list of tuples: the garbage collector would look at
        # each of the tuples again and again, which takes longer than a long plan takes to run.
        self.steps: list[Kernel] = []
        self._sources: list[Slots] = []
        # If every result has a slot of its own, it is the next one, and none is emptied.
        self._targets: list[int] = []
        self._drops: list[Slots] | None = None
        # Where all results together are small, each has a slot of its own: finding out which of
        # them are dead would take longer than running the plan.
        if _is_large(specs, len(program.nodes)):
            self._share_slots(slot)
        else:
            self._keep_apart(slot)
        self.inputs = tuple(_convert(node) for node in program.inputs)
        self.output_slots = tuple(slot[node] for node in program.outputs)
        self.output_specs = tuple(node.spec for node in program.outputs)

    def _keep_apart(self, slot: dict[Node, int]) -> None:
        """Make steps whose results each have a slot of their own."""
        steps, all_sources = self.steps, self._sources
        for target, node in enumerate(self.program.nodes, len(slot)):
            parents = node.inputs
            # The usual cases are written out: a new program waits for this before it first runs.
            if len(parents) == 2:
                all_sources.append((slot[parents[0]], slot[parents[1]]))
            elif len(parents) == 1:
                all_sources.append((slot[parents[0]],))
            else:
                all_sources.append(tuple([slot[parent] for parent in parents]))
            slot[node] = target
            steps.append(node.op.numpy if not node.params else _kernel(node))
        self.size = len(slot)

    def _share_slots(self, slot: dict[Node, int]) -> None:
        """Make steps that use the slot of a dead value again."""
        last_use = last_uses(self.program)
        free: list[int] = []
        size = len(slot)
        targets: list[int] = []
        drops: list[Slots] = []
        # Written without inner functions: a new program waits for this before it first runs.
        for position, node in enumerate(self.program.nodes):
            parents = node.inputs
            self._sources.append(tuple([slot[parent] for parent in parents]))
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
            drop: Slots = ()
            if dying:
                drop = tuple([slot[p] for p in dying if slot[p] != target and _bytes(p) >= LARGE])
            self.steps.append(_kernel(node))
            targets.append(target)
            drops.append(drop)
            if last_use[node] == position:
                free.append(target)
        self.size, self._targets, self._drops = size, targets, drops

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
        copy.steps = [timed(kernel) for kernel in self.steps]
        return copy.run(inputs), times

    def run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers; gives one array per output."""
        slots: list[Any] = [
            value.array if type(value) is Value else convert(value)
            for convert, value in zip(self.inputs, inputs, strict=True)
        ]
        kernels = iter(self.steps)
        fill = self._fill_apart if self._drops is None else self._fill_shared
        with np.errstate(all="ignore"):
            try:
                fill(kernels, slots)
            except Exception as error:
                # The iterator has given the kernel of the step that failed.
                mark(error, self.program.nodes[len(self.steps) - 1 - length_hint(kernels)])
                raise
        COUNTS.plans_run += 1
        COUNTS.ops_run += len(self.steps)
        return [
            np.asarray(slots[slot], of.dtype)
            for slot, of in zip(self.output_slots, self.output_specs, strict=True)
        ]

    def _fill_apart(self, kernels: Iterator[Kernel], slots: list[Any]) -> None:
        """Run all steps; each fills the next slot."""
        append = slots.append
        for kernel, sources in zip(kernels, self._sources, strict=True):
            if len(sources) == 2:
                append(kernel(slots[sources[0]], slots[sources[1]]))
            elif len(sources) == 1:
                append(kernel(slots[sources[0]]))
            else:
                append(kernel(*[slots[source] for source in sources]))

    def _fill_shared(self, kernels: Iterator[Kernel], slots: list[Any]) -> None:
        """Run all steps; each fills a slot that is free, and empties others."""
        assert self._drops is not None
        slots += [None] * (self.size - len(slots))
        order = zip(kernels, self._sources, self._targets, self._drops, strict=True)
        for kernel, sources, target, drop in order:
            if len(sources) == 2:
                slots[target] = kernel(slots[sources[0]], slots[sources[1]])
            elif len(sources) == 1:
                slots[target] = kernel(slots[sources[0]])
            else:
                slots[target] = kernel(*[slots[source] for source in sources])
            for dead in drop:
                slots[dead] = None


def _is_large(specs: Mapping[Any, int], count: int) -> bool:
    """Whether the memory of dead values is worth using again."""
    limit = max(LARGE_IN_ALL, SMALL * count)
    return sum(times * _bytes_of(of) for of, times in specs.items()) > limit


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
    return _bytes_of(node.spec)


def _bytes_of(of: Any) -> int:
    return LARGE if type(of) is tuple else of.nbytes


def _kernel(node: Node) -> Callable[..., Any]:
    return partial(node.op.numpy, **node.keywords) if node.params else node.op.numpy


def _convert(node: Node) -> Callable[[Any], Any]:
    # A Python scalar takes the leaf's dtype here; NumPy would read it as float64 in some kernels.
    convert: Callable[[Any], Any] = node.dtype.type
    return convert
