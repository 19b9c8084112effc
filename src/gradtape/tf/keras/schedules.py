"""Learning rates that depend on the step: `tf.keras.optimizers.schedules`."""

from __future__ import annotations

from typing import Any

from gradtape.libraries import check_exports
from gradtape.optimizers import schedules as core
from gradtape.optimizers.schedules import LearningRateSchedule, to_config
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "deserialize",
    "serialize",
]


def _derived(kind: Any) -> Any:
    """One of gradtape's schedules that gives tensors of this face, float32 as in Keras."""

    @operation
    def learning_rate(schedule: Any, step: Any) -> Any:
        return cast(kind.__call__(schedule, convert(step)), "float32")

    def __call__(self: Any, step: Any) -> Any:  # noqa: N807
        return learning_rate(self, step)

    doc = (kind.__doc__ or "").replace("gt.optimizers", "tf.keras.optimizers")
    members = {"__call__": __call__, "__doc__": doc, "__module__": __name__}
    return type(kind.__name__, (kind,), members)


ExponentialDecay = _derived(core.ExponentialDecay)
InverseTimeDecay = _derived(core.InverseTimeDecay)
PolynomialDecay = _derived(core.PolynomialDecay)
PiecewiseConstantDecay = _derived(core.PiecewiseConstantDecay)
CosineDecay = _derived(core.CosineDecay)
CosineDecayRestarts = _derived(core.CosineDecayRestarts)
_KINDS = (
    ExponentialDecay,
    InverseTimeDecay,
    PolynomialDecay,
    PiecewiseConstantDecay,
    CosineDecay,
    CosineDecayRestarts,
)
_BY_NAME = {kind.__name__: kind for kind in _KINDS}


def serialize(learning_rate_schedule: Any) -> dict[str, Any]:
    """The class and the configuration of a schedule.

    >>> schedules = tf.keras.optimizers.schedules
    >>> schedules.serialize(schedules.ExponentialDecay(0.1, 10, 0.5))["class_name"]
    'ExponentialDecay'
    """
    return to_config(learning_rate_schedule)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """The schedule that `serialize` described.

    >>> schedules = tf.keras.optimizers.schedules
    >>> made = schedules.serialize(schedules.ExponentialDecay(0.1, 10, 0.5))
    >>> schedules.deserialize(made).decay_steps
    10
    """
    name: Any = config.get("class_name")
    kind = (custom_objects or {}).get(name, _BY_NAME.get(name))
    if kind is None:
        raise ValueError(
            f"schedule {name!r} is unknown. There are {', '.join(_BY_NAME)}; pass others in "
            "custom_objects."
        )
    return kind.from_config(config["config"])


check_exports(globals(), __all__)
