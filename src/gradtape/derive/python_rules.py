"""Derivatives that only a recording knows: Python closures, and recomputation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.errors import UndefinedRuleError
from gradtape.graph.node import Node, apply
from gradtape.graph.provenance import provenance
from gradtape.graph.rows import Rows
from gradtape.graph.walk import substitute, topological
from gradtape.ops.custom.custom import BARRIER, CUSTOM
from gradtape.ops.custom.saving import NAMED, USE_SAVED
from gradtape.recording.operands import enter
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse


class Structural:
    """A rule that is part of the graph, as the key of its node: it knows no recording's values."""

    # Whether what it derives may be remembered under the structure of the graph.
    pure = True


class PythonRules:
    """Calls the rules of a recording; `used` says that a result must not be remembered."""

    def __init__(self, recording: Recording | None) -> None:
        self.recording: Any = recording
        self.used = False
        # For nodes that are computed again, the recorded ones whose values are saved.
        self.originals: dict[Node, Node] = {}

    def pull(self, node: Node, cotangents: tuple[Any, ...]) -> Sequence[Any]:
        """Reverse mode through a `custom_derivative` node."""
        key = node.params[1]
        if isinstance(key, Checkpointed):
            return key.pull_by(self, node, cotangents)
        return self._rule(node).pull(self.recording, node, cotangents)

    def push(self, node: Node, tangents: Sequence[Any]) -> Sequence[Any]:
        """Forward mode through a `custom_derivative` node."""
        key = node.params[1]
        if isinstance(key, Checkpointed):
            return key.push_by(self, node, tangents)
        return self._rule(node).push(self.recording, node, tangents)

    def _rule(self, node: Node) -> Any:
        key = node.params[1]
        if isinstance(key, Structural):
            self.used = self.used or not key.pure
            return key
        if self.recording is None:
            raise UndefinedRuleError(
                "a derivative written in Python (custom_gradient, custom_jvp) inside a system "
                "that is solved sparsely or by iteration has no second derivative. Use the dense "
                "solver: sparse=False, solver='direct'."
            )
        # A closure may do anything each time it is called.
        self.used = True
        return self.recording.rules[node]

    def saved(self, node: Node) -> Node | None:
        """The recorded node whose saved value a node has, if there is one."""
        node = self.originals.get(node, node)
        return node if self.recording is not None and node in self.recording.saved else None

    def copy(self, node: Node, copy: Node) -> None:
        """A node has been computed again: its rule is that of the first."""
        if self.recording is None or isinstance(node.params[1], Structural):
            return
        rule = self.recording.rules.get(node)
        if rule is not None:
            self.recording.rules[copy] = rule
            self.used = True


