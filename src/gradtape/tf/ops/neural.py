"""Neural networks: activations, losses, normalization, moments, dropout and look-ups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports, normalize_axes
from gradtape.nn import activations, losses
from gradtape.ops.reductions import reduction
from gradtape.tf.base.conversion import as_axes, common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Axis, IntLike, IntsLike, Name, SizeLike, TensorLike
from gradtape.tf.ops.elementwise import activation, divide_no_nan
from gradtape.tf.ops.indexing import as_indices, gather
from gradtape.tf.ops.random_numbers import bernoulli_mask
from gradtape.typing import Bound, Count, NonNegative

__all__ = [
    "batch_normalization",
    "bias_add",
    "compute_average_loss",
    "crelu",
    "dropout",
    "elu",
    "embedding_lookup",
    "gelu",
    "l2_loss",
    "leaky_relu",
    "local_response_normalization",
    "log_poisson_loss",
    "log_softmax",
    "lrn",
    "moments",
    "normalize_moments",
    "relu",
    "relu6",
    "scale_regularization_loss",
    "selu",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "sufficient_statistics",
    "swish",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
]


def _floats(name: str, operand: TensorLike) -> Tensor:
    x = convert(operand)
    if x.spec.dtype.kind != "f":
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to float32."
        )
    return x


relu = activation(gt.relu, "iuf", "The value where it is positive, else 0.", "relu(-1.0)", "0.0")
elu = activation(activations.elu, "f", "x where positive, exp(x) - 1 elsewhere.", "elu(2.0)", "2.0")
selu = activation(
    activations.selu, "f", "Scaled elu, which keeps mean 0 and variance 1.", "selu(0.0)", "0.0"
)


@operation
def relu6(features: TensorLike, name: Name = None) -> Tensor:
    """The value clipped to 0 and 6.

    >>> tf.nn.relu6([-1.0, 7.0]).numpy().tolist()
    [0.0, 6.0]
    """
    x = convert(features)
    # The derivative is 0 at both ends, as in TensorFlow.
    return gt.where(x >= 6, x.spec.dtype.type(6).item(), gt.relu(x))


@operation
def crelu(features: TensorLike, axis: int = -1, name: Name = None) -> Tensor:
    """relu of the value and relu of its negative, concatenated.

    >>> tf.nn.crelu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = convert(features)
    return gt.relu(gt.concat([x, -x], axis=axis))


@operation
def leaky_relu(features: TensorLike, alpha: float = 0.2, name: Name = None) -> Tensor:
    """The value where it is positive, alpha times it elsewhere.

    >>> tf.nn.leaky_relu([-1.0, 2.0]).numpy()
    array([-0.2,  2. ], dtype=float32)
    """
    return activations.leaky_relu(_floats("leaky_relu", features), float(alpha))


@operation
def gelu(features: TensorLike, approximate: bool = False, name: Name = None) -> Tensor:
    """x times the distribution function of the standard normal.

    >>> tf.nn.gelu([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.8413], dtype=float32)
    """
    return activations.gelu(_floats("gelu", features), approximate)


@operation
def silu(features: TensorLike, beta: TensorLike = 1.0) -> Tensor:
    """x * sigmoid(beta * x), also called swish.

    >>> tf.nn.silu([0.0]).numpy().tolist()
    [0.0]
    """
    x = _floats("silu", features)
    return x * gt.sigmoid(x if beta == 1.0 else beta * x)


swish = silu


@operation
def softmax(logits: TensorLike, axis: Axis = None, name: Name = None) -> Tensor:
    """exp(x) over its sum along an axis, without overflow.

    >>> tf.nn.softmax([1e4, 1e4]).numpy().tolist()
    [0.5, 0.5]
    """
    return activations.softmax(_floats("softmax", logits), -1 if axis is None else as_axes(axis))


@operation
def log_softmax(logits: TensorLike, axis: Axis = None, name: Name = None) -> Tensor:
    """The logarithm of softmax.

    >>> tf.nn.log_softmax([1e4, 0.0]).numpy().tolist()
    [0.0, -10000.0]
    """
    x = _floats("log_softmax", logits)
    return activations.log_softmax(x, -1 if axis is None else as_axes(axis))


@operation
def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: Name = None
) -> Tensor:
    """The cross-entropy of labels and softmax(logits), one for each example.

    >>> tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[1e4, 0.0]]).numpy().tolist()
    [10000.0]
    """
    scores = _floats("softmax_cross_entropy_with_logits", logits)
    return losses.softmax_cross_entropy_with_logits(
        convert(labels, hint=scores.dtype), scores, int(axis)
    )


