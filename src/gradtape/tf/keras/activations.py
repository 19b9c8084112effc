"""Activations by name: `tf.keras.activations`."""

from __future__ import annotations

from typing import Any

from gradtape.nn import activations as core
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import operation
from gradtape.tf.elementwise import FUNCTIONS
from gradtape.tf.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    relu6,
    selu,
    silu,
    softmax,
    softplus,
)
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "elu", "exponential", "gelu", "get", "hard_sigmoid", "leaky_relu", "linear", "log_softmax",
    "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign", "swish",
    "tanh",
]  # fmt: skip

swish = silu
exponential, sigmoid, tanh, softsign = (
    FUNCTIONS[name] for name in ("exp", "sigmoid", "tanh", "softsign")
)


@operation
def linear(x: Any) -> Any:
    """The argument as it is.

    >>> tf.keras.activations.linear(2.0).numpy().item()
    2.0
    """
    return convert(x)


@operation
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)).

    >>> tf.keras.activations.mish(0.0).numpy().item()
    0.0
    """
    return core.mish(convert(x))


@operation
def hard_sigmoid(x: Any) -> Any:
    """x / 6 + 1 / 2, held between 0 and 1.

    >>> tf.keras.activations.hard_sigmoid([-4.0, 4.0]).numpy().tolist()
    [0.0, 1.0]
    """
    return core.hard_sigmoid(convert(x))


def get(identifier: Any) -> Any:
    """The activation of a name; functions as they are, and `linear` for None.

    >>> tf.keras.activations.get("relu") is tf.keras.activations.relu
    True
    """
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier
    if identifier not in __all__ or identifier == "get":
        names = ", ".join(name for name in __all__ if name != "get")
        raise ValueError(f"activation {identifier!r} is unknown. There are {names}.")
    return globals()[identifier]


__getattr__ = attribute_finder(__name__, globals())
