"""Derivatives written by hand, and Python functions as part of a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import Variable
from gradtape.control import callbacks
from gradtape.libraries import check_exports
from gradtape.ops.elementwise import arithmetic
from gradtape.pytree import map_leaves
from gradtape.tape import custom_derivatives as core
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import leave_for_python, operation
from gradtape.tf.base.dtypes import as_dtype
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Name, TensorLike, UserFunction

__all__ = [
    "custom_gradient",
    "grad_pass_through",
    "numpy_function",
    "py_function",
    "recompute_grad",
    "stop_gradient",
]


def _as_tensor(leaf: object) -> object:
    """A number or an array as a tensor; everything else as it is."""
    if isinstance(leaf, Variable):
        return leaf
    numeric = isinstance(leaf, (float, complex, np.ndarray, np.generic)) or hasattr(leaf, "enter")
    return convert(leaf) if numeric else leaf


def custom_gradient(f: UserFunction | None = None) -> Any:
    """Give a function its own gradient: it returns (y, grad_fn).

    >>> @tf.custom_gradient
    ... def log1pexp(x):
    ...     e = tf.exp(x)
    ...     return tf.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
    >>> x = tf.constant(100.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = log1pexp(x)
    >>> tape.gradient(y, x).numpy().item()
    1.0

    If the function reads variables, grad_fn takes `variables=` and returns (grads, their grads).
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def with_tensors(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            return result
        y, grad_fn = result

        @functools.wraps(grad_fn)
        def slopes(*dys: object, **more: Any) -> object:
            return grad_fn(*adopt(dys), **more)

        return map_leaves(convert, y), slopes

    return _on_tensors(core.custom_gradient(with_tensors), f)


def grad_pass_through(f: UserFunction) -> UserFunction:
    """The same function, with the derivative of the identity.

    >>> x = tf.constant(1.4)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.grad_pass_through(tf.round)(x)
    >>> tape.gradient(y, x).numpy().item()
    1.0
    """

    @functools.wraps(f)
    def passing(*args: Any, **kwargs: Any) -> Any:
        def slopes(*dys: object, variables: Sequence[Any] | None = None) -> Any:
            # Variables that the function reads get no gradient, as in TensorFlow.
            return dys if variables is None else (dys, [None] * len(variables))

        return f(*args, **kwargs), slopes

    return custom_gradient(passing)


def recompute_grad(f: UserFunction) -> UserFunction:
    """The same function without residuals: inner values are computed again in the backward pass.

    >>> x = tf.constant(2.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.recompute_grad(lambda x: x * x * x)(x)
    >>> tape.gradient(y, x).numpy().item()
    12.0
    """
    return _on_tensors(gt.checkpoint(f), f)


def _on_tensors(recorded: UserFunction, f: UserFunction) -> UserFunction:
    """A transformed function of gradtape's, as a public function in place of the original `f`."""

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return adopt(recorded(*map_leaves(_as_tensor, args), **kwargs))

    return operation(decorated)


@operation
def stop_gradient(input: TensorLike, name: Name = None) -> Tensor:
    """The same value, through which no derivative passes.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy().item()
    3.0
    """
    return arithmetic.stop_gradient(convert(input))


def _declared(tout: object) -> Any:
    """The declared result of a callback in gradtape's form: dtypes, or pairs of shape and dtype."""
    if isinstance(tout, (list, tuple)):
        return [_declared(item) for item in tout]
    if isinstance(tout, TensorSpec):
        return (tuple(tout.shape), tout.dtype.dtype)
    return as_dtype(tout).dtype


@operation
def py_function(
    func: UserFunction, inp: Sequence[TensorLike], Tout: object, name: Name = None
) -> Any:
    """Call a Python function on tensors as part of the program; its ops are differentiated.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.py_function(lambda x: x * x, [x], tf.float32)
    >>> tape.gradient(y, x).numpy().item()
    6.0
    """
    cast_to = _declared(Tout)
    if cast_to == []:
        # No result depends on the function: it is called for its effects.
        leave_for_python()
        func(*[convert(x) for x in inp])
        return []

    @functools.wraps(func)
    def on_tensors(*args: object) -> Any:
        return _returned(func(*adopt(args)), cast_to)

    return callbacks.py_function(on_tensors, [convert(x) for x in inp], cast_to)


def _returned(result: object, declared: Any) -> Any:
    """The result of a callback in the declared dtypes."""
    if isinstance(declared, list):
        parts = result if isinstance(result, (list, tuple)) else [result]
        return [_returned(part, one) for part, one in zip(parts, declared, strict=True)]
    return convert(result, hint=declared[1] if isinstance(declared, tuple) else declared)


@operation
def numpy_function(
    func: Callable[..., object],
    inp: Sequence[TensorLike],
    Tout: object,
    stateful: bool = True,
    name: Name = None,
) -> Any:
    """Call a function on NumPy arrays as part of the program; it has no derivative.

    >>> tf.numpy_function(np.cumsum, [tf.constant([1.0, 2.0])], tf.float32).numpy().tolist()
    [1.0, 3.0]
    """
    return callbacks.numpy_function(func, [convert(x) for x in inp], _declared(Tout))


check_exports(globals(), __all__)
