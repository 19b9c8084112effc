"""Apart: a graph without what a tape did not record, and its derivatives put back in place.

Nodes are interned. A derivative may contain the very nodes that were recorded before the tape, such
as cos(x) as the derivative of sin(x); whoever differentiates it again must not take those for
constants. Here what was recorded outside is made constant first, under nodes of its own, so that
both can be told apart afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gradtape.graph.node import PICK, Node, apply
from gradtape.graph.provenance import provenance
from gradtape.graph.rows import Rows
from gradtape.graph.walk import topological
from gradtape.ops.arithmetic import STOP_GRADIENT
from gradtape.ops.custom import CUSTOM
from gradtape.recording.custom import PythonRules, Structural


class Apart:
    """Roots that depend on nothing outside but by constants; sources stay the nodes they are."""

    __slots__ = ("_back", "_by_hand", "_outside", "blocked", "roots")

    def __init__(
        self,
        roots: Sequence[Node],
        sources: Sequence[Node],
        outside: frozenset[Node],
        rules: PythonRules,
    ) -> None:
        self._outside = outside
        self._by_hand = False
        new: dict[Node, Node] = {source: source for source in sources}
        for node in topological(roots, stop=new.keys()):
            if node in new:
                continue
            if type(node.spec) is not tuple and is_from(node, outside):
                # Twice, because users stop gradients once.
                new[node] = apply(STOP_GRADIENT, (apply(STOP_GRADIENT, (node,)),))
            else:
                new[node] = _rebuilt(node, new, rules)
                if node.op is CUSTOM and not isinstance(node.params[1], Structural):
                    self._by_hand = True
        self.roots = [new[root] for root in roots]
        self._back = {copy: node for node, copy in new.items() if copy is not node}
        # What leads from one source to another outside is no way either.
        self.blocked = frozenset(n for n in topological(sources) if is_from(n, outside))

    def rejoined(
        self, results: Sequence[Any], given: Sequence[Node], rules: PythonRules
    ) -> list[Any]:
        """Derivatives of the roots with all that was recorded in its place again.

        What they have in common with what was recorded outside, and were not given, becomes nodes
        of their own; but a rule written in Python may well read what is outside.
        """
        if not self._outside:
            return list(results)
        new: dict[Node, Node] = {**self._back, **{node: node for node in given}}
        outside = frozenset[Node]() if self._by_hand else self._outside

        def of(root: Node) -> Node:
            for node in topological([root], stop=new.keys()):
                if node not in new:
                    own = node in outside
                    new[node] = _twin(node, new) if own else _rebuilt(node, new, rules)
            return new[root]

        return [
            Rows(of(found.indices), of(found.values), found.spec)
            if isinstance(found, Rows)
            else (None if found is None else of(found))
            for found in results
        ]


def is_from(node: Node, outside: Collection[Node]) -> bool:
    """Whether a node, or what it is an output of, was recorded outside."""
    return node in outside or (node.op is PICK and node.inputs[0] in outside)


def _twin(node: Node, new: Mapping[Node, Node]) -> Node:
    found = Node(node.op, tuple(new[parent] for parent in node.inputs), node.params, node.spec)
    noted = provenance()
    if noted is not None:
        noted.copy(node, found)
    return found


def _rebuilt(node: Node, new: Mapping[Node, Node], rules: PythonRules) -> Node:
    inputs = tuple(new[parent] for parent in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    copy = apply(node.op, inputs, node.params)
    noted = provenance()
    if noted is not None:
        noted.copy(node, copy)
    if node.op is CUSTOM:
        rules.copy(node, copy)
    return copy
