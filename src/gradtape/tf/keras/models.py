"""Models: layers of layers that can be trained with `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.pytree import flatten
from gradtape.tf.conversion import convert
from gradtape.tf.keras.functional import InputTensor, evaluated, layers_of
from gradtape.tf.keras.layers.base import InputLayer, Layer, in_phase
from gradtape.tf.keras.layers.masks import masked
from gradtape.tf.keras.training import Trainer
from gradtape.tf.suggestions import attribute_finder

__all__ = ["Model", "Sequential"]


class Model(Trainer):
    """A layer that can be compiled and fitted; derive your own with `call`.

    >>> class Line(tf.keras.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.dense = tf.keras.layers.Dense(1)
    ...
    ...     def call(self, x):
    ...         return self.dense(x)
    >>> model = Line()
    >>> model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> history = model.fit(x, 2.0 * x, epochs=200, verbose=0)
    >>> round(model.dense.kernel.numpy().item(), 2)
    2.0
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and (args or "inputs" in kwargs):
            return super().__new__(Functional, *args, **kwargs)
        return super().__new__(cls, *args, **kwargs)

    @property
    def layers(self) -> list[Layer]:
        """The layers that attributes hold."""
        found: list[Any] = []
        for value in self.attributes():
            for each in flatten(value)[0]:
                if isinstance(each, Layer) and not any(each is known for known in found):
                    found.append(each)
        return found

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """The layer of a name, or at an index."""
        if index is not None:
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"No such layer: {name}. Existing layers are: {[each.name for each in self.layers]}."
        )

    def summary(self) -> None:
        """Print the layers and how many parameters each has."""
        print(f'Model: "{self.name}"')
        for layer in self.layers:
            print(f"  {layer.name} ({type(layer).__name__}): {layer.count_params():,} parameters")
        print(f"  total: {self.count_params():,} parameters")


class Functional(Model):
    """A model made of its inputs and outputs: `tf.keras.Model(inputs, outputs)` gives it.

    >>> x = tf.keras.Input((2,))
    >>> model = tf.keras.Model(x, tf.keras.layers.Dense(1, kernel_initializer="ones")(x))
    >>> model(tf.ones([1, 2])).numpy().tolist()
    [[2.0]]
    """

    def __init__(
        self, inputs: Any, outputs: Any, name: str | None = None, trainable: bool = True
    ) -> None:
        super().__init__(name=name, trainable=trainable)
        self._inputs = flatten(inputs)[0]
        self._outputs = outputs
        self._layers = layers_of(outputs, self._inputs)
        self.built = True

    @property
    def layers(self) -> list[Any]:
        """The layers between inputs and outputs."""
        return list(self._layers)

    def _output_names(self) -> list[str] | None:
        """The names of the layers that give the outputs."""
        if isinstance(self._outputs, dict):
            return list(self._outputs)
        found: list[str] = []
        for each in self.outputs:
            layer = getattr(getattr(each, "function", None), "__self__", None)
            name = layer.name if isinstance(layer, Layer) else f"output_{len(found)}"
            found.append(f"{name}_{found.count(name)}" if name in found else name)
        return found

    @property
    def inputs(self) -> list[Any]:
        """The inputs that it was made of."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Any]:
        """The outputs that it was made of."""
        return flatten(self._outputs)[0]

    def attributes(self) -> list[Any]:
        """What holds variables: the layers."""
        return [self._layers]

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """The outputs for values of the inputs."""
        with in_phase(training):
            return evaluated(self._inputs, self._outputs, masked(inputs, mask))


class Sequential(Model):
    """Layers one after the other.

    >>> model = tf.keras.Sequential()
    >>> model.add(tf.keras.layers.Dense(4, activation="relu", input_shape=(3,)))
    >>> model.add(tf.keras.layers.Dense(1))
    >>> model(tf.zeros([5, 3])).shape, len(model.trainable_variables)
    (TensorShape([5, 1]), 4)
    """

    def __init__(self, layers: Any = None, trainable: bool = True, name: str | None = None) -> None:
        super().__init__(trainable=trainable, name=name)
        self._layers: list[Any] = []
        for layer in layers or ():
            self.add(layer)

    @property
    def layers(self) -> list[Any]:
        """The layers, without the one that only tells the shape of the input."""
        return [layer for layer in self._layers if not isinstance(layer, InputLayer)]

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """One more layer at the end."""
        if isinstance(layer, InputTensor):
            layer.withdraw()
            layer = InputLayer(shape=layer.shape[1:], batch_size=layer.shape[0], dtype=layer.dtype)
        if not callable(layer):
            raise TypeError(f"add: {type(layer).__name__} is not a layer.")
        self._layers.append(layer)
        first = self._layers[0]
        if getattr(first, "_input_shape", None) is not None:
            self.ensure_built(first._input_shape)

    def pop(self, rebuild: bool = True) -> Any:
        """Remove the last layer, and give it."""
        return self._layers.pop()

    def build(self, input_shape: Any) -> None:
        """Make the variables of all layers."""
        # Two examples are enough to find out what each layer gets.
        lengths = [2 if n is None else n for n in input_shape]
        if None not in tuple(input_shape)[1:]:
            self.call(convert(np.zeros(lengths, self.dtype)))

    def ensure_built(self, input_shape: Any) -> None:
        """Make the variables of layers that have none yet."""
        self.build(tuple(input_shape))
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """The output of the last layer."""
        inputs = masked(inputs, mask)
        for layer in self._layers:
            if isinstance(layer, Layer):
                inputs = layer(inputs, training=training)
            else:
                inputs = layer(inputs)
        return inputs

    def __len__(self) -> int:
        return len(self.layers)

    def __bool__(self) -> bool:
        return True


__getattr__ = attribute_finder(__name__, globals())
