"""Recording: the environment of pending work, that is, leaves with values and handles on nodes.

Nodes are static. What differs from one run of a program to the next lives here: the values of the
leaves, the order of application, the handles that are still held, and the values computed so far.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, of_scalar
from gradtape.errors import DtypeError
from gradtape.graph.lines import user_line
from gradtape.graph.locks import Process, new_lock
from gradtape.graph.node import (
    TABLE_LIMIT,
    Node,
    Table,
    apply,
    build,
    leaf,
    outputs,
    structural_key,
    table,
)
from gradtape.graph.op import Op
from gradtape.graph.operators import OPERATORS
from gradtape.graph.spec import Spec, spec
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.traffic import traffic

# Past this many pending applications outside any tape, a recording is cut and computed.
PENDING_LIMIT = 10_000
SCALARS = frozenset((bool, int, float, complex, Deferred))

_stamps = itertools.count(1)
_reopening = new_lock()


class Modes(threading.local):
    """Switches that each thread has of its own."""

    # What a recording lists its handles in; the eager debug mode installs a list that evaluates.
    handle_list: type[list[Any]] = list
    deterministic = False


modes = Modes()


class Value:
    """A computed value. `entry` remembers under which leaf the latest recording knows it.

    `content` is a NumPy array, or a buffer of the runtime's pool that becomes one when somebody
    looks: most values of a training loop are never looked at.
    """

    __slots__ = ("_address", "content", "entry", "spec")

    # Installed by the runtime: an array over a pool buffer.
    array_over: Callable[..., Any]

    def __init__(self, content: Any, of: Spec) -> None:
        self.content = content
        self.spec = of
        self._address = 0
        # One tuple, so that threads that share a value never see half of an update.
        self.entry: tuple[int, Node | None] = (0, None)

    @property
    def array(self) -> Any:
        """The value as a NumPy array."""
        content = self.content
        if isinstance(content, np.ndarray):
            return content
        return Value.array_over(content, self.spec.shape, self.spec.dtype)

    @property
    def address(self) -> int:
        """Where the elements lie, one after the other."""
        if not self._address:
            content = self.content
            if isinstance(content, np.ndarray):
                if not content.flags.c_contiguous:
                    content = self.content = np.ascontiguousarray(content)
                self._address = content.ctypes.data
            else:
                self._address = content.address
        return self._address


class _Unentered:
    """What operands that always enter through their own method have for a value."""

    entry = (-1, None)


UNENTERED = _Unentered()


class Handle:
    """What a user holds: a node in a recording while pending or tracked, a value once computed."""

    __slots__ = ("__weakref__", "computed", "node", "recording")

    # The class of what ops on this handle return, and of what views of it are.
    result_class: type[Handle]
    view_class: type[Handle]

    def __init__(self, node: Any, recording: Any, computed: Value | None) -> None:
        self.node: Any = node
        self.recording: Recording | None = recording
        self.computed = computed

    def enter(self, recording: Recording) -> Node:
        """The node that stands for this handle in `recording`."""
        if self.recording is recording:
            return self.node
        if recording.outer is not None and self.recording is not None:
            return recording.capture(self)
        if self.recording is not None and self.recording.capturing:
            # What is computed from it elsewhere comes back as a mere number.
            self.recording.escape()  # type: ignore[attr-defined]
        if self.computed is None:
            state.evaluate(self)
            if self.recording is recording:  # it was pending here all along
                return self.node
        if recording.capturing or recording.outer is not None:
            return recording.enter_handle(self)
        return recording.enter_value(self.computed)  # type: ignore[arg-type]


Handle.result_class = Handle.view_class = Handle


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
        state.evaluate(handle)

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


class State(threading.local):
    """What each thread has of its own, and the hooks that upper layers install."""

    # Installed by gradtape.evaluate.flush and gradtape.tensor; graph/ itself runs nothing.
    evaluate: Callable[..., Any]
    cut: Callable[..., Any]
    handle_class: type[Handle] = Handle
    row_sparse_class: Any = None

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.recording = Recording()
        # Entered tapes, innermost last, and how many times any was entered.
        self.tapes: list[Any] = []
        self.epoch = 0


state = State()


def host_value(data: Any, dtype: Any = None) -> Value:
    """Copy host memory into a frozen value: later changes to `data` change nothing here."""
    try:
        array = np.array(
            data, dtype=None if dtype is None else as_dtype(dtype), copy=True, order="C"
        )
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"asarray: cannot make a tensor of {type(data).__name__}: {error}"
        ) from None
    if dtype is None and array.dtype.kind not in "biufc":
        raise DtypeError(
            f"asarray: {type(data).__name__} of dtype {array.dtype} holds no numbers. "
            "Pass numbers, an array of numbers or a tensor."
        )
    array = array.astype(as_dtype(array.dtype), copy=False)
    array.flags.writeable = False
    return Value(array, spec(array.shape, array.dtype))


def enter(recording: Recording, operand: Any, partner: Any = None) -> Node:
    """The node that stands for any operand; a Python scalar adapts to dtype `partner`."""
    kind = type(operand)
    if kind is Deferred:
        return recording.add_number(operand, scalar_spec(operand.value, operand.kind, partner))
    if kind in SCALARS:
        return recording.add_leaf(operand, scalar_spec(operand, kind, partner))
    method = getattr(operand, "enter", None)
    if method is not None:
        return method(recording)
    convert = getattr(operand, "__gradtape__", None)
    if convert is not None:
        return enter(recording, convert(), partner)
    if isinstance(operand, (list, tuple)) and any_handle(operand):
        return enter(recording, stack_nest(operand), partner)
    return recording.enter_value(host_value(operand))


def scalar_spec(value: Any, kind: type, partner: Any) -> Spec:
    dtype = of_scalar(kind, partner)
    if kind is int and dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not bounds.min <= value <= bounds.max:
            raise OverflowError(
                f"{value} does not fit {dtype} ({bounds.min} to {bounds.max}). "
                "Cast the tensor to a wider dtype first."
            )
    return spec((), dtype)


def any_handle(nest: Any) -> bool:
    """Whether a nest of lists holds a tensor or variable."""
    if isinstance(nest, (list, tuple)):
        return any(any_handle(item) for item in nest)
    return hasattr(nest, "enter")


def stack_nest(nest: Any) -> Any:
    """A list of tensors is the stack of them, as NumPy would have it."""
    parts = [stack_nest(item) if isinstance(item, (list, tuple)) else item for item in nest]
    return record(OPERATORS.stack, tuple(parts), (0,))


def partner_dtype(op: Op, operands: tuple[Any, ...]) -> Any:
    """The dtype that Python scalars among the operands adapt to, or None."""
    positions = range(len(operands)) if op.weak is None else op.weak
    found = None
    for position in positions:
        dtype = getattr(operands[position], "dtype", None)
        if dtype is not None:
            found = dtype if found is None else np.promote_types(found, dtype)
    return found


def enter_operands(recording: Recording, op: Op, operands: tuple[Any, ...]) -> tuple[Node, ...]:
    """The nodes of operands of any kind; Python scalars adapt to the dtype of the others."""
    nodes: list[Any] = []
    scalars = False
    for operand in operands:
        if type(operand) in SCALARS:
            scalars = True
            nodes.append(None)
            continue
        method = getattr(operand, "enter", None)
        if method is None:
            return _enter_anything(recording, op, operands)
        nodes.append(method(recording))
    if scalars:
        weak = op.weak
        partner = None
        for position, node in enumerate(nodes):
            if node is not None and (weak is None or position in weak):
                dtype = node.spec.dtype
                partner = dtype if partner is None else np.promote_types(partner, dtype)
        for position, node in enumerate(nodes):
            if node is None:
                adapts = weak is None or position in weak
                nodes[position] = enter(recording, operands[position], partner if adapts else None)
    return tuple(nodes)


def _enter_anything(recording: Recording, op: Op, operands: tuple[Any, ...]) -> tuple[Node, ...]:
    """The same where an array, a list or another foreign object is among them."""
    partner = None
    if any(type(operand) in SCALARS for operand in operands):
        operands = as_arrays(operands)
        partner = partner_dtype(op, operands)
    weak = op.weak
    return tuple(
        enter(recording, operand, partner if weak is None or position in weak else None)
        for position, operand in enumerate(operands)
    )


def as_arrays(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give lists and other nests a dtype, so that scalars beside them can adapt."""
    return tuple(
        operand
        if type(operand) in SCALARS or hasattr(operand, "dtype")
        else (stack_nest(operand) if any_handle(operand) else np.asarray(operand))
        for operand in operands
    )


