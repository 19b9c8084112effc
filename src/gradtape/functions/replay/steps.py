"""Steps: a captured function as a tree of plans and guards.

A step draws random numbers, runs its plans, and then looks at one value: its guard. The value
chooses the next step. The last step of a path has a result instead: the leaves that the call
returns, and the changes that it makes to variables, tensors and arguments. All changes happen
there, so a call that meets an unknown value at a guard has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cached_property
from typing import Any

from gradtape.evaluate.failures import Lines
from gradtape.functions.replay.sources import (
    CallersTensor,
    Computed,
    Constant,
    Generator,
    GuardSource,
    Leaf,
    OutsideTensorItself,
    RowSparseTensor,
    Source,
    settled,
)
from gradtape.graph.node import Node
from gradtape.process.records import dataclass
from gradtape.process.source_text import SourceText
from gradtape.pytree import Structure
from gradtape.recording.handle import Handle
from gradtape.recording.value import Content
from gradtape.runtime.tiers import TieredPlan
from gradtape.tensor.variable import Variable
from gradtape.tensor.variable_updates import written_assignment


@dataclass(eq=False)
class Run:
    """A plan, the sources of its inputs, and the nodes whose values it gives."""

    plan: TieredPlan
    inputs: tuple[Source, ...]
    outputs: tuple[Node, ...]
    # The lines where ops that may fail were recorded; None if nothing may fail.
    lines: Lines | None = None
    _function: Callable[..., list[Content]] | None = None
    # The latest source text that calls the plan, and the name that it has there.
    _written_in: tuple[SourceText, str] | None = None

    def constants(self) -> dict[int, Any]:
        """The inputs that are the same in every call, by position."""
        return {
            position: source.content
            for position, source in enumerate(self.inputs)
            if isinstance(source, Constant)
        }

    def written_in(self, text: SourceText, hint: str) -> str:
        """Name the plan's function of the inputs that are not constant, in a source text.

        Once the plan is compiled, a faster function takes its place under that name.
        """
        if self._function is None:
            # Not earlier: a tensor from outside may be gone when the capture has ended.
            self.inputs = tuple(map(settled, self.inputs))
            self._function = self.plan.bound(self.constants(), self._use)
        name = text.name(self._function, hint)
        self._written_in = text, name
        return name

    def _use(self, faster: Callable[..., list[Content]]) -> None:
        self._function = faster
        if self._written_in is not None:
            text, name = self._written_in
            text.rebind(name, faster)


@dataclass(eq=False)
class Result:
    """The leaves that a call returns, and the changes that it makes, once all plans have run."""

    structure: Structure
    leaves: tuple[Leaf, ...]
    # Variables, references to tensors from outside, and positions of arguments that are changed in
    # place; each with its new value.
    updates: tuple[tuple[Variable, Source], ...]
    rebound: tuple[tuple[Callable[[], Handle | None], Source], ...] = ()
    moved: tuple[tuple[int, Source], ...] = ()

    @cached_property
    def assignment(self) -> Callable[..., None]:
        """Lets the variables of `updates` hold the handles that it is called with."""
        return written_assignment([variable for variable, _ in self.updates])

    def computed(self) -> list[Node]:
        """The nodes whose values take part in it."""
        pairs = (*self.updates, *self.rebound, *self.moved)
        sources = [*self.leaves, *[source for _, source in pairs]]
        found: dict[Node, None] = {}
        while sources:
            source = sources.pop()
            if isinstance(source, RowSparseTensor):
                sources += source.parts
            elif isinstance(source, (CallersTensor, OutsideTensorItself)):
                sources.append(source.otherwise)
            elif isinstance(source, Computed):
                found[source.node] = None
            elif hasattr(source, "source"):
                sources.append(source.source)
        return list(found)


@dataclass(eq=False)
class Step:
    """Draws and plans, then a guard that chooses the next step, or the result."""

    # Random generators that the step draws from, with the number of blocks.
    draws: list[tuple[Generator, int]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    guard: GuardSource | None = None
    # Identifies the guard, to notice a function that looks at another value in its next run; what
    # the user calls the value, the line that looks at it, and the values seen.
    looks_at: object = None
    label: str = ""
    line: str = ""
    values: list[object] = field(default_factory=list)
    branches: dict[Hashable, Step] = field(default_factory=dict)
    result: Result | None = None

    @property
    def complete(self) -> bool:
        """Whether it is known how the step ends."""
        return self.guard is not None or self.result is not None

    @property
    def only_run(self) -> Run | None:
        """The run that computes everything, if the whole call is this step with one run.

        Not if it changes tensors in place.
        """
        result = self.result
        if result is None or len(self.runs) != 1 or result.rebound or result.moved:
            return None
        return self.runs[0]
