"""Argument checks: counts, flags and functions among the arguments of public functions.

Python takes much for a number: `int(2.5)` is 2, `True` is an index, and any text is true. A value
that nobody can have meant is an error that says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.errors import DtypeError, ShapeError, is_of_this_line, shown


def as_count(where: str, value: object, least: int = 0) -> int:
    """A whole number of at least `least`.

    >>> from gradtape.argument_checks import as_count
    >>> as_count("Dense: units", 3, least=1)
    3
    """
    found = as_integer(where, value, f"a whole number of at least {least}")
    if found < least:
        raise ValueError(f"{where}={found} is not a whole number of at least {least}. Pass one.")
    return found


def as_integer(where: str, value: object, words: str = "an integer") -> int:
    """An integer; True and False are not.

    >>> from gradtape.argument_checks import as_integer
    >>> as_integer("eye: k", np.int8(-1))
    -1
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}={shown(value)} is not {words}. Pass one.") from None


def as_real(where: str, value: object) -> float:
    """A real number; text is none, and an array has to hold one number.

    >>> from gradtape.argument_checks import as_real
    >>> as_real("var: correction", 1)
    1.0
    """
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        if not is_of_this_line(error) and not isinstance(error, (ShapeError, DtypeError)):
            raise
        raise TypeError(f"{where}={shown(value)} is not a real number. Pass one.") from None


def as_flag(where: str, value: object) -> bool:
    """True or False; 1 and 0 count as such, and nothing else does.

    >>> from gradtape.argument_checks import as_flag
    >>> as_flag("sum: keepdims", np.True_)
    True
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{where}={shown(value)} is not a flag. Pass True or False.")


def is_choice(value: object, choices: Iterable[object]) -> bool:
    """Whether a value is one of some texts or None; an array, or anything else, is not.

    >>> from gradtape.argument_checks import is_choice
    >>> is_choice("cpu", (None, "cpu")), is_choice(np.zeros(2), (None, "cpu"))
    (True, False)
    """
    return (value is None or isinstance(value, str)) and value in choices


def check_function(where: str, f: object) -> Callable[..., Any]:
    """Raise unless something can be called.

    >>> from gradtape.argument_checks import check_function
    >>> check_function("grad", abs)
    <built-in function abs>
    """
    if not callable(f):
        raise TypeError(f"{where}: {shown(f)} is not callable. Pass a function.")
    return f
