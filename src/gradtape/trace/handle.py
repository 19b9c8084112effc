"""Handles: what users hold on nodes, pending or computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape.ir.node import Node
from gradtape.ir.spec import Spec
from gradtape.trace.value import Value

if TYPE_CHECKING:
    from gradtape.trace.recording import Recording


class Handle:
    """What a tensor holds: a node in a recording while pending or tracked, a value once computed.

    Recording closures and the native recorder read these slots directly.
    """

    __slots__ = ("__weakref__", "computed", "node", "recording")

    # The class of the results of ops on this handle, of views of it, and of derivatives that are
    # zero but for some rows: called with indices, values and a spec.
    result_class: type[Handle]
    view_class: type[Handle]
    rows_class: Callable[[Any, Any, Spec], Handle]

    def __init__(self, node: Any, recording: Recording | None, computed: Value | None) -> None:
        # None once a value was computed that no tape tracks; a Node otherwise.
        self.node: Any = node
        self.recording = recording
        self.computed = computed

    def enter(self, recording: Recording) -> Node:
        """The node that stands for this handle in `recording`."""
        if self.recording is recording:
            return self.node
        return recording.enter_other(self)

    def materialize(self) -> None:
        """Give a handle that belongs to no recording its value; for classes that compute it."""
        raise AssertionError("this handle has neither a recording nor a value")


Handle.result_class = Handle.view_class = Handle
