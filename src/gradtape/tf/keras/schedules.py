"""Learning rates that depend on the step: `tf.keras.optimizers.schedules`."""

from __future__ import annotations

from typing import Any

from gradtape.optimizers.schedules import (
    CosineDecay,
    CosineDecayRestarts,
    ExponentialDecay,
    InverseTimeDecay,
    LearningRateSchedule,
    PiecewiseConstantDecay,
    PolynomialDecay,
    from_config,
    to_config,
)
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay",
    "LearningRateSchedule", "PiecewiseConstantDecay", "PolynomialDecay", "deserialize",
    "serialize",
]  # fmt: skip


def serialize(learning_rate_schedule: Any) -> dict[str, Any]:
    """The class and the configuration of a schedule.

    >>> schedules = tf.keras.optimizers.schedules
    >>> schedules.serialize(schedules.ExponentialDecay(0.1, 10, 0.5))["class_name"]
    'ExponentialDecay'
    """
    return to_config(learning_rate_schedule)


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """The schedule that `serialize` described.

    >>> schedules = tf.keras.optimizers.schedules
    >>> made = schedules.serialize(schedules.ExponentialDecay(0.1, 10, 0.5))
    >>> schedules.deserialize(made).decay_steps
    10
    """
    kind = (custom_objects or {}).get(config.get("class_name"))
    return from_config(config) if kind is None else kind(**config["config"])


__getattr__ = attribute_finder(__name__, globals())
