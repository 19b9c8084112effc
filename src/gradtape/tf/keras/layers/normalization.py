"""Layers that normalise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape import square, stop_gradient
from gradtape.nn.layers import normalized
from gradtape.ops.reductions import reduction
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.types import Axis
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.ops.creation import ones_like
from gradtape.tf.ops.neural import batch_normalization
from gradtape.typing import NonNegative, Probability

if TYPE_CHECKING:
    from gradtape.tensor.tensor import Tensor as CoreTensor
    from gradtape.tf.base.tensor import Tensor
    from gradtape.tf.keras.types import (
        ConstraintLike,
        InitializerLike,
        RegularizerLike,
    )
    from gradtape.tf.programs.variable import Variable


class LayerNormalization(Layer):
    """Each example with mean 0 and variance 1 along an axis, then scaled and shifted.

    >>> tf.keras.layers.LayerNormalization()(tf.constant([[1.0, 3.0]])).numpy().round(2).tolist()
    [[-1.0, 1.0]]
    """

    supports_masking = True

    def __init__(
        self,
        axis: Axis = -1,
        epsilon: NonNegative = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike = None,
        gamma_regularizer: RegularizerLike = None,
        beta_constraint: ConstraintLike = None,
        gamma_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis, self.epsilon, self.center, self.scale = axis, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        axes = sorted(a % len(input_shape) for a in np.atleast_1d(np.asarray(self.axis)).tolist())
        self._axes = tuple(axes)
        shape = tuple(input_shape[a] for a in axes)
        _add_scale_and_shift(self, shape)

    def call(self, inputs: Tensor) -> CoreTensor:
        gamma, beta = (None if w is None else convert(w) for w in (self.gamma, self.beta))
        return normalized(inputs, self._axes, self.epsilon, gamma, beta)


def _add_scale_and_shift(
    layer: LayerNormalization | BatchNormalization, shape: tuple[int, ...]
) -> None:
    for name, wanted in (("gamma", layer.scale), ("beta", layer.center)):
        if wanted:
            setattr(layer, name, layer._add_named(name, shape))


class BatchNormalization(Layer):
    """Each feature with mean 0 and variance 1: of the batch while training, else of all so far.

    >>> layer = tf.keras.layers.BatchNormalization()
    >>> layer(tf.constant([[1.0], [3.0]]), training=True).numpy().round(2).tolist()
    [[-1.0], [1.0]]
    >>> round(layer.moving_mean.numpy().item(), 4)
    0.02
    """

    supports_masking = True

    def __init__(
        self,
        axis: int = -1,
        momentum: Probability = 0.99,
        epsilon: NonNegative = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        moving_mean_initializer: InitializerLike = "zeros",
        moving_variance_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike = None,
        gamma_regularizer: RegularizerLike = None,
        beta_constraint: ConstraintLike = None,
        gamma_constraint: ConstraintLike = None,
        synchronized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis, self.momentum, self.epsilon = axis, float(momentum), float(epsilon)
        self.center, self.scale = center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        # There is one replica, which is synchronized with itself.
        self.synchronized = bool(synchronized)
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None

    def build(self, input_shape: Any) -> None:
        shape = (input_shape[self.axis],)
        _add_scale_and_shift(self, shape)
        self.moving_mean = self.add_weight(
            shape, self.moving_mean_initializer, trainable=False, name="moving_mean"
        )
        self.moving_variance = self.add_weight(
            shape, self.moving_variance_initializer, trainable=False, name="moving_variance"
        )

    def call(self, inputs: Tensor, training: bool = False, mask: Tensor | None = None) -> Tensor:
        """The normalised input; steps that a mask leaves out do not count for the statistics."""
        ndim = inputs.ndim
        at = self.axis % ndim
        spread = tuple(-1 if a == at else 1 for a in range(ndim))
        if training and self.trainable:
            axes = tuple(a for a in range(ndim) if a != at)
            mean, variance = _moments(inputs, axes, mask)
            self._move(self.moving_mean, mean)
            self._move(self.moving_variance, variance)
        else:
            mean, variance = convert(self.moving_mean), convert(self.moving_variance)
        parts = [mean, variance, self.beta, self.gamma]
        shaped = [None if p is None else convert(p).reshape(spread) for p in parts]
        return batch_normalization(inputs, *shaped, self.epsilon)  # type: ignore[call-arg, arg-type]

    def _move(self, cell: Variable, now: Tensor) -> None:
        share = 1.0 - self.momentum
        cell.assign_sub((convert(cell) - stop_gradient(now)) * share)


def _moments(x: Tensor, axes: tuple[int, ...], mask: Tensor | None) -> tuple[Any, Any]:
    if mask is None:
        return reduction.mean(x, axis=axes), reduction.var(x, axis=axes)
    shares = cast(convert(mask), x.dtype)
    shares = shares.reshape((*shares.spec.shape, *(1,) * (x.ndim - shares.ndim)))
    count = reduction.sum(shares * ones_like(x), axis=axes, keepdims=True)
    mean = reduction.sum(shares * x, axis=axes, keepdims=True) / count
    squares = reduction.sum(shares * square(x - mean), axis=axes, keepdims=True) / count
    return mean.reshape((-1,)), squares.reshape((-1,))