@dataclass(frozen=True)
class Checkpointed(Structural):
    """Derivatives through a graph that is computed again rather than kept, but for what is saved.

    They follow from the node itself and from what its recording saves, which is up to the policy.
    """

    policy: Any

    def pull(self, recording: Any, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
        return self.pull_by(PythonRules(recording), node, cotangents)

    def push(self, recording: Any, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        return self.push_by(PythonRules(recording), node, tangents)

    def pull_by(self, rules: PythonRules, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
        """Reverse mode."""
        count = node.params[0]
        again = {source: apply(BARRIER, (source,)) for source in node.inputs[count:]}
        copies: dict[Node, Node] = dict(again)
        saved: dict[Node, Node] = {}
        for found in topological(node.inputs[:count], stop=again):
            if found in again:
                continue
            copy = copies[found] = _rebuilt(found, copies)
            if copy is found:
                continue
            if found.op is CUSTOM:
                rules.copy(found, copy)
            original = rules.saved(found)
            if original is not None:
                rules.originals[copy] = original
                saved[copy] = apply(USE_SAVED, (original, copy))
                if found.op is NAMED:  # the same value before it got its name
                    operand = copies[found.inputs[0]]
                    saved.setdefault(operand, apply(USE_SAVED, (original, operand)))
        roots = [copies[root] for root in node.inputs[:count]]
        slopes = reverse(roots, cotangents, list(again.values()), (), rules.pull)
        if saved:
            # The walk that puts in what is saved ends where the checkpoint does.
            ends = {end: end for end in (*cotangents, *again.values())}
            slopes = _with(rules, slopes, {**saved, **ends})
        return [None] * count + list(slopes)

    def push_by(self, rules: PythonRules, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """Forward mode, which is done with the values at once."""
        count = node.params[0]
        pairs = [
            (source, tangent)
            for source, tangent in zip(node.inputs[count:], tangents[count:], strict=True)
            if tangent is not None
        ]
        roots = node.inputs[:count]
        return tuple(forward(roots, [s for s, _ in pairs], [t for _, t in pairs], (), rules.push))


def _rebuilt(node: Node, copies: dict[Node, Node]) -> Node:
    inputs = tuple(copies[parent] for parent in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    new = apply(node.op, inputs, node.params)
    noted = provenance()
    if noted is not None:
        noted.copy(node, new)
    return new


def _with(rules: PythonRules, slopes: Sequence[Any], replacement: dict[Node, Node]) -> list[Any]:
    """Slopes with nodes replaced; derivatives in Python go along."""
    new = dict(replacement)

    def of(root: Node) -> Node:
        for node in topological([root], stop=new.keys()):
            if node not in new:
                copy = new[node] = _rebuilt(node, new)
                if node.op is CUSTOM and copy is not node:
                    rules.copy(node, copy)
        return new[root]

    return [
        Rows(of(slope.indices), of(slope.values), slope.spec)
        if isinstance(slope, Rows)
        else (None if slope is None else of(slope))
        for slope in slopes
    ]


@contextlib.contextmanager
def inside(recording: Recording) -> Iterator[None]:
    """Record into `recording`, whichever the thread is at."""
    current = state.recording
    state.recording = recording
    try:
        yield
    finally:
        if state.recording is recording:
            state.recording = current


def as_nodes(recording: Recording, results: Sequence[Any]) -> list[Any]:
    return [None if result is None else enter(recording, result) for result in results]


class Replaced:
    """A closure's rule for a copy of its node: what it derives is put in the same places."""

    def __init__(self, rule: Any, origin: Node, replacement: dict[Node, Node]) -> None:
        self.rule = rule
        self.origin = origin
        self.replacement = replacement

    def push(self, recording: Recording, node: Node, tangents: Sequence[Any]) -> list[Any]:
        found = self.rule.push(recording, self.origin, tangents)
        return self._placed(recording, found, tangents)

    def pull(self, recording: Recording, node: Node, cotangents: Sequence[Any]) -> list[Any]:
        found = self.rule.pull(recording, self.origin, cotangents)
        return self._placed(recording, found, cotangents)

    def _placed(self, recording: Recording, found: Sequence[Any], stop: Sequence[Any]) -> list[Any]:
        same = {node: node for node in stop if node is not None}
        known = [node for node in found if node is not None]
        placed = iter(replaced(recording, known, {**self.replacement, **same}))
        return [None if node is None else next(placed) for node in found]


def replaced(recording: Any, roots: Sequence[Node], replacement: dict[Node, Node]) -> list[Node]:
    """`substitute`, where nodes whose derivative is a closure take it along."""
    closures = [
        node
        for node in topological(roots, stop=replacement.keys())
        if node.op is CUSTOM and node not in replacement and _is_closure(recording, node)
    ]
    found = substitute([*roots, *closures], replacement)
    for origin, copy in zip(closures, found[len(roots) :], strict=True):
        if copy is not origin and copy not in recording.rules:
            recording.rules[copy] = Replaced(recording.rules[origin], origin, replacement)
    return found[: len(roots)]


def _is_closure(recording: Any, node: Node) -> bool:
    return recording is not None and not isinstance(node.params[1], Structural)
