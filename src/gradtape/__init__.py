"""gradtape: exact gradients, Jacobians and Hessians of NumPy-style Python, compiled for CPUs."""

import typing as _typing
from importlib import import_module as _import_module
from math import e as e, inf as inf, nan as nan, pi as pi

from gradtape import errors as errors, pytree as pytree
from gradtape.argument_checks import check_exports as _check_exports
from gradtape.caches import caches as caches
from gradtape.dtypes import *
from gradtape.interop import numpy_protocols as numpy_protocols
from gradtape.ops.arrays.creation import (
    arange as arange,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    full as full,
    full_like as full_like,
    linspace as linspace,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from gradtape.ops.arrays.indexing import (
    gather as gather,
    one_hot as one_hot,
    scatter_add as scatter_add,
    scatter_max as scatter_max,
    scatter_set as scatter_set,
    take as take,
    take_along_axis as take_along_axis,
)
from gradtape.ops.arrays.joining import (
    concat as concat,
    diff as diff,
    meshgrid as meshgrid,
    split as split,
    stack as stack,
    unstack as unstack,
)
from gradtape.ops.arrays.movement import (
    broadcast_arrays as broadcast_arrays,
    broadcast_to as broadcast_to,
    expand_dims as expand_dims,
    flip as flip,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    reshape as reshape,
    roll as roll,
    squeeze as squeeze,
    swapaxes as swapaxes,
)
from gradtape.ops.arrays.padding import pad as pad, repeat as repeat, tile as tile
from gradtape.ops.arrays.sorting import (
    argsort as argsort,
    isin as isin,
    nonzero as nonzero,
    searchsorted as searchsorted,
    sort as sort,
    top_k as top_k,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
)
from gradtape.ops.arrays.triangles import (
    diag as diag,
    diagonal as diagonal,
    tril as tril,
    triu as triu,
)
from gradtape.ops.elementwise.arithmetic import (
    add as add,
    atan2 as atan2,
    bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    clip as clip,
    copysign as copysign,
    divide as divide,
    equal as equal,
    floor_divide as floor_divide,
    greater as greater,
    greater_equal as greater_equal,
    hypot as hypot,
    identity as identity,
    less as less,
    less_equal as less_equal,
    logaddexp as logaddexp,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    nextafter as nextafter,
    not_equal as not_equal,
    pow as pow,
    remainder as remainder,
    stop_gradient as stop_gradient,
    subtract as subtract,
    where as where,
)
from gradtape.ops.elementwise.bessel import i0 as i0, i1 as i1
from gradtape.ops.elementwise.complexes import (
    abs as abs,
    angle as angle,
    conj as conj,
    imag as imag,
    real as real,
    sign as sign,
)
from gradtape.ops.elementwise.special import (
    digamma as digamma,
    erf as erf,
    erfc as erfc,
    erfcinv as erfcinv,
    erfinv as erfinv,
    lgamma as lgamma,
    log_sigmoid as log_sigmoid,
    multiply_no_nan as multiply_no_nan,
    ndtr as ndtr,
    ndtri as ndtri,
    polygamma as polygamma,
    sinc as sinc,
    xlogy as xlogy,
)
from gradtape.ops.elementwise.unary import (
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atanh as atanh,
    bitwise_invert as bitwise_invert,
    cbrt as cbrt,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    logical_not as logical_not,
    negative as negative,
    positive as positive,
    reciprocal as reciprocal,
    relu as relu,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    signbit as signbit,
    sin as sin,
    sinh as sinh,
    softplus as softplus,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from gradtape.ops.families.casting import cast as cast
from gradtape.ops.families.signatures import show_signatures as _show_signatures
from gradtape.ops.matrices.contraction import matmul as matmul
from gradtape.ops.matrices.einsum import einsum as einsum
from gradtape.ops.matrices.products import (
    dot as dot,
    inner as inner,
    kron as kron,
    outer as outer,
    tensordot as tensordot,
    vecdot as vecdot,
)
from gradtape.ops.reductions.reduction import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    logsumexp as logsumexp,
    max as max,
    mean as mean,
    median as median,
    min as min,
    norm as norm,
    prod as prod,
    quantile as quantile,
    std as std,
    sum as sum,
    var as var,
)
from gradtape.pytree import register_pytree as register_pytree
from gradtape.runtime.buffer_pool import empty_cache as empty_cache
from gradtape.runtime.counters import counters as counters
from gradtape.runtime.flush import clear_plans as clear_plans
from gradtape.runtime.tiers import wait_for_compiler as wait_for_compiler
from gradtape.suggestions import missing_name as _missing_name
from gradtape.tape.gradient_tape import GradientTape as GradientTape, gradients as gradients
from gradtape.tensor.array_api import *
from gradtape.tensor.modes import *
from gradtape.tensor.row_sparse import RowSparse as RowSparse
from gradtape.tensor.tensor import *
from gradtape.tensor.variable import Variable as Variable
from gradtape.tools.tracebacks import install as _install_tracebacks
from gradtape.version import __version__ as __version__

__array_api_version__ = "2024.12"
newaxis = None


# Packages and names that are imported when they are first named.
_PACKAGES = (
    "distributed",
    "export",
    "extend",
    "fft",
    "libraries",
    "linalg",
    "nn",
    "optimizers",
    "random",
    "testing",
    "tf",
    "training",
    "typing",
)
_LATER: dict[str, tuple[str, ...]] = {
    "autodiff.sparse.choose_colouring": ("colour",),
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
    "jit.function": ("Function", "function", "set_recorder"),
    "jit.prepared": ("prepare_hessian", "prepare_jacobian"),
    "ops.matrices.windows": ("avg_pool", "conv", "max_pool"),
    "progress": ("set_progress",),
    "tape.checkpoint": ("checkpoint", "checkpoint_name", "save_any_except", "save_only"),
    "tape.custom_derivatives": ("custom_gradient", "custom_jvp", "grad_pass_through"),
    "tape.forward_accumulator": ("ForwardAccumulator",),
    "tape.grad_vjp_jvp": ("grad", "jvp", "value_and_grad", "vjp"),
    "tape.jacobian_hessian": ("hessian", "hvp", "jacfwd", "jacobian", "jacrev", "vhp"),
    "tape.saved_for_backward": ("saved_for_backward",),
    "tape.sparsity_patterns": ("hessian_pattern", "sparsity_pattern", "spy"),
    "tools.debug_nans": ("debug_nans",),
    "tools.plans_and_kernels": ("kernels_of", "plan_of", "show_config"),
    "tools.profiler.profile": ("Profile", "profile"),
    "training": ("storage",),
    "training.fit": ("fit",),
    "training.storage.checkpointer": ("Checkpointer",),
    "training.storage.save_load": ("load", "save"),
}
_INTERNAL = (
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
)
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}

