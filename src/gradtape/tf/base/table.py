"""Table rows: the name and the documentation of public functions that are made from rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def documented(function: F, module: str, sentence: str, example: str, result: str = "") -> F:
    """The function with a docstring that shows an example, and the name by which that calls it."""
    shown = f"\n    {result}" if result else ""
    function.__name__ = function.__qualname__ = named_in(example)
    function.__module__ = module
    function.__doc__ = f"{sentence}\n\n    >>> {example}{shown}\n    "
    return function


def named_in(example: str) -> str:
    """The name of the function that an example calls: `sin` for "round(tf.math.sin(0.0), 4)"."""
    result = re.search(r"\btf\.(?:\w+\.)*(\w+)\(", example)
    if result is None:
        raise ValueError(f"a row's example calls no function of tf: {example!r}.")
    return result[1]
