"""Functions that TensorFlow 2 no longer has: `div`, `to_float` and the like."""

from __future__ import annotations

from collections.abc import Callable

from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import DType, float32, float64, int32, int64
from gradtape.tf.base.table import documented
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, TensorLike
from gradtape.tf.ops.elementwise import floordiv, truediv

__all__ = ["div", "to_double", "to_float", "to_int32", "to_int64"]


@operation
def div(x: TensorLike, y: TensorLike, name: Name = None) -> Tensor:
    """The quotient by the rule of Python 2: integers give an integer, rounded down.

    >>> tf.compat.v1.div(7, 2).numpy().item()
    3
    """
    x = convert(x, hint=getattr(y, "dtype", None))
    return (floordiv if x.dtype.is_integer else truediv)(x, y)


def _cast(name: str, dtype: DType) -> Callable[..., Tensor]:
    def to(x: TensorLike, name: Name = None) -> Tensor:
        return cast(x, dtype)

    example, result = f"tf.compat.v1.{name}([1]).dtype", f"tf.{dtype.name}"
    return operation(documented(to, __name__, f"The values as {dtype.name}.", example, result))


to_float, to_double = _cast("to_float", float32), _cast("to_double", float64)
to_int32, to_int64 = _cast("to_int32", int32), _cast("to_int64", int64)
