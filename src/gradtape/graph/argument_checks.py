"""Argument checks: counts, flags and functions among the arguments of public functions.

Python takes much for a number: `int(2.5)` is 2, `True` is an index, and any text is true. A value
that nobody can have meant is an error that says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def as_count(where: str, value: object, least: int = 0) -> int:
    """A whole number of at least `least`.

    >>> from gradtape.graph.argument_checks import as_count
    >>> as_count("Dense: units", 3, least=1)
    3
    """
    message = f"{where}={value!r} is not a whole number of at least {least}. Pass one."
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(message)
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(message) from None
    if found < least:
        raise ValueError(message)
    return found


def as_flag(where: str, value: object) -> bool:
    """True or False; 1 and 0 count as such, and nothing else does.

    >>> from gradtape.graph.argument_checks import as_flag
    >>> as_flag("sum: keepdims", np.True_)
    True
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{where}={value!r} is not a flag. Pass True or False.")


def check_function(where: str, f: object) -> Callable[..., Any]:
    """Raise unless something can be called.

    >>> from gradtape.graph.argument_checks import check_function
    >>> check_function("grad", abs)
    <built-in function abs>
    """
    if not callable(f):
        raise TypeError(f"{where}: {f!r} is not callable. Pass a function.")
    return f
