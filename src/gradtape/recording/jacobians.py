"""Jacobians and Hessians of what a recording holds, found by structure when derived before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import gradtape.transforms.seeded_rules  # noqa: F401 - fills the rules of transforms.seeded
from gradtape.graph.node import PICK, Node, apply, constant
from gradtape.graph.recording import Recording
from gradtape.graph.spec import spec
from gradtape.graph.walk import substitute, topological
from gradtape.ops.arithmetic import STOP_GRADIENT
from gradtape.recording.custom import PythonRules
from gradtape.recording.derive import reached
from gradtape.runtime.counters import COUNTS
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.jacobian import Question, batch_jacobian, jacobian
from gradtape.transforms.reverse import reverse


class _Deriving(threading.local):
    """The derivations under way, each asked for by the one before."""

    def __init__(self) -> None:
        self.rules: list[PythonRules] = []


_deriving = _Deriving()


class View:
    """What a tape sees of a recording: the nodes it did not record, and what it watches."""

    __slots__ = ("outside", "recording", "stops", "watched")

    def __init__(
        self,
        recording: Recording,
        outside: frozenset[Node],
        watched: tuple[Node, ...] | None,
        stops: Mapping[Node, Node] | None = None,
    ) -> None:
        self.recording = recording
        self.outside = outside
        # None: every source counts.
        self.watched = watched
        # What stands for nodes that were separated; see `separated`.
        self.stops = stops or {}

    def connected(self, source: Node, targets: tuple[Node, ...]) -> bool:
        """Whether a source counts: it is watched, or depends on something that is."""
        if self.watched is None or source in self.watched:
            return True
        return source in reached((*targets, source), self.outside, self.watched)

    def alone(self, target: Node, sources: tuple[Node, ...]) -> Node:
        """The target with what the tape did not record made constant.

        A derivative of it may contain the very nodes that were recorded outside, such as cos(x)
        as the derivative of sin(x): its own derivative must not take those for constants.
        """
        order = topological([target])
        gone = [n for n in order if n not in sources and _is_from(n, self.outside)]
        stops = {n: _stopped(n) for n in gone if type(n.spec) is not tuple}
        # A source that was itself computed from what is outside stays the node that it is.
        stops.update((n, n) for n in sources)
        return substitute([target], stops)[0]

    def separated(
        self, target: Node, sources: tuple[Node, ...]
    ) -> tuple[View, Node, tuple[Node, ...]]:
        """The same question about nodes that depend on nothing outside, for second derivatives.

        A source that was recorded outside becomes one that depends on nothing, so that the way from
        one source to another is not taken either. `restored` undoes it.
        """

        def derive(_: PythonRules) -> tuple[list[Node], dict[Node, Node]]:
            roots = (target, *sources, *(self.watched or ()))
            stops = {
                n: _stopped(n)
                for n in topological(roots)
                if type(n.spec) is not tuple and _is_from(n, self.outside)
            }
            return substitute(roots, stops), {m: n for n, m in stops.items()}

        found, stops = self.remembered(("separated", target, sources), derive)
        cut = 1 + len(sources)
        watched = None if self.watched is None else tuple(found[cut:])
        inner = View(self.recording, frozenset(), watched, stops)
        return inner, found[0], tuple(found[1:cut])

    def restored(self, node: Node) -> Node:
        """A derivative with what was separated in its place again: others may differentiate it."""
        return substitute([node], self.stops)[0] if self.stops else node

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

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not view.connected(source, (target,)):
            return None
        inner = view.alone(target, (source,))
        (found,) = reverse([inner], [constant(1, inner.spec)], [source], (), rules.pull)
        return found.dense() if isinstance(found, Rows) else found

    return view.remembered(("gradient", target, source), derive)


def derive_hessian(view: View, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`; zeros where only that vanishes."""

    def derive(rules: PythonRules) -> Node | None:
        inner, y, (a, b) = view.separated(target, (first, second))
        slope = derive_gradient(inner, y, a)
        if slope is None or derive_gradient(inner, y, b) is None:
            return None
        found = jacobian(slope, inner.question(b, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return inner.restored(found)

    return view.remembered(("hessian", target, first, second), derive)


def _stopped(node: Node) -> Node:
    """A node as a constant. Twice, because users stop gradients once."""
    return apply(STOP_GRADIENT, (apply(STOP_GRADIENT, (node,)),))


def _is_from(node: Node, outside: Collection[Node]) -> bool:
    return node in outside or (node.op is PICK and node.inputs[0] in outside)


def _differentiable(target: Node, source: Node) -> bool:
    return target.spec.inexact and source.spec.inexact
