"""Layers that normalise their inputs by moments of the batch, or of groups of channels."""

from __future__ import annotations

from typing import Any

import gradtape as gt
from gradtape import Tensor
from gradtape.errors import AxisError, ShapeError
from gradtape.libraries import check_exports
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.layers import Normalizer, normalized
from gradtape.typing import DTypeLike, NonNegative, Probability, Size

__all__ = ["BatchNorm", "GroupNorm"]


class BatchNorm(Normalizer):
    """Each channel with mean 0 and variance 1 over the batch, as Keras' BatchNormalization.

    >>> layer = gt.nn.BatchNorm()
    >>> np.round(layer(np.array([[1.0], [3.0]])).numpy(), 2).tolist()
    [[-1.0], [1.0]]
    >>> layer.moving_mean.numpy().round(3).tolist()
    [0.02]

    In training it uses the moments of the batch, and moves `moving_mean` and `moving_variance`
    towards them: `moving = momentum * moving + (1 - momentum) * moment`. After `model.eval()` it
    uses these.
    """

    shown = ("axis", "momentum", "epsilon")

    def __init__(
        self,
        axis: int = -1,
        *,
        momentum: Probability = 0.99,
        epsilon: NonNegative = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.axis = axis
        self.momentum, self.epsilon = float(momentum), float(epsilon)
        self.keep_options(center, scale, beta_initializer, gamma_initializer)
        self.moving_mean: Any = None
        self.moving_variance: Any = None

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables, one number for each channel."""
        channels = input_shape[self._channels(len(input_shape))]
        self.add_scale_and_offset((channels,))
        self.moving_mean = self.add_variable("moving_mean", (channels,), "zeros", trainable=False)
        self.moving_variance = self.add_variable(
            "moving_variance", (channels,), "ones", trainable=False
        )

    def _channels(self, ndim: int) -> int:
        if not -ndim <= self.axis < ndim:
            raise AxisError(f"{self.name}: axis {self.axis} is out of range for {ndim} dimensions.")
        return self.axis % ndim

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """The normalised input; `training=None` stands for the module's own flag."""
        channels = self._channels(x.ndim)
        shape = tuple(n if axis == channels else 1 for axis, n in enumerate(x.shape))
        mean, variance = self.moving_mean.value, self.moving_variance.value
        if self.training if training is None else training:
            others = tuple(axis for axis in range(x.ndim) if axis != channels)
            mean, variance = gt.mean(x, axis=others), gt.var(x, axis=others)
            for moving, found in ((self.moving_mean, mean), (self.moving_variance, variance)):
                moving.assign(self.momentum * moving + (1.0 - self.momentum) * found)
        scale = gt.reshape(gt.rsqrt(variance + self.epsilon), shape)
        return self.scaled((x - gt.reshape(mean, shape)) * scale, shape)


class GroupNorm(Normalizer):
    """Groups of channels with mean 0 and variance 1, example by example.

    >>> layer = gt.nn.GroupNorm(2)
    >>> np.round(layer(np.array([[1.0, 3.0, 10.0, 30.0]])).numpy(), 2).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]

    Channels are the last axis. One group for each channel is instance normalisation.
    """

    shown = ("groups", "epsilon")

    def __init__(
        self,
        groups: Size = 32,
        *,
        epsilon: NonNegative = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.groups = int(groups)
        self.epsilon = float(epsilon)
        self.keep_options(center, scale, beta_initializer, gamma_initializer)

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make gamma and beta, one number for each channel."""
        if len(input_shape) < 2 or input_shape[-1] % self.groups:
            raise ShapeError(
                f"{self.name}: an input of shape {tuple(input_shape)} does not have channels, as "
                f"its last axis, that {self.groups} groups divide. Choose another `groups`."
            )
        self.add_scale_and_offset(input_shape[-1:])

    def call(self, x: Tensor) -> Tensor:
        """The normalised input."""
        parted = gt.reshape(x, (*x.shape[:-1], self.groups, x.shape[-1] // self.groups))
        axes = (*range(1, x.ndim - 1), x.ndim)
        normal = normalized(parted, axes, self.epsilon)
        return self.scaled(gt.reshape(normal, x.shape), x.shape[-1:])


check_exports(globals(), __all__)
