"""Dispatch: where a function of this face is called on what has no value yet.

Placeholders and what is computed from them (see graphs.py) are not tensors: a call on one is noted
down and made when a session runs it. Nobody who uses neither pays for that more than one look at a
flag.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gradtape.recording.thread_state import state
from gradtape.tf.tensor import Tensor, adopt


class Graphs:
    """Whether graphs are in use, and who then takes the calls."""

    def __init__(self) -> None:
        self.in_use = False
        # Filled by graphs.py: a call, the value a variable begins with, a variable that was made,
        # whether a session runs.
        self.take: Callable[..., Any]
        self.settle: Callable[[Any], Any]
        self.register: Callable[[Any], None]
        self.is_running: Callable[[], bool] = lambda: False


graphs = Graphs()

# When a call is noted down: if an operand has no value; always while a graph is built, since it
# is another one at every run; and so that it also runs after what only computes.
PLAIN, FRESH, EFFECT = "plain", "fresh", "effect"


def _dispatched(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def operate(*args: Any, **kwargs: Any) -> Any:
        if graphs.in_use:
            return graphs.take(function, args, kwargs, kind)
        result = function(*args, **kwargs)
        # What no operand of ours went into is one of gradtape's own tensors.
        return result if type(result) is Tensor else adopt(result)

    return operate


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function of its operands."""
    return _dispatched(function, PLAIN)


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function that draws random numbers, or calls functions that may hold anything."""
    return _dispatched(function, FRESH)


def leave_for_python() -> None:
    """Say that what comes now has to happen at every call of a function that is being captured."""
    recording = state.recording
    if recording.capturing:
        recording.escape(meant=True)


class Functions(threading.local):
    """What functions that are being called have to leave behind, besides their results."""

    # How many functions are being called, one inside the other.
    depth = 0

    def __init__(self) -> None:
        # Lists that hold tensors of a function that is being captured.
        self.kept: list[list[Any]] = []

    def keep(self, tensors: list[Any]) -> None:
        """Empty a list at the end of the outermost function: what it holds means nothing then."""
        if self.depth and state.recording.capturing:
            self.kept.append(tensors)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """One more function is being called."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                for tensors in self.kept:
                    tensors.clear()
                self.kept.clear()


functions = Functions()


def effect(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function that changes something, or shows it."""
    return _dispatched(function, EFFECT)
