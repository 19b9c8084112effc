"""Weighted moments, moments from sums, local response normalization, means of losses."""

from __future__ import annotations

import numpy as np

from gradtape.ops.arrays.movement import broadcast_to
from gradtape.ops.arrays.padding import pad
from gradtape.ops.elementwise.unary import square
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axes
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tf.base.conversion import as_axes, common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Axis, IntLike, Name, TensorLike

__all__ = [
    "compute_average_loss", "local_response_normalization", "lrn", "normalize_moments",
    "scale_regularization_loss", "sufficient_statistics", "weighted_moments",
]  # fmt: skip


@operation
def weighted_moments(
    x: TensorLike, axes: Axis, frequency_weights: TensorLike, keepdims: bool = False,
    name: Name = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and variance over axes, of elements with weights.

    >>> mean, variance = tf.nn.weighted_moments([1.0, 3.0], 0, [3.0, 1.0])
    >>> mean.numpy().item(), variance.numpy().item()
    (1.5, 0.75)
    """
    x, weights = common([x, frequency_weights], "weighted_moments")
    over = as_axes(axes)
    weights = broadcast_to(weights, np.broadcast_shapes(weights.spec.shape, x.spec.shape))
    whole = total(weights, axis=over, keepdims=True)
    mean = total(weights * x, axis=over, keepdims=True) / whole
    variance = total(weights * square(x - mean), axis=over, keepdims=True) / whole
    if keepdims:
        return mean, variance
    axes_found = normalize_axes("weighted_moments", over, x.ndim)
    return mean.squeeze(axes_found), variance.squeeze(axes_found)


@operation
def sufficient_statistics(
    x: TensorLike, axes: Axis, shift: TensorLike | None = None, keepdims: bool = False,
    name: Name = None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The count, the sum and the sum of squares over axes, of elements less a shift.

    >>> [y.numpy().item() for y in tf.nn.sufficient_statistics([1.0, 3.0], [0])[:3]]
    [2.0, 4.0, 10.0]
    """
    x = convert(x)
    over = normalize_axes("sufficient_statistics", as_axes(axes), x.ndim)
    count = convert(np.asarray(np.prod([x.spec.shape[at] for at in over]), x.spec.dtype))
    if shift is not None:
        shift = convert(shift, x.dtype)
    moved = x if shift is None else x - shift
    sums = (total(y, axis=over, keepdims=keepdims) for y in (moved, square(moved)))
    return (count, *sums, shift)


@operation
def normalize_moments(
    counts: TensorLike, mean_ss: TensorLike, variance_ss: TensorLike, shift: TensorLike,
    name: Name = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and variance from the result of sufficient_statistics.

    >>> mean, variance = tf.nn.normalize_moments(2.0, 4.0, 10.0, None)
    >>> mean.numpy().item(), variance.numpy().item()
    (2.0, 1.0)
    """
    count, first, second = common([counts, mean_ss, variance_ss], "normalize_moments")
    moved = first / count
    variance = second / count - square(moved)
    return (moved if shift is None else moved + convert(shift, moved.dtype)), variance


@operation
def local_response_normalization(
    input: TensorLike, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5,
    name: Name = None,
) -> Tensor:  # fmt: skip
    """Each channel divided by a power of the sum of squares of the channels around it.

    >>> tf.nn.lrn(tf.ones([1, 1, 1, 3]), depth_radius=0, bias=3.0).numpy().reshape(-1).tolist()
    [0.5, 0.5, 0.5]
    """
    x = convert(input)
    radius, channels = int(depth_radius), x.spec.shape[-1]
    padded = pad(square(x), [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    squares = padded[..., :channels]
    for start in range(1, 2 * radius + 1):
        squares = squares + padded[..., start : start + channels]
    return x / (float(bias) + float(alpha) * squares) ** float(beta)


@operation
def compute_average_loss(
    per_example_loss: TensorLike,
    sample_weight: TensorLike | None = None,
    global_batch_size: IntLike | None = None,
) -> Tensor:
    """The sum of losses divided by the number of examples.

    >>> tf.nn.compute_average_loss([1.0, 2.0, 3.0], global_batch_size=4).numpy().item()
    1.5
    """
    loss = convert(per_example_loss)
    if sample_weight is not None:
        loss, weights = common([loss, sample_weight], "compute_average_loss")
        loss = loss * weights.reshape(*weights.spec.shape, *(1,) * (loss.ndim - weights.ndim))
    size = (loss.spec.shape or (1,))[0] if global_batch_size is None else global_batch_size
    return total(loss) / cast(convert(size), loss.spec.dtype)


@operation
def scale_regularization_loss(regularization_loss: TensorLike) -> Tensor:
    """The sum of losses; TensorFlow divides it by the number of devices, which is one here.

    >>> tf.nn.scale_regularization_loss([1.0, 2.0]).numpy().item()
    3.0
    """
    return total(convert(regularization_loss))


lrn = local_response_normalization
