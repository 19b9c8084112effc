"""Dispatch: where a function of this face is called on what has no value yet.

Placeholders and what is computed from them (see graphs.py) are not tensors: a call on one is noted
down and made when a session runs it. Nobody who uses neither pays for that more than one look at a
flag.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradtape.tf.tensor import Tensor, adopt


class Graphs:
    """Whether graphs are in use, and who then takes the calls."""

    def __init__(self) -> None:
        self.in_use = False
        # Filled by graphs.py: a call, the value a variable begins with, a variable that was made.
        self.take: Callable[..., Any]
        self.settle: Callable[[Any], Any]
        self.register: Callable[[Any], None]


graphs = Graphs()


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function whose calls may have to be noted down instead."""

    @functools.wraps(function)
    def operate(*args: Any, **kwargs: Any) -> Any:
        if graphs.in_use:
            return graphs.take(function, args, kwargs, False)
        result = function(*args, **kwargs)
        # What no operand of ours went into is one of gradtape's own tensors.
        return result if type(result) is Tensor else adopt(result)

    return operate


def effect(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that gives something new, or changes something, at every run."""

    @functools.wraps(function)
    def operate(*args: Any, **kwargs: Any) -> Any:
        if graphs.in_use:
            return graphs.take(function, args, kwargs, True)
        return adopt(function(*args, **kwargs))

    return operate
