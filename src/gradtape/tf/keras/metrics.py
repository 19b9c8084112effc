"""Metrics: numbers gathered over batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.tf.conversion import convert
from gradtape.tf.keras import losses
from gradtape.tf.module import _snake_case
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "CategoricalAccuracy",
    "CategoricalCrossentropy", "FalseNegatives", "FalsePositives", "Hinge", "KLDivergence",
    "LogCoshError", "Mean", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Metric", "Poisson", "Precision", "Recall",
    "RootMeanSquaredError", "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "Sum",
    "TrueNegatives", "TruePositives", "get",
]  # fmt: skip


class Metric:
    """A number gathered over batches: `update_state`, `result`, `reset_state`.

    >>> metric = tf.keras.metrics.Mean()
    >>> metric.update_state([1.0, 3.0])
    >>> metric.result().numpy().item()
    2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        self.name = name or _snake_case(type(self).__name__)
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


def _mean_of(name: str, function: Any, options: tuple[str, ...], doc: str) -> Any:
    """The mean of a loss over all examples."""

    def __init__(self: Any, name: Any = None, dtype: Any = None, **kwargs: Any) -> None:  # noqa: N807
        unknown = [key for key in kwargs if key not in options]
        if unknown:
            raise TypeError(f"{type(self).__name__}: unknown arguments {unknown}.")
        self._options = kwargs
        Metric.__init__(self, name or function.__name__, dtype)

    def values(self: Any, y_true: Any, y_pred: Any) -> Any:
        return function(y_true, y_pred, **self._options).read()

    arguments = "[1], [[0.5, 0.5]]" if "Sparse" in name else "[[0.0, 1.0]], [[0.5, 0.5]]"
    example = f">>> tf.keras.metrics.{name}()({arguments}).shape\n    TensorShape([])"
    members = {
        "__init__": __init__, "values": values, "__doc__": f"{doc}\n\n    {example}\n    ",
        "__module__": __name__,
    }  # fmt: skip
    return type(name, (_Compared,), members)


_ENTROPY = ("from_logits", "label_smoothing", "axis")
BinaryCrossentropy = _mean_of(
    "BinaryCrossentropy", losses.binary_crossentropy, _ENTROPY, "Cross-entropy of labels 0 and 1."
)
CategoricalCrossentropy = _mean_of(
    "CategoricalCrossentropy", losses.categorical_crossentropy, _ENTROPY,
    "Cross-entropy of distributions.",
)  # fmt: skip
SparseCategoricalCrossentropy = _mean_of(
    "SparseCategoricalCrossentropy", losses.sparse_categorical_crossentropy,
    ("from_logits", "axis"), "Cross-entropy of integer labels.",
)  # fmt: skip
Hinge = _mean_of("Hinge", losses.hinge, (), "max(1 - t * p, 0).")
KLDivergence = _mean_of("KLDivergence", losses.kl_divergence, (), "t * log(t / p).")
LogCoshError = _mean_of("LogCoshError", losses.log_cosh, (), "log(cosh(difference)).")
Poisson = _mean_of("Poisson", losses.poisson, (), "p - t log(p).")
MeanAbsolutePercentageError = _mean_of(
    "MeanAbsolutePercentageError", losses.mean_absolute_percentage_error, (), "In percent."
)
MeanSquaredLogarithmicError = _mean_of(
    "MeanSquaredLogarithmicError", losses.mean_squared_logarithmic_error, (), "Squared ratios."
)


class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean of squared differences.

    >>> tf.keras.metrics.RootMeanSquaredError()([[0.0]], [[2.0]]).numpy().item()
    2.0
    """

    def result(self) -> Any:
        """The root so far."""
        return convert(np.float32(np.sqrt(self._total / self._count if self._count else 0.0)))


class _Counted(Metric):
    """Counts of right and wrong predictions above a threshold."""

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        self.threshold = 0.5 if thresholds is None else float(thresholds)
        super().__init__(name or _snake_case(type(self).__name__), dtype)

    def reset_state(self) -> None:
        """Forget all."""
        self._true, self._false, self._missed, self._spared = 0.0, 0.0, 0.0, 0.0

    reset_states = reset_state

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a batch of targets and predictions in."""
        a, b = (np.asarray(convert(y).read(), np.float64).reshape(-1) for y in (y_true, y_pred))
        weights = np.ones_like(b)
        if sample_weight is not None:
            weights = np.broadcast_to(np.asarray(sample_weight, np.float64).reshape(-1), b.shape)
        there, said = a > 0.5, b > self.threshold
        self._true += float(weights[there & said].sum())
        self._false += float(weights[~there & said].sum())
        self._missed += float(weights[there & ~said].sum())
        self._spared += float(weights[~there & ~said].sum())


class Precision(_Counted):
    """How many of those said to be there are there.

    >>> tf.keras.metrics.Precision()([1, 0, 1], [0.9, 0.6, 0.1]).numpy().item()
    0.5
    """

    def result(self) -> Any:
        """The share so far."""
        return convert(np.float32(self._true / max(self._true + self._false, 1e-300)))


class Recall(_Counted):
    """How many of those that are there are said to be.

    >>> tf.keras.metrics.Recall()([1, 0, 1], [0.9, 0.6, 0.1]).numpy().item()
    0.5
    """

    def result(self) -> Any:
        """The share so far."""
        return convert(np.float32(self._true / max(self._true + self._missed, 1e-300)))


def _count_of(name: str, attribute: str, doc: str) -> Any:
    def result(self: Any) -> Any:
        return convert(np.float32(getattr(self, attribute)))

    example = f">>> tf.keras.metrics.{name}()([1, 0], [0.9, 0.1]).shape\n    TensorShape([])"
    members = {"result": result, "__doc__": f"{doc}\n\n    {example}\n    ", "__module__": __name__}
    return type(name, (_Counted,), members)


TruePositives = _count_of("TruePositives", "_true", "How many are there and said to be.")
FalsePositives = _count_of("FalsePositives", "_false", "How many are said to be there and are not.")
FalseNegatives = _count_of("FalseNegatives", "_missed", "How many are there and not said to be.")
TrueNegatives = _count_of("TrueNegatives", "_spared", "How many are not there, and not said to be.")

_BY_NAME = {
    "mse": MeanSquaredError, "mean_squared_error": MeanSquaredError, "mae": MeanAbsoluteError,
    "mean_absolute_error": MeanAbsoluteError, "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
    "binary_crossentropy": BinaryCrossentropy, "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy, "precision": Precision,
    "recall": Recall, "root_mean_squared_error": RootMeanSquaredError,
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
    return _BY_NAME[identifier](name=identifier)


__getattr__ = attribute_finder(__name__, globals())
