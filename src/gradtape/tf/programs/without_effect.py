"""Names that code written for TensorFlow mentions, and that have little or no effect here."""

from __future__ import annotations

import contextlib
import enum
import logging
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from gradtape.libraries import check_exports
from gradtape.tf.base.dispatch import WithoutValue
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name

__all__ = [
    "AggregationMethod",
    "VariableAggregation",
    "VariableSynchronization",
    "autograph",
    "device",
    "get_logger",
    "get_static_value",
    "init_scope",
    "is_symbolic_tensor",
    "no_gradient",
    "tuple",
    "type_spec_from_value",
    "version",
]

T = TypeVar("T")


class VariableSynchronization(enum.Enum):
    """When copies of a variable are made equal; a variable has no copies here.

    >>> tf.VariableSynchronization.AUTO.value
    0
    """

    AUTO, NONE, ON_WRITE, ON_READ = range(4)


class VariableAggregation(enum.Enum):
    """How copies of a variable are combined; a variable has no copies here.

    >>> tf.VariableAggregation.NONE.value
    0
    """

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = range(4)


class AggregationMethod:
    """How gradients are added up; accepted, and without effect.

    >>> tf.AggregationMethod.ADD_N
    0
    """

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE, EXPERIMENTAL_ACCUMULATE_N = 1, 2


def type_spec_from_value(value: Tensor) -> TensorSpec:
    """The shape and dtype of a tensor.

    >>> tf.type_spec_from_value(tf.constant([1, 2]))
    TensorSpec(shape=(2,), dtype=tf.int32, name=None)
    """
    return TensorSpec.from_tensor(value)


def is_symbolic_tensor(tensor: object) -> bool:
    """Whether something is a call of a graph: a tensor without a value.

    >>> tf.is_symbolic_tensor(tf.constant(1.0))
    False
    """
    return isinstance(tensor, WithoutValue)


def get_logger() -> logging.Logger:
    """The logger of gradtape.tf.

    >>> tf.get_logger().name
    'gradtape.tf'
    """
    return logging.getLogger("gradtape.tf")


@contextlib.contextmanager
def device(device_name: object) -> Iterator[None]:
    """A context without effect: there is one device, the CPU.

    >>> with tf.device("/CPU:0"):
    ...     x = tf.constant(1.0)
    """
    yield


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """A context without effect: calls are made at once anyway.

    >>> with tf.init_scope():
    ...     x = tf.constant(1.0)
    """
    yield


def get_static_value(tensor: object, partial: bool = False) -> Any:
    """The value of a tensor as a NumPy array; None for a call of a graph.

    >>> tf.get_static_value(tf.constant([1, 2])).tolist()
    [1, 2]
    """
    return tensor.numpy() if isinstance(tensor, Tensor) else None


def tuple(tensors: Iterable[T], control_inputs: object = None, name: Name = None) -> list[T]:
    """The tensors as they are: those recorded together are computed together.

    >>> [x.numpy().item() for x in tf.tuple([tf.constant(1), tf.constant(2)])]
    [1, 2]
    """
    return list(tensors)


def no_gradient(op_type: str) -> None:
    """Accepted, and without effect: every op declares its own derivative.

    >>> tf.no_gradient("Round")
    """


def _as_it_is(func: Callable[..., Any] | None = None, *_: object, **__: object) -> Any:
    """A function as it is: its Python is not rewritten."""
    return _as_it_is if func is None else func


# Functions run as plain Python; the values that they branch on become guards.
autograph = types.SimpleNamespace(
    experimental=types.SimpleNamespace(do_not_convert=_as_it_is, set_loop_options=_as_it_is),
    to_graph=_as_it_is,
    set_verbosity=lambda level, alsologtostdout=False: None,
)
version = types.SimpleNamespace(VERSION="2.21.0+gradtape", GIT_VERSION="", COMPILER_VERSION="")


check_exports(globals(), __all__)
