"""Capture: one real run of a function, kept as compiled steps that later calls run without Python.

A captured function is a tree. A step computes something (its runs) and then looks at one value (its
guard); the value chooses the next step. What was computed for the guard is not computed again. A
value that was not seen before makes the function run in Python once more, from the top, and the
tree grows by the path that it took.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.graph.deferred import Deferred
from gradtape.graph.lines import user_line
from gradtape.graph.node import LEAF, PICK, Node
from gradtape.graph.recording import Handle, Recording, Value, host_value, state
from gradtape.graph.walk import topological
from gradtape.recording.failures import Lines


class Call:
    """One run of the steps: the arguments of now, and the values computed so far."""

    __slots__ = ("arguments", "draws", "values")

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.arguments = arguments
        self.values: dict[Node, Value] = {}
        # Random positions drawn so far, in order: a run in Python after a miss gets them again.
        self.draws: list[Any] = []


Source = Callable[[Call], Any]


@dataclass(frozen=True)
class Argument:
    """An input of the call."""

    position: int

    def __call__(self, call: Call) -> Any:
        return call.arguments[self.position]


@dataclass(frozen=True)
class Number:
    """A number that is computed from those among the arguments."""

    compute: Callable[[Sequence[Any]], Any]

    def __call__(self, call: Call) -> Any:
        return self.compute(call.arguments)


@dataclass(frozen=True)
class Held:
    """What a variable holds at the time of the call."""

    variable: Any

    def __call__(self, call: Call) -> Any:
        return self.variable.current()


@dataclass(frozen=True, eq=False)
class Constant:
    """The same in every call."""

    content: Any

    def __call__(self, call: Call) -> Any:
        return self.content


@dataclass(frozen=True)
class Computed:
    """A value that an earlier run of the call gave."""

    node: Node

    def __call__(self, call: Call) -> Any:
        return call.values[self.node]


@dataclass(eq=False)
class Run:
    """A plan, and where its inputs come from."""

    plan: Any
    inputs: tuple[Source, ...]
    outputs: tuple[Node, ...]
    # Where what may fail was recorded.
    lines: Lines | None = None

    @functools.cached_property
    def run(self) -> Callable[[Call], None]:
        """Run the plan for a call; written out by name, because a loop has many such steps."""
        names: dict[str, Any] = {"plan": self.plan, "Value": Value}
        fixed = {
            number: source.content
            for number, source in enumerate(self.inputs)
            if isinstance(source, Constant)
        }
        if self.lines is None:
            names["bound"] = self.plan.bound(fixed, lambda faster: names.update(bound=faster))
        given = []
        for number, source in enumerate(self.inputs):
            if isinstance(source, Argument):
                given.append(f"arguments[{source.position}]")
            elif isinstance(source, Constant):
                if self.lines is None:
                    continue
                names[f"constant{number}"] = source.content
                given.append(f"constant{number}")
            elif isinstance(source, Computed):
                names[f"node{number}"] = source.node
                given.append(f"values[node{number}]")
            else:
                names[f"source{number}"] = source
                given.append(f"source{number}(call)")
        lines = [
            "def run(call):",
            "    values, arguments = call.values, call.arguments",
            f"    found = bound({', '.join(given)})",
        ]
        if self.lines is not None:
            names["explain"] = self.lines.explain
            lines[-1:] = [
                f"    inputs = [{', '.join(given)}]",
                "    try:",
                "        found = plan.run(inputs)",
                "    except Exception as error:",
                "        explain(error, inputs)",
                "        raise",
            ]
        for number, node in enumerate(self.outputs):
            names[f"output{number}"], names[f"spec{number}"] = node, node.spec
            lines.append(f"    values[output{number}] = Value(found[{number}], spec{number})")
        exec("\n".join(lines), names)
        return names["run"]


@dataclass(eq=False)
class Result:
    """What a call returns and assigns, once all steps have run."""

    structure: Any
    leaves: tuple[Source, ...]
    updates: tuple[tuple[Any, Source], ...]


@dataclass(eq=False)
class Step:
    """Computations, then a look at one value that chooses the next step, or the result."""

    runs: list[Run] = field(default_factory=list)
    guard: Source | None = None
    # What the guard looks at, to notice a function that does not do the same twice.
    looks_at: Any = None
    line: str = ""
    branches: dict[Any, Step] = field(default_factory=dict)
    result: Result | None = None

    @property
    def complete(self) -> bool:
        return self.guard is not None or self.result is not None


def replay(step: Step, call: Call) -> Result | None:
    """Run the steps that the values choose; None where they lead to an unknown one."""
    while True:
        for run in step.runs:
            run.run(call)
        if step.guard is None:
            return step.result
        following = step.branches.get(step.guard(call))
        if following is None:
            return None
        step = following


class Capture(Recording):
    """The recording of a real run: values are there, and every look at one is noted."""

    __slots__ = (
        "_sources",
        "assigned",
        "deferred",
        "drawn",
        "escaped",
        "given_draws",
        "guards",
        "inconsistent",
        "meant",
        "step",
        "variables",
    )

    capturing = True
    evaluates_at_once = False

    def __init__(self, root: Step, given_draws: list[Any]) -> None:
        super().__init__()
        self.step = root
        # As if a tape were recording: nothing is cut, and a flush keeps the graph.
        self.active = 1
        self.tapes[id(self)] = True
        self._sources: dict[int, Source] = {}
        self.assigned: dict[Any, None] = {}
        self.variables: dict[Any, None] = {}
        # What may fail or calls Python, and is to run even if nothing reads its result.
        self.deferred: list[Handle] = []
        self.given_draws = given_draws
        self.drawn = 0
        self.guards = 0
        # Where a value left for Python in a way that no guard can follow.
        self.escaped: str | None = None
        self.meant = False
        self.inconsistent = False

    # Leaves, by where a later call finds their values.

    def argument(self, position: int, value: Value) -> Node:
        """The leaf of an argument; a value that is given twice is two arguments."""
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = Argument(position)
        return node

    def add_number(self, number: Deferred, of: Any) -> Node:
        """The leaf of a number that a later call computes from its arguments."""
        node = self.add_leaf(number.value, of)
        self._sources[node.params[0]] = Number(number.compute)
        return node

    def read_variable(self, variable: Any, node: Node) -> None:
        """A variable was read from outside: later calls read what it holds then."""
        self.variables[variable] = None
        if node.op is LEAF:
            self._sources.setdefault(node.params[0], Held(variable))

    def draw(self, generator: Any, count: int) -> Any:
        """The position of a random draw: a later call draws anew."""
        number = self.drawn
        self.drawn += 1
        if self.given_draws:
            value = self.given_draws.pop(0)
        else:
            value = host_value(generator.advance(count))
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = _Draw(number, generator, count)
        return self.hold(node, state.handle_class)

    def source(self, node: Node) -> Source:
        """Where a later call finds the value of a node."""
        return self._source_of_leaf(node.params[0]) if node.op is LEAF else Computed(node)

    # What happens.

    def defer(self, node: Node, handle: Handle) -> None:
        """An op that may fail runs with all others: see to it that it does."""
        super().defer(node, handle)
        self.deferred.append(handle)

    def unused(self, wanted: Sequence[Handle]) -> list[Handle]:
        """Handles on what was deferred and would not be computed for the wanted ones."""
        deferred, self.deferred = self.deferred, []
        if not deferred:
            return []
        read = set(topological([handle.node for handle in wanted], stop=self.values.keys()))
        return [
            handle
            for handle in deferred
            if handle.node is not None
            and handle.node not in self.values
            and (handle.node.inputs[0] if handle.node.op is PICK else handle.node) not in read
        ]

    def ran(self, schedule: Any) -> None:
        """A flush has run a schedule of this recording."""
        if self.step.complete or self.inconsistent:
            return
        inputs = tuple(
            self.source(binding) if isinstance(binding, Node) else self._source_of_leaf(binding)
            for binding in schedule.bindings
        )
        lines = Lines(schedule.fallible, self.lines) if schedule.fallible is not None else None
        self.step.runs.append(Run(schedule.plan, inputs, schedule.outputs, lines))

    def _source_of_leaf(self, ordinal: int) -> Source:
        found = self._sources.get(ordinal)
        return Constant(self.leaves[ordinal]) if found is None else found

    def decide(self, handle: Handle, kind: type, name: str) -> Any:
        """A look at a value that decides what Python does next."""
        node = handle.node
        state.evaluate(handle)
        array = handle.computed.array  # type: ignore[union-attr]
        value = kind(array.reshape(())[()])
        source, read = self.source(node), _reader(node, kind)
        self._branch(lambda call: read(source(call)), (node, name), value)
        return value

    def guard_number(self, number: Deferred) -> None:
        """The same for a number among the arguments."""
        compute = number.compute
        self._branch(lambda call: compute(call.arguments), "number", number.value)

    def _branch(self, source: Source, looks_at: Any, value: Any) -> None:
        if self.inconsistent:
            return
        self.guards += 1
        step = self.step
        if step.complete:
            if step.result is not None or step.looks_at != looks_at:
                self.inconsistent = True
                return
        else:
            step.guard, step.looks_at, step.line = source, looks_at, user_line()
        self.step = step.branches.setdefault(value, Step())

    def escape(self, meant: bool = False) -> None:
        """A look at a value that may flow back in by ways that are not recorded.

        Where it is meant to happen at every call, as a print, nobody has to be told.
        """
        if self.escaped is None:
            self.escaped = user_line()
            self.meant = meant


def _reader(node: Node, kind: type) -> Callable[[Value], Any]:
    """What gives the only element of a value as a Python number of a kind."""
    if node.dtype.kind == "c":
        return lambda value: kind(value.array.reshape(())[()])
    memory = np.ctypeslib.as_ctypes_type(node.dtype).from_address
    return lambda value: kind(memory(value.address).value)


class _Draw:
    """Where a random position comes from in a later call."""

    __slots__ = ("count", "generator", "number")

    def __init__(self, number: int, generator: Any, count: int) -> None:
        self.number = number
        self.generator = generator
        self.count = count

    def __call__(self, call: Call) -> Any:
        drawn = call.draws
        # Draws are numbered in the order of the function, and are made in that order.
        while len(drawn) <= self.number:
            drawn.append(None)
        if drawn[self.number] is None:
            drawn[self.number] = host_value(self.generator.advance(self.count))
        return drawn[self.number]