@operation
def sparse_softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, name: Name = None
) -> Tensor:
    """The cross-entropy of labels that are numbers of classes, one for each example.

    >>> tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[1e4, 0.0]]).numpy().tolist()
    [10000.0]
    """
    what = "sparse_softmax_cross_entropy_with_logits"
    return losses.sparse_categorical_crossentropy(
        as_indices(what, labels), _floats(what, logits), from_logits=True, reduction="none"
    )


@operation
def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None, logits: Any = None, name: Name = None
) -> Tensor:
    """The cross-entropy of labels 0 to 1 and sigmoid(logits), element by element.

    >>> tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [1e4, 1e4]).numpy().tolist()
    [0.0, 10000.0]
    """
    scores = _floats("sigmoid_cross_entropy_with_logits", logits)
    return losses.sigmoid_cross_entropy_with_logits(convert(labels, hint=scores.dtype), scores)


@operation
def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: TensorLike, name: Name = None
) -> Tensor:
    """sigmoid_cross_entropy_with_logits, with the term of label 1 weighted.

    >>> tf.nn.weighted_cross_entropy_with_logits([1.0], [-1e4], 2.0).numpy().tolist()
    [20000.0]
    """
    z, x = common([labels, logits], "weighted_cross_entropy_with_logits")
    return z * pos_weight * gt.softplus(-x) + (1.0 - z) * gt.softplus(x)


@operation
def log_poisson_loss(
    targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False, name: Name = None
) -> Tensor:
    """exp(c) - z c, the loss of counts z given the logarithm c of their mean.

    >>> tf.nn.log_poisson_loss([2.0], [0.0]).numpy().tolist()
    [1.0]
    """
    z, c = common([targets, log_input], "log_poisson_loss")
    loss = gt.exp(c) - z * c
    if not compute_full_loss:
        return loss
    stirling = z * gt.log(z) - z + 0.5 * gt.log(2.0 * math.pi * z)
    return loss + gt.where(z <= 1.0, 0.0, stirling)


@operation
def l2_loss(t: TensorLike, name: Name = None) -> Tensor:
    """Half the sum of squares.

    >>> tf.nn.l2_loss([3.0, 4.0]).numpy().item()
    12.5
    """
    return reduction.sum(gt.square(_floats("l2_loss", t))) * 0.5


@operation
def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: Name = None
) -> Tensor:
    """A vector added along the axis of channels, the last by default.

    >>> tf.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy().tolist()
    [[11.0, 22.0]]
    """
    x, b = common([value, bias], "bias_add")
    axis = 1 if data_format is not None and data_format.startswith("NC") else x.ndim - 1
    if b.ndim != 1 or x.ndim < 2 or x.spec.shape[axis] != b.spec.shape[0]:
        raise ShapeError(f"bias_add: a bias of shape {b.shape} does not fit {x.shape}.")
    return x + b[(slice(None),) + (None,) * (x.ndim - axis - 1)]


