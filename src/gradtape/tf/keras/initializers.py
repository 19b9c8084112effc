"""Starting values of variables, as classes and by name: `tf.keras.initializers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape.libraries import check_exports
from gradtape.nn import initializers as core
from gradtape.ops.arrays.creation import eye
from gradtape.tf.base.conversion import as_shape, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype, float32
from gradtape.tf.base.tensor import adopt

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor

__all__ = [
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "Identity",
    "Initializer",
    "LecunNormal",
    "LecunUniform",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
    "constant",
    "get",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "variance_scaling",
    "zeros",
]


class Initializer:
    """A function of a shape and a dtype that gives starting values.

    >>> tf.keras.initializers.Ones()([2]).numpy().tolist()
    [1.0, 1.0]
    """

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Values of a shape, float32 unless told otherwise."""
        return _started(self._inner, shape, dtype)


@operation
def _started(inner: Any, shape: Any, dtype: Any) -> Tensor:
    kind = as_dtype(float32 if dtype is None else dtype).dtype
    return adopt(inner(as_shape(shape), kind))


def _class(name: str, function: Callable[..., object], doc: str, arguments: str = "") -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        Initializer.__init__(self, function(*args, **kwargs))

    example = (
        f">>> tf.keras.initializers.{name}({arguments})([2, 2]).shape\n    TensorShape([2, 2])"
    )
    return type(
        name,
        (Initializer,),
        {"__init__": __init__, "__doc__": f"{doc}\n\n    {example}\n    ", "__module__": __name__},
    )


Zeros = _class("Zeros", core.zeros, "Zeros.")
Ones = _class("Ones", core.ones, "Ones.")
Constant = _class("Constant", core.constant, "One number everywhere.", "0.5")
RandomUniform = _class("RandomUniform", core.uniform, "Uniform numbers.")
RandomNormal = _class("RandomNormal", core.normal, "Normal numbers.")
TruncatedNormal = _class("TruncatedNormal", core.truncated_normal, "Truncated normal numbers.")
VarianceScaling = _class(
    "VarianceScaling", core.variance_scaling, "Numbers scaled by how many go in or out."
)
GlorotUniform = _class("GlorotUniform", core.glorot_uniform, "Glorot's, uniform.")
GlorotNormal = _class("GlorotNormal", core.glorot_normal, "Glorot's, normal.")
HeUniform = _class("HeUniform", core.he_uniform, "He's, uniform.")
HeNormal = _class("HeNormal", core.he_normal, "He's, normal.")
LecunUniform = _class("LecunUniform", core.lecun_uniform, "LeCun's, uniform.")
LecunNormal = _class("LecunNormal", core.lecun_normal, "LeCun's, normal.")
Orthogonal = _class("Orthogonal", core.orthogonal, "Orthonormal rows or columns.")


def _identity(gain: float = 1.0) -> Any:
    return lambda shape, dtype: gain * eye(shape[0], shape[1], dtype=dtype)


Identity = _class("Identity", _identity, "The identity matrix, scaled.")

_BY_NAME = {
    "constant": Constant,
    "glorot_normal": GlorotNormal,
    "glorot_uniform": GlorotUniform,
    "he_normal": HeNormal,
    "he_uniform": HeUniform,
    "identity": Identity,
    "lecun_normal": LecunNormal,
    "lecun_uniform": LecunUniform,
    "normal": RandomNormal,
    "ones": Ones,
    "orthogonal": Orthogonal,
    "random_normal": RandomNormal,
    "random_uniform": RandomUniform,
    "truncated_normal": TruncatedNormal,
    "uniform": RandomUniform,
    "variance_scaling": VarianceScaling,
    "zeros": Zeros,
}


# The names that old code has for them.
constant, glorot_normal, glorot_uniform = Constant, GlorotNormal, GlorotUniform
he_normal, he_uniform, identity, lecun_normal = HeNormal, HeUniform, Identity, LecunNormal
lecun_uniform, ones, orthogonal, random_normal = LecunUniform, Ones, Orthogonal, RandomNormal
random_uniform, truncated_normal = RandomUniform, TruncatedNormal
variance_scaling, zeros = VarianceScaling, Zeros


def get(identifier: Any) -> Callable[..., Tensor]:
    """An initializer by name or class; functions as they are, numbers as constants.

    >>> tf.keras.initializers.get("zeros")([2]).numpy().tolist()
    [0.0, 0.0]
    """
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        made: Any = identifier
        return made()
    if callable(identifier):
        return identifier
    if isinstance(identifier, str):
        key = identifier if identifier in _BY_NAME else None
        if key is None:
            raise ValueError(
                f"initializer {identifier!r} is unknown. There are {', '.join(_BY_NAME)}."
            )
        return _BY_NAME[key]()
    return Constant(convert(identifier).numpy())


check_exports(globals(), __all__)
