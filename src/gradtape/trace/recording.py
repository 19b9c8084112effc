"""Recordings: the pending work of a thread.

Nodes are static. Everything that differs from one run of a program to the next lives here: the
order of applications (`Applications`), the values computed so far (`KeptValues`), the handles and
the input of their next flush (`Pending`), and the values of the leaves.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from gradtape.concurrency import Process, new_lock
from gradtape.config import MOST_PENDING_APPLICATIONS
from gradtape.dtypes import Array
from gradtape.ir.hooks import hooks
from gradtape.ir.node import (
    PICK,
    Key,
    Node,
    Params,
    Table,
    build,
    is_cast_by_default,
    leaf,
    structural_key,
    table,
)
from gradtape.ir.op import Op
from gradtape.ir.origin import note_line, user_line
from gradtape.ir.spec import Spec
from gradtape.trace.followed_number import Followed
from gradtape.trace.modes import modes
from gradtape.trace.returned_nodes import ReturnedNodes
from gradtape.trace.value import Handle, LeafValue, Value

if TYPE_CHECKING:
    from gradtape.jit.capture.capture import Capture


_stamps = itertools.count(1)
_reopening = new_lock()

H = TypeVar("H", bound=Handle)


class RecordingCounts:
    """The amount of recorded work, to decide whether compiling the recorder pays."""

    # Closed recordings, and their applications.
    recordings = 0
    applications = 0
    # The count of recordings at which compiling is considered next.
    due: float = math.inf


recorded = RecordingCounts()


class DerivativeRule(Protocol):
    """The derivative of a custom node, as a Python closure that only its recording has."""

    def pull(self, recording: Any, node: Node, cotangents: Any) -> Sequence[Any]: ...

    def push(self, recording: Any, node: Node, tangents: Any) -> Sequence[Any]: ...


class Applications(list[Node]):
    """The applications of a recording in order, each node once, and the ends of tapes' windows.

    A tape records the stretches between its entry and its exit; the *windows* of a tape are these
    ranges of positions.
    """

    __slots__ = (
        "aliases",
        "edges",
        "joined",
        "placed",
        "positions",
        "repeats",
        "requested_at",
        "returned",
    )

    def __init__(self) -> None:
        # The position of each application, as far as `position` was called, and the edges of
        # windows.
        self.positions: dict[Node, int] = {}
        self.edges: list[int] = []
        # Applications that count as made earlier, at these positions: tangents, which belong to
        # the tapes that recorded what they are the tangents of, and copies from other recordings,
        # with negative positions. `joined` has the latter, and by how much positions are shifted.
        self.placed: dict[Node, int] = {}
        self.joined: dict[Recording, tuple[dict[Node, Node], int]] = {}
        # The nodes of the derivatives that were returned while tapes recorded, if any.
        self.returned: ReturnedNodes | None = None
        # Identity copies made by gt.grad, vjp, jvp; tapes treat them as the original arguments.
        self.aliases: dict[Node, None] | None = None
        # The latest twin of each application that was made more than once: see `Recording.twin`.
        self.repeats: dict[Key, Node] = {}
        # The length of the log when a derivative was taken while another recording was current.
        self.requested_at = 0

    def position(self, node: Node) -> int | None:
        """The position of the application that a node is, or is an output or a part of; or None."""
        if node.op is PICK:
            node = node.inputs[0]
        known = self.positions
        if len(known) < len(self):
            for position in range(len(known), len(self)):
                known[self[position]] = position
        found = self.placed.get(node, known.get(node))
        return (
            self.returned.position(node) if found is None and self.returned is not None else found
        )

    def move(self, start: int, position: int) -> None:
        """Let all applications from a position on count as made at an earlier one."""
        self.placed.update(dict.fromkeys(self[start:], position))
        if self.returned is not None:
            self.returned.move(start, position)

    def add_alias(self, node: Node) -> None:
        """Note that every tape takes an application for its operand."""
        if self.aliases is None:
            self.aliases = {}
        self.aliases[node] = None


class KeptValues(dict[Node, Value]):
    """Values that are kept while a tape may need them, by node.

    `available` stands for their history: two recordings of one program that flushed and dropped the
    same have the same object here, so plans and derivatives that depend on which values are known
    are found by identity.
    """

    __slots__ = ("available", "computed_alone", "recomputed", "saved")

    def __init__(self) -> None:
        self.available: object = None
        # Nodes inside a checkpoint, whose values are not kept for the backward pass, and nodes that
        # # the user marked to be saved, whose values are kept even if they are cheap.
        self.recomputed: set[Node] = set()
        self.saved: set[Node] = set()
        # Whether a handle has a value of its own, which is not among these.
        self.computed_alone = False

    def drop(self, nodes: set[Node]) -> None:
        """Release values, which are computed again if a derivative reads them."""
        gone = frozenset(node for node in nodes if node in self)
        if gone:
            for node in gone:
                del self[node]
            self.available = (self.available, gone)


class Recording:
    """One thread's pending work since the last flush, or since the first live tape.

    The native recorder reads `handles`, `leaves`, `log`, `stamp` and `table` by slot.
    """

    __slots__ = (
        "__weakref__",
        "active",
        "closed",
        "flushing",
        "forks",
        "handles",
        "imported",
        "interned",
        "interrupted",
        "leaves",
        "lines",
        "lock",
        "log",
        "observed",
        "rules",
        "stamp",
        "table",
        "tapes",
        "targets",
        "thread",
        "unassigned",
        "updates",
        "values",
        "watched",
    )

    # The recording in which the traced function was called, if this is a trace.
    outer: Recording | None = None
    # The capture itself, if this is one: it notes every read of a value.
    capturing: Capture | None = None
    # Whether its plans may reorder floating-point arithmetic.
    fastmath = False

    def __init__(self, of: Table | None = None) -> None:
        # The number of this recording, larger than all before: nodes remember the newest recording
        # that applied them, values the latest that they entered.
        self.stamp = next(_stamps)
        self.thread = threading.get_ident()
        # In a forked child, the thread that holds this lock may not exist: see `guard`.
        self.lock = threading.RLock()
        self.forks = Process.forks
        self.table = of or table()
        self.interned = self.table.nodes
        self.log = Applications()
        self.values = KeptValues()
        self.handles: list[Handle] = modes.handle_list()
        # Values and Python scalars; in a trace, None for a leaf without a value.
        self.leaves: list[Any] = []
        # The leaves of values, by the id of the value, which `leaves` keeps alive.
        self.imported: dict[int, Node] = {}
        # The number of tapes entered here; live tapes, by id, and whether each is persistent.
        self.active = 0
        self.tapes: dict[int, bool] = {}
        self.watched: dict[Node, None] = {}
        # Scalars whose gradient was taken: losses, which the user is likely to read.
        self.targets: dict[Node, None] = {}
        # Python closures of custom derivatives, by node.
        self.rules: dict[Node, DerivativeRule] = {}
        self.closed = False
        # Whether a flush is running, which has taken the handles off the list.
        self.flushing = False
        # Loops that an interrupt stopped: they run again only for values that depend on them.
        self.interrupted: set[Node] = set()
        # The user's line that recorded each node that may fail when a later flush runs it.
        self.lines: dict[Node, str] = {}
        # Whether a bound plan ran outside a flush: the next outermost tape then begins with a new
        # recording.
        self.observed = False
        # The number of variables with a pending update, and the variables read but not yet
        # assigned.
        self.updates = 0
        self.unassigned: set[Any] = set()

    def guard(self) -> threading.RLock:
        """The lock to hold while this is computed; a new one if the process was forked since."""
        if self.forks != Process.forks:
            with _reopening:
                if self.forks != Process.forks:
                    self.lock = threading.RLock()
                    self.forks = Process.forks
        return self.lock

    def close(self) -> None:
        """Release everything; handles that were computed keep their values."""
        self.closed = True
        recorded.recordings += 1
        recorded.applications += len(self.log)
        # New containers, because a frame that is interrupted here may still read the old ones.
        self.log = Applications()
        self.leaves = []
        self.handles = []
        self.imported = {}
        self.watched = {}
        self.targets = {}
        # What few recordings have is empty already in all others.
        if self.rules:
            self.rules = {}
        if self.values or self.values.recomputed or self.values.saved:
            self.values = KeptValues()
        self.lines = {}
        self.unassigned = set()

    def should_be_cut(self, op: Op, inputs: tuple[Node, ...], params: Params) -> bool:
        """Whether the pending applications should be flushed before this one.

        The cut is where the first application of the recording comes again, or at least its op. A
        cut after a fixed count of nodes would fall on another op of a loop each time, and every
        cut would need a plan of its own.
        """
        if not self.is_full() or op is not self.log[0].op:
            return False
        again = self.interned.get(structural_key(op, inputs, params)) is self.log[0]
        return again or len(self.log) >= 2 * MOST_PENDING_APPLICATIONS

    def is_full(self) -> bool:
        """Whether recording one more application has to call `should_be_cut`."""
        return len(self.log) >= MOST_PENDING_APPLICATIONS

    def lacks_value(self, node: Node) -> bool:
        """Whether a node depends on a leaf without a value, as only a trace has them."""
        return False

    def contents(self, leaf: Node) -> Array | None:
        """The value of a leaf on which a derived fact depends; None if a trace has no value."""
        value = self.leaves[leaf.params[0]]
        return np.asarray(value.array if type(value) is Value else value, leaf.dtype)

    def is_pinned(self) -> bool:
        """Whether only persistent tapes hold this: other tapes take their gradient soon."""
        return all(self.tapes.values())

    def enter_value(self, value: Value) -> Node:
        """The leaf of a computed value; the same value is always the same leaf."""
        stamp, node = value.entry
        if stamp == self.stamp:
            return node  # type: ignore[return-value]
        node = self.imported.get(id(value))
        if node is None:
            # `add_leaf` written out: the call would cost time.
            leaves, of = self.leaves, value.spec
            leaves += (value,)
            ordinal = len(leaves) - 1
            node = self.interned.get((of, ordinal)) or leaf(ordinal, of)
            self.imported[id(value)] = node
        value.entry = (self.stamp, node)
        return node

    def enter_other(self, handle: Handle) -> Node:
        """The node that stands here for a handle of another recording, or of none."""
        source, joined = handle.recording, self.log.joined
        if joined and source in joined:
            copies = joined[source][0]
            if handle.node in copies:
                return copies[handle.node]
        if source is not None and source.capturing:
            # For the capture, a result computed elsewhere from this handle is a plain constant.
            source.capturing.escape()
        if handle.computed is None:
            hooks.evaluator.compute(handle)
            if handle.recording is self:  # it is a node of this recording after all
                return handle.node
        if self.capturing or self.outer is not None:
            return self.enter_handle(handle)
        return self.enter_value(handle.computed)  # type: ignore[arg-type]

    def enter_handle(self, handle: Handle) -> Node:
        """The leaf of a computed tensor that is not part of this recording."""
        return self.enter_value(handle.computed)  # type: ignore[arg-type]

    def add_number(self, number: Followed, of: Spec) -> Node:
        """The leaf of a followed number, which outside a capture is just a number."""
        return self.add_leaf(number.read(), of)

    def add_leaf(self, value: LeafValue, of: Spec) -> Node:
        """One more leaf with this value."""
        leaves = self.leaves
        # Not a call, after which a signal handler could record leaves before they are counted.
        leaves += (value,)
        ordinal = len(leaves) - 1
        return self.interned.get((of, ordinal)) or leaf(ordinal, of)

    def application(self, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """The node of one more application.

        If this thread has recorded the same application before, in an earlier run of the program,
        the node exists. Its stamp says whether it was already applied in this recording.
        """
        key = (op, params, *inputs) if params else (op, *inputs)  # `structural_key`
        found = self.interned.get(key)
        if found is None:
            return self.first_application(key, op, inputs, params)
        if found.stamp < self.stamp:
            found.stamp = self.stamp
            self.log.append(found)
            return found
        return self.twin(key, found)

    def first_application(self, key: Key, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """A node that this thread has not seen, entered in its table."""
        found = build(op, inputs, params)
        if is_cast_by_default(found, inputs):
            return self.application(op, found.inputs, params)
        self.interned[key] = found
        found.stamp = self.stamp
        self.log.append(found)
        return found

    def has_applied(self, node: Node) -> bool:
        """Whether a node is among the applications of this recording.

        The stamp of a node is the number of the newest recording that applied it, and only grows.
        So a smaller stamp than this recording's says no, an equal one yes. A larger one says that
        a newer recording has applied the node as well, while this one was open: then it is looked
        up. That holds for every order in which recordings are entered and left.
        """
        if node.stamp <= self.stamp:
            return node.stamp == self.stamp
        return self.log.position(node) is not None

    def twin(self, key: Key, first: Node) -> Node:
        """A second node for an application that was made in this recording before.

        After `y = x * x; z = x * x` the derivative of z by y is zero, so y and z must be different
        nodes, although the plan computes them once. Each twin is interned under the key of the
        application with the twin before it: the next run of the program finds the same twins in
        the same order.
        """
        found = first
        if self.has_applied(first):
            after = (*key, self.log.repeats.get(key, first))
            found = self.interned.get(after)  # type: ignore[assignment]
            if found is None:
                found = note_line(Node(first.op, first.inputs, first.params, first.spec))
                self.interned[after] = found
            self.log.repeats[key] = found
        found.stamp = max(found.stamp, self.stamp)
        self.log.append(found)
        return found

    def defer(self, node: Node, handle: Handle) -> None:
        """Note the user's line of an op that may fail, for the error of a later flush."""
        if self.tapes:
            self.lines.setdefault(node, user_line())

    def compute_at_once(self, handle: Handle) -> None:
        """Compute an op that may fail on the line that records it."""
        hooks.evaluator.compute(handle)

    def forget(self, handles: tuple[Handle, ...]) -> None:
        """Take handles off the list: no flush computes them."""
        gone = {id(handle) for handle in handles}
        self.handles = type(self.handles)(h for h in self.handles if id(h) not in gone)

    def hold(self, node: Node, kind: type[H]) -> H:
        """A handle on `node`, listed for the next flush."""
        # `Handle.__init__` written out: the call would cost time.
        handle: H = object.__new__(kind)
        handle.node, handle.recording, handle.computed = node, self, None
        self.handles.append(handle)
        return handle

    def hold_all(self, nodes: Sequence[Node], kind: type[H]) -> list[H]:
        """Handles on several nodes, listed for the next flush."""
        handles = [kind(node, self, None) for node in nodes]
        # In the eager mode `append` computes: only after all of them are listed.
        list.extend(self.handles, handles[:-1])  # type: ignore[misc]
        for handle in handles[-1:]:
            self.handles.append(handle)
        return handles


class State(threading.local):
    """State of a thread. The native recorder reads `recording` in its dictionary."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.recording = Recording()
        # Entered tapes, innermost last, and how many times any tape was entered.
        self.tapes: list[Any] = []
        self.epoch = 0


state = State()
# Tapes that died, in any thread, and the ends of `with tape` statements. Finalisers put them here,
# and the next flush or tape settles them: a finaliser in Python would lose interrupts.
ended: list[Any] = []


def settle() -> None:
    """Let go of the recordings of dead tapes, and leave tapes that an interrupt kept from it."""
    of_other_threads = []
    while ended:
        try:
            each = ended.pop()
        except IndexError:  # another thread has settled it
            break
        if each._pending and not each.settle():
            of_other_threads.append(each)
        del each
    ended.extend(of_other_threads)
