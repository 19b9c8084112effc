"""Recordings: the pending work of a thread.

Nodes are static. Everything that differs from one run of a program to the next lives here: the
values of the leaves, the order of applications, the handles, and the values computed so far.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from gradtape.concurrency import Process, new_lock
from gradtape.dtypes import Array
from gradtape.ir.hooks import hooks
from gradtape.ir.lines import user_line
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
from gradtape.ir.recorded_lines import note_line
from gradtape.ir.spec import Spec
from gradtape.trace.followed_number import Followed
from gradtape.trace.handle import Handle
from gradtape.trace.modes import modes
from gradtape.trace.parts import Parts
from gradtape.trace.traffic import traffic
from gradtape.trace.value import Content, LeafValue, Value

# Past this many pending applications outside any tape, a recording is flushed.
PENDING_LIMIT = 10_000

_stamps = itertools.count(1)
_reopening = new_lock()

H = TypeVar("H", bound=Handle)


class DerivativeRule(Protocol):
    """The derivative of a custom node, as a Python closure that only its recording knows."""

    def pull(self, recording: Any, node: Node, cotangents: Any) -> Sequence[Any]: ...

    def push(self, recording: Any, node: Node, tangents: Any) -> Sequence[Any]: ...


class Recording:
    """One thread's pending work since the last flush, or since the first live tape.

    The native recorder reads `handles`, `leaves`, `nodes`, `stamp` and `table` by slot.
    """

    # The recording in which the traced function was called, if this is a trace.
    outer: Recording | None = None

    __slots__ = (
        "__weakref__",
        "active",
        "aliases",
        "asked_at",
        "available",
        "closed",
        "computed_alone",
        "edges",
        "flushing",
        "forks",
        "handles",
        "imported",
        "interned",
        "interrupted",
        "joined",
        "leaves",
        "lines",
        "lock",
        "nodes",
        "observed",
        "parts",
        "placed",
        "positions",
        "recomputed",
        "repeats",
        "rules",
        "saved",
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

    # Whether this is a capture, which notes every look at a value: see gradtape.jit.capture.
    capturing = False
    # Whether its plans may reorder floating-point arithmetic.
    fastmath = False

    def __init__(self) -> None:
        # The number of this recording, larger than all before: nodes remember the newest recording
        # that applied them, values the latest that they entered.
        self.stamp = next(_stamps)
        self.thread = threading.get_ident()
        # In a forked child, the thread that holds this lock may not exist: see `guard`.
        self.lock = threading.RLock()
        self.forks = Process.forks
        self.table: Table = table()
        self.interned = self.table.nodes
        # Values and Python scalars; in a trace, None for a leaf without a value.
        self.leaves: list[Any] = []
        # The applications in order, each node once: a tape records the stretches between its entry
        # and its exit. `positions` has where each is, as far as `position` was asked, and `edges`
        # where tapes began and ended to record.
        self.nodes: list[Node] = []
        self.positions: dict[Node, int] = {}
        self.edges: list[int] = []
        # Applications that count as made earlier, at these positions: tangents, which belong to
        # the tapes that recorded what they are the tangents of, and copies from other recordings,
        # with negative positions. `joined` has the latter, and by how much positions are shifted.
        self.placed: dict[Node, int] = {}
        # What the derivatives consist of that were handed out while tapes recorded, if any.
        self.parts: Parts | None = None
        # Copies of arguments that `gt.grad` and its kin made. To every tape they are the arguments.
        self.aliases: dict[Node, None] | None = None
        # How much was applied when another recording was current and a derivative was asked for.
        self.asked_at = 0
        self.joined: dict[Recording, tuple[dict[Node, Node], int]] = {}
        # Whether a handle has a value of its own, which `values` does not have.
        self.computed_alone = False
        self.handles: list[Handle] = modes.handle_list()
        # The leaves of values, by the id of the value, which `leaves` keeps alive.
        self.imported: dict[int, Node] = {}
        # The latest twin of each application that was made more than once: see `twin`.
        self.repeats: dict[Key, Node] = {}
        # Values kept while a tape may ask for them. `available` stands for their history: two
        # recordings of one program that flushed and dropped the same have the same object here, so
        # plans and derivatives that depend on which values are known are found by identity.
        self.values: dict[Node, Value] = {}
        self.available: object = None
        # How many tapes are entered here; live tapes, by id, and whether each is persistent.
        self.active = 0
        self.tapes: dict[int, bool] = {}
        self.watched: dict[Node, None] = {}
        # Scalars whose gradient was asked for: losses, which the user is likely to look at.
        self.targets: dict[Node, None] = {}
        # Python closures of custom derivatives, by node.
        self.rules: dict[Node, DerivativeRule] = {}
        # Nodes inside a checkpoint, whose values are not kept for the backward pass, and nodes that
        # the user asked to save, whose values are kept even if they are cheap.
        self.recomputed: set[Node] = set()
        self.saved: set[Node] = set()
        # The user's line that recorded each node that may fail when a later flush runs it.
        self.lines: dict[Node, str] = {}
        # Loops that an interrupt stopped: they run again only for values that are asked for.
        self.interrupted: set[Node] = set()
        # How many variables have a pending update, and the variables read but not yet assigned.
        self.updates = 0
        self.unassigned: set[Any] = set()
        # Whether a bound plan ran on this recording outside a flush: the next outermost tape then
        # begins with a new recording.
        self.observed = False
        # Whether a flush is running, which has taken the handles off the list.
        self.flushing = False
        self.closed = False

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
        traffic.recordings += 1
        traffic.applications += len(self.nodes)
        self.leaves = []
        self.nodes = []
        self.handles = []
        self.imported = {}
        self.watched = {}
        self.targets = {}
        # What few recordings have is empty already in all others.
        self.parts = self.aliases = None
        if self.positions:
            self.positions = {}
        if self.placed:
            self.placed = {}
        if self.joined:
            self.joined = {}
        if self.repeats:
            self.repeats = {}
        if self.values:
            self.values = {}
        if self.rules:
            self.rules = {}
        if self.recomputed:
            self.recomputed = set()
        if self.saved:
            self.saved = set()
        if self.lines:
            self.lines = {}
        if self.unassigned:
            self.unassigned = set()

    def should_be_cut(self, op: Op, inputs: tuple[Node, ...], params: Params) -> bool:
        """Whether so much is pending that it should be flushed before this application.

        The cut is where the first application of the recording comes again, or at least its op. A
        cut after a fixed count of nodes would fall on another op of a loop each time, and every
        cut would need a plan of its own.
        """
        pending = len(self.nodes)
        if pending < PENDING_LIMIT or op is not self.nodes[0].op:
            return False
        again = self.interned.get(structural_key(op, inputs, params)) is self.nodes[0]
        return again or pending >= 2 * PENDING_LIMIT

    def is_full(self) -> bool:
        """Whether recording one more application has to ask `should_be_cut`."""
        return len(self.nodes) >= PENDING_LIMIT

    def lacks_value(self, node: Node) -> bool:
        """Whether a node depends on a leaf without a value, as only a trace has them."""
        return False

    def contents(self, leaf: Node) -> Array | None:
        """The value of a leaf on which a derived fact depends; None if a trace has no value."""
        value = self.leaves[leaf.params[0]]
        return np.asarray(value.array if type(value) is Value else value, leaf.dtype)

    def capture(self, operand: Any) -> Node:
        """The leaf that stands for an operand from outside the traced function."""
        raise AssertionError("this recording is inside no other")

    # What a capture does in addition: gradtape.jit.capture overrides these.

    def escape(self, what: str = "", meant: bool = False) -> None:
        """Note that a value leaves for Python code that the capture does not see."""
        raise AssertionError("this recording is not a capture")

    def unused(self, wanted: Sequence[Handle]) -> list[Handle]:
        """Handles on deferred effects that the wanted handles do not read."""
        raise AssertionError("this recording is not a capture")

    def run(self, bound: Any) -> dict[Node, Content]:
        """Run a bound plan of this recording and note it as a part of the replay."""
        raise AssertionError("this recording is not a capture")

    def is_pinned(self) -> bool:
        """Whether only persistent tapes hold this: any other will ask for its gradient soon."""
        return all(self.tapes.values())

    def enter_value(self, value: Value) -> Node:
        """The leaf of a computed value; the same value is always the same leaf."""
        stamp, node = value.entry
        if stamp == self.stamp:
            return node  # type: ignore[return-value]
        node = self.imported.get(id(value))
        if node is None:
            node = self.imported[id(value)] = self.add_leaf(value, value.spec)
        value.entry = (self.stamp, node)
        return node

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
        found = self.interned.get((of, ordinal))
        return leaf(ordinal, of) if found is None else found

    def application(self, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """The node of one more application.

        If this thread has recorded the same application before, in an earlier run of the program,
        the node exists. Its stamp tells whether it was already applied in this recording.
        """
        key = structural_key(op, inputs, params)
        found = self.interned.get(key)
        if found is None:
            return self.first_application(key, op, inputs, params)
        if found.stamp < self.stamp:
            found.stamp = self.stamp
            self.nodes.append(found)
            return found
        return self.twin(key, found)

    def first_application(self, key: Key, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """A node that this thread has not seen, entered in its table."""
        found = build(op, inputs, params)
        if is_cast_by_default(found, inputs):
            return self.application(op, found.inputs, params)
        self.interned[key] = found
        found.stamp = self.stamp
        self.nodes.append(found)
        return found

    def has_applied(self, node: Node) -> bool:
        """Whether a node is among the applications of this recording.

        The stamp of a node is the number of the newest recording that applied it, and only grows.
        So a smaller stamp than this recording's says no, an equal one yes. A larger one says that
        a newer recording has applied the node as well, while this one was open: then it is looked
        up. No order in which recordings are entered, left and asked can make that wrong.
        """
        if node.stamp <= self.stamp:
            return node.stamp == self.stamp
        return self.position(node) is not None

    def position(self, node: Node) -> int | None:
        """Which application of this recording a node is, or is an output or a part of; or None."""
        if node.op is PICK:
            node = node.inputs[0]
        known = self.positions
        if len(known) < len(self.nodes):
            for position in range(len(known), len(self.nodes)):
                known[self.nodes[position]] = position
        found = self.placed.get(node, known.get(node))
        return self.parts.position(node) if found is None and self.parts is not None else found

    def move(self, start: int, position: int) -> None:
        """Let all applications from a position on count as made at an earlier one."""
        self.placed.update(dict.fromkeys(self.nodes[start:], position))
        if self.parts is not None:
            self.parts.move(start, position)

    def add_alias(self, node: Node) -> None:
        """Note that every tape takes an application for its operand."""
        if self.aliases is None:
            self.aliases = {}
        self.aliases[node] = None

    def list_application(self, node: Node) -> Node:
        """Add a node that has not been applied here to the applications."""
        node.stamp = max(node.stamp, self.stamp)
        self.nodes.append(node)
        return node

    def twin(self, key: Key, first: Node) -> Node:
        """A second node for an application that was made in this recording before.

        After `y = x * x; z = x * x` the derivative of z by y is zero, so y and z must be different
        nodes, although the plan computes them once. Each twin is interned under the key of the
        application with the twin before it: the next run of the program finds the same twins in
        the same order.
        """
        if not self.has_applied(first):
            return self.list_application(first)
        latest = self.repeats.get(key, first)
        found = self.interned.get((*key, latest))
        if found is None:
            found = note_line(Node(first.op, first.inputs, first.params, first.spec))
            self.interned[(*key, latest)] = found
        self.repeats[key] = found
        return self.list_application(found)

    def drop(self, nodes: set[Node]) -> None:
        """Release kept values, which are computed again if a derivative reads them."""
        gone = frozenset(node for node in nodes if node in self.values)
        if gone:
            for node in gone:
                del self.values[node]
            self.available = (self.available, gone)

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
        handle = kind(node, self, None)
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
