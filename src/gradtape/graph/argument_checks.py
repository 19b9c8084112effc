"""Argument checks: counts, flags and functions among the arguments of public functions.

Python takes much for a number: `int(2.5)` is 2, `True` is an index, and any text is true. A value
that nobody can have meant is an error that says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def shown(value: object) -> str:
    """A value in an error: its `repr`, or its type where that is long or fails.

    >>> from gradtape.graph.argument_checks import shown
    >>> shown(np.zeros((2, 3)))
    'an array of shape (2, 3) and dtype float64'
    """
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if hasattr(type(value), "enter"):
        # The value of a tensor is not looked at: it may not have one.
        return f"a {type(value).__name__} of shape {getattr(value, 'shape', None)}"
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:60]} ... of type {type(value).__name__}"


def as_count(where: str, value: object, least: int = 0) -> int:
    """A whole number of at least `least`.

    >>> from gradtape.graph.argument_checks import as_count
    >>> as_count("Dense: units", 3, least=1)
    3
    """
    found = as_integer(where, value, f"a whole number of at least {least}")
    if found < least:
        raise ValueError(f"{where}={found} is not a whole number of at least {least}. Pass one.")
    return found


def as_integer(where: str, value: object, words: str = "an integer") -> int:
    """An integer; True and False are not.

    >>> from gradtape.graph.argument_checks import as_integer
    >>> as_integer("eye: k", np.int8(-1))
    -1
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}={shown(value)} is not {words}. Pass one.") from None


def as_flag(where: str, value: object) -> bool:
    """True or False; 1 and 0 count as such, and nothing else does.

    >>> from gradtape.graph.argument_checks import as_flag
    >>> as_flag("sum: keepdims", np.True_)
    True
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{where}={shown(value)} is not a flag. Pass True or False.")


def check_function(where: str, f: object) -> Callable[..., Any]:
    """Raise unless something can be called.

    >>> from gradtape.graph.argument_checks import check_function
    >>> check_function("grad", abs)
    <built-in function abs>
    """
    if not callable(f):
        raise TypeError(f"{where}: {shown(f)} is not callable. Pass a function.")
    return f
