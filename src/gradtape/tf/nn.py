"""Neural-network functions under TensorFlow's names: `tf.nn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import DtypeError, ShapeError
from gradtape.nn import activations, losses
from gradtape.ops.elementwise.arithmetic import minimum, stop_gradient, where
from gradtape.ops.elementwise.unary import relu as core_relu
from gradtape.ops.elementwise.unary import rsqrt, square
from gradtape.ops.elementwise.unary import sigmoid as core_sigmoid
from gradtape.ops.elementwise.unary import softplus as core_softplus
from gradtape.ops.families.shapes import normalize_axes
from gradtape.ops.reductions import reduction
from gradtape.tf.blocks import depth_to_space, space_to_depth
from gradtape.tf.conversion import as_axes, common, convert
from gradtape.tf.convolution import (
    atrous_conv2d,
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    conv1d,
    conv2d,
    conv3d,
    convolution,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pool,
)
from gradtape.tf.depthwise import depthwise_conv2d, separable_conv2d
from gradtape.tf.dispatch import fresh, operation
from gradtape.tf.elementwise import FUNCTIONS
from gradtape.tf.indexing import as_indices, gather
from gradtape.tf.products import l2_normalize
from gradtape.tf.random import bernoulli_mask
from gradtape.tf.reductions import zero_fraction
from gradtape.tf.sorting import in_top_k, top_k
from gradtape.tf.statistics import (
    compute_average_loss,
    local_response_normalization,
    lrn,
    normalize_moments,
    scale_regularization_loss,
    sufficient_statistics,
    weighted_moments,
)
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor
from gradtape.tf.transposed import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
    conv_transpose,
)

__all__ = [
    "atrous_conv2d", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_normalization",
    "bias_add", "compute_average_loss", "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose",
    "conv3d", "conv3d_transpose", "conv_transpose", "convolution", "crelu", "depth_to_space",
    "depthwise_conv2d", "dropout", "elu", "embedding_lookup", "gelu", "in_top_k", "l2_loss",
    "l2_normalize", "leaky_relu", "local_response_normalization", "log_poisson_loss", "log_softmax",
    "lrn", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "moments", "normalize_moments",
    "pool", "relu", "relu6", "scale_regularization_loss", "selu", "separable_conv2d", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "silu", "softmax", "softmax_cross_entropy_with_logits",
    "softplus", "softsign", "space_to_depth", "sparse_softmax_cross_entropy_with_logits",
    "sufficient_statistics", "swish", "tanh", "top_k", "weighted_cross_entropy_with_logits",
    "weighted_moments", "zero_fraction",
]  # fmt: skip


sigmoid, tanh, softsign = (FUNCTIONS[name] for name in ("sigmoid", "tanh", "softsign"))


def _floats(name: str, x: Any) -> Tensor:
    x = convert(x)
    if x.spec.dtype.kind != "f":
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to float32."
        )
    return x


@operation
def relu(features: Any, name: str | None = None) -> Tensor:
    """The value where it is positive, else 0.

    >>> tf.nn.relu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
    """
    return core_relu(convert(features))


@operation
def relu6(features: Any, name: str | None = None) -> Tensor:
    """The value held between 0 and 6.

    >>> tf.nn.relu6([-1.0, 7.0]).numpy().tolist()
    [0.0, 6.0]
    """
    x = convert(features)
    # Without a derivative at both ends.
    return where(x >= 6, x.spec.dtype.type(6).item(), core_relu(x))


@operation
def crelu(features: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """relu of the value and of its negative, one after the other.

    >>> tf.nn.crelu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    from gradtape.ops.arrays.joining import concat

    x = convert(features)
    return core_relu(concat([x, -x], axis=axis))


@operation
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """The value where it is positive, alpha times it elsewhere.

    >>> tf.nn.leaky_relu([-1.0, 2.0]).numpy()
    array([-0.2,  2. ], dtype=float32)
    """
    return activations.leaky_relu(_floats("leaky_relu", features), float(alpha))


@operation
def elu(features: Any, name: str | None = None) -> Tensor:
    """x where it is positive, exp(x) - 1 elsewhere.

    >>> tf.nn.elu([0.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
    """
    return activations.elu(_floats("elu", features))


@operation
def selu(features: Any, name: str | None = None) -> Tensor:
    """Scaled elu, which keeps mean 0 and variance 1.

    >>> tf.nn.selu([0.0, 1.0]).numpy().round(4)
    array([0.    , 1.0507], dtype=float32)
    """
    return activations.selu(_floats("selu", features))


@operation
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the distribution function of the standard normal.

    >>> tf.nn.gelu([0.0, 1.0]).numpy().round(4)
    array([0.    , 0.8413], dtype=float32)
    """
    return activations.gelu(_floats("gelu", features), approximate)


@operation
def silu(features: Any, beta: Any = 1.0) -> Tensor:
    """x * sigmoid(beta * x), also called swish.

    >>> tf.nn.silu([0.0]).numpy().tolist()
    [0.0]
    """
    x = _floats("silu", features)
    return x * core_sigmoid(x if beta == 1.0 else beta * x)


swish = silu


@operation
def softplus(features: Any, name: str | None = None) -> Tensor:
    """log(1 + exp(x)), without overflow.

    >>> tf.nn.softplus([-1e4, 1e4]).numpy().tolist()
    [0.0, 10000.0]
    """
    return core_softplus(_floats("softplus", features))


@operation
def softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """exp(x) over its sum along an axis, without overflow.

    >>> tf.nn.softmax([1e4, 1e4]).numpy().tolist()
    [0.5, 0.5]
    """
    return activations.softmax(_floats("softmax", logits), -1 if axis is None else as_axes(axis))


@operation
def log_softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of softmax.

    >>> tf.nn.log_softmax([1e4, 0.0]).numpy().tolist()
    [0.0, -10000.0]
    """
    x = _floats("log_softmax", logits)
    return activations.log_softmax(x, -1 if axis is None else as_axes(axis))


