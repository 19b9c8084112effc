"""Windows: the part of a recording that a tape differentiates, and derivatives kept for it.

A tape differentiates what was recorded while it was recording, its window. Nodes recorded outside
count as constants. `Window` holds these nodes with the watched sources; together with the nodes of
a request they are the key under which a derivative is kept in the table of interned nodes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from gradtape.autodiff.modes import CustomRules, forward, reverse
from gradtape.autodiff.python_rules import PythonRules, replaced
from gradtape.compiler.counts import COUNTS
from gradtape.ir import PICK, Node, Rows, apart_from_recorded, apply, dependents, topological
from gradtape.ir.derived import Fact, of_structure
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT
from gradtape.records import dataclass
from gradtape.runtime.probe import PROBE
from gradtape.trace.recording import Recording
from gradtape.trace.uncollected import uncollected

R = TypeVar("R")


@dataclass(frozen=True)
class Request:
    """By which node to differentiate, in which mode, and which nodes count as constants."""

    source: Node
    mode: str = "auto"
    blocked: Collection[Node] = ()
    # The derivatives of custom nodes.
    rules: CustomRules | None = None


class _Deriving(threading.local):
    """The derivations that this thread is in the middle of, outermost first."""

    def __init__(self) -> None:
        self.rules: list[PythonRules] = []


_deriving = _Deriving()


def _depends(node: Node, sources: tuple[Node, ...]) -> bool:
    """Whether a source depends on another source."""
    return any(other in sources for other in topological([node])[:-1])


@dataclass(frozen=True)
class Isolated:
    """A copy of a target in which all nodes outside the window are constants, with its sources."""

    target: Node
    sources: tuple[Node, ...]
    # The recorded node behind each constant: outer tapes differentiate through it.
    back: Mapping[Node, Node]
    recording: Recording

    def restored(self, nodes: Sequence[Node]) -> list[Node]:
        """Derivatives of the target, in terms of the recorded nodes."""
        if not self.back:
            return list(nodes)
        with apart_from_recorded():
            return replaced(self.recording, nodes, dict(self.back))


class Window:
    """The part of a recording that a tape differentiates."""

    __slots__ = ("isolated_by", "outside", "recording", "watched")

    def __init__(
        self,
        recording: Recording,
        outside: frozenset[Node],
        watched: tuple[Node, ...] | None,
        isolated_by: Isolated | None = None,
    ) -> None:
        self.recording = recording
        # What the derivatives found in this window are restored by, if it is that of a derivative.
        self.isolated_by = isolated_by
        # The nodes that the tape did not record: constants.
        self.outside = outside
        # The sources that the tape watches; None: every source counts.
        self.watched = watched

    def connected(self, source: Node, targets: tuple[Node, ...]) -> bool:
        """Whether a source counts: it is watched, or depends on a watched source."""
        if self.watched is None or source in self.watched:
            return True
        return source in reached((*targets, source), self.outside, self.watched)

    def differentiable(self, target: Node, source: Node) -> bool:
        """Whether both have a dtype with derivatives, and the source counts."""
        inexact = target.spec.inexact and source.spec.inexact
        return bool(inexact and self.connected(source, (target,)))

    def isolated(self, target: Node, sources: tuple[Node, ...]) -> Isolated:
        """The target with the nodes outside the window made constants.

        A second derivative needs the copy. The first derivative may contain the very nodes that
        were recorded outside, such as cos(x) in the derivative of sin(x), and there they are not
        constants.
        """
        if not self.outside:
            return Isolated(target, sources, {}, self.recording)
        replacement: dict[Node, Node] = {}
        back: dict[Node, Node] = {}
        with apart_from_recorded():
            for node in topological([target, *sources]):
                if node in sources and not _depends(node, sources):
                    # The walk ends at a source, and the copy must contain the source itself.
                    replacement[node] = node
                elif type(node.spec) is not tuple and self._is_outside(node):
                    held = replacement[node] = apply(STOP_GRADIENT, (node,))
                    back[held] = node
            first, *rest = replaced(self.recording, [target, *sources], replacement)
        return Isolated(first, tuple(rest), back, self.recording)

    def _is_outside(self, node: Node) -> bool:
        return node in self.outside or (node.op is PICK and node.inputs[0] in self.outside)

    def of_derivative(self, isolated: Isolated | None = None) -> Window:
        """The window for differentiating a derivative of an isolated target: nothing is outside."""
        return Window(self.recording, frozenset(), self.watched, isolated)

    def restored(self, nodes: Sequence[Node]) -> list[Node]:
        """Derivatives found in this window, in terms of the recorded nodes."""
        return list(nodes) if self.isolated_by is None else self.isolated_by.restored(nodes)

    def remembered(self, fact: Fact, derive: Callable[[PythonRules], R]) -> R:
        """The fact, derived once; one that ran a user's Python rule is never kept."""
        derived = self.recording.table.derived
        kind, structure, contents, settings = fact
        key = Fact(kind, (*structure, self.outside, self.watched), contents, settings)
        if key in derived:
            COUNTS.derivative_hits += 1
            kept: R = derived[key]
            return kept
        COUNTS.derivatives_built += 1
        rules = PythonRules(self.recording)
        _deriving.rules.append(rules)
        try:
            with apart_from_recorded():
                # Rules are code of the user's, which may take long.
                found = derive(rules) if self.recording.rules else uncollected(derive, rules)
        finally:
            _deriving.rules.pop()
        if not rules.used:
            derived[key] = found
        elif _deriving.rules:
            # The derivation that asked for this one must not be kept either.
            _deriving.rules[-1].used = True
        return found

    def request(self, source: Node, mode: str, rules: PythonRules) -> Request:
        """The arguments of a Jacobian by one source."""
        return Request(source, mode, self.outside, rules)


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
    is_new = False

    def derive(rules: PythonRules) -> list[Node | Rows | None]:
        nonlocal is_new
        is_new = True
        wanted = list(sources)
        if watched is not None:
            connected = reached((*targets, *sources), outside, watched)
            # The derivative of a target by itself is one, watched or not.
            wanted = [source for source in sources if source in connected or source in targets]
        results = reverse(targets, cotangents, wanted, outside, rules)
        by_source = dict(zip(wanted, results, strict=True))
        return [by_source.get(source) for source in sources]

    fact = of_structure("reverse", tuple(targets), tuple(cotangents), tuple(sources))
    found = Window(recording, outside, watched).remembered(fact, derive)
    if sink is not None:
        sink.derived(recording, targets, begin, found=not is_new)
    return found


def derive_forward(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of the targets."""
    fact = of_structure("forward", tuple(targets), tuple(sources), tuple(tangents))
    return Window(recording, outside, None).remembered(
        fact, lambda rules: forward(targets, sources, tangents, outside, rules)
    )


def reached(nodes: Sequence[Node], outside: Collection[Node], watched: Sequence[Node]) -> set[Node]:
    """The watched nodes, and the nodes that depend on them through nodes inside the window."""
    sources = frozenset(watched)
    order = (node for node in topological(nodes) if node not in outside or node in sources)
    return dependents(order, sources)
