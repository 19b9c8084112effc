"""Layers without a time axis: Dense, LayerNorm, Embedding, Dropout; Sequential, a chain of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Never

import gradtape as gt
from gradtape import Tensor, Variable, random
from gradtape.errors import ShapeError
from gradtape.libraries import broadcast_shapes, check_exports, normalize_axes
from gradtape.nn import activations
from gradtape.nn.activations import ActivationLike
from gradtape.nn.initializers import InitializerLike, Seed
from gradtape.nn.module import Layer, Module
from gradtape.typing import Axes, DTypeLike, NonNegative, Size, TensorLike

__all__ = ["Dense", "Dropout", "Embedding", "LayerNorm", "Sequential"]


class Dense(Layer):
    """activation(x @ kernel + bias), along the last axis of inputs with any number of axes.

    >>> layer = gt.nn.Dense(4, activation="relu")
    >>> layer(np.ones((2, 3))).shape
    (2, 4)
    >>> layer.kernel.shape, layer.bias.shape
    ((3, 4), (4,))

    The variables are made at the first call, or at once if `in_features` is given.
    """

    shown = ("units", "activation", "use_bias")

    def __init__(
        self,
        units: Size,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        *,
        in_features: Size | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Any = None
        self.bias: Any = None
        if in_features is not None:
            self.ensure_built((int(in_features),))

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make kernel and bias."""
        if not input_shape:
            raise ShapeError(f"{self.name}: a 0-d input has no features. Reshape it to (1,).")
        self.kernel = self.add_variable(
            "kernel", (input_shape[-1], self.units), self.kernel_initializer
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """The output for inputs of shape (..., features)."""
        y = project(self.name, x, self.kernel)
        y = y if self.bias is None else y + self.bias
        return y if self.activation is None else self.activation(y)


def project(name: str, x: Tensor, kernel: Variable | Tensor) -> Tensor:
    """`x @ kernel` along the last axis, as one product of matrices."""
    if not x.shape or x.shape[-1] != kernel.shape[0]:
        raise ShapeError(
            f"{name}: an input of shape {x.shape} does not have the {kernel.shape[0]} features "
            "that the layer was built for along its last axis. Reshape it, or make another layer."
        )
    if len(x.shape) <= 2:
        return x @ kernel
    rows = gt.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])) @ kernel
    return gt.reshape(rows, (*x.shape[:-1], kernel.shape[1]))


Parameter = Tensor | Variable | None


