"""Capture: one real run of a function, kept as compiled steps that later calls run without Python.

A value that was not seen before makes the function run in Python once more, from the top, and the
tree of steps (see gradtape.recording.steps) grows by the path that it took.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.graph.deferred import Deferred
from gradtape.graph.lines import user_line
from gradtape.graph.node import LEAF, PICK, Node
from gradtape.graph.recording import Handle, Recording, Value, host_value, state
from gradtape.graph.walk import topological
from gradtape.recording.failures import Lines
from gradtape.recording.steps import (
    Argument,
    Computed,
    Constant,
    Held,
    Number,
    Outside,
    Position,
    Run,
    Source,
    Step,
    branch_key,
)
from gradtape.recording.trace import next_number


class Capture(Recording):
    """The recording of a real run: values are there, and every look at one is noted."""

    __slots__ = (
        "_draws",
        "_given",
        "_held",
        "_looked",
        "_made",
        "_own",
        "_rebound",
        "_sources",
        "_starts",
        "_touched",
        "assigned",
        "deferred",
        "escaped",
        "failed",
        "fastmath",
        "fed",
        "inconsistent",
        "meant",
        "missed",
        "moved",
        "number",
        "step",
        "variables",
    )

    capturing = True
    evaluates_at_once = False

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
        # Variables assigned, with what they held before, and those read.
        self.assigned: dict[Any, Handle] = {}
        self.variables: dict[Any, None] = {}
        self._held: dict[tuple[int, int], Node] = {}
        self._looked: dict[tuple[int, str], Any] = {}
        # Arguments by the id of their handle; those that were rebound, with the handle.
        self._given: dict[int, tuple[int, Any]] = {}
        self.moved: dict[int, Any] = {}
        # Tensors from outside that were rebound, with what they were; and those made here.
        self._rebound: dict[int, tuple[Any, tuple[Any, Any, Any]]] = {}
        self._own: dict[int, Any] = {}
        # Variables and generators made here, which are nobody's state unless they outlive the call.
        self._made: dict[int, Any] = {}
        # How many draws came before this step; in it, their number and place; where all began.
        self._draws = 0
        self._touched: dict[Any, tuple[int, int]] = {}
        self._starts: dict[Any, tuple[int, int]] = {}
        # What may fail or calls Python, and is to run even if nothing reads its result.
        self.deferred: list[Handle] = []
        # Where a value left for Python in a way that no guard can follow, and how.
        self.escaped: tuple[str, str] | None = None
        # Whether something that was computed failed: in Python it fails on its own line.
        self.failed = False
        self.meant = False
        self.inconsistent = False
        # The guard that a call before had passed with other values.
        self.missed: Step | None = None
        self._arrive(root)

    # Leaves, by where a later call finds their values.

    def argument(self, position: int, value: Value, kind: type[Handle]) -> Any:
        """The tensor of an argument; a value that is given twice is two arguments."""
        node = self.add_leaf(value, value.spec)
        self._sources[node.params[0]] = Argument(position)
        handle = kind(node, self, value)
        self._given[id(handle)] = (position, weakref.ref(handle))
        return handle

    def add_number(self, number: Deferred, of: Any) -> Node:
        """The leaf of a number that a later call computes from its arguments."""
        node = self.add_leaf(number.value, of)
        self._sources[node.params[0]] = Number(number.compute)
        return node

    def enter_handle(self, handle: Handle) -> Node:
        """The leaf of a tensor from outside, which may be rebound between calls."""
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
            state.evaluate(handle)
        value: Any = handle.computed
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
        return self._source_of_leaf(node.params[0]) if node.op is LEAF else Computed(node)

    def _source_of_leaf(self, ordinal: int) -> Source:
        found = self._sources.get(ordinal)
        return Constant(self.leaves[ordinal]) if found is None else found

    # Random numbers.

    def touch(self, generator: Any) -> None:
        """A generator from outside is about to move on."""
        if generator not in self._touched:
            place = generator.place
            self._starts.setdefault(generator, (place, place))
            self._touched[generator] = (self._draws + len(self._touched), place)

    def is_outside(self, generator: Any) -> bool:
        """Whether a generator was there before, so that later calls find it where it is then."""
        return generator.number < self.number

    def enter_positions(self, generator: Any, positions: Any) -> Node:
        """The leaf of one or many random positions: a later call has others."""
        value = host_value(positions)
        node = self.add_leaf(value, value.spec)
        if self.is_outside(generator):
            draw, start = self._touched[generator]
            counters = value.array[..., 2:].astype(object)
            offsets = counters[..., 0] + counters[..., 1] * 2**64 - start
            single = not isinstance(offsets, np.ndarray)
            self._sources[node.params[0]] = Position(
                draw, int(offsets) if single else offsets.astype(np.uint64)
            )
        return node

    def draw(self, generator: Any, position: Any) -> Any:
        """A tensor of the position of a draw."""
        return self.hold(self.enter_positions(generator, position), state.handle_class)

    def _end_draws(self) -> None:
        draws = [(gen, gen.place - start) for gen, (_, start) in self._touched.items()]
        for generator, _ in draws:
            self._starts[generator] = (self._starts[generator][0], generator.place)
        self._draws += len(draws)
        self._touched = {}
        if not self.step.complete and not self.inconsistent:
            self.step.draws = draws

    # Computing.

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

    def run(self, schedule: Any) -> dict[Node, Any]:
        """Run a schedule of this recording, or take what the replay before had computed of it."""
        fed = self.fed
        if fed and all(node in fed for node in schedule.outputs):
            found = {node: fed[node].content for node in schedule.outputs}
        else:
            try:
                found = schedule.run(self)
            except Exception:
                self.failed = True
                raise
        if not self.step.complete and not self.inconsistent:
            inputs = tuple(
                self.source(binding) if isinstance(binding, Node) else self._source_of_leaf(binding)
                for binding in schedule.bindings
            )
            lines = Lines(schedule.fallible, self.lines) if schedule.fallible is not None else None
            self.step.runs.append(Run(schedule.plan, inputs, schedule.outputs, lines))
        return found

    # Looks at values.

    def decide(self, handle: Handle, kind: type, name: str) -> Any:
        """A look at a value that decides what Python does next."""
        node = handle.node
        state.evaluate(handle)
        array = handle.computed.array  # type: ignore[union-attr]
        value = kind(array.reshape(())[()])
        source, read = self.source(node), _reader(node, kind)
        self._branch(lambda call: read(source(call)), (node, name), f"{name}() of a tensor", value)
        return value

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
        if self.inconsistent or self.closed:
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

    def assign(self, variable: Any, before: Handle) -> None:
        """A variable was assigned; later calls do it at their end."""
        if not self._is_made_here(variable):
            self.assigned.setdefault(variable, before)

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

    def rebinding(self, handle: Handle) -> None:
        """A tensor is about to be rebound, which those who hold it outside will see."""
        given = self._given.get(id(handle))
        own = self._own.get(id(handle))
        if given is not None and given[1]() is handle:
            self.moved[given[0]] = handle
        elif handle.recording is not self and (own is None or own() is not handle):
            before = (handle.node, handle.recording, handle.computed)
            self._rebound.setdefault(id(handle), (weakref.ref(handle), before))

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

    def undo(self) -> bool:
        """Leave everything outside as it was; False if others have drawn random numbers."""
        self._end_draws()
        for variable, handle in self.assigned.items():
            variable.restore(handle)
        for ref, before in self._rebound.values():
            handle = ref()
            if handle is not None:
                handle.node, handle.recording, handle.computed = before
        gone = [not gen.rewind(start, stop) for gen, (start, stop) in self._starts.items()]
        return not any(gone)


def _reader(node: Node, kind: type) -> Callable[[Value], Any]:
    """What gives the only element of a value as a Python number of a kind."""
    if node.dtype.kind == "c":
        return lambda value: kind(value.array.reshape(())[()])
    memory = np.ctypeslib.as_ctypes_type(node.dtype).from_address
    return lambda value: kind(memory(value.address).value)


def read_state(thing: Any, name: str, label: str) -> Any:
    """An attribute that is known to change: a captured function looks at it in every call."""
    capture = capturing(state.recording)
    if capture is None:
        return getattr(thing, name)
    return capture.guard_state(thing, name, label)


def capturing(recording: Any) -> Any:
    """The capture that a recording is part of, directly or as a trace inside it, or None."""
    while recording.outer is not None:
        recording = recording.outer
    return recording if recording.capturing else None
