"""gradtape.tf: TensorFlow's names on gradtape.

>>> import gradtape.tf as tf
>>> x = tf.Variable(3.0)
>>> with tf.GradientTape() as tape:
...     y = x * x
>>> tape.gradient(y, x)
<tf.Tensor: shape=(), dtype=float32, numpy=6.0>

Names, argument order, defaults and dtype rules are TensorFlow's; docs/tensorflow.md says what
differs. A missing name raises an AttributeError that suggests the nearest ones.

Packages, each building on those before it: `base` (tensors, dtypes, shapes, conversion), `ops`
(functions of tensors by subject), `programs` (variables, tapes, control flow, tf.function), `v1`
(graphs and sessions of TensorFlow 1), `keras`. The modules beside them are TensorFlow's namespaces:
`tf.math`, `tf.nn` and so on. They define little, and collect the names of the packages.
"""

from __future__ import annotations

import operator as _operator
import sys as _sys
from typing import Any

from gradtape.libraries import check_exports as _check_exports
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
    test,
    train,
)
from gradtape.tf.base import (
    casting as _casting,
    dtypes as _dtypes,
    scopes as _scopes,
    shapes as _shapes,
)
from gradtape.tf.base.casting import *
from gradtape.tf.base.conversion import constant, convert_to_tensor
from gradtape.tf.base.dtypes import *
from gradtape.tf.base.scopes import *
from gradtape.tf.base.shapes import *
from gradtape.tf.base.slices import IndexedSlices
from gradtape.tf.base.suggestions import missing as _missing, suggest_names as _suggest_names
from gradtape.tf.base.tensor import Tensor, is_tensor
from gradtape.tf.linalg import (
    eig,
    eigvals,
    einsum,
    matmul,
    norm,
    sqrtm as matrix_square_root,
    tensordot,
)
from gradtape.tf.ops import (
    arrays as _arrays,
    creation as _creation,
    custom as _custom,
    indexing as _indexing,
)
from gradtape.tf.ops.arrays import *
from gradtape.tf.ops.creation import *
from gradtape.tf.ops.custom import *
from gradtape.tf.ops.indexing import *
from gradtape.tf.ops.products import clip_by_global_norm, clip_by_norm, clip_by_value
from gradtape.tf.programs import control as _control, without_effect as _without_effect
from gradtape.tf.programs.control import *
from gradtape.tf.programs.function import function
from gradtape.tf.programs.module import Module
from gradtape.tf.programs.printing import print
from gradtape.tf.programs.tape import GradientTape, UnconnectedGradients, gradients, hessians
from gradtape.tf.programs.tensor_array import TensorArray
from gradtape.tf.programs.variable import Variable
from gradtape.tf.programs.without_effect import *
from gradtape.tf.v1.renamed import RENAMED as _RENAMED

# Long lists, wrapped.
# isort: off
from gradtape.tf.compat.v1 import (
    Graph,
    Session,
    control_dependencies,
    executing_eagerly,
    group,
    no_op,
    placeholder,
)
from gradtape.tf.math import (
    abs,
    acos,
    acosh,
    add,
    add_n,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    cumsum,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    round,
    scalar_mul,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    truediv,
    truncatediv,
    truncatemod,
)
from gradtape.tf.ops.rearranging import (
    batch_to_space,
    bitcast,
    dynamic_partition,
    dynamic_stitch,
    reverse_sequence,
    space_to_batch,
    unravel_index,
)
from gradtape.tf.ops.sorting import (
    argsort,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    searchsorted,
    sort,
    unique,
    unique_with_counts,
)
from gradtape.tf.programs.assertions import (
    Assert,
    assert_equal,
    assert_greater,
    assert_less,
    assert_rank,
)
# isort: on

# The version whose behaviour is followed.
__version__ = "2.21.0+gradtape"

