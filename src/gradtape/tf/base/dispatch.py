"""Dispatch: public functions of gradtape.tf, and calls on operands that have no value yet.

Placeholders of TensorFlow 1 and everything computed from them (see v1/) are not tensors: a call on
one is noted down, and made when a session runs it. Programs without graphs pay for that with one
check a flag per call. Functions that are made from rows get their names and documentation here.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from gradtape.argument_checks import ArgumentChecks
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.trace.recording import state

P = ParamSpec("P")
R = TypeVar("R")


class WithoutValue:
    """A call that is noted down in a graph: base class of v1's Symbolic."""


class Graphs:
    """The calls into v1/, which builds on this package and so cannot be imported here.

    `in_use` is false until the first graph, placeholder or session; v1 fills in the rest.
    """

    def __init__(self) -> None:
        self.in_use = False
        # Make a call, or note it down if a graph is being built or an operand has no value:
        # function, args, kwargs, kind.
        self.take: Callable[..., Any]
        # The value that a variable starts with, from one that may be noted down.
        self.settle: Callable[[Any], Any]
        # Add a new variable to the graph that is being built.
        self.register: Callable[[Any], None]
        self.is_running: Callable[[], bool] = lambda: False


graphs = Graphs()

# Kinds of calls that are noted down: those with an EFFECT are made after all PLAIN ones in a run.
PLAIN, EFFECT = "plain", "effect"


def _dispatched(function: Callable[P, R], kind: str) -> Callable[P, R]:
    checks = ArgumentChecks(function, function.__name__)

    @functools.wraps(function)
    def operate(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if graphs.in_use:
                return graphs.take(function, args, kwargs, kind)
            if checks.rules is None or checks.rules:
                checks.check(args, kwargs)
            result = function(*args, **kwargs)
        except Exception as error:
            refused = checks.blame(error, args, kwargs)
            if refused is None:
                raise
            raise refused from error
        # Functions without an operand of class Tensor give one of gradtape's own tensors.
        return result if type(result) is Tensor else adopt(result)

    operate.argument_checks = checks  # type: ignore[attr-defined]
    return operate


def operation(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that has a result."""
    return _dispatched(function, PLAIN)


def effect(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that changes or shows something."""
    return _dispatched(function, EFFECT)


def leave_for_python() -> None:
    """While a function is captured: the Python that follows has to run at every call."""
    recording = state.recording
    if recording.capturing:
        recording.capturing.escape(meant=True)


class Functions(threading.local):
    """Calls of tf.function in progress, and the lists to empty when the outermost one ends."""

    # The number of calls in progress, one inside the other.
    depth = 0

    def __init__(self) -> None:
        # Lists that hold tensors of a function that is being captured.
        self.kept: list[list[Any]] = []

    def keep(self, tensors: list[Any]) -> None:
        """Empty a list when the outermost call ends: its tensors mean nothing after a capture."""
        if self.depth and state.recording.capturing:
            self.kept.append(tensors)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """A call of a function, for as long as the context lasts."""
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


F = TypeVar("F", bound=Callable[..., Any])


def documented(function: F, module: str, sentence: str, example: str, result: str = "") -> F:
    """The function with a docstring that shows an example, and the name by which that calls it."""
    shown = f"\n    {result}" if result else ""
    function.__name__ = function.__qualname__ = name = named_in(example)
    if hasattr(function, "argument_checks"):
        # Errors name the function as the user does.
        function.argument_checks.title = function.__wrapped__.__qualname__ = name  # type: ignore[attr-defined]
    function.__module__ = module
    function.__doc__ = f"{sentence}\n\n    >>> {example}{shown}\n    "
    return function


def named_in(example: str) -> str:
    """The name of the function that an example calls: `sin` for "round(tf.math.sin(0.0), 4)"."""
    result = re.search(r"\btf\.(?:\w+\.)*(\w+)\(", example)
    if result is None:
        raise ValueError(f"a row's example calls no function of tf: {example!r}.")
    return result[1]
