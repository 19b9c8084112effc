"""Learning rates: a number kept in a variable, a variable of the user's, or a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import float64
from gradtape.errors import ShapeError
from gradtape.ops.families.casting import cast
from gradtape.optimizers import schedules
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.variable import Variable

Rate = Variable | Tensor | Callable[[Any], Any]
# What users pass: a number, or the configuration of a schedule, besides.
LearningRate = float | Rate | dict[str, Any]


def as_rate(given: Any, current: Rate | None = None, make: Any = None) -> Rate:
    """What to keep for a learning rate that was given; a number goes into a current variable.

    `make` gives a variable for a number and a name.
    """
    if isinstance(given, (Variable, Tensor)):
        return _scalar(given)
    if isinstance(given, dict):
        return schedules.from_config(given)
    if callable(given) and not isinstance(given, Operators):
        return given
    try:
        number = float(given)
    except (TypeError, ValueError):
        raise TypeError(
            f"learning_rate: {given!r} is not a number, a Variable or a schedule. "
            "Pass one of them, such as 0.01."
        ) from None
    if isinstance(current, Variable):
        return current.assign(asarray(number, dtype=current.dtype))
    start = np.float64(number)
    if make is None:
        return Variable(start, trainable=False, name="learning_rate")
    found: Variable = make(start, "learning_rate")
    return found


def _scalar(given: Any) -> Any:
    if given.shape != () or given.dtype.kind != "f":
        raise ShapeError(
            f"learning_rate: a {type(given).__name__} of dtype {given.dtype} and shape "
            f"{given.shape} is not one real number. Pass a 0-d float."
        )
    return given


def rate_now(rate: Rate, step: Any) -> Any:
    """The learning rate of a step as a 0-d tensor."""
    if isinstance(rate, (Variable, Tensor)):
        found: Any = rate.value if isinstance(rate, Variable) else rate
    else:
        found = rate(step)
        # Python numbers become leaves: what a schedule gives is no part of the structure.
        if type(found) in (int, float):
            return asarray(float(found), dtype=float64)
        found = _scalar(asarray(found))
    return found if found.dtype == float64 else cast(found, float64)


def rate_config(rate: Rate) -> Any:
    """The learning rate as `get_config` gives it."""
    if isinstance(rate, (Variable, Tensor)):
        return float(rate)
    return schedules.to_config(rate) if hasattr(rate, "get_config") else rate
