"""The collector: what happens while a profile runs, counted by line and by plan.

Its events come from `runtime/profiler_sink.py`. Everything is added up: its size depends on the
number of lines and plans of a program, and not on how long it runs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.compiler.objects.llvm import Counts
from gradtape.config import (
    COMPARED_RUNS,
    KEPT_INTERVALS,
    LISTED_EVENTS,
    LISTED_JACOBIANS,
    LOGGED_PLAN_RUNS,
    PROFILED_PLANS,
)
from gradtape.ir import Node, Program, topological
from gradtape.ir.origin import LINES, SourcePlace, user_place
from gradtape.runtime.kept_for_backward import is_expensive
from gradtape.tools.profiler.sampler import Sampler
from gradtape.trace.value import Value


@dataclass
class Reading:
    """Flushes that one line of the user's has caused."""

    count: int = 0
    seconds: float = 0.0
    # The part of it in which plans ran, in NumPy and natively, and were built and compiled.
    running: float = 0.0
    cycles: int = 0
    building: float = 0.0
    # The maximum number of values that were given.
    values: int = 0
    # Those of them that compiled nothing, without values.
    quiet: Reading | None = None
    # When the last one ended, and nanoseconds from one to the next, of the latest.
    last: int = 0
    intervals: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT_INTERVALS))

    def add(self, seconds: float, running: float, cycles: int, building: float) -> None:
        """Count one more flush."""
        self.count += 1
        self.seconds += seconds
        self.running += running
        self.cycles += cycles
        self.building += building


@dataclass
class Asking:
    """Gradients that one line of the user's has requested."""

    count: int = 0
    built: int = 0
    # The most in one recording, the recording it last saw, and the count there.
    most: int = 0
    recording: int = 0
    here: int = 0
    scalars: bool = True
    # Some of the targets, by which plans find the line of the request.
    targets: set[Node] = field(default_factory=set)


@dataclass
class DenseJacobian:
    """A dense Jacobian that one line of the user's has requested."""

    window: Any
    target: Node
    source: Node
    # Some of the nodes that compute it, by which plans are found.
    nodes: set[Node] = field(default_factory=set)
    count: int = 0


@dataclass
class ObservedPlan:
    """A plan with the program that it was bound for, and what was seen of its runs."""

    plan: Any
    program: Program
    place: SourcePlace | None
    # Runs so far, in NumPy or since it was compiled.
    runs: int = 0
    compiled: bool = False
    # Inputs that were another value than in the run before, by position.
    changed: set[int] = field(default_factory=set)
    compared: int = 0
    inputs: list[Any] | None = None
    # Outputs of the last run; how often each output was given, and how often it was never read.
    outputs: list[tuple[int, Value]] = field(default_factory=list)
    given: dict[int, int] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)
    # Cycles of the plan at the last call of `new_cycles`, and the instructions that count them.
    _cycles: int = 0
    _stream: Any = None

    def new_cycles(self) -> int:
        """The cycles that native code has spent on the plan since the last call."""
        stream = self._stream
        if stream is None:
            compiled = self.plan.compiled
            if compiled is None:
                return 0
            stream = self._stream = compiled.stretch.instructions
        before, self._cycles = self._cycles, stream.cycles()
        return self._cycles - before


@dataclass
class NumpyRuns:
    """The runs of a plan in tier 0."""

    plan: Any
    # Nanoseconds of each step, and of the runs as a whole.
    times: list[int]
    nanoseconds: int = 0
    count: int = 0


@dataclass
class Kept:
    """The largest contents of the recording of a tape after a flush at one line."""

    nbytes: int
    seconds: float
    # Op, spec, bytes, line, and why it is kept.
    values: list[tuple[str, str, int, SourcePlace | None, str]]


@dataclass
class Capturing:
    """Captures of one signature of a function."""

    captured: Any
    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Event:
    """Something that took time beside running plans."""

    kind: str
    begin: int
    end: int
    place: SourcePlace | None
    text: str


