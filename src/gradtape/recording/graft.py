"""Graft: copies a derivative, or all applications, of one recording into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradtape.graph.hooks import hooks
from gradtape.graph.node import LEAF, PICK, Node, apart_from_recorded, apply, outputs
from gradtape.graph.spec import Spec
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
            replacement[found] = _entered(into, _value_of(source, found), found.spec)
    with apart_from_recorded():
        return substitute([node], replacement)[0]


def can_be_joined(into: Recording, source: Recording) -> bool:
    """Whether `join` can continue a recording in another one."""
    plain = type(into) is Recording and type(source) is Recording
    if not plain or source.rules or source.computed_alone or source.thread != into.thread:
        return False
    if source in into.joined:
        # Another tape has brought it: its later applications would come before those.
        copies = into.joined[source][0]
        return all(node in copies for node in (*source.nodes, *source.watched))
    # What has entered as a value is a leaf there, and perhaps a source of a tape.
    return not any(id(value) in into.imported for value in source.values.values())


def join(into: Recording, source: Recording) -> tuple[dict[Node, Node], int]:
    """Copy the applications of a recording into another one, as made before all others there.

    Returns the copies, and what to add to a position in the one for the position in the other.
    """
    if source in into.joined:
        return into.joined[source]
    shift = min((0, *into.placed.values())) - len(source.nodes)
    copies: dict[Node, Node] = {}
    # Handles hold the outputs of a node with several, which are not listed.
    several = [node for node in source.nodes if type(node.spec) is tuple]
    picks = [pick for node in several for pick in outputs(node)]
    for node in topological([*source.nodes, *picks, *source.watched, *source.values]):
        position = source.position(node)
        inputs = tuple(copies[parent] for parent in node.inputs)
        if node.op is LEAF:
            copies[node] = _entered(into, source.leaves[node.params[0]], node.spec)
        elif position is not None:
            copies[node] = into.application(node.op, inputs, node.params)
            into.placed[copies[node]] = position + shift
        elif inputs == node.inputs:
            copies[node] = node
        else:
            with apart_from_recorded():
                copies[node] = apply(node.op, inputs, node.params)
    known = {copies[node]: value for node, value in source.values.items() if node in copies}
    into.values.update(known)
    into.available = (into.available, "joined", frozenset(known))
    into.watched.update((copies[node], None) for node in source.watched)
    into.edges[:0] = [edge + shift for edge in source.edges]
    into.joined[source] = copies, shift
    return copies, shift


def _entered(into: Recording, value: Any, of: Spec) -> Node:
    return into.enter_value(value) if type(value) is Value else into.add_leaf(value, of)


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
