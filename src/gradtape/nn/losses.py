"""Losses with Keras' names, order of arguments and formulas.

Each takes targets and predictions of one shape and gives one loss for each example, the mean or sum
along the last axis as its formula says; `reduction` says how examples are combined: "mean",
"sum", or "none".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any

import numpy as np

import gradtape as gt
from gradtape import Tensor
from gradtape.errors import DtypeError, IndexRangeError, ShapeError
from gradtape.libraries import (
    check_exports,
    kind_of_operand,
    known_value,
    namespace as _namespace,
    normalize_axis,
)
from gradtape.nn.activations import log_softmax
from gradtape.typing import Positive, Probability, TensorLike

__all__ = [
    "binary_crossentropy",
    "categorical_crossentropy",
    "cosine_similarity",
    "cross_entropy",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_categorical_crossentropy",
]

# The least distance of probabilities from 0 and 1.
EPSILON = 1e-7


def predictions(y_pred: TensorLike) -> Tensor:
    """Predictions as a tensor of floats."""
    found: Tensor = gt.asarray(y_pred)
    return found if found.dtype.kind == "f" else gt.cast(found, gt.default_dtype())


def matched(name: str, y_true: TensorLike, y_pred: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors of one shape and of the dtype of the predictions."""
    targets: Tensor = gt.asarray(y_true)
    found = predictions(y_pred)
    if targets.shape != found.shape:
        # Not broadcast: targets (n,) with predictions (n, 1) would give n × n errors.
        raise ShapeError(
            f"{name}: targets of shape {targets.shape} and predictions of shape {found.shape} "
            "differ. Reshape one of them."
        )
    dtype = (
        found.dtype if targets.dtype.kind in "biu" else gt.result_type(targets.dtype, found.dtype)
    )
    return gt.astype(targets, dtype, copy=False), gt.astype(found, dtype, copy=False)


def last_axis(function: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Reduced along the last axis; a single number is its own sum and mean."""
    return function(x, axis=-1) if x.ndim else x


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or sum of the examples, or each."""
    if reduction == "mean":
        return gt.mean(loss)
    if reduction == "sum":
        return gt.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f'reduction: {reduction!r} is unknown. Use "mean", "sum" or "none".')


@kind_of_operand
def sigmoid_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, *, reduction: str = "none"
) -> Tensor:
    """The cross-entropy of labels 0 to 1 and sigmoid(logits), element by element as in TensorFlow.

    >>> gt.nn.losses.sigmoid_cross_entropy_with_logits([1.0, 0.0], [1e4, 1e4]).tolist()
    [0.0, 10000.0]
    """
    labels, logits = matched("sigmoid_cross_entropy_with_logits", labels, logits)
    # Neither term is negative, so nothing cancels for any logit.
    loss = labels * gt.softplus(-logits) + (1.0 - labels) * gt.softplus(logits)
    return reduced(loss, reduction)


@kind_of_operand
def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, *, reduction: str = "none"
) -> Tensor:
    """The cross-entropy of labels and softmax(logits) along an axis, one for each example.

    >>> gt.nn.losses.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[1e4, 0.0]]).tolist()
    [10000.0]
    """
    labels, logits = matched("softmax_cross_entropy_with_logits", labels, logits)
    return reduced(_crossed(labels, log_softmax(logits, axis), axis), reduction)


def cross_entropy(
    logits: TensorLike,
    labels: TensorLike,
    *,
    label_smoothing: Probability = 0.0,
    axis: int = -1,
    reduction: str = "mean",
) -> Tensor:
    """The cross-entropy of softmax(logits) and labels: integers, or probabilities of the classes.

    >>> round(float(gt.nn.cross_entropy([[1e4, 0.0], [0.0, 0.0]], [0, 1])), 4)
    0.3466
    >>> round(float(gt.nn.cross_entropy([[0.0, 0.0]], [[0.5, 0.5]])), 4)
    0.6931

    Logits come first, as in JAX and PyTorch. The classes lie along `axis`; labels without that axis
    are integers from 0 to the number of classes - 1.
    """
    scores, targets = predictions(logits), gt.asarray(labels)
    if targets.ndim < scores.ndim:
        classes = scores.shape[normalize_axis("cross_entropy", axis, scores.ndim)]
        if not label_smoothing:
            return sparse_categorical_crossentropy(
                targets, scores, from_logits=True, axis=axis, reduction=reduction
            )
        targets = gt.moveaxis(gt.one_hot(targets, classes, dtype=scores.dtype), -1, axis)
    return categorical_crossentropy(
        targets,
        scores,
        from_logits=True,
        label_smoothing=label_smoothing,
        axis=axis,
        reduction=reduction,
    )


