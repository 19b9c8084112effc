"""Derivatives of what a recording holds, found by structure when they were derived before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gradtape.derive.python_rules import PythonRules
from gradtape.graph.hooks import hooks
from gradtape.graph.node import LEAF, PICK, Node, apart_from_recorded, is_slope, pick
from gradtape.graph.walk import dependents, topological
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.recording.recording import Recording
from gradtape.runtime.counters import COUNTS
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse


def derive_reverse(
    recording: Recording,
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    outside: frozenset[Node],
    watched: tuple[Node, ...] | None,
) -> list[Any]:
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
        # By itself a target has the derivative one, watched or not.
        asked = [source for source in sources if source in connected or source in targets]
    with apart_from_recorded():
        results = reverse(targets, cotangents, asked, outside, rules.pull)
    by_source = dict(zip(asked, results, strict=True))
    found = [by_source.get(source) for source in sources]
    if not rules.used:
        recording.table.derived[key] = found
    return found


def reached(nodes: Sequence[Node], outside: Collection[Node], watched: Sequence[Node]) -> set[Node]:
    """What is watched or depends on it by what was not recorded outside."""
    order = (node for node in topological(nodes) if node not in outside or node in watched)
    return dependents(order, watched)


def derive_forward(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Any]:
    """Tangents of the targets."""
    key = ("forward", tuple(targets), tuple(sources), tuple(tangents), outside)
    found = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
        return found
    COUNTS.derivatives_built += 1
    rules = PythonRules(recording)
    with apart_from_recorded():
        found = forward(targets, sources, tangents, outside, rules.push)
    if not rules.used:
        recording.table.derived[key] = found
    return found


def hold_result(recording: Recording, result: Any) -> Any:
    """A handle on a derivative. It is logged like any application: tapes ask what is theirs."""
    kind: Any = hooks.handle_class
    if isinstance(result, Rows):
        indices = recording.hold(result.indices, kind)
        values = recording.hold(result.values, kind)
        return hooks.row_sparse_class(indices, values, result.spec)
    whole = result.inputs[0] if result.op is PICK else result
    if whole.op is not LEAF and not whole.inputs:
        # A constant of its own: other derivatives have the same one.
        result = recording.application(IDENTITY, (result,), ())
    elif is_slope(whole) and whole not in recording.rules:
        # A node of its own: the same derivative may be asked for once more, by another tape.
        whole = recording.application(whole.op, whole.inputs, whole.params)
        result = whole if result.op is not PICK else pick(whole, result.params[0])
    else:
        recording.nodes.append(result)
    return recording.hold(result, kind)
