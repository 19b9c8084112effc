"""gradtape.tf: what TensorFlow users write, on gradtape.

>>> import gradtape.tf as tf
>>> x = tf.Variable(3.0)
>>> with tf.GradientTape() as tape:
...     y = x * x
>>> tape.gradient(y, x)
<tf.Tensor: shape=(), dtype=float32, numpy=6.0>

Names, argument order, defaults and dtype rules are TensorFlow's; docs/tensorflow.md says what
differs. A name that is not there raises an AttributeError that names the nearest there is.
"""

from __future__ import annotations

import contextlib
from typing import Any

from gradtape.tf import (
    autodiff,
    bitwise,
    compat,
    config,
    data,
    debugging,
    dtypes,
    errors,
    keras,
    linalg,
    math,
    nest,
    nn,
    random,
    signal,
)
from gradtape.tf import checks as test
from gradtape.tf.arrays import (
    broadcast_dynamic_shape,
    broadcast_to,
    concat,
    ensure_shape,
    expand_dims,
    identity,
    identity_n,
    pad,
    rank,
    repeat,
    reshape,
    reverse,
    roll,
    shape,
    shape_n,
    size,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unstack,
)
from gradtape.tf.blocks import batch_to_space, space_to_batch
from gradtape.tf.casting import cast, complex, saturate_cast
from gradtape.tf.compat.v1 import (
    Graph,
    Session,
    control_dependencies,
    executing_eagerly,
    group,
    no_op,
    placeholder,
)
from gradtape.tf.control import (
    case,
    cond,
    foldl,
    foldr,
    map_fn,
    scan,
    switch_case,
    vectorized_map,
    while_loop,
)
from gradtape.tf.conversion import constant, convert_to_tensor
from gradtape.tf.creation import (
    eye,
    fill,
    linspace,
    meshgrid,
    one_hot,
    ones,
    ones_like,
    range,
    sequence_mask,
    zeros,
    zeros_like,
)
from gradtape.tf.custom import (
    custom_gradient,
    grad_pass_through,
    numpy_function,
    py_function,
    recompute_grad,
    stop_gradient,
)
from gradtape.tf.debugging import Assert, assert_equal, assert_greater, assert_less, assert_rank
from gradtape.tf.dtypes import (
    DType,
    as_dtype,
    bool,
    complex64,
    complex128,
    double,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from gradtape.tf.elementwise import FUNCTIONS
from gradtape.tf.function import function
from gradtape.tf.indexing import boolean_mask, gather, gather_nd, slice, strided_slice, where
from gradtape.tf.module import Module
from gradtape.tf.partitions import (
    bitcast,
    dynamic_partition,
    dynamic_stitch,
    reverse_sequence,
    unravel_index,
)
from gradtape.tf.printing import print
from gradtape.tf.products import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    einsum,
    matmul,
    norm,
    tensordot,
)
from gradtape.tf.reductions import (
    add_n,
    argmax,
    argmin,
    cumsum,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from gradtape.tf.scattering import (
    scatter_nd,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
)
from gradtape.tf.scopes import get_current_name_scope, name_scope
from gradtape.tf.shapes import TensorShape, TensorSpec, broadcast_static_shape
from gradtape.tf.slices import IndexedSlices
from gradtape.tf.sorting import (
    argsort,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    searchsorted,
    sort,
    unique,
    unique_with_counts,
)
from gradtape.tf.suggestions import missing
from gradtape.tf.switches import (
    AggregationMethod,
    VariableAggregation,
    VariableSynchronization,
    autograph,
    get_logger,
    is_symbolic_tensor,
    type_spec_from_value,
    version,
)
from gradtape.tf.tape import GradientTape, UnconnectedGradients, gradients, hessians
from gradtape.tf.tensor import Tensor, is_tensor
from gradtape.tf.tensor_array import TensorArray
from gradtape.tf.variable import Variable

# The version whose behaviour is followed.
__version__ = "2.21.0+gradtape"

newaxis = None
space_to_batch_nd = space_to_batch
eig, eigvals, matrix_square_root = linalg.eig, linalg.eigvals, linalg.sqrtm
scalar_mul = math.scalar_mul
initializers, losses, metrics, optimizers = (
    keras.initializers, keras.losses, keras.metrics, keras.optimizers
)  # fmt: skip
constant_initializer = keras.initializers.Constant
ones_initializer = keras.initializers.Ones
random_normal_initializer = keras.initializers.RandomNormal
random_uniform_initializer = keras.initializers.RandomUniform
zeros_initializer = keras.initializers.Zeros

# Element-wise functions that TensorFlow has at its top, besides `tf.math`.
_AT_THE_TOP = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh",
    "divide", "equal", "exp", "floor", "greater", "greater_equal", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "maximum", "minimum", "multiply", "negative",
    "not_equal", "pow", "round", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "subtract",
    "tan", "tanh", "truediv", "truncatediv", "truncatemod",
]  # fmt: skip
globals().update({name: FUNCTIONS[name] for name in _AT_THE_TOP})

