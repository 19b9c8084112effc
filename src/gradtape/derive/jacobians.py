"""Jacobians and Hessians of what a recording holds, found by structure when derived before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.derive.gradient import reached
from gradtape.derive.python_rules import PythonRules, replaced
from gradtape.graph.node import PICK, Node, apart_from_recorded, apply, constant
from gradtape.graph.spec import spec
from gradtape.graph.walk import topological
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT
from gradtape.recording.recording import Recording
from gradtape.runtime.counters import COUNTS
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.jacobian import Question, batch_jacobian, jacobian
from gradtape.transforms.reverse import reverse


class _Deriving(threading.local):
    """The derivations under way, each asked for by the one before."""

    def __init__(self) -> None:
        self.rules: list[PythonRules] = []


_deriving = _Deriving()


def _depends(node: Node, sources: tuple[Node, ...]) -> bool:
    """Whether a source depends on another one."""
    return any(other in sources for other in topological([node])[:-1])


@dataclass(frozen=True)
class Alone:
    """A target that holds still whatever its tape did not record, and the sources in it."""

    target: Node
    sources: tuple[Node, ...]
    # What was there, for each node that stands for it: outer tapes see through them.
    back: Mapping[Node, Node]
    recording: Recording

    def restored(self, nodes: Sequence[Node]) -> list[Node]:
        """Derivatives in terms of what was recorded."""
        if not self.back:
            return list(nodes)
        with apart_from_recorded():
            return replaced(self.recording, nodes, dict(self.back))


@dataclass(frozen=True)
class Slope:
    """A gradient whose own derivative by `by` is that of the gradient."""

    node: Node
    by: Node
    alone: Alone


class View:
    """What a tape sees of a recording: the nodes it did not record, and what it watches."""

    __slots__ = ("outside", "recording", "watched")

    def __init__(
        self,
        recording: Recording,
        outside: frozenset[Node],
        watched: tuple[Node, ...] | None,
    ) -> None:
        self.recording = recording
        self.outside = outside
        # None: every source counts.
        self.watched = watched

    def connected(self, source: Node, targets: tuple[Node, ...]) -> bool:
        """Whether a source counts: it is watched, or depends on something that is."""
        if self.watched is None or source in self.watched:
            return True
        return source in reached((*targets, source), self.outside, self.watched)

    def alone(self, target: Node, sources: tuple[Node, ...]) -> Alone:
        """The target with what the tape did not record made constant.

        A derivative of it may contain the very nodes that were recorded outside, such as cos(x)
        as the derivative of sin(x): its own derivative must not take those for constants.
        """
        if not self.outside:
            return Alone(target, sources, {}, self.recording)
        replacement: dict[Node, Node] = {}
        back: dict[Node, Node] = {}
        with apart_from_recorded():
            for node in topological([target, *sources]):
                if node in sources and not _depends(node, sources):
                    # How it came about is of no interest, and it must be found in the target.
                    replacement[node] = node
                elif type(node.spec) is not tuple and self._is_outside(node):
                    held = replacement[node] = apply(STOP_GRADIENT, (node,))
                    back[held] = node
            first, *rest = replaced(self.recording, [target, *sources], replacement)
        return Alone(first, tuple(rest), back, self.recording)

    def _is_outside(self, node: Node) -> bool:
        return node in self.outside or (node.op is PICK and node.inputs[0] in self.outside)

    def beyond(self) -> View:
        """The same for derivatives of what `derive_gradient` gives: nothing is outside there."""
        return View(self.recording, frozenset(), self.watched)

    def remembered(self, key: tuple[Any, ...], derive: Callable[[PythonRules], Any]) -> Any:
        """A derivative by structure; one that ran Python code is never remembered."""
        derived = self.recording.table.derived
        key = (*key, self.outside, self.watched)
        if key in derived:
            COUNTS.derivative_hits += 1
            return derived[key]
        COUNTS.derivatives_built += 1
        rules = PythonRules(self.recording)
        _deriving.rules.append(rules)
        try:
            with apart_from_recorded():
                found = derive(rules)
        finally:
            _deriving.rules.pop()
        if not rules.used:
            derived[key] = found
        elif _deriving.rules:
            # What is made of this one is not to be remembered either.
            _deriving.rules[-1].used = True
        return found

    def question(self, source: Node, mode: str, rules: PythonRules) -> Question:
        return Question(source, mode, self.outside, rules.push, rules.pull)


def derive_jacobian(view: View, target: Node, source: Node, mode: str) -> Node | None:
    """The dense Jacobian of one node by another; None where nothing connects them."""

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not view.connected(source, (target,)):
            return None
        return jacobian(target, view.question(source, mode, rules))

    return view.remembered(("jacobian", target, source, mode), derive)


def derive_batch_jacobian(view: View, target: Node, source: Node, mode: str) -> Node | None:
    """The Jacobian of each example; that examples are independent is for the caller to know."""

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not view.connected(source, (target,)):
            return None
        return batch_jacobian(target, view.question(source, mode, rules))

    return view.remembered(("batch_jacobian", target, source, mode), derive)


def derive_gradient(view: View, target: Node, source: Node) -> Node | None:
    """The gradient of the sum of a target, dense."""
    slope = derive_slope(view, target, source, source)
    return None if slope is None else slope.alone.restored([slope.node])[0]


def derive_slope(view: View, target: Node, source: Node, by: Node) -> Slope | None:
    """The gradient of the sum of a target by `source`, to be differentiated by another source."""

    def derive(rules: PythonRules) -> Slope | None:
        if not _differentiable(target, source) or not view.connected(source, (target,)):
            return None
        alone = view.alone(target, (source, by))
        inner, (first, second) = alone.target, alone.sources
        (found,) = reverse([inner], [constant(1, inner.spec)], [first], (), rules.pull)
        if found is None:
            return None
        return Slope(found.dense() if isinstance(found, Rows) else found, second, alone)

    return view.remembered(("slope", target, source, by), derive)


def derive_hessian(view: View, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`; zeros where only that vanishes."""

    def derive(rules: PythonRules) -> Node | None:
        slope = derive_slope(view, target, first, second)
        if slope is None or derive_slope(view, target, second, second) is None:
            return None
        found = jacobian(slope.node, view.beyond().question(slope.by, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return slope.alone.restored([found])[0]

    return view.remembered(("hessian", target, first, second), derive)


def _differentiable(target: Node, source: Node) -> bool:
    return target.spec.inexact and source.spec.inexact
