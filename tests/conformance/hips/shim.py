"""HIPS autograd's names on gradtape: what its own tests import, with derivatives by gradtape.

A checkout gives the parts that do not differentiate: vector spaces, gradient checks, `grad` and its
kin, which are written with `make_vjp` and `make_jvp`. Those two, `primitive` and the namespaces of
NumPy and of `scipy.special` are ours: NumPy's and SciPy's own functions, called on tensors. The
checkout declares other functions of SciPy with `primitive`, which is a `gt.custom_gradient` here.
"""

import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.special

import gradtape as gt
from gradtape.pytree import map_leaves
from gradtape.tensor.operators import Operators
from gradtape.trace.recording import state

# Their functions take tensors as they are.
CONTAINERS = ("autograd.builtins", "autograd.core")


def install(checkout: Path) -> None:
    """Let `import autograd` find the names of gradtape, and the checkout for the rest."""
    folder = checkout / "autograd"
    package = _module("autograd", folder)
    tracer = importlib.import_module("autograd.tracer")
    tracer.isbox, tracer.getval, tracer.primitive = is_tensor, value_of, primitive
    core = importlib.import_module("autograd.core")
    core.make_vjp, core.make_jvp = make_vjp, make_jvp
    core.vspace = functools.partial(_space, core)
    _install_numpy(folder / "numpy")
    _install_scipy(folder / "scipy")
    start = folder / "__init__.py"
    exec(compile(start.read_text(), start, "exec"), vars(package))
    spaces = importlib.import_module("autograd.numpy.numpy_vspaces")
    core.VSpace.register(bool, spaces.ArrayVSpace)


def _module(name: str, folder: Path | None = None, names: dict[str, object] | None = None):
    module = ModuleType(name)
    parent, _, part = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], part, module)
    vars(module).update(names or {})
    vars(module).update(__name__=name, __path__=[str(folder)] if folder else [])
    sys.modules[name] = module
    return module


def is_tensor(x: object) -> bool:
    return isinstance(x, Operators)


def value_of(x: object) -> object:
    return x.numpy()[()] if isinstance(x, Operators) else x


def _space(core: ModuleType, value: object) -> object:
    # Results with names, such as EighResult, are compared as tuples.
    value = tuple(value) if isinstance(value, tuple) else value_of(value)
    try:
        return core.VSpace.mappings[type(value)](value)
    except KeyError:
        raise TypeError(f"no vector space for {type(value).__name__}") from None


# Derivatives. Gradients here are conjugates of those in autograd.


def make_vjp(f, x):
    value, pull = gt.vjp(f, x)
    return lambda g: _left(_conjugate(pull(_conjugate(g))[0])), _left(value)


def make_jvp(f, x):
    return lambda v: tuple(map(_left, gt.jvp(f, (x,), (v,))))


def _left(tree):
    """Results as arrays, unless an outer derivative needs the tensors."""
    return tree if state.tapes else map_leaves(value_of, tree)


def _conjugate(tree):
    return map_leaves(lambda x: np.conj(x) if np.iscomplexobj(x) else x, tree)


def primitive(f):
    """A function of arrays whose derivative is declared with `defvjp`: a `gt.custom_gradient`."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        places = tuple(at for at, x in enumerate(args) if is_tensor(x))
        if not places or getattr(f, "__module__", "") in CONTAINERS:
            return f(*args, **kwargs)
        rule = sys.modules["autograd.core"].primitive_vjps.get(call)
        if rule is None:
            raise NotImplementedError(f"{f.__name__} has no derivative")

        @gt.custom_gradient
        def recorded(*operands):
            filled = list(args)
            for at, x in zip(places, operands, strict=True):
                filled[at] = x
            y = gt.asarray(f(*map(value_of, filled), **kwargs))
            # The rule gets the value as a function of the operands, for second derivatives.
            again = functools.partial(call, *filled, **kwargs)
            return y, lambda dy: tuple(rule(places, again(), tuple(filled), kwargs)(dy))

        return recorded(*[args[at] for at in places])

    return call


# Namespaces.


def _install_numpy(folder: Path) -> None:
    names = {name: getattr(np, name) for name in dir(np)}
    names |= {"array": array, "stack": stack, "concatenate_args": concatenate_args}
    _module("autograd.numpy", folder, names)
    for part in ("linalg", "fft", "random"):
        theirs = getattr(np, part)
        own = {name: getattr(theirs, name) for name in dir(theirs)}
        _module(f"autograd.numpy.{part}", None, own)


def _install_scipy(folder: Path) -> None:
    names = {name: getattr(scipy.special, name) for name in dir(scipy.special)}
    # SciPy writes these in Python, so that they cannot be recorded; we have them.
    names |= {"polygamma": gt.polygamma, "logsumexp": logsumexp, "multigammaln": multigammaln}
    # What SciPy has and we have not is declared in the checkout, by `primitive` and `defvjp`.
    _module("autograd.scipy", folder)
    _module("autograd.scipy.special", None, names)


def _holds_tensor(x: object) -> bool:
    return is_tensor(x) or (isinstance(x, (list, tuple)) and any(map(_holds_tensor, x)))


def array(a, dtype=None, *, ndmin=0, **options):
    """`np.array`; of tensors, `gt.asarray`, because NumPy's would lose their derivatives."""
    if not _holds_tensor(a):
        return np.array(a, dtype, ndmin=ndmin, **options)
    made = gt.asarray(a) if dtype is None else gt.cast(gt.asarray(a), dtype)
    return gt.reshape(made, (1,) * max(ndmin - made.ndim, 0) + made.shape)


def logsumexp(a, axis=None, b=1.0, keepdims=False):
    return gt.logsumexp(a + np.log(b), axis=axis, keepdims=keepdims)


def multigammaln(a, d):
    terms = sum(gt.lgamma(a - 0.5 * n) for n in range(d))
    return terms + 0.25 * d * (d - 1) * np.log(np.pi)


def stack(arrays, axis=0):
    return np.stack(list(arrays), axis)


def concatenate_args(axis, *arrays):
    return np.concatenate(arrays, axis)
