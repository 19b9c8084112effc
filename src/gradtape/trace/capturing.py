"""The capture that is running, if there is one: see gradtape.jit.capture."""

from __future__ import annotations

from typing import Any

from gradtape.trace.recording import Recording, state


def read_state(thing: object, name: str, label: str) -> Any:
    """Read an attribute that may change between calls: a replay checks it in every call.

    >>> layer = gt.nn.Dropout(0.5)
    >>> gt.libraries.read_state(layer, "_training", "training of the layer")
    True
    """
    capture = capturing(state.recording)
    if capture is None:
        return getattr(thing, name)
    return capture.guard_state(thing, name, label)


def note_text() -> None:
    """A tensor is written as text: what Python does with it, a replay would not do."""
    capture = capturing(state.recording)
    if capture is not None and not capture.is_frozen:
        capture.escape("the text of a tensor leaves for Python")


def capturing(recording: Recording) -> Any:
    """The capture that a recording is part of, directly or as a trace inside it, or None."""
    while recording.outer is not None:
        recording = recording.outer
    return recording.capturing
