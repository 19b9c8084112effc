"""Capture: the recording of one real run of a gt.function, as a chain of steps.

Values are there, as in any run. The capture notes the source of every leaf, so that a replay finds
the leaf's value in its own call; every plan that runs; and every value that Python reads, which
becomes a guard and ends a step.

A replay draws as many blocks at each step as the captured run did, and finds the position of each
random number as an offset from the generator's counter at that draw. It reads a variable when it
begins and assigns it when it ends. That repeats the captured run only if nothing else assigned the
variable during the run, so every read of a variable is compared with the latest one. The run may
change its stand-in arguments in place, and tensors from outside, too; a replay then does the same.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.errors import InPlaceError
from gradtape.ir.derived import digest_of
from gradtape.ir.node import LEAF, PICK, Node, Params, outputs
from gradtape.ir.op import Op
from gradtape.ir.origin import user_line
from gradtape.ir.spec import Spec
from gradtape.ir.walk import topological
from gradtape.jit.replay import steps as replay
from gradtape.ops.custom.callback import is_effect
from gradtape.runtime.bound_plans import BoundPlan, bind
from gradtape.runtime.error_lines import Lines
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import (
    Followed,
    NumberFormula,
    NumberGuards,
    read_all,
)
from gradtape.trace.recording import Recording
from gradtape.trace.trace import next_number
from gradtape.trace.value import Content, Handle, LeafValue, Value, host_value

VIEW_CHANGED = "a tensor that was made by indexing or viewing another is changed in place"

Reference = Callable[[], Handle | None]
# The meaning of a handle.
_Meaning = tuple[Node | None, Recording | None, Value | None]


class _Made:
    """Objects that the run has made, by weak references."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[object]] = {}

    def add(self, thing: object) -> None:
        self._references[id(thing)] = weakref.ref(thing)

    def __contains__(self, thing: object) -> bool:
        found = self._references.get(id(thing))
        return found is not None and found() is thing

    def alive(self) -> list[object]:
        """The objects that are still held."""
        found = [reference() for reference in self._references.values()]
        return [thing for thing in found if thing is not None]


class CapturedDraws:
    """Notes where generators were moved by a captured run."""

    def __init__(self) -> None:
        # The number of draws in earlier steps. In this step, for each generator: the number of its
        # draw, and the counter before. In the whole run: the counter before, None if there is no
        # way back, and after.
        self._before = 0
        self._in_step: dict[replay.MovedGenerator, tuple[int, int]] = {}
        self._whole: dict[replay.MovedGenerator, tuple[int | None, int]] = {}
        # Whether others have drawn from the same generator during the run.
        self.disturbed = False

    def __bool__(self) -> bool:
        return bool(self._whole)

    def drew(self, generator: replay.MovedGenerator, start: int, stop: int) -> None:
        """The run has moved a generator from `start` to `stop`."""
        first, latest = self._whole.get(generator, (start, start))
        if latest != start:
            first = None
            # Two draws with others in between cannot be replayed as one.
            self.disturbed = self.disturbed or generator in self._in_step
        self._in_step.setdefault(generator, (self._before + len(self._in_step), start))
        self._whole[generator] = first, stop

    def drew_again(
        self, generator: replay.MovedGenerator, start: int, width: int, stop: int
    ) -> None:
        """The draw of `width` blocks from `start` on was repeated, up to `stop`."""
        first, latest = self._whole[generator]
        if latest != start + width:
            self.disturbed, first = True, None
        self._whole[generator] = first, stop

    def gave_back(self, generator: replay.MovedGenerator, start: int) -> None:
        """A generator was moved back to `start`: the numbers after it will be drawn again."""
        self._whole[generator] = self._whole[generator][0], start

    def position(
        self, generator: replay.MovedGenerator, positions: np.ndarray
    ) -> replay.RandomPosition:
        """The source of one or many positions of random numbers drawn in this step."""
        draw, start = self._in_step[generator]
        # Counters have two words, more than NumPy's integers hold.
        counters = positions[..., 2:].astype(object)
        offsets = counters[..., 0] + counters[..., 1] * 2**64 - start
        single = not isinstance(offsets, np.ndarray)
        return replay.RandomPosition(
            draw, int(offsets) if single else host_value(offsets.astype(np.uint64))
        )

    def end_step(self) -> list[tuple[replay.MovedGenerator, int]]:
        """Begin another step; returns the draws of the one that ends, with the blocks of each."""
        draws = [(each, self._whole[each][1] - start) for each, (_, start) in self._in_step.items()]
        self._before += len(draws)
        self._in_step = {}
        return draws

    def undo(self) -> None:
        """Move all generators back from which others have not drawn meanwhile."""
        for generator, (start, stop) in self._whole.items():
            if start is not None:
                generator.rewind(start, stop)


