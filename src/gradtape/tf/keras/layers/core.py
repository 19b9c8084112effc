"""Dense layers, look-ups, and layers without variables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gradtape import reshape
from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports
from gradtape.nn.initializers import Seed
from gradtape.nn.layers import Dropout as CoreDropout, project
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.keras import activations
from gradtape.tf.keras.activations import relu
from gradtape.tf.keras.layers.base import Layer, require_channels_last, takes
from gradtape.tf.ops.indexing import gather
from gradtape.tf.ops.neural import softmax
from gradtape.typing import NonNegative, Size

if TYPE_CHECKING:
    from gradtape.tensor.tensor import Tensor as CoreTensor
    from gradtape.tf.base.tensor import Tensor
    from gradtape.tf.keras.types import (
        ActivationLike,
        ConstraintLike,
        InitializerLike,
        RegularizerLike,
    )

__all__ = [
    "Activation",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "Lambda",
    "ReLU",
    "Reshape",
    "Softmax",
]


class Dense(Layer):
    """activation(inputs @ kernel + bias), along the last axis.

    >>> layer = tf.keras.layers.Dense(4, activation="relu")
    >>> layer(tf.ones([2, 3])).shape, layer.kernel.shape, layer.bias.shape
    (TensorShape([2, 4]), TensorShape([3, 4]), TensorShape([4]))
    """

    supports_masking = True

    def __init__(
        self,
        units: Size,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: RegularizerLike = None,
        kernel_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if int(units) <= 0:
            raise ValueError(f"Dense: units={units} is not a positive number of outputs.")
        self.units = as_count(f"{type(self).__name__}: units", units, least=1)
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        if not len(input_shape) or input_shape[-1] is None:
            raise ShapeError(
                f"{self.name}: an input of shape {input_shape} has no number of features."
            )
        self.kernel = self._add_named("kernel", (input_shape[-1], self.units))
        if self.use_bias:
            self.bias = self._add_named("bias", (self.units,))

    def call(self, inputs: Tensor) -> Tensor:
        """The output for inputs of shape (..., features)."""
        inputs = inputs if inputs.dtype.kind in "fc" else cast(inputs, self.dtype)
        y = project(self.name, inputs, convert(self.kernel))
        return self.activation(y if self.bias is None else y + convert(self.bias))


class Embedding(Layer):
    """A table of vectors, looked up by integers; its gradient is an IndexedSlices.

    >>> tf.keras.layers.Embedding(10, 4)(tf.constant([[1, 2, 3]])).shape
    TensorShape([1, 3, 4])
    """

    def __init__(
        self,
        input_dim: Size,
        output_dim: Size,
        embeddings_initializer: InitializerLike = "uniform",
        embeddings_regularizer: RegularizerLike = None,
        embeddings_constraint: ConstraintLike = None,
        mask_zero: bool = False,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embeddings_regularizer = embeddings_regularizer
        self.embeddings_constraint = embeddings_constraint
        self.mask_zero = bool(mask_zero)
        self._start = weights
        self.input_dim = as_count("Embedding: input_dim", input_dim, least=1)
        self.output_dim = as_count("Embedding: output_dim", output_dim, least=1)
        self.embeddings_initializer = embeddings_initializer
        self.embeddings: Any = None

    def build(self, input_shape: Any) -> None:
        self.embeddings = self._add_named("embeddings", (self.input_dim, self.output_dim))
        if self._start is not None:
            table = self._start[0] if isinstance(self._start, (list, tuple)) else self._start
            self.embeddings.assign(table)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> CoreTensor | None:
        """With `mask_zero`, which of the integers are not 0."""
        return convert(inputs) != 0 if self.mask_zero else None

    def call(self, inputs: Tensor) -> Tensor:
        inputs = inputs if inputs.dtype.is_integer else cast(inputs, "int32")
        return gather(self.embeddings, inputs)


class Activation(Layer):
    """A function, as a layer.

    >>> tf.keras.layers.Activation("relu")(tf.constant([-1.0, 2.0])).numpy().tolist()
    [0.0, 2.0]
    """

    supports_masking = True

    def __init__(self, activation: ActivationLike, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Tensor) -> Tensor:
        return self.activation(inputs)


class Lambda(Layer):
    """A Python function, as a layer.

    >>> tf.keras.layers.Lambda(lambda x: 2.0 * x)(tf.constant([1.0])).numpy().tolist()
    [2.0]
    """

    supports_masking = True

    def __init__(
        self,
        function: Any,
        output_shape: Any = None,
        mask: Any = None,
        arguments: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # The shape of the output is seen when there is one.
        self.function, self.output_shape = function, output_shape
        self.mask, self.arguments = mask, dict(arguments or {})

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """The mask of the output: the one that the user gave, or else the mask of the input."""
        if callable(self.mask):
            return self.mask(inputs, mask)
        return mask if self.mask is None else self.mask

    def call(self, inputs: Any, training: Any = None) -> Any:
        more = dict(self.arguments)
        if training is not None and takes(self.function, "training"):
            more["training"] = training
        return self.function(inputs, **more)


class ReLU(Layer):
    """The input where it is positive, as a layer.

    >>> tf.keras.layers.ReLU(max_value=1.0)(tf.constant([-1.0, 2.0])).numpy().tolist()
    [0.0, 1.0]
    """

    supports_masking = True

    def __init__(
        self,
        max_value: NonNegative | None = None,
        negative_slope: NonNegative = 0.0,
        threshold: NonNegative = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_value, self.negative_slope = max_value, float(negative_slope)
        self.threshold = float(threshold)

    def call(self, inputs: Tensor) -> Tensor:
        return relu(inputs, self.negative_slope, self.max_value, self.threshold)


class Softmax(Layer):
    """softmax along an axis, as a layer.

    >>> tf.keras.layers.Softmax()(tf.constant([[1.0, 1.0]])).numpy().tolist()
    [[0.5, 0.5]]
    """

    supports_masking = True

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Tensor) -> Tensor:
        return softmax(inputs, self.axis)


class Flatten(Layer):
    """All axes but the first as one.

    >>> tf.keras.layers.Flatten()(tf.zeros([2, 3, 4])).shape
    TensorShape([2, 12])
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_channels_last("Flatten", data_format)

    def call(self, inputs: Tensor) -> Tensor:
        shape = inputs.spec.shape
        return reshape(inputs, (shape[0], math.prod(shape[1:])) if shape else (1, 1))