__all__ = sorted(
    {name for name in globals() if not name.startswith("_")}.difference(_INTERNAL)
    | {"__array_api_version__", "__array_namespace_info__", "__version__", *_PACKAGES, *_MODULE_OF}
)

if _typing.TYPE_CHECKING:
    from gradtape import (
        distributed as distributed,
        export as export,
        extend as extend,
        fft as fft,
        libraries as libraries,
        linalg as linalg,
        nn as nn,
        optimizers as optimizers,
        random as random,
        testing as testing,
        tf as tf,
        training as training,
        typing as typing,
    )
    from gradtape.autodiff.sparse.choose_colouring import colour as colour
    from gradtape.compiler.thread_team import (
        get_num_threads as get_num_threads,
        set_num_threads as set_num_threads,
    )
    from gradtape.control.associative_scan import associative_scan as associative_scan
    from gradtape.control.branches import cond as cond, switch as switch
    from gradtape.control.callbacks import (
        numpy_function as numpy_function,
        pure_callback as pure_callback,
        py_function as py_function,
    )
    from gradtape.control.custom_vmap import custom_vmap as custom_vmap
    from gradtape.control.loops import fori_loop as fori_loop, map as map, while_loop as while_loop
    from gradtape.control.printing import print as print
    from gradtape.control.scan import scan as scan
    from gradtape.control.vmap import vectorized_map as vectorized_map, vmap as vmap
    from gradtape.interop.solve.implicit import (
        fixed_point as fixed_point,
        minimize as minimize,
        root as root,
    )
    from gradtape.interop.solve.linear_operators import (
        hessian_operator as hessian_operator,
        linear_operator as linear_operator,
        linearize as linearize,
    )
    from gradtape.interop.solve.scipy_bridges import (
        objective as objective,
        ode as ode,
        residuals as residuals,
    )
    from gradtape.jit.function import (
        Function as Function,
        function as function,
        set_recorder as set_recorder,
    )
    from gradtape.jit.prepared import (
        prepare_hessian as prepare_hessian,
        prepare_jacobian as prepare_jacobian,
    )
    from gradtape.ops.matrices.windows import (
        avg_pool as avg_pool,
        conv as conv,
        max_pool as max_pool,
    )
    from gradtape.progress import set_progress as set_progress
    from gradtape.tape.checkpoint import (
        checkpoint as checkpoint,
        checkpoint_name as checkpoint_name,
        save_any_except as save_any_except,
        save_only as save_only,
    )
    from gradtape.tape.custom_derivatives import *
    from gradtape.tape.forward_accumulator import ForwardAccumulator as ForwardAccumulator
    from gradtape.tape.grad_vjp_jvp import *
    from gradtape.tape.jacobian_hessian import *
    from gradtape.tape.saved_for_backward import saved_for_backward as saved_for_backward
    from gradtape.tape.sparsity_patterns import *
    from gradtape.tools.debug_nans import debug_nans as debug_nans
    from gradtape.tools.plans_and_kernels import (
        kernels_of as kernels_of,
        plan_of as plan_of,
        show_config as show_config,
    )
    from gradtape.tools.profiler.profile import Profile as Profile, profile as profile
    from gradtape.training import storage as storage
    from gradtape.training.fit import fit as fit
    from gradtape.training.storage.checkpointer import Checkpointer as Checkpointer
    from gradtape.training.storage.save_load import load as load, save as save
else:

    def __getattr__(name: str) -> object:
        """Import what is first named now, or say which of our names is meant."""
        if name in _PACKAGES:
            return _import_module(f"gradtape.{name}")
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
_show_signatures(
    globals(),
    "all any argmax argmin argsort asarray concat count_nonzero cumulative_prod "
    "cumulative_sum diag diagonal diff empty_like flip full_like max mean min ones_like prod "
    "repeat roll searchsorted sort split stack std sum take take_along_axis tensordot tril "
    "triu unstack var vecdot zeros_like",
)

_install_tracebacks()

# Importing a submodule binds its name in its package. Internal ones are unbound again, so that
# gt.tensor is an error that helps; import statements find them in sys.modules. All are imported
# first, because a first import later on would bind the name anew. `evaluate` is a function here.
for _name in _INTERNAL:
    _import_module(f"gradtape.{_name}")
    globals().pop(_name, None)
