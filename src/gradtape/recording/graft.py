"""Graft: copies a derivative that was found in one recording into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradtape.graph.hooks import hooks
from gradtape.graph.node import LEAF, PICK, Node, apart_from_recorded
from gradtape.graph.walk import substitute, topological
from gradtape.recording.handle import Handle
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value


def graft(
    into: Recording, source: Recording, node: Node, known: Mapping[Node, Node] | None = None
) -> Node:
    """Copy a derivative from one recording to another.

    What was applied in the other recording was not recorded by the tapes here: it enters as a
    value. Only what the derivative itself consists of is copied, for these tapes to differentiate.
    """
    replacement: dict[Node, Node] = dict(known or {})
    order = topological([node], stop=replacement.keys())
    applied = {found for found in order if _is_applied(source, found) or found.op is LEAF}
    for found in topological([node], stop=applied | replacement.keys()):
        if found in applied and found not in replacement:
            value = _value_of(source, found)
            replacement[found] = (
                into.enter_value(value)
                if type(value) is Value
                else into.add_leaf(value, found.spec)
            )
    with apart_from_recorded():
        return substitute([node], replacement)[0]


def _is_applied(recording: Recording, node: Node) -> bool:
    if node.op is PICK:
        return recording.has_applied(node.inputs[0])
    return type(node.spec) is not tuple and recording.has_applied(node)


def _value_of(recording: Recording, node: Node) -> Any:
    if node.op is LEAF:
        return recording.leaves[node.params[0]]
    if node not in recording.values:
        handle = recording.hold(node, Handle)
        hooks.compute_handle(handle)
        return handle.computed
    return recording.values[node]
