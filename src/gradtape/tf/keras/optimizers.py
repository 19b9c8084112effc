"""Keras' optimizers, on variables and gradients of this face."""

from __future__ import annotations

import inspect
from typing import Any

from gradtape import optimizers as core
from gradtape.libraries import check_exports
from gradtape.tf.keras import rarer_optimizers, schedules
from gradtape.tf.keras.optimizer import Optimizer
from gradtape.tf.keras.weights import snake_case

__all__ = [
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lion",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "SGD",
    "deserialize",
    "get",
    "schedules",
    "serialize",
]


def _derived(kind: Any) -> Any:
    """One of gradtape's optimizers with the methods above."""
    name = kind.__name__
    example = f">>> tf.keras.optimizers.{name}(learning_rate=0.1).name\n    {snake_case(name)!r}\n"
    formula = (kind.__doc__ or "").partition(">>>")[0].rstrip()
    return type(
        name,
        (Optimizer, kind),
        {
            "__doc__": f"{formula}\n\n    {example}    ",
            "__module__": __name__,
            "__signature__": _signature(kind),
        },
    )


def _signature(kind: Any) -> inspect.Signature:
    """The arguments of an optimizer and, before its name, those that all share."""
    own = list(inspect.signature(kind).parameters.values())
    more = [
        parameter
        for parameter in inspect.signature(Optimizer.__init__).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    named = [parameter for parameter in own if parameter.name == "name"]
    rest = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
    first = [parameter for parameter in own if parameter not in named and parameter not in rest]
    return inspect.Signature(
        [*first, *more, *(p.replace(kind=p.KEYWORD_ONLY) for p in named), *rest]
    )


_KINDS = (
    core.SGD,
    core.Adam,
    core.AdamW,
    core.RMSprop,
    core.Adagrad,
    rarer_optimizers.Adadelta,
    rarer_optimizers.Adamax,
    rarer_optimizers.Ftrl,
    rarer_optimizers.Lion,
    rarer_optimizers.Nadam,
)
SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Ftrl, Lion, Nadam = map(_derived, _KINDS)
_BY_NAME = {
    kind.__name__.lower(): kind
    for kind in (SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Ftrl, Lion, Nadam)
}


def get(identifier: Any) -> Any:
    """An optimizer by name, from its configuration, or as it is.

    >>> tf.keras.optimizers.get("adam").name
    'adam'
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
    'sgd'
    """
    return _BY_NAME[config["class_name"].lower()].from_config(config["config"])


check_exports(globals(), __all__)
