"""Plain NumPy calls on tensors record: NEP 13 (ufuncs) and NEP 18 (functions).

`UFUNCS` and `FUNCTIONS` list everything covered; any other NumPy function raises and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape
from gradtape.tensor.operators import Operators

__all__ = ["covered"]

# NumPy's name of a ufunc to gradtape's function of another name; the rest agree.
_RENAMED = {
    "absolute": "abs", "fabs": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "conjugate": "conj", "invert": "bitwise_invert", "left_shift": "bitwise_left_shift",
    "mod": "remainder", "power": "pow", "float_power": "pow", "right_shift": "bitwise_right_shift",
    "rint": "round", "true_divide": "divide",
}  # fmt: skip
_SAME = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "positive",
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "square", "reciprocal",
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "logaddexp", "copysign", "nextafter",
    "maximum", "minimum", "sign", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "signbit",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor",
    "matmul", "vecdot",
]  # fmt: skip

UFUNCS: dict[Any, str] = {getattr(np, name): name for name in _SAME if hasattr(np, name)}
UFUNCS.update((getattr(np, name), ours) for name, ours in _RENAMED.items() if hasattr(np, name))

_REDUCTIONS = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min",
    np.logical_and: "all", np.logical_or: "any",
}  # fmt: skip


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NEP 13: `np.sin(tensor)` records `gt.sin`."""
    if options.pop("out", None) is not None:
        raise TypeError(
            f"np.{ufunc.__name__}: out= cannot be a tensor or take one. Tensors are rebound, not "
            "written into: y = np.f(x)."
        )
    if method == "reduce" and ufunc in _REDUCTIONS:
        axis = options.pop("axis", 0)
        options = {k: v for k, v in options.items() if k in ("keepdims", "dtype") and v is not None}
        return getattr(gradtape, _REDUCTIONS[ufunc])(inputs[0], axis=axis, **options)
    name = UFUNCS.get(ufunc)
    options = {key: value for key, value in options.items() if value is not None}
    dtype = options.pop("dtype", None)
    if method != "__call__" or name is None or options:
        raise TypeError(
            _refusal(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
        )
    result = getattr(gradtape, name)(*inputs)
    return result if dtype is None else gradtape.cast(result, dtype)


def array_function(self: Any, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
    """NEP 18: `np.concatenate([t, u])` records `gt.concat`."""
    ours = FUNCTIONS.get(function)
    if ours is None:
        raise TypeError(_refusal(f"np.{function.__name__}"))
    kwargs = {key: value for key, value in kwargs.items() if not _unset(value)}
    return ours(*args, **kwargs)


def _unset(value: Any) -> bool:
    return value is np._NoValue


def _refusal(name: str) -> str:
    return (
        f"{name} is not recorded for tensors. Use the gradtape function, np.asarray(tensor) if no "
        "derivative is needed, or gt.numpy_function. gt.numpy_protocols.covered() lists what is."
    )


def _axis(name: str) -> Callable[..., Any]:
    """A reduction: NumPy passes the axis by position, gradtape by keyword."""

    def call(a: Any, axis: Any = None, *rest: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        if "ddof" in kwargs:
            kwargs["correction"] = kwargs.pop("ddof")
        return getattr(gradtape, name)(a, axis=axis, **kwargs)

    return call


def _same(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(gradtape, name)(*args, **kwargs)


def _linalg(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(gradtape.linalg, name)(*args, **kwargs)


def _fft(name: str) -> Callable[..., Any]:
    """A transform along one axis: NumPy takes n, axis and norm by position, and norm=None."""

    def call(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        _refuse_out(f"np.fft.{name}", out)
        return getattr(gradtape.fft, name)(a, n=n, axis=axis, norm=norm or "backward")

    return call


def _fftn(name: str, ours: str, last: Any = None) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = last, norm: Any = None, out: Any = None) -> Any:
        _refuse_out(f"np.fft.{name}", out)
        return getattr(gradtape.fft, ours)(a, s=s, axes=axes, norm=norm or "backward")

    return call


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise TypeError(f"{name}: out= cannot be written to from tensors. Use the result.")


def _shift(name: str) -> Callable[..., Any]:
    return lambda x, axes=None: getattr(gradtape.fft, name)(x, axes=axes)


def _where(condition: Any, *branches: Any) -> Any:
    if not branches:
        return gradtape.nonzero(condition)
    return gradtape.where(condition, *branches)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Any:
    return gradtape.clip(a, kwargs.get("min", a_min), kwargs.get("max", a_max))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = gradtape.asarray(x)
    matrix = (axis is None and x.ndim == 2 and ord is not None) or (
        isinstance(axis, tuple) and len(axis) == 2
    )
    if matrix and (ord is not None or axis is not None):
        return gradtape.linalg.matrix_norm(x, ord="fro" if ord is None else ord, keepdims=keepdims)
    return gradtape.linalg.vector_norm(
        x, ord=2 if ord is None else ord, axis=axis, keepdims=keepdims
    )


def _dot(a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return gradtape.multiply(a, b)
    if np.ndim(b) == 1:
        return gradtape.tensordot(a, b, axes=1)
    return (
        gradtape.tensordot(a, b, axes=((-1,), (-2,))) if np.ndim(b) > 1 else gradtape.matmul(a, b)
    )


def _size(a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


def _full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    return gradtape.full_like(a, fill_value, dtype=dtype)


def _flip(m: Any, axis: Any = None) -> Any:
    return gradtape.flip(m, axis=axis)


def _hstack(parts: Any) -> Any:
    parts = [gradtape.asarray(p) for p in parts]
    parts = [gradtape.reshape(p, (1,)) if p.ndim == 0 else p for p in parts]
    return gradtape.concat(parts, axis=0 if parts[0].ndim == 1 else 1)


def _vstack(parts: Any) -> Any:
    parts = [gradtape.asarray(p) for p in parts]
    return gradtape.concat(
        [gradtape.reshape(p, (1, -1)) if p.ndim < 2 else p for p in parts], axis=0
    )


def _sort(a: Any, axis: int = -1, **_: Any) -> Any:
    return gradtape.sort(a, axis=axis)


def _argsort(a: Any, axis: int = -1, **_: Any) -> Any:
    return gradtape.argsort(a, axis=axis)


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return gradtape.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def _trace(a: Any, offset: int = 0, **_: Any) -> Any:
    return gradtape.linalg.trace(a, offset=offset)


def _cumulative(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, dtype: Any = None, **_: Any) -> Any:
        a = gradtape.reshape(a, (-1,)) if axis is None else a
        return getattr(gradtape, name)(a, axis=0 if axis is None else axis, dtype=dtype)

    return call


def _transpose(a: Any, axes: Any = None) -> Any:
    return gradtape.permute_dims(a, tuple(reversed(range(np.ndim(a)))) if axes is None else axes)


def _concatenate(parts: Any, axis: Any = 0, **_: Any) -> Any:
    return gradtape.concat(parts, axis=axis)


def _like(name: str) -> Callable[..., Any]:
    return lambda a, dtype=None, **_: getattr(gradtape, name)(a, dtype=dtype)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, name): _axis(name) for name in
       ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin",
        "median", "count_nonzero")},
    **{getattr(np, name): _same(name) for name in
       ("reshape", "broadcast_to", "expand_dims", "squeeze", "moveaxis", "swapaxes", "roll", "pad",
        "tile", "repeat", "stack", "split", "tril", "triu", "outer", "kron", "tensordot",
        "einsum", "take", "take_along_axis", "searchsorted", "meshgrid", "sinc", "real", "imag",
        "angle", "isin", "diff", "nonzero", "broadcast_arrays")},
    **{getattr(np.linalg, name): _linalg(name) for name in
       ("solve", "inv", "det", "slogdet", "cholesky", "qr", "svd", "eigh", "eigvalsh", "pinv",
        "matrix_power")},
    **{getattr(np.fft, name): _fft(name) for name in
       ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{getattr(np.fft, name): _fftn(name, name) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{getattr(np.fft, name + "2"): _fftn(name + "2", name + "n", (-2, -1)) for name in
       ("fft", "ifft", "rfft", "irfft")},
    np.fft.fftshift: _shift("fftshift"), np.fft.ifftshift: _shift("ifftshift"),
    np.amax: _axis("max"), np.amin: _axis("min"), np.concatenate: _concatenate,
    np.transpose: _transpose, np.where: _where, np.clip: _clip, np.linalg.norm: _norm, np.dot: _dot,
    np.flip: _flip, np.hstack: _hstack, np.vstack: _vstack, np.sort: _sort, np.argsort: _argsort,
    np.trace: _trace, np.diagonal: _diagonal, np.cumsum: _cumulative("cumulative_sum"),
    np.cumprod: _cumulative("cumulative_prod"), np.zeros_like: _like("zeros_like"),
    np.ones_like: _like("ones_like"), np.empty_like: _like("empty_like"), np.full_like: _full_like,
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: _size,
    np.ravel: lambda a, order="C": a.ravel(), np.round: lambda a, decimals=0: a.__round__(decimals),
    np.copy: lambda a, **_: gradtape.identity(a),
    np.iscomplexobj: lambda x: x.dtype.kind == "c", np.isrealobj: lambda x: x.dtype.kind != "c",
    np.result_type: lambda *args: np.result_type(*[getattr(a, "dtype", a) for a in args]),
    np.allclose: lambda a, b, **options: np.allclose(_host(a), _host(b), **options),
    np.array_equal: lambda a, b, **options: np.array_equal(_host(a), _host(b), **options),
    np.isclose: lambda a, b, **options: np.isclose(_host(a), _host(b), **options),
    np.array2string: lambda a, **options: np.array2string(_host(a), **options),
    np.array_repr: lambda a, **options: repr(a), np.array_str: lambda a, **options: str(a),
}  # fmt: skip


def _host(a: Any) -> Any:
    """For comparisons that give plain booleans: no derivative is lost."""
    return a.numpy() if isinstance(a, Operators) else a


def covered() -> list[str]:
    """The NumPy functions that record when called on tensors.

    >>> "sin" in gt.numpy_protocols.covered(), "linalg.solve" in gt.numpy_protocols.covered()
    (True, True)
    """
    names = {ufunc.__name__ for ufunc in UFUNCS}
    for function in FUNCTIONS:
        module = getattr(function, "__module__", "numpy") or "numpy"
        prefix = next((part for part in ("linalg.", "fft.") if f"numpy.{part}" in module + "."), "")
        names.add(prefix + function.__name__)
    return sorted(names)


Operators.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]
Operators.__array_function__ = array_function  # type: ignore[attr-defined]
