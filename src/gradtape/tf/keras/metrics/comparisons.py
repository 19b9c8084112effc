"""Metrics that are means of a comparison of targets with predictions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape.libraries import check_exports
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.keras import losses
from gradtape.tf.keras.metrics.base import MeanMetricWrapper
from gradtape.tf.keras.option_kinds import checked, parameter
from gradtape.tf.ops import elementwise
from gradtape.tf.ops.arrays import expand_dims, reshape
from gradtape.tf.ops.reductions import argmax
from gradtape.tf.ops.sorting import in_top_k

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "CosineSimilarity",
    "Hinge",
    "KLDivergence",
    "LogCoshError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "RootMeanSquaredError",
    "SparseCategoricalAccuracy",
    "SparseCategoricalCrossentropy",
    "SparseTopKCategoricalAccuracy",
    "SquaredHinge",
    "TopKCategoricalAccuracy",
    "binary_accuracy",
    "binary_crossentropy",
    "categorical_accuracy",
    "categorical_crossentropy",
    "hinge",
    "kl_divergence",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "poisson",
    "sparse_categorical_accuracy",
    "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy",
    "top_k_categorical_accuracy",
]

# Functions of targets and predictions that are losses too.
(
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
) = (
    losses.binary_crossentropy,
    losses.categorical_crossentropy,
    losses.hinge,
    losses.kl_divergence,
    losses.mean_absolute_error,
    losses.mean_absolute_percentage_error,
    losses.mean_squared_error,
    losses.mean_squared_logarithmic_error,
    losses.poisson,
    losses.sparse_categorical_crossentropy,
)


def _aligned(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Targets in the dtype of the predictions, both with or without a last axis of length 1."""
    scores = convert(y_pred)
    given = cast(convert(y_true), scores.dtype)
    mine, theirs = tuple(given.shape), tuple(scores.shape)
    if len(mine) == len(theirs) + 1 and mine[-1] == 1:
        given = given[..., 0]
    elif len(theirs) == len(mine) + 1 and theirs[-1] == 1:
        given = expand_dims(given, -1)
    return given, scores


def _same(a: Tensor, b: Tensor) -> Tensor:
    return cast(elementwise.equal(a, b), "float32")


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where prediction and target are equal."""
    return _same(*_aligned(y_true, y_pred))


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """1 where a probability is on the right side of a threshold.

    >>> tf.keras.metrics.binary_accuracy([1.0, 0.0], [0.9, 0.8]).numpy().tolist()
    [1.0, 0.0]
    """
    given, scores = _aligned(y_true, y_pred)
    return _same(given, cast(scores > cast(threshold, scores.dtype), given.dtype))


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the largest prediction is the class of the target, a distribution.

    >>> tf.keras.metrics.categorical_accuracy([[0.0, 1.0]], [[0.1, 0.9]]).numpy().tolist()
    [1.0]
    """
    return _same(argmax(y_true, -1), argmax(y_pred, -1))


def _labels(y_true: Any, scores: Tensor) -> Tensor:
    given = convert(y_true)
    if given.ndim == scores.ndim and given.shape[-1] == 1:
        given = given[..., 0]
    return cast(given, "int64")


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """1 where the largest prediction is the class that an integer names.

    >>> tf.keras.metrics.sparse_categorical_accuracy([1], [[0.1, 0.9]]).numpy().tolist()
    [1.0]
    """
    scores = convert(y_pred)
    return _same(_labels(y_true, scores), argmax(scores, -1))


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """1 where the class that an integer names is among the k largest predictions.

    >>> tf.keras.metrics.sparse_top_k_categorical_accuracy(
    ...     [2], [[0.1, 0.5, 0.4]], k=2
    ... ).numpy().tolist()
    [1.0]
    """
    scores = convert(y_pred)
    labels = _labels(y_true, scores)
    rows = reshape(scores, [-1, scores.shape[-1]])
    return reshape(cast(in_top_k(reshape(labels, [-1]), rows, k), "float32"), labels.shape)


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """1 where the class of the target is among the k largest predictions.

    >>> tf.keras.metrics.top_k_categorical_accuracy(
    ...     [[0.0, 0.0, 1.0]], [[0.1, 0.5, 0.4]], k=2
    ... ).numpy().tolist()
    [1.0]
    """
    return sparse_top_k_categorical_accuracy(argmax(y_true, -1), y_pred, k)


