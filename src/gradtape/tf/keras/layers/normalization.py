"""Layers that normalise."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ops import reduction
from gradtape.ops.arithmetic import stop_gradient
from gradtape.tf.conversion import convert
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.nn import batch_normalization


class LayerNormalization(Layer):
    """Each example with mean 0 and variance 1 along an axis, then scaled and shifted.

    >>> tf.keras.layers.LayerNormalization()(tf.constant([[1.0, 3.0]])).numpy().round(2).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis, self.epsilon, self.center, self.scale = axis, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        """Make gamma and beta."""
        axes = sorted(a % len(input_shape) for a in np.atleast_1d(self.axis).tolist())
        shape = tuple(input_shape[a] for a in axes)
        self._spread = tuple(n if a in axes else 1 for a, n in enumerate(input_shape))
        self._axes = tuple(axes)
        if self.scale:
            self.gamma = self.add_weight(shape, self.gamma_initializer, name="gamma")
        if self.center:
            self.beta = self.add_weight(shape, self.beta_initializer, name="beta")

    def call(self, inputs: Any) -> Any:
        """The normalised input."""
        mean = reduction.mean(inputs, axis=self._axes, keepdims=True)
        variance = reduction.var(inputs, axis=self._axes, keepdims=True)
        gamma, beta = (
            None if w is None else convert(w).reshape(self._spread) for w in (self.gamma, self.beta)
        )
        return batch_normalization(inputs, mean, variance, beta, gamma, self.epsilon)


class BatchNormalization(Layer):
    """Each feature with mean 0 and variance 1: of the batch while training, else of all so far.

    >>> layer = tf.keras.layers.BatchNormalization()
    >>> layer(tf.constant([[1.0], [3.0]]), training=True).numpy().round(2).tolist()
    [[-1.0], [1.0]]
    >>> layer.moving_mean.numpy().round(4).tolist()
    [0.02]
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis, self.momentum, self.epsilon = axis, float(momentum), float(epsilon)
        self.center, self.scale = center, scale
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None

    def build(self, input_shape: Any) -> None:
        """Make gamma, beta and the running statistics."""
        shape = (input_shape[self.axis],)
        if self.scale:
            self.gamma = self.add_weight(shape, "ones", name="gamma")
        if self.center:
            self.beta = self.add_weight(shape, "zeros", name="beta")
        self.moving_mean = self.add_weight(shape, "zeros", trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(
            shape, "ones", trainable=False, name="moving_variance"
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The normalised input."""
        ndim = inputs.ndim
        at = self.axis % ndim
        spread = tuple(-1 if a == at else 1 for a in range(ndim))
        if training and self.trainable:
            axes = tuple(a for a in range(ndim) if a != at)
            mean, variance = reduction.mean(inputs, axis=axes), reduction.var(inputs, axis=axes)
            self._move(self.moving_mean, mean)
            self._move(self.moving_variance, variance)
        else:
            mean, variance = convert(self.moving_mean), convert(self.moving_variance)
        parts = [mean, variance, self.beta, self.gamma]
        shaped = [None if p is None else convert(p).reshape(spread) for p in parts]
        return batch_normalization(inputs, *shaped, self.epsilon)

    def _move(self, cell: Any, now: Any) -> None:
        share = 1.0 - self.momentum
        cell.assign_sub((convert(cell) - stop_gradient(now)) * share)
