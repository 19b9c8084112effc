"""Option kinds: parameters of constructors whose signatures are made from tables of defaults.

Losses, metrics and recurrent layers list their options with defaults only. The kind of an option
follows from its name, and is the annotation in the signature that users see.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gradtape.argument_checks import check_arguments

_KINDS = {
    "units": "Size",
    "k": "Size",
    "dropout": "Probability",
    "recurrent_dropout": "Probability",
    "label_smoothing": "Probability",
    "delta": "Positive",
    "threshold": "float",
    "axis": "Axis",
    "seed": "Seed",
    "ignore_class": "int | None",
    **dict.fromkeys(
        (
            "use_bias",
            "unit_forget_bias",
            "reset_after",
            "return_sequences",
            "return_state",
            "go_backwards",
            "stateful",
            "unroll",
            "from_logits",
        ),
        "bool",
    ),
}
REQUIRED = inspect.Parameter.empty


def parameter(name: str, default: Any = REQUIRED) -> inspect.Parameter:
    """A parameter with the kind that its name says."""
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=_KINDS.get(name, REQUIRED),
    )


def checked(
    title: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by name, with defaults, if each is of the kind of its parameter."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{title}() {error}") from None
    check_arguments(title, signature, bound.arguments)
    bound.apply_defaults()
    return dict(bound.arguments)
