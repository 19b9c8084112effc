"""Layers that make one tensor of several, and layers without variables that only rearrange."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape import broadcast_to, concat, expand_dims, permute_dims, random as streams
from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports
from gradtape.ops.arrays.padding import pad
from gradtape.ops.elementwise import arithmetic
from gradtape.tf.keras import activations
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.ops.random_numbers import normal
from gradtape.typing import Finite, NonNegative

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor

__all__ = [
    "Add",
    "Average",
    "Concatenate",
    "ELU",
    "GaussianNoise",
    "Identity",
    "LeakyReLU",
    "Maximum",
    "Minimum",
    "Multiply",
    "Permute",
    "RepeatVector",
    "Rescaling",
    "Subtract",
    "ZeroPadding2D",
    "add",
    "average",
    "concatenate",
    "maximum",
    "minimum",
    "multiply",
    "subtract",
]


class _Merge(Layer):
    """A function of two applied along a list of inputs."""

    @staticmethod
    def combine(x: Tensor, y: Tensor) -> Tensor:
        """One tensor of two."""
        raise NotImplementedError

    def call(self, inputs: Any) -> Tensor:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError(
                f"A `{type(self).__name__}` layer should be called on a list of at least 2 inputs."
            )
        found, *rest = inputs
        for each in rest:
            found = self.combine(found, each)
        return self.finish(found, len(inputs))

    def finish(self, found: Tensor, count: int) -> Tensor:
        """What becomes of the result for so many inputs."""
        return found


def _merging(name: str, combine: Callable[[Any, Any], Any], doc: str, result: str) -> Any:
    example = (
        f">>> tf.keras.layers.{name}()([tf.constant([2.0]), tf.constant([3.0])]).numpy().tolist()"
    )
    doc = f"{doc}\n\n    {example}\n    [{result}]\n    "
    members = {"combine": staticmethod(combine), "__doc__": doc, "__module__": __name__}
    return type(name, (_Merge,), members)


Add = _merging("Add", arithmetic.add, "The sum of inputs.", "5.0")
Multiply = _merging("Multiply", arithmetic.multiply, "The product of inputs.", "6.0")
Maximum = _merging("Maximum", arithmetic.maximum, "The largest of inputs.", "3.0")
Minimum = _merging("Minimum", arithmetic.minimum, "The smallest of inputs.", "2.0")
Subtract = _merging("Subtract", arithmetic.subtract, "The difference of two inputs.", "-1.0")


class Average(_Merge):
    """The mean of inputs.

    >>> tf.keras.layers.Average()([tf.constant([2.0]), tf.constant([3.0])]).numpy().tolist()
    [2.5]
    """

    @staticmethod
    def combine(x: Tensor, y: Tensor) -> Tensor:
        return arithmetic.add(x, y)

    def finish(self, found: Tensor, count: int) -> Tensor:
        return found / float(count)


class Concatenate(Layer):
    """Inputs one after the other along an axis.

    >>> tf.keras.layers.Concatenate()([tf.ones([1, 2]), tf.ones([1, 3])]).shape
    TensorShape([1, 5])
    """

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = int(axis)

    def call(self, inputs: Any) -> Tensor:
        return concat(list(inputs), axis=self.axis)


class Identity(Layer):
    """The input as it is.

    >>> tf.keras.layers.Identity()(tf.constant([1.0])).numpy().tolist()
    [1.0]
    """

    supports_masking = True

    def call(self, inputs: Tensor) -> Tensor:
        return inputs


class Permute(Layer):
    """Axes after the first in another order, counted from 1.

    >>> tf.keras.layers.Permute((2, 1))(tf.ones([5, 2, 3])).shape
    TensorShape([5, 3, 2])
    """

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Permute: dims={dims} is not an order of the axes from 1 on.")

    def call(self, inputs: Tensor) -> Tensor:
        return permute_dims(inputs, (0, *self.dims))


class RepeatVector(Layer):
    """Each vector so many times.

    >>> tf.keras.layers.RepeatVector(3)(tf.ones([5, 2])).shape
    TensorShape([5, 3, 2])
    """

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = as_count("RepeatVector: n", n)

    def call(self, inputs: Tensor) -> Tensor:
        batch, features = inputs.spec.shape
        return broadcast_to(expand_dims(inputs, 1), (batch, self.n, features))


class Rescaling(Layer):
    """inputs * scale + offset.

    >>> tf.keras.layers.Rescaling(0.5, offset=1.0)(tf.constant([2.0])).numpy().tolist()
    [2.0]
    """

    supports_masking = True

    def __init__(self, scale: Finite, offset: Finite = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * float(self.scale) + float(self.offset)


class LeakyReLU(Layer):
    """The input where it is positive, a slope elsewhere.

    >>> tf.keras.layers.LeakyReLU(0.5)(tf.constant([-1.0, 2.0])).numpy().tolist()
    [-0.5, 2.0]
    """

    supports_masking = True

    def __init__(self, negative_slope: NonNegative = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.negative_slope = float(negative_slope)

    def call(self, inputs: Tensor) -> Tensor:
        return activations.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    """The input where it is positive, alpha * (exp(x) - 1) elsewhere.

    >>> tf.keras.layers.ELU()(tf.constant([0.0, 2.0])).numpy().tolist()
    [0.0, 2.0]
    """

    supports_masking = True

    def __init__(self, alpha: Finite = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs: Tensor) -> Tensor:
        return activations.elu(inputs, self.alpha)


class GaussianNoise(Layer):
    """Normal noise in training, nothing elsewhere.

    >>> tf.keras.layers.GaussianNoise(1.0)(tf.constant([1.0])).numpy().tolist()
    [1.0]
    """

    supports_masking = True

    def __init__(self, stddev: NonNegative, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stddev, self.seed = float(stddev), seed
        self._generator = None if seed is None else streams.Generator(seed)

    def call(self, inputs: Tensor, training: Any = False) -> Tensor:
        """The input, with noise in training."""
        if not training or not self.stddev:
            return inputs
        if self._generator is None:
            return inputs + normal(inputs.shape, 0.0, self.stddev, inputs.dtype)
        noise = self._generator.normal(inputs.spec.shape, dtype=inputs.spec.dtype)
        return inputs + self.stddev * noise


class ZeroPadding2D(Layer):
    """Zeros around images.

    >>> tf.keras.layers.ZeroPadding2D(1)(tf.ones([1, 2, 2, 3])).shape
    TensorShape([1, 4, 4, 3])
    """

    def __init__(
        self, padding: Any = (1, 1), data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        pairs = (padding, padding) if isinstance(padding, int) else tuple(padding)
        self.padding = tuple((p, p) if isinstance(p, int) else tuple(p) for p in pairs)
        self.data_format = data_format

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.ndim != 4:
            raise ShapeError(
                f"{self.name}: an input of shape {inputs.shape} is not a stack of images."
            )
        first = self.data_format == "channels_first"
        around = [(0, 0), (0, 0), *self.padding] if first else [(0, 0), *self.padding, (0, 0)]
        return pad(inputs, around)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Tensor:
    """Inputs one after the other along an axis.

    >>> tf.keras.layers.concatenate([tf.ones([1, 2]), tf.ones([1, 3])]).shape
    TensorShape([1, 5])
    """
    return Concatenate(axis, **kwargs)(inputs)


def _function(kind: Any, name: str) -> Callable[..., Tensor]:
    """The layer as a function of inputs."""

    def call(inputs: Any, **kwargs: Any) -> Tensor:
        return kind(**kwargs)(inputs)

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = kind.__doc__.replace(f"{kind.__name__}()(", f"{name}(")
    return call


add, average, maximum, minimum, multiply, subtract = (
    _function(kind, kind.__name__.lower())
    for kind in (Add, Average, Maximum, Minimum, Multiply, Subtract)
)


check_exports(globals(), __all__)
