"""Switches: the eager debug mode and the deterministic mode, for the thread that enters them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gradtape.evaluate.flush import compute_handle, compute_pending
from gradtape.recording.modes import modes
from gradtape.recording.thread_state import state

__all__ = ["deterministic", "eager", "is_deterministic"]


class EagerHandles(list[Any]):
    """A recording's handles in the eager mode: whatever joins is computed on the spot."""

    def append(self, handle: Any) -> None:
        super().append(handle)
        compute_handle(handle)


@contextlib.contextmanager
def eager(on: bool = True) -> Iterator[None]:
    """Compute every op on its own line, for debugging; slower, with the same results.

    >>> before = gt.counters().plans_run
    >>> with gt.eager():
    ...     y = gt.sin(gt.cos(gt.asarray(1.0)))
    >>> gt.counters().plans_run - before
    2
    """
    compute_pending()
    earlier = modes.handle_list
    _use(EagerHandles if on else list)
    try:
        yield
    finally:
        compute_pending()
        _use(earlier)


def _use(kind: type[list[Any]]) -> None:
    modes.handle_list = kind
    state.recording.handles = kind()


@contextlib.contextmanager
def deterministic(on: bool = True) -> Iterator[None]:
    """Refuse what cannot be repeated exactly, such as random numbers without a seed.

    >>> with gt.deterministic():
    ...     gt.is_deterministic()
    True
    """
    earlier = modes.deterministic
    modes.deterministic = on
    try:
        yield
    finally:
        modes.deterministic = earlier


def is_deterministic() -> bool:
    """Whether the deterministic mode is on.

    >>> gt.is_deterministic()
    False
    """
    return modes.deterministic