class CapturedVariables:
    """Notes how a captured run uses variables."""

    def __init__(self) -> None:
        # Variables that were assigned, with what each held before the run; and those read.
        self.assigned: dict[Variable, Tensor] = {}
        self.read: dict[Variable, None] = {}
        # The content of each variable, as far as the run has seen it.
        self._latest: dict[Variable, Handle | Value] = {}
        # Leaves by the ids of variable and value.
        self._leaves: dict[tuple[int, int], Node] = {}
        # Variables and generators that the run made: state only if they outlive it.
        self.made = _Made()
        # Whether a variable was assigned elsewhere during the run.
        self.disturbed = False

    def enter(self, variable: Variable, handle: Tensor, recording: Recording) -> tuple[Node, bool]:
        """The leaf of the value of a variable; and whether later calls read the variable for it.

        The leaf is the variable's own: a tensor may hold the same value, and does not follow the
        variable.
        """
        value = replay.value_of(handle)
        is_outside = variable not in self.made
        if is_outside:
            self._compare(variable, handle)
            self._latest[variable] = value
            self.read[variable] = None
        key = (id(variable), id(value))
        node = self._leaves.get(key)
        if node is None:
            node = self._leaves[key] = recording.add_leaf(value, value.spec)
        return node, is_outside

    def assign(self, variable: Variable, before: Tensor, handle: Tensor) -> None:
        """A variable was assigned; later calls assign it at their end."""
        if variable not in self.made:
            self._compare(variable, before)
            self.assigned.setdefault(variable, before)
            self._latest[variable] = handle

    def last_assigned(self, recording: Recording) -> list[tuple[Variable, Node]]:
        """The variables assigned, with the node that each was given last."""
        latest = [(variable, self._latest[variable]) for variable in self.assigned]
        return [
            (variable, handle.node)
            for variable, handle in latest
            if isinstance(handle, Handle) and handle.recording is recording
        ]

    def _compare(self, variable: Variable, handle: Handle) -> None:
        """Compare what a variable holds with what it was last seen or assigned to hold."""
        latest = self._latest.get(variable)
        if latest is not None and latest is not handle and latest is not handle.computed:
            self.disturbed = True

    def compare_all(self) -> None:
        """Notice assignments by other threads to variables that were read or assigned here."""
        for variable in self._latest:
            self._compare(variable, variable._handle)

    def known(self) -> list[Handle | Value]:
        """Handles that variables hold, for captures of other threads."""
        return list(self._latest.values())

    def undo(self) -> None:
        """Let variables hold again what they held before the run."""
        for variable, handle in self.assigned.items():
            variable.restore(handle, self._latest[variable])


def is_view(thing: object) -> bool:
    """Whether something is a tensor that refuses to be changed in place."""
    return type(thing) is getattr(thing, "view_class", None)


class _StandIn(NamedTuple):
    """A stand-in argument: its input, a reference to its tensor, and what the caller passed."""

    position: int
    handle: Reference
    original: object


