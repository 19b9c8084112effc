"""Capture: the recording of one real run of a gt.function, as a chain of steps.

Values are there, as in any run. The capture notes the source of every leaf, so that a replay finds
the leaf's value in its own call; every plan that runs; and every value that Python reads, which
becomes a guard and ends a step. What happens to random generators, variables and tensors is noted
by `captured_draws`, `captured_variables` and `captured_tensors`.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape.errors import InPlaceError
from gradtape.ir.derived import digest_of
from gradtape.ir.node import LEAF, PICK, Node, Params, outputs
from gradtape.ir.op import Op
from gradtape.ir.origin import user_line
from gradtape.ir.spec import Spec
from gradtape.ir.walk import topological
from gradtape.jit.capture.captured_state import CapturedDraws, CapturedTensors, CapturedVariables
from gradtape.jit.replay.sources import (
    ArgumentValue,
    Attribute,
    ComputedNode,
    ComputedNumber,
    Constant,
    Element,
    GuardSource,
    IndexDigest,
    MovedGenerator,
    NumberAsTensor,
    NumberKey,
    OutsideArray,
    OutsideTensor,
    RandomPosition,
    ValueSource,
    VariableValue,
    branch_key,
    value_of,
)
from gradtape.jit.replay.steps import PathStep, PlanRun
from gradtape.ops.custom.callback import is_effect
from gradtape.runtime.bound_plans import BoundPlan, bind
from gradtape.runtime.failures import Lines
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import Followed, NumberFormula, NumberGuards, read_all
from gradtape.trace.recording import Recording
from gradtape.trace.trace import next_number
from gradtape.trace.value import Content, Handle, LeafValue, Value, host_value

# Reasons why a run says nothing of the runs to come.
PASSED_TWICE = "a tensor that it changes is given twice, or is known to it otherwise"
MEANWHILE = "a callback or another thread uses its variables or generators meanwhile"


class _InPython(list[Any]):
    """A list of handles to which the native recorder does not append."""


class Capture(Recording):
    """The recording of a captured run."""

    @property
    def capturing(self) -> Capture:  # type: ignore[override]
        return self

    def __init__(
        self,
        fastmath: bool,
        outside_arrays: Container[int] = (),
        notes_lines: bool = False,
        is_frozen: bool = False,
    ) -> None:
        super().__init__()
        self.fastmath = fastmath
        self.is_frozen = is_frozen
        self.number = next_number()
        # The lines of leaves, by number, if they are noted: the native recorder does not do that.
        self._lines: dict[int, str] | None = {} if notes_lines else None
        if notes_lines:
            self.handles = _InPython(self.handles)
        # The ids of arrays that the function can reach by name, and those that entered the run.
        self.outside_arrays = outside_arrays
        self._arrays: dict[int, np.ndarray] = {}
        # What numbers among the arguments are called, by position.
        self.labels: dict[int, str] = {}
        self.number_guards = NumberGuards(self.guard_number)
        self.seconds_of_plans = 0.0
        # As if a tape were recording: nothing is cut, and a flush keeps the graph.
        self.active = 1
        self.tapes[id(self)] = True
        self.draws = CapturedDraws()
        self.variables = CapturedVariables()
        self.tensors = CapturedTensors()
        # Sources of leaves by number. Leaves without one are constants.
        self._sources: dict[int, ValueSource] = {}
        # Objects whose guards are known already. They are kept: no other may get their id.
        self._looked_at: dict[tuple[int, str], object] = {}
        # Handles on ops that may fail or call Python: they run even if nobody reads the result.
        self.deferred: list[Handle] = []
        # Values of ops that were tried at once, and of their inputs.
        self._checked: dict[Node, Value] = {}
        # How and where a value left for Python in a way that no guard can follow; and whether the
        # user meant it, as for a print.
        self.escaped: tuple[str, str] | None = None
        self.meant = False
        # Whether an op failed on its line: the rest of the run is not a path for other calls.
        self.failed = False
        # Whether a plan failed otherwise: in Python the error comes where the value is read.
        self.broken = False
        # Whether an op that ran may fail, or calls Python.
        self.fallible = False
        # Whether a value has no source that a replay finds.
        self.incomplete = False
        # The nodes whose values the plans of the run compute: a replay knows no others.
        self.given: set[Node] = set()
        # The chain of steps, and the one that is being recorded.
        self.root = self.step = PathStep()

    @property
    def unrepeatable(self) -> str | None:
        """Why this run says nothing of the runs to come, if it does not."""
        if self.tensors.shares_argument:
            return PASSED_TWICE
        return MEANWHILE if self.draws.disturbed or self.variables.disturbed else None

    def application(self, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """A node; numbers in its params are structure, so their values are guarded."""
        return super().application(op, inputs, read_all(params) if params else params)

    # Leaves, and the sources of their values.

    def argument(self, position: int, value: Value, kind: type[Handle], original: object) -> Handle:
        """The stand-in for a tensor among the arguments."""
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = ArgumentValue(position)
        handle = kind(node, self, value)
        self.tensors.add_stand_in(position, handle, original)
        return handle

    def add_leaf(self, value: LeafValue, of: Spec) -> Node:
        """One more leaf with this value."""
        node = super().add_leaf(value, of)
        if self._lines is not None:
            self._lines[node.params[0]] = user_line()
        return node

    def line_of(self, leaf: int | None) -> str:
        """The line that recorded a leaf; "" if it is not known."""
        return "" if leaf is None or self._lines is None else self._lines.get(leaf, "")

    def add_number(self, number: Followed, of: Spec) -> Node:
        """The leaf of a number that a replay computes from its arguments."""
        node = self.add_leaf(number.plain, of)
        self._sources[node.params[0]] = ComputedNumber(number.formula)
        return node

    def note_array(self, array: np.ndarray, value: Value) -> None:
        """An array enters the program whole."""
        if id(array) in self.outside_arrays:
            self._arrays[id(value)] = array

    def entered_arrays(self) -> set[int]:
        """The ids of arrays from outside that entered the program whole."""
        return {id(array) for array in self._arrays.values()}

    def enter_handle(self, handle: Handle) -> Node:
        """The leaf of a tensor from outside, which may be changed in place between calls."""
        changed = self.tensors.changed_stand_in(handle)
        if changed is not None:
            # The caller's own tensor, which the function has changed as an argument.
            return changed.enter(self)
        node = self.enter_value(value_of(handle))
        known = self._sources.get(node.params[0])
        if known is None or (isinstance(known, OutsideTensor) and known.handle() is None):
            self._sources[node.params[0]] = OutsideTensor.of(handle)
        return node

    def enter_variable(self, variable: Variable, handle: Tensor) -> Node:
        """The leaf of a variable as it was before the run: a replay reads the variable."""
        node, is_outside = self.variables.enter(variable, handle, self)
        if is_outside:
            self._sources[node.params[0]] = VariableValue(variable)
        return node

    def enter_positions(self, generator: MovedGenerator, positions: np.ndarray) -> Node:
        """The leaf of one or many positions of random numbers: a replay has its own."""
        value = host_value(positions)
        node = self.add_leaf(value, value.spec)
        if self.is_outside(generator):
            self._sources[node.params[0]] = self.draws.position(generator, value.array)
        return node

    def draw(self, generator: MovedGenerator, position: np.ndarray) -> Tensor:
        """A tensor of the position of a draw."""
        return self.hold(self.enter_positions(generator, position), Tensor)

    def is_outside(self, generator: MovedGenerator) -> bool:
        """Whether a generator was made before the run."""
        return generator.number < self.number

    def source(self, node: Node) -> ValueSource:
        """The source of the value of a node."""
        if node.op is not LEAF:
            return ComputedNode(node)
        found = self._source_of_leaf(node.params[0])
        return (
            NumberAsTensor(found.formula, node.dtype)
            if isinstance(found, ComputedNumber)
            else found
        )

    def _source_of_leaf(self, ordinal: int) -> ValueSource:
        found = self._sources.get(ordinal)
        if found is not None:
            return found
        value = self.leaves[ordinal]
        array = self._arrays.get(id(value))
        return Constant(value) if array is None else OutsideArray(array, value.spec)

    # Computing.

    def compute_at_once(self, handle: Handle) -> None:
        """Try an op that may fail, so that it fails on its line; replays run it with all others.

        Pure callbacks, which are called as rarely as possible, are not tried.
        """
        node = handle.node
        applied = node.inputs[0] if node.op is PICK else node
        was_broken = self.broken
        try:
            if is_effect(applied):
                # Python's effects happen once, and in this order.
                compute_handle(handle)
            elif not applied.op.calls_python:
                self._check(applied)
        except BaseException:
            self.failed, self.broken = True, was_broken
            raise
        self.deferred.append(handle)

    def _check(self, node: Node) -> None:
        """Compute a node to see whether it fails."""
        results = outputs(node) if type(node.spec) is tuple else (node,)
        # The inputs are kept, too: the next op to be tried may read them.
        wanted = [
            each
            for each in dict.fromkeys((*node.inputs, *results))
            if each.op is not LEAF
            and type(each.spec) is not tuple
            and each not in self.values
            and each not in self._checked
        ]
        if wanted:
            bound = bind(self, wanted, self._checked.keys())
            found = zip(bound.outputs, bound.run(self, self._checked), strict=True)
            self._checked.update((each, Value(content, each.spec)) for each, content in found)

    def unused(self, wanted: Sequence[Handle]) -> list[Handle]:
        """Handles on deferred ops that a flush of the wanted handles would not compute."""
        self.tensors.held(wanted)
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

    def run(self, bound: BoundPlan) -> dict[Node, Content]:
        """Run a plan of this recording, and note it as a part of the step."""
        start = time.perf_counter()
        try:
            found = dict(zip(bound.outputs, bound.run(self), strict=True))
        except Exception:
            self.broken = True
            raise
        self.seconds_of_plans += time.perf_counter() - start
        self.fallible = self.fallible or bound.fallible is not None
        if not self.failed:
            sources: dict[int, ValueSource] = {}
            inputs: list[ValueSource] = []
            for binding in bound.bindings:
                if isinstance(binding, Node):
                    inputs.append(self.source(binding))
                else:
                    inputs.append(self._source_of_leaf(binding))
                    sources[binding] = inputs[-1]
            fallible = bound.fallible
            lines = None if fallible is None else Lines(fallible, self.lines)
            effects: tuple[Node, ...] = ()
            if bound.fallible is not None:
                effects = tuple(node for node in bound.plan.program.nodes if is_effect(node))
            self._check_given(inputs)
            run = PlanRun(bound.plan, tuple(inputs), bound.outputs, lines, effects)
            self.step.runs.append(run)
            self.step.sources.update(sources)
            self.given.update(bound.outputs)
        return found

    def _check_given(self, sources: Iterable[ValueSource]) -> None:
        """A replay of this path has to have these values."""
        if any(isinstance(each, ComputedNode) and each.node not in self.given for each in sources):
            self.incomplete = True

    # Guards.

    def decide(self, handle: Handle, kind: type, name: str) -> Any:
        """Python asks for a tensor's only element, and goes on as it is: a guard."""
        node = handle.enter(self)
        compute_handle(handle)
        value = kind(value_of(handle).array.reshape(())[()])
        if handle.recording is not self and handle in self.tensors.made:
            return value
        guard = Element(self.source(node), node, kind)
        self._branch(guard, f"{name}() of a tensor", value)
        return value

    def guard_outside(self, handle: Handle) -> None:
        """Python reads the value of a tensor: a guard if the tensor is from outside."""
        if handle in self.tensors.made:
            return
        node, value = handle.enter(self), handle.computed
        source = self.source(node)
        if isinstance(source, OutsideTensor) and (id(value), "value") not in self._looked_at:
            self._looked_at[(id(value), "value")] = value
            self._branch(source, "a tensor from outside", value)

    def guard_number(self, formula: NumberFormula, value: object) -> None:
        """Python reads a number among the arguments, or a comparison of it: a guard."""
        guard = NumberKey(formula)
        self._branch(guard, self.number_label(formula), value)

    def number_label(self, formula: NumberFormula) -> str:
        """What the user calls the arguments that a number is computed from."""
        labels = [self.labels.get(each, "a number") for each in formula.inputs()]
        return ", ".join(dict.fromkeys(labels)) or "a number"

    def guard_state(self, thing: object, name: str, label: str) -> Any:
        """Python reads an attribute that is known to change: a guard."""
        value = getattr(thing, name)
        if (id(thing), name) not in self._looked_at:
            self._looked_at[(id(thing), name)] = thing
            self._branch(Attribute(thing, name), label, value)
        return value

    def _branch(self, guard: GuardSource, label: str, value: object) -> None:
        """End the step with a guard, and go on with the step that its value chooses."""
        if self.failed or self.closed:
            return
        self._end_draws()
        if isinstance(guard, Element):
            self._check_given([guard.source])
        step = self.step
        step.guard, step.label, step.line = guard, label, user_line()
        step.values.append(value)
        self.step = step.branches[branch_key(value)] = PathStep()

    def _end_draws(self) -> None:
        self.step.draws = self.draws.end_step()

    def steps(self) -> Iterator[PathStep]:
        """The steps of the run, in order."""
        step: PathStep | None = self.root
        while step is not None:
            yield step
            step = next(iter(step.branches.values()), None)

    def escape(self, what: str = "a value leaves for Python", meant: bool = False) -> None:
        """A value leaves for Python, and may come back in ways that are not recorded.

        Nobody is warned where that is `meant` to happen at every call, as for a print.
        """
        if self.escaped is None:
            self.escaped = (what, user_line())
            self.meant = meant

    def note_text(self) -> None:
        """A tensor is written as text."""
        if not self.is_frozen:
            self.escape("the text of a tensor leaves for Python")

    def contents(self, leaf: Node) -> np.ndarray | None:
        """The value of a leaf on which a proof or a sparsity pattern depends: a guard."""
        found, source = super().contents(leaf), self.source(leaf)
        if isinstance(source, RandomPosition):
            self.escape("a proof or a sparsity pattern depends on random numbers")
        elif not isinstance(source, Constant) and (id(leaf), "contents") not in self._looked_at:
            self._looked_at[(id(leaf), "contents")] = leaf
            digest = None if found is None else digest_of(found)
            self._branch(IndexDigest(source), "the contents of an index", digest)
        return found

    # State.

    def assign(self, variable: Variable, before: Tensor, handle: Tensor) -> None:
        """A variable was assigned."""
        self.variables.assign(variable, before, handle)

    def make(self, thing: object) -> None:
        """A variable or a generator was made."""
        self.variables.made.add(thing)

    def own(self, handle: Handle) -> None:
        """A tensor of host memory was made."""
        self.tensors.made.add(handle)

    def rebinding(self, handle: Handle, new: Handle) -> None:
        """A tensor is about to be changed in place."""
        try:
            self.tensors.rebinding(handle, new, self)
        except InPlaceError:
            self.broken = True
            raise

    def finish(self) -> None:
        """The function has returned."""
        self._end_draws()
        self.number_guards.add = None
        self.variables.compare_all()

    def undo(self) -> bool:
        """Leave everything outside as it was; False if others have drawn random numbers."""
        self.draws.end_step()
        self.variables.undo()
        self.tensors.undo()
        return self.draws.undo()
