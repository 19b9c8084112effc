"""Recordings: the pending work of a thread, that is, leaves with values and handles on nodes.

Nodes are static. What differs from one run of a program to the next lives here: the values of the
leaves, the order of application, the handles that are still held, and the values computed so far.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

from gradtape.graph.lines import user_line
from gradtape.graph.locks import Process, new_lock
from gradtape.graph.node import TABLE_LIMIT, Node, Table, build, leaf, structural_key, table
from gradtape.graph.op import Op
from gradtape.graph.spec import Spec
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.handle import Handle
from gradtape.recording.hooks import hooks
from gradtape.recording.modes import modes
from gradtape.recording.traffic import traffic
from gradtape.recording.value import Value

# Past this many pending applications outside any tape, a recording is cut and computed.
PENDING_LIMIT = 10_000

_stamps = itertools.count(1)
_reopening = new_lock()


class Recording:
    """One thread's pending work since the last flush, or since the first live tape."""

    # Where operands come from if this is the trace of a function of arguments without values.
    outer: Any = None

    __slots__ = (
        "__weakref__",
        "active",
        "available",
        "closed",
        "flushing",
        "forks",
        "handles",
        "imported",
        "interned",
        "leaves",
        "lines",
        "lock",
        "nodes",
        "observed",
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

    # Whether looks at values are noted: see gradtape.functions.capture.
    capturing = False
    # Whether its plans may round as is quickest.
    fastmath = False

    def __init__(self) -> None:
        self.stamp = next(_stamps)
        self.thread = threading.get_ident()
        # In a forked child this lock may be held by a thread that is not there: see `guard`.
        self.lock = threading.RLock()
        self.forks = Process.forks
        self.table: Table = table()
        self.interned = self.table.nodes
        self.leaves: list[Any] = []
        self.nodes: list[Node] = []
        self.handles: list[Handle] = modes.handle_list()
        self.imported: dict[int, Node] = {}
        self.repeats: dict[tuple[Any, ...], Node] = {}
        # Values kept while a tape may ask for them, and the interned history that led to them.
        self.values: dict[Node, Any] = {}
        self.available: Any = None
        # How many tapes are entered here; live tapes, by id, and whether each is persistent.
        self.active = 0
        self.tapes: dict[int, bool] = {}
        self.watched: dict[Node, None] = {}
        # Scalars whose gradient was asked for: losses, which are likely to be looked at.
        self.targets: dict[Node, None] = {}
        # Python closures of custom derivatives, by node.
        self.rules: dict[Node, Any] = {}
        # Nodes inside a checkpoint, which are not kept for the backward pass, and those which are
        # whatever they cost.
        self.recomputed: set[Node] = set()
        self.saved: set[Node] = set()
        # The user's line that recorded a node which may fail when it runs, later.
        self.lines: dict[Node, str] = {}
        # Variables with a pending update, and those read but not yet assigned.
        self.updates = 0
        self.unassigned: set[Any] = set()
        # Whether something was computed from this without a flush: the next step begins anew.
        self.observed = False
        # Whether it is being flushed: its list of handles is empty then, though they are pending.
        self.flushing = False
        self.closed = False

    def guard(self) -> Any:
        """Its lock, to be held while it is computed; a new one where a fork has come between."""
        if self.forks != Process.forks:
            with _reopening:
                if self.forks != Process.forks:
                    self.lock = threading.RLock()
                    self.forks = Process.forks
        return self.lock

    def close(self) -> None:
        """Let go of everything; handles that were computed keep their values."""
        self.closed = True
        traffic.recordings += 1
        traffic.applications += len(self.nodes)
        self.leaves = []
        self.nodes = []
        self.handles = []
        self.imported = {}
        self.repeats = {}
        self.values = {}
        self.watched = {}
        self.targets = {}
        self.rules = {}
        self.recomputed = set()
        self.saved = set()
        self.lines = {}
        self.unassigned = set()
        if traffic.recordings >= traffic.due:
            traffic.tell()

    def should_be_cut(self, op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...]) -> bool:
        """Whether so much is pending that it should be computed before this application.

        That is where the first application of the recording comes again, or at least its op. A
        cut at a count of nodes would drift through the program that repeats, and each place
        would make structures of its own.
        """
        pending = len(self.nodes)
        if pending < PENDING_LIMIT or op is not self.nodes[0].op:
            return False
        again = self.interned.get(structural_key(op, inputs, params)) is self.nodes[0]
        return again or pending >= 2 * PENDING_LIMIT

    def is_full(self) -> bool:
        """Whether `should_be_cut` has to be asked."""
        return len(self.nodes) >= PENDING_LIMIT

    def lacks_value(self, node: Node) -> bool:
        """Whether a node cannot be computed yet; see gradtape.recording.trace."""
        return False

    def capture(self, operand: Any) -> Node:
        """The leaf that stands for an operand from outside, which only a trace has."""
        raise AssertionError("this recording is inside no other")

    def is_pinned(self) -> bool:
        """Whether only persistent tapes hold this: one that is not will ask once more, soon."""
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

    def add_number(self, number: Deferred, of: Spec) -> Node:
        """The leaf of a deferred number, which outside a captured function is just a number."""
        return self.add_leaf(number.read(), of)

    def add_leaf(self, value: Any, of: Spec) -> Node:
        leaves = self.leaves
        ordinal = len(leaves)
        leaves.append(value)
        found = self.interned.get((of, ordinal))
        return leaf(ordinal, of) if found is None else found

    def application(self, op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...]) -> Node:
        """The node of one more application here."""
        key = structural_key(op, inputs, params)
        found = self.interned.get(key)
        if found is None:
            return self.first_application(key, op, inputs, params)
        if found.stamp == self.stamp:
            return self.twin(key, found)
        found.stamp = self.stamp
        self.nodes.append(found)
        return found

    def first_application(
        self, key: tuple[Any, ...], op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...]
    ) -> Node:
        """A node that this thread has not seen, entered in its table."""
        found = build(op, inputs, params)
        if len(self.interned) > TABLE_LIMIT:
            self.table = table()
            self.interned = self.table.nodes
        self.interned[key] = found
        found.stamp = self.stamp
        self.nodes.append(found)
        return found

    def twin(self, key: tuple[Any, ...], first: Node) -> Node:
        """Another node for an application that was made here before.

        `y = x * x` and `z = x * x` are two values to a user who asks for the derivative of one by
        the other: applications are never merged while recording. The plan shares them again.
        """
        latest = self.repeats.get(key, first)
        found = self.interned.get((*key, latest))
        if found is None:
            found = Node(first.op, first.inputs, first.params, first.spec)
            self.interned[(*key, latest)] = found
        self.repeats[key] = found
        found.stamp = self.stamp
        self.nodes.append(found)
        return found

    def drop(self, nodes: set[Node]) -> None:
        """Let go of values that were computed already and shall be computed again when needed."""
        gone = frozenset(node for node in nodes if node in self.values)
        if gone:
            for node in gone:
                del self.values[node]
            self.available = (self.available, gone)

    def defer(self, node: Node, handle: Handle) -> None:
        """An op that may fail was recorded: if it does, later, its line is told."""
        if self.tapes:
            self.lines.setdefault(node, user_line())

    def compute_at_once(self, handle: Handle) -> None:
        """Compute what may fail on the line that records it."""
        hooks.compute_handle(handle)

    def forget(self, handles: tuple[Handle, ...]) -> None:
        """Take handles off the list of what a flush computes."""
        gone = {id(handle) for handle in handles}
        self.handles = type(self.handles)(h for h in self.handles if id(h) not in gone)

    def hold(self, node: Node, kind: type[Handle]) -> Any:
        """A handle on `node`, known to this recording."""
        handle = kind(node, self, None)
        self.handles.append(handle)
        return handle

    def hold_all(self, nodes: Sequence[Node], kind: type[Handle]) -> list[Any]:
        """Handles on several nodes. Where each is computed at once, they are so together."""
        handles = [kind(node, self, None) for node in nodes]
        list.extend(self.handles, handles[:-1])
        for handle in handles[-1:]:
            self.handles.append(handle)
        return handles
