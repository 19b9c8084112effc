"""Steps that losses share: targets and predictions of one shape, and the reduction of examples."""

from __future__ import annotations

from collections.abc import Callable

from gradtape.dtypes import default_dtype, promote
from gradtape.errors import ShapeError
from gradtape.ops.families.axes import in_dtype
from gradtape.ops.families.casting import cast
from gradtape.ops.reductions.reduction import mean
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tensor import Tensor, TensorLike, asarray

# How close to 0 and 1 probabilities may come.
EPSILON = 1e-7


def predictions(y_pred: TensorLike) -> Tensor:
    """Predictions as a tensor of floats."""
    found: Tensor = asarray(y_pred)
    return found if found.dtype.kind == "f" else cast(found, default_dtype())


def matched(name: str, y_true: TensorLike, y_pred: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors of one shape and of the dtype of the predictions."""
    targets: Tensor = asarray(y_true)
    found = predictions(y_pred)
    if targets.shape != found.shape:
        # Not broadcast: targets (n,) with predictions (n, 1) would give n × n errors.
        raise ShapeError(
            f"{name}: targets of shape {targets.shape} and predictions of shape {found.shape} "
            "differ. Reshape one of them."
        )
    dtype = found.dtype if targets.dtype.kind in "biu" else promote(targets.dtype, found.dtype)
    return in_dtype(targets, dtype), in_dtype(found, dtype)


def last_axis(function: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Reduced along the last axis; a single number is its own sum and mean."""
    return function(x, axis=-1) if x.ndim else x


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or sum of the examples, or each."""
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return total(loss)
    if reduction == "none":
        return loss
    raise ValueError(f'reduction: {reduction!r} is unknown. Use "mean", "sum" or "none".')
