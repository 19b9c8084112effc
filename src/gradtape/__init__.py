"""gradtape: automatic differentiation on CPUs, dynamic as a tape, fast as a static graph."""

import typing as _typing
from importlib import import_module as _import_module
from math import e, inf, nan, pi

from gradtape import errors, pytree
from gradtape.argument_checks import check_exports as _check_exports
from gradtape.caches import caches
from gradtape.dtypes import (
    bool,
    complex64,
    complex128,
    default_dtype,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from gradtape.interop import numpy_protocols
from gradtape.ops.arrays.creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from gradtape.ops.arrays.indexing import (
    gather,
    one_hot,
    scatter_add,
    scatter_max,
    scatter_set,
    take,
    take_along_axis,
)
from gradtape.ops.arrays.joining import concat, diff, meshgrid, split, stack, unstack
from gradtape.ops.arrays.movement import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    roll,
    squeeze,
    swapaxes,
)
from gradtape.ops.arrays.padding import pad, repeat, tile
from gradtape.ops.arrays.sorting import (
    argsort,
    isin,
    nonzero,
    searchsorted,
    sort,
    top_k,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from gradtape.ops.arrays.triangles import diag, diagonal, tril, triu
from gradtape.ops.elementwise.arithmetic import (
    add,
    atan2,
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    clip,
    copysign,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    identity,
    less,
    less_equal,
    logaddexp,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    nextafter,
    not_equal,
    pow,
    remainder,
    stop_gradient,
    subtract,
    where,
)
from gradtape.ops.elementwise.bessel import i0, i1
from gradtape.ops.elementwise.complexes import abs, angle, conj, imag, real, sign
from gradtape.ops.elementwise.special import (
    digamma,
    erf,
    erfc,
    erfcinv,
    erfinv,
    lgamma,
    log_sigmoid,
    multiply_no_nan,
    ndtr,
    ndtri,
    polygamma,
    sinc,
    xlogy,
)
from gradtape.ops.elementwise.unary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitwise_invert,
    cbrt,
    ceil,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    negative,
    positive,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    signbit,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    tan,
    tanh,
    trunc,
)
from gradtape.ops.families.casting import cast
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.matrices.einsum import einsum
from gradtape.ops.matrices.products import dot, inner, kron, outer, tensordot, vecdot
from gradtape.ops.reductions.reduction import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    logsumexp,
    max,
    mean,
    median,
    min,
    norm,
    prod,
    quantile,
    std,
    sum,
    var,
)
from gradtape.pytree import register_pytree
from gradtape.runtime.buffer_pool import empty_cache
from gradtape.runtime.counters import counters
from gradtape.runtime.plan_cache import clear_plans
from gradtape.runtime.tiers import wait_for_compiler
from gradtape.suggestions import missing_name as _missing_name
from gradtape.tape.gradient_tape import GradientTape, gradients
from gradtape.tensor.array_api import (
    __array_namespace_info__,
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from gradtape.tensor.modes import deterministic, eager, is_deterministic
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor, asarray, evaluate, from_dlpack, program_of
from gradtape.tensor.variable import Variable
from gradtape.version import __version__

__array_api_version__ = "2024.12"
newaxis = None

__all__ = [
    "ForwardAccumulator",
    "Function",
    "GradientTape",
    "Profile",
    "RowSparse",
    "Tensor",
    "Variable",
    "__array_api_version__",
    "__array_namespace_info__",
    "__version__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "associative_scan",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "caches",
    "can_cast",
    "cast",
    "cbrt",
    "ceil",
    "checkpoint",
    "checkpoint_name",
    "clear_plans",
    "clip",
    "complex64",
    "complex128",
    "concat",
    "cond",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "counters",
    "cumulative_prod",
    "cumulative_sum",
    "custom_gradient",
    "custom_jvp",
    "custom_vmap",
    "debug_nans",
    "default_dtype",
    "deterministic",
    "diag",
    "diagonal",
    "diff",
    "digamma",
    "divide",
    "dot",
    "e",
    "eager",
    "einsum",
    "empty",
    "empty_cache",
    "empty_like",
    "equal",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "errors",
    "evaluate",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "extend",
    "eye",
    "fft",
    "finfo",
    "fixed_point",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fori_loop",
    "from_dlpack",
    "full",
    "full_like",
    "function",
    "gather",
    "get_num_threads",
    "grad",
    "grad_pass_through",
    "gradients",
    "greater",
    "greater_equal",
    "hessian",
    "hessian_operator",
    "hessian_pattern",
    "hvp",
    "hypot",
    "i0",
    "i1",
    "identity",
    "iinfo",
    "imag",
    "inf",
    "inner",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_deterministic",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "kernels_of",
    "kron",
    "less",
    "less_equal",
    "lgamma",
    "linalg",
    "linear_operator",
    "linearize",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "map",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimize",
    "minimum",
    "moveaxis",
    "multiply",
    "multiply_no_nan",
    "nan",
    "ndtr",
    "ndtri",
    "negative",
    "newaxis",
    "nextafter",
    "nn",
    "nonzero",
    "norm",
    "not_equal",
    "numpy_function",
    "numpy_protocols",
    "objective",
    "ode",
    "one_hot",
    "ones",
    "ones_like",
    "optimizers",
    "outer",
    "pad",
    "permute_dims",
    "pi",
    "plan_of",
    "polygamma",
    "positive",
    "pow",
    "prepare_hessian",
    "prepare_jacobian",
    "print",
    "prod",
    "profile",
    "program_of",
    "pure_callback",
    "py_function",
    "pytree",
    "quantile",
    "random",
    "real",
    "reciprocal",
    "register_pytree",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "residuals",
    "result_type",
    "roll",
    "root",
    "round",
    "rsqrt",
    "save_any_except",
    "save_only",
    "saved_for_backward",
    "scan",
    "scatter_add",
    "scatter_max",
    "scatter_set",
    "searchsorted",
    "set_default_dtype",
    "set_num_threads",
    "set_progress",
    "set_recorder",
    "show_config",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "sort",
    "sparsity_pattern",
    "split",
    "spy",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "switch",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "testing",
    "tf",
    "tile",
    "top_k",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "value_and_grad",
    "var",
    "vecdot",
    "vectorized_map",
    "vhp",
    "vjp",
    "vmap",
    "wait_for_compiler",
    "where",
    "while_loop",
    "xlogy",
    "zeros",
    "zeros_like",
    # Saving and training.
    "Checkpointer",
    "distributed",
    "fit",
    "load",
    "save",
    "storage",
    "training",
]


# Names and packages that not everyone needs: they are imported when they are first named.
_PACKAGES = {
    **{
        name: f"gradtape.{name}"
        for name in (
            "distributed",
            "extend",
            "fft",
            "linalg",
            "nn",
            "optimizers",
            "random",
            "testing",
            "tf",
            "training",
        )
    },
    "storage": "gradtape.training.storage",
}
_LATER: dict[str, tuple[str, ...]] = {
    "control.associative_scan": ("associative_scan",),
    "control.branches": ("cond", "switch"),
    "control.callbacks": ("numpy_function", "pure_callback", "py_function"),
    "control.custom_vmap": ("custom_vmap",),
    "control.loops": ("fori_loop", "map", "while_loop"),
    "control.printing": ("print",),
    "control.scan": ("scan",),
    "control.vmap": ("vectorized_map", "vmap"),
    "compiler.thread_team": ("get_num_threads", "set_num_threads"),
    "interop.solve.implicit": ("fixed_point", "minimize", "root"),
    "interop.solve.linear_operators": ("hessian_operator", "linear_operator", "linearize"),
    "interop.solve.scipy_bridges": ("objective", "ode", "residuals"),
    "jit.function": ("Function", "function"),
    "jit.prepared": ("prepare_hessian", "prepare_jacobian"),
    "jit.recorder_switch": ("set_recorder",),
    "progress": ("set_progress",),
    "tape.checkpoint": ("checkpoint", "checkpoint_name", "save_any_except", "save_only"),
    "tape.custom_gradient": ("custom_gradient", "grad_pass_through"),
    "tape.custom_jvp": ("custom_jvp",),
    "tape.forward_accumulator": ("ForwardAccumulator",),
    "tape.grad_vjp_jvp": ("grad", "jvp", "value_and_grad", "vjp"),
    "tape.jacobian_hessian": ("hessian", "hvp", "jacfwd", "jacobian", "jacrev", "vhp"),
    "tape.saved_for_backward": ("saved_for_backward",),
    "tape.sparsity_patterns": ("hessian_pattern", "sparsity_pattern", "spy"),
    "tools.debug_nans": ("debug_nans",),
    "tools.plans_and_kernels": ("kernels_of", "plan_of", "show_config"),
    "tools.profiler.profile": ("Profile", "profile"),
    "training.fit": ("fit",),
    "training.storage.checkpointer": ("Checkpointer",),
    "training.storage.save_load": ("load", "save"),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}

if _typing.TYPE_CHECKING:
    from gradtape import (
        distributed,
        extend,
        fft,
        linalg,
        nn,
        optimizers,
        random,
        testing,
        tf,
        training,
    )
    from gradtape.compiler.thread_team import get_num_threads, set_num_threads
    from gradtape.control.associative_scan import associative_scan
    from gradtape.control.branches import cond, switch
    from gradtape.control.callbacks import numpy_function, pure_callback, py_function
    from gradtape.control.custom_vmap import custom_vmap
    from gradtape.control.loops import fori_loop, map, while_loop
    from gradtape.control.printing import print
    from gradtape.control.scan import scan
    from gradtape.control.vmap import vectorized_map, vmap
    from gradtape.interop.solve.implicit import fixed_point, minimize, root
    from gradtape.interop.solve.linear_operators import hessian_operator, linear_operator, linearize
    from gradtape.interop.solve.scipy_bridges import objective, ode, residuals
    from gradtape.jit.function import Function, function
    from gradtape.jit.prepared import prepare_hessian, prepare_jacobian
    from gradtape.jit.recorder_switch import set_recorder
    from gradtape.progress import set_progress
    from gradtape.tape.checkpoint import checkpoint, checkpoint_name, save_any_except, save_only
    from gradtape.tape.custom_gradient import custom_gradient, grad_pass_through
    from gradtape.tape.custom_jvp import custom_jvp
    from gradtape.tape.forward_accumulator import ForwardAccumulator
    from gradtape.tape.grad_vjp_jvp import grad, jvp, value_and_grad, vjp
    from gradtape.tape.jacobian_hessian import hessian, hvp, jacfwd, jacobian, jacrev, vhp
    from gradtape.tape.saved_for_backward import saved_for_backward
    from gradtape.tape.sparsity_patterns import hessian_pattern, sparsity_pattern, spy
    from gradtape.tools.debug_nans import debug_nans
    from gradtape.tools.plans_and_kernels import kernels_of, plan_of, show_config
    from gradtape.tools.profiler.profile import Profile, profile
    from gradtape.training import storage
    from gradtape.training.fit import fit
    from gradtape.training.storage.checkpointer import Checkpointer
    from gradtape.training.storage.save_load import load, save
else:

    def __getattr__(name: str) -> object:
        """Import what is first named now, or say which of our names is meant."""
        if name in _PACKAGES:
            return _import_module(_PACKAGES[name])
        if name in _MODULE_OF:
            globals()[name] = getattr(_import_module(f"gradtape.{_MODULE_OF[name]}"), name)
            if name != "Function":
                # Calls of functions are counted in nanoseconds.
                _check_exports(globals(), (name,))
            return globals()[name]
        raise AttributeError(_missing_name(name, __all__), name=name)

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


# Functions that programs call often check their own arguments, and are not wrapped.
_OFTEN_CALLED = (
    "gradtape.ops.arrays.indexing",
    "gradtape.ops.arrays.joining",
    "gradtape.ops.arrays.movement",
    "gradtape.ops.elementwise.",
    "gradtape.ops.families.",
    "gradtape.ops.matrices.contraction",
    "gradtape.ops.matrices.products",
    "gradtape.ops.reductions.",
    "gradtape.tape.gradient_tape",
    "gradtape.tensor.tensor",
    "gradtape.tensor.variable",
)
for _name in __all__:
    if not (getattr(globals().get(_name), "__module__", None) or "").startswith(_OFTEN_CALLED):
        _check_exports(globals(), (_name,))
_check_exports(globals(), ("from_dlpack", "gradients", "program_of"))

# Importing a submodule binds its name in its package. Internal ones are unbound again, so that
# gt.tensor is an error that helps; import statements find them in sys.modules. All are imported
# first, because a first import later on would bind the name anew. `evaluate` is a function here.
for _name in (
    "annotated_kinds",
    "argument_checks",
    "autodiff",
    "compiler",
    "concurrency",
    "config",
    "control",
    "dtypes",
    "interop",
    "ir",
    "jit",
    "logs",
    "ops",
    "progress",
    "records",
    "runtime",
    "suggestions",
    "tape",
    "tensor",
    "tools",
    "trace",
    "version",
):
    _import_module(f"gradtape.{_name}")
    if _name not in __all__:
        globals().pop(_name, None)
