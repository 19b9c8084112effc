"""Derivatives that only a recording knows: Python closures, and recomputation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.errors import UndefinedRuleError
from gradtape.graph.node import Node, apply
from gradtape.graph.recording import Recording, enter, state
from gradtape.graph.walk import substitute, topological
from gradtape.ops.custom import BARRIER
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse


class Structural:
    """A rule that is part of the graph, as the key of its node: it knows no recording's values."""

    # Whether what it derives may be remembered under the structure of the graph.
    pure = True


class PythonRules:
    """Calls the rules of a recording; `used` says that a result must not be remembered."""

    def __init__(self, recording: Recording | None) -> None:
        self.recording: Any = recording
        self.used = False

    def pull(self, node: Node, cotangents: tuple[Any, ...]) -> Sequence[Any]:
        """Reverse mode through a `custom_derivative` node."""
        return self._rule(node).pull(self.recording, node, cotangents)

    def push(self, node: Node, tangents: Sequence[Any]) -> Sequence[Any]:
        """Forward mode through a `custom_derivative` node."""
        return self._rule(node).push(self.recording, node, tangents)

    def _rule(self, node: Node) -> Any:
        key = node.params[1]
        if isinstance(key, Structural):
            self.used = self.used or not key.pure
            return key
        if self.recording is None:
            raise UndefinedRuleError(
                "a derivative written in Python (custom_gradient, custom_jvp) inside a system "
                "that is solved sparsely or by iteration has no second derivative. Use the dense "
                "solver: sparse=False, solver='direct'."
            )
        # A closure may do anything each time it is called.
        self.used = True
        return self.recording.rules[node]


@dataclass(frozen=True)
class Checkpointed(Structural):
    """Reverse mode through a graph that is computed again rather than kept."""

    outputs: int

    @staticmethod
    def frontier(roots: Sequence[Node], interior: set[Node]) -> list[Node]:
        """The nodes outside that the interior reads, in a fixed order."""
        found: dict[Node, None] = {}
        for node in topological(roots, stop=()):
            if node in interior:
                found.update((parent, None) for parent in node.inputs if parent not in interior)
        return [node for node in found if type(node.spec) is not tuple]

    def pull(self, recording: Recording, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
        sources = node.inputs[self.outputs :]
        again = [apply(BARRIER, (source,)) for source in sources]
        roots = substitute(node.inputs[: self.outputs], dict(zip(sources, again, strict=True)))
        rules = PythonRules(recording)
        found = reverse(roots, cotangents, again, (), rules.pull)
        return [None] * self.outputs + list(found)

    def push(self, recording: Recording, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        pairs = [
            (source, tangent)
            for source, tangent in zip(node.inputs, tangents, strict=True)
            if tangent is not None
        ][: len(node.inputs)]
        pairs = [(s, t) for s, t in pairs if s in node.inputs[self.outputs :]]
        rules = PythonRules(recording)
        roots = node.inputs[: self.outputs]
        return tuple(forward(roots, [s for s, _ in pairs], [t for _, t in pairs], (), rules.push))


@contextlib.contextmanager
def inside(recording: Recording) -> Iterator[None]:
    """Record into `recording`, whichever the thread is at."""
    current = state.recording
    state.recording = recording
    try:
        yield
    finally:
        if state.recording is recording:
            state.recording = current


def as_nodes(recording: Recording, results: Sequence[Any]) -> list[Any]:
    return [None if result is None else enter(recording, result) for result in results]
