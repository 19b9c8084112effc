"""Scope: what tapes and accumulators share: entering, watching, and the windows that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.derive.gradient import derive_forward, hold_result
from gradtape.errors import ShapeError
from gradtape.evaluate.flush import flush, release
from gradtape.graph.node import Node, apart_from_recorded, slope_constant
from gradtape.graph.spec import spec
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import broadcast_to
from gradtape.pytree import Structure, flatten, flatten_up_to
from gradtape.recording.graft import graft
from gradtape.recording.handle import Handle
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace, adopt
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.variable import Variable

# At the start of an outermost tape, more pending work than this is computed first.
PENDING_AT_ENTRY = 512


class Scope:
    """What both kinds of tape share: entering, watching, and the windows in which ops count."""

    persistent = True

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._active = False
        # The recording this is entered in, even after it let go of it by giving its gradient.
        self._entered: Recording | None = None
        # Stretches of the recording, by position, during which this scope was recording.
        self._windows: list[list[int | None]] = []
        self._watched: dict[int, tuple[Any, Node]] = {}
        self._variables: dict[int, tuple[Variable, Node | None]] = {}

    def __enter__(self) -> Any:
        if self._active:
            raise ValueError(
                "this tape is recording already. Leave it first, or make another tape."
            )
        state.epoch += 1
        if not state.recording.active:
            self._begin_step()
        self._entered = self._attach()
        self._entered.active += 1
        self._active = True
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()
        self._active = False
        if self._entered is not None:
            self._entered.active -= 1
            self._entered = None

    def __del__(self) -> None:
        try:
            if self._recording is not None:
                self._detach()
        except Exception:
            pass

    def _begin_step(self) -> None:
        """An outermost tape begins a step: pending updates run now, ended tapes keep their own."""
        recording = state.recording
        own = self._recording
        if own is recording:
            return
        if (
            recording.updates
            or recording.observed
            or recording.tapes
            or len(recording.nodes) > PENDING_AT_ENTRY
        ):
            flush(recording)
        if state.recording.tapes:
            state.recording = Recording()
        if own is not None and not own.closed:
            flush(state.recording)
            state.recording = own

    def _attach(self) -> Recording:
        if self._recording is None or self._recording.closed:
            self._recording = state.recording
        elif self._recording is not state.recording:
            raise RuntimeError(
                "a tape that has ended cannot be entered again inside another one. "
                "Enter it outside, or make a new tape."
            )
        self._recording.tapes[id(self)] = self.persistent
        return self._recording

    def _detach(self) -> None:
        recording, self._recording = self._recording, None
        self._watched = {}
        if recording is not None and recording.tapes.pop(id(self), None) is not None:
            release(recording)

    def _open(self) -> None:
        recording = self._recording
        assert recording is not None
        self._windows.append([len(recording.nodes), None])
        state.tapes.append(self)

    def _close(self) -> None:
        tapes = state.tapes
        if self in tapes:
            tapes.remove(self)
            recording = self._recording
            if recording is not None:
                self._windows[-1][1] = len(recording.nodes)

    def _outside(self) -> frozenset[Node]:
        """Nodes of the recording that were applied while this tape was not recording."""
        recording = self._recording
        assert recording is not None
        outside: list[Node] = []
        position = 0
        for start, end in self._windows:
            outside += recording.nodes[position:start]
            position = len(recording.nodes) if end is None else end
        outside += recording.nodes[position:]
        return frozenset(outside)

    def _watch_node(self, key: Any, node: Node) -> None:
        self._watched.setdefault(id(key), (key, node))
        if self._recording is not None:
            self._recording.watched[node] = None

    def note_read(self, variable: Variable, node: Node) -> None:
        """A variable was read while this tape records."""

    def _enter(self, leaf: Any, what: str) -> Node:
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
        raise ValueError(
            f"{what}: expected a tensor, a Variable or a nest of them, got {type(leaf).__name__}. "
            "Make a tensor with gt.asarray first."
        )


def push(
    recording: Recording,
    targets: Sequence[Node],
    nodes: Sequence[Node],
    tangents: Sequence[Any],
    outside: frozenset[Node],
) -> list[Any]:
    """Tangents of targets, in forward mode; a tangent that is None is zero."""
    entered = [
        slope_constant(0, node.spec) if tangent is None else direction(recording, node, tangent)
        for node, tangent in zip(nodes, tangents, strict=True)
    ]
    return derive_forward(recording, targets, nodes, entered, outside)


def check_unconnected(word: str) -> None:
    if word not in ("none", "zero"):
        raise ValueError(f'unconnected_gradients: {word!r} is unknown. Use "none" or "zero".')


def directions(name: str, structure: Structure, given: Any) -> list[Any]:
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


def direction(recording: Recording, node: Node, given: Any) -> Node:
    """Ones, or what the user gave, in the dtype and shape of `node`."""
    if given is None:
        return slope_constant(1, node.spec)
    tensor, trace = asarray(given), state.recording
    if isinstance(trace, Trace) and tensor.recording is trace is not recording:
        entered = trace.stand_in_for(tensor.node)
    else:
        entered = tensor.enter(recording)
    if entered.shape != node.shape and entered.shape != ():
        raise ShapeError(
            f"a derivative of shape {node.shape} was given a direction of shape {entered.shape}. "
            "Give one of the same shape, or a scalar."
        )
    with apart_from_recorded():
        return broadcast_to(cast(entered, node.dtype), node.shape)


def finish(recording: Recording, leaf: Any, result: Any, unconnected: str) -> Any:
    """A handle on a derivative; None or zeros where nothing connects."""
    if result is None:
        if unconnected == "none":
            return None
        result = slope_constant(0, spec(leaf.shape, leaf.dtype))
    current = state.recording
    if isinstance(current, Trace) and current is not recording:
        # Asked for inside a traced function, of what was recorded outside it.
        return current.hold(adopt(current, recording, result), Tensor)
    if current is not recording and state.tapes and isinstance(result, Node):
        return current.hold(graft(current, recording, result), Tensor)
    return hold_result(recording, result)
