"""Unobserved: work of the library that the observer of a captured run need not see.

The observer (`functions/outside/run_observer.py`) looks at every call in Python. Deriving and
planning call thousands of the library's functions and none of the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Observer:
    """A base of objects whose methods are profile functions that may be paused."""


def unobserved(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that runs no code of the user's, with the observer paused.

    >>> from gradtape.recording.unobserved import unobserved
    >>> unobserved(sum, [1, 2])
    3
    """
    profile = sys.getprofile()
    if not isinstance(getattr(profile, "__self__", None), Observer):
        return function(*args, **kwargs)
    sys.setprofile(None)
    try:
        return function(*args, **kwargs)
    finally:
        sys.setprofile(profile)
