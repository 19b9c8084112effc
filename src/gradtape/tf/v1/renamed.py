"""Names of TensorFlow 1 for functions and arguments that TensorFlow 2 calls otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Functions, and where TensorFlow 2 has them.
RENAMED = {
    "arg_max": "argmax",
    "arg_min": "argmin",
    "betainc": "math.betainc",
    "ceil": "math.ceil",
    "check_numerics": "debugging.check_numerics",
    "cholesky": "linalg.cholesky",
    "diag": "linalg.tensor_diag",
    "diag_part": "linalg.tensor_diag_part",
    "depth_to_space": "nn.depth_to_space",
    "div_no_nan": "math.divide_no_nan",
    "fft": "signal.fft",
    "floor_div": "math.floordiv",
    "ifft": "signal.ifft",
    "invert_permutation": "math.invert_permutation",
    "igamma": "math.igamma",
    "igammac": "math.igammac",
    "is_finite": "math.is_finite",
    "is_inf": "math.is_inf",
    "is_nan": "math.is_nan",
    "lin_space": "linspace",
    "log_sigmoid": "math.log_sigmoid",
    "matrix_band_part": "linalg.band_part",
    "matrix_determinant": "linalg.det",
    "matrix_diag": "linalg.diag",
    "matrix_diag_part": "linalg.diag_part",
    "matrix_inverse": "linalg.inv",
    "matrix_set_diag": "linalg.set_diag",
    "matrix_solve": "linalg.solve",
    "matrix_transpose": "linalg.matrix_transpose",
    "matrix_triangular_solve": "linalg.triangular_solve",
    "multinomial": "random.categorical",
    "py_func": "numpy_function",
    "qr": "linalg.qr",
    "random_normal": "random.normal",
    "random_shuffle": "random.shuffle",
    "random_uniform": "random.uniform",
    "random_gamma": "random.gamma",
    "random_poisson": "random.poisson",
    "realdiv": "math.truediv",
    "reverse_v2": "reverse",
    "rint": "math.rint",
    "segment_max": "math.segment_max",
    "segment_mean": "math.segment_mean",
    "segment_min": "math.segment_min",
    "segment_prod": "math.segment_prod",
    "segment_sum": "math.segment_sum",
    "self_adjoint_eig": "linalg.eigh",
    "set_random_seed": "random.set_seed",
    "space_to_depth": "nn.space_to_depth",
    "svd": "linalg.svd",
    "trace": "linalg.trace",
    "truncated_normal": "random.truncated_normal",
    "tensor_scatter_add": "tensor_scatter_nd_add",
    "tensor_scatter_sub": "tensor_scatter_nd_sub",
    "tensor_scatter_update": "tensor_scatter_nd_update",
    "unsorted_segment_sum": "math.unsorted_segment_sum",
    "where_v2": "where",
    "zeta": "math.zeta",
}

# Functions, and TensorFlow 1's names of arguments with those of TensorFlow 2.
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
    """A function that also takes arguments by their old names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old, new in names.items():
            if kwargs.get(old) is not None:
                kwargs[new] = kwargs[old]
            kwargs.pop(old, None)
        return function(*args, **kwargs)

    return call
