"""Learning rates: a number kept in a variable, a variable of the user's, or a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import gradtape as gt
from gradtape import Tensor, Variable
from gradtape.errors import ShapeError
from gradtape.optimizers import schedules
from gradtape.typing import TensorLike

Rate = Variable | Tensor | Callable[[Any], TensorLike]
# Users may also pass a number, or the configuration of a schedule.
LearningRate = float | Rate | dict[str, Any]
RateTensor = TypeVar("RateTensor", bound=Variable | Tensor)


def as_rate(
    rate: LearningRate,
    current: Rate | None = None,
    make: Callable[[np.float64, str], Variable] | None = None,
) -> Rate:
    """The form in which an optimiser keeps a learning rate: a number goes into a variable.

    The number goes into the `current` variable if there is one, else into `make(number, name)`.
    """
    if isinstance(rate, (Variable, Tensor)):
        return _scalar(rate)
    if isinstance(rate, dict) and "class_name" in rate:
        return schedules.from_config(rate)
    if isinstance(rate, (dict, list, tuple)) or hasattr(rate, "parameters"):
        raise TypeError(
            "learning_rate: an optimizer is made without variables. Pass them to optimizer.apply "
            "or optimizer.minimize, and a number here."
        )
    if callable(rate):
        return rate
    try:
        number = float(rate)
    except (TypeError, ValueError):
        raise TypeError(
            f"learning_rate: {rate!r} is not a number, a Variable or a schedule. "
            "Pass one of them, such as 0.01."
        ) from None
    if not 0.0 <= number < math.inf:
        raise ValueError(
            f"learning_rate: {number} is not a finite number of at least 0. Pass one, such as 0.01."
        )
    if isinstance(current, Variable):
        return current.assign(gt.asarray(number, dtype=current.dtype))
    start = np.float64(number)
    if make is None:
        return Variable(start, trainable=False, name="learning_rate")
    found: Variable = make(start, "learning_rate")
    return found


def _scalar(rate: RateTensor) -> RateTensor:
    if rate.shape != () or rate.dtype.kind != "f":
        raise ShapeError(
            f"learning_rate: a {type(rate).__name__} of dtype {rate.dtype} and shape "
            f"{rate.shape} is not one real number. Pass a 0-d float."
        )
    return rate


def rate_now(rate: Rate, step: Tensor) -> Tensor:
    """The learning rate of a step as a 0-d tensor."""
    if isinstance(rate, (Variable, Tensor)):
        found: Any = rate.value if isinstance(rate, Variable) else rate
    else:
        found = rate(step)
        # A Python number becomes a leaf, so a new one does not change the structure of the plan.
        if type(found) in (int, float):
            return gt.asarray(float(found), dtype=gt.float64)
        found = _scalar(gt.asarray(found))
    return gt.astype(found, gt.float64, copy=False)


def rate_config(rate: Rate) -> object:
    """The learning rate as `get_config` gives it."""
    if isinstance(rate, (Variable, Tensor)):
        return float(rate)
    return schedules.to_config(rate) if hasattr(rate, "get_config") else rate
