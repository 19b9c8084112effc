"""Flush: compute what is read, together with everything else that a live handle holds.

The rules of a flush:

- What is computed: the nodes of all handles of the recording that something besides the recording
  still holds, in one plan. Reading one tensor computes its neighbours too, because they share most
  of the work, and a loop that reads one tensor in each turn then runs one plan in each.
- What is kept: while a tape is alive, the recording keeps its graph and the values of expensive
  ops that the backward pass may read (`kept_for_backward`). Without a tape it keeps nothing.
- When a recording closes: when it was flushed and no tape holds it. The thread's next op starts a
  new recording. If only tapes that have ended hold it, it stays open for their gradients, and the
  thread goes on in a new one.
- All handles get their values at once. After an interrupt everything is pending again. Handles that
  need an interrupted loop stay pending in later flushes, until one is for the value of a handle
  that needs the same loops.
- A handle whose node depends on a placeholder (a seed that stands for all rows of a Jacobian) or,
  in a trace, on an argument without a value stays pending.

A later flush in the same state finds its bound plan by identity: the key is the tuple of wanted
nodes and `KeptValues.available`, an object that stands for the values the recording holds.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import filterfalse
from operator import attrgetter
from types import FrameType

from gradtape.compiler.cpython import switch
from gradtape.compiler.objects.llvm import free_code
from gradtape.concurrency import is_interrupt
from gradtape.errors import NoValueError
from gradtape.ir.hooks import Evaluator, hooks
from gradtape.ir.node import Node, renewed_table, retire_tables
from gradtape.ir.program import forget_dead_bodies
from gradtape.ir.walk import topological
from gradtape.runtime.bound_plans import BoundPlan, plan_of_flush, program_of_flush, unknowns_of
from gradtape.runtime.plan_cache import forget_plans
from gradtape.runtime.profiler_sink import PROBE
from gradtape.trace.recording import Recording, ended, recorded, settle, state
from gradtape.trace.trace import Trace, leave_full_tables
from gradtape.trace.value import Content, Handle, Value

# Storing in many handles is one call of C code, in which no signal handler can run: after an
# interrupt either all handles of a flush have their values or none. If some had, the others would
# be computed by another plan, which may round otherwise.
_store: Callable[[Iterable[object]], object] = partial(deque, maxlen=0)
_NODE = attrgetter("node")
_set_computed, _set_node, _set_recording = (
    Handle.__dict__[name].__set__ for name in ("computed", "node", "recording")
)


def live(recording: Recording, handles: list[Handle]) -> list[Handle]:
    """Those of its handles that something besides the recording still holds.

    A count of references costs less than a weak reference for every op, which would say when a
    handle dies. A handle that was rebound may be pending in another recording.
    """
    found, count = [], sys.getrefcount
    for handle in handles:
        if count(handle) > _UNHELD and handle.recording is recording:
            found.append(handle)
    return found


def _references() -> tuple[int, int]:
    """The references to a handle that only a list holds: in a loop over it, and as its last."""
    # Measured, because interpreters differ in how many of their own they count.
    handles = [Handle(None, None, None)]
    for handle in handles:
        in_loop = sys.getrefcount(handle)
    del handle
    return in_loop, sys.getrefcount(handles[-1])


_UNHELD, _UNHELD_LAST = _references()


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
            if unknowns_of(recording, handle.node):
                raise NoValueError(
                    "this tensor has no value: it was given to a derivative written by hand, to "
                    "stand for all seeds of a Jacobian at once. Use it there, and return what is "
                    "made of it."
                )
            wanted = program_of_flush(recording, (handle.node,), ())
            bound = BoundPlan(wanted, recording.fastmath)
            content = bound.run(recording)[bound.outputs.index(handle.node)]
            handle.computed = Value(content, handle.node.spec)
            recording.values.computed_alone = True


def flush(recording: Recording, wanted: Handle | None = None) -> None:
    """Compute every live handle of the recording in one plan.

    A handle that needs an interrupted loop is computed only if `wanted` needs that loop.
    """
    if recording.flushing and _is_under_way(recording):
        # A signal handler, or a callback of the garbage collector or of a weak reference, computes
        # in the middle of a flush, which must keep its recording. A handle is computed alone.
        return
    if ended:
        settle()
    with recording.guard():
        handles = recording.handles
        try:
            recording.flushing = True
            recording.handles = type(handles)()
            tracked = _compute(recording, handles, wanted)
        except BaseException:
            # All handles go back on the list: after an error everything is still pending. Each goes
            # there once: the error may have come before they were taken off, or later than some
            # were left to wait.
            listed = set(map(id, handles))
            list.extend(handles, [h for h in recording.handles if id(h) not in listed])
            recording.handles = handles
            raise
        finally:
            recording.flushing = False
    if recording.handles:
        # Handles without a value yet stay pending in this recording.
        if recording.interrupted and state.recording is recording and not recording.active:
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


def _compute(recording: Recording, handles: list[Handle], wanted: Handle | None) -> bool:
    """Compute the live handles of a locked recording; returns whether a tape still holds it."""
    sink = PROBE.sink
    begin = 0 if sink is None else sink.begin()
    held = live(recording, handles)
    if recording.interrupted or type(recording) is not Recording:
        held = _left_after_waiting(recording, held, wanted)
    # The nodes that the recording has no value of, each once.
    has_value = recording.values.__contains__
    roots = tuple(filterfalse(has_value, dict.fromkeys(map(_NODE, held))))
    bound = plan_of_flush(recording, roots) if roots else None
    if roots and bound is None:
        held = _left_after_unknowns(recording, held)
        roots = tuple(filterfalse(has_value, dict.fromkeys(map(_NODE, held))))
        bound = plan_of_flush(recording, roots) if roots else None
    results: Mapping[Node, Content] = {}
    if bound is not None:
        if isinstance(recording, Trace):
            recording.compute_leaves(bound.bindings)
        try:
            if recording.capturing:
                results = recording.capturing.run(bound)
            else:
                results = dict(zip(bound.outputs, bound.run(recording), strict=True))
        except BaseException as error:
            if is_interrupt(error):
                # The next flush for another value must not run the same loops again.
                waiting = topological(roots, stop=recording.values.keys())
                recording.interrupted.update(
                    node for node in waiting if node.op.runs_bodies or node.op.calls_python
                )
            raise
    tracked = bool(recording.tapes)
    if tracked:
        _keep(recording, bound, held, results)
    else:
        _deliver(recording, held, results)
    if sink is not None:
        sink.flushed(recording, bound, held, results, begin)
    return tracked


def _left_after_waiting(
    recording: Recording, held: list[Handle], wanted: Handle | None
) -> list[Handle]:
    """The handles to compute now; the others go back on the recording's list.

    Those wait that need an interrupted loop, unless `wanted` needs the same, and those of a trace
    that have no value. A capture adds handles of deferred effects.
    """
    if recording.interrupted:
        needed = frozenset() if wanted is None else _interrupted_loops(recording, wanted)
        ready = [handle for handle in held if _interrupted_loops(recording, handle) <= needed]
        _put_back(recording, held, ready)
        held = ready
    if isinstance(recording, Trace):
        held = recording.with_values(held)
    if recording.capturing:
        held += recording.capturing.unused(held)
    return held


def _left_after_unknowns(recording: Recording, held: list[Handle]) -> list[Handle]:
    """The handles to compute where some depend on a placeholder; these go back on the list.

    A custom derivative has kept the cotangent that stands for all seeds at once: it and everything
    computed from it have no value.
    """
    values = recording.values
    known = [h for h in held if h.node in values or not unknowns_of(recording, h.node)]
    _put_back(recording, held, known)
    return known


def _put_back(recording: Recording, held: list[Handle], chosen: list[Handle]) -> None:
    """List handles that are not chosen again: they stay pending."""
    gone = set(map(id, chosen))
    recording.handles.extend(handle for handle in held if id(handle) not in gone)


def _keep(
    recording: Recording,
    bound: BoundPlan | None,
    held: list[Handle],
    results: Mapping[Node, Content],
) -> None:
    """Give handles their values in a recording that a tape holds, which keeps the values too."""
    values = recording.values
    if bound is not None:
        known = {node: Value(found, node.spec) for node, found in results.items()}
        # CPython calls no signal handler between these two: both happen, or neither.
        values |= known
        values.available = bound.available
    # One value for a node: a recording that reads it through another handle finds the same leaf.
    _store(map(_set_computed, held, [values[handle.node] for handle in held]))
    recording.updates = 0


def _deliver(recording: Recording, held: list[Handle], results: Mapping[Node, Content]) -> None:
    """Give handles that no tape tracks their values."""
    values, news = recording.values, []
    for handle in held:
        node = handle.node
        content = results[node] if node in results else values[node].content
        news.append(Value(content, node.spec))
    nothing = itertools.repeat(None)
    _store(
        itertools.chain(
            map(_set_computed, held, news),
            map(_set_node, held, nothing),
            map(_set_recording, held, nothing),
        )
    )
    recording.updates = 0


def _interrupted_loops(recording: Recording, handle: Handle) -> frozenset[Node]:
    """The loops that were interrupted and that a pending handle needs."""
    if handle.node is None or handle.computed is not None:
        return frozenset()
    needed = topological([handle.node], stop=recording.values.keys())
    return frozenset(recording.interrupted.intersection(needed))


def retire(recording: Recording) -> None:
    """Close a recording that no tape or handle needs, and begin the thread's next one."""
    if state.recording is recording:
        table = recording.table
        nodes = len(table.nodes) + len(table.slopes)
        nodes = len(table.nodes) + len(table.slopes)
        if table.size != nodes + len(table.plans) + len(table.derived):
            table = renewed_table()
        # First: an interrupt in between must not leave the thread with a closed recording.
        state.recording = Recording(table)
        if recording.handles and not recording.capturing and live(recording, recording.handles):
            return  # a signal handler or a callback of the garbage collector has recorded meanwhile
    recording.close()
    if recorded.recordings >= recorded.due:
        switch.consider_compiling()