newaxis = None
space_to_batch_nd = space_to_batch
initializers, losses, metrics, optimizers = (
    keras.initializers,
    keras.losses,
    keras.metrics,
    keras.optimizers,
)
constant_initializer = keras.initializers.Constant
ones_initializer = keras.initializers.Ones
random_normal_initializer = keras.initializers.RandomNormal
random_uniform_initializer = keras.initializers.RandomUniform
zeros_initializer = keras.initializers.Zeros

SUBMODULES = (
    "autodiff",
    "bitwise",
    "compat.v1",
    "config",
    "data",
    "debugging",
    "dtypes",
    "errors",
    "keras",
    "keras.activations",
    "keras.backend",
    "keras.callbacks",
    "keras.constraints",
    "keras.initializers",
    "keras.layers",
    "keras.losses",
    "keras.metrics",
    "keras.models",
    "keras.optimizers",
    "keras.optimizers.schedules",
    "keras.regularizers",
    "keras.utils",
    "linalg",
    "math",
    "math.special",
    "nest",
    "nn",
    "random",
    "signal",
    "test",
    "train",
)

# Not compat.v1, which finds names of TensorFlow 2 as well.
for _path in ("compat", "compat.v1.train", *SUBMODULES):
    if _path != "compat.v1":
        _suggest_names(f"tf.{_path}", _operator.attrgetter(_path)(_sys.modules[__name__]))

__all__ = [
    "Assert",
    "GradientTape",
    "Graph",
    "IndexedSlices",
    "Module",
    "Session",
    "Tensor",
    "TensorArray",
    "UnconnectedGradients",
    "Variable",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_n",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "assert_equal",
    "assert_greater",
    "assert_less",
    "assert_rank",
    "atan",
    "atan2",
    "atanh",
    "autodiff",
    "batch_to_space",
    "bitcast",
    "bitwise",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "compat",
    "config",
    "constant",
    "constant_initializer",
    "control_dependencies",
    "convert_to_tensor",
    "cos",
    "cosh",
    "cumsum",
    "data",
    "debugging",
    "divide",
    "dtypes",
    "dynamic_partition",
    "dynamic_stitch",
    "eig",
    "eigvals",
    "einsum",
    "equal",
    "errors",
    "executing_eagerly",
    "exp",
    "floor",
    "function",
    "gradients",
    "greater",
    "greater_equal",
    "group",
    "hessians",
    "histogram_fixed_width",
    "histogram_fixed_width_bins",
    "initializers",
    "is_tensor",
    "keras",
    "less",
    "less_equal",
    "linalg",
    "logical_and",
    "logical_not",
    "logical_or",
    "losses",
    "math",
    "matmul",
    "matrix_square_root",
    "maximum",
    "metrics",
    "minimum",
    "multiply",
    "negative",
    "nest",
    "newaxis",
    "nn",
    "no_op",
    "norm",
    "not_equal",
    "ones_initializer",
    "optimizers",
    "placeholder",
    "pow",
    "print",
    "random",
    "random_normal_initializer",
    "random_uniform_initializer",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reverse_sequence",
    "round",
    "scalar_mul",
    "searchsorted",
    "sigmoid",
    "sign",
    "signal",
    "sin",
    "sinh",
    "sort",
    "space_to_batch",
    "space_to_batch_nd",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "tensordot",
    "test",
    "train",
    "truediv",
    "truncatediv",
    "truncatemod",
    "unique",
    "unique_with_counts",
    "unravel_index",
    "zeros_initializer",
]
__all__ += _casting.__all__
__all__ += _dtypes.__all__
__all__ += _scopes.__all__
__all__ += _shapes.__all__
__all__ += _arrays.__all__
__all__ += _creation.__all__
__all__ += _custom.__all__
__all__ += _indexing.__all__
__all__ += _control.__all__
__all__ += _without_effect.__all__

# Errors of all functions and classes name the bad argument.


def __getattr__(name: str) -> Any:
    """Names of TensorFlow 1 are found too; for others the error suggests the nearest names."""
    if not name.startswith("_") and (name in compat.v1.__all__ or name in _RENAMED):
        return getattr(compat.v1, name)
    raise AttributeError(_missing("tf", name, globals()), name=name)


_check_exports(globals(), __all__)
