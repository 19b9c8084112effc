"""Losses with Keras' names, order of arguments and formulas.

Each takes targets and predictions of one shape and gives one loss for each example, the mean or sum
along the last axis as its formula says; `reduction` says how examples are combined: "mean",
"sum", or "none".
"""

from __future__ import annotations

import math

from gradtape.nn.crossentropy import (
    binary_crossentropy,
    categorical_crossentropy,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_categorical_crossentropy,
)
from gradtape.nn.reduce import EPSILON, last_axis, matched, reduced
from gradtape.ops.elementwise.arithmetic import clip, equal, maximum, minimum, where
from gradtape.ops.elementwise.complexes import abs as absolute
from gradtape.ops.elementwise.unary import log, relu, softplus, sqrt, square
from gradtape.ops.families.signatures import kind_of_operand
from gradtape.ops.reductions.reduction import all as every
from gradtape.ops.reductions.reduction import mean
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tensor import Tensor, TensorLike

__all__ = [
    "binary_crossentropy", "categorical_crossentropy", "cosine_similarity", "hinge", "huber",
    "kl_divergence", "log_cosh", "mean_absolute_error", "mean_squared_error",
    "sigmoid_cross_entropy_with_logits", "softmax_cross_entropy_with_logits",
    "sparse_categorical_crossentropy",
]  # fmt: skip


@kind_of_operand
def mean_squared_error(
    y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean"
) -> Tensor:
    """The mean of (y_true - y_pred)².

    >>> float(gt.nn.losses.mean_squared_error([0.0, 1.0], [2.0, 1.0]))
    2.0
    """
    y_true, y_pred = matched("mean_squared_error", y_true, y_pred)
    return reduced(last_axis(mean, square(y_true - y_pred)), reduction)


@kind_of_operand
def mean_absolute_error(
    y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean"
) -> Tensor:
    """The mean of |y_true - y_pred|.

    >>> float(gt.nn.losses.mean_absolute_error([0.0, 1.0], [2.0, 1.0]))
    1.0
    """
    y_true, y_pred = matched("mean_absolute_error", y_true, y_pred)
    return reduced(last_axis(mean, absolute(y_true - y_pred)), reduction)


@kind_of_operand
def huber(
    y_true: TensorLike, y_pred: TensorLike, delta: float = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """The mean of e² / 2 for errors up to delta, and of delta * (|e| - delta / 2) beyond.

    >>> gt.nn.losses.huber([[0.0], [0.0]], [[0.5], [3.0]], reduction="none").tolist()
    [0.125, 2.5]
    """
    y_true, y_pred = matched("huber", y_true, y_pred)
    size = absolute(y_pred - y_true)
    near = minimum(size, float(delta))
    loss = near * (size - 0.5 * near)
    return reduced(last_axis(mean, loss), reduction)


@kind_of_operand
def log_cosh(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of log(cosh(y_pred - y_true)), without overflow.

    >>> round(float(gt.nn.losses.log_cosh([0.0], [1000.0])), 4)
    999.3069
    """
    y_true, y_pred = matched("log_cosh", y_true, y_pred)
    error = y_pred - y_true
    return reduced(last_axis(mean, error + softplus(-2.0 * error) - math.log(2.0)), reduction)


@kind_of_operand
def hinge(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The mean of max(1 - y_true * y_pred, 0) for targets -1 and 1; targets 0 and 1 are converted.

    >>> float(gt.nn.losses.hinge([-1.0, 1.0], [0.5, 2.0]))
    0.75
    """
    y_true, y_pred = matched("hinge", y_true, y_pred)
    binary = every(equal(y_true, 0.0) | equal(y_true, 1.0))
    signs = where(binary, 2.0 * y_true - 1.0, y_true)
    return reduced(last_axis(mean, relu(1.0 - signs * y_pred)), reduction)


@kind_of_operand
def kl_divergence(y_true: TensorLike, y_pred: TensorLike, *, reduction: str = "mean") -> Tensor:
    """The sum of y_true * log(y_true / y_pred), both held between 1e-7 and 1.

    >>> float(gt.nn.losses.kl_divergence([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """
    y_true, y_pred = matched("kl_divergence", y_true, y_pred)
    y_true, y_pred = clip(y_true, EPSILON, 1.0), clip(y_pred, EPSILON, 1.0)
    return reduced(last_axis(total, y_true * log(y_true / y_pred)), reduction)


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
    return reduced(-total(products, axis=axis), reduction)


def _directed(x: Tensor, axis: int) -> Tensor:
    """Vectors of length 1; those shorter than 1e-6 stay shorter."""
    return x / sqrt(maximum(total(square(x), axis=axis, keepdims=True), 1e-12))