@operation
def moments(
    x: TensorLike,
    axes: Axis,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: Name = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes.

    >>> [m.numpy().tolist() for m in tf.nn.moments([[1.0, 2.0], [3.0, 4.0]], [0])]
    [[2.0, 3.0], [1.0, 1.0]]
    """
    x, axes = _floats("moments", x), as_axes(axes)
    if shift is not None:
        # A value near the mean, for digits: here the mean itself is subtracted.
        convert(shift, x.dtype)
    return (
        reduction.mean(x, axis=axes, keepdims=keepdims),
        reduction.var(x, axis=axes, keepdims=keepdims),
    )


@operation
def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike,
    scale: TensorLike,
    variance_epsilon: NonNegative,
    name: Name = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset.

    >>> tf.nn.batch_normalization([3.0], 1.0, 4.0, None, None, 0.0).numpy().tolist()
    [1.0]
    """
    x = _floats("batch_normalization", x)
    factor = gt.rsqrt(convert(variance, x.dtype) + variance_epsilon)
    if scale is not None:
        factor = factor * convert(scale, x.dtype)
    shifted = (x - convert(mean, x.dtype)) * factor
    return shifted if offset is None else shifted + convert(offset, x.dtype)


@operation
def dropout(
    x: TensorLike,
    rate: float,
    noise_shape: Sequence[IntLike | None] | None = None,
    seed: IntsLike | None = None,
    name: Name = None,
) -> Tensor:
    """Elements set to 0 with probability `rate`, the others scaled up to keep the mean.

    >>> bool(tf.reduce_all(tf.nn.dropout(tf.ones([100]), 0.5) % 2.0 == 0.0))
    True
    """
    x, rate = _floats("dropout", x), float(rate)
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout: rate must be at least 0 and less than 1, not {rate}.")
    if not rate:
        return x
    shape = x.spec.shape
    if noise_shape is not None:
        shape = tuple(n if m is None else int(m) for n, m in zip(shape, noise_shape, strict=True))
    kept = gt.stop_gradient(bernoulli_mask(shape, 1.0 - rate, seed))
    return gt.where(kept, x * (1.0 / (1.0 - rate)), 0.0)


@operation
def embedding_lookup(
    params: TensorLike, ids: TensorLike, max_norm: Bound | None = None, name: Name = None
) -> Tensor:
    """Rows of a table, or of a list of tables, one after the other; its gradient is IndexedSlices.

    >>> table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> tf.nn.embedding_lookup(table, [1]).numpy().tolist()
    [[3.0, 4.0]]
    """
    if isinstance(params, (list, tuple)):
        tables = common(params, "embedding_lookup")
        params = tables[0] if len(tables) == 1 else gt.concat(tables, axis=0)
    rows = gather(params, ids)
    if max_norm is None:
        return rows
    axes = normalize_axes("embedding_lookup", None, rows.ndim)[convert(ids).ndim :]
    size = gt.norm(rows, 2, axes, True)
    return rows * gt.minimum(1.0, float(max_norm) / size)


@operation
def weighted_moments(
    x: TensorLike,
    axes: Axis,
    frequency_weights: TensorLike,
    keepdims: bool = False,
    name: Name = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes, of elements with weights.

    >>> mean, variance = tf.nn.weighted_moments([1.0, 3.0], 0, [3.0, 1.0])
    >>> mean.numpy().item(), variance.numpy().item()
    (1.5, 0.75)
    """
    x, weights = common([x, frequency_weights], "weighted_moments")
    over = as_axes(axes)
    weights = gt.broadcast_to(weights, np.broadcast_shapes(weights.spec.shape, x.spec.shape))
    whole = gt.sum(weights, axis=over, keepdims=True)
    mean = gt.sum(weights * x, axis=over, keepdims=True) / whole
    variance = gt.sum(weights * gt.square(x - mean), axis=over, keepdims=True) / whole
    if keepdims:
        return mean, variance
    axes_found = normalize_axes("weighted_moments", over, x.ndim)
    return mean.squeeze(axes_found), variance.squeeze(axes_found)


@operation
def sufficient_statistics(
    x: TensorLike,
    axes: Axis,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: Name = None,
) -> tuple[Tensor | None, ...]:
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
    sums = (gt.sum(y, axis=over, keepdims=keepdims) for y in (moved, gt.square(moved)))
    return (count, *sums, shift)


@operation
def normalize_moments(
    counts: TensorLike,
    mean_ss: TensorLike,
    variance_ss: TensorLike,
    shift: TensorLike,
    name: Name = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance from the result of sufficient_statistics.

    >>> mean, variance = tf.nn.normalize_moments(2.0, 4.0, 10.0, None)
    >>> mean.numpy().item(), variance.numpy().item()
    (2.0, 1.0)
    """
    count, first, second = common([counts, mean_ss, variance_ss], "normalize_moments")
    moved = first / count
    variance = second / count - gt.square(moved)
    return (moved if shift is None else moved + convert(shift, moved.dtype)), variance


@operation
def local_response_normalization(
    input: TensorLike,
    depth_radius: Count = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: Name = None,
) -> Tensor:
    """Each channel divided by a power of the sum of squares of the channels around it.

    >>> tf.nn.lrn(tf.ones([1, 1, 1, 3]), depth_radius=0, bias=3.0).numpy().reshape(-1).tolist()
    [0.5, 0.5, 0.5]
    """
    x = convert(input)
    radius, channels = int(depth_radius), x.spec.shape[-1]
    padded = gt.pad(gt.square(x), [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    squares = padded[..., :channels]
    for start in range(1, 2 * radius + 1):
        squares = squares + padded[..., start : start + channels]
    return x / (float(bias) + float(alpha) * squares) ** float(beta)


@operation
def compute_average_loss(
    per_example_loss: TensorLike,
    sample_weight: TensorLike | None = None,
    global_batch_size: SizeLike | None = None,
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
    return divide_no_nan(gt.sum(loss), gt.cast(convert(size), loss.spec.dtype))


@operation
def scale_regularization_loss(regularization_loss: TensorLike) -> Tensor:
    """The sum of losses; TensorFlow divides it by the number of devices, which is one here.

    >>> tf.nn.scale_regularization_loss([1.0, 2.0]).numpy().item()
    3.0
    """
    return gt.sum(convert(regularization_loss))


lrn = local_response_normalization


check_exports(globals(), __all__)
