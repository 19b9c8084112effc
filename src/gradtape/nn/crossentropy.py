"""Cross-entropies, from probabilities or from logits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import DtypeError, IndexRangeError, ShapeError
from gradtape.nn.activations import log_softmax
from gradtape.nn.reduce import EPSILON, last_axis, matched, predictions, reduced
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.positions import known_value
from gradtape.ops.elementwise.arithmetic import clip, equal, where
from gradtape.ops.elementwise.special import multiply_no_nan
from gradtape.ops.elementwise.unary import log, softplus
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.families.signatures import kind_of_operand
from gradtape.ops.reductions.reduction import any as some
from gradtape.ops.reductions.reduction import mean
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tensor import Tensor, TensorLike, asarray


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
    loss = labels * softplus(-logits) + (1.0 - labels) * softplus(logits)
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


def _crossed(labels: TensorLike, logs: Any, axis: int) -> Tensor:
    """-sum(labels * logs), where a label of 0 adds 0 even if the logarithm is infinite."""
    return -total(multiply_no_nan(logs, labels), axis=axis)


def _smoothed(labels: Tensor, smoothing: float, classes: int) -> Tensor:
    return labels * (1.0 - smoothing) + smoothing / classes if smoothing else labels


@kind_of_operand
def binary_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
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
        y_pred = clip(y_pred, EPSILON, 1.0 - EPSILON)
        loss = -(y_true * log(y_pred) + (1.0 - y_true) * log(1.0 - y_pred))
    return reduced(last_axis(mean, loss), reduction)


def _log_probabilities(y_pred: TensorLike, from_logits: bool, axis: int) -> Tensor:
    if from_logits:
        return log_softmax(y_pred, axis)
    shares = y_pred / total(y_pred, axis=axis, keepdims=True)
    return log(clip(shares, EPSILON, 1.0 - EPSILON))


@kind_of_operand
def categorical_crossentropy(
    y_true: TensorLike,
    y_pred: TensorLike,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
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
    targets: Tensor = asarray(y_true)
    y_pred = predictions(y_pred)
    axis = normalize_axis(name, axis, y_pred.ndim)
    classes = y_pred.shape[axis]
    labels = _labels(name, targets, y_pred.shape, axis)
    logs = _log_probabilities(y_pred, from_logits, axis)
    # Labels are compared with every class inside the loop that computes the logarithms; a gather
    # would be a loop of its own.
    numbers = np.arange(classes).reshape((classes,) + (1,) * (y_pred.ndim - axis - 1))
    chosen = equal(labels, numbers)
    loss = _crossed(cast(chosen, logs.dtype), logs, axis)
    if known_value(targets) is None:
        loss = loss + cast(where(some(chosen, axis=axis), 0.0, math.nan), loss.dtype)
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
    return y_true if y_true.shape == kept else reshape(y_true, kept)
