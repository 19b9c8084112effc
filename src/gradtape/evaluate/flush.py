"""Flush: compute what is observed, together with all else that a live handle holds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from gradtape.errors import NoValueError
from gradtape.evaluate.failures import Lines, may_fail
from gradtape.evaluate.kept_for_backward import kept
from gradtape.graph.node import LEAF, PLACEHOLDER, Node
from gradtape.graph.program import Program, program
from gradtape.graph.walk import topological
from gradtape.recording.handle import Handle
from gradtape.recording.hooks import hooks
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace
from gradtape.recording.value import Value
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.tiers import Tiered

# How much larger than needed a plan may be to serve instead of a new one.
SLACK_FACTOR = 0.25
SLACK_NODES = 8
# A loss over more elements than this is computed only if somebody asks for it.
LOSS_SIZE = 1 << 16


class Schedule:
    """A plan bound to a recording's leaves and kept values, by number."""

    __slots__ = (
        "_from_leaves", "available", "bindings", "fallible", "inputs", "outputs", "plan", "steps",
    )  # fmt: skip

    def __init__(self, found: Program, plan: Tiered) -> None:
        self.plan = plan
        self.outputs = found.outputs
        # The program, if something in it may fail.
        self.fallible = found if any(may_fail(node) for node in found.nodes) else None
        self.inputs = frozenset(found.inputs)
        self.steps = len(found.nodes)
        # The state of the recording after this flush: an object of its own, found by identity.
        self.available = object()
        self.bindings: tuple[int | Node, ...] = tuple(
            node.params[0] if node.op is LEAF and isinstance(node.params[0], int) else node
            for node in found.inputs
        )
        # Most schedules read leaves only: then one call picks them all.
        self._from_leaves: Any = None
        if len(self.bindings) > 1 and not any(isinstance(b, Node) for b in self.bindings):
            self._from_leaves = itemgetter(*self.bindings)

    def run(self, recording: Recording) -> dict[Node, Any]:
        leaves, values = recording.leaves, recording.values
        inputs: Sequence[Any]
        if self._from_leaves is not None:
            inputs = self._from_leaves(leaves)
        else:
            inputs = [
                values[binding] if isinstance(binding, Node) else leaves[binding]
                for binding in self.bindings
            ]
        try:
            return dict(zip(self.outputs, self.plan.run(inputs), strict=True))
        except Exception as error:
            if self.fallible is not None and recording.lines:
                Lines(self.fallible, recording.lines).explain(error, inputs)
            raise


def live(recording: Recording) -> list[Handle]:
    """The handles that somebody besides the recording still holds.

    One that was rebound since may be pending in another recording.
    """
    count = sys.getrefcount
    return [
        handle
        for handle in recording.handles
        if count(handle) > _UNHELD and handle.recording is recording
    ]


def _references_of_unheld() -> int:
    # Measured, not assumed: interpreters differ in what a comprehension variable counts.
    count = sys.getrefcount
    (references,) = [count(handle) for handle in [Handle(None, None, None)]]
    return references


def _references_of_last(handles: list[Handle]) -> int:
    last = handles[-1:]
    return sys.getrefcount(last[0]) if last else 0


_UNHELD = _references_of_unheld()
_UNHELD_LAST = _references_of_last([Handle(None, None, None)])


def _last_is_held(handles: list[Handle]) -> bool:
    return _references_of_last(handles) > _UNHELD_LAST


def compute_handle(handle: Handle) -> None:
    """Give a handle its value, if it has none yet."""
    if handle.computed is not None:
        return
    recording = handle.recording
    if recording is None:
        if handle.computed is None:  # not computed by another thread just now
            handle.materialize()  # type: ignore[attr-defined]
        return
    if isinstance(recording, Trace) and recording.lacks_value(handle.node):
        raise recording.refusal(handle.node)
    if recording.thread == state.thread:
        try:
            flush(recording)
        except Exception:
            # Something pending failed. What was asked for may be something else.
            if handle.computed is None:
                _alone(recording, handle)
    if handle.computed is None:
        _alone(recording, handle)


def _alone(recording: Recording, handle: Handle) -> None:
    """Compute one handle and nothing else: its recording belongs to another thread."""
    with recording.guard():
        if handle.computed is None:
            if _seeds_of(recording, handle.node):
                raise NoValueError(
                    "this tensor has no value: it was given to a derivative written by hand, to "
                    "stand for all seeds of a Jacobian at once. Use it there, and return what is "
                    "made of it."
                )
            wanted = _program(recording, (handle.node,), ())
            schedule = Schedule(wanted, plan_for(wanted, recording.fastmath))
            content = schedule.run(recording)[handle.node]
            handle.computed = Value(content, handle.node.spec)


def flush(recording: Recording) -> None:
    """Compute every live handle of the recording in one plan."""
    with recording.guard():
        recording.flushing = True
        try:
            tracked = _flush(recording)
        finally:
            recording.flushing = False
    if recording.handles:
        return  # what has no value yet goes on here
    if not tracked:
        retire(recording)
    elif state.recording is recording and not recording.active and recording.is_pinned():
        # Only tapes that have ended hold it: later work need not grow what they remember.
        state.recording = Recording()


