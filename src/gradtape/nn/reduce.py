"""What losses share: targets and predictions of one shape, and what becomes of the examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.dtypes import default_dtype, promote
from gradtape.errors import ShapeError
from gradtape.ops.families.casting import cast
from gradtape.ops.reductions.reduction import mean
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tensor.tensor import asarray

# How close to 0 and 1 probabilities may come.
EPSILON = 1e-7


def predictions(y_pred: Any) -> Any:
    """Predictions as a tensor of floats."""
    y_pred = asarray(y_pred)
    return y_pred if y_pred.dtype.kind == "f" else cast(y_pred, default_dtype())


def matched(name: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Both as tensors of one shape and of the dtype of the predictions."""
    y_true, y_pred = asarray(y_true), predictions(y_pred)
    if y_true.shape != y_pred.shape:
        # Not broadcast: targets (n,) with predictions (n, 1) would give n × n errors.
        raise ShapeError(
            f"{name}: targets of shape {y_true.shape} and predictions of shape {y_pred.shape} "
            "differ. Reshape one of them."
        )
    dtype = y_pred.dtype if y_true.dtype.kind in "biu" else promote(y_true.dtype, y_pred.dtype)
    return in_dtype(y_true, dtype), in_dtype(y_pred, dtype)


def in_dtype(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else cast(x, dtype)


def last_axis(function: Callable[..., Any], x: Any) -> Any:
    """Reduced along the last axis; a single number is its own sum and mean."""
    return function(x, axis=-1) if x.ndim else x


def reduced(loss: Any, reduction: str) -> Any:
    """The mean or sum of the examples, or each."""
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return total(loss)
    if reduction == "none":
        return loss
    raise ValueError(f'reduction: {reduction!r} is unknown. Use "mean", "sum" or "none".')
