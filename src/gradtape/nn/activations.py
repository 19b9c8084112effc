"""Activations: compositions of ops that stay exact for large arguments, with Keras' defaults.

None of them selects between values that are differentiated: the mask of a `where` would be carried
back through all layers below. Layers take them by name, as in `Dense(8, activation="gelu")`,
or as functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any, TypeVar

import gradtape as gt
from gradtape import Tensor, relu, sigmoid, softplus, tanh
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports, kind_of_operand, namespace as _namespace
from gradtape.typing import Axes, TensorLike

__all__ = [
    "elu",
    "gelu",
    "get",
    "hard_sigmoid",
    "leaky_relu",
    "linear",
    "log_softmax",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
    "tanh",
]

Activation = Callable[..., Any]
# Arguments of layers: a function of a tensor, its name, or None for no activation.
ActivationLike = Activation | str | None
AnyInput = TypeVar("AnyInput")

# Such that mean 0 and variance 1 are kept (Klambauer et al. 2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def inexact(x: TensorLike) -> Tensor:
    """A tensor of floats: integers and booleans become the default float."""
    found: Tensor = gt.asarray(x)
    return found if found.dtype.kind in "fc" else gt.cast(found, gt.default_dtype())


def linear(x: AnyInput) -> AnyInput:
    """The argument as it is.

    >>> gt.nn.activations.linear(2.0)
    2.0
    """
    return x


@kind_of_operand
def leaky_relu(x: TensorLike, negative_slope: float = 0.2) -> Tensor:
    """x where it is positive, `negative_slope` times x elsewhere.

    >>> gt.nn.leaky_relu(gt.asarray([-1.0, 2.0])).tolist()
    [-0.2, 2.0]
    """
    x = inexact(x)
    return x * gt.cast(gt.where(x > 0.0, 1.0, negative_slope), x.dtype)


@kind_of_operand
def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    >>> gt.nn.elu(gt.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    x = inexact(x)
    return relu(x) + alpha * gt.expm1(gt.minimum(x, 0.0))


@kind_of_operand
def selu(x: TensorLike) -> Tensor:
    """1.0507 * elu(x, 1.6733), which keeps mean 0 and variance 1.

    >>> round(float(gt.nn.selu(1.0)), 4)
    1.0507
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@kind_of_operand
def gelu(x: TensorLike, approximate: bool = False) -> Tensor:
    """x times the distribution function of the standard normal; or its approximation by tanh.

    >>> round(float(gt.nn.gelu(1.0)), 6), round(float(gt.nn.gelu(1.0, approximate=True)), 6)
    (0.841345, 0.841192)
    """
    x = inexact(x)
    if approximate:
        # (1 + tanh(z)) / 2 = sigmoid(2 z), which is exact where x is far below 0.
        return x * sigmoid(math.sqrt(8.0 / math.pi) * (x + 0.044715 * (x * x * x)))
    # erfc, not 1 + erf: exact where x is far below 0.
    return 0.5 * x * gt.erfc(x * -math.sqrt(0.5))


@kind_of_operand
def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x), also called swish.

    >>> float(gt.nn.silu(0.0))
    0.0
    """
    x = inexact(x)
    return x * sigmoid(x)


swish = silu


@kind_of_operand
def mish(x: TensorLike) -> Tensor:
    """x * tanh(softplus(x)).

    >>> float(gt.nn.mish(0.0))
    0.0
    """
    x = inexact(x)
    return x * tanh(softplus(x))


@kind_of_operand
def hard_sigmoid(x: TensorLike) -> Tensor:
    """x / 6 + 1 / 2, held between 0 and 1.

    >>> gt.nn.hard_sigmoid(gt.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return gt.clip(inexact(x) / 6.0 + 0.5, 0.0, 1.0)


@kind_of_operand
def softmax(x: TensorLike, axis: Axes = -1) -> Tensor:
    """exp(x) over its sum along an axis or several, without overflow.

    Elements that are -inf get 0. Where all are, the result is NaN.

    >>> gt.nn.softmax(gt.asarray([1e4, 1e4, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    """
    terms = gt.exp(_below_zero("softmax", x, axis))
    return terms / gt.sum(terms, axis=axis, keepdims=True)


@kind_of_operand
def log_softmax(x: TensorLike, axis: Axes = -1) -> Tensor:
    """The logarithm of softmax, exact where that is too small for a float.

    >>> gt.nn.log_softmax(gt.asarray([1e4, 0.0])).tolist()
    [0.0, -10000.0]
    """
    x = _below_zero("log_softmax", x, axis)
    return x - gt.log(gt.sum(gt.exp(x), axis=axis, keepdims=True))


def _below_zero(name: str, x: TensorLike, axis: Axes) -> Tensor:
    """The operand less its largest element along an axis: the result is the same, and exact."""
    x = inexact(x)
    if not x.ndim:
        raise ShapeError(f"{name}: a 0-d tensor has no axis to share between. Reshape it to (1,).")
    if not x.size:
        return x
    top = gt.stop_gradient(gt.max(x, axis=axis, keepdims=True))
    return x - gt.where(gt.isfinite(top), top, 0.0)


def get(identifier: ActivationLike) -> Activation | None:
    """The activation of a name; functions as they are, and None for None.

    >>> gt.nn.activations.get("relu") is gt.relu
    True
    """
    if identifier is None or callable(identifier):
        return identifier
    if isinstance(identifier, int):
        raise TypeError(
            f"activations: {identifier!r} is not an activation. Layers take the number of outputs "
            "only: the number of inputs is inferred at the first call."
        )
    if identifier not in BY_NAME:
        raise ValueError(
            f"activations: {identifier!r} is unknown. There are {', '.join(BY_NAME)}; "
            "or pass a function."
        )
    return BY_NAME[identifier]


check_exports(globals(), __all__)

BY_NAME: dict[str, Activation] = {
    "swish": silu,
    **{name: globals()[name] for name in __all__ if name != "get"},
}

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