def _crossed(labels: TensorLike, logs: Any, axis: int) -> Tensor:
    """-sum(labels * logs), where a label of 0 adds 0 even if the logarithm is infinite."""
    return -gt.sum(gt.multiply_no_nan(logs, labels), axis=axis)


def _smoothed(labels: Tensor, smoothing: float, classes: int) -> Tensor:
    return labels * (1.0 - smoothing) + smoothing / classes if smoothing else labels


@kind_of_operand
def binary_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    label_smoothing: Probability = 0.0,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The mean of -(t log(p) + (1 - t) log(1 - p)) along the last axis.

    Probabilities are held between 1e-7 and 1 - 1e-7; logits need not be.

    >>> round(float(gt.nn.losses.binary_crossentropy([1.0, 0.0], [0.5, 0.5])), 6)
    0.693147
    """
    y_true, y_pred = matched("binary_crossentropy", y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2)
    if from_logits:
        loss = sigmoid_cross_entropy_with_logits(y_true, y_pred)
    else:
        y_pred = gt.clip(y_pred, EPSILON, 1.0 - EPSILON)
        loss = -(y_true * gt.log(y_pred) + (1.0 - y_true) * gt.log(1.0 - y_pred))
    return reduced(last_axis(gt.mean, loss), reduction)


def _log_probabilities(y_pred: TensorLike, from_logits: bool, axis: int) -> Tensor:
    if from_logits:
        return log_softmax(y_pred, axis)
    shares = y_pred / gt.sum(y_pred, axis=axis, keepdims=True)
    return gt.log(gt.clip(shares, EPSILON, 1.0 - EPSILON))


@kind_of_operand
def categorical_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    label_smoothing: Probability = 0.0,
    axis: int = -1,
    *,
    reduction: str = "mean",
) -> Tensor:
    """-sum(y_true * log(p)) along an axis, for targets that are distributions such as one-hot rows.

    Probabilities are divided by their sum and held between 1e-7 and 1 - 1e-7; logits need not be.

    >>> round(float(gt.nn.losses.categorical_crossentropy([[0.0, 1.0]], [[0.2, 0.8]])), 6)
    0.223144
    """
    y_true, y_pred = matched("categorical_crossentropy", y_true, y_pred)
    axis = normalize_axis("categorical_crossentropy", axis, y_pred.ndim)
    y_true = _smoothed(y_true, label_smoothing, y_pred.shape[axis])
    logs = _log_probabilities(y_pred, from_logits, axis)
    return reduced(_crossed(y_true, logs, axis), reduction)


@kind_of_operand
def sparse_categorical_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    axis: int = -1,
    *,
    reduction: str = "mean",
) -> Tensor:
    """-log(p) of the class that an integer names, along an axis.

    Labels have the shape of the predictions without the axis, or with length 1 there. One out of
    range is an IndexError, or, where it is still to be computed, a loss of NaN.

    >>> logits = gt.asarray([[1e4, 0.0], [0.0, 0.0]])
    >>> losses = gt.nn.losses.sparse_categorical_crossentropy(
    ...     [0, 1], logits, from_logits=True, reduction="none"
    ... )
    >>> [round(x, 6) for x in losses.tolist()]
    [-0.0, 0.693147]
    """
    name = "sparse_categorical_crossentropy"
    targets: Tensor = gt.asarray(y_true)
    y_pred = predictions(y_pred)
    axis = normalize_axis(name, axis, y_pred.ndim)
    classes = y_pred.shape[axis]
    labels = _labels(name, targets, y_pred.shape, axis)
    logs = _log_probabilities(y_pred, from_logits, axis)
    # Labels are compared with every class inside the loop that computes the logarithms; a gather
    # would be a loop of its own.
    numbers = np.arange(classes).reshape((classes,) + (1,) * (y_pred.ndim - axis - 1))
    chosen = gt.equal(labels, numbers)
    loss = _crossed(gt.cast(chosen, logs.dtype), logs, axis)
    if known_value(targets) is None:
        loss = loss + gt.cast(gt.where(gt.any(chosen, axis=axis), 0.0, math.nan), loss.dtype)
    return reduced(loss, reduction)


def _labels(name: str, y_true: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """Integer labels with an axis of length 1 where the classes are; known ones are checked."""
    if y_true.dtype.kind not in "iu":
        raise DtypeError(
            f"{name}: labels of dtype {y_true.dtype} are not integers. Cast them, or use "
            "categorical_crossentropy for distributions."
        )
    rest, kept = shape[:axis] + shape[axis + 1 :], (*shape[:axis], 1, *shape[axis + 1 :])
    if y_true.shape not in (rest, kept):
        raise ShapeError(
            f"{name}: labels of shape {y_true.shape} do not fit predictions of shape {shape}. "
            f"They need shape {rest}."
        )
    known = known_value(y_true)
    if known is not None and known.size and not (known.min() >= 0 and known.max() < shape[axis]):
        wrong = known[(known < 0) | (known >= shape[axis])].flat[0]
        raise IndexRangeError(f"{name}: label {wrong} is not a class (0 to {shape[axis] - 1}).")
    return y_true if y_true.shape == kept else gt.reshape(y_true, kept)


@kind_of_operand
def mean_squared_error(
    y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean"
) -> Tensor:
    """The mean of (y_true - y_pred)².

    >>> float(gt.nn.losses.mean_squared_error([0.0, 1.0], [2.0, 1.0]))
    2.0
    """
    y_true, y_pred = matched("mean_squared_error", y_true, y_pred)
    return reduced(last_axis(gt.mean, gt.square(y_true - y_pred)), reduction)


@kind_of_operand
def mean_absolute_error(
    y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean"
) -> Tensor:
    """The mean of |y_true - y_pred|.

    >>> float(gt.nn.losses.mean_absolute_error([0.0, 1.0], [2.0, 1.0]))
    1.0
    """
    y_true, y_pred = matched("mean_absolute_error", y_true, y_pred)
    return reduced(last_axis(gt.mean, gt.abs(y_true - y_pred)), reduction)


@kind_of_operand
def huber(
    y_true: TensorLike, y_pred: TensorLike, delta: Positive = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """The mean of e² / 2 for errors up to delta, and of delta * (|e| - delta / 2) beyond.

    >>> gt.nn.losses.huber([[0.0], [0.0]], [[0.5], [3.0]], reduction="none").tolist()
    [0.125, 2.5]
    """
    y_true, y_pred = matched("huber", y_true, y_pred)
    size = gt.abs(y_pred - y_true)
    near = gt.minimum(size, float(delta))
    loss = near * (size - 0.5 * near)
    return reduced(last_axis(gt.mean, loss), reduction)


@kind_of_operand
def log_cosh(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of log(cosh(y_pred - y_true)), without overflow.

    >>> round(float(gt.nn.losses.log_cosh([0.0], [1000.0])), 4)
    999.3069
    """
    y_true, y_pred = matched("log_cosh", y_true, y_pred)
    error = y_pred - y_true
    return reduced(last_axis(gt.mean, error + gt.softplus(-2.0 * error) - math.log(2.0)), reduction)