def record(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply an op to operands of any kind. On nodes it builds the graph, on all else it records."""
    for operand in operands:
        if type(operand) is Node:
            return apply(op, _as_nodes(op, operands), params)
    recording = state.recording
    inputs = enter_operands(recording, op, operands)
    if not state.tapes and recording.should_be_cut(op, inputs, params):
        state.cut()
    # Entering an operand may have flushed and closed the recording it was meant for.
    while state.recording is not recording:
        recording = state.recording
        inputs = enter_operands(recording, op, operands)
    node = recording.application(op, inputs, params)
    kind = state.handle_class
    for operand in operands:
        if isinstance(operand, Handle):
            kind = operand.result_class
            break
    if op.view:
        kind = kind.view_class
    if type(node.spec) is tuple:
        result: Any = tuple(recording.hold_all(outputs(node), kind))
        observed = result[0]
    else:
        result = observed = recording.hold(node, kind)
    if recording.closed and observed.computed is None:
        # The collector ran, and the last tape to hold the recording died. No operand is pending
        # there, or the recording would have lived: once more.
        return record(op, operands, params)
    if op.may_fail:
        recording.defer(node, observed)
        if not recording.lacks_value(node):
            try:
                recording.compute_at_once(observed)
            except BaseException:
                # The traceback holds on to what failed: it must not be tried again with other work.
                recording.forget(result if type(result) is tuple else (result,))
                raise
    return result


def _as_nodes(op: Op, operands: tuple[Any, ...]) -> tuple[Node, ...]:
    from gradtape.graph.node import constant

    operands = tuple(x.read() if type(x) is Deferred else x for x in operands)
    partner = partner_dtype(op, operands)
    return tuple(
        operand
        if type(operand) is Node
        else constant(operand, scalar_spec(operand, type(operand), partner))
        for operand in operands
    )
