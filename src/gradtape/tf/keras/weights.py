"""Weights, variables with a starting value that layers and metrics keep; names made of classes."""

from __future__ import annotations

import re
from typing import Any

from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import graphs
from gradtape.tf.keras import initializers
from gradtape.tf.programs.variable import Variable


def weight(
    shape: Any,
    initializer: Any,
    dtype: Any,
    trainable: bool,
    name: str | None,
    constraint: Any = None,
) -> Variable:
    """A variable that begins with what an initializer gives."""
    start = initializers.get(initializer)(() if shape is None else tuple(shape), dtype)
    if graphs.in_use:
        start = graphs.settle(start)
    # As a value: a pending tensor would be part of whatever is being recorded.
    made = Variable(convert(start).read(), trainable=trainable, dtype=dtype, constraint=constraint)
    made.name = name or "variable"
    return made


def snake_case(name: str) -> str:
    """Words apart and in small letters; digits belong to the word before them."""
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower().lstrip("_")
