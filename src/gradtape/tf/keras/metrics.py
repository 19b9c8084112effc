"""Metrics: numbers gathered over batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.tf.conversion import convert
from gradtape.tf.keras import losses
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "Mean", "MeanAbsoluteError",
    "MeanSquaredError", "Metric", "SparseCategoricalAccuracy", "Sum", "get",
]  # fmt: skip


class Metric:
    """A number gathered over batches: `update_state`, `result`, `reset_state`.

    >>> metric = tf.keras.metrics.Mean()
    >>> metric.update_state([1.0, 3.0])
    >>> metric.result().numpy().item()
    2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        self.name = name or type(self).__name__.lower()
        self.reset_state()

    def reset_state(self) -> None:
        """Forget all."""
        self._total = 0.0
        self._count = 0.0

    reset_states = reset_state

    def _gather(self, values: Any, sample_weight: Any) -> None:
        values = np.asarray(values, np.float64)
        weights = np.ones_like(values)
        if sample_weight is not None:
            given = np.asarray(sample_weight, np.float64)
            weights = np.broadcast_to(
                given.reshape(given.shape + (1,) * (values.ndim - given.ndim)), values.shape
            )
        self._total += float((values * weights).sum())
        self._count += float(weights.sum())

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch in."""
        raise NotImplementedError(f"{type(self).__name__}: a metric needs `update_state`.")

    def result(self) -> Any:
        """The number so far."""
        return convert(np.float32(self._total / self._count if self._count else 0.0))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch in, and give the number so far."""
        self.update_state(*args, **kwargs)
        return self.result()


class Mean(Metric):
    """The mean of all values.

    >>> tf.keras.metrics.Mean()([1.0, 3.0]).numpy().item()
    2.0
    """

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Count values in."""
        self._gather(convert(values).read(), sample_weight)


class Sum(Mean):
    """The sum of all values.

    >>> tf.keras.metrics.Sum()([1.0, 3.0]).numpy().item()
    4.0
    """

    def result(self) -> Any:
        """The sum so far."""
        return convert(np.float32(self._total))


class _Compared(Metric):
    """The mean of something computed from targets and predictions."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a batch of targets and predictions in."""
        self._gather(self.values(y_true, y_pred), sample_weight)


class MeanSquaredError(_Compared):
    """The mean of squared differences.

    >>> tf.keras.metrics.MeanSquaredError()([[0.0]], [[2.0]]).numpy().item()
    4.0
    """

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each example."""
        return losses.mean_squared_error(y_true, y_pred).read()


class MeanAbsoluteError(_Compared):
    """The mean of absolute differences.

    >>> tf.keras.metrics.MeanAbsoluteError()([[0.0]], [[2.0]]).numpy().item()
    2.0
    """

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each example."""
        return losses.mean_absolute_error(y_true, y_pred).read()


class Accuracy(_Compared):
    """How often predictions equal targets.

    >>> tf.keras.metrics.Accuracy()([1, 2], [1, 3]).numpy().item()
    0.5
    """

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where they are equal."""
        a, b = convert(y_true).read(), convert(y_pred).read()
        return np.reshape(a, b.shape) == b


class BinaryAccuracy(Accuracy):
    """How often a probability is on the right side of a threshold.

    >>> tf.keras.metrics.BinaryAccuracy()([1.0, 0.0], [0.9, 0.8]).numpy().item()
    0.5
    """

    def __init__(self, name: str | None = None, dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(name, dtype)
        self.threshold = threshold

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where the side is right."""
        a, b = convert(y_true).read(), convert(y_pred).read()
        return np.reshape(a, b.shape) == (b > self.threshold)


class CategoricalAccuracy(Accuracy):
    """How often the largest prediction is the class of the target, a distribution.

    >>> tf.keras.metrics.CategoricalAccuracy()([[0.0, 1.0]], [[0.1, 0.9]]).numpy().item()
    1.0
    """

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where the class is right."""
        a, b = convert(y_true).read(), convert(y_pred).read()
        return a.argmax(-1) == b.argmax(-1)


class SparseCategoricalAccuracy(Accuracy):
    """How often the largest prediction is the class that an integer names.

    >>> tf.keras.metrics.SparseCategoricalAccuracy()(
    ...     [1, 0], [[0.1, 0.9], [0.2, 0.8]]
    ... ).numpy().item()
    0.5
    """

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where the class is right."""
        a, b = convert(y_true).read(), convert(y_pred).read()
        return np.reshape(a, b.shape[:-1]) == b.argmax(-1)


_BY_NAME = {
    "mse": MeanSquaredError, "mean_squared_error": MeanSquaredError, "mae": MeanAbsoluteError,
    "mean_absolute_error": MeanAbsoluteError, "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
}  # fmt: skip


def get(identifier: Any, targets: tuple[int, ...] = (), predictions: tuple[int, ...] = ()) -> Any:
    """A metric by name; "accuracy" is the one that fits the shapes.

    >>> type(tf.keras.metrics.get("mse")).__name__
    'MeanSquaredError'
    """
    if isinstance(identifier, Metric):
        return identifier
    if identifier in ("accuracy", "acc"):
        if not predictions or predictions[-1] == 1:
            return BinaryAccuracy("accuracy")
        kind = CategoricalAccuracy if targets == predictions else SparseCategoricalAccuracy
        return kind("accuracy")
    if identifier not in _BY_NAME:
        raise ValueError(f"metric {identifier!r} is unknown. There are {', '.join(_BY_NAME)}.")
    return _BY_NAME[identifier](identifier)


__getattr__ = attribute_finder(__name__, globals())
