"""Steps: a captured function as a tree of compiled steps that a call runs without Python.

A step computes something (its runs) and then looks at one value (its guard); the value chooses the
next step. The last one says what is returned, and what variables, random generators and tensors
are left with: all of that happens at the end, so a call that leads to an unknown step has changed
nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.evaluate.failures import Lines
from gradtape.evaluate.flush import compute_handle
from gradtape.graph.node import Node
from gradtape.recording.handle import Handle
from gradtape.recording.value import Value, host_value

WORD = 2**64


class Call:
    """One run of the steps: the arguments of now, and the values computed so far."""

    __slots__ = ("arguments", "drawn", "given", "outcomes", "positions", "values")

    def __init__(self, arguments: Sequence[Any], given: Callable[[], Sequence[Any]]) -> None:
        self.arguments = arguments
        # What gives the inputs as the caller has them.
        self.given = given
        self.values: dict[Node, Value] = {}
        # Where random generators were at each draw, and what was drawn, to be given back.
        self.positions: list[tuple[int, int, int]] = []
        self.drawn: list[tuple[Any, int, int]] = []
        # What callbacks gave, in order: a run in Python that follows is told.
        self.outcomes: list[Any] = []

    def draw(self, generator: Any, blocks: int) -> None:
        """Take numbers from a generator."""
        place = generator.reserve(blocks)
        self.positions.append(place)
        self.drawn.append((generator, place[2], place[2] + blocks))

    def give_back(self) -> bool:
        """Move generators back to where they were; False if others have drawn meanwhile."""
        drawn, self.drawn = self.drawn, []
        gone = [not generator.rewind(start, stop) for generator, start, stop in reversed(drawn)]
        return not any(gone)


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
class Scalar:
    """Such a number as the value of a tensor."""

    compute: Callable[[Sequence[Any]], Any]
    dtype: Any

    def __call__(self, call: Call) -> Value:
        return self.of(call.arguments)

    def of(self, arguments: Sequence[Any]) -> Value:
        """The value for these arguments."""
        return host_value(self.compute(arguments), self.dtype)


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


@dataclass(frozen=True, eq=False)
class Outside:
    """What a tensor from outside stands for at the time of the call: it may have been rebound."""

    handle: Callable[[], Handle | None]
    content: Any

    def settled(self) -> Source:
        """The same in every call, if the tensor is gone."""
        return Constant(self.content) if self.handle() is None else self

    def __call__(self, call: Call) -> Any:
        return self.current()

    def current(self) -> Any:
        handle = self.handle()
        if handle is None:
            return self.content
        if handle.computed is None:
            compute_handle(handle)
        return handle.computed


@dataclass(frozen=True)
class Computed:
    """A value that an earlier run of the call gave."""

    node: Node

    def __call__(self, call: Call) -> Any:
        return call.values[self.node]


@dataclass(frozen=True, eq=False)
class Position:
    """Where random numbers begin: so far after where the generator was at a draw of the call."""

    draw: int
    offset: Any

    def __call__(self, call: Call) -> Value:
        return self.after(call.positions[self.draw])

    def after(self, place: tuple[int, int, int]) -> Value:
        """The position as far after the place of a generator."""
        first, second, counter = place
        if isinstance(self.offset, int):
            counter += self.offset
            return host_value(np.array([first, second, counter % WORD, counter // WORD], np.uint64))
        found = np.empty((*self.offset.shape, 4), np.uint64)
        found[..., 0], found[..., 1] = first, second
        found[..., 2] = self.offset + np.uint64(counter % WORD)
        found[..., 3] = np.uint64(counter // WORD) + (found[..., 2] < self.offset)
        return host_value(found)


# Sources that say what they read.
_TELLING = (Argument, Number, Held, Constant, Outside, Computed)


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
        inputs = [
            source.settled() if isinstance(source, Outside) else source for source in self.inputs
        ]
        fixed = {
            number: source.content
            for number, source in enumerate(inputs)
            if isinstance(source, Constant)
        }
        given = []
        for number, source in enumerate(inputs):
            if isinstance(source, Argument):
                given.append(f"arguments[{source.position}]")
            elif isinstance(source, Computed):
                names[f"node{number}"] = source.node
                given.append(f"values[node{number}]")
            elif number not in fixed:
                names[f"source{number}"] = source
                given.append(f"source{number}(call)")
        names["bound"] = self.plan.bound(fixed, lambda faster: names.update(bound=faster))
        lines = [
            "def run(call):",
            "    values, arguments = call.values, call.arguments",
            f"    found = bound({', '.join(given)})",
        ]
        if self.lines is not None:
            names["explain"], names["sources"] = self.lines.explain, inputs
            lines[-1:] = [
                "    try:",
                f"        found = bound({', '.join(given)})",
                "    except Exception as error:",
                "        explain(error, [source(call) for source in sources])",
                "        raise",
            ]
        for number, node in enumerate(self.outputs):
            names[f"output{number}"], names[f"spec{number}"] = node, node.spec
            lines.append(f"    values[output{number}] = Value(found[{number}], spec{number})")
        exec("\n".join(lines), names)
        return names["run"]


@dataclass(eq=False)
class Result:
    """What a call returns and leaves behind, once all steps have run."""

    structure: Any
    leaves: tuple[Source, ...]
    # Variables, tensors from outside and arguments, by position, and what each gets.
    updates: tuple[tuple[Any, Source], ...]
    rebound: tuple[tuple[Callable[[], Any], Source], ...] = ()
    moved: tuple[tuple[int, Source], ...] = ()

    def computed(self) -> list[Node] | None:
        """The nodes whose values take part in it; None if that cannot be told."""
        pairs = (*self.updates, *self.rebound, *self.moved)
        sources = [*self.leaves, *[source for _, source in pairs]]
        made = [getattr(source, "otherwise", source) for source in sources]
        inner = [getattr(source, "source", source) for source in made]
        if not all(isinstance(source, _TELLING) for source in inner):
            return None
        found = [source.node for source in inner if isinstance(source, Computed)]
        return list(dict.fromkeys(found))


@dataclass(eq=False)
class Step:
    """Computations, then a look at one value that chooses the next step, or the result."""

    # Random generators that the step draws from, and how much.
    draws: list[tuple[Any, int]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    guard: Source | None = None
    # What the guard looks at, to notice a function that does not do the same twice; what the user
    # calls it, where that is, and the values that it had.
    looks_at: Any = None
    label: str = ""
    line: str = ""
    values: list[Any] = field(default_factory=list)
    branches: dict[Any, Step] = field(default_factory=dict)
    result: Result | None = None

    @property
    def complete(self) -> bool:
        return self.guard is not None or self.result is not None


def branch_key(value: Any) -> Any:
    """What tells the values apart that a guard may find: -0.0 is not 0.0, and NaN is NaN."""
    if type(value) is float:
        return value.hex()
    if type(value) is complex:
        return value.real.hex(), value.imag.hex()
    return value


def replay(step: Step, call: Call) -> Result | None:
    """Run the steps that the values choose; None where they lead to an unknown one."""
    while True:
        if step.guard is None and step.result is None:
            return None
        for generator, blocks in step.draws:
            call.draw(generator, blocks)
        for run in step.runs:
            run.run(call)
        if step.guard is None:
            return step.result
        following = step.branches.get(step.guard(call))
        if following is None:
            return None
        step = following
