"""Gradients and tangents of a recording, kept by structure: a repeated question derives nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from gradtape.autodiff.modes import forward, reverse
from gradtape.autodiff.python_rules import PythonRules
from gradtape.compiler.counts import COUNTS
from gradtape.ir import Rows, dependents, of_structure, topological
from gradtape.ir.node import Node, apart_from_recorded
from gradtape.runtime.probe import PROBE
from gradtape.trace.recording import Recording
from gradtape.trace.uncollected import uncollected


def derive_reverse(
    recording: Recording,
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    outside: frozenset[Node],
    watched: tuple[Node, ...] | None,
) -> list[Node | Rows | None]:
    """Cotangents of the sources. A source counts if it is watched or depends on one that is."""
    sink = PROBE.sink
    begin = 0 if sink is None else time.perf_counter_ns()
    recording.targets.update((target, None) for target in targets if target.spec.size == 1)
    if watched is not None and all(source in watched for source in sources):
        watched = None
    key = of_structure(
        "reverse", tuple(targets), tuple(cotangents), tuple(sources), outside, watched
    )
    found = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
        if sink is not None:
            sink.derived(recording, targets, begin, found=True)
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
            results = reverse(targets, cotangents, asked, outside, rules)
        else:
            results = uncollected(reverse, targets, cotangents, asked, outside, rules)
    by_source = dict(zip(asked, results, strict=True))
    found = [by_source.get(source) for source in sources]
    if not rules.used:
        recording.table.derived[key] = found
    if sink is not None:
        sink.derived(recording, targets, begin, found=False)
    return found


def reached(nodes: Sequence[Node], outside: Collection[Node], watched: Sequence[Node]) -> set[Node]:
    """The watched nodes, and the nodes that depend on them through nodes inside the window."""
    sources = frozenset(watched)
    order = (node for node in topological(nodes) if node not in outside or node in sources)
    return dependents(order, sources)


def derive_forward(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of the targets."""
    key = of_structure("forward", tuple(targets), tuple(sources), tuple(tangents), outside)
    found = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
        return found
    COUNTS.derivatives_built += 1
    rules = PythonRules(recording)
    with apart_from_recorded():
        if recording.rules:
            found = forward(targets, sources, tangents, outside, rules)
        else:
            found = uncollected(forward, targets, sources, tangents, outside, rules)
    if not rules.used:
        recording.table.derived[key] = found
    return found
