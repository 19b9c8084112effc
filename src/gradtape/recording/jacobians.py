"""Jacobians and Hessians of what a recording holds, found by structure when derived before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gradtape.transforms.seeded_rules  # noqa: F401 - fills the rules of transforms.seeded
from gradtape.graph.node import Node, constant
from gradtape.graph.recording import Recording, state
from gradtape.graph.spec import spec
from gradtape.recording.apart import Apart
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

    __slots__ = ("blocked", "outside", "recording", "watched")

    def __init__(
        self,
        recording: Recording,
        outside: frozenset[Node],
        watched: tuple[Node, ...] | None,
        blocked: frozenset[Node] = frozenset(),
    ) -> None:
        self.recording = recording
        self.outside = outside
        # None: every source counts.
        self.watched = watched
        # Where no derivative passes, though all the rest is inside; see `separated`.
        self.blocked = blocked

    def connected(self, source: Node, targets: tuple[Node, ...]) -> bool:
        """Whether a source counts: it is watched, or depends on something that is."""
        if self.watched is None or source in self.watched:
            return True
        return source in reached((*targets, source), self.outside | self.blocked, self.watched)

    def alone(self, target: Node, sources: tuple[Node, ...], rules: PythonRules) -> Apart:
        """The target with what the tape did not record made constant.

        A derivative of it may contain the very nodes that were recorded outside, such as cos(x)
        as the derivative of sin(x): its own derivative must not take those for constants.
        """
        return Apart([target], sources, self.outside, rules)

    def separated(self, target: Node, sources: tuple[Node, ...]) -> tuple[View, Apart]:
        """The same question about a target that depends on nothing outside."""
        found = self.remembered(
            ("separated", target, sources), lambda rules: self.alone(target, sources, rules)
        )
        return View(self.recording, frozenset(), self.watched, found.blocked), found

    def beyond(self) -> View:
        """The same for derivatives of what `derive_gradient` gives: nothing is outside there."""
        return View(self.recording, frozenset(), self.watched, self.blocked)

    def remembered(self, key: tuple[Any, ...], derive: Callable[[PythonRules], Any]) -> Any:
        """A derivative by structure; one that ran Python code is never remembered."""
        derived = self.recording.table.derived
        key = (*key, self.outside, self.watched, self.blocked)
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
        return Question(source, mode, self.outside | self.blocked, rules.push, rules.pull)


def derive_jacobian(view: View, target: Node, source: Node, mode: str) -> Node | None:
    """The dense Jacobian of one node by another; None where nothing connects them."""

    def derive(rules: PythonRules) -> Node | None:
        return _derived(jacobian, view, target, source, mode, rules)

    return view.remembered(("jacobian", target, source, mode, bool(state.tapes)), derive)


def derive_batch_jacobian(view: View, target: Node, source: Node, mode: str) -> Node | None:
    """The Jacobian of each example; that examples are independent is for the caller to know."""

    def derive(rules: PythonRules) -> Node | None:
        return _derived(batch_jacobian, view, target, source, mode, rules)

    return view.remembered(("batch_jacobian", target, source, mode, bool(state.tapes)), derive)


def _derived(
    transform: Callable[[Node, Question], Node | None],
    view: View,
    target: Node,
    source: Node,
    mode: str,
    rules: PythonRules,
) -> Node | None:
    if not _differentiable(target, source) or not view.connected(source, (target,)):
        return None
    if not (view.outside and state.tapes):
        return transform(target, view.question(source, mode, rules))
    # Who records now may differentiate the result.
    apart = view.alone(target, (source,), rules)
    inner = View(view.recording, frozenset(), view.watched, apart.blocked)
    found = transform(apart.roots[0], inner.question(source, mode, rules))
    return None if found is None else apart.rejoined([found], (source,), rules)[0]


def derive_gradient(view: View, target: Node, source: Node) -> Node | None:
    """The gradient of the sum of a target, dense."""

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not view.connected(source, (target,)):
            return None
        inner = view.alone(target, (source,), rules)
        blocked = view.blocked | inner.blocked
        seed = constant(1, target.spec)
        (found,) = reverse(inner.roots, [seed], [source], blocked, rules.pull)
        return found.dense() if isinstance(found, Rows) else found

    return view.remembered(("gradient", target, source), derive)


def derive_hessian(view: View, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`; zeros where only that vanishes."""

    def derive(rules: PythonRules) -> Node | None:
        inner, apart = view.separated(target, (first, second))
        (y,) = apart.roots
        slope = derive_gradient(inner, y, first)
        if slope is None or derive_gradient(inner, y, second) is None:
            return None
        found = jacobian(slope, inner.question(second, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return apart.rejoined([found], (first, second), rules)[0]

    return view.remembered(("hessian", target, first, second), derive)


def _differentiable(target: Node, source: Node) -> bool:
    return target.spec.inexact and source.spec.inexact
