"""Capture: one real run of a function, kept as compiled steps that later calls run without Python.

A captured function is a tree. A step computes something (its runs) and then looks at one value (its
guard); the value chooses the next step. What was computed for the guard is not computed again. A
value that was not seen before makes the function run in Python once more, from the top, and the
tree grows by the path that it took. So does an error: it comes from Python then, at its own line.

A run is recorded as a path of its own and joins the tree when it has ended well.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.graph.deferred import Deferred
from gradtape.graph.lines import user_line
from gradtape.graph.node import LEAF, PICK, Node, outputs
from gradtape.graph.program import program
from gradtape.graph.recording import Handle, Recording, Value, host_value, state
from gradtape.graph.walk import topological
from gradtape.ops.callback import is_effect
from gradtape.recording.bound import bind
from gradtape.recording.failures import Lines


class Call:
    """One run of the steps: the arguments of now, and the values computed so far."""

    __slots__ = ("arguments", "draws", "outcomes", "values")

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.arguments = arguments
        self.values: dict[Node, Value] = {}
        # Random positions drawn so far and what callbacks gave, in order: a run in Python after a
        # miss gets them again.
        self.draws: list[tuple[Draw, Value]] = []
        self.outcomes: list[Any] = []


Source = Callable[[Call], Any]

# Why a run is not repeated, which says nothing of the next one.
FAILED = "an op failed"
CONTENDED = "another thread assigned its variables meanwhile"


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


@dataclass(frozen=True)
class Drawn:
    """A random position, by its number among those of the call."""

    number: int

    def __call__(self, call: Call) -> Any:
        return call.draws[self.number][1]


@dataclass(frozen=True)
class Draw:
    """So many numbers of a generator: every call draws anew."""

    generator: Any
    count: int

    def make(self) -> Value:
        """The position, and the generator moves on."""
        return host_value(self.generator.advance(self.count))


@dataclass(eq=False)
class Run:
    """A plan, and where its inputs come from."""

    plan: Any
    inputs: tuple[Source, ...]
    outputs: tuple[Node, ...]
    # Whether something in it may fail or calls Python.
    fallible: bool = False

    @functools.cached_property
    def run(self) -> Callable[[Call], None]:
        """Run the plan for a call; written out by name, because a loop has many such steps."""
        names: dict[str, Any] = {"plan": self.plan, "Value": Value}
        given = []
        for number, source in enumerate(self.inputs):
            if isinstance(source, Argument):
                given.append(f"arguments[{source.position}]")
            elif isinstance(source, Constant):
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
            f"    inputs = [{', '.join(given)}]",
            "    found = plan.run(inputs)",
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
    # New values of inputs that were changed in place.
    rebound: tuple[tuple[int, Source], ...] = ()


@dataclass(eq=False)
class Step:
    """Computations, then a look at one value that chooses the next step, or the result."""

    # In the order of the function, and before anything is computed.
    draws: list[Draw] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    guard: Source | None = None
    # What the guard looks at, to notice a function that does not do the same twice.
    looks_at: Any = None
    line: str = ""
    branches: dict[Any, Step] = field(default_factory=dict)
    result: Result | None = None

    def agrees(self, other: Step) -> bool:
        """Whether the steps are the same up to what follows, as far as later ones need it."""
        computed = {node for run in self.runs for node in run.outputs}
        return (
            (self.result is None) == (other.result is None)
            and self.looks_at == other.looks_at
            and self.draws == other.draws
            and computed.issuperset(node for run in other.runs for node in run.outputs)
        )


def replay(step: Step, call: Call) -> Result | None:
    """Run the steps that the values choose; None where they lead to an unknown one."""
    while True:
        for draw in step.draws:
            call.draws.append((draw, draw.make()))
        for run in step.runs:
            run.run(call)
        if step.guard is None:
            return step.result
        following = step.branches.get(step.guard(call))
        if following is None:
            return None
        step = following


def join(tree: Step, path: Step) -> bool:
    """Add a path to a tree of steps. False where it does something else on the same values."""
    while True:
        if not tree.agrees(path):
            return False
        if path.result is not None:
            return True
        ((value, following),) = path.branches.items()
        if value not in tree.branches:
            tree.branches[value] = following
            return True
        tree, path = tree.branches[value], following


class Capture(Recording):
    """The recording of a real run: values are there, and every look at one is noted."""

    __slots__ = (
        "_checked",
        "_drawn",
        "_given_draws",
        "_held",
        "_looked_at",
        "_outside",
        "_read",
        "_sources",
        "assigned",
        "deferred",
        "escaped",
        "guards",
        "made",
        "path",
        "step",
        "unkept",
    )

    capturing = True

    def __init__(self, given_draws: Sequence[tuple[Draw, Value]] = ()) -> None:
        super().__init__()
        self.path = self.step = Step()
        # As if a tape were recording: nothing is cut, and a flush keeps the graph.
        self.active = 1
        self.tapes[id(self)] = True
        self._sources: dict[int, Source] = {}
        # The leaf of each variable that was read, with the value it stands for.
        self._read: dict[Any, tuple[Value, Node]] = {}
        # Variables that it assigns, with the handle that each was given last.
        self.assigned: dict[Any, Handle] = {}
        # Variables and generators that were made meanwhile, by number.
        self.made: dict[tuple[type, int], weakref.ref[Any]] = {}
        # What may fail or calls Python, and is to run even if nothing reads its result.
        self.deferred: list[Handle] = []
        # Values of ops that were seen not to fail.
        self._checked: dict[Node, Value] = {}
        self._given_draws = list(given_draws)
        self._drawn = 0
        # Handles that somebody held when something was computed.
        self._held: list[weakref.ref[Any]] = []
        # Computed tensors that were read, with their values.
        self._outside: list[tuple[weakref.ref[Handle], Value]] = []
        # Attributes of objects that the run has looked at.
        self._looked_at: set[tuple[int, str]] = set()
        self.guards = 0
        # Where a value left for Python in a way that no guard can follow.
        self.escaped: str | None = None
        # Why this run is not one to be repeated, though others may be.
        self.unkept: str | None = None

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

    def make(self, thing: Any, number: int) -> None:
        """A variable or generator begins: every call would make its own."""
        self.made[type(thing), number] = weakref.ref(thing)

    def is_made_here(self, thing: Any, number: int) -> bool:
        return (type(thing), number) in self.made

    def read_variable(self, variable: Any, handle: Handle) -> Node:
        """The leaf of a variable that holds a value from outside: later calls read it then.

        It is not the leaf of that value: a tensor that was read before may have it, too.
        """
        if variable in self.assigned:
            self.unkept = CONTENDED
        state.evaluate(handle)
        value: Any = handle.computed
        known = self._read.get(variable)
        if known is not None and known[0] is value:
            return known[1]
        node = self.add_leaf(value, value.spec)
        self._read[variable] = (value, node)
        if not self.is_made_here(variable, variable.number):
            self._sources[node.params[0]] = Held(variable)
        return node

    def draw(self, generator: Any, number: int, count: int) -> Any:
        """The position of a random draw: a later call draws anew."""
        draw, given = Draw(generator, count), self._given_draws
        if self.is_made_here(generator, number):
            value, source = draw.make(), None
        else:
            value = given.pop(0)[1] if given and given[0][0] == draw else draw.make()
            source = Drawn(self._drawn)
            self._drawn += 1
            self.step.draws.append(draw)
        node = self.add_leaf(value, value.spec)
        if source is not None:
            self._sources[node.params[0]] = source
        return self.hold(node, state.handle_class)

    def give_back(self) -> None:
        """Draws that this run was given and did not make: the generators step back."""
        while self._given_draws:
            draw, value = self._given_draws.pop()
            draw.generator.retreat(value.array, draw.count)

    def source(self, node: Node) -> Source:
        """Where a later call finds the value of a node."""
        return self._source_of_leaf(node.params[0]) if node.op is LEAF else Computed(node)

    # What happens.

    def compute_at_once(self, handle: Handle) -> None:
        """An op that may fail does so on its line, but runs with all others in later calls."""
        node = handle.node
        applied = node.inputs[0] if node.op is PICK else node
        try:
            if is_effect(applied):
                # What Python does there happens once, and in this order.
                state.evaluate(handle)
            else:
                self._check(applied)
        except BaseException:
            self.unkept = FAILED
            raise
        self.deferred.append(handle)

    def _check(self, node: Node) -> None:
        wanted = outputs(node) if type(node.spec) is tuple else (node,)
        bound = bind(self, wanted, self._checked.keys())
        try:
            results = bound.results(self, self._checked)
        except Exception as error:
            lines = Lines(program(wanted, {*self.values, *self._checked}), self.lines)
            lines.explain(error, bound.inputs(self, self._checked))
            raise
        found = zip(bound.outputs, results, strict=True)
        self._checked.update((each, Value(content, each.spec)) for each, content in found)

    def unused(self, wanted: Sequence[Handle]) -> list[Handle]:
        """Handles on what was deferred and would not be computed for the wanted ones."""
        self._held += map(weakref.ref, wanted)
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
        inputs = tuple(
            self.source(binding) if isinstance(binding, Node) else self._source_of_leaf(binding)
            for binding in schedule.bindings
        )
        fallible = schedule.fallible is not None
        self.step.runs.append(Run(schedule.plan, inputs, schedule.outputs, fallible))

    def _source_of_leaf(self, ordinal: int) -> Source:
        found = self._sources.get(ordinal)
        return Constant(self.leaves[ordinal]) if found is None else found

    def read_outside(self, handle: Handle) -> None:
        """A computed tensor was read: a constant, as long as that is what is there to be read."""
        self._outside.append((weakref.ref(handle), handle.computed))  # type: ignore[arg-type]

    def outside(self) -> list[tuple[weakref.ref[Handle], Value]]:
        """Of the tensors that were read those that the run has not made itself."""
        return [(handle, value) for handle, value in self._outside if handle() is not None]

    def leaked(self, known: Sequence[Any]) -> bool:
        """Whether a tensor that was made here is held by somebody besides those known."""
        mine = {id(handle) for handle in known}
        alive = (reference() for reference in self._held)
        return any(handle is not None and id(handle) not in mine for handle in alive)

    def forget_variables(self) -> None:
        """Let go of variables, so that those that only the run knew are gone with it."""
        self.assigned = {}
        self._read = {}

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
        self._branch(lambda call: _told(compute(call.arguments)), "number", _told(number.value))

    def look(self, thing: Any, name: str) -> Any:
        """The value of an attribute that decides what Python does next."""
        value = getattr(thing, name)
        if (id(thing), name) not in self._looked_at:
            self._looked_at.add((id(thing), name))
            reference = weakref.ref(thing)
            self._branch(lambda call: getattr(reference(), name), (reference, name), value)
        return value

    def _branch(self, source: Source, looks_at: Any, value: Any) -> None:
        self.guards += 1
        step = self.step
        step.guard, step.looks_at, step.line = source, looks_at, user_line()
        self.step = step.branches[value] = Step()

    def escape(self) -> None:
        """A look at a value that may flow back in by ways that are not recorded."""
        if self.escaped is None:
            self.escaped = user_line()


def _told(number: Any) -> Any:
    """What tells numbers apart: 0.0 is not -0.0 to a program, nor 1 True, and NaN is NaN."""
    return type(number), repr(number)


def _reader(node: Node, kind: type) -> Callable[[Value], Any]:
    """What gives the only element of a value as a Python number of a kind."""
    if node.dtype.kind == "c":
        return lambda value: kind(value.array.reshape(())[()])
    memory = np.ctypeslib.as_ctypes_type(node.dtype).from_address
    return lambda value: kind(memory(value.address).value)
