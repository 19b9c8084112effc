"""TensorFlow 1's names: of what TensorFlow 2 renamed, and of functions that it no longer has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import DType, float32, float64, int32, int64
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, TensorLike
from gradtape.tf.ops.elementwise import floordiv, truediv

__all__ = ["div", "to_double", "to_float", "to_int32", "to_int64"]


# Functions that TensorFlow 2 moved into a namespace and did not rename.
_MOVED = {
    "math": (
        "betainc ceil invert_permutation igamma igammac is_finite is_inf is_nan log_sigmoid "
        "rint segment_max segment_mean segment_min segment_prod segment_sum "
        "unsorted_segment_sum zeta"
    ),
    "debugging": "check_numerics",
    "linalg": "cholesky matrix_transpose qr svd trace",
    "nn": "depth_to_space space_to_depth",
    "signal": "fft ifft",
    "random": "truncated_normal",
}
# Functions, and their names in TensorFlow 2.
RENAMED = {
    **{name: f"{place}.{name}" for place, names in _MOVED.items() for name in names.split()},
    "arg_max": "argmax", "arg_min": "argmin", "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part", "div_no_nan": "math.divide_no_nan",
    "floor_div": "math.floordiv", "lin_space": "linspace",
    "matrix_band_part": "linalg.band_part", "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag", "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv", "matrix_set_diag": "linalg.set_diag",
    "matrix_solve": "linalg.solve", "matrix_triangular_solve": "linalg.triangular_solve",
    "multinomial": "random.categorical", "py_func": "numpy_function",
    "random_normal": "random.normal", "random_shuffle": "random.shuffle",
    "random_uniform": "random.uniform", "random_gamma": "random.gamma",
    "random_poisson": "random.poisson", "realdiv": "math.truediv", "reverse_v2": "reverse",
    "self_adjoint_eig": "linalg.eigh", "set_random_seed": "random.set_seed",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update", "where_v2": "where",
}  # fmt: skip

# Functions, and their argument names: those of TensorFlow 1 to those of TensorFlow 2.
_REDUCTIONS = (
    "count_nonzero", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_prod", "reduce_sum",
)  # fmt: skip
OLD_ARGUMENTS: dict[str, dict[str, str]] = {
    **{name: {"keep_dims": "keepdims", "reduction_indices": "axis"} for name in _REDUCTIONS},
    "argmax": {"dimension": "axis"},
    "argmin": {"dimension": "axis"},
    "concat": {"concat_dim": "axis"},
    "expand_dims": {"dim": "axis"},
    "norm": {"keep_dims": "keepdims"},
    "reverse_sequence": {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
    "split": {"split_dim": "axis"},
    "squeeze": {"squeeze_dims": "axis"},
}


def renaming(function: Callable[..., Any], **names: str) -> Callable[..., Any]:
    """The function, which then also accepts arguments by their old names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old, new in names.items():
            if kwargs.get(old) is not None:
                kwargs[new] = kwargs[old]
            kwargs.pop(old, None)
        return function(*args, **kwargs)

    return call


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