@operation
def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
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
    labels: Any, logits: Any, name: str | None = None
) -> Tensor:
    """The same for labels that are the number of a class.

    >>> tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[1e4, 0.0]]).numpy().tolist()
    [10000.0]
    """
    what = "sparse_softmax_cross_entropy_with_logits"
    return losses.sparse_categorical_crossentropy(
        as_indices(what, labels), _floats(what, logits), from_logits=True, reduction="none"
    )


@operation
def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """The cross-entropy of labels 0 to 1 and sigmoid(logits), element by element.

    >>> tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [1e4, 1e4]).numpy().tolist()
    [0.0, 10000.0]
    """
    scores = _floats("sigmoid_cross_entropy_with_logits", logits)
    return losses.sigmoid_cross_entropy_with_logits(convert(labels, hint=scores.dtype), scores)


@operation
def weighted_cross_entropy_with_logits(
    labels: Any, logits: Any, pos_weight: Any, name: str | None = None
) -> Tensor:
    """The same with the term of label 1 weighted.

    >>> tf.nn.weighted_cross_entropy_with_logits([1.0], [-1e4], 2.0).numpy().tolist()
    [20000.0]
    """
    z, x = common([labels, logits], "weighted_cross_entropy_with_logits")
    return pos_weight * z * core_softplus(-x) + (1.0 - z) * core_softplus(x)


@operation
def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """exp(c) - z c, the loss of counts z given the logarithm c of their mean.

    >>> tf.nn.log_poisson_loss([2.0], [0.0]).numpy().tolist()
    [1.0]
    """
    z, c = common([targets, log_input], "log_poisson_loss")
    loss = FUNCTIONS["exp"](c) - z * c
    if not compute_full_loss:
        return loss
    stirling = z * FUNCTIONS["log"](z) - z + 0.5 * FUNCTIONS["log"](2.0 * float(np.pi) * z)
    return loss + where(z <= 1.0, 0.0, stirling)


@operation
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares.

    >>> tf.nn.l2_loss([3.0, 4.0]).numpy().item()
    12.5
    """
    return reduction.sum(square(_floats("l2_loss", t))) * 0.5


@operation
def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
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
    x: Any,
    axes: Any,
    shift: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes.

    >>> [m.numpy().tolist() for m in tf.nn.moments([[1.0, 2.0], [3.0, 4.0]], [0])]
    [[2.0, 3.0], [1.0, 1.0]]
    """
    x, axes = _floats("moments", x), as_axes(axes)
    return (
        reduction.mean(x, axis=axes, keepdims=keepdims),
        reduction.var(x, axis=axes, keepdims=keepdims),
    )


@operation
def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset.

    >>> tf.nn.batch_normalization([3.0], 1.0, 4.0, None, None, 0.0).numpy().tolist()
    [1.0]
    """
    x = _floats("batch_normalization", x)
    factor = rsqrt(convert(variance, x.dtype) + variance_epsilon)
    if scale is not None:
        factor = factor * convert(scale, x.dtype)
    shifted = (x - convert(mean, x.dtype)) * factor
    return shifted if offset is None else shifted + convert(offset, x.dtype)


@fresh
def dropout(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Elements set to 0 with probability `rate`, the others scaled up to keep the mean.

    >>> bool(tf.reduce_all(tf.nn.dropout(tf.ones([100]), 0.5) % 2.0 == 0.0))
    True
    """
    x, rate = _floats("dropout", x), float(rate)
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout: rate {rate} is not from 0 up to, but without, 1.")
    if not rate:
        return x
    shape = x.spec.shape
    if noise_shape is not None:
        shape = tuple(n if m is None else int(m) for n, m in zip(shape, noise_shape, strict=True))
    kept = stop_gradient(bernoulli_mask(shape, 1.0 - rate, seed))
    return where(kept, x * (1.0 / (1.0 - rate)), 0.0)


@operation
def embedding_lookup(
    params: Any, ids: Any, max_norm: float | None = None, name: str | None = None
) -> Tensor:
    """Rows of a table; its gradient is an IndexedSlices.

    >>> tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1]).numpy().tolist()
    [[3.0, 4.0]]
    """
    rows = gather(params, ids)
    if max_norm is None:
        return rows
    axes = normalize_axes("embedding_lookup", None, rows.ndim)[convert(ids).ndim :]
    from gradtape.ops.reductions.norm import norm

    size = norm(rows, 2, axes, True)
    return rows * minimum(1.0, float(max_norm) / size)


__getattr__ = attribute_finder(__name__, globals())