class CapturedTensors:
    """Notes the tensors that a captured run was given, made and changed in place."""

    def __init__(self) -> None:
        # Stand-ins by the id of their handle, and by the id of what the caller passed.
        self._stand_ins: dict[int, _StandIn] = {}
        self._originals: dict[int, list[_StandIn]] = {}
        # Stand-ins that were changed in place, by position.
        self.changed_arguments: dict[int, Handle] = {}
        # Tensors from outside that were changed in place, with what they were before.
        self._rebound: dict[int, tuple[Reference, _Meaning]] = {}
        # Tensors of host memory that the run made; tensors that were held when a plan ran.
        self.made = _Made()
        self._computed = _Made()
        # Whether a tensor that is changed was passed twice, or is known to the function otherwise.
        self.shares_argument = False

    # Stand-in arguments.

    def add_stand_in(self, position: int, handle: Handle, original: object) -> None:
        """The run gets this tensor for an input; a tensor that is passed twice gets two."""
        stand_in = _StandIn(position, weakref.ref(handle), original)
        self._stand_ins[id(handle)] = stand_in
        self._originals.setdefault(id(original), []).append(stand_in)

    def position(self, handle: Handle) -> int | None:
        """The input that a tensor stands for."""
        stand_in = self._stand_in(handle)
        return None if stand_in is None else stand_in.position

    def _stand_in(self, handle: Handle) -> _StandIn | None:
        found = self._stand_ins.get(id(handle))
        return found if found is not None and found.handle() is handle else None

    def changed_stand_in(self, original: Handle) -> Handle | None:
        """The stand-in for a caller's tensor that was changed in place, if it was."""
        if self.changed_arguments:
            for stand_in in self._originals.get(id(original), ()):
                if stand_in.position in self.changed_arguments:
                    self.shares_argument = True
                    return self.changed_arguments[stand_in.position]
        return None

    # In-place changes.

    def rebinding(self, handle: Handle, new: Handle, recording: Recording) -> None:
        """A tensor is about to be changed in place, which all its holders will see."""
        stand_in = self._stand_in(handle)
        if stand_in is None:
            if handle.recording is not recording and handle not in self.made:
                before = (handle.node, handle.recording, handle.computed)
                self._rebound.setdefault(id(handle), (weakref.ref(handle), before))
            return
        original = stand_in.original
        if is_view(original):
            raise InPlaceError(VIEW_CHANGED)
        self.changed_arguments[stand_in.position] = handle
        if isinstance(original, Handle) and original.computed is not None:
            # The function may also have the caller's tensor: let it be entered again.
            original.computed.entry = (0, None)
        self._rebind_others(original, handle, new)

    def _rebind_others(self, original: object, handle: Handle, new: Handle) -> None:
        """The caller has passed one tensor in several places: all stand-ins are changed."""
        for stand_in in self._originals[id(original)]:
            other = stand_in.handle()
            if other is not None and other is not handle:
                self.shares_argument = True
                self.changed_arguments[stand_in.position] = other
                other.node, other.recording, other.computed = new.node, new.recording, new.computed
                if other.computed is None and other.recording is not None:
                    other.recording.handles.append(other)

    def is_rebound(self, handle: Handle) -> bool:
        """Whether a tensor is from outside and was changed in place."""
        found = self._rebound.get(id(handle))
        return found is not None and found[0]() is handle

    def rebound(self, recording: Recording) -> list[tuple[Reference, Node]]:
        """Tensors from outside that now stand for nodes of the run."""
        found = [(reference, reference()) for reference, _ in self._rebound.values()]
        return [
            (reference, handle.node)
            for reference, handle in found
            if handle is not None and handle.recording is recording
        ]

    def undo(self) -> None:
        """Let tensors from outside be what they were before the run."""
        for reference, before in self._rebound.values():
            handle = reference()
            if handle is not None:
                handle.node, handle.recording, handle.computed = before

    # Tensors that may outlive the run.

    def held(self, handles: Iterable[Handle]) -> None:
        """These tensors were held when a plan ran."""
        for handle in handles:
            self._computed.add(handle)

    def leaked(self, stand_ins: Sequence[Reference], known: Sequence[object]) -> bool:
        """Whether a tensor of the run is still held that is not among the known ones."""
        expected = {id(handle) for handle in known}
        expected.update(id(reference()) for reference, _ in self._rebound.values())
        passed = [each for reference in stand_ins if (each := reference()) is not None]
        alive = (*self._computed.alive(), *self.made.alive(), *passed)
        return any(id(handle) not in expected for handle in alive)


