"""Steps: a captured function as a tree of plans and guards.

A step draws random numbers, runs its plans, and then looks at one value: its guard. The value
chooses the next step. The last step of a path has a result instead: the leaves that the call
returns, and the changes that it makes to variables, tensors and arguments. All changes happen
there, so a call that meets an unknown value at a guard has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from gradtape.ir.node import Node
from gradtape.jit.replay.sources import (
    CallersTensor,
    Computed,
    Constant,
    Generator,
    GuardSource,
    Leaf,
    NumberKey,
    OutsideArray,
    OutsideTensorItself,
    RowSparseTensor,
    Source,
    settled,
)
from gradtape.pytree import Structure
from gradtape.runtime.failures import Lines
from gradtape.runtime.source_text import SourceText
from gradtape.runtime.tiers import TieredPlan
from gradtape.tensor.variable import Variable
from gradtape.tensor.variable_updates import written_assignment
from gradtape.trace.handle import Handle
from gradtape.trace.value import Content


class Run:
    """A plan, the sources of its inputs, and the nodes whose values it gives."""

    def __init__(
        self,
        plan: TieredPlan,
        inputs: tuple[Source, ...],
        outputs: tuple[Node, ...],
        lines: Lines | None = None,
        effects: tuple[Node, ...] = (),
    ) -> None:
        self.plan = plan
        self.inputs = inputs
        self.outputs = outputs
        # The lines where ops that may fail were recorded; None if nothing may fail.
        self.lines = lines
        # Callbacks with effects among the nodes.
        self.effects = effects
        self._function: Callable[..., list[Content]] | None = None
        self._arrays: tuple[np.ndarray, ...] = ()
        # The latest source text that calls the plan, and the name that it has there.
        self._written_in: tuple[SourceText, str] | None = None

    def callbacks(self) -> Iterator[CodeType]:
        """The code of functions of the user's that its ops call."""
        for node in self.effects:
            for function in _functions_in(node.params):
                yield function.__code__

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
            arrays = [each.array for each in self.inputs if isinstance(each, OutsideArray)]
            self.inputs = tuple(map(settled, self.inputs))
            self._arrays = tuple(arrays)
            self._function = self._owning(self.plan.bound(self.constants(), self._use))
        name = text.name(self._function, hint)
        self._written_in = text, name
        return name

    def _owning(self, run: Callable[..., list[Content]]) -> Callable[..., list[Content]]:
        """The run; a result that shares the memory of an array from outside is copied."""
        arrays = self._arrays
        if not arrays:
            return run

        def owning(*inputs: Any) -> list[Content]:
            return [
                np.array(each)
                if isinstance(each, np.ndarray)
                and any(np.may_share_memory(each, array) for array in arrays)
                else each
                for each in run(*inputs)
            ]

        return owning

    def _use(self, faster: Callable[..., list[Content]]) -> None:
        faster = self._function = self._owning(faster)
        if self._written_in is not None:
            text, name = self._written_in
            text.rebind(name, faster)


def _functions_in(params: Any) -> Iterator[Any]:
    """Python functions among the params of a callback, also behind wrappers."""
    for each in params if isinstance(params, tuple) else (params,):
        while hasattr(each, "function"):
            each = each.function
        if isinstance(each, MethodType):
            each = each.__func__
        if isinstance(each, FunctionType):
            yield each
        elif isinstance(each, tuple):
            yield from _functions_in(each)
        for node in getattr(each, "nodes", ()):
            yield from _functions_in(node.params)


class Result:
    """The leaves that a call returns, and the changes that it makes, once all plans have run."""

    def __init__(
        self,
        structure: Structure,
        leaves: tuple[Leaf, ...],
        updates: tuple[tuple[Variable, Source], ...],
        rebound: tuple[tuple[Callable[[], Handle | None], Source], ...] = (),
        moved: tuple[tuple[int, Source], ...] = (),
    ) -> None:
        self.structure = structure
        self.leaves = leaves
        # Variables, references to tensors from outside, and positions of arguments that are changed
        # in place; each with its new value.
        self.updates = updates
        self.rebound = rebound
        self.moved = moved

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


class Step:
    """Draws and plans, then a guard that chooses the next step, or the result."""

    def __init__(
        self,
        guard: GuardSource | None = None,
        branches: dict[Hashable, Step] | None = None,
        result: Result | None = None,
        runs: Iterable[Run] = (),
        is_replayed: bool = False,
    ) -> None:
        # Random generators that the step draws from, with the number of blocks.
        self.draws: list[tuple[Generator, int]] = []
        self.runs = [*runs]
        # The sources of the leaves that the runs read, by number.
        self.sources: dict[int, Source] = {}
        self.guard = guard
        # What the user calls the value of the guard, the line that reads it, and the values seen.
        self.label = self.line = ""
        self.values: list[object] = []
        self.branches = {} if branches is None else branches
        self.result = result
        # How many runs in a row have recorded the path that ends here, and whether it is replayed.
        self.count = 0
        self.is_replayed = is_replayed

    @property
    def complete(self) -> bool:
        """Whether it is known how the step ends."""
        return self.guard is not None or self.result is not None

    def ends(self) -> Iterator[Step]:
        """The last steps of all paths from here."""
        stack = [self]
        while stack:
            step = stack.pop()
            if step.result is not None:
                yield step
            stack += step.branches.values()

    def become(self, other: Step) -> None:
        """Be another step from now on, with all that follows it."""
        self.__dict__.update(other.__dict__)

    @property
    def pinned(self) -> int:
        """The number among the inputs whose value the guard reads as it is; -1 if it is another."""
        guard = self.guard
        if isinstance(guard, NumberKey) and guard.formula.key[0] == "input" and not self.runs:
            return int(guard.formula.key[1])
        return -1

    def unpinned(self) -> tuple[Step, dict[int, object]]:
        """The step after guards that pin numbers to one value each, and these values."""
        step, values = self, {}
        while step.pinned >= 0 and len(step.branches) == 1:
            values[step.pinned] = step.values[0]
            (step,) = step.branches.values()
        return step, values

    @property
    def only_run(self) -> Run | None:
        """The run that computes everything, if the whole call is this step with one run.

        Not if it changes tensors in place.
        """
        result = self.result
        if result is None or len(self.runs) != 1 or result.rebound or result.moved:
            return None
        return self.runs[0]
