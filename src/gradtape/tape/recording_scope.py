"""Scope: what tapes and accumulators share: entering, watching, and their windows.

All tapes of a thread share one recording. Its *windows* say what belongs to a tape: ranges of
positions in `recording.log`, one for each stretch of time in which the tape was recording. A node
that was applied outside these windows is a constant to the tape, unless the tape watches it.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Self

from gradtape.argument_checks import is_choice
from gradtape.autodiff.window import GRADIENT, derive_forward, hold_results
from gradtape.compiler.counts import COUNTS
from gradtape.concurrency import method_in_c
from gradtape.config import FEW_OUTSIDE_NODES, PENDING_AT_TAPE_ENTRY
from gradtape.display import Displayed, Fields
from gradtape.errors import ShapeError, shown
from gradtape.ir import PICK, Node, Rows, apart_from_recorded, spec
from gradtape.ir.node import slope_constant
from gradtape.ir.walk import count_visits
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import broadcast_to
from gradtape.pytree import Structure, flatten, flatten_up_to
from gradtape.runtime.flush import flush, release
from gradtape.runtime.profiler_sink import PROBE
from gradtape.suggestions import without_internals
from gradtape.tensor import Tensor, TensorLike, Variable, asarray
from gradtape.tensor.operators import Operators
from gradtape.trace.copy_between_recordings import can_be_joined, graft, join
from gradtape.trace.recording import Recording, ended, settle, state
from gradtape.trace.trace import Trace, adopt
from gradtape.trace.value import Handle

if TYPE_CHECKING:
    from gradtape.tape.lost_derivatives import ReadNumber


class _EndOfWith(partial[None]):
    """The exit of one `with` statement; only the statement holds it.

    A signal handler may raise before the first line of that call. Then the tape still records, but
    this object dies: its finaliser makes the next flush or tape leave the tape.
    """

    # The tape, until it is left.
    _pending: Sequence[Scope] = ()
    __del__ = method_in_c(ended.append)

    def settle(self) -> bool:
        """Leave the tape if it was not left; False in another thread than the one it records in."""
        (cell,) = self.args
        if cell[0]._entered is None:
            return True
        if cell[0].entered_in() != state.thread:
            return False
        _leave(cell)
        return True


def _leave(cell: list[Scope], *_: object) -> None:
    """Stop recording, whatever of it has been done already."""
    tape = cell[0]
    tape._close()
    tape._active = False
    recording, entered = tape._recording, tape._entered
    if recording is not None and tape._windows and tape._windows[-1][1] is None:
        tape._windows[-1][1] = len(recording.log)
    if entered is not None:
        tape._entered, entered.active = None, entered.active - 1
    cell.clear()


class _Exit:
    """The descriptor of `__exit__`, which gives each `with` statement a callable of its own."""

    def __get__(self, tape: Scope | None, kind: type) -> Callable[..., None]:
        if tape is None:
            return lambda tape, *_: tape.leave()
        # `with` reads it before it enters the tape; another statement leaves an entered tape.
        cell = [tape]
        if tape._entered is not None:
            return partial(_leave, cell)
        end = _EndOfWith(_leave, cell)
        end._pending = cell
        return end


def _summary(source: Any) -> str:
    """A watched tensor or Variable in a few words."""
    name = f"{source.name} " if isinstance(source, Variable) else ""
    return f"{name}{spec(source.shape, source.dtype)}"


class Scope(Displayed):
    """Base of both tapes: entering, watching, and the windows in which ops count."""

    persistent = True
    # Whether a tape that is not persistent has given its derivative.
    _consumed = False
    # Whether variables are watched when they are read.
    _watch_accessed = True
    # Numbers that were read out of tensors that this tape follows.
    numbers: tuple[ReadNumber, ...] = ()
    # Sources that have no derivative, of which `watch` has warned.
    without_derivative: frozenset[int] | set[int] = frozenset()
    # Whether `gt.grad` or a similar transform made this tape, over a call of the user's function.
    of_function = False
    # Here, because the finaliser also gets a tape that an interrupt left without attributes.
    # The recording that counts this scope as entered outlives `_recording`, which a tape lets go of
    # when it has given its gradient.
    _recording: Recording | None = None
    _entered: Recording | None = None

    __dir__ = without_internals(
        "detach entered_in follows is_entered leave note_number note_read numbers of_function "
        "settle without_derivative"
    )

    def _fields(self) -> Fields:
        recording, state_now = self._recording, "consumed" if self._consumed else "stopped"
        fields = [("state", "recording" if self._active else state_now)]
        fields.append(("persistent", str(self.persistent)))
        if recording is not None:
            outside = self._outside()
            fields.append(("ops", str(sum(node not in outside for node in recording.log))))
            sources = [_summary(source) for source, _ in self._watched.values()]
            fields.append(("watched", ", ".join(sources) or "nothing"))
        return fields

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {value}" for name, value in self._fields())
        return f"<{type(self).__name__}: {fields}>"

    def __init__(self) -> None:
        self._active = False
        # Start and end of each window; an open one has no end.
        self._windows: list[list[int | None]] = []
        # Watched objects, by id: the tensor or variable, and its node when it was watched.
        self._watched: dict[int, tuple[Handle | Variable, Node]] = {}
        self._variables: dict[int, tuple[Variable, Node | None]] = {}
        # For each node seen by `follows`, whether it depends on something watched.
        self._followed: dict[Node, bool] = {}

    def __enter__(self) -> Self:
        if self._active:
            raise ValueError(
                "this tape is recording already. Leave it first, or make another tape."
            )
        try:
            if ended:
                settle()
            state.epoch += 1
            current = state.recording
            if not current.active and (
                self._recording is not None
                or current.tapes
                or current.updates
                or current.observed
                or len(current.log) > PENDING_AT_TAPE_ENTRY
            ):
                self._begin_recording(current)
            entered = self._attach(opening=True)
            self._entered, entered.active = entered, entered.active + 1
            self._active = True
            return self
        except BaseException:
            self.leave()
            raise

    __exit__ = _Exit()
    __del__ = method_in_c(ended.append)
    # What `settle` releases. Read in C, for every tape that has died.
    _pending = property(attrgetter("_recording"))

    def settle(self) -> bool:
        """Release the recording: the tape is gone, so it gives no derivative."""
        self.detach()
        return True

    def entered_in(self) -> int:
        """The thread that entered this tape; 0 if it was left."""
        entered = self._entered
        return 0 if entered is None else entered.thread

    def leave(self) -> None:
        """Stop recording, whatever of it has been done already."""
        _leave([self])

    def _begin_recording(self, recording: Recording) -> None:
        """Compute pending updates before an outermost tape; ended tapes keep their recording."""
        own = self._recording
        if own is recording:
            return
        flush(recording)
        if own is not None and not own.closed:
            state.recording = own
        elif state.recording.tapes:
            state.recording = Recording()

    def _attach(self, opening: bool = False) -> Recording:
        key = id(self)  # first: a signal handler that computes may run at a call, and flush
        if self._recording is None or self._recording.closed:
            self._recording = state.recording
        elif self._recording is not state.recording:
            self._join(self._recording, state.recording)
        recording = self._recording
        recording.tapes[key] = self.persistent
        if opening:
            start = len(recording.log)
            self._windows.append([start, None])
            recording.log.edges.append(start)
            state.tapes.append(self)
        return recording

    def _join(self, own: Recording, into: Recording) -> None:
        """Go on in the recording of the tape around, with what this tape has recorded before."""
        if not can_be_joined(into, own):
            raise RuntimeError(
                "this tape has ended and cannot be entered again inside this other one: a custom "
                "derivative, a traced or captured function, or tensors of the tape that the other "
                "one has used keep them apart. Enter it outside, or make a new tape."
            )
        flush(own)
        copies, shift = join(into, own)
        self._windows = [
            [start + shift, None if end is None else end + shift]  # type: ignore[operator]
            for start, end in self._windows
        ]
        self._rename(copies)
        self._recording = into
        del own.tapes[id(self)]
        release(own)

    def _rename(self, copies: dict[Node, Node]) -> None:
        """Watch the copies of nodes instead of the nodes."""
        for key, (leaf, node) in self._watched.items():
            self._watched[key] = (leaf, copies[node])
        for key, (variable, read) in self._variables.items():
            self._variables[key] = (variable, copies.get(read) if read else None)

    def detach(self) -> None:
        """Release the recording: the tape gives no further derivative."""
        recording, self._recording = self._recording, None
        self._watched = {}
        if recording is not None and recording.tapes.pop(id(self), None) is not None:
            release(recording)

    def _close(self) -> None:
        tapes = state.tapes
        if self in tapes:
            recording = self._recording
            if recording is not None:
                self._windows[-1][1] = len(recording.log)
                recording.log.edges.append(len(recording.log))
            tapes.remove(self)

    def _outside(self) -> frozenset[Node]:
        """Nodes of the recording that were applied while this tape was not recording."""
        recording = self._recording
        assert recording is not None
        outside: list[Node] = []
        position = 0
        for start, end in self._windows:
            # Windows of a recording that was joined lie before the first application here.
            outside += recording.log[position : max(start, 0)]  # type: ignore[type-var]
            position = len(recording.log) if end is None else max(end, 0)
        outside += recording.log[position:]
        found = frozenset(outside)
        count_visits(len(found))
        if recording.log.returned is not None:
            found = found.union(*recording.log.returned.outside(self._windows))
        if recording.log.placed:
            placed = recording.log.placed
            inside = {node for node in placed if self._recorded_at(placed[node])}
            found = found.union(placed) - inside
        return found.difference(recording.log.aliases) if recording.log.aliases else found

    def _outside_of(self, roots: Iterable[Node]) -> frozenset[Node]:
        """As `_outside`, but perhaps only those that some nodes are computed from.

        If this tape recorded a small part of the recording, the nodes are found from the roots
        back: then the cost of a derivative does not grow with what was recorded before the tape.
        """
        recording = self._recording
        assert recording is not None
        recorded = len(recording.log)
        inside = 0
        for start, end in self._windows:
            assert start is not None
            inside += (recorded if end is None else max(end, 0)) - max(start, 0)
        if recording.log.returned is not None:
            recorded += recording.log.returned.size
        if recorded - inside <= max(inside, FEW_OUTSIDE_NODES):
            return self._outside()
        aliases = recording.log.aliases or {}
        found: set[Node] = set()
        seen = set(roots)
        waiting = list(seen)
        while waiting:
            node = waiting.pop()
            # An output of a node with several is not an application: the node is.
            position = None if node.op is PICK or node in aliases else recording.log.position(node)
            if position is not None and not self._recorded_at(position):
                found.add(node)
                continue
            for parent in node.inputs:
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        count_visits(len(seen))
        return frozenset(found)

    def _recorded_at(self, position: int) -> bool:
        # Windows are in order: the last that begins at the position or before it decides.
        at = bisect_right(self._windows, position, key=itemgetter(0))
        if not at:
            return False
        end = self._windows[at - 1][1]
        return end is None or position < end

    def _watch_node(self, source: Handle | Variable, node: Node) -> None:
        self._watched.setdefault(id(source), (source, node))
        self._followed.clear()
        if self._recording is not None:
            self._recording.watched[node] = None

    def follows(self, tensor: Handle) -> bool:
        """Whether a derivative by something watched passes through a tensor."""
        recording = self._recording
        if not self._watched or recording is None:
            return False
        if tensor.recording is recording:
            return self._depends_on_watched(tensor.node)
        # A value that was there before is watched if the leaf that it entered as is.
        stamp, leaf = (0, None) if tensor.computed is None else tensor.computed.entry
        return leaf is not None and stamp == recording.stamp and self._depends_on_watched(leaf)

    def _depends_on_watched(self, root: Node) -> bool:
        known = self._followed
        if not known:
            known.update(dict.fromkeys(self._watched_nodes(), True))
        waiting = [root]
        while waiting:
            node = waiting[-1]
            if node in known:
                waiting.pop()
                continue
            inputs: Sequence[Node] = node.inputs if _passes_derivatives(node) else ()
            unknown = [each for each in inputs if each not in known]
            if unknown:
                waiting += unknown
            else:
                known[node] = any(known[each] for each in inputs)
        return known[root]

    def note_read(self, variable: Variable, node: Node) -> None:
        """A variable was read while this tape records."""

    def note_number(self, name: str, tensor: Tensor | Variable, number: object) -> None:
        """A number was read out of a tensor while this tape records."""

    def _remembered(
        self, kind: str, target: object, sources: Sequence[object], complete: bool
    ) -> tuple[tuple[Node, ...] | None, list[Any] | None]:
        """The nodes of a target and its sources, if they alone determine the derivatives; and these
        derivatives if they are remembered under the nodes.

        A training loop records the same graph again, and its nodes are the same objects, because a
        table interns them. They determine the derivatives of the usual tape: it was entered once
        and is left, all of its recording is in its window, the sources are watched, and no tape
        records now. None for any other tape. If the derivatives must be `complete`, there is no
        None among them.
        """
        recording, windows, log = self._recording, self._windows, state.recording.log
        if (
            self._active
            or self._consumed
            or type(recording) is not Recording
            or recording is not state.recording
            or state.tapes
            or type(target) is not Tensor
            or target.recording is not recording
            or (log.returned is not None and not log.returned.lie_before(windows[-1][1]))
            or log.placed
            or self.numbers
            or recording.rules
            or len(windows) != 1
            or windows[0] != [0, len(log)]
            or not target.node.spec.inexact
        ):
            return None, None
        nodes: list[Node] = [target.node]
        for leaf in sources:
            entry = self._watched.get(id(leaf))
            if entry is None or entry[0] is not leaf:
                return None, None
            if type(leaf) is not Tensor:
                variable = self._variables.get(getattr(leaf, "number", -1))
                if variable is None or variable[1] is not entry[1]:
                    return None, None
            nodes.append(entry[1])
        key = tuple(nodes)
        # The key of a fact, which is a tuple.
        known = recording.table.derived.get((kind, key, (), ()))  # type: ignore[call-overload]
        # The long way notes the derivation in a profile.
        if known is None or (complete and None in known) or PROBE.sink is not None:
            return key, None
        COUNTS.derivative_hits += 1
        if kind is GRADIENT and key[0].spec.size == 1:
            recording.targets[key[0]] = None
        apply, hold, found = recording.application, recording.hold, []
        for each in known:
            found.append(None if each is None else hold(apply(*each), Tensor))
        return key, found

    def _end_if_single_use(self) -> None:
        if not self.persistent:
            self._consumed = True
            self.detach()

    def _watched_nodes(self) -> tuple[Node, ...]:
        return tuple(node for _, node in self._watched.values())

    def _enter(self, leaf: object, what: str) -> Node:
        """The node of a tensor or variable in this tape's recording."""
        recording = self._recording
        assert recording is not None
        if isinstance(leaf, (Handle, Variable)):
            return leaf.enter(recording)
        if flatten(leaf)[1].kind is not None:
            raise ValueError(
                f"{what}: expected one tensor or Variable, got {type(leaf).__name__}. Ask for each "
                "part of a nest."
            )
        read = self.numbers[-1] if self.numbers and isinstance(leaf, (int, float)) else None
        made = "Make a tensor with gt.asarray first."
        raise ValueError(
            f"{what}: expected a tensor, a Variable or a nest of them, got {type(leaf).__name__}. "
            + (f"{read.name} made it a number at {read.site}; use gt functions." if read else made)
        )


