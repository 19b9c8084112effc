"""Derivative rules of custom nodes: Python closures of a recording, and checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from gradtape.autodiff.modes import Slope, forward, reverse
from gradtape.errors import UndefinedRuleError
from gradtape.ir import Node, Rows, apply, substitute, topological
from gradtape.ir.origin import follow
from gradtape.ops.custom.custom import ASSIGNED, BARRIER, CUSTOM, NAMED
from gradtape.records import dataclass
from gradtape.trace import enter
from gradtape.trace.recording import DerivativeRule, Recording, state


class Structural:
    """A rule that is a param of its node, not a closure: it is found with the structure."""

    # Whether derivatives by this rule may be kept under the structure of the graph.
    pure = True


class PythonRules:
    """The rules of custom nodes, called by forward and reverse mode.

    `used` becomes true when a closure ran: the next time it may do something else, so derivatives
    made with it must not be kept.
    """

    def __init__(self, recording: Recording | None) -> None:
        self.recording: Any = recording
        self.used = False
        # The recorded nodes with saved values, by the copies that a checkpoint recomputes.
        self.originals: dict[Node, Node] = {}

    def pull(self, node: Node, cotangents: tuple[Any, ...]) -> Sequence[Slope | None]:
        """Reverse mode through a `custom_derivative` node."""
        return self._rule(node).pull(self, node, cotangents)

    def push(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Forward mode through a `custom_derivative` node."""
        return self._rule(node).push(self, node, tangents)

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
        """The recorded node with the saved value of this node, or None."""
        node = self.originals.get(node, node)
        return node if self.recording is not None and node in self.recording.values.saved else None

    def copy(self, node: Node, copy: Node) -> None:
        """Give the copy of a node the rule of the node."""
        if self.recording is None or isinstance(node.params[1], Structural):
            return
        rule = self.recording.rules.get(node)
        if rule is not None:
            self.recording.rules[copy] = rule
            self.used = True


@dataclass(frozen=True)
class Checkpointed(Structural):
    """Derivatives through a graph that is recomputed in the backward pass.

    The policy chose the values that the recording saves; only these are not recomputed.
    """

    policy: Any

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...]
    ) -> list[Slope | None]:
        """Reverse mode, through a copy behind barriers: no plan shares it with the first pass."""
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
                saved[copy] = apply(ASSIGNED, (original, copy))
                if found.op is NAMED:  # its operand has the same value
                    operand = copies[found.inputs[0]]
                    saved.setdefault(operand, apply(ASSIGNED, (original, operand)))
        roots = [copies[root] for root in node.inputs[:count]]
        slopes = reverse(roots, cotangents, list(again.values()), (), rules)
        if saved:
            # Saved values replace nodes inside the checkpoint only: the walk ends at its edges.
            ends = {end: end for end in (*cotangents, *again.values())}
            slopes = _with_replaced(rules, slopes, {**saved, **ends})
        return [None] * count + list(slopes)

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Forward mode, which reads the values right after they are computed: no copy."""
        count = node.params[0]
        return forward(node.inputs[:count], node.inputs[count:], tangents[count:], (), rules)


def _rebuilt(node: Node, copies: dict[Node, Node]) -> Node:
    inputs = tuple(copies[parent] for parent in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    new = apply(node.op, inputs, node.params)
    follow(node, new)
    return new


def _with_replaced(
    rules: PythonRules, slopes: Sequence[Slope | None], replacement: dict[Node, Node]
) -> list[Slope | None]:
    """Cotangents with nodes replaced; the copies of custom nodes get their rules."""
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
    """Record into `recording` instead of the thread's own."""
    current = state.recording
    state.recording = recording
    try:
        yield
    finally:
        if state.recording is recording:
            state.recording = current


def as_nodes(recording: Recording, results: Sequence[Any]) -> list[Node | None]:
    """The nodes of what a user's rule returned."""
    return [None if result is None else enter(recording, result) for result in results]


class Replaced:
    """The rule of a closure for a copy of its node, with the same nodes replaced in the result."""

    def __init__(self, rule: DerivativeRule, origin: Node, replacement: dict[Node, Node]) -> None:
        self.rule = rule
        self.origin = origin
        self.replacement = replacement

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> list[Node | None]:
        return self._placed(rules, self.rule.push(rules, self.origin, tangents), tangents)

    def pull(
        self, rules: PythonRules, node: Node, cotangents: Sequence[Node | None]
    ) -> list[Node | None]:
        return self._placed(rules, self.rule.pull(rules, self.origin, cotangents), cotangents)

    def _placed(
        self, rules: PythonRules, found: Sequence[Node | None], stop: Sequence[Node | None]
    ) -> list[Node | None]:
        same = {node: node for node in stop if node is not None}
        known = [node for node in found if node is not None]
        placed = iter(replaced(rules.recording, known, {**self.replacement, **same}))
        return [None if node is None else next(placed) for node in found]


def replaced(
    recording: Recording | None, roots: Sequence[Node], replacement: dict[Node, Node]
) -> list[Node]:
    """`substitute`, where the copies of nodes whose derivative is a closure get the closure."""
    closures = [
        node
        for node in topological(roots, stop=replacement.keys())
        if node.op is CUSTOM and node not in replacement and _is_closure(recording, node)
    ]
    found = substitute([*roots, *closures], replacement)
    for origin, copy in zip(closures, found[len(roots) :], strict=True):
        assert recording is not None
        if copy is not origin and copy not in recording.rules:
            recording.rules[copy] = Replaced(recording.rules[origin], origin, replacement)
    return found[: len(roots)]


def _is_closure(recording: Recording | None, node: Node) -> bool:
    return recording is not None and not isinstance(node.params[1], Structural)
