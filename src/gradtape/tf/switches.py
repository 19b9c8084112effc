"""Enumerations and small modules that code written for TensorFlow mentions."""

from __future__ import annotations

import enum
import logging
import types
from collections.abc import Callable
from typing import Any

from gradtape.tf.graphs import Symbolic
from gradtape.tf.shapes import TensorSpec

__all__ = [
    "AggregationMethod", "VariableAggregation", "VariableSynchronization", "autograph",
    "get_logger", "is_symbolic_tensor", "type_spec_from_value", "version",
]  # fmt: skip


class VariableSynchronization(enum.Enum):
    """When copies of a variable are made equal; there is one of each.

    >>> tf.VariableSynchronization.AUTO.value
    0
    """

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(enum.Enum):
    """How copies of a variable are combined; there is one of each.

    >>> tf.VariableAggregation.NONE.value
    0
    """

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


class AggregationMethod:
    """How gradients are added up; it makes no difference here.

    >>> tf.AggregationMethod.ADD_N
    0
    """

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE, EXPERIMENTAL_ACCUMULATE_N = 1, 2


def type_spec_from_value(value: Any) -> TensorSpec:
    """The shape and dtype of a tensor.

    >>> tf.type_spec_from_value(tf.constant([1, 2]))
    TensorSpec(shape=(2,), dtype=tf.int32, name=None)
    """
    return TensorSpec.from_tensor(value)


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether something is a tensor without a value, in a graph.

    >>> tf.is_symbolic_tensor(tf.constant(1.0))
    False
    """
    return isinstance(tensor, Symbolic)


def get_logger() -> logging.Logger:
    """The logger named after this face.

    >>> tf.get_logger().name
    'gradtape.tf'
    """
    return logging.getLogger("gradtape.tf")


def _as_it_is(func: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
    """A function as it is: Python is not rewritten here."""
    return _as_it_is if func is None else func


# Python is run as it is, and what it looks at becomes a guard.
autograph = types.SimpleNamespace(
    experimental=types.SimpleNamespace(do_not_convert=_as_it_is, set_loop_options=_as_it_is),
    to_graph=_as_it_is,
    set_verbosity=lambda level, alsologtostdout=False: None,
)
version = types.SimpleNamespace(VERSION="2.21.0+gradtape", GIT_VERSION="", COMPILER_VERSION="")
