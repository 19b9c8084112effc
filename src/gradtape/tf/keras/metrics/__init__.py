"""Metrics: numbers gathered over batches. `tf.keras.metrics`.

Public interface: the classes that are listed in `__all__`.
"""

from __future__ import annotations

from typing import Any

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.keras.metrics import comparisons as _comparisons, counts as _counts
from gradtape.tf.keras.metrics.base import Mean, MeanMetricWrapper, Metric, Sum
from gradtape.tf.keras.metrics.comparisons import *
from gradtape.tf.keras.metrics.counts import *
from gradtape.tf.keras.weights import snake_case

__all__ = ["Mean", "MeanMetricWrapper", "Metric", "Sum", "deserialize", "get", "serialize"]
__all__ += _comparisons.__all__
__all__ += _counts.__all__

_CLASSES: dict[str, Any] = {
    name: globals()[name]
    for name in sorted(__all__)
    if isinstance(globals().get(name), type) and name not in ("MeanMetricWrapper", "Metric")
}

# Whether more is better, by the name of the class.
_RISING = ("AUC", "CosineSimilarity", "Precision", "Recall", "TrueNegatives", "TruePositives")
DIRECTIONS = {
    name: "Accuracy" in name or name in _RISING for name in _CLASSES if name not in ("Mean", "Sum")
}

_OTHER_NAMES = {
    "mse": "MeanSquaredError",
    "mae": "MeanAbsoluteError",
    "mape": "MeanAbsolutePercentageError",
    "msle": "MeanSquaredLogarithmicError",
    "rmse": "RootMeanSquaredError",
    "logcosh": "LogCoshError",
    "kld": "KLDivergence",
    "kl_divergence": "KLDivergence",
    "MSE": "MeanSquaredError",
    "MAE": "MeanAbsoluteError",
}
_BY_NAME = {
    **{snake_case(name): kind for name, kind in _CLASSES.items()},
    **_CLASSES,
    **{other: _CLASSES[name] for other, name in _OTHER_NAMES.items()},
}


def get(identifier: Any) -> Any:
    """A metric by name or from its configuration; metrics and functions as they are.

    >>> type(tf.keras.metrics.get("mse")).__name__
    'MeanSquaredError'
    """
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(f"metric {identifier!r} is unknown. There are {', '.join(_BY_NAME)}.")
        return _BY_NAME[identifier]()
    if isinstance(identifier, type) and issubclass(identifier, Metric):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"metric: {identifier!r} is not a metric, a name or a function.")


def serialize(metric: Any) -> dict[str, Any]:
    """The class and the configuration of a metric.

    >>> tf.keras.metrics.serialize(tf.keras.metrics.Mean())["class_name"]
    'Mean'
    """
    return {"class_name": type(metric).__name__, "config": metric.get_config()}


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """The metric that `serialize` described.

    >>> tf.keras.metrics.deserialize({"class_name": "Mean", "config": {"name": "m"}}).name
    'm'
    """
    name = config["class_name"]
    kind = (custom_objects or {}).get(name, _BY_NAME.get(name))
    if kind is None:
        raise ValueError(f"metric {name!r} is unknown. Pass it in custom_objects.")
    return kind.from_config(config["config"])


_check_exports(globals(), __all__)
