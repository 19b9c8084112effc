"""Custom derivatives: Python closures called while a derivative is derived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.graph.node import Node
from gradtape.graph.recording import Recording


class pull_through:  # noqa: N801 - called like a function, with a memory of whether it was
    """Reverse mode through `custom_derivative` nodes; `used` forbids remembering the result."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.used = False

    def __call__(self, node: Node, cotangents: tuple[Any, ...]) -> Sequence[Any]:
        self.used = True
        return self.recording.rules[node].pull(self.recording, node, cotangents)


class push_through:  # noqa: N801
    """Forward mode through `custom_derivative` nodes."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.used = False

    def __call__(self, node: Node, tangents: Sequence[Any]) -> Sequence[Any]:
        self.used = True
        return self.recording.rules[node].push(self.recording, node, tangents)
