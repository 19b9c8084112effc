"""Paths: a call that keeps taking the same steps is computed by one plan, and checked at its end.

Every look at a value ends a native call. Where the values looked at have been the same for a while,
all steps up to the result are joined, with one more output that says whether every value was what
it used to be. If not, nothing has happened yet: the steps run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape.functions.steps import (
    Argument,
    Call,
    Computed,
    Constant,
    Held,
    Outside,
    Result,
    Run,
    Source,
    Step,
)
from gradtape.graph.node import PLACEHOLDER, Node, constant
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.graph.spec import spec
from gradtape.recording.value import Value
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.tiers import work

# So many calls in a row have to take a path before its steps are joined.
REPEATS = 32
# Joined steps are computed in vain where a value differs: what costs much, or may fail, is not.
MOST_NODES = 4000
MOST_WORK = 1 << 18
# Families of ops that run Python, or hold programs that might.
_PYTHON = frozenset({"callback", "control", "custom", "random"})

_BOOL = spec((), np.dtype(bool))


class Path:
    """The joined steps of one way through a function."""

    def __init__(self, result: Result, run: Callable[[Call], bool]) -> None:
        self.result = result
        self._run = run
        self._hits = 0
        self._misses = 0

    def run(self, call: Call) -> Result | None:
        """The result, if all values looked at are what they used to be."""
        if self._run(call):
            self._hits += 1
            return self.result
        self._misses += 1
        return None

    @property
    def pays(self) -> bool:
        """Whether it is right often enough."""
        return self._misses <= 2 + self._hits // 8


class Habit:
    """Which result the latest calls had, and how many of them in a row."""

    __slots__ = ("_count", "_result", "tried")

    def __init__(self) -> None:
        self._result: Result | None = None
        self._count = 0
        self.tried: set[int] = set()

    def formed(self, result: Result) -> bool:
        """Whether this result has come often enough now, for the first time."""
        if result is not self._result:
            self._result, self._count = result, 0
        self._count += 1
        if self._count < REPEATS or id(result) in self.tried:
            return False
        self.tried.add(id(result))
        return True


def joined_path(root: Step, result: Result, fastmath: bool) -> Path | None:
    """The steps that lead to a result as one plan, or None if there is a reason against it."""
    steps = list(_way(root, result))
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
    if None in agrees:
        return None
    return join.path(result, [node for node in agrees if node is not None], fastmath)


def _way(step: Step, result: Result) -> Iterator[tuple[Step, Any]]:
    """The steps up to a result, each with the value that its guard has to find."""
    stack: list[tuple[Step, tuple[tuple[Step, Any], ...]]] = [(step, ())]
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
        self._inputs: dict[Any, tuple[Source, Node]] = {}
        # What each value that a run gave has become.
        self._known: dict[Node, Node] = {}

    def add(self, run: Run) -> bool:
        program = run.plan.program
        new = {
            node: self._input(source, node)
            for node, source in zip(program.inputs, run.inputs, strict=True)
        }
        for node in program.nodes:
            if node.op.opaque or node.op.may_fail or node.op.family in _PYTHON:
                return False
            parents = tuple([new[parent] for parent in node.inputs])
            new[node] = Node(node.op, parents, node.params, node.spec)
            self._nodes.append(new[node])
        for node, found in zip(run.outputs, program.outputs, strict=True):
            self._known[node] = new[found]
        return True

    def _input(self, source: Source, like: Node) -> Node:
        if isinstance(source, Computed):
            return self._known[source.node]
        if isinstance(source, Outside):
            source = source.settled()
        key: Any = id(source)
        if isinstance(source, Argument):
            key = ("argument", source.position, like.spec)
        elif isinstance(source, Held):
            key = ("variable", id(source.variable), like.spec)
        elif isinstance(source, Constant):
            key = ("constant", id(source.content), like.spec)
        found = self._inputs.get(key)
        if found is None:
            node = Node(PLACEHOLDER, (), (len(self._inputs),), like.spec)
            found = self._inputs[key] = (source, node)
        return found[1]

    def agrees(self, step: Step, key: Any) -> Node | None:
        """Whether a guard finds the value it used to, as a node; None if it cannot be one."""
        if type(step.looks_at) is not tuple:
            return None
        node = self._known.get(step.looks_at[0])
        if node is None or node.spec is not _BOOL or type(key) is not bool:
            return None
        return node if key else self._apply("logical_not", node)

    def _apply(self, name: str, *inputs: Node) -> Node:
        node = Node(REGISTRY[name], inputs, (), _BOOL)
        self._nodes.append(node)
        return node

    def path(self, result: Result, agrees: list[Node], fastmath: bool) -> Path | None:
        everything = agrees[0] if agrees else constant(True, _BOOL)
        for node in agrees[1:]:
            everything = self._apply("logical_and", everything, node)
        computed = result.computed()
        if computed is None or any(node not in self._known for node in computed):
            return None
        wanted = computed
        outputs = (everything, *[self._known[node] for node in wanted])
        used = _needed(self._nodes, outputs)
        found = Program(tuple(node for _, node in self._inputs.values()), tuple(used), outputs)
        if work(found) > MOST_WORK:
            return None
        return Path(result, self._written(found, wanted, fastmath))

    def _written(
        self, program: Program, wanted: list[Node], fastmath: bool
    ) -> Callable[[Call], bool]:
        """What runs the plan for a call, and leaves the values of the result in it."""
        names: dict[str, Any] = {"Value": Value}
        sources = [source for source, _ in self._inputs.values()]
        fixed = {
            number: source.content
            for number, source in enumerate(sources)
            if isinstance(source, Constant)
        }
        given = []
        for number, source in enumerate(sources):
            if isinstance(source, Argument):
                given.append(f"arguments[{source.position}]")
            elif number not in fixed:
                names[f"source{number}"] = source
                given.append(f"source{number}(call)")
        plan = plan_for(program, fastmath)
        names["bound"] = plan.bound(fixed, lambda faster: names.update(bound=faster))
        names["agree"] = _read_flag
        lines = [
            "def run(call):",
            "    arguments = call.arguments",
            f"    found = bound({', '.join(given)})",
            "    if not agree(found[0]):",
            "        return False",
            "    values = call.values",
        ]
        for number, node in enumerate(wanted):
            names[f"node{number}"], names[f"spec{number}"] = node, node.spec
            lines.append(f"    values[node{number}] = Value(found[{number + 1}], spec{number})")
        lines.append("    return True")
        exec("\n".join(lines), names)
        return names["run"]


def _needed(nodes: list[Node], outputs: tuple[Node, ...]) -> list[Node]:
    needed = set(outputs)
    found = []
    for node in reversed(nodes):
        if node in needed:
            needed.update(node.inputs)
            found.append(node)
    return found[::-1]


def _read_flag(content: Any) -> bool:
    return bool(Value(content, _BOOL).array)
