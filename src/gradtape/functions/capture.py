"""Capture: one real run of a function, kept as compiled steps that later calls run without Python.

A value that was not seen before makes the function run in Python once more, from the top, and the
tree of steps (see gradtape.functions.steps) grows by the path that it took.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.errors import InPlaceError
from gradtape.evaluate.bound_plans import bind
from gradtape.evaluate.failures import Lines
from gradtape.evaluate.flush import compute_handle
from gradtape.functions.steps import (
    Argument,
    Computed,
    Constant,
    Held,
    Number,
    Outside,
    Position,
    Run,
    Scalar,
    Source,
    Step,
    branch_key,
)
from gradtape.graph.lines import user_line
from gradtape.graph.node import LEAF, PICK, Node, outputs
from gradtape.graph.program import program
from gradtape.graph.walk import topological
from gradtape.ops.custom.callback import is_effect
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.handle import Handle
from gradtape.recording.recording import Recording
from gradtape.recording.trace import next_number
from gradtape.recording.value import Value, host_value
from gradtape.tensor.tensor import Tensor

# Why a run is unlike others.
GIVEN_TWICE = "a tensor that it changes is given twice, or is known to it otherwise"
MEANWHILE = "a callback or another thread uses its variables or generators meanwhile"

VIEW_GIVEN = "a tensor that was made by indexing or viewing another is changed in place"


def is_view(thing: Any) -> bool:
    """Whether something is a tensor that refuses to be changed in place."""
    return type(thing) is getattr(thing, "view_class", None)


class Capture(Recording):
    """The recording of a real run: values are there, and every look at one is noted."""

    __slots__ = (
        "_checked",
        "_draws",
        "_given",
        "_held",
        "_latest",
        "_listed",
        "_looked",
        "_made",
        "_own",
        "_rebound",
        "_same",
        "_sources",
        "_starts",
        "_touched",
        "assigned",
        "broken",
        "deferred",
        "escaped",
        "failed",
        "fallible",
        "fastmath",
        "fed",
        "inconsistent",
        "meant",
        "missed",
        "moved",
        "number",
        "step",
        "unlike",
        "variables",
    )

    capturing = True

    def __init__(self, root: Step, fed: Mapping[Node, Value], fastmath: bool) -> None:
        super().__init__()
        self.fastmath = fastmath
        self.number = next_number()
        # What a replay that led here has computed already.
        self.fed = fed
        # As if a tape were recording: nothing is cut, and a flush keeps the graph.
        self.active = 1
        self.tapes[id(self)] = True
        self._sources: dict[int, Source] = {}
        # Variables assigned, with what they held before, and those read; what each holds as far as
        # is known here.
        self.assigned: dict[Any, Handle] = {}
        self.variables: dict[Any, None] = {}
        self._latest: dict[Any, Any] = {}
        self._held: dict[tuple[int, int], Node] = {}
        self._looked: dict[tuple[int, str], Any] = {}
        # Arguments by the id of their handle; all that stand for one that the caller has, by the id
        # of that; those that were rebound, with the handle.
        self._given: dict[int, tuple[int, Any, Any]] = {}
        self._same: dict[int, list[tuple[int, Any]]] = {}
        self.moved: dict[int, Any] = {}
        # Tensors from outside that were rebound, with what they were; and those made here.
        self._rebound: dict[int, tuple[Any, tuple[Any, Any, Any]]] = {}
        self._own: dict[int, Any] = {}
        # Handles that somebody held when something was computed.
        self._listed: dict[int, Any] = {}
        # Variables and generators made here, which are nobody's state unless they outlive the call.
        self._made: dict[int, Any] = {}
        # How many draws came before this step; in it, their number and place; where all began.
        self._draws = 0
        self._touched: dict[Any, tuple[int, int, int]] = {}
        self._starts: dict[Any, tuple[int | None, int]] = {}
        # What may fail or calls Python, and is to run even if nothing reads its result.
        self.deferred: list[Handle] = []
        # Values of what was seen not to fail, and of what that was computed from.
        self._checked: dict[Node, Value] = dict(fed)
        # Where a value left for Python in a way that no guard can follow, and how.
        self.escaped: tuple[str, str] | None = None
        # Whether an op failed on its line: what follows is no path for other calls.
        self.failed = False
        # Whether something else that was computed failed: in Python it does so where it is read.
        self.broken = False
        # Whether what was computed may fail, or calls Python.
        self.fallible = False
        # Why this run is unlike those to come, which says nothing of them.
        self.unlike: str | None = None
        self.meant = False
        self.inconsistent = False
        # The guard that a call before had passed with other values.
        self.missed: Step | None = None
        self._arrive(root)

    # Leaves, by where a later call finds their values.

    def argument(self, position: int, value: Value, kind: type[Handle], original: Any) -> Any:
        """The tensor of an argument; one that is given twice is two arguments."""
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = Argument(position)
        handle = kind(node, self, value)
        self._given[id(handle)] = (position, weakref.ref(handle), original)
        self._same.setdefault(id(original), []).append((position, weakref.ref(handle)))
        return handle

    def add_number(self, number: Deferred, of: Any) -> Node:
        """The leaf of a number that a later call computes from its arguments."""
        node = self.add_leaf(number.value, of)
        self._sources[node.params[0]] = Number(number.compute)
        return node

    def place(self, handle: Handle) -> int | None:
        """Which input a tensor stands for."""
        given = self._given.get(id(handle))
        return given[0] if given is not None and given[1]() is handle else None

    def is_rebound(self, handle: Handle) -> bool:
        """Whether a tensor is from outside and was rebound here."""
        found = self._rebound.get(id(handle))
        return found is not None and found[0]() is handle

    def enter_handle(self, handle: Handle) -> Node:
        """The leaf of a tensor from outside, which may be rebound between calls."""
        if self.moved and id(handle) in self._same:
            # An argument, too, and it was changed as such.
            moved = [self.moved[at] for at, _ in self._same[id(handle)] if at in self.moved]
            if moved:
                self.unlike = GIVEN_TWICE
                return moved[0].enter(self)
        value = handle.computed
        node = self.enter_value(value)  # type: ignore[arg-type]
        known = self._sources.get(node.params[0])
        if known is None or (isinstance(known, Outside) and known.handle() is None):
            self._sources[node.params[0]] = Outside(weakref.ref(handle), value)
        return node

    def enter_variable(self, variable: Any, handle: Handle) -> Node:
        """The leaf of a variable that is read as it came in: later calls read what it holds then.

        Its own, because a tensor outside may hold the same value and will not follow the variable.
        """
        if handle.computed is None:
            compute_handle(handle)
        value: Any = handle.computed
        if not self._is_made_here(variable):
            self._compare(variable, handle)
            self._latest[variable] = value
        key = (id(variable), id(value))
        node = self._held.get(key)
        if node is None:
            node = self._held[key] = self.add_leaf(value, value.spec)
            if not self._is_made_here(variable):
                self.variables[variable] = None
                self._sources[node.params[0]] = Held(variable)
        return node

    def source(self, node: Node) -> Source:
        """Where a later call finds the value of a node."""
        if node.op is not LEAF:
            return Computed(node)
        found = self._source_of_leaf(node.params[0])
        return Scalar(found.compute, node.dtype) if isinstance(found, Number) else found

    def _source_of_leaf(self, ordinal: int) -> Source:
        found = self._sources.get(ordinal)
        return Constant(self.leaves[ordinal]) if found is None else found

    # Random numbers.

    def drew(self, generator: Any, start: int, stop: int) -> None:
        """A generator from outside was moved on by the function."""
        first, latest = self._starts.get(generator, (start, start))
        known = self._touched.get(generator)
        if latest != start:
            # Others have drawn in between: there is no way back, and two draws are not one.
            first = None
            if known is not None:
                self.unlike = MEANWHILE
        self._starts[generator] = (first, stop)
        number, place, _ = known or (self._draws + len(self._touched), start, stop)
        self._touched[generator] = (number, place, stop)

    def drew_again(self, generator: Any, start: int, width: int, stop: int) -> None:
        """What was drawn from `start` on was drawn many times, up to `stop`."""
        first, latest = self._starts[generator]
        if latest != start + width:
            self.unlike, first = MEANWHILE, None
        number, place, _ = self._touched[generator]
        self._starts[generator] = (first, stop)
        self._touched[generator] = (number, place, stop)

    def gave_back(self, generator: Any, start: int) -> None:
        """A generator was moved back to `start`: what was drawn since is to be drawn once more."""
        first, _ = self._starts[generator]
        number, place, _ = self._touched[generator]
        self._starts[generator] = (first, start)
        self._touched[generator] = (number, place, start)

    def is_outside(self, generator: Any) -> bool:
        """Whether a generator was there before, so that later calls find it where it is then."""
        return generator.number < self.number

    def enter_positions(self, generator: Any, positions: Any) -> Node:
        """The leaf of one or many random positions: a later call has others."""
        value = host_value(positions)
        node = self.add_leaf(value, value.spec)
        if self.is_outside(generator):
            draw, start, _ = self._touched[generator]
            counters = value.array[..., 2:].astype(object)
            offsets = counters[..., 0] + counters[..., 1] * 2**64 - start
            single = not isinstance(offsets, np.ndarray)
            self._sources[node.params[0]] = Position(
                draw, int(offsets) if single else offsets.astype(np.uint64)
            )
        return node

    def draw(self, generator: Any, position: Any) -> Any:
        """A tensor of the position of a draw."""
        return self.hold(self.enter_positions(generator, position), Tensor)

    def _end_draws(self) -> None:
        draws = [(gen, stop - start) for gen, (_, start, stop) in self._touched.items()]
        self._draws += len(draws)
        self._touched = {}
        if self._writes:
            self.step.draws = draws

    # Computing.

    def compute_at_once(self, handle: Handle) -> None:
        """An op that may fail does so on its line, but runs with all others in later calls.

        Pure callbacks, which are called as rarely as possible, are not tried.
        """
        node = handle.node
        applied = node.inputs[0] if node.op is PICK else node
        was_broken = self.broken
        try:
            if is_effect(applied):
                # What Python does there happens once, and in this order.
                compute_handle(handle)
            elif applied.op.family != "callback":
                self._check(applied)
        except BaseException:
            self.failed, self.broken = True, was_broken
            raise
        self.deferred.append(handle)

    def _check(self, node: Node) -> None:
        """Compute a node to see whether it fails."""
        results = outputs(node) if type(node.spec) is tuple else (node,)
        # What it reads is kept, too: the next one may go on from there.
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
            inputs = bound.inputs(self, self._checked)
            try:
                found = zip(bound.outputs, bound.plan.run(inputs), strict=True)
            except Exception as error:
                known = {*self.values, *self._checked}
                Lines(program(wanted, known), self.lines).explain(error, inputs)
                raise
            self._checked.update((each, Value(content, each.spec)) for each, content in found)

    def unused(self, wanted: Sequence[Handle]) -> list[Handle]:
        """Handles on what was deferred and would not be computed for the wanted ones."""
        self._listed.update((id(handle), weakref.ref(handle)) for handle in wanted)
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

    def run(self, schedule: Any) -> dict[Node, Any]:
        """Run a schedule of this recording, or take what the replay before had computed of it."""
        fed = self.fed
        if fed and all(node in fed for node in schedule.outputs):
            found = {node: fed[node].content for node in schedule.outputs}
        else:
            try:
                found = schedule.run(self)
            except Exception:
                self.broken = True
                raise
        self.fallible = self.fallible or schedule.fallible is not None
        if self._writes:
            inputs = tuple(
                self.source(binding) if isinstance(binding, Node) else self._source_of_leaf(binding)
                for binding in schedule.bindings
            )
            lines = Lines(schedule.fallible, self.lines) if schedule.fallible is not None else None
            self.step.runs.append(Run(schedule.plan, inputs, schedule.outputs, lines))
        return found

    @property
    def _writes(self) -> bool:
        """Whether what happens is news to the tree of steps, and may be entered there."""
        return not (self.step.complete or self.inconsistent or self.failed)

    # Looks at values.

    def decide(self, handle: Handle, kind: type, name: str) -> Any:
        """A look at a value that decides what Python does next."""
        node = handle.enter(self)
        compute_handle(handle)
        array = handle.computed.array  # type: ignore[union-attr]
        value = kind(array.reshape(())[()])
        if handle.recording is not self and self.is_own(handle):
            return value
        source, read = self.source(node), _reader(node, kind)
        self._branch(lambda call: read(source(call)), (node, name), f"{name}() of a tensor", value)
        return value

    def look(self, handle: Handle) -> None:
        """A look at a tensor from outside, which may be another one in later calls."""
        if self.is_own(handle):
            return
        node, value = handle.enter(self), handle.computed
        source = self.source(node)
        if isinstance(source, Outside) and (id(value), "value") not in self._looked:
            self._looked[(id(value), "value")] = value
            self._branch(source, (node, "value"), "a tensor from outside", value)

    def guard_number(self, compute: Callable[[Sequence[Any]], Any], value: Any, label: str) -> None:
        """The same for a number among the arguments, or what a comparison of it gave."""
        if type(value) in (float, complex):
            self._branch(lambda call: branch_key(compute(call.arguments)), "number", label, value)
        else:
            self._branch(lambda call: compute(call.arguments), "number", label, value)

    def guard_state(self, thing: Any, name: str, label: str) -> Any:
        """The same for an attribute of something in Python that is known to change."""
        value = getattr(thing, name)
        if (id(thing), name) not in self._looked:
            # The thing stays: while this runs nobody may take its place.
            self._looked[(id(thing), name)] = thing
            self._branch(lambda call: getattr(thing, name), label, label, value)
        return value

    def _branch(self, source: Source, looks_at: Any, label: str, value: Any) -> None:
        if self.inconsistent or self.failed or self.closed:
            return
        self._end_draws()
        step, key = self.step, branch_key(value)
        if not step.complete:
            step.guard, step.looks_at, step.label, step.line = source, looks_at, label, user_line()
        elif step.result is not None or step.looks_at != looks_at:
            self.inconsistent = True
            return
        elif key not in step.branches and self.missed is None:
            self.missed = step
        if key not in step.branches:
            step.values.append(value)
        self._arrive(step.branches.setdefault(key, Step()))

    def _arrive(self, step: Step) -> None:
        self.step = step
        if not step.complete:  # an error may have left it half-way
            step.runs, step.draws = [], []

    def escape(self, what: str = "a value leaves for Python", meant: bool = False) -> None:
        """A look at a value that may flow back in by ways that are not recorded.

        Where it is meant to happen at every call, as a print, nobody has to be told.
        """
        if self.escaped is None:
            self.escaped = (what, user_line())
            self.meant = meant

    # State.

    def assign(self, variable: Any, before: Handle, handle: Handle) -> None:
        """A variable was assigned; later calls do it at their end."""
        if not self._is_made_here(variable):
            self._compare(variable, before)
            self.assigned.setdefault(variable, before)
            self._latest[variable] = handle

    def last_assigned(self) -> list[tuple[Any, Node]]:
        """The variables assigned, with what each was given last, whatever others did since."""
        latest = [(variable, self._latest[variable]) for variable in self.assigned]
        return [(v, handle.node) for v, handle in latest if getattr(handle, "recording", 0) is self]

    def _compare(self, variable: Any, handle: Handle) -> None:
        """See whether a variable holds what it was last seen or assigned to hold."""
        latest = self._latest.get(variable)
        if latest is not None and latest is not handle and latest is not handle.computed:
            self.unlike = MEANWHILE

    def make(self, thing: Any) -> None:
        """A variable or generator was made here."""
        self._made[id(thing)] = weakref.ref(thing)

    def _is_made_here(self, thing: Any) -> bool:
        found = self._made.get(id(thing))
        return found is not None and found() is thing

    def lasting(self) -> list[Any]:
        """What was made here and is still there."""
        self.unassigned = set()
        return [thing for ref in self._made.values() if (thing := ref()) is not None]

    def own(self, handle: Handle) -> None:
        """A tensor of host memory was made here, so that it is nobody's outside."""
        self._own[id(handle)] = weakref.ref(handle)

    def is_own(self, handle: Handle) -> bool:
        """Whether a tensor of host memory was made here."""
        own = self._own.get(id(handle))
        return own is not None and own() is handle

    def known(self) -> list[Any]:
        """Tensors that are held outside as later calls will have it, too."""
        rebound = [reference() for reference, _ in self._rebound.values()]
        # What a variable was given here may be known to captures of other threads by now.
        return [*rebound, *self._latest.values()]

    def outside(self) -> list[Any]:
        """Tensors from outside that were read, as far as they are still there."""
        found = [each.handle() for each in self._sources.values() if isinstance(each, Outside)]
        return [handle for handle in found if handle is not None]

    def leaked(self, more: Sequence[Any], known: Sequence[Any]) -> bool:
        """Whether a tensor that was made here, or one more, is held by others than those known."""
        mine = {id(handle) for handle in known}
        references = (*self._listed.values(), *self._own.values(), *more)
        alive = (reference() for reference in references)
        return any(handle is not None and id(handle) not in mine for handle in alive)

    def rebinding(self, handle: Handle, new: Handle) -> None:
        """A tensor is about to be rebound, which those who hold it outside will see."""
        given = self._given.get(id(handle))
        if given is not None and given[1]() is handle:
            if is_view(given[2]):
                self.broken = True
                raise InPlaceError(VIEW_GIVEN)
            self.moved[given[0]] = handle
            if isinstance(given[2], Handle) and given[2].computed is not None:
                # The caller's own may be known here, too: what that is has to be asked again.
                given[2].computed.entry = (0, None)
            self._move_others(given[2], handle, new)
        elif handle.recording is not self and not self.is_own(handle):
            before = (handle.node, handle.recording, handle.computed)
            self._rebound.setdefault(id(handle), (weakref.ref(handle), before))

    def _move_others(self, original: Any, handle: Handle, new: Handle) -> None:
        """The caller has given one tensor in several places: it is rebound in all of them."""
        for position, reference in self._same[id(original)]:
            other = reference()
            if other is not None and other is not handle:
                self.unlike = GIVEN_TWICE
                self.moved[position] = other
                other.node, other.recording, other.computed = new.node, new.recording, new.computed
                if other.computed is None and other.recording is not None:
                    other.recording.handles.append(other)

    def rebound(self) -> list[tuple[Any, Node]]:
        """Tensors from outside that now stand for nodes here."""
        found = [(ref, ref()) for ref, _ in self._rebound.values()]
        return [
            (ref, handle.node)
            for ref, handle in found
            if handle is not None and handle.recording is self
        ]

    @property
    def draws(self) -> bool:
        """Whether random numbers were drawn."""
        return bool(self._starts)

    def finish_step(self) -> None:
        """The function has returned."""
        self._end_draws()
        self.compare_variables()

    def compare_variables(self) -> None:
        """See whether other threads have assigned variables that were read or assigned here."""
        for variable in self._latest:
            self._compare(variable, variable._handle)

    def undo(self) -> bool:
        """Leave everything outside as it was; False if others have drawn random numbers."""
        self._end_draws()
        for variable, handle in self.assigned.items():
            variable.restore(handle, self._latest[variable])
        for ref, before in self._rebound.values():
            handle = ref()
            if handle is not None:
                handle.node, handle.recording, handle.computed = before
        gone = [
            start is None or not generator.rewind(start, stop)
            for generator, (start, stop) in self._starts.items()
        ]
        return not any(gone)


def _reader(node: Node, kind: type) -> Callable[[Value], Any]:
    """What gives the only element of a value as a Python number of a kind."""
    if node.dtype.kind == "c":
        return lambda value: kind(value.array.reshape(())[()])
    memory = np.ctypeslib.as_ctypes_type(node.dtype).from_address
    return lambda value: kind(memory(value.address).value)
