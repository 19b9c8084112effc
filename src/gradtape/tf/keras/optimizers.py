"""Keras' optimizers, on variables and gradients of this face."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradtape import optimizers as core
from gradtape.optimizers import schedules
from gradtape.tensor import RowSparse
from gradtape.tf.slices import IndexedSlices
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tape import GradientTape

__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "deserialize", "get", "schedules",
    "serialize",
]  # fmt: skip


def prepared(gradient: Any, variable: Any) -> Any:
    """A gradient as gradtape's optimizers want it: rows stay rows."""
    if isinstance(gradient, IndexedSlices):
        known = gradient if gradient.dense_shape is not None else gradient.of(variable)
        return RowSparse(known.indices, known.values, known.spec)
    return gradient


class Optimizer(core.Optimizer):
    """What all optimizers share.

    >>> optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    >>> w = tf.Variable(1.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = w * w
    >>> optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
    >>> round(w.numpy().item(), 6)
    0.8
    """

    def apply_gradients(self, grads_and_vars: Iterable[Any], name: Any = None) -> Any:
        """Take one step, given pairs of a gradient and its variable."""
        pairs = [(prepared(gradient, variable), variable) for gradient, variable in grads_and_vars]
        super().apply_gradients(pairs)
        self._constrain([variable for _, variable in pairs])
        return self.iterations

    def apply(self, grads: Iterable[Any], trainable_variables: Any = None) -> None:
        """Take one step, given two lists."""
        variables = self._built if trainable_variables is None else list(trainable_variables)
        super().apply([prepared(g, v) for g, v in zip(grads, variables, strict=True)], variables)
        self._constrain(variables)

    _built: Any = ()

    def build(self, variables: Iterable[Any]) -> None:
        """Make the state that belongs to variables."""
        self._built = list(variables)
        super().build(self._built)

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> Any:
        """Take one step down the gradient of a loss, a function or a tensor that a tape saw."""
        value = loss
        if callable(loss):
            tape = GradientTape() if tape is None else tape
            with tape:
                value = loss()
        elif tape is None:
            raise ValueError("`tape` is required when a tensor is passed as loss.")
        variables = list(var_list() if callable(var_list) else var_list)
        self.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    @property
    def lr(self) -> Any:
        """The learning rate, under its old name."""
        return self.learning_rate

    @lr.setter
    def lr(self, given: Any) -> None:
        self.learning_rate = given

    def _constrain(self, variables: list[Any]) -> None:
        for variable in variables:
            constraint = getattr(variable, "constraint", None)
            if constraint is not None:
                variable.assign(constraint(variable.value))


def _derived(kind: Any) -> Any:
    """One of gradtape's optimizers with the methods above."""
    name = kind.__name__
    example = f">>> tf.keras.optimizers.{name}(learning_rate=0.1).name\n    {name!r}\n"
    formula = (kind.__doc__ or "").partition(">>>")[0].rstrip()
    return type(name, (Optimizer, kind), {
        "__doc__": f"{formula}\n\n    {example}    ", "__module__": __name__,
    })  # fmt: skip


SGD, Adam, AdamW, RMSprop, Adagrad = (
    _derived(kind) for kind in (core.SGD, core.Adam, core.AdamW, core.RMSprop, core.Adagrad)
)
_BY_NAME = {kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, RMSprop, Adagrad)}


def get(identifier: Any) -> Any:
    """An optimizer by name, from its configuration, or as it is.

    >>> tf.keras.optimizers.get("adam").name
    'Adam'
    """
    if isinstance(identifier, core.Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    found = _BY_NAME.get(str(identifier).lower())
    if found is None:
        raise ValueError(f"optimizer {identifier!r} is unknown. There are {', '.join(_BY_NAME)}.")
    return found()


def serialize(optimizer: Any) -> dict[str, Any]:
    """The class and the configuration of an optimizer.

    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD(0.5))["class_name"]
    'SGD'
    """
    return {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}


def deserialize(config: dict[str, Any]) -> Any:
    """The optimizer that `serialize` described.

    >>> tf.keras.optimizers.deserialize({"class_name": "SGD", "config": {}}).name
    'SGD'
    """
    return _BY_NAME[config["class_name"].lower()].from_config(config["config"])


__getattr__ = attribute_finder(__name__, globals())
