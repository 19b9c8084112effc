"""The capture that is running, if any: `gt.function` notes what its function reads and assigns."""

from __future__ import annotations

from typing import Any

from gradtape.recording.thread_state import state


def read_state(thing: Any, name: str, label: str) -> Any:
    """An attribute that is known to change: a captured function looks at it in every call."""
    capture = capturing(state.recording)
    if capture is None:
        return getattr(thing, name)
    return capture.guard_state(thing, name, label)


def capturing(recording: Any) -> Any:
    """The capture that a recording is part of, directly or as a trace inside it, or None."""
    while recording.outer is not None:
        recording = recording.outer
    return recording if recording.capturing else None
