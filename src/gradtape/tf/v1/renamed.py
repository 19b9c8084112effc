"""TensorFlow 1's names for what TensorFlow 2 renamed, and functions that it changed or dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import DType, bool as boolean, float32, float64, int32, int64
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, TensorLike, UserFunction
from gradtape.tf.ops import rearranging
from gradtape.tf.ops.arrays import reshape
from gradtape.tf.ops.elementwise import floordiv, truediv
from gradtape.tf.ops.indexing import where as new_where
from gradtape.tf.programs.control import cond as new_cond, while_loop as new_while_loop
from gradtape.tf.v1.graphs import executing_eagerly
from gradtape.tf.v1.signatures import with_old_arguments

__all__ = [
    "batch_to_space",
    "cond",
    "div",
    "space_to_batch",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
    "where",
    "while_loop",
]

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
    "arg_max": "argmax",
    "arg_min": "argmin",
    "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part",
    "div_no_nan": "math.divide_no_nan",
    "floor_div": "math.floordiv",
    "lin_space": "linspace",
    "matrix_band_part": "linalg.band_part",
    "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag",
    "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv",
    "matrix_set_diag": "linalg.set_diag",
    "matrix_solve": "linalg.solve",
    "matrix_triangular_solve": "linalg.triangular_solve",
    "multinomial": "random.categorical",
    "py_func": "numpy_function",
    "random_normal": "random.normal",
    "random_shuffle": "random.shuffle",
    "random_uniform": "random.uniform",
    "random_gamma": "random.gamma",
    "random_poisson": "random.poisson",
    "realdiv": "math.truediv",
    "reverse_v2": "reverse",
    "self_adjoint_eig": "linalg.eigh",
    "set_random_seed": "random.set_seed",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update",
    "where_v2": "where",
}


@operation
def div(x: TensorLike, y: TensorLike, name: Name = None) -> Tensor:
    """The quotient by the rule of Python 2: integers give an integer, rounded down.

    >>> tf.compat.v1.div(7, 2).numpy().item()
    3
    """
    x = convert(x, hint=getattr(y, "dtype", None))
    return (floordiv if x.dtype.is_integer else truediv)(x, y)


@operation
def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: Name = None,
) -> Tensor:
    """Elements of x or y, or whole rows if the condition is a vector; nothing broadcasts.

    >>> tf.compat.v1.where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]).numpy().tolist()
    [[1, 2], [7, 8]]
    """
    if x is None or y is None:
        return new_where(condition, x, y)
    chosen = convert(condition, dtype=boolean)
    first, second = common([x, y], "where")
    shape = first.spec.shape
    if second.spec.shape != shape or chosen.spec.shape not in ((), shape[:1], shape):
        raise ShapeError(
            f"where: a condition of shape {chosen.shape} for operands of shape {first.shape} and "
            f"{second.shape}: these must be equal, and the condition have that shape, or its first "
            "length, or no axes. tf.where broadcasts."
        )
    if chosen.ndim == 1:
        chosen = reshape(chosen, (*shape[:1], *(1,) * (len(shape) - 1)))
    return new_where(chosen, first, second)


@with_old_arguments
def cond(
    pred: TensorLike,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: Name = None,
) -> Any:
    """`true_fn()` if `pred` holds, else `false_fn()`; a list of one is that one, unless `strict`.

    >>> tf.compat.v1.cond(True, fn1=lambda: [tf.constant(1)], fn2=lambda: [tf.constant(2)]).numpy()
    np.int32(1)
    """
    return _one(new_cond(pred, true_fn, false_fn), not strict)


@with_old_arguments
def while_loop(
    cond: UserFunction,
    body: UserFunction,
    loop_vars: Any,
    shape_invariants: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: Name = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """The loop of TensorFlow 2; of one variable, its value alone, in a graph or as in `body`.

    >>> tf.compat.v1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)]).numpy()
    np.int32(3)
    """
    listed = False

    def step(*values: Any) -> Any:
        nonlocal listed
        result = body(*values)
        listed = isinstance(result, (list, tuple))
        return result

    result = new_while_loop(
        cond,
        step,
        loop_vars,
        shape_invariants,
        parallel_iterations,
        back_prop,
        swap_memory,
        maximum_iterations,
    )
    alone = not executing_eagerly() or not listed
    return _one(result, alone and not return_same_structure)


def _one(result: Any, alone: bool) -> Any:
    """The only element of a list of one, if it is wanted alone; anything else as it is."""
    return result[0] if alone and isinstance(result, (list, tuple)) and len(result) == 1 else result


def _of_blocks(function: Callable[..., Tensor], sentence: str) -> Callable[..., Tensor]:
    def of_blocks(input: TensorLike, block_shape: Any, name: Name = None, **widths: Any) -> Tensor:
        if isinstance(block_shape, (int, np.integer)):
            block_shape = (block_shape, block_shape)
        return function(input, block_shape, **widths)

    zeros, own = "[[0, 0], [0, 0]]", function.__name__
    example = f"tf.compat.v1.{own}(tf.zeros([4, 4, 4, 1]), {zeros}, block_size=2).shape"
    shape = "[1, 8, 8, 1]" if own == "batch_to_space" else "[16, 2, 2, 1]"
    return with_old_arguments(
        documented(of_blocks, __name__, sentence, example, f"TensorShape({shape})")
    )


batch_to_space = _of_blocks(
    rearranging.batch_to_space, "Blocks from examples; one size is for two axes."
)
space_to_batch = _of_blocks(
    rearranging.space_to_batch, "Examples from blocks; one size is for two axes."
)


def _cast(name: str, dtype: DType) -> Callable[..., Tensor]:
    def to(x: TensorLike, name: Name = None) -> Tensor:
        return cast(x, dtype)

    example, result = f"tf.compat.v1.{name}([1]).dtype", f"tf.{dtype.name}"
    return operation(documented(to, __name__, f"The values as {dtype.name}.", example, result))


to_float, to_double = _cast("to_float", float32), _cast("to_double", float64)
to_int32, to_int64 = _cast("to_int32", int32), _cast("to_int64", int64)


check_exports(globals(), __all__)
