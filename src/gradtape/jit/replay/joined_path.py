"""Joined path: calls that keep taking one path through the guards compute it by one plan.

Every guard ends a plan. Where the values at the guards have been the same for a while, the
programs of all steps up to the result are joined into one, with one more output that tells whether
every guarded value was what it used to be. If not, nothing has happened yet, and the steps are
replayed one by one. `joined_steps` is a function from steps to steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from gradtape.ir.node import PLACEHOLDER, Node, constant
from gradtape.ir.op import Op
from gradtape.ir.operators import OPERATORS
from gradtape.ir.program import Program
from gradtape.ir.spec import spec
from gradtape.jit.replay.sources import (
    Argument,
    ComputedNode,
    Constant,
    Element,
    Source,
    VariableValue,
)
from gradtape.jit.replay.steps import Result, Run, Step
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.when_to_compile import work

# Joined steps are computed in vain where a value differs: long and costly paths are not joined.
MOST_NODES = 4000
MOST_WORK = 1 << 18

_BOOL = spec((), np.dtype(bool))


def joined_steps(root: Step, result: Result, fastmath: bool) -> Step | None:
    """The steps that lead to a result as one step with one run and one guard.

    None if there is a reason against it: random draws, ops that may fail, guards on other values
    than booleans of tensors, or too much work.
    """
    steps = list(_path_to(root, result))
    if len(steps) < 2 or any(step.draws for step, _ in steps):
        return None
    runs = [run for step, _ in steps for run in step.runs]
    if any(run.lines is not None for run in runs):
        return None
    if sum(len(run.plan.program.nodes) for run in runs) > MOST_NODES:
        return None
    join = _Join()
    for run in runs:
        if not join.add(run):
            return None
    agrees = [join.agrees(step, key) for step, key in steps if step.guard is not None]
    known = [node for node in agrees if node is not None]
    return join.step(result, known, fastmath) if len(known) == len(agrees) else None


def _path_to(step: Step, result: Result) -> Iterator[tuple[Step, Hashable]]:
    """The steps up to a result, each with the key of the branch that leads on."""
    stack: list[tuple[Step, tuple[tuple[Step, Hashable], ...]]] = [(step, ())]
    while stack:
        step, before = stack.pop()
        if step.result is result:
            yield from (*before, (step, None))
            return
        stack += [(after, (*before, (step, key))) for key, after in step.branches.items()]


class _Join:
    """Programs of several runs as one."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._inputs: dict[Hashable, tuple[Source, Node]] = {}
        # The node of the joined program for each value that a run gave.
        self._known: dict[Node, Node] = {}

    def add(self, run: Run) -> bool:
        """Append the program of a run; False if it must not be computed in vain."""
        program = run.plan.program
        new = {
            node: self._input(source.settled(), node)
            for node, source in zip(program.inputs, run.inputs, strict=True)
        }
        for node in program.nodes:
            if node.op.opaque or node.op.may_fail or not node.op.self_contained:
                return False
            parents = tuple([new[parent] for parent in node.inputs])
            new[node] = Node(node.op, parents, node.params, node.spec)
            self._nodes.append(new[node])
        for node, found in zip(run.outputs, program.outputs, strict=True):
            self._known[node] = new[found]
        return True

    def _input(self, source: Source, like: Node) -> Node:
        if isinstance(source, ComputedNode):
            return self._known[source.node]
        key: Hashable = id(source)
        if isinstance(source, Argument):
            key = ("argument", source.position, like.spec)
        elif isinstance(source, VariableValue):
            key = ("variable", id(source.variable), like.spec)
        elif isinstance(source, Constant):
            key = ("constant", id(source.content), like.spec)
        found = self._inputs.get(key)
        if found is None:
            node = Node(PLACEHOLDER, (), (len(self._inputs),), like.spec)
            found = self._inputs[key] = (source, node)
        return found[1]

    def agrees(self, step: Step, key: object) -> Node | None:
        """The boolean node that tells whether a guard finds its value; None if there is none."""
        guard = step.guard
        if not isinstance(guard, Element) or type(key) is not bool:
            return None
        node = self._known.get(guard.node)
        if node is None or node.spec is not _BOOL:
            return None
        return node if key else self._apply(OPERATORS.logical_not, node)

    def _apply(self, op: Op, *inputs: Node) -> Node:
        node = Node(op, inputs, (), _BOOL)
        self._nodes.append(node)
        return node

    def step(self, result: Result, agrees: list[Node], fastmath: bool) -> Step | None:
        """One step that computes everything and is guarded by one boolean."""
        everything = agrees[0] if agrees else constant(True, _BOOL)
        for node in agrees[1:]:
            everything = self._apply(OPERATORS.logical_and, everything, node)
        wanted = result.computed()
        if any(node not in self._known for node in wanted):
            return None
        outputs = (everything, *[self._known[node] for node in wanted])
        used = _needed(self._nodes, outputs)
        joined = Program(tuple(node for _, node in self._inputs.values()), tuple(used), outputs)
        if work(joined) > MOST_WORK:
            return None
        sources = tuple(source for source, _ in self._inputs.values())
        run = Run(plan_for(joined, fastmath), sources, (everything, *wanted))
        guard = Element(ComputedNode(everything), everything, bool)
        return Step(runs=[run], guard=guard, branches={True: Step(result=result, is_replayed=True)})


def _needed(nodes: list[Node], outputs: tuple[Node, ...]) -> list[Node]:
    needed = set(outputs)
    found = []
    for node in reversed(nodes):
        if node in needed:
            needed.update(node.inputs)
            found.append(node)
    return found[::-1]