def _passes_derivatives(node: Node) -> bool:
    specs = node.spec if type(node.spec) is tuple else (node.spec,)
    return node.op is not STOP_GRADIENT and any(each.inexact for each in specs)


def push(
    recording: Recording,
    targets: Sequence[Node],
    nodes: Sequence[Node],
    tangents: Sequence[TensorLike | None],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of targets, in forward mode; a tangent that is None is zero."""
    entered = enter_tangents(recording, nodes, tangents)
    return derive_forward(recording, targets, nodes, entered, outside)


def enter_tangents(
    recording: Recording, nodes: Sequence[Node], tangents: Sequence[TensorLike | None]
) -> list[Node]:
    """The nodes of tangents of some nodes; one that is None is zero."""
    return [
        slope_constant(0, node.spec) if tangent is None else direction(recording, node, tangent)
        for node, tangent in zip(nodes, tangents, strict=True)
    ]


def check_unconnected(word: str) -> None:
    if not is_choice(word, ("none", "zero")):
        raise ValueError(f'unconnected_gradients: {shown(word)} is unknown. Use "none" or "zero".')


def directions(name: str, structure: Structure, given: object) -> list[TensorLike | None]:
    """One direction for each leaf of a structure; None throughout where none is given."""
    if given is None:
        return [None] * structure.count
    if (
        structure.kind is None
        and isinstance(given, (list, tuple))
        and len(given) == 1
        and isinstance(given[0], Operators)
    ):
        given = given[0]
    return flatten_up_to(structure, given, name)


# Directions that live tapes may differentiate by, given to the derivative of an ended tape: for
# each leaf in that tape's recording, the recording and the node that it came from.
_origins: weakref.WeakKeyDictionary[Recording, dict[Node, tuple[weakref.ref[Recording], Node]]] = (
    weakref.WeakKeyDictionary()
)


def _note_origin(recording: Recording, entered: Node, tensor: Tensor) -> None:
    known = _origins.setdefault(recording, {})
    for leaf in [leaf for leaf, (where, _) in known.items() if where() is None]:
        del known[leaf]
    known[entered] = (weakref.ref(state.recording), tensor.node)


def direction(recording: Recording, node: Node, given: TensorLike | None) -> Node:
    """The user's direction, or ones, in the dtype and shape of `node`."""
    if given is None:
        return slope_constant(1, node.spec)
    tensor, trace = asarray(given), state.recording
    if isinstance(trace, Trace) and tensor.recording is trace is not recording:
        # The tape is outside the traced function and cannot hold its nodes.
        entered = trace.stand_in_for(tensor.node)
    else:
        entered = tensor.enter(recording)
        if state.tapes and tensor.recording is state.recording is not recording:
            _note_origin(recording, entered, tensor)
    if entered.shape != node.shape and entered.shape != ():
        raise ShapeError(
            f"a derivative of shape {node.shape} was given a direction of shape {entered.shape}. "
            "Give one of the same shape, or a scalar."
        )
    with apart_from_recorded():
        return broadcast_to(cast(entered, node.dtype), node.shape)


def finish(
    recording: Recording,
    sources: Sequence[Any],
    results: Sequence[Node | Rows | None],
    unconnected: str,
) -> list[Any]:
    """Handles on the derivatives of one request.

    Where nothing connects, the result is None, or zeros like the tensor or variable in `sources`.
    """
    found = [
        slope_constant(0, spec(source.shape, source.dtype))
        if result is None and unconnected == "zero"
        else result
        for source, result in zip(sources, results, strict=True)
    ]
    current = state.recording
    if current is not recording:
        if isinstance(current, Trace):
            # They were requested inside a traced function, of work recorded outside it.
            nodes = [None if one is None else adopt(current, recording, one) for one in found]
            return [None if node is None else current.hold(node, Tensor) for node in nodes]
        if state.tapes:
            # Tapes that record now, in another recording, differentiate them in turn.
            origins = _origins.get(recording, {}).items()
            known = {leaf: node for leaf, (where, node) in origins if where() is current}
            found = _grafted(current, recording, found, known)
            recording = current
    return hold_results(recording, found)


def _grafted(
    into: Recording,
    source: Recording,
    results: Sequence[Node | Rows | None],
    known: dict[Node, Node],
) -> list[Node | Rows | None]:
    parts = [[one.indices, one.values] if isinstance(one, Rows) else [one] for one in results]
    nodes = [node for part in parts for node in part if node is not None]
    copies = dict(zip(nodes, graft(into, source, nodes, known), strict=True))
    return [
        Rows(copies[one.indices], copies[one.values], one.spec)
        if isinstance(one, Rows)
        else (None if one is None else copies[one])
        for one in results
    ]