def _flush(recording: Recording) -> bool:
    """The same, with the recording locked. Whether a tape still holds it, then."""
    held = live(recording)
    recording.handles = type(recording.handles)()
    if isinstance(recording, Trace):
        held = recording.with_values(held)
    if recording.capturing:
        held += recording.unused(held)  # type: ignore[attr-defined]
    values = recording.values
    roots = tuple(dict.fromkeys(h.node for h in held if h.node not in values))
    results: dict[Node, Any] = {}
    schedule = _find(recording, roots) if roots else None
    if roots and schedule is None:
        # A derivative by hand has kept what it was given for all seeds at once: no value is known.
        lacking = [h for h in held if h.node not in values and _seeds_of(recording, h.node)]
        recording.handles.extend(lacking)
        gone = {id(handle) for handle in lacking}
        held = [handle for handle in held if id(handle) not in gone]
        roots = tuple(dict.fromkeys(h.node for h in held if h.node not in values))
        schedule = _find(recording, roots) if roots else None
    if schedule is not None:
        if isinstance(recording, Trace):
            recording.compute_leaves(schedule.bindings)
        try:
            if recording.capturing:
                results = recording.run(schedule)  # type: ignore[attr-defined]
            else:
                results = schedule.run(recording)
        except BaseException:
            # Nothing is lost: what could not run is still pending.
            recording.handles = type(recording.handles)(held)
            raise
        if recording.tapes:
            values.update((node, Value(found, node.spec)) for node, found in results.items())
            recording.available = schedule.available
    tracked = bool(recording.tapes)
    for handle in held:
        node = handle.node
        if node is None:  # listed twice, because it was rebound here
            continue
        content = results[node] if node in results else values[node].content
        handle.computed = Value(content, node.spec)
        if not tracked:
            handle.node = handle.recording = None
    recording.updates = 0
    return tracked


def retire(recording: Recording) -> None:
    """Close a recording that nothing needs any more, and begin the thread's next one."""
    recording.close()
    if state.recording is recording:
        state.recording = Recording()


def release(recording: Recording) -> None:
    """A tape let go of the recording: retire it, unless a tape or a pending handle needs it."""
    if recording.closed or recording.tapes or recording.thread != state.thread:
        return
    if recording.flushing:  # the collector found the tape in the middle of it, which goes on
        return
    # A tape that gave its gradient has just made the handle that will be asked for.
    if not _last_is_held(recording.handles) and not live(recording):
        retire(recording)


def compute_pending() -> None:
    """Compute what is pending in this thread and begin anew."""
    flush(state.recording)


def _find(recording: Recording, roots: tuple[Node, ...]) -> Schedule | None:
    """The schedule for these roots in this state of the recording, by identity if seen before.

    None if a root depends on a placeholder, which has no value.
    """
    watched = tuple(recording.watched) if recording.tapes else ()
    plans = recording.table.plans
    # What a plan keeps follows from its roots, but for what is saved on demand.
    wishes = None
    if recording.saved or recording.fastmath:
        wishes = (recording.available, frozenset(recording.saved), recording.fastmath)
    # Losses it gives out may read leaves that the roots do not tell: a constant tells none.
    key = (roots, wishes or recording.available, watched, tuple(recording.targets))
    found = plans.get(key)
    if found is not None:
        COUNTS.plan_hits += 1
        return found
    wanted = _program(recording, roots, watched)
    if any(node.op is PLACEHOLDER and node not in recording.values for node in wanted.inputs):
        return None
    candidates = plans.setdefault((roots[-1], *key[1:]), [])
    found = _superset(wanted, candidates)
    if found is None:
        found = Schedule(wanted, plan_for(wanted, recording.fastmath))
        candidates.append(found)
    else:
        COUNTS.plan_hits += 1
    plans[key] = found
    return found


def _seeds_of(recording: Recording, node: Node) -> list[Node]:
    """The placeholders that a node depends on."""
    found = program([node], recording.values.keys()).inputs
    return [one for one in found if one.op is PLACEHOLDER and one not in recording.values]


def _superset(wanted: Program, candidates: list[Schedule]) -> Schedule | None:
    """A known plan with the wanted outputs and a few more, if it costs hardly more."""
    outputs, inputs = set(wanted.outputs), set(wanted.inputs)
    for candidate in candidates:
        # Its other outputs must not need leaves that this recording may not have.
        if not candidate.inputs <= inputs:
            continue
        limit = (1 + SLACK_FACTOR) * len(wanted.nodes) + SLACK_NODES
        if candidate.steps <= limit and outputs <= set(candidate.outputs):
            return candidate
    return None


def _program(recording: Recording, roots: Sequence[Node], watched: Sequence[Node]) -> Program:
    """What computes the roots, and on the way what a live tape keeps and what was a loss."""
    known = recording.values.keys()
    found = program(roots, known)
    extra = kept(found, watched) if watched else []
    discarded = recording.recomputed.union(roots)
    if watched and recording.saved:
        extra += [node for node in found.nodes if node in recording.saved]
        discarded -= recording.saved
    extra += _losses(recording, found)
    outputs = dict.fromkeys((*roots, *[node for node in extra if node not in discarded]))
    return found if len(outputs) == len(roots) else program(outputs, known)


def _losses(recording: Recording, found: Program) -> list[Node]:
    """Scalars whose gradient the program computes, where giving them out costs next to nothing.

    Then one plan serves the steps that print the loss and those that do not.
    """
    targets = [target for target in recording.targets if target not in recording.values]
    if not targets:
        return []
    computed = {*found.nodes, *found.inputs}
    missing = [node for node in topological(targets, stop=computed) if node not in computed]
    cheap = len(missing) <= SLACK_FACTOR * len(found.nodes) + SLACK_NODES
    small = all(type(node.spec) is not tuple and node.spec.size <= LOSS_SIZE for node in missing)
    # Leaves of the recording have values; placeholders of a derivative rule have none.
    valued = all(isinstance(node.params[0], int) for node in missing if node.op is LEAF)
    return targets if cheap and small and valued else []


hooks.compute_handle = compute_handle
hooks.compute_pending = compute_pending
