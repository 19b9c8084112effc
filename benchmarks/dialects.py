"""Dialects: one set of names for the functions of every library, so that a formula is written once.

A formula takes a dialect and tensors, `formula(xp, x, y)`, and uses operators, indexing and the
names in `NAMES`. The dialect of NumPy and SciPy computes the reference answers. Four libraries
have the names of `array_functions` too.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import array_functions
from benchmarks.array_functions import python_scan

Formula = Callable[..., Any]
NAMES = (
    *("exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "sign", "sigmoid", "relu", "ndtr"),
    *("sum", "mean", "var", "max", "min", "logsumexp", "where", "einsum", "sort"),
    *("stack", "concat", "reshape", "transpose", "take", "zeros", "array", "scan"),
    *("cholesky", "triangular_solve", "solve", "inv", "slogdet", "eigh", "svdvals", "svd"),
    *("convolve", "pool", "gradient", "jacobian", "blocks", "curvature"),
)


def dialect(library: str) -> Any:
    """Import the library and return its dialect."""
    return DIALECTS[library]()


def numpy() -> Any:
    import scipy.linalg
    import scipy.special

    def triangular_solve(a: Any, b: Any, transposed: bool = False) -> Any:
        return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b)

    def convolve(x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
        return np.einsum("bxycij,ijco->bxyo", windows, w, optimize=True)

    return SimpleNamespace(
        **_same_names(np),
        sigmoid=scipy.special.expit,
        relu=lambda x: np.maximum(x, 0),
        ndtr=scipy.special.ndtr,
        logsumexp=scipy.special.logsumexp,
        einsum=lambda text, *arrays: np.einsum(text, *arrays, optimize=True),
        stack=np.stack,
        concat=np.concatenate,
        take=lambda x, indices: x[indices],
        zeros=np.zeros,
        array=np.asarray,
        scan=python_scan(np.stack),
        triangular_solve=triangular_solve,
        **_same_linalg(np.linalg),
        svdvals=lambda x: np.linalg.svd(x, compute_uv=False),
        svd=lambda x: np.linalg.svd(x, full_matrices=False),
        convolve=convolve,
        pool=lambda x: _halves(x).max((2, 4)),
        index_update=_assigned,
        **array_functions.numpy(),
    )


def gradtape() -> Any:
    import gradtape as gt

    def jacobian(function: Formula, by: int, forward: bool) -> Formula:
        return gt.jacobian(function, by)

    def curvature(function: Formula) -> Formula:
        return lambda x: gt.jvp(gt.grad(function), (x,), (gt.ones_like(x),))

    return SimpleNamespace(
        **{name: getattr(gt, name) for name in _EVERYWHERE},
        **{name: getattr(gt, name) for name in ("sigmoid", "relu", "ndtr", "logsumexp", "einsum")},
        transpose=gt.permute_dims,
        stack=lambda parts, axis=0: gt.stack(parts, axis=axis),
        concat=lambda parts, axis=0: gt.concat(parts, axis=axis),
        take=lambda x, indices: gt.take(x, indices, axis=0),
        zeros=gt.zeros,
        array=gt.asarray,
        scan=gt.scan,
        triangular_solve=lambda a, b, transposed=False: gt.linalg.triangular_solve(
            gt.matrix_transpose(a) if transposed else a, b, lower=not transposed
        ),
        **_same_linalg(gt.linalg),
        svdvals=gt.linalg.svdvals,
        svd=lambda x: gt.linalg.svd(x, full_matrices=False),
        convolve=lambda x, w: gt.tf.nn.conv2d(x, w, 1, "VALID"),
        pool=lambda x: gt.tf.nn.max_pool2d(x, 2, 2, "VALID"),
        gradient=gt.grad,
        jacobian=jacobian,
        blocks=lambda function: gt.vmap(gt.jacobian(function)),
        curvature=curvature,
        index_update=_assigned,
        **array_functions.gradtape(),
    )


def jax() -> Any:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp

    return SimpleNamespace(
        **_same_names(jnp),
        sigmoid=jax.nn.sigmoid,
        relu=jax.nn.relu,
        ndtr=jsp.special.ndtr,
        logsumexp=jsp.special.logsumexp,
        einsum=jnp.einsum,
        stack=jnp.stack,
        concat=jnp.concatenate,
        take=lambda x, indices: x[indices],
        zeros=jnp.zeros,
        array=jnp.asarray,
        scan=jax.lax.scan,
        triangular_solve=lambda a, b, transposed=False: jsp.linalg.solve_triangular(
            a, b, trans=int(transposed), lower=True
        ),
        **_same_linalg(jnp.linalg),
        svdvals=lambda x: jnp.linalg.svd(x, compute_uv=False),
        svd=lambda x: jnp.linalg.svd(x, full_matrices=False),
        convolve=lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        pool=lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        ),
        gradient=jax.grad,
        jacobian=lambda function, by, forward: (jax.jacfwd if forward else jax.jacrev)(
            function, by
        ),
        blocks=lambda function: jax.vmap(jax.jacrev(function)),
        curvature=lambda function: lambda x: jax.jvp(jax.grad(function), (x,), (jnp.ones_like(x),)),
        index_update=lambda x, place, value: x.at[place].set(value),
        **array_functions.jax(),
    )


def torch() -> Any:
    import torch

    def over(function: Any, axis: Any, x: Any, keepdims: bool = False) -> Any:
        return function(x) if axis is None else function(x, axis, keepdims)

    def take(x: Any, indices: Any) -> Any:
        return x[indices if isinstance(indices, torch.Tensor) else torch.as_tensor(indices)]

    def gradient(function: Formula, by: Any) -> Formula:
        def call(*given: Any) -> Any:
            several = isinstance(by, tuple)
            sources = [given[place] for place in (by if several else (by,))]
            found = torch.autograd.grad(function(*given), sources)
            return found if several else found[0]

        return call

    def curvature(function: Formula) -> Formula:
        def call(x: Any) -> Any:
            (first,) = torch.autograd.grad(function(x), x, create_graph=True)
            return first.detach(), torch.autograd.grad(first.sum(), x)[0]

        return call

    return SimpleNamespace(
        **{name: getattr(torch, name) for name in _EVERYWHERE if name not in _REDUCTIONS},
        sum=lambda x, axis=None, keepdims=False: over(torch.sum, axis, x, keepdims),
        mean=lambda x, axis=None, keepdims=False: over(torch.mean, axis, x, keepdims),
        var=lambda x, axis=None: torch.var(x, axis, correction=0),
        max=lambda x, axis=None, keepdims=False: (
            torch.max(x) if axis is None else torch.amax(x, axis, keepdims)
        ),
        min=lambda x, axis=None, keepdims=False: (
            torch.min(x) if axis is None else torch.amin(x, axis, keepdims)
        ),
        sort=lambda x: torch.sort(x).values,
        transpose=torch.permute,
        sigmoid=torch.sigmoid,
        relu=torch.relu,
        ndtr=torch.special.ndtr,
        logsumexp=lambda x, axis=None, keepdims=False: torch.logsumexp(
            x, 0 if axis is None else axis, keepdims
        ),
        einsum=torch.einsum,
        stack=torch.stack,
        concat=torch.cat,
        take=take,
        zeros=lambda shape, dtype: torch.zeros(shape, dtype=getattr(torch, dtype)),
        array=torch.as_tensor,
        scan=python_scan(torch.stack),
        triangular_solve=lambda a, b, transposed=False: torch.linalg.solve_triangular(
            a.mT if transposed else a, b, upper=transposed
        ),
        **_same_linalg(torch.linalg),
        svdvals=torch.linalg.svdvals,
        svd=lambda x: torch.linalg.svd(x, full_matrices=False),
        # torch keeps channels first; the last axes are moved as its users would.
        convolve=lambda x, w: torch.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        ).permute(0, 2, 3, 1),
        pool=lambda x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1),
        gradient=gradient,
        jacobian=lambda function, by, forward: (
            torch.func.jacfwd if forward else torch.func.jacrev
        )(function, by),
        blocks=lambda function: torch.func.vmap(torch.func.jacrev(function)),
        curvature=curvature,
        index_update=_assigned,
        **array_functions.torch(),
    )


def _assigned(x: Any, place: Any, value: Any) -> Any:
    """`x` with other values at a place; JAX, which has no assignment, gives a new array."""
    x[place] = value
    return x


def tensorflow() -> Any:
    import tensorflow as tf

    def differentiated(function: Formula, by: Any, ask: str) -> Formula:
        def call(*given: Any) -> Any:
            several = isinstance(by, tuple)
            sources = [given[place] for place in (by if several else (by,))]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                target = function(*given)
            found = getattr(tape, ask)(target, sources, unconnected_gradients="zero")
            return found if several else found[0]

        return call

    return SimpleNamespace(
        **{name: getattr(tf, name) for name in _EVERYWHERE if hasattr(tf, name)},
        log=tf.math.log,
        sum=tf.reduce_sum,
        mean=tf.reduce_mean,
        var=tf.math.reduce_variance,
        max=tf.reduce_max,
        min=tf.reduce_min,
        sigmoid=tf.sigmoid,
        relu=tf.nn.relu,
        ndtr=lambda x: 0.5 * tf.math.erfc(-x * 0.5**0.5),
        logsumexp=tf.reduce_logsumexp,
        einsum=tf.einsum,
        stack=tf.stack,
        concat=lambda parts, axis=0: tf.concat(parts, axis),
        transpose=tf.transpose,
        take=tf.gather,
        zeros=tf.zeros,
        array=tf.convert_to_tensor,
        triangular_solve=lambda a, b, transposed=False: tf.linalg.triangular_solve(
            a, b, adjoint=transposed
        ),
        **_same_linalg(tf.linalg),
        svdvals=lambda x: tf.linalg.svd(x, compute_uv=False),
        svd=_tensorflow_svd(tf),
        convolve=lambda x, w: tf.nn.conv2d(x, w, 1, "VALID"),
        pool=lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
        gradient=lambda function, by: differentiated(function, by, "gradient"),
        jacobian=lambda function, by, forward: differentiated(function, by, "jacobian"),
    )


def autograd() -> Any:
    import autograd
    import autograd.numpy as anp
    import autograd.scipy.special as special
    from autograd.scipy.stats import norm

    return SimpleNamespace(
        **_same_names(anp),
        sigmoid=special.expit,
        relu=lambda x: anp.maximum(x, 0),
        ndtr=norm.cdf,
        logsumexp=special.logsumexp,
        einsum=anp.einsum,
        stack=anp.stack,
        concat=anp.concatenate,
        take=lambda x, indices: x[indices],
        zeros=anp.zeros,
        array=lambda x: x,
        scan=python_scan(anp.stack),
        **_same_linalg(anp.linalg),
        gradient=autograd.grad,
        jacobian=lambda function, by, forward: autograd.jacobian(function, by),
        value_and_gradient=autograd.value_and_grad,
        lgamma=special.gammaln,
        maximum=anp.maximum,
        index_update=_assigned,
    )


_REDUCTIONS = ("sum", "mean", "var", "max", "min", "sort")
_EVERYWHERE = (
    *("exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "sign", "where", "reshape"),
    *("sum", "mean", "var", "max", "min", "sort"),
)


def _same_names(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in (*_EVERYWHERE, "transpose")}


def _same_linalg(module: Any) -> dict[str, Any]:
    names = ("cholesky", "solve", "inv", "slogdet", "eigh")
    return {name: getattr(module, name) for name in names if hasattr(module, name)}


def _tensorflow_svd(tf: Any) -> Formula:
    def svd(x: Any) -> Any:
        s, u, v = tf.linalg.svd(x)
        return u, s, tf.linalg.adjoint(v)

    return svd


def _halves(x: Any) -> Any:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels)


DIALECTS: dict[str, Callable[[], Any]] = {
    build.__name__: build for build in (numpy, gradtape, jax, torch, tensorflow, autograd)
}
