"""Flush: compute what is observed, together with everything else that a live handle holds.

The rules of a flush:

- What is computed: the nodes of all handles of the recording that somebody besides the recording
  still holds, in one plan. Looking at one tensor computes its neighbours too, because they share
  most of the work, and a loop that looks at one tensor in each turn then runs one plan in each.
- What is kept: while a tape is alive, the recording keeps its graph and the values of expensive
  ops that the backward pass may read (`kept_for_backward`). Without a tape it keeps nothing.
- When a recording closes: when it was flushed and no tape holds it. The thread's next op starts a
  new recording. If only tapes that have ended hold it, it stays open for their gradients, and the
  thread goes on in a new one.
- All handles get their values at once. After an interrupt everything is pending again; handles that
  need a loop that was interrupted are left pending by later flushes until one that needs the same
  loops is asked for itself.
- A handle whose node depends on a placeholder (a seed that stands for all rows of a Jacobian) or,
  in a trace, on an argument without a value stays pending.

A later flush in the same state finds its bound plan by identity: the key is the tuple of wanted
nodes and `KeptValues.available`, an object that stands for the values the recording holds.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FrameType

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.cpython import switch
from gradtape.compiler.objects.llvm import free_code
from gradtape.concurrency import is_interrupt
from gradtape.errors import NoValueError
from gradtape.ir.hooks import Evaluator, hooks
from gradtape.ir.node import LEAF, PLACEHOLDER, Node, renew_table, retire_tables
from gradtape.ir.program import Program, forget_dead_bodies, program, with_outputs
from gradtape.ir.walk import topological
from gradtape.runtime.bound_plans import BoundPlan
from gradtape.runtime.kept_for_backward import kept
from gradtape.runtime.plan_cache import forget_plans
from gradtape.runtime.probe import PROBE
from gradtape.trace.handle import Handle
from gradtape.trace.recording import Recording
from gradtape.trace.thread_state import ended, settle, state
from gradtape.trace.trace import Trace, leave_full_tables
from gradtape.trace.traffic import traffic
from gradtape.trace.uncollected import uncollected
from gradtape.trace.value import Content, Value

# How much larger than needed a plan may be to serve instead of a new one.
SLACK_FACTOR = 0.25
SLACK_NODES = 8
# A loss over more elements than this is computed only if somebody asks for it.
LOSS_SIZE = 1 << 16


# Storing in many handles is one call of C code, in which no signal handler can run: after an
# interrupt either all handles of a flush have their values or none. If some had, the others would
# be computed by another plan, which may round otherwise.
_store: Callable[[Iterable[object]], object] = partial(deque, maxlen=0)
_set_computed, _set_node, _set_recording = (
    Handle.__dict__[name].__set__ for name in ("computed", "node", "recording")
)


def live(recording: Recording, handles: list[Handle]) -> list[Handle]:
    """Those of its handles that somebody besides the recording still holds.

    Nobody tells the recording when a handle dies: a count of references costs less than a weak
    reference for every op. A handle that was rebound may be pending in another recording.
    """
    count = sys.getrefcount
    return [
        handle for handle in handles if count(handle) > _UNHELD and handle.recording is recording
    ]


def _references_of_unheld() -> int:
    # Measured, because interpreters differ in how many references a comprehension itself holds.
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
        if handle.computed is None:  # no other thread has computed it meanwhile
            handle.materialize()
        return
    if isinstance(recording, Trace) and recording.lacks_value(handle.node):
        raise recording.refusal(handle.node)
    if recording.thread == state.thread:
        try:
            flush(recording, handle)
        except Exception as error:
            if is_interrupt(error):
                raise
            # Some other pending op may have failed: then this handle can still be computed.
            if handle.computed is None:
                _compute_alone(recording, handle)
    if handle.computed is None:
        # The recording belongs to another thread, which alone may flush it.
        _compute_alone(recording, handle)


def _compute_alone(recording: Recording, handle: Handle) -> None:
    """Compute one handle and leave the rest of its recording pending."""
    with recording.guard():
        if handle.computed is None:
            if _unknowns_of(recording, handle.node):
                raise NoValueError(
                    "this tensor has no value: it was given to a derivative written by hand, to "
                    "stand for all seeds of a Jacobian at once. Use it there, and return what is "
                    "made of it."
                )
            wanted = _program(recording, (handle.node,), ())
            bound = BoundPlan(wanted, recording.fastmath)
            content = bound.run(recording)[bound.outputs.index(handle.node)]
            handle.computed = Value(content, handle.node.spec)
            recording.values.computed_alone = True


def flush(recording: Recording, asked: Handle | None = None) -> None:
    """Compute every live handle of the recording in one plan.

    Only if it is `asked` for, a handle is computed that needs a loop which was interrupted before.
    """
    if recording.pending.flushing and _is_under_way(recording):
        # A signal handler, or a callback of the garbage collector or of a weak reference, computes
        # in the middle of a flush, which must keep its recording. A handle is computed alone.
        return
    if ended:
        settle()
    with recording.guard():
        handles = recording.handles
        try:
            recording.pending.flushing = True
            recording.handles = type(handles)()
            tracked = _flush(recording, handles, asked)
        except BaseException:
            # All handles go back on the list: after an error everything is still pending. Each goes
            # there once: the error may have come before they were taken off, or later than some
            # were left to wait.
            listed = set(map(id, handles))
            list.extend(handles, [h for h in recording.handles if id(h) not in listed])
            recording.handles = handles
            raise
        finally:
            recording.pending.flushing = False
    if recording.handles:
        # Handles without a value yet stay pending in this recording.
        if recording.pending.interrupted and state.recording is recording and not recording.active:
            state.recording = Recording()
        return
    if not tracked:
        retire(recording)
    elif state.recording is recording and not recording.active and recording.is_pinned():
        # Only tapes that have ended hold it: later ops must not grow the graph they remember.
        state.recording = Recording()


def _is_under_way(recording: Recording) -> bool:
    """Whether this thread is in the middle of a flush of the recording.

    An error that a signal handler raised may have left the mark of a flush that is over.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code is flush.__code__ and frame.f_locals["recording"] is recording:
            return True
        frame = frame.f_back
    return False


