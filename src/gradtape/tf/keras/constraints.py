"""What variables are held to after each step: `tf.keras.constraints`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape import clip, relu, sqrt, square, sum as total
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.types import Axis
from gradtape.typing import NonNegative, Probability

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor

__all__ = [
    "Constraint",
    "MaxNorm",
    "MinMaxNorm",
    "NonNeg",
    "UnitNorm",
    "get",
    "max_norm",
    "min_max_norm",
    "non_neg",
    "unit_norm",
]

_SMALL = 1e-7


class Constraint:
    """A function that gives the value a variable may have; derive your own from it.

    >>> tf.keras.constraints.NonNeg()(tf.constant([-1.0, 2.0])).numpy().tolist()
    [0.0, 2.0]
    """

    def __call__(self, w: Any) -> Tensor:
        """The allowed value nearest to one's own."""
        return w

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        return dict(vars(self))


class NonNeg(Constraint):
    """No negative numbers.

    >>> tf.keras.constraints.NonNeg()(tf.constant([-1.0, 2.0])).numpy().tolist()
    [0.0, 2.0]
    """

    def __call__(self, w: Any) -> Tensor:
        return relu(convert(w))


def _norm(w: Tensor, axis: Any) -> Tensor:
    return sqrt(total(square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Columns that are not longer than `max_value`.

    >>> tf.keras.constraints.MaxNorm(1.0)(tf.constant([[3.0], [4.0]])).numpy().round(3).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    def __init__(self, max_value: NonNegative = 2, axis: Axis = 0) -> None:
        self.max_value, self.axis = float(max_value), axis

    def __call__(self, w: Any) -> Tensor:
        w = convert(w)
        norm = _norm(w, self.axis)
        return w * (clip(norm, 0.0, self.max_value) / (norm + _SMALL))


class MinMaxNorm(Constraint):
    """Columns whose length lies in a range, or moves towards it at a rate.

    >>> tf.keras.constraints.MinMaxNorm(0.0, 10.0)(tf.constant([[3.0], [4.0]])).shape
    TensorShape([2, 1])
    """

    def __init__(
        self,
        min_value: NonNegative = 0.0,
        max_value: NonNegative = 1.0,
        rate: Probability = 1.0,
        axis: Axis = 0,
    ) -> None:
        self.min_value, self.max_value = float(min_value), float(max_value)
        self.rate, self.axis = float(rate), axis

    def __call__(self, w: Any) -> Tensor:
        w = convert(w)
        norm = _norm(w, self.axis)
        wanted = self.rate * clip(norm, self.min_value, self.max_value) + (1.0 - self.rate) * norm
        return w * (wanted / (norm + _SMALL))


class UnitNorm(Constraint):
    """Columns of length 1.

    >>> tf.keras.constraints.UnitNorm()(tf.constant([[3.0], [4.0]])).shape
    TensorShape([2, 1])
    """

    def __init__(self, axis: Axis = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Tensor:
        w = convert(w)
        return w / (_norm(w, self.axis) + _SMALL)


max_norm, min_max_norm, non_neg, unit_norm = MaxNorm, MinMaxNorm, NonNeg, UnitNorm
_BY_NAME = {kind.__name__.lower(): kind for kind in (MaxNorm, MinMaxNorm, NonNeg, UnitNorm)}


def get(identifier: Any) -> Any:
    """A constraint by name; functions as they are, and None for none.

    >>> type(tf.keras.constraints.get("non_neg")).__name__
    'NonNeg'
    """
    if identifier is None or (callable(identifier) and not isinstance(identifier, type)):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    found = _BY_NAME.get(str(identifier).lower().replace("_", ""))
    if found is None:
        raise ValueError(f"constraint {identifier!r} is unknown. There are {', '.join(_BY_NAME)}.")
    return found()


check_exports(globals(), __all__)