def _cosine(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    return -losses.cosine_similarity(y_true, y_pred, axis=axis)


def _mean_of(
    title: str,
    function: Callable[..., Tensor],
    doc: str,
    name: str | None = None,
    /,
    first: str = "",
    **options: Any,
) -> Any:
    """A class for the mean of a function; `first` is the option that comes before the name."""
    word = name or function.__name__
    shared = {"name": word, "dtype": None}
    ahead = {first: options[first]} if first else {}
    defaults = {**ahead, **shared, **options}
    signature = inspect.Signature([parameter(key, value) for key, value in defaults.items()])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = checked(type(self).__name__, signature, args, kwargs)
        MeanMetricWrapper.__init__(self, function, **given)
        for key in options:
            setattr(self, key, given[key])

    arguments = "[1], [[0.5, 0.5]]" if "Sparse" in title else "[[0.0, 1.0]], [[0.5, 0.5]]"
    example = f">>> tf.keras.metrics.{title}()({arguments}).shape\n    TensorShape([])"
    members = {
        "__init__": __init__,
        "__doc__": f"{doc}\n\n    {example}\n    ",
        "__module__": __name__,
        "__signature__": signature,
    }
    return type(title, (MeanMetricWrapper,), members)


Accuracy = _mean_of("Accuracy", accuracy, "How often predictions equal targets.")
BinaryAccuracy = _mean_of(
    "BinaryAccuracy",
    binary_accuracy,
    "How often a probability is on the right side of a threshold.",
    threshold=0.5,
)
CategoricalAccuracy = _mean_of(
    "CategoricalAccuracy",
    categorical_accuracy,
    "How often the largest prediction is the class of the target, a distribution.",
)
SparseCategoricalAccuracy = _mean_of(
    "SparseCategoricalAccuracy",
    sparse_categorical_accuracy,
    "How often the largest prediction is the class that an integer names.",
)
TopKCategoricalAccuracy = _mean_of(
    "TopKCategoricalAccuracy",
    top_k_categorical_accuracy,
    "How often the class of the target is among the k largest predictions.",
    first="k",
    k=5,
)
SparseTopKCategoricalAccuracy = _mean_of(
    "SparseTopKCategoricalAccuracy",
    sparse_top_k_categorical_accuracy,
    "How often the class that an integer names is among the k largest predictions.",
    first="k",
    k=5,
)
BinaryCrossentropy = _mean_of(
    "BinaryCrossentropy",
    losses.binary_crossentropy,
    "Cross-entropy of labels 0 and 1.",
    from_logits=False,
    label_smoothing=0,
)
CategoricalCrossentropy = _mean_of(
    "CategoricalCrossentropy",
    losses.categorical_crossentropy,
    "Cross-entropy of distributions.",
    from_logits=False,
    label_smoothing=0,
    axis=-1,
)
SparseCategoricalCrossentropy = _mean_of(
    "SparseCategoricalCrossentropy",
    losses.sparse_categorical_crossentropy,
    "Cross-entropy of integer labels.",
    from_logits=False,
    axis=-1,
)
CosineSimilarity = _mean_of(
    "CosineSimilarity", _cosine, "The cosine of the angle.", "cosine_similarity", axis=-1
)
Hinge = _mean_of("Hinge", losses.hinge, "max(1 - t * p, 0).")
SquaredHinge = _mean_of("SquaredHinge", losses.squared_hinge, "max(1 - t * p, 0) squared.")
CategoricalHinge = _mean_of(
    "CategoricalHinge", losses.categorical_hinge, "max(wrong - right + 1, 0)."
)
KLDivergence = _mean_of("KLDivergence", losses.kl_divergence, "t * log(t / p).")
LogCoshError = _mean_of("LogCoshError", losses.log_cosh, "log(cosh(difference)).", "logcosh")
Poisson = _mean_of("Poisson", losses.poisson, "p - t log(p).")
MeanSquaredError = _mean_of(
    "MeanSquaredError", losses.mean_squared_error, "The mean of squared differences."
)
MeanAbsoluteError = _mean_of(
    "MeanAbsoluteError", losses.mean_absolute_error, "The mean of absolute differences."
)
MeanAbsolutePercentageError = _mean_of(
    "MeanAbsolutePercentageError", losses.mean_absolute_percentage_error, "In percent."
)
MeanSquaredLogarithmicError = _mean_of(
    "MeanSquaredLogarithmicError", losses.mean_squared_logarithmic_error, "Squared ratios."
)


class RootMeanSquaredError(MeanMetricWrapper):
    """The root of the mean of squared differences.

    >>> tf.keras.metrics.RootMeanSquaredError()([[0.0]], [[2.0]]).numpy().item()
    2.0
    """

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(losses.mean_squared_error, name=name, dtype=dtype)

    def result(self) -> Tensor:
        return elementwise.sqrt(super().result())


check_exports(globals(), __all__)
