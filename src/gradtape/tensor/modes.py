"""Switches: the eager debug mode and the deterministic mode, for the thread that enters them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gradtape.errors import NoValueError
from gradtape.runtime.flush import compute_handle, compute_pending
from gradtape.trace.modes import modes
from gradtape.trace.recording import state
from gradtape.trace.value import Handle

__all__ = ["deterministic", "eager", "is_deterministic"]


class EagerHandles(list[Handle]):
    """The list of a recording's handles in the eager mode: it computes each handle appended."""

    def append(self, handle: Handle) -> None:
        super().append(handle)
        # In a derivative written by hand, a tensor that stands for any seed has no value yet.
        with contextlib.suppress(NoValueError):
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


def _use(kind: type[list[Handle]]) -> None:
    modes.handle_list = kind
    state.recording.handles = kind()


@contextlib.contextmanager
def deterministic(on: bool = True) -> Iterator[None]:
    """Refuse what cannot be repeated exactly, such as random numbers without a seed.

    Plans are compiled before their first run in this mode, and calls wait for that: NumPy and
    compiled code round differently, and which of them runs must not depend on time or on earlier
    calls.

    >>> with gt.deterministic():
    ...     gt.is_deterministic()
    True
    """
    with _switched("deterministic", on), compiled_first(on):
        yield


def compiled_first(on: bool = True) -> contextlib.AbstractContextManager[None]:
    """Compile plans before their first run, so that all runs of a plan round alike.

    >>> with gt.libraries.compiled_first():
    ...     float(gt.sin(0.0))
    0.0
    """
    return _switched("compile_first", on)


@contextlib.contextmanager
def _switched(name: str, on: bool) -> Iterator[None]:
    earlier = getattr(modes, name)
    setattr(modes, name, on)
    try:
        yield
    finally:
        setattr(modes, name, earlier)


def is_deterministic() -> bool:
    """Whether the deterministic mode is on.

    >>> gt.is_deterministic()
    False
    """
    return modes.deterministic
