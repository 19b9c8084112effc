"""The NumPy plan, tier 0: a program over numbered slots, run op by op by the NumPy rules."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.memory_limit import check_stored, memory
from gradtape.compiler.lower.plan import Input
from gradtape.config import LARGE_NUMPY_PLAN, SMALL_NUMPY_RESULT
from gradtape.ir import Node, Program
from gradtape.ir.node import bytes_of
from gradtape.ir.origin import mark
from gradtape.trace.value import Content, Value

_NumpyRule = Callable[..., Any]
Slots = tuple[int, ...]


class NumpyPlan:
    """Steps over slots: inputs fill the first ones, and each step fills the next."""

    __slots__ = ("_drops", "_sources", "inputs", "output_slots", "output_specs", "program", "steps")

    def __init__(self, program: Program) -> None:
        specs = Counter(map(attrgetter("spec"), program.nodes))
        # Specs without their ops say nearly always that all is well.
        if any(bytes_of(of) > memory() for of in specs):
            check_stored(program.nodes)
        self.program = program
        slot = {node: index for index, node in enumerate((*program.inputs, *program.nodes))}
        # The function of each step, the slots that it reads and those that it empties. These are
        # lists and not one list of tuples: the garbage collector would visit each of the tuples
        # again and again, which takes longer than a long plan takes to run.
        self.steps: list[_NumpyRule] = [
            partial(node.op.numpy, **node.keywords) if node.params else node.op.numpy
            for node in program.nodes
        ]
        self._sources: list[Slots] = [
            tuple([slot[parent] for parent in node.inputs]) for node in program.nodes
        ]
        # Where all results together are small, none is dropped: finding out which of them are dead
        # would take longer than running the plan.
        self._drops: list[Slots] = [()] * len(program.nodes)
        if _is_large(specs, len(program.nodes)):
            dead: dict[int, list[int]] = {}
            for node, position in last_uses(program).items():
                dead.setdefault(position, []).append(slot[node])
            self._drops = [tuple(dead.get(position, ())) for position in range(len(program.nodes))]
        # A Python scalar takes the leaf's dtype; NumPy would read it as float64 in some kernels.
        self.inputs = tuple(node.dtype.type for node in program.inputs)
        self.output_slots = tuple(slot[node] for node in program.outputs)
        self.output_specs = tuple(node.spec for node in program.outputs)

    def timed_run(self, inputs: Sequence[Input]) -> tuple[list[Content], list[int]]:
        """`run`, and the nanoseconds that each step took."""
        times: list[int] = []
        clock = time.perf_counter_ns

        def timed(kernel: _NumpyRule) -> _NumpyRule:
            def call(*arrays: Any) -> Any:
                begin = clock()
                found = kernel(*arrays)
                times.append(clock() - begin)
                return found

            return call

        return self.run(inputs, [timed(kernel) for kernel in self.steps]), times

    def run(self, inputs: Sequence[Input], steps: Sequence[_NumpyRule] = ()) -> list[Content]:
        """Evaluate on Values and Python numbers; gives one array per output."""
        slots: list[Any] = [
            value.array if type(value) is Value else convert(value)
            for convert, value in zip(self.inputs, inputs, strict=True)
        ]
        append = slots.append
        with np.errstate(all="ignore"):
            try:
                for kernel, sources, drops in zip(
                    steps or self.steps, self._sources, self._drops, strict=True
                ):
                    if len(sources) == 2:
                        append(kernel(slots[sources[0]], slots[sources[1]]))
                    elif len(sources) == 1:
                        append(kernel(slots[sources[0]]))
                    else:
                        append(kernel(*[slots[source] for source in sources]))
                    for dead in drops:
                        slots[dead] = None
            except Exception as error:
                # The slot of the step that failed would be the next.
                mark(error, self.program.nodes[len(slots) - len(self.inputs)])
                raise
        COUNTS.plans_run += 1
        COUNTS.ops_run += len(self.steps)
        return [
            np.asarray(slots[slot], of.dtype)
            for slot, of in zip(self.output_slots, self.output_specs, strict=True)
        ]


def _is_large(specs: Mapping[Any, int], count: int) -> bool:
    """Whether the memory of dead values is worth using again."""
    limit = max(LARGE_NUMPY_PLAN, SMALL_NUMPY_RESULT * count)
    return sum(times * bytes_of(of) for of, times in specs.items()) > limit


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
