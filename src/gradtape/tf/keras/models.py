"""Models: layers of layers that can be trained with `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.pytree import flatten
from gradtape.tf.casting import cast
from gradtape.tf.conversion import convert
from gradtape.tf.keras import losses as all_losses
from gradtape.tf.keras import metrics as all_metrics
from gradtape.tf.keras import optimizers as all_optimizers
from gradtape.tf.keras.functional import InputTensor, evaluated, layers_of
from gradtape.tf.keras.layers.base import InputLayer, Layer
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tape import GradientTape

__all__ = ["History", "Model", "Sequential"]


class History:
    """What `fit` gives: the loss and the metrics of each epoch, in `history`.

    >>> tf.keras.models.History().history
    {}
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def add(self, epoch: int, numbers: dict[str, float]) -> None:
        """One more epoch."""
        self.epoch.append(epoch)
        for name, number in numbers.items():
            self.history.setdefault(name, []).append(number)


class Model(Layer):
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

    optimizer: Any = None
    loss: Any = None
    _metrics: Any = ()

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, **_: Any
    ) -> None:
        """Choose the optimizer, the loss and what else to report."""
        self.optimizer = all_optimizers.get(optimizer)
        self.loss = all_losses.get(loss)
        self._metrics = list(metrics or ())

    @property
    def layers(self) -> list[Layer]:
        """The layers that attributes hold."""
        return [m for m in self.submodules if isinstance(m, Layer)]

    def _require_compiled(self) -> None:
        if self.optimizer is None or self.loss is None:
            raise RuntimeError("You must call `compile()` before using the model.")

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step on one batch; gives the loss. Override it to train in your own way."""
        x, y = data
        with GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self._gather(y, predicted)
        return {"loss": loss}

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, **_: Any) -> Any:
        """The loss of a batch; that of examples is averaged."""
        from gradtape.ops.reduction import mean

        loss = self.loss(y, y_pred)
        loss = mean(loss) if loss.ndim else loss
        for more in self.losses:
            loss = loss + cast(more, loss.dtype)
        return loss

    def _gather(self, y: Any, predicted: Any) -> None:
        for number, metric in enumerate(self._metrics):
            if not isinstance(metric, all_metrics.Metric):
                shapes = (tuple(np.shape(y)), tuple(predicted.shape))
                metric = self._metrics[number] = all_metrics.get(metric, *shapes)
            metric.update_state(y, predicted)

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        **_: Any,
    ) -> History:
        """Train on arrays, or on an iterable of batches, and give the history of the loss."""
        self._require_compiled()
        history = History()
        if validation_split and y is not None:
            cut = int(len(x) * (1.0 - validation_split))
            x, validation_data = x[:cut], (x[cut:], y[cut:])
            y = y[:cut]
        for epoch in range(epochs):
            numbers = self._epoch(_batches(x, y, batch_size or 32, shuffle))
            if validation_data is not None:
                inputs, targets = validation_data[:2]
                found = self.evaluate(inputs, targets, verbose=0, return_dict=True)
                numbers |= {f"val_{name}": number for name, number in found.items()}
            history.add(epoch, numbers)
            if verbose not in (0, "0"):
                shown = " - ".join(f"{name}: {number:.4f}" for name, number in numbers.items())
                print(f"Epoch {epoch + 1}/{epochs} - {shown}")
        self.history = history
        return history

    def _epoch(self, batches: Any) -> dict[str, float]:
        self._reset()
        seen = 0
        total: Any = 0.0
        names: dict[str, Any] = {}
        for data in batches:
            count = len(data[0])
            names = self.train_step(data)
            total = total + convert(names["loss"]) * float(count) if "loss" in names else total
            seen += count
        found = {name: float(value) for name, value in names.items() if name != "loss"}
        return {"loss": float(total) / max(seen, 1), **found, **self._reported()}

    def _reset(self) -> None:
        for metric in self._metrics:
            if isinstance(metric, all_metrics.Metric):
                metric.reset_state()

    def _reported(self) -> dict[str, float]:
        return {m.name: float(m.result()) for m in self._metrics if hasattr(m, "result")}

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        return_dict: bool = False,
        **_: Any,
    ) -> Any:
        """The loss, and the metrics if there are any."""
        self._require_compiled()
        self._reset()
        seen, total = 0, 0.0
        for inputs, targets in _batches(x, y, batch_size or 32, False):
            predicted = self(inputs, training=False)
            total += float(self.compute_loss(y=targets, y_pred=predicted)) * len(inputs)
            seen += len(inputs)
            self._gather(targets, predicted)
        numbers = {"loss": total / max(seen, 1), **self._reported()}
        if return_dict:
            return numbers
        return list(numbers.values()) if len(numbers) > 1 else numbers["loss"]

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = 0, **_: Any) -> Any:
        """The outputs for all inputs, as a NumPy array."""
        size = batch_size or 32
        x = x if hasattr(x, "shape") else np.asarray(x)
        parts = [self(x[k : k + size], training=False).numpy() for k in range(0, len(x), size)]
        return np.concatenate(parts)

    def summary(self) -> None:
        """Print the layers and how many parameters each has."""
        print(f'Model: "{self.name}"')
        for layer in self.layers:
            print(f"  {layer.name} ({type(layer).__name__}): {layer.count_params():,} parameters")
        print(f"  total: {self.count_params():,} parameters")


def _batches(x: Any, y: Any, size: int, shuffle: bool) -> Any:
    """Pairs of inputs and targets; an iterable of them as it is."""
    if y is None and not hasattr(x, "shape"):
        yield from x
        return
    x, y = (np.asarray(each) for each in (x, y))
    order = np.arange(len(x))
    if shuffle:
        from gradtape.tf.random import shuffle as shuffled

        order = np.asarray(shuffled(order.astype(np.int64)))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


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
        return evaluated(self._inputs, self._outputs, inputs)


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
