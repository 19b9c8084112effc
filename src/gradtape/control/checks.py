"""Checks of what users pass to loops and branches, with errors that name the argument."""

from __future__ import annotations

import operator

from gradtape.pytree import Structure


def check_function(name: str, what: str, function: object) -> None:
    """Raise a TypeError that says which argument should have been a function."""
    if not callable(function):
        raise TypeError(
            f"{name}: {what} is {type(function).__name__}, not a function. Give one, such as a "
            "lambda that returns the value."
        )


def described(structure: Structure) -> str:
    """A nest in words, for errors."""
    if structure.kind is None:
        return "a tensor"
    return f"a {structure.kind.__name__} with {structure.count} tensors"


def as_count(name: str, what: str, value: object) -> int:
    """A number of steps or elements as an int that is not negative."""
    try:
        found = operator.index(value)  # type: ignore[arg-type]  # it raises for anything else
    except TypeError:
        raise TypeError(f"{name}: {what} {value!r} is not an integer. Pass an int.") from None
    if found < 0:
        raise ValueError(f"{name}: {what} {found} is negative. Pass 0 or more.")
    return found