class Normalizer(Layer):
    """The base of layers that scale their normalised input by gamma and shift it by beta."""

    def keep_options(
        self,
        center: bool,
        scale: bool,
        beta_initializer: InitializerLike,
        gamma_initializer: InitializerLike,
    ) -> None:
        """Keep the arguments that all these layers have."""
        self.center, self.scale = bool(center), bool(scale)
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.gamma: Any = None
        self.beta: Any = None

    def add_scale_and_offset(self, shape: tuple[int, ...]) -> None:
        """Make gamma and beta, unless the layer has none."""
        if self.scale:
            self.gamma = self.add_variable("gamma", shape, self.gamma_initializer)
        if self.center:
            self.beta = self.add_variable("beta", shape, self.beta_initializer)

    def scaled(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The normalised input times gamma plus beta, which are reshaped."""
        x = x if self.gamma is None else x * gt.reshape(self.gamma, shape)
        return x if self.beta is None else x + gt.reshape(self.beta, shape)


class LayerNorm(Normalizer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with moments along `axis`.

    >>> y = gt.nn.LayerNorm()(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    >>> np.round(y.numpy(), 2).tolist()
    [[-1.22, 0.0, 1.22], [-1.22, 0.0, 1.22]]

    Epsilon is 0.001 by default, as in Keras' LayerNormalization.
    """

    shown = ("axis", "epsilon")

    def __init__(
        self,
        axis: Axes = -1,
        epsilon: NonNegative = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.axis = axis
        self.epsilon = float(epsilon)
        self.keep_options(center, scale, beta_initializer, gamma_initializer)

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make gamma and beta, one number for each place along the axes."""
        axes = normalize_axes("LayerNorm", self.axis, len(input_shape))
        self.add_scale_and_offset(tuple(input_shape[axis] for axis in axes))

    def call(self, x: Tensor) -> Tensor:
        """The normalised input."""
        axes = normalize_axes("LayerNorm", self.axis, x.ndim)
        return normalized(x, axes, self.epsilon, self.gamma, self.beta)


def normalized(
    x: Tensor,
    axes: tuple[int, ...],
    epsilon: NonNegative,
    gamma: Parameter = None,
    beta: Parameter = None,
) -> Tensor:
    """The input with mean 0 and variance 1 along axes, then scaled by gamma and shifted by beta."""
    distance = x - gt.mean(x, axis=axes, keepdims=True)
    variance = gt.mean(gt.square(distance), axis=axes, keepdims=True)
    y = distance * gt.rsqrt(variance + epsilon)
    shape = tuple(n if axis in axes else 1 for axis, n in enumerate(x.shape))
    y = y if gamma is None else y * gt.reshape(gamma, shape)
    return y if beta is None else y + gt.reshape(beta, shape)


class Embedding(Layer):
    """Rows of a table of `input_dim` vectors, looked up by integers of any shape.

    >>> layer = gt.nn.Embedding(1000, 8)
    >>> layer([[4, 10], [4, 0]]).shape
    (2, 2, 8)

    The gradient of the table is row-sparse, and optimisers apply it so.
    """

    shown = ("input_dim", "output_dim")

    def __init__(
        self,
        input_dim: Size,
        output_dim: Size,
        embeddings_initializer: InitializerLike = "uniform",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, gt.default_dtype() if dtype is None else dtype)
        self.input_dim = int(input_dim)
        self.output_dim = int(output_dim)
        self.embeddings = self.add_variable(
            "embeddings", (self.input_dim, self.output_dim), embeddings_initializer
        )
        self.built = True

    def __call__(self, indices: TensorLike) -> Tensor:
        """The rows at the indices, of shape indices.shape + (output_dim,)."""
        return Module.__call__(self, gt.asarray(indices))

    def call(self, indices: Tensor) -> Tensor:
        """The same for a tensor of integers."""
        return gt.take(self.embeddings, indices, axis=0)


class Dropout(Layer):
    """In training each element is 0 with probability `rate`, and the others grow by 1 / (1 - rate).

    >>> layer = gt.nn.Dropout(0.5, seed=0)
    >>> sorted(set(layer(np.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(np.ones(3)).tolist()
    [1.0, 1.0, 1.0]

    `noise_shape` is a shape that broadcasts to the input's: along its axes of length 1 elements
    fall together. Without a seed the numbers come from the stream of `gt.random`; `seed` may
    also be a `Generator`.
    """

    shown = ("rate",)

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int] | None = None,
        seed: Seed = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"Dropout: rate={rate} is not a probability. Give a number 0 to 1.")
        self.rate = float(rate)
        self.noise_shape = None if noise_shape is None else tuple(noise_shape)
        self.generator = random.Generator(seed) if isinstance(seed, int) else seed
        self.built = True

    def cast_input(self, x: Tensor) -> Tensor:
        """The input unchanged: dropout has no variables and therefore no dtype."""
        return x

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """The input with elements dropped, if `training`; None stands for the module's own flag."""
        if self.rate == 0.0 or not (self.training if training is None else training):
            return x
        return self.drop(x, x.shape if self.noise_shape is None else self.noise_shape)

    def drop(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The input with elements dropped, by random numbers of a shape."""
        broadcast_shapes("Dropout", [x.shape, shape])
        draw: Any = random if self.generator is None else self.generator
        kept = gt.greater_equal(draw.uniform(shape, dtype="float32"), self.rate)
        growth = 1.0 / (1.0 - self.rate) if self.rate < 1.0 else 0.0
        return x * (gt.cast(kept, x.dtype) * growth)


class Sequential(Module):
    """Modules, or any functions, applied one after the other.

    >>> model = gt.nn.Sequential([gt.nn.Dense(8), gt.nn.relu, gt.nn.Dense(1)])
    >>> model(np.zeros((4, 2))).shape
    (4, 1)
    >>> print(model)
    Sequential(
      layers.0: Dense(units=8, activation=None, use_bias=True)
      layers.2: Dense(units=1, activation=None, use_bias=True)
    )
    """

    def __init__(
        self, layers: Iterable[Callable[..., Any]] = (), *more: Never, name: str | None = None
    ) -> None:
        if more or not isinstance(layers, Iterable):
            raise TypeError(
                "Sequential: it takes one list of layers. Write gt.nn.Sequential([a, b])."
            )
        self.name = "sequential" if name is None else name
        self.layers: list[Callable[..., Any]] = []
        for layer in layers:
            self.add(layer)

    def add(self, layer: Callable[..., Any]) -> None:
        """Append a module or function.

        >>> model = gt.nn.Sequential()
        >>> model.add(gt.nn.Dense(3))
        >>> len(model)
        1
        """
        if not callable(layer):
            raise TypeError(
                f"Sequential: {type(layer).__name__} cannot be called. Pass modules or functions."
            )
        self.layers.append(layer)

    def call(self, x: Tensor) -> Tensor:
        """The output of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Callable[..., Any]:
        return self.layers[index]

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)


check_exports(globals(), __all__)