# Reasons why a run does not predict later runs.
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
        # The names of numbers among the arguments, by position.
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
        self._sources: dict[int, replay.ValueSource] = {}
        # Objects whose guards are known already. They are kept: no other may get their id.
        self._guarded: dict[tuple[int, str], object] = {}
        # Handles on ops that may fail or call Python: they run even if the result has no reader.
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
        # The nodes whose values the plans of the run compute: a replay has no others.
        self.given: set[Node] = set()
        # The chain of steps, and the one that is being recorded.
        self.root = self.step = replay.PathStep()

    @property
    def unrepeatable(self) -> str | None:
        """The reason why this run does not predict later runs, if there is one."""
        if self.tensors.shares_argument:
            return PASSED_TWICE
        return MEANWHILE if self.draws.disturbed or self.variables.disturbed else None

    def application(self, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """A node; numbers in its params are structure, so their values are guarded."""
        return super().application(op, inputs, read_all(params) if params else params)

    def argument(self, position: int, value: Value, kind: type[Handle], original: object) -> Handle:
        """The stand-in for a tensor among the arguments."""
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = replay.ArgumentValue(position)
        handle = kind(node, self, value)
        self.tensors.add_stand_in(position, handle, original)
        return handle

    def add_leaf(self, value: LeafValue, of: Spec) -> Node:
        return self._on_line(super().add_leaf(value, of))

    def enter_value(self, value: Value) -> Node:
        return self._on_line(super().enter_value(value))

    def _on_line(self, leaf: Node) -> Node:
        if self._lines is not None:
            self._lines.setdefault(leaf.params[0], user_line())
        return leaf

    def line_of(self, leaf: int | None) -> str:
        """The line that recorded a leaf; "" if it is not known."""
        return "" if leaf is None or self._lines is None else self._lines.get(leaf, "")

    def add_number(self, number: Followed, of: Spec) -> Node:
        """The leaf of a number that a replay computes from its arguments."""
        node = self.add_leaf(number.plain, of)
        self._sources[node.params[0]] = replay.ComputedNumber(number.formula)
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
        node = self.enter_value(replay.value_of(handle))
        known = self._sources.get(node.params[0])
        if known is None or (isinstance(known, replay.OutsideTensor) and known.handle() is None):
            self._sources[node.params[0]] = replay.OutsideTensor.of(handle)
        return node

    def enter_variable(self, variable: Variable, handle: Tensor) -> Node:
        """The leaf of a variable as it was before the run: a replay reads the variable."""
        node, is_outside = self.variables.enter(variable, handle, self)
        if is_outside:
            self._sources[node.params[0]] = replay.VariableValue(variable)
        return node

    def enter_positions(self, generator: replay.MovedGenerator, positions: np.ndarray) -> Node:
        """The leaf of one or many positions of random numbers: a replay has its own."""
        value = host_value(positions)
        node = self.add_leaf(value, value.spec)
        if self.is_outside(generator):
            self._sources[node.params[0]] = self.draws.position(generator, value.array)
        return node

    def draw(self, generator: replay.MovedGenerator, position: np.ndarray) -> Tensor:
        """A tensor of the position of a draw."""
        return self.hold(self.enter_positions(generator, position), Tensor)

    def is_outside(self, generator: replay.MovedGenerator) -> bool:
        """Whether a generator was made before the run."""
        return generator.number < self.number

    def source(self, node: Node) -> replay.ValueSource:
        """The source of the value of a node."""
        if node.op is not LEAF:
            return replay.ComputedNode(node)
        found = self._source_of_leaf(node.params[0])
        if isinstance(found, replay.ComputedNumber):
            return replay.NumberAsTensor(found.formula, node.dtype)
        return found

    def _source_of_leaf(self, ordinal: int) -> replay.ValueSource:
        found = self._sources.get(ordinal)
        if found is not None:
            return found
        value = self.leaves[ordinal]
        array = self._arrays.get(id(value))
        return replay.Constant(value) if array is None else replay.OutsideArray(array, value.spec)

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
        if self.failed:
            return found
        inputs: list[replay.ValueSource] = []
        for binding in bound.bindings:
            if isinstance(binding, Node):
                inputs.append(self.source(binding))
            else:
                inputs.append(self._source_of_leaf(binding))
                self.step.sources[binding] = inputs[-1]
        lines, effects = None, tuple[Node, ...]()
        if bound.fallible is not None:
            lines = Lines(bound.fallible, self.lines)
            effects = tuple(filter(is_effect, bound.plan.program.nodes))
        self._check_given(inputs)
        run = replay.PlanRun(bound.plan, tuple(inputs), bound.outputs, lines, effects)
        self.step.runs.append(run)
        self.given.update(bound.outputs)
        return found

    def _check_given(self, sources: Iterable[replay.ValueSource]) -> None:
        """A replay of this path has to have these values."""
        if any(
            isinstance(each, replay.ComputedNode) and each.node not in self.given
            for each in sources
        ):
            self.incomplete = True

    # Guards.

    def decide(self, handle: Handle, kind: type, name: str) -> Any:
        """Python reads a tensor's only element, and goes on as it is: a guard."""
        node = handle.enter(self)
        compute_handle(handle)
        value = kind(replay.value_of(handle).array.reshape(())[()])
        if handle.recording is not self and handle in self.tensors.made:
            return value
        guard = replay.Element(self.source(node), node, kind)
        self._branch(guard, f"{name}() of a tensor", value)
        return value

    def guard_outside(self, handle: Handle) -> None:
        """Python reads the value of a tensor: a guard if the tensor is from outside."""
        if handle in self.tensors.made:
            return
        node, value = handle.enter(self), handle.computed
        source = self.source(node)
        if isinstance(source, replay.OutsideTensor):
            self._branch(source, "a tensor from outside", value, (value, "value"))

    def guard_number(self, formula: NumberFormula, value: object) -> None:
        """Python reads a number among the arguments, or a comparison of it: a guard."""
        labels = [self.labels.get(each, "a number") for each in formula.inputs()]
        label = ", ".join(dict.fromkeys(labels)) or "a number"
        self._branch(replay.NumberKey(formula), label, value)

    def guard_state(self, thing: object, name: str, label: str) -> Any:
        """Python reads an attribute that is known to change: a guard."""
        value = getattr(thing, name)
        self._branch(replay.Attribute(thing, name), label, value, (thing, name))
        return value

    def _branch(
        self,
        guard: replay.GuardSource,
        label: str,
        value: object,
        once: tuple[object, str] | None = None,
    ) -> None:
        """End the step with a guard, and go on with the step that its value chooses.

        An object and a name, `once`, have one guard only.
        """
        if once is not None:
            key = id(once[0]), once[1]
            if self._guarded.setdefault(key, once) is not once:
                return
        if self.failed or self.closed:
            return
        if isinstance(guard, replay.Element):
            self._check_given([guard.source])
        step = self.step
        step.draws = self.draws.end_step()
        step.guard, step.label, step.line = guard, label, user_line()
        step.values.append(value)
        self.step = step.branches[replay.branch_key(value)] = replay.PathStep()

    def steps(self) -> Iterator[replay.PathStep]:
        """The steps of the run, in order."""
        step: replay.PathStep | None = self.root
        while step is not None:
            yield step
            step = next(iter(step.branches.values()), None)

    def escape(self, what: str = "a value leaves for Python", meant: bool = False) -> None:
        """A value leaves for Python, and may come back in ways that are not recorded.

        No warning is issued where that is `meant` to happen at every call, as for a print.
        """
        if self.escaped is None:
            self.escaped = (what, user_line())
            self.meant = meant

    def contents(self, leaf: Node) -> np.ndarray | None:
        """The value of a leaf on which a proof or a sparsity pattern depends: a guard."""
        found, source = super().contents(leaf), self.source(leaf)
        if isinstance(source, replay.RandomPosition):
            self.escape("a proof or a sparsity pattern depends on random numbers")
        elif not isinstance(source, replay.Constant):
            digest = None if found is None else digest_of(found)
            guard = replay.IndexDigest(source)
            self._branch(guard, "the contents of an index", digest, (leaf, "contents"))
        return found

    # State.

    def rebinding(self, handle: Handle, new: Handle) -> None:
        """A tensor is about to be changed in place."""
        try:
            self.tensors.rebinding(handle, new, self)
        except InPlaceError:
            self.broken = True
            raise

    def finish(self) -> None:
        """The function has returned."""
        self.step.draws = self.draws.end_step()
        self.number_guards.add = None
        self.variables.compare_all()

    def undo(self) -> None:
        """Leave everything outside as it was."""
        self.variables.undo()
        self.tensors.undo()
        self.draws.undo()
