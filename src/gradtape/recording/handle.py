"""Handles: what users hold on nodes, pending or computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape.graph.node import Node
from gradtape.recording.hooks import hooks
from gradtape.recording.value import Value

if TYPE_CHECKING:
    from gradtape.recording.recording import Recording


class Handle:
    """What a user holds: a node in a recording while pending or tracked, a value once computed."""

    __slots__ = ("__weakref__", "computed", "node", "recording")

    # The class of what ops on this handle return, and of what views of it are.
    result_class: type[Handle]
    view_class: type[Handle]

    def __init__(self, node: Any, recording: Any, computed: Value | None) -> None:
        self.node: Any = node
        self.recording: Recording | None = recording
        self.computed = computed

    def enter(self, recording: Recording) -> Node:
        """The node that stands for this handle in `recording`."""
        if self.recording is recording:
            return self.node
        if recording.outer is not None and self.recording is not None:
            return recording.capture(self)
        if self.recording is not None and self.recording.capturing:
            # What is computed from it elsewhere comes back as a mere number.
            self.recording.escape()  # type: ignore[attr-defined]
        if self.computed is None:
            hooks.compute_handle(self)
            if self.recording is recording:  # it was pending here all along
                return self.node
        if recording.capturing or recording.outer is not None:
            return recording.enter_handle(self)
        return recording.enter_value(self.computed)  # type: ignore[arg-type]


Handle.result_class = Handle.view_class = Handle
