"""Learning rates that depend on the step count, with Keras' names, arguments and formulas.

A schedule is called with the number of steps taken so far, a number or a tensor, and gives a 0-d
tensor. It is recorded, so a changing learning rate is part of the step's plan. Any function can
serve as a schedule; one that reads its argument (`if step < 100`) forces an evaluation.

>>> schedule = gt.optimizers.schedules.ExponentialDecay(0.1, decay_steps=100, decay_rate=0.5)
>>> float(schedule(200))
0.025
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any

import gradtape as gt
from gradtape import Tensor, storage
from gradtape.libraries import check_exports, namespace as _namespace
from gradtape.typing import NonNegative, Positive, TensorLike

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
]


class LearningRateSchedule:
    """The base of schedules, which have a configuration. Derive your own from it.

    >>> class Halving(gt.optimizers.schedules.LearningRateSchedule):
    ...     def __call__(self, step):
    ...         return 0.1 * 0.5**step
    >>> w = gt.Variable(1.0)
    >>> optimizer = gt.optimizers.SGD(Halving())
    >>> optimizer.apply_gradients([(1.0, w)])
    >>> optimizer.apply_gradients([(1.0, w)])
    >>> round(float(w), 6)
    0.85
    """

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate after `step` steps."""
        raise NotImplementedError(
            f"{type(self).__name__}: a schedule needs `__call__(self, step)`. Define it."
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal schedule."""
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """The schedule that a configuration describes."""
        return cls(**config)


storage.register_family(
    LearningRateSchedule,
    lambda cls, name: storage.Codec(
        cls,
        name,
        lambda schedule: dict(vars(schedule)),
        fill=storage.take_attributes,
        holds_code=True,
    ),
)


def _counted(step: TensorLike) -> Tensor:
    return gt.cast(gt.asarray(step), gt.float64)


@dataclass(frozen=True)
class ExponentialDecay(LearningRateSchedule):
    """initial_learning_rate * decay_rate ** (step / decay_steps).

    With `staircase` the exponent is rounded down.

    >>> schedule = gt.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5, staircase=True)
    >>> [float(schedule(step)) for step in (0, 9, 10, 25)]
    [1.0, 1.0, 0.5, 0.25]
    """

    initial_learning_rate: NonNegative
    decay_steps: Positive
    decay_rate: NonNegative
    staircase: bool = False
    name: str = "ExponentialDecay"

    def __call__(self, step: TensorLike) -> Tensor:
        exponent = _counted(step) / self.decay_steps
        exponent = gt.floor(exponent) if self.staircase else exponent
        return self.initial_learning_rate * gt.pow(float(self.decay_rate), exponent)


@dataclass(frozen=True)
class InverseTimeDecay(LearningRateSchedule):
    """initial_learning_rate / (1 + decay_rate * step / decay_steps).

    With `staircase` the quotient of steps is rounded down.

    >>> schedule = gt.optimizers.schedules.InverseTimeDecay(1.0, 10, 0.5)
    >>> float(schedule(20))
    0.5
    """

    initial_learning_rate: NonNegative
    decay_steps: Positive
    decay_rate: NonNegative
    staircase: bool = False
    name: str = "InverseTimeDecay"

    def __call__(self, step: TensorLike) -> Tensor:
        times = _counted(step) / self.decay_steps
        times = gt.floor(times) if self.staircase else times
        return self.initial_learning_rate / (1.0 + self.decay_rate * times)


@dataclass(frozen=True)
class PiecewiseConstantDecay(LearningRateSchedule):
    """The first value up to and including the first boundary, then the second, and so on.

    >>> schedule = gt.optimizers.schedules.PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.25])
    >>> [float(schedule(step)) for step in (0, 10, 11, 20, 21)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    boundaries: Sequence[float]
    values: Sequence[float]
    name: str = "PiecewiseConstant"

    def __post_init__(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                f"PiecewiseConstantDecay: {len(self.values)} values for {len(self.boundaries)} "
                "boundaries. Give one value more than boundaries."
            )
        if list(self.boundaries) != sorted(self.boundaries):
            raise ValueError(
                f"PiecewiseConstantDecay: boundaries {list(self.boundaries)} do not ascend. "
                "Sort them, with their values."
            )

    def __call__(self, step: TensorLike) -> Tensor:
        step = _counted(step)
        found: Tensor = gt.asarray(float(self.values[-1]), dtype=gt.float64)
        for boundary, value in reversed(list(zip(self.boundaries, self.values[:-1], strict=True))):
            found = gt.where(step <= float(boundary), float(value), found)
        return found


@dataclass(frozen=True)
class PolynomialDecay(LearningRateSchedule):
    """From the initial to the end learning rate as (1 - step / decay_steps) ** power.

    After `decay_steps` it stays at the end; with `cycle` it begins again from there over the next
    multiple of `decay_steps`, as in Keras.

    >>> schedule = gt.optimizers.schedules.PolynomialDecay(1.0, 10, end_learning_rate=0.0)
    >>> [float(schedule(step)) for step in (0, 5, 10, 20)]
    [1.0, 0.5, 0.0, 0.0]
    """

    initial_learning_rate: NonNegative
    decay_steps: Positive
    end_learning_rate: NonNegative = 0.0001
    power: NonNegative = 1.0
    cycle: bool = False
    name: str = "PolynomialDecay"

    def __call__(self, step: TensorLike) -> Tensor:
        step = _counted(step)
        if self.cycle:
            rounds = gt.where(gt.equal(step, 0.0), 1.0, gt.ceil(step / self.decay_steps))
            share = step / (self.decay_steps * rounds)
        else:
            share = gt.minimum(step, float(self.decay_steps)) / self.decay_steps
        distance = self.initial_learning_rate - self.end_learning_rate
        return distance * gt.pow(1.0 - share, float(self.power)) + self.end_learning_rate


@dataclass(frozen=True)
class CosineDecay(LearningRateSchedule):
    """Half a cosine from the initial learning rate down to `alpha` times it, in `decay_steps`.

    Given `warmup_target`, the learning rate first rises from the initial one to the target in
    `warmup_steps`, in a line, and decays from there.

    >>> schedule = gt.optimizers.schedules.CosineDecay(0.0, 10, warmup_target=1.0, warmup_steps=4)
    >>> [round(float(schedule(step)), 3) for step in (0, 2, 4, 9, 14, 99)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """

    initial_learning_rate: NonNegative
    decay_steps: Positive
    alpha: NonNegative = 0.0
    name: str = "CosineDecay"
    warmup_target: NonNegative | None = None
    warmup_steps: NonNegative = 0

    def __call__(self, step: TensorLike) -> Tensor:
        step = _counted(step)
        if self.warmup_target is None:
            return self._decayed(step, self.initial_learning_rate)
        decayed = self._decayed(step - float(self.warmup_steps), self.warmup_target)
        if not self.warmup_steps:
            return decayed
        rise = self.warmup_target - self.initial_learning_rate
        warm = self.initial_learning_rate + rise * (step / self.warmup_steps)
        return gt.where(step < float(self.warmup_steps), warm, decayed)

    def _decayed(self, step: Tensor, start: float) -> Tensor:
        share = gt.minimum(step, float(self.decay_steps)) / self.decay_steps
        cosine = 0.5 * (1.0 + gt.cos(share * math.pi))
        return start * ((1.0 - self.alpha) * cosine + self.alpha)


@dataclass(frozen=True)
class CosineDecayRestarts(LearningRateSchedule):
    """Half a cosine, again and again: periods grow by `t_mul`, their first values by `m_mul`.

    >>> schedule = gt.optimizers.schedules.CosineDecayRestarts(1.0, 4, t_mul=2.0, m_mul=0.5)
    >>> [round(float(schedule(step)), 3) for step in (0, 2, 4, 8, 12)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    initial_learning_rate: NonNegative
    first_decay_steps: Positive
    t_mul: Positive = 2.0
    m_mul: NonNegative = 1.0
    alpha: NonNegative = 0.0
    name: str = "SGDRDecay"

    def __call__(self, step: TensorLike) -> Tensor:
        periods = _counted(step) / self.first_decay_steps
        if self.t_mul == 1.0:
            number = gt.floor(periods)
            share = periods - number
        else:
            number = gt.floor(gt.log(1.0 - periods * (1.0 - self.t_mul)) / math.log(self.t_mul))
            length = gt.pow(float(self.t_mul), number)
            share = (periods - (1.0 - length) / (1.0 - self.t_mul)) / length
        cosine = 0.5 * gt.pow(float(self.m_mul), number) * (1.0 + gt.cos(share * math.pi))
        return self.initial_learning_rate * ((1.0 - self.alpha) * cosine + self.alpha)


SCHEDULES = {
    kind.__name__: kind
    for kind in (
        *(CosineDecay, CosineDecayRestarts, ExponentialDecay, InverseTimeDecay),
        *(PiecewiseConstantDecay, PolynomialDecay),
    )
}


def to_config(schedule: Any) -> dict[str, Any]:
    """A schedule as plain data, as Keras writes it."""
    return {"class_name": type(schedule).__name__, "config": schedule.get_config()}


def from_config(config: dict[str, Any]) -> LearningRateSchedule:
    """The schedule of this module that plain data describes."""
    kind = SCHEDULES.get(config.get("class_name", ""))
    if kind is None:
        raise ValueError(
            f"learning_rate: no schedule is called {config.get('class_name')!r}. "
            f"There are {', '.join(SCHEDULES)}; make others yourself and pass them."
        )
    return kind(**config["config"])


check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