@kind_of_operand
def hinge(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of max(1 - y_true * y_pred, 0) for targets -1 and 1; targets 0 and 1 are converted.

    >>> float(gt.nn.losses.hinge([-1.0, 1.0], [0.5, 2.0]))
    0.75
    """
    y_true, y_pred = matched("hinge", y_true, y_pred)
    binary = gt.all(gt.equal(y_true, 0.0) | gt.equal(y_true, 1.0))
    signs = gt.where(binary, 2.0 * y_true - 1.0, y_true)
    return reduced(last_axis(gt.mean, gt.relu(1.0 - signs * y_pred)), reduction)


@kind_of_operand
def kl_divergence(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The sum of y_true * log(y_true / y_pred), both held between 1e-7 and 1.

    >>> float(gt.nn.losses.kl_divergence([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """
    y_true, y_pred = matched("kl_divergence", y_true, y_pred)
    y_true, y_pred = gt.clip(y_true, EPSILON, 1.0), gt.clip(y_pred, EPSILON, 1.0)
    return reduced(last_axis(gt.sum, y_true * gt.log(y_true / y_pred)), reduction)


@kind_of_operand
def cosine_similarity(
    y_true: TensorLike, y_pred: TensorLike, axis: int = -1, *, reduction: str = "mean"
) -> Tensor:
    """Minus the cosine of the angle between targets and predictions, so that -1 is best.

    >>> round(float(gt.nn.losses.cosine_similarity([[1.0, 0.0]], [[2.0, 0.0]])), 6)
    -1.0
    """
    y_true, y_pred = matched("cosine_similarity", y_true, y_pred)
    products = _directed(y_true, axis) * _directed(y_pred, axis)
    return reduced(-gt.sum(products, axis=axis), reduction)


def _directed(x: Tensor, axis: int) -> Tensor:
    """Vectors of length 1; those shorter than 1e-6 stay shorter."""
    return x / gt.sqrt(gt.maximum(gt.sum(gt.square(x), axis=axis, keepdims=True), 1e-12))


check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
