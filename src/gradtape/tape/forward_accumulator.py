"""ForwardAccumulator: carry tangents along with a computation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Self, overload

from gradtape.autodiff.window import applied, derive_forward
from gradtape.errors import NotRecordingError
from gradtape.ir import PICK, Node, topological
from gradtape.pytree import flatten, unflatten
from gradtape.tape.recording_scope import (
    Scope,
    check_unconnected,
    directions,
    enter_tangents,
    finish,
)
from gradtape.tensor.tensor import Tensor
from gradtape.trace import Recording, Trace, state

__all__ = ["ForwardAccumulator"]


class ForwardAccumulator(Scope):
    """Carry tangents along with a computation: forward mode.

    >>> x = gt.asarray(3.0)
    >>> with gt.ForwardAccumulator(x, gt.asarray(1.0)) as acc:
    ...     y = x * x
    >>> float(acc.jvp(y))
    6.0

    A tangent counts as computed together with its target, as if it had been carried along: an outer
    accumulator or tape that recorded the target differentiates the tangent, too.

    >>> with gt.ForwardAccumulator(x, gt.asarray(1.0)) as outer:
    ...     with gt.ForwardAccumulator(x, gt.asarray(1.0)) as inner:
    ...         y = x * x
    >>> float(outer.jvp(inner.jvp(y)))
    2.0
    """

    def __init__(self, primals: object, tangents: object) -> None:
        super().__init__()
        self._leaves, shape = flatten(primals)
        self._tangents = directions("tangents", shape, tangents)
        self._nodes: list[Node] | None = None

    def __enter__(self) -> Self:
        try:
            super().__enter__()
            if self._nodes is None:
                nodes = [self._enter(leaf, "ForwardAccumulator: primal") for leaf in self._leaves]
                for leaf, node in zip(self._leaves, nodes, strict=True):
                    self._watch_node(leaf, node)
                self._nodes = nodes
            return self
        except BaseException:
            self.leave()
            raise

    def _rename(self, copies: dict[Node, Node]) -> None:
        super()._rename(copies)
        self._nodes = [copies[node] for node in self._nodes or ()]

    @overload
    def jvp(self, target: Tensor, unconnected_gradients: str = "none") -> Tensor: ...

    @overload
    def jvp(self, target: object, unconnected_gradients: str = "none") -> Any: ...

    def jvp(self, target: object, unconnected_gradients: str = "none") -> Any:
        """The tangent of a target computed inside, in the structure of `target`.

        >>> x = gt.asarray([1.0, 2.0])
        >>> with gt.ForwardAccumulator(x, gt.asarray([1.0, 0.0])) as acc:
        ...     y = gt.sum(x * x)
        >>> float(acc.jvp(y))
        2.0
        """
        check_unconnected(unconnected_gradients)
        recording = self._recording
        if recording is None or self._nodes is None:
            raise NotRecordingError("jvp: nothing was recorded. Use `with accumulator:` first.")
        targets, structure = flatten(target)
        entered = [self._enter(leaf, "jvp: target") for leaf in targets]
        found = self._carried(recording, entered)
        # The tangent of a leaf, which has no position, is returned here and now.
        here = [
            None if _is_applied(recording, node) else tangent
            for node, tangent in zip(entered, found, strict=True)
        ]
        results = finish(recording, targets, here, unconnected_gradients)
        carried = {
            at: tangent
            for at, tangent in enumerate(found)
            if tangent is not None and here[at] is None
        }
        nodes = _placed(recording, [entered[at] for at in carried], list(carried.values()))
        for at, node in zip(carried, nodes, strict=True):
            results[at] = recording.hold(node, Tensor)
        return unflatten(structure, results)

    def _carried(self, recording: Recording, targets: list[Node]) -> list[Node | None]:
        """The tangents of the targets.

        If other scopes began or ended to record on the way, the tangents are carried from one
        stretch to the next. Those that a later stretch reads are applications of their own.
        """
        assert self._nodes is not None
        outside = self._outside_of(targets)
        sources, tangents = self._nodes, enter_tangents(recording, self._nodes, self._tangents)
        for nodes in self._stretches(recording, targets, outside):
            found = _derived(recording, nodes, sources, tangents, outside)
            known = {
                node: tangent
                for node, tangent in zip(nodes, found, strict=True)
                if tangent is not None and node not in sources
            }
            sources = [*sources, *known]
            tangents = [*tangents, *_placed(recording, list(known), list(known.values()))]
        return _derived(recording, targets, sources, tangents, outside)

    def _stretches(
        self, recording: Recording, targets: list[Node], outside: frozenset[Node]
    ) -> list[list[Node]]:
        """The applications that the targets consist of, parted where scopes began or ended.

        Empty if they are all in one stretch.
        """
        found: dict[int, list[Node]] = {}
        if len(recording.log.edges) > 2:  # more than this accumulator's own
            for node in topological(targets, stop=outside):
                position = recording.log.position(node)
                if position is not None and node not in outside and type(node.spec) is not tuple:
                    found.setdefault(bisect_right(recording.log.edges, position), []).append(node)
        return [found[stretch] for stretch in sorted(found)] if len(found) > 1 else []


def _derived(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of targets in one stretch: rules written in Python count as called there."""
    start = len(recording.log)
    found = derive_forward(recording, targets, sources, tangents, outside)
    if len(recording.log) > start:
        positions = (recording.log.position(node) for node in targets)
        recording.log.move(start, next((known for known in positions if known is not None), start))
    return found


def _is_applied(recording: Recording, node: Node) -> bool:
    """Whether the tangent of a node can be an application at its position.

    A leaf has no position, and in a traced function the tangent becomes a node of the trace.
    """
    traced = isinstance(state.recording, Trace) and state.recording is not recording
    return not traced and recording.log.position(node) is not None


def _placed(recording: Recording, nodes: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
    """The tangents of nodes as applications that count as made at the positions of the nodes."""
    found: dict[int, Node] = {}
    positions = [recording.log.position(node) or 0 for node in nodes]
    by_stretch: dict[int, list[int]] = {}
    for at, position in enumerate(positions):
        by_stretch.setdefault(bisect_right(recording.log.edges, position), []).append(at)
    for group in by_stretch.values():
        made = applied(recording, [tangents[at] for at in group], positions[group[0]])
        for at, tangent in zip(group, made, strict=True):
            recording.log.placed[tangent.inputs[0] if tangent.op is PICK else tangent] = positions[
                at
            ]
            found[at] = tangent
    return [found[at] for at in range(len(nodes))]