class Reshape(Layer):
    """Each example in another shape.

    >>> tf.keras.layers.Reshape((2, -1))(tf.zeros([3, 4])).shape
    TensorShape([3, 2, 2])
    """

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return reshape(inputs, (inputs.spec.shape[0], *self.target_shape))


class Dropout(Layer):
    """Elements set to 0 while training, the others scaled up to keep the mean.

    >>> tf.keras.layers.Dropout(0.5)(tf.ones([2])).numpy().tolist()
    [1.0, 1.0]
    """

    supports_masking = True

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: Seed = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._core = CoreDropout(rate, noise_shape, seed)
        self.rate, self.noise_shape, self.seed = float(rate), noise_shape, seed

    def call(self, inputs: Tensor, training: bool = False) -> Tensor | CoreTensor:
        """The input, thinned out if training."""
        return thinned(self._core, inputs) if training and self.rate else inputs


@operation
def thinned(dropout: CoreDropout, inputs: Tensor) -> CoreTensor:
    """The input with elements dropped; None in the noise shape stands for the input's length."""
    shape = inputs.spec.shape
    if dropout.noise_shape is not None:
        pairs = zip(shape, dropout.noise_shape, strict=True)
        shape = tuple(n if m is None else int(m) for n, m in pairs)
    return dropout.drop(inputs, shape)


check_exports(globals(), __all__)
