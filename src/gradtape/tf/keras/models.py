"""Models: layers of layers that can be trained with `fit`."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from gradtape.libraries import check_exports
from gradtape.pytree import flatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import graphs
from gradtape.tf.keras.functional import Input, InputTensor, evaluated, layers_of
from gradtape.tf.keras.layers.base import InputLayer, Layer, in_phase
from gradtape.tf.keras.layers.masks import masked
from gradtape.tf.keras.saved_weights import load_weights, save_weights
from gradtape.tf.keras.training import Trainer
from gradtape.tf.v1.symbolic import Symbolic

__all__ = ["Model", "Sequential", "clone_model"]


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
        if issubclass(cls, Functional) or not _is_functional(args, kwargs):
            return super().__new__(cls, *args, **kwargs)
        if cls is Model:
            return super().__new__(Functional, *args, **kwargs)
        # A class of one's own, made of inputs and outputs: it is both.
        members = {"__module__": cls.__module__, "__doc__": cls.__doc__}
        return super().__new__(type(cls.__name__, (cls, Functional), members), *args, **kwargs)

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

    @property
    def input_shape(self) -> Any:
        """The shape of the input, or a list of those of several; None stands for any length."""
        return _shapes(self.inputs)

    @property
    def output_shape(self) -> Any:
        """The shape of the output, or a list of those of several."""
        return _shapes(self.outputs)

    @property
    def inputs(self) -> list[Any]:
        """The inputs without values, of models that have such."""
        raise AttributeError(
            f"{self.name}: a {type(self).__name__} that computes in `call` has no inputs before it "
            "is called."
        )

    outputs = inputs

    def save(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """Raise an error that tells how to keep a model."""
        raise NotImplementedError(
            f"{self.name}: code is not saved, so nothing is written to {filepath!r}. Keep the "
            "values with model.save_weights, and make the model again before model.load_weights."
        )

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        """Write the values of all variables to a file that `load_weights` reads.

        A path that ends in neither .safetensors nor .npz gets such an ending.

        >>> import os, tempfile
        >>> model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save_weights(os.path.join(folder, "dense.npz"))
        ...     model.load_weights(os.path.join(folder, "dense.npz"))
        """
        save_weights(self, filepath, bool(overwrite))

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """Assign the values of a file; with `skip_mismatch`, those that fit, with a warning.

        Otherwise anything that does not fit is a ValueError, and nothing is assigned.
        """
        load_weights(self, filepath, bool(skip_mismatch))

    def summary(self) -> None:
        """Print the layers and how many parameters each has."""
        print(f'Model: "{self.name}"')
        for layer in self.layers:
            print(f"  {layer.name} ({type(layer).__name__}): {layer.count_params():,} parameters")
        print(f"  total: {self.count_params():,} parameters")


def _is_functional(args: Any, kwargs: Any) -> bool:
    given = args[0] if args else kwargs.get("inputs")
    return given is not None and all(isinstance(x, Symbolic) for x in flatten(given)[0])


def _shapes(tensors: list[Any]) -> Any:
    found = [tuple(tensor.shape) for tensor in tensors]
    return found[0] if len(found) == 1 else found


def _as_layer(tensor: Any) -> InputLayer:
    """The layer that an input counts as; one without a name is called input_layer."""
    name = str(tensor.name).removesuffix(":0")
    named = None if name.startswith("keras_tensor") else name
    return InputLayer(tensor.shape[1:], tensor.shape[0], tensor.dtype, named)


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
        if not self._inputs:
            raise ValueError("Model: there are no inputs. Pass what tf.keras.Input gives.")
        self._between = layers_of(outputs, self._inputs)
        self._layers = [_as_layer(each) for each in self._inputs] + self._between
        self.built = True

    @property
    def layers(self) -> list[Any]:
        """The layers from the inputs, which count as layers, to the outputs."""
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
        return [self.__dict__.get("_layers", ()), *super().attributes()]

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
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
        self._chain: tuple[Any, Any] | None = None
        for layer in layers or ():
            self.add(layer)

    def symbolic(self) -> tuple[Any, Any]:
        """The input and the output without values, if the shape of the input is known."""
        if self._chain is None:
            shape = getattr(self._layers[0], "_input_shape", None) if self._layers else None
            if shape is None:
                raise AttributeError(
                    f"{self.name}: the shape of the input is not known. Begin with tf.keras.Input."
                )
            kind = self._layers[0].dtype
            start = Input(batch_shape=shape, dtype=kind)
            found = start
            for layer in self.layers:
                found = layer(found)
            self._chain = (start, found)
        return self._chain

    @property
    def inputs(self) -> list[Any]:
        """The input without a value."""
        return [self.symbolic()[0]]

    @property
    def outputs(self) -> list[Any]:
        """The output without a value."""
        return [self.symbolic()[1]]

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
        self._chain = None
        if isinstance(layer, Layer):
            layer.__dict__["_owner"] = weakref.ref(self)
        first = self._layers[0]
        if getattr(first, "_input_shape", None) is not None:
            self.ensure_built(first._input_shape)

    def pop(self, rebuild: bool = True) -> Any:
        """Remove the last layer, and give it."""
        self._chain = None
        return self._layers.pop()

    def build(self, input_shape: Any) -> None:
        if None not in tuple(input_shape)[1:]:
            # Two examples are enough to find out what each layer gets.
            lengths = [2 if n is None else n for n in input_shape]
            self.call(convert(np.zeros(lengths, self.dtype)))
            return
        # Layers are told which lengths vary, and refuse to make weights of such a length.
        in_use, found = graphs.in_use, Input(batch_shape=input_shape, dtype=self.dtype)
        try:
            for layer in self.layers:
                found = layer(found)
        finally:
            graphs.in_use = in_use

    def ensure_built(self, input_shape: Any) -> None:
        """Make the variables of layers that have none yet."""
        self.build(tuple(input_shape))
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
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


def clone_model(model: Any) -> Any:
    """A Sequential of equal layers, with variables of its own.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    >>> len(tf.keras.models.clone_model(model).layers)
    1
    """
    if not isinstance(model, Sequential):
        raise ValueError(
            f"clone_model: {model.name} is not a Sequential. Make it again as it was made."
        )
    return type(model)([type(layer).from_config(layer.get_config()) for layer in model._layers])


check_exports(globals(), __all__)
