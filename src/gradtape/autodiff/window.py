"""Windows: the part of a recording that a tape differentiates, and derivatives kept for it.

A tape differentiates what was recorded while it was recording, its window. Nodes recorded outside
count as constants. `Window` holds these nodes with the watched sources; together with the nodes of
a question they are the key under which a derivative is kept in the table of interned nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gradtape.autodiff.gradient import reached
from gradtape.autodiff.jacobian import Question
from gradtape.autodiff.python_rules import PythonRules, replaced
from gradtape.compiler.counts import COUNTS
from gradtape.ir.derived import Fact
from gradtape.ir.node import PICK, Node, apart_from_recorded, apply
from gradtape.ir.walk import topological
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT
from gradtape.records import dataclass
from gradtape.trace.recording import Recording

R = TypeVar("R")


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
                found = derive(rules)
        finally:
            _deriving.rules.pop()
        if not rules.used:
            derived[key] = found
        elif _deriving.rules:
            # The derivation that asked for this one must not be kept either.
            _deriving.rules[-1].used = True
        return found

    def question(self, source: Node, mode: str, rules: PythonRules) -> Question:
        """The arguments of a Jacobian by one source."""
        return Question(source, mode, self.outside, rules)
