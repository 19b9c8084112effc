"""Activations by name: `tf.keras.activations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape import split
from gradtape.libraries import check_exports
from gradtape.nn import activations as core
from gradtape.ops.elementwise import arithmetic, unary as elementwise
from gradtape.tf import nn
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.ops import elementwise as functions
from gradtape.typing import Bound

if TYPE_CHECKING:
    from types import FunctionType

    from gradtape.tf.base.tensor import Tensor

__all__ = [
    "celu",
    "deserialize",
    "elu",
    "exponential",
    "gelu",
    "get",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "serialize",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
]


def _of_x(
    function: Callable[[Tensor], Tensor], doc: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a function of one argument, which Keras calls x; the example names it."""

    @operation
    def activation(x: Any) -> Tensor:
        return function(convert(x))

    shown = f"round(tf.keras.activations.{example}.numpy().item(), 4)"
    return documented(activation, __name__, doc, shown, result)


linear = _of_x(lambda x: x, "The argument as it is.", "linear(2.0)", "2.0")
mish = _of_x(core.mish, "x * tanh(softplus(x)).", "mish(0.0)", "0.0")
hard_sigmoid = _of_x(
    core.hard_sigmoid, "x / 6 + 1 / 2, held between 0 and 1.", "hard_sigmoid(4.0)", "1.0"
)
exponential = _of_x(functions.exp, "exp(x).", "exponential(0.0)", "1.0")
log_sigmoid = _of_x(
    functions.log_sigmoid, "The logarithm of sigmoid.", "log_sigmoid(0.0)", "-0.6931"
)
relu6 = _of_x(nn.relu6, "The value held between 0 and 6.", "relu6(7.0)", "6.0")
selu = _of_x(nn.selu, "Scaled elu, which keeps mean and variance.", "selu(0.0)", "0.0")
sigmoid = _of_x(functions.sigmoid, "1 / (1 + exp(-x)).", "sigmoid(0.0)", "0.5")
silu = swish = _of_x(nn.silu, "x * sigmoid(x).", "silu(0.0)", "0.0")
softplus = _of_x(nn.softplus, "log(1 + exp(x)).", "softplus(0.0)", "0.6931")
softsign = _of_x(functions.softsign, "x / (1 + |x|).", "softsign(1.0)", "0.5")
tanh = _of_x(functions.tanh, "Hyperbolic tangent.", "tanh(0.0)", "0.0")
tanh_shrink = _of_x(lambda x: x - elementwise.tanh(x), "x - tanh(x).", "tanh_shrink(0.0)", "0.0")
hard_tanh = _of_x(
    lambda x: arithmetic.clip(x, -1.0, 1.0), "x held between -1 and 1.", "hard_tanh(3.0)", "1.0"
)
hard_silu = hard_swish = _of_x(
    lambda x: x * core.hard_sigmoid(x), "x * hard_sigmoid(x).", "hard_silu(3.0)", "3.0"
)


@operation
def relu(
    x: Any, negative_slope: float = 0.0, max_value: Bound | None = None, threshold: float = 0.0
) -> Tensor:
    """x where it is above a threshold, a slope elsewhere, and not more than a largest value.

    >>> tf.keras.activations.relu([-1.0, 8.0], max_value=6.0).numpy().tolist()
    [0.0, 6.0]
    """
    x = convert(x)
    if not negative_slope and not threshold:
        found = nn.relu(x)
    else:
        below = negative_slope * (x - threshold)
        found = arithmetic.where(x > threshold if threshold else x > 0, x, below)
    return found if max_value is None else arithmetic.minimum(found, float(max_value))


@operation
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """x where it is positive, a slope elsewhere.

    >>> tf.keras.activations.leaky_relu([-1.0, 2.0], 0.5).numpy().tolist()
    [-0.5, 2.0]
    """
    return nn.leaky_relu(x, negative_slope)


@operation
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    >>> tf.keras.activations.elu([0.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
    """
    x = convert(x)
    if alpha == 1.0:
        return nn.elu(x)
    return arithmetic.where(x > 0, x, alpha * elementwise.expm1(arithmetic.minimum(x, 0.0)))


@operation
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere.

    >>> tf.keras.activations.celu([0.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
    """
    x = convert(x)
    below = alpha * elementwise.expm1(arithmetic.minimum(x, 0.0) / alpha)
    return arithmetic.where(x > 0, x, below)


@operation
def gelu(x: Any, approximate: bool = False) -> Tensor:
    """x times the distribution function of the standard normal.

    >>> tf.keras.activations.gelu(0.0).numpy().item()
    0.0
    """
    return nn.gelu(x, approximate)


@operation
def glu(x: Any, axis: int = -1) -> Tensor:
    """One half of x times the sigmoid of the other.

    >>> tf.keras.activations.glu([2.0, 0.0]).numpy().tolist()
    [1.0]
    """
    first, second = split(convert(x), 2, axis=axis)
    return first * elementwise.sigmoid(second)


@operation
def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) over its sum along an axis.

    >>> tf.keras.activations.softmax([[0.0, 0.0]]).numpy().tolist()
    [[0.5, 0.5]]
    """
    return nn.softmax(x, axis)


@operation
def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """The logarithm of softmax.

    >>> tf.keras.activations.log_softmax([[1e4, 0.0]]).numpy().tolist()
    [[0.0, -10000.0]]
    """
    return nn.log_softmax(x, axis)


@operation
def squareplus(x: Any, b: float = 4) -> Tensor:
    """(x + sqrt(x**2 + b)) / 2.

    >>> tf.keras.activations.squareplus(0.0).numpy().item()
    1.0
    """
    x = convert(x)
    return 0.5 * (x + elementwise.sqrt(elementwise.square(x) + float(b)))


def get(identifier: Any) -> Callable[..., Tensor]:
    """The activation of a name; functions as they are, and `linear` for None.

    >>> tf.keras.activations.get("relu") is tf.keras.activations.relu
    True
    """
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier
    if identifier not in __all__ or identifier in _NO_ACTIVATIONS:
        names = ", ".join(name for name in __all__ if name not in _NO_ACTIVATIONS)
        raise ValueError(f"activation {identifier!r} is unknown. There are {names}.")
    return globals()[identifier]


_NO_ACTIVATIONS = ("deserialize", "get", "serialize")


def serialize(activation: FunctionType) -> str:
    """The name of an activation.

    >>> tf.keras.activations.serialize(tf.keras.activations.relu)
    'relu'
    """
    return activation.__name__


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Callable[..., Tensor]:
    """The activation of a name, one's own functions included.

    >>> tf.keras.activations.deserialize("relu") is tf.keras.activations.relu
    True
    """
    return (custom_objects or {}).get(config) or get(config)


check_exports(globals(), __all__)
