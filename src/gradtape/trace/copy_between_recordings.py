"""Copies a derivative, or all applications, of one recording into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradtape.ir.hooks import hooks
from gradtape.ir.node import LEAF, PICK, Node, apart_from_recorded, apply, outputs
from gradtape.ir.spec import Spec
from gradtape.ir.walk import substitute, topological
from gradtape.trace.recording import Recording
from gradtape.trace.value import Handle, Value


def graft(
    into: Recording,
    source: Recording,
    nodes: Sequence[Node],
    known: Mapping[Node, Node] | None = None,
) -> list[Node]:
    """Copy derivatives from one recording to another.

    The tapes here have not recorded what the other recording applied before the derivatives were
    computed: it enters as a value. Only the nodes of the derivatives themselves are copied, for
    these tapes to differentiate.
    """
    replacement: dict[Node, Node] = dict(known or {})
    fixed = replacement.keys() | {
        found
        for found in topological(nodes, stop=replacement.keys())
        if found.op is LEAF or _was_applied(source, found)
    }
    order = topological(nodes, stop=fixed)
    read = [found for found in order if found in fixed and found not in replacement]
    for found, value in zip(read, _values_of(source, read), strict=True):
        replacement[found] = _entered(into, value, found.spec)
    # A closure that replaces nodes of its recording in what it returns cannot follow.
    closures = [
        found
        for found in order
        if found in source.rules and not getattr(source.rules[found], "replacement", None)
    ]
    with apart_from_recorded():
        copies = substitute([*nodes, *closures], replacement)
    for found, copy in zip(closures, copies[len(nodes) :], strict=True):
        into.rules.setdefault(copy, source.rules[found])
    return copies[: len(nodes)]


def can_be_joined(into: Recording, source: Recording) -> bool:
    """Whether `join` can continue a recording in another one."""
    plain = type(into) is Recording and type(source) is Recording
    if not plain or source.rules or source.values.computed_alone or source.thread != into.thread:
        return False
    if source in into.log.joined:
        # Another tape has brought it: its later applications would come before those.
        copies = into.log.joined[source][0]
        return all(node in copies for node in (*source.log, *source.watched))
    # What has entered as a value is a leaf there, and perhaps a source of a tape.
    return not any(id(value) in into.imported for value in source.values.values())


def join(into: Recording, source: Recording) -> tuple[dict[Node, Node], int]:
    """Copy the applications of a recording into another one, as made before all others there.

    Returns the copies, and what to add to a position in the one for the position in the other.
    """
    if source in into.log.joined:
        return into.log.joined[source]
    shift = min((0, *into.log.placed.values())) - len(source.log)
    copies: dict[Node, Node] = {}
    # Handles hold the outputs of a node with several, which are not listed.
    several = [node for node in source.log if type(node.spec) is tuple]
    picks = [pick for node in several for pick in outputs(node)]
    groups = source.log.returned.groups if source.log.returned is not None else []
    parts = [part for group in groups for part in group]
    for node in topological([*source.log, *picks, *parts, *source.watched, *source.values]):
        position = None if node.op is PICK else source.log.position(node)
        inputs = tuple(copies[parent] for parent in node.inputs)
        if node.op is LEAF:
            copies[node] = _entered(into, source.leaves[node.params[0]], node.spec)
        elif position is not None:
            copies[node] = into.application(node.op, inputs, node.params)
            into.log.placed[copies[node]] = position + shift
        elif inputs == node.inputs:
            copies[node] = node
        else:
            with apart_from_recorded():
                copies[node] = apply(node.op, inputs, node.params)
    for alias in source.log.aliases or ():
        into.log.add_alias(copies[alias])
    known = {copies[node]: value for node, value in source.values.items() if node in copies}
    into.values.update(known)
    into.values.available = (into.values.available, "joined", frozenset(known))
    into.watched.update((copies[node], None) for node in source.watched)
    into.log.edges[:0] = [edge + shift for edge in source.log.edges]
    into.log.joined[source] = copies, shift
    return copies, shift


def _entered(into: Recording, value: Any, of: Spec) -> Node:
    return into.enter_value(value) if type(value) is Value else into.add_leaf(value, of)


def _was_applied(recording: Recording, node: Node) -> bool:
    if type(node.spec) is tuple or (recording.log.aliases and node in recording.log.aliases):
        return False
    position = recording.log.position(node)
    return position is not None and position < recording.log.requested_at


def _values_of(recording: Recording, nodes: Sequence[Node]) -> list[Any]:
    """The values of leaves and applications of a recording; what is missing is computed at once."""
    pending = [n for n in nodes if n.op is not LEAF and n not in recording.values]
    handles = {node: recording.hold(node, Handle) for node in pending}
    for handle in handles.values():
        if handle.computed is None:
            hooks.evaluator.compute(handle)
    return [
        recording.leaves[node.params[0]]
        if node.op is LEAF
        else (handles[node].computed if node in handles else recording.values[node])
        for node in nodes
    ]