def _flush(recording: Recording, handles: list[Handle], asked: Handle | None) -> bool:
    """Compute the live handles of a locked recording; say whether a tape still holds it."""
    sink = PROBE.sink
    begin = 0 if sink is None else sink.begin()
    held = live(recording, handles)
    plain = type(recording) is Recording
    if recording.pending.interrupted:
        wanted = frozenset() if asked is None else _interrupted_loops(recording, asked)
        waiting = [h for h in held if not _interrupted_loops(recording, h) <= wanted]
        recording.handles.extend(waiting)
        held = [h for h in held if _interrupted_loops(recording, h) <= wanted]
    if not plain:
        if isinstance(recording, Trace):
            held = recording.with_values(held)
        if recording.capturing:
            held += recording.capturing.unused(held)
    values = recording.values
    if values:
        roots = tuple(dict.fromkeys([h.node for h in held if h.node not in values]))
    else:
        roots = tuple(dict.fromkeys([h.node for h in held]))
    results: dict[Node, Content] = {}
    contents: list[Content] = []
    bound = _bound_plan_for(recording, roots) if roots else None
    if roots and bound is None:
        # A custom derivative has kept the cotangent that stands for all seeds at once: it and
        # everything computed from it have no value.
        lacking = [h for h in held if h.node not in values and _unknowns_of(recording, h.node)]
        recording.handles.extend(lacking)
        gone = {id(handle) for handle in lacking}
        held = [handle for handle in held if id(handle) not in gone]
        roots = tuple(dict.fromkeys(h.node for h in held if h.node not in values))
        bound = _bound_plan_for(recording, roots) if roots else None
    if bound is not None:
        if not plain and isinstance(recording, Trace):
            recording.compute_leaves(bound.bindings)
        try:
            if recording.capturing:
                results = recording.capturing.run(bound)
            else:
                contents = bound.run(recording)
        except BaseException as error:
            if is_interrupt(error):
                # The next flush for another value must not run the same loops again.
                pending = topological(roots, stop=values.keys())
                recording.pending.interrupted.update(
                    node for node in pending if node.op.runs_bodies or node.op.calls_python
                )
            raise
        if not recording.capturing:
            count = len(held)
            # The usual case: the first outputs are the values of the handles, in order. A plan that
            # also gives losses has more of them.
            usual = count == len(roots) and roots == bound.outputs[:count]
            if usual and sink is None and not recording.tapes:
                return _deliver(recording, held, contents[:count])
            results = dict(zip(bound.outputs, contents, strict=True))
        if recording.tapes:
            known = {node: Value(found, node.spec) for node, found in results.items()}
            # CPython calls no signal handler between these two: both happen, or neither.
            values |= known
            recording.values.available = bound.available
    tracked = bool(recording.tapes)
    if not tracked:
        nodes = [handle.node for handle in held]
        contents = [results[node] if node in results else values[node].content for node in nodes]
        _deliver(recording, held, contents)
    else:
        # One value for a node: whoever reads it in another recording finds the same leaf.
        _store(map(_set_computed, held, [values[handle.node] for handle in held]))
        recording.pending.updates = 0
    if sink is not None:
        sink.flushed(recording, bound, held, results, begin)
    return tracked