SUBMODULES = (
    "autodiff", "bitwise", "compat.v1", "config", "data", "debugging", "dtypes", "errors", "keras",
    "keras.activations", "keras.backend", "keras.callbacks", "keras.constraints",
    "keras.initializers",
    "keras.layers", "keras.losses", "keras.metrics", "keras.models", "keras.optimizers",
    "keras.optimizers.schedules", "keras.regularizers", "keras.utils", "linalg", "math",
    "math.special", "nest", "nn", "random", "signal", "test",
)  # fmt: skip

__all__ = [
    *_AT_THE_TOP,
    "AggregationMethod", "Assert", "DType", "GradientTape", "Graph", "IndexedSlices", "Module",
    "Session", "Tensor", "TensorArray", "TensorShape", "TensorSpec", "UnconnectedGradients",
    "Variable", "VariableAggregation", "VariableSynchronization", "add_n", "argmax", "argmin",
    "argsort", "as_dtype", "assert_equal", "assert_greater", "assert_less", "assert_rank",
    "autodiff", "autograph", "batch_to_space", "bitcast", "bitwise", "bool", "boolean_mask",
    "broadcast_dynamic_shape", "broadcast_static_shape", "broadcast_to", "case", "cast",
    "clip_by_global_norm", "clip_by_norm", "clip_by_value", "compat", "complex", "complex128",
    "complex64", "concat", "cond", "config", "constant", "constant_initializer",
    "control_dependencies", "convert_to_tensor", "cumsum", "custom_gradient", "data", "debugging",
    "device", "double", "dtypes", "dynamic_partition", "dynamic_stitch", "eig", "eigvals", "einsum",
    "ensure_shape", "errors", "executing_eagerly", "expand_dims", "eye", "fill", "float32",
    "float64", "foldl", "foldr", "function", "gather", "gather_nd", "get_current_name_scope",
    "get_logger", "get_static_value", "grad_pass_through", "gradients", "group", "hessians",
    "histogram_fixed_width", "histogram_fixed_width_bins", "identity", "identity_n", "init_scope",
    "initializers", "int16", "int32", "int64", "int8", "is_symbolic_tensor", "is_tensor", "keras",
    "linalg", "linspace", "losses", "map_fn", "math", "matmul", "matrix_square_root", "meshgrid",
    "metrics", "name_scope", "nest", "newaxis", "nn", "no_gradient", "no_op", "norm",
    "numpy_function", "one_hot", "ones", "ones_initializer", "ones_like", "optimizers", "pad",
    "placeholder", "print", "py_function", "random", "random_normal_initializer",
    "random_uniform_initializer", "range", "rank", "recompute_grad", "reduce_all", "reduce_any",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
    "repeat", "reshape", "reverse", "reverse_sequence", "roll", "saturate_cast", "scalar_mul",
    "scan", "scatter_nd", "searchsorted", "sequence_mask", "shape", "shape_n", "signal", "size",
    "slice", "sort", "space_to_batch", "space_to_batch_nd", "split", "squeeze", "stack",
    "stop_gradient", "strided_slice", "switch_case", "tensor_scatter_nd_add",
    "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "tensordot", "test", "tile", "transpose", "tuple",
    "type_spec_from_value", "uint16", "uint32", "uint64", "uint8", "unique", "unique_with_counts",
    "unravel_index", "unstack", "vectorized_map", "version", "where", "while_loop", "zeros",
    "zeros_initializer", "zeros_like",
]  # fmt: skip


@contextlib.contextmanager
def device(device_name: Any) -> Any:
    """A context that means nothing: there is one device, the CPU.

    >>> with tf.device("/CPU:0"):
    ...     x = tf.constant(1.0)
    """
    yield


@contextlib.contextmanager
def init_scope() -> Any:
    """A context that means nothing: calls are made at once anyway.

    >>> with tf.init_scope():
    ...     x = tf.constant(1.0)
    """
    yield


def get_static_value(tensor: Any, partial: Any = False) -> Any:
    """The value of a tensor as a NumPy array; None of what has none yet.

    >>> tf.get_static_value(tf.constant([1, 2])).tolist()
    [1, 2]
    """
    return tensor.numpy() if isinstance(tensor, Tensor) else None


def tuple(tensors: Any, control_inputs: Any = None, name: str | None = None) -> list[Any]:
    """The tensors as they are: they are computed together anyway.

    >>> [x.numpy().item() for x in tf.tuple([tf.constant(1), tf.constant(2)])]
    [1, 2]
    """
    return list(tensors)


def no_gradient(op_type: str) -> None:
    """Accepted, and without effect: every op here says itself whether it has a derivative.

    >>> tf.no_gradient("Round")
    """


def __getattr__(name: str) -> Any:
    """Names of TensorFlow 1 are found too; others are met with the nearest there is."""
    if not name.startswith("_"):
        from gradtape.tf.compat.renamed import RENAMED

        if name in compat.v1.__all__ or name in RENAMED:
            return getattr(compat.v1, name)
    raise AttributeError(missing("tf", name, globals()), name=name)