class Collector:
    """Counts what happens; the sink of `runtime/profiler_sink.py`."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.began = time.perf_counter_ns()
        self.thread = threading.get_ident()
        self.readings: defaultdict[SourcePlace | None, Reading] = defaultdict(Reading)
        self.askings: defaultdict[SourcePlace | None, Asking] = defaultdict(Asking)
        self.bindings: dict[int, ObservedPlan] = {}
        self.kept: dict[SourcePlace | None, Kept] = {}
        self.captures: dict[int, Capturing] = {}
        self.events: list[Event] = []
        self.event_counts: Counter[str] = Counter()
        self.event_seconds: defaultdict[str, float] = defaultdict(float)
        self.causes: Counter[str] = Counter()
        # Flushes of recordings of which a gradient was requested: the lines of both.
        self.steps: Counter[tuple[SourcePlace | None, SourcePlace | None]] = Counter()
        self._derived: tuple[int, SourcePlace | None] = (-1, None)
        self.dense_jacobians: dict[SourcePlace | None, DenseJacobian] = {}
        self.colourings: dict[int, tuple[Any, int, SourcePlace | None]] = {}
        # Nanoseconds that NumPy took on plans in tier 0.
        self.numpy_plans: dict[int, NumpyRuns] = {}
        self.numpy_ns = 0
        # The first runs in tier 0: plan, begin, end, thread.
        self.numpy_runs: list[tuple[int, int, int, int]] = []
        self.numpy_runs_in_all = 0
        # Plans that are held until the profile ends.
        self.plans: list[Any] = []
        self._building_ns = 0
        self._marks = (0, 0, 0)
        self._viewed: set[int] = set()
        self._watched: set[int] = set()

    # Flushes.

    def begin(self) -> int:
        """The time now; a flush begins."""
        self._marks = self.numpy_ns, self._building_ns, Counts.modules
        return time.perf_counter_ns()

    def flushed(
        self,
        recording: Any,
        bound: Any,
        held: Sequence[Any],
        results: Mapping[Node, Any],
        begin: int,
    ) -> None:
        """A flush has given its handles their values."""
        now = time.perf_counter_ns()
        if recording.capturing:
            return  # part of a capture, which is timed as a whole
        place = user_place()
        reading = self.readings[place]
        in_numpy, building, modules = self._marks
        cycles = 0
        binding = None if bound is None else self.bindings.get(id(bound.plan))
        if binding is not None and threading.get_ident() == self.thread:
            self._look(binding, bound, recording, held, results)
            cycles = binding.new_cycles()
        spent = (
            (now - begin) * 1e-9,
            (self.numpy_ns - in_numpy) * 1e-9,
            cycles,
            (self._building_ns - building) * 1e-9,
        )
        reading.values = max(reading.values, len(held))
        reading.add(*spent)
        if reading.last:
            reading.intervals.append(now - reading.last)
        reading.last = now
        stamp, asked = self._derived
        if recording.stamp == stamp:
            self.steps[asked, place] += 1
            self._derived = (-1, None)
        if modules == Counts.modules:
            if reading.quiet is None:
                reading.quiet = Reading()
            reading.quiet.add(*spent)
        if recording.tapes:
            self._note_kept(recording, place, now)

    def _look(
        self,
        binding: ObservedPlan,
        bound: Any,
        recording: Any,
        held: Sequence[Any],
        results: Mapping[Node, Any],
    ) -> None:
        """Compare the inputs of a run with those before, and find outputs that were never read."""
        if not binding.compiled and binding.plan.compiled is not None:
            # Reads are known of compiled runs only: the comparison starts again with these.
            binding.compiled, binding.runs = True, 0
        binding.runs += 1
        if binding.runs > COMPARED_RUNS:
            if binding.runs == COMPARED_RUNS + 1:
                self._check_outputs(binding)
                binding.inputs = None
            return
        inputs = [
            recording.leaves[at] if isinstance(at, int) and at < len(recording.leaves) else None
            for at in bound.bindings
        ]
        if binding.inputs is not None and len(inputs) == len(binding.inputs):
            binding.compared += 1
            pairs = enumerate(zip(inputs, binding.inputs, strict=True))
            binding.changed.update(at for at, (new, old) in pairs if not _is_same(new, old))
        binding.inputs = inputs
        self._check_outputs(binding)
        if binding.runs >= 3 and not recording.tapes:
            # The nodes of handles are gone after a flush: outputs are found by their memory.
            number = {id(results[node]): at for at, node in enumerate(bound.outputs)}
            values = {id(h.computed): h.computed for h in held if h.computed is not None}
            binding.outputs = [
                (number[id(value.content)], value)
                for value in values.values()
                # An array that NumPy has made has no record of its reads.
                if id(value.content) in number and not isinstance(value.content, np.ndarray)
            ]
            self._watched.update(id(value.content) for _, value in binding.outputs)

    def _check_outputs(self, binding: ObservedPlan) -> None:
        """Note which outputs of the run before are gone and were never read."""
        outputs, binding.outputs = binding.outputs, []
        while outputs:
            number, value = outputs.pop()
            seen = id(value.content) in self._viewed
            self._viewed.discard(id(value.content))
            self._watched.discard(id(value.content))
            # One reference here, one as the argument: there is no other holder.
            alone = sys.getrefcount(value) <= 2
            if not alone:
                continue
            binding.given[number] = binding.given.get(number, 0) + 1
            untouched = value.entry[0] == 0 and value._address == 0
            if untouched and not seen:
                binding.unread[number] = binding.unread.get(number, 0) + 1

    def viewed(self, buffer: object) -> None:
        """A computed value is read as an array."""
        if id(buffer) in self._watched:
            self._viewed.add(id(buffer))

    def _note_kept(self, recording: Any, place: SourcePlace | None, now: int) -> None:
        size = sum(value.spec.nbytes for value in recording.values.values())
        self.sampler.kept = size
        known = self.kept.get(place)
        if known is not None and known.nbytes >= size:
            return
        values = [
            (node.op.name, str(node.spec), node.spec.nbytes, _place_of(node), _why(recording, node))
            for node in recording.values
        ]
        values.sort(key=lambda value: -value[2])
        self.kept[place] = Kept(size, (now - self.began) * 1e-9, values[:200])

    # Plans.

    def bound(self, program: Program, plan: Any) -> None:
        """A program found or got its plan."""
        if id(plan) not in self.bindings and len(self.bindings) < PROFILED_PLANS:
            found = self.bindings[id(plan)] = ObservedPlan(plan, program, user_place())
            found.new_cycles()

    def built(self, plan: Any, begin: int, cause: str) -> None:
        """A program needed a new plan."""
        self.causes[cause] += 1
        self._add("plan", begin, f"{cause}, {_ops(plan)}", True)
        self._hold(plan)

    def compiled(self, plan: Any, begin: int) -> None:
        """A plan was compiled."""
        self._add("compile", begin, _ops(plan), True)
        self._hold(plan)

    def _hold(self, plan: Any) -> None:
        if len(self.plans) < PROFILED_PLANS:
            self.plans.append(plan)

    def ran_in_numpy(self, plan: Any, times: Sequence[int], begin: int) -> None:
        """A plan ran in tier 0."""
        end = time.perf_counter_ns()
        spent = end - begin
        self.numpy_ns += spent
        self.numpy_runs_in_all += 1
        if len(self.numpy_runs) < LOGGED_PLAN_RUNS:
            self.numpy_runs.append((id(plan), begin, end, threading.get_ident()))
        known = self.numpy_plans.get(id(plan))
        if known is None:
            self._hold(plan)
            known = self.numpy_plans[id(plan)] = NumpyRuns(plan, [0] * len(times))
        known.count += 1
        known.nanoseconds += spent
        for index, each in enumerate(times):
            known.times[index] += each

    # Derivatives and functions.

    def derived(self, recording: Any, targets: Sequence[Node], begin: int, found: bool) -> None:
        """A gradient was requested."""
        place = user_place()
        asking = self.askings[place]
        asking.count += 1
        self._derived = recording.stamp, place
        if recording.stamp != asking.recording:
            asking.recording, asking.here = recording.stamp, 0
        asking.here += 1
        asking.most = max(asking.most, asking.here)
        asking.scalars = asking.scalars and all(target.size == 1 for target in targets)
        if not found:
            asking.built += 1
            if len(asking.targets) < 256:
                asking.targets.update(targets)
            self._add("derive", begin, f"gradient of {len(targets)} targets", False)

    def dense_jacobian(self, window: Any, target: Node, source: Node, whole: Node) -> None:
        """A dense Jacobian was requested."""
        place = user_place()
        known = self.dense_jacobians.get(place)
        if known is None:
            if len(self.dense_jacobians) >= LISTED_JACOBIANS:
                return
            known = self.dense_jacobians[place] = DenseJacobian(window, target, source)
        known.count += 1
        if len(known.nodes) < LISTED_JACOBIANS:
            # What a recording applies is a copy of a derivative: it has the same inputs.
            recorded = set(topological([target]))
            known.nodes.update(each for each in (whole, *whole.inputs) if each not in recorded)

    def captured(self, captured: Any, begin: float) -> None:
        """A function ran as a capture."""
        known = self.captures.setdefault(id(captured), Capturing(captured))
        known.count += 1
        known.seconds += time.perf_counter() - begin
        self._add("capture", int(begin * 1e9), captured.name, False)

    def coloured(self, coloured: Any) -> None:
        """A sparse derivative is computed."""
        _, count, place = self.colourings.get(id(coloured), (coloured, 0, None))
        if count == 0 and len(self.colourings) >= 32:
            return
        self.colourings[id(coloured)] = (coloured, count + 1, place or user_place())

    def _add(self, kind: str, begin: int, text: str, building: bool) -> None:
        end = time.perf_counter_ns()
        if building:
            self._building_ns += end - begin
        self.event_counts[kind] += 1
        self.event_seconds[kind] += (end - begin) * 1e-9
        if len(self.events) < LISTED_EVENTS:
            self.events.append(Event(kind, begin, end, user_place(2), text))


def _ops(plan: Any) -> str:
    return f"{len(plan.program.nodes)} ops"


def _is_same(new: Any, old: Any) -> bool:
    """Whether an input is what it was: the same value, or an equal number."""
    if new is None or type(new) is Value or type(old) is Value:
        return new is old and new is not None
    return type(new) is type(old) and bool(new == old)


def _place_of(node: Node) -> SourcePlace | None:
    found = LINES.found.get(node)
    return None if found is None else found.place


def _why(recording: Any, node: Node) -> str:
    if node in recording.values.saved:
        return "it is saved on request"
    if node in recording.targets:
        return "it is a loss whose gradient was requested"
    if is_expensive(node):
        return "it is expensive to compute again"
    return "a Python variable still refers to it"