def leave_full_table() -> None:
    """Begin with a new table if this thread's is full, and nothing is recorded."""
    recording = state.recording
    busy = recording.leaves or recording.tapes or recording.active or recording.handles
    if type(recording) is Recording and recording.table.is_full() and not busy:
        retire(recording)


def clear_plans() -> None:
    """Forget every plan, derivative and captured call, and free the machine code of plans.

    All of it is made again when it is next needed. What other threads have is freed when they next
    compute something or call the function.

    >>> gt.clear_plans()
    """
    forget_plans()
    retire_tables()
    leave_full_table()
    leave_full_tables()
    forget_dead_bodies()
    free_code()


def release(recording: Recording) -> None:
    """Retire a recording that a tape has let go of, unless a tape or a live handle needs it."""
    if recording.closed or recording.tapes or recording.thread != state.thread:
        return
    # The garbage collector may free the tape in the middle of a flush.
    if recording.flushing and _is_under_way(recording):
        return
    handles = recording.handles
    # The usual case first: a tape that has just given its gradient left the handle on it last.
    if handles and sys.getrefcount(handles[-1]) > _UNHELD_LAST:
        return
    if not live(recording, handles):
        retire(recording)


def compute_pending() -> None:
    """Flush the recording of this thread."""
    flush(state.recording)


hooks.evaluator = Evaluator(compute_handle, flush)
