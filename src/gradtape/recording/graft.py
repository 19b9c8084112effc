"""Graft: copies a pending graph of one recording into another."""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.graph.node import LEAF, Node, apart_from_recorded
from gradtape.graph.walk import substitute, topological
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value


def graft(
    into: Recording, source: Recording, node: Node, known: Mapping[Node, Node] | None = None
) -> Node:
    """Copy a pending graph from one recording to another: its leaves enter there as values."""
    replacement: dict[Node, Node] = dict(known or {})
    for found in topological([node], stop=source.values.keys()):
        if found in replacement:
            continue
        if found in source.values:
            replacement[found] = into.enter_value(source.values[found])
        elif found.op is LEAF:
            value = source.leaves[found.params[0]]
            replacement[found] = (
                into.enter_value(value)
                if type(value) is Value
                else into.add_leaf(value, found.spec)
            )
    with apart_from_recorded():
        return substitute([node], replacement)[0]
