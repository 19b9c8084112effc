"""Further names of the dialects of NumPy, gradtape, JAX and torch, for programs of scientists.

Loops are what each library's users write: `gt.scan` and `jax.lax.scan`, a Python loop in torch. A
`loop` is a Python loop in all but JAX, which would compile it for minutes.
Derivatives inside of a formula (`slope`, `jacobian`) are differences in NumPy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Function = Callable[..., Any]
STEP = 1e-3  # of differences of fourth order: truncation and rounding are both about 1e-12


def numpy() -> dict[str, Any]:
    import scipy.linalg
    import scipy.special as special

    def scatter_add(x: Any, indices: Any, values: Any) -> Any:
        found = np.array(x)
        np.add.at(found, indices, values)
        return found

    def top_k(x: Any, k: int) -> Any:
        order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(x, order, axis=-1), order

    def jacobian(function: Function, by: int = 0, forward: bool = True) -> Function:
        return lambda *given: np.moveaxis(_differences(function, by, given), 0, -1)

    return {
        **_shared(np),
        **{name: getattr(np, name) for name in ("logaddexp", "diag", "eye", "cross", "round")},
        **{name: getattr(np.fft, name) for name in ("rfft", "irfft")},
        "atan2": np.arctan2,
        "erf": special.erf,
        "lgamma": special.gammaln,
        "softplus": partial(np.logaddexp, 0.0),
        "softmax": special.softmax,
        "log_softmax": special.log_softmax,
        "cumsum": lambda x, axis=0: np.cumsum(x, axis=axis),
        "logcumsumexp": np.logaddexp.accumulate,
        "flip": np.flip,
        "ones": np.ones,
        "integers": lambda x: x.astype("int64"),
        "scatter_add": scatter_add,
        "segment_sum": lambda x, indices, count: scatter_add(
            np.zeros((count, *x.shape[1:]), x.dtype), indices, x
        ),
        "take_along_axis": np.take_along_axis,
        "argsort": partial(np.argsort, kind="stable"),
        "top_k": top_k,
        "searchsorted": np.searchsorted,
        "median": np.median,
        "norm": lambda x, axis=None: np.sqrt(np.sum(x * x, axis=axis)),
        "expm": scipy.linalg.expm,
        "loop": python_scan(np.stack),
        "fori_loop": _python_fori_loop,
        "while_loop": _python_while_loop,
        "stop_gradient": lambda x: x,
        "untracked": contextlib.nullcontext,
        "slope": lambda function: lambda x: _differences(function, 0, (x,)),
        "jacobian": jacobian,
        "strided": _strided,
        "transposed": _transposed,
    }


def gradtape() -> dict[str, Any]:
    import gradtape as gt

    def transposed(x: Any, w: Any, stride: int) -> Any:
        batch, height, width, _ = x.shape
        shape = (batch, height * stride, width * stride, w.shape[2])
        return gt.tf.nn.conv2d_transpose(x, w, shape, stride, "SAME")

    return {
        **_shared(gt),
        **{name: getattr(gt, name) for name in ("logaddexp", "atan2", "erf", "lgamma", "softplus")},
        **{name: getattr(gt, name) for name in ("diag", "eye", "round", "stop_gradient", "norm")},
        **{name: getattr(gt, name) for name in ("scatter_add", "take_along_axis", "argsort")},
        **{name: getattr(gt, name) for name in ("top_k", "searchsorted", "median", "ones")},
        **{name: getattr(gt, name) for name in ("fori_loop", "while_loop")},
        "integers": lambda x: gt.astype(x, gt.int64),
        "cross": gt.linalg.cross,
        "expm": gt.linalg.expm,
        "rfft": gt.fft.rfft,
        "irfft": gt.fft.irfft,
        "softmax": gt.nn.softmax,
        "log_softmax": gt.nn.log_softmax,
        "cumsum": lambda x, axis=0: gt.cumulative_sum(x, axis=axis),
        "logcumsumexp": lambda x: gt.associative_scan(gt.logaddexp, x),
        "flip": lambda x, axis: gt.flip(x, axis=axis),
        "segment_sum": lambda x, indices, count: gt.scatter_add(
            gt.zeros((count, *x.shape[1:]), dtype=x.dtype), indices, x
        ),
        "untracked": contextlib.nullcontext,
        "loop": python_scan(gt.stack),
        "slope": gt.grad,
        "value_and_gradient": gt.value_and_grad,
        "strided": lambda x, w, stride: gt.tf.nn.conv2d(x, w, stride, "SAME"),
        "transposed": transposed,
    }


def jax() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp

    layout = ("NHWC", "HWIO", "NHWC")
    return {
        **_shared(jnp),
        **{name: getattr(jnp, name) for name in ("logaddexp", "diag", "eye", "cross", "round")},
        **{name: getattr(jnp, name) for name in ("take_along_axis", "argsort", "median", "flip")},
        **{name: getattr(jnp.fft, name) for name in ("rfft", "irfft")},
        "searchsorted": jnp.searchsorted,
        "ones": jnp.ones,
        "integers": lambda x: x.astype(int),
        "atan2": jnp.arctan2,
        "erf": jsp.special.erf,
        "lgamma": jsp.special.gammaln,
        "softplus": jax.nn.softplus,
        "softmax": jax.nn.softmax,
        "log_softmax": jax.nn.log_softmax,
        "cumsum": lambda x, axis=0: jnp.cumsum(x, axis=axis),
        "logcumsumexp": jax.lax.cumlogsumexp,
        "scatter_add": lambda x, indices, values: x.at[indices].add(values),
        "segment_sum": jax.ops.segment_sum,
        "top_k": jax.lax.top_k,
        "norm": lambda x, axis=None: jnp.linalg.norm(x, axis=axis),
        "expm": jsp.linalg.expm,
        "loop": jax.lax.scan,
        "fori_loop": jax.lax.fori_loop,
        "while_loop": jax.lax.while_loop,
        "stop_gradient": jax.lax.stop_gradient,
        "untracked": contextlib.nullcontext,
        "slope": jax.grad,
        "value_and_gradient": jax.value_and_grad,
        "strided": lambda x, w, stride: jax.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=layout
        ),
        "transposed": lambda x, w, stride: jax.lax.conv_transpose(
            x, w, (stride, stride), "SAME", dimension_numbers=layout, transpose_kernel=True
        ),
    }


def torch() -> dict[str, Any]:
    import torch

    def slope(function: Function) -> Function:
        def call(x: Any) -> Any:
            x = x.detach().requires_grad_()
            return torch.autograd.grad(function(x), x)[0]

        return call

    def value_and_gradient(function: Function, by: tuple[int, ...]) -> Function:
        def call(*given: Any) -> Any:
            loss = function(*given)
            return loss.detach(), torch.autograd.grad(loss, [given[place] for place in by])

        return call

    def typed(function: Function) -> Function:
        return lambda *shape, dtype="float64": function(*shape, dtype=getattr(torch, dtype))

    functional = torch.nn.functional
    return {
        **{name: getattr(torch, name) for name in ("maximum", "minimum", "clip", "floor")},
        **{name: getattr(torch, name) for name in ("log1p", "expm1", "outer", "tril")},
        **{name: getattr(torch, name) for name in ("square", "logaddexp", "atan2", "erf")},
        **{name: getattr(torch, name) for name in ("lgamma", "diag", "round", "argsort")},
        **{name: getattr(torch, name) for name in ("softmax", "log_softmax", "searchsorted")},
        **{name: getattr(torch, name) for name in ("argmax", "argmin", "zeros_like", "ones_like")},
        **{name: getattr(torch.fft, name) for name in ("rfft", "irfft")},
        "eye": typed(torch.eye),
        "arange": typed(torch.arange),
        "ones": typed(torch.ones),
        "integers": lambda x: x.long(),
        "roll": lambda x, shift, axis: torch.roll(x, shift, axis),
        "flip": lambda x, axis: torch.flip(x, (axis,)),
        "softplus": functional.softplus,
        "cumsum": lambda x, axis=0: torch.cumsum(x, axis),
        "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
        "scatter_add": lambda x, indices, values: x.index_add(0, indices, values),
        "segment_sum": lambda x, indices, count: torch.zeros(
            (count, *x.shape[1:]), dtype=x.dtype
        ).index_add(0, indices, x),
        "take_along_axis": lambda x, indices, axis: torch.take_along_dim(x, indices, axis),
        "top_k": lambda x, k: torch.topk(x, k),
        # torch.median is the lower of two middle elements.
        "median": lambda x, axis=None: torch.quantile(x, 0.5, axis),
        "cross": torch.linalg.cross,
        "norm": lambda x, axis=None: torch.linalg.vector_norm(x, dim=axis),
        "expm": torch.matrix_exp,
        "loop": python_scan(torch.stack),
        "fori_loop": _python_fori_loop,
        "while_loop": _python_while_loop,
        "stop_gradient": lambda x: x.detach(),
        "untracked": torch.no_grad,
        "slope": slope,
        "value_and_gradient": value_and_gradient,
        # torch keeps channels first; the last axes are moved as its users would.
        "strided": lambda x, w, stride: functional.conv2d(
            x.permute(0, 3, 1, 2),
            w.permute(3, 2, 0, 1),
            stride=stride,
            padding=(w.shape[0] - stride) // 2,
        ).permute(0, 2, 3, 1),
        "transposed": lambda x, w, stride: functional.conv_transpose2d(
            x.permute(0, 3, 1, 2),
            w.permute(3, 2, 0, 1),
            stride=stride,
            padding=(w.shape[0] - stride) // 2,
        ).permute(0, 2, 3, 1),
    }


def python_scan(stack: Callable[[list[Any]], Any]) -> Function:
    """`scan` as a Python loop, for libraries that have no other."""

    def scan(
        step: Function, carry: Any, xs: Any, length: int | None = None, reverse: bool = False
    ) -> Any:
        if xs is None:
            given: list[Any] = [None] * (length or 0)
        else:
            given = list(zip(*xs, strict=True)) if isinstance(xs, tuple) else list(xs)
        found = []
        for x in reversed(given) if reverse else given:
            carry, y = step(carry, x)
            found.append(y)
        if reverse:
            found.reverse()
        if isinstance(found[0], tuple):
            return carry, tuple(stack(list(part)) for part in zip(*found, strict=True))
        return carry, None if found[0] is None else stack(found)

    return scan


def _shared(module: Any) -> dict[str, Any]:
    names = (
        *("maximum", "minimum", "clip", "floor", "log1p", "expm1", "square", "argmax", "argmin"),
        *("outer", "tril", "arange", "roll", "zeros_like", "ones_like"),
    )
    return {name: getattr(module, name) for name in names}


def _python_fori_loop(lower: int, upper: int, body: Function, carry: Any) -> Any:
    for place in range(lower, upper):
        carry = body(place, carry)
    return carry


def _python_while_loop(condition: Function, body: Function, carry: Any) -> Any:
    while condition(carry):
        carry = body(carry)
    return carry


def _differences(function: Function, by: int, given: tuple[Any, ...]) -> Any:
    """The derivative by each element of one argument, which are the first axis."""
    x = np.asarray(given[by])

    def at(place: tuple[int, ...], times: int) -> Any:
        moved = x.copy()
        moved[place] += times * STEP
        return np.asarray(function(*given[:by], moved, *given[by + 1 :]))

    return np.stack(
        [
            (8 * (at(place, 1) - at(place, -1)) - (at(place, 2) - at(place, -2))) / (12 * STEP)
            for place in np.ndindex(x.shape)
        ]
    )


def _strided(x: Any, w: Any, stride: int) -> Any:
    """A convolution that keeps the size divided by the stride; channels are last."""
    width = w.shape[0] - stride
    sides = (width // 2, width - width // 2)
    x = np.pad(x, ((0, 0), sides, sides, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("bxycij,ijco->bxyo", windows[:, ::stride, ::stride], w, optimize=True)


def _transposed(x: Any, w: Any, stride: int) -> Any:
    """The transpose of `_strided` by its argument, for an even `w.shape[0] - stride`."""
    batch, height, width, _ = x.shape
    spread = np.zeros(
        (batch, height * stride - stride + 1, width * stride - stride + 1, x.shape[3])
    )
    spread[:, ::stride, ::stride] = x
    side = w.shape[0] - 1 - (w.shape[0] - stride) // 2
    spread = np.pad(spread, ((0, 0), (side, side), (side, side), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(spread, w.shape[:2], (1, 2))
    return np.einsum("bxycij,ijoc->bxyo", windows, w[::-1, ::-1], optimize=True)
