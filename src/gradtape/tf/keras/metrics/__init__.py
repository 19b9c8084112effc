"""Metrics: numbers gathered over batches. `tf.keras.metrics`.

Door: the classes that are listed in `__all__`.
"""

from __future__ import annotations

from typing import Any

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.keras.losses import (
    binary_crossentropy,
    categorical_crossentropy,
    hinge,
    kl_divergence,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson,
    sparse_categorical_crossentropy,
)
from gradtape.tf.keras.metrics.base import Mean, MeanMetricWrapper, Metric, Sum
from gradtape.tf.keras.metrics.comparisons import (
    Accuracy,
    BinaryAccuracy,
    BinaryCrossentropy,
    CategoricalAccuracy,
    CategoricalCrossentropy,
    CategoricalHinge,
    CosineSimilarity,
    Hinge,
    KLDivergence,
    LogCoshError,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    Poisson,
    RootMeanSquaredError,
    SparseCategoricalAccuracy,
    SparseCategoricalCrossentropy,
    SparseTopKCategoricalAccuracy,
    SquaredHinge,
    TopKCategoricalAccuracy,
    binary_accuracy,
    categorical_accuracy,
    sparse_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
    top_k_categorical_accuracy,
)
from gradtape.tf.keras.metrics.counts import (
    AUC,
    FalseNegatives,
    FalsePositives,
    Precision,
    Recall,
    TrueNegatives,
    TruePositives,
)
from gradtape.tf.keras.naming import snake_case

_CLASSES = (
    AUC, Accuracy, BinaryAccuracy, BinaryCrossentropy, CategoricalAccuracy,
    CategoricalCrossentropy, CategoricalHinge, CosineSimilarity, FalseNegatives, FalsePositives,
    Hinge, KLDivergence, LogCoshError, Mean, MeanAbsoluteError, MeanAbsolutePercentageError,
    MeanSquaredError, MeanSquaredLogarithmicError, Poisson, Precision, Recall,
    RootMeanSquaredError, SparseCategoricalAccuracy, SparseCategoricalCrossentropy,
    SparseTopKCategoricalAccuracy, SquaredHinge, Sum, TopKCategoricalAccuracy, TrueNegatives,
    TruePositives,
)  # fmt: skip

__all__ = [
    *(kind.__name__ for kind in _CLASSES), "MeanMetricWrapper", "Metric", "binary_accuracy",
    "binary_crossentropy", "categorical_accuracy", "categorical_crossentropy", "deserialize",
    "get", "hinge", "kl_divergence", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "mean_squared_logarithmic_error", "poisson", "serialize",
    "sparse_categorical_accuracy", "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy",
]  # fmt: skip

# Whether more is better, by the name of the class.
DIRECTIONS = {
    kind.__name__: "Accuracy" in kind.__name__
    or kind in (AUC, CosineSimilarity, Precision, Recall, TrueNegatives, TruePositives)
    for kind in _CLASSES
    if kind not in (Mean, Sum)
}

_BY_NAME: dict[str, Any] = {
    **{snake_case(kind.__name__): kind for kind in _CLASSES},
    **{kind.__name__: kind for kind in _CLASSES},
    "mse": MeanSquaredError, "mae": MeanAbsoluteError, "mape": MeanAbsolutePercentageError,
    "msle": MeanSquaredLogarithmicError, "rmse": RootMeanSquaredError, "logcosh": LogCoshError,
    "kld": KLDivergence, "kl_divergence": KLDivergence,
    "MSE": MeanSquaredError, "MAE": MeanAbsoluteError,
}  # fmt: skip


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


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """The metric that `serialize` described.

    >>> tf.keras.metrics.deserialize({"class_name": "Mean", "config": {"name": "m"}}).name
    'm'
    """
    name = config["class_name"]
    kind = (custom_objects or {}).get(name, _BY_NAME.get(name))
    if kind is None:
        raise ValueError(f"metric {name!r} is unknown. Pass it in custom_objects.")
    return kind.from_config(config["config"])


__getattr__ = attribute_finder(__name__, globals())
