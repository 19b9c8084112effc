"""Gradients and tangents of a recording, kept by structure: a repeated question derives nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gradtape.derive.python_rules import PythonRules
from gradtape.graph import Rows, dependents, topological
from gradtape.graph.hooks import hooks
from gradtape.graph.node import PICK, Node, apart_from_recorded, is_slope, pick
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.recording.recording import Recording
from gradtape.recording.unobserved import unobserved
from gradtape.runtime.counters import COUNTS
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse


def derive_reverse(
    recording: Recording,
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    outside: frozenset[Node],
    watched: tuple[Node, ...] | None,
) -> list[Node | Rows | None]:
    """Cotangents of the sources. A source counts if it is watched or depends on one that is."""
    recording.targets.update((target, None) for target in targets if target.spec.size == 1)
    if watched is not None and all(source in watched for source in sources):
        watched = None
    key = ("reverse", tuple(targets), tuple(cotangents), tuple(sources), outside, watched)
    found = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
        return found
    COUNTS.derivatives_built += 1
    rules = PythonRules(recording)
    asked = list(sources)
    if watched is not None:
        connected = reached((*targets, *sources), outside, watched)
        # The derivative of a target by itself is one, watched or not.
        asked = [source for source in sources if source in connected or source in targets]
    with apart_from_recorded():
        if recording.rules:
            results = reverse(targets, cotangents, asked, outside, rules.pull)
        else:
            results = unobserved(reverse, targets, cotangents, asked, outside, rules.pull)
    by_source = dict(zip(asked, results, strict=True))
    found = [by_source.get(source) for source in sources]
    if not rules.used:
        recording.table.derived[key] = found
    return found


def reached(nodes: Sequence[Node], outside: Collection[Node], watched: Sequence[Node]) -> set[Node]:
    """The watched nodes, and the nodes that depend on them through nodes inside the window."""
    order = (node for node in topological(nodes) if node not in outside or node in watched)
    return dependents(order, watched)


def derive_forward(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of the targets."""
    key = ("forward", tuple(targets), tuple(sources), tuple(tangents), outside)
    found = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
        return found
    COUNTS.derivatives_built += 1
    rules = PythonRules(recording)
    with apart_from_recorded():
        if recording.rules:
            found = forward(targets, sources, tangents, outside, rules.push)
        else:
            found = unobserved(forward, targets, sources, tangents, outside, rules.push)
    if not rules.used:
        recording.table.derived[key] = found
    return found


def hold_result(recording: Recording, result: Node | Rows) -> Any:
    """A handle on a derivative.

    The derivative is one more application of the recording, so an outer tape finds it inside its
    window and differentiates it in turn, and tapes that do not record now take it for a constant.
    """
    kind = hooks.handle_class
    if isinstance(result, Rows):
        indices = recording.hold(result.indices, kind)
        values = recording.hold(applied(recording, result.values), kind)
        return hooks.row_sparse_class(indices, values, result.spec)
    return recording.hold(applied(recording, result), kind)


def applied(recording: Recording, result: Node) -> Node:
    """A node of its own for a derivative that is handed out, applied here and now.

    The derivative itself may be a node that another tape was handed, a constant that derivatives
    share, or something the user computed: the derivative of x + y by x is the cotangent.
    """
    whole = result.inputs[0] if result.op is PICK else result
    if is_slope(whole) and whole.inputs and whole not in recording.rules:
        whole = recording.application(whole.op, whole.inputs, whole.params)
        return whole if result.op is not PICK else pick(whole, result.params[0])
    return recording.application(IDENTITY, (result,), ())
