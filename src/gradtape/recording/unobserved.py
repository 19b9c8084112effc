"""Unobserved: work of the library that the observer of a captured run need not see.

The observer (`functions/outside/run_observer.py`) looks at every call in Python. Deriving and
planning call thousands of the library's functions and none of the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Code of modules that are trusted, as far as it has run, by id: the hash of code takes long. It
# stays as long as its module. Native code reads this dict.
PASSED_OVER: dict[int, CodeType] = {}


def pass_over(code: CodeType) -> None:
    """Have observers pass this code over."""
    PASSED_OVER[id(code)] = code


class Observer:
    """A base of objects whose methods are profile functions that may be paused."""

    def pause(self) -> None:
        """Observe nothing until `resume`."""
        raise NotImplementedError

    def resume(self) -> None:
        """Observe again."""
        raise NotImplementedError


def unobserved(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that runs no code of the user's, with the observer paused.

    >>> from gradtape.recording.unobserved import unobserved
    >>> unobserved(sum, [1, 2])
    3
    """
    observer = getattr(sys.getprofile(), "__self__", None)
    if not isinstance(observer, Observer):
        return function(*args, **kwargs)
    observer.pause()
    try:
        return function(*args, **kwargs)
    finally:
        observer.resume()