def _deliver(recording: Recording, held: list[Handle], contents: Sequence[Content]) -> bool:
    """Give handles that no tape tracks their values; says that no tape holds the recording."""
    if len(held) == 1:
        (handle,) = held
        found = Value(contents[0], handle.node.spec)
        # Here, too, no signal handler is called in between.
        handle.computed = found
        handle.node = handle.recording = None
    elif len(held) == 2:  # a gradient and its loss
        first, second = held
        found = Value(contents[0], first.node.spec)
        other = Value(contents[1], second.node.spec)
        first.computed, second.computed = found, other
        first.node = second.node = first.recording = second.recording = None
    else:
        news = [Value(content, h.node.spec) for h, content in zip(held, contents, strict=True)]
        nothing = itertools.repeat(None)
        _store(
            itertools.chain(
                map(_set_computed, held, news),
                map(_set_node, held, nothing),
                map(_set_recording, held, nothing),
            )
        )
    recording.pending.updates = 0
    return False


def _interrupted_loops(recording: Recording, handle: Handle) -> frozenset[Node]:
    """The loops that were interrupted and that a pending handle needs."""
    if handle.node is None or handle.computed is not None:
        return frozenset()
    needed = topological([handle.node], stop=recording.values.keys())
    return frozenset(recording.pending.interrupted.intersection(needed))


def retire(recording: Recording) -> None:
    """Close a recording that no tape or handle needs, and begin the thread's next one."""
    if state.recording is recording:
        renew_table()
        # First: an interrupt in between must not leave the thread with a closed recording.
        state.recording = Recording()
        if recording.handles and not recording.capturing and live(recording, recording.handles):
            return  # a signal handler or a callback of the garbage collector has recorded meanwhile
    recording.close()
    if traffic.recordings >= traffic.due:
        switch.consider_compiling()


def leave_full_table() -> None:
    """Begin with a new table if this thread's is full, and nothing is recorded."""
    recording = state.recording
    busy = recording.leaves or recording.tapes or recording.active or recording.handles
    if type(recording) is Recording and recording.table.is_full() and not busy:
        retire(recording)
    leave_full_tables()


def clear_plans() -> None:
    """Forget every plan, derivative and captured call, and free the machine code of plans.

    All of it is made again when it is next needed. What other threads have is freed when they next
    compute something or call the function.

    >>> gt.clear_plans()
    """
    forget_plans()
    retire_tables()
    leave_full_table()
    forget_dead_bodies()
    free_code()


def release(recording: Recording) -> None:
    """Retire a recording that a tape has let go of, unless a tape or a live handle needs it."""
    if recording.closed or recording.tapes or recording.thread != state.thread:
        return
    # The garbage collector may free the tape in the middle of a flush.
    if recording.pending.flushing and _is_under_way(recording):
        return
    # The usual case first: a tape that has just given its gradient left the handle on it last.
    if not _last_is_held(recording.handles) and not live(recording, recording.handles):
        retire(recording)


def compute_pending() -> None:
    """Flush the recording of this thread."""
    flush(state.recording)


def _bound_plan_for(recording: Recording, roots: tuple[Node, ...]) -> BoundPlan | None:
    """The bound plan for these roots in this state of the recording, by identity if seen before.

    None if a root depends on a placeholder, which has no value.
    """
    watched = tuple(recording.watched) if recording.tapes else ()
    plans = recording.table.plans
    # The values that a plan keeps follow from its roots and the watched sources, except those that
    # the user asked to save.
    wishes = None
    if recording.values.saved or recording.fastmath:
        wishes = (recording.values.available, frozenset(recording.values.saved), recording.fastmath)
    # Losses are outputs of the plan too, and may read leaves that no root reads.
    key = (roots, wishes or recording.values.available, watched, tuple(recording.targets))
    found: BoundPlan | None = plans.get(key)
    if found is not None:
        COUNTS.plan_hits += 1
        return found
    wanted = uncollected(_program, recording, roots, watched)
    if any(node.op is PLACEHOLDER and node not in recording.values for node in wanted.inputs):
        return None
    candidates = plans.setdefault((roots[-1], *key[1:]), [])
    found = _superset(wanted, candidates)
    if found is None:
        found = uncollected(BoundPlan, wanted, recording.fastmath)
        candidates.append(found)
    else:
        COUNTS.plan_hits += 1
    plans[key] = found
    return found


def _unknowns_of(recording: Recording, node: Node) -> list[Node]:
    """The placeholders without a value that a node depends on."""
    found = program([node], recording.values.keys()).inputs
    return [one for one in found if one.op is PLACEHOLDER and one not in recording.values]


def _superset(wanted: Program, candidates: list[BoundPlan]) -> BoundPlan | None:
    """A known plan with the wanted outputs and a few more, if it costs hardly more.

    Steps of a training loop differ in which handles happen to be alive: they share one plan.
    """
    outputs, inputs = set(wanted.outputs), set(wanted.inputs)
    for candidate in candidates:
        # Its other outputs must not need leaves that this recording may not have.
        if not candidate.inputs <= inputs:
            continue
        limit = (1 + SLACK_FACTOR) * len(wanted.nodes) + SLACK_NODES
        if candidate.node_count <= limit and outputs <= set(candidate.outputs):
            return candidate
    return None


def _program(recording: Recording, roots: Sequence[Node], watched: Sequence[Node]) -> Program:
    """The program that computes the roots, the values that a live tape keeps, and losses."""
    known = recording.values.keys()
    found = program(roots, known)
    extra = kept(found, watched) if watched else []
    discarded = recording.values.recomputed.union(roots)
    if watched and recording.values.saved:
        extra += [node for node in found.nodes if node in recording.values.saved]
        discarded -= recording.values.saved
    extra += _losses(recording, found)
    outputs = dict.fromkeys((*roots, *[node for node in extra if node not in discarded]))
    more = tuple(outputs)[len(roots) :]
    return with_outputs(found, more, known) if more else found


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
    # The leaves of a recording are numbered and have values; those of a derivative rule have none.
    valued = all(isinstance(node.params[0], int) for node in missing if node.op is LEAF)
    return targets if cheap and small and valued else []


hooks.evaluator = Evaluator(compute_handle, flush)
