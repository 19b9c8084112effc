"""NumPy's functions record when they are called on tensors: NEP 13 (ufuncs), NEP 18 (functions).

`UFUNCS` and `FUNCTIONS` are complete: every other NumPy function raises and says so. Importing this
module installs both protocols in `Operators`, the base of Tensor and Variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gradtape import fft, linalg
from gradtape.ops.arrays import creation, indexing, joining, movement, padding, sorting, triangles
from gradtape.ops.elementwise import arithmetic, complexes, special, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.matrices import contraction, einsum, products
from gradtape.ops.reductions import reduction
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray

__all__ = ["covered"]

# Most functions here take arguments as NumPy's callers pass them and hand them on, so their types
# are those of the gradtape function behind.
Function = Callable[..., Any]
Axis = int | tuple[int, ...] | None


def _named(theirs: ModuleType, ours: ModuleType, names: str) -> dict[Function, Function]:
    """NumPy's function to ours for names that both modules share."""
    return {getattr(theirs, name): getattr(ours, name) for name in names.split()}


UFUNCS: dict[Function, Function] = {
    **_named(
        np, arithmetic,
        "add subtract multiply divide floor_divide remainder hypot logaddexp copysign nextafter "
        "maximum minimum equal not_equal less less_equal greater greater_equal logical_and "
        "logical_or logical_xor bitwise_and bitwise_or bitwise_xor",
    ),
    **_named(
        np, unary,
        "negative positive exp exp2 expm1 log log1p log2 log10 sqrt cbrt square reciprocal sin cos "
        "tan sinh cosh tanh floor ceil trunc isnan isinf isfinite signbit logical_not",
    ),
    np.absolute: complexes.abs, np.fabs: complexes.abs, np.conjugate: complexes.conj,
    np.sign: complexes.sign, np.arccos: unary.acos, np.arccosh: unary.acosh,
    np.arcsin: unary.asin, np.arcsinh: unary.asinh, np.arctan: unary.atan,
    np.arctanh: unary.atanh, np.arctan2: arithmetic.atan2, np.invert: unary.bitwise_invert,
    np.left_shift: arithmetic.bitwise_left_shift, np.right_shift: arithmetic.bitwise_right_shift,
    np.power: arithmetic.pow, np.float_power: arithmetic.pow, np.rint: unary.round,
    np.matmul: contraction.matmul, np.vecdot: products.vecdot,
}  # fmt: skip

_REDUCTIONS: dict[np.ufunc, Function] = {
    np.add: reduction.sum, np.multiply: reduction.prod, np.maximum: reduction.max,
    np.minimum: reduction.min, np.logical_and: reduction.all, np.logical_or: reduction.any,
}  # fmt: skip


def array_ufunc(
    self: Operators, ufunc: np.ufunc, method: str, *inputs: object, **options: Any
) -> Tensor:
    """NEP 13: `np.sin(tensor)` records `gt.sin`."""
    if options.pop("out", None) is not None:
        raise TypeError(
            f"np.{ufunc.__name__}: out= cannot be a tensor or take one. Tensors are rebound, not "
            "written into: y = np.f(x)."
        )
    if method == "reduce" and ufunc in _REDUCTIONS:
        axis = options.pop("axis", 0)
        options = {k: v for k, v in options.items() if k in ("keepdims", "dtype") and v is not None}
        return _REDUCTIONS[ufunc](inputs[0], axis=axis, **options)
    ours = UFUNCS.get(ufunc)
    options = {key: value for key, value in options.items() if value is not None}
    dtype = options.pop("dtype", None)
    if method != "__call__" or ours is None or options:
        raise TypeError(
            _refusal(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
        )
    result = ours(*inputs)
    return result if dtype is None else cast(result, dtype)


def array_function(
    self: Operators,
    function: Function,
    kinds: Collection[type],
    args: Sequence[object],
    kwargs: dict[str, object],
) -> object:
    """NEP 18: `np.concatenate([t, u])` records `gt.concat`."""
    ours = FUNCTIONS.get(function)
    if ours is None:
        raise TypeError(_refusal(f"np.{function.__name__}"))
    kwargs = {key: value for key, value in kwargs.items() if value is not np._NoValue}
    return ours(*args, **kwargs)


def _refusal(name: str) -> str:
    return (
        f"{name} is not recorded for tensors. Use the gradtape function, np.asarray(tensor) if no "
        "derivative is needed, or gt.numpy_function. gt.numpy_protocols.covered() lists what is."
    )


def _axis(ours: Function) -> Function:
    """A reduction: NumPy passes the axis by position, gradtape by keyword."""

    def call(a: object, axis: Axis = None, *rest: object, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        if "ddof" in kwargs:
            kwargs["correction"] = kwargs.pop("ddof")
        return ours(a, axis=axis, **kwargs)

    return call


def _axes(ours: ModuleType, names: str) -> dict[Function, Function]:
    return {getattr(np, name): _axis(getattr(ours, name)) for name in names.split()}


def _fft(name: str) -> Function:
    """A transform along one axis: NumPy takes n, axis and norm by position, and norm=None."""
    ours = getattr(fft, name)

    def call(
        a: object, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None
    ) -> Tensor:
        _refuse_out(f"np.fft.{name}", out)
        return ours(a, n=n, axis=axis, norm=norm or "backward")

    return call


def _fftn(name: str, ours: Function, last: Axis = None) -> Function:
    def call(
        a: object, s: Axis = None, axes: Axis = last, norm: str | None = None, out: object = None
    ) -> Tensor:
        _refuse_out(f"np.fft.{name}", out)
        return ours(a, s=s, axes=axes, norm=norm or "backward")

    return call


def _refuse_out(name: str, out: object) -> None:
    if out is not None:
        raise TypeError(f"{name}: out= cannot be written to from tensors. Use the result.")


def _where(condition: Any, *branches: Any) -> Any:
    if not branches:
        return sorting.nonzero(condition)
    return arithmetic.where(condition, *branches)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **kwargs: Any) -> Tensor:
    return arithmetic.clip(a, kwargs.get("min", a_min), kwargs.get("max", a_max))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = asarray(x)
    matrix = (axis is None and x.ndim == 2 and ord is not None) or (
        isinstance(axis, tuple) and len(axis) == 2
    )
    if matrix and (ord is not None or axis is not None):
        return linalg.matrix_norm(x, ord="fro" if ord is None else ord, keepdims=keepdims)
    return linalg.vector_norm(x, ord=2 if ord is None else ord, axis=axis, keepdims=keepdims)


def _dot(a: Any, b: Any) -> Tensor:
    if not np.ndim(a) or not np.ndim(b):
        return arithmetic.multiply(a, b)
    return products.tensordot(a, b, axes=1 if np.ndim(b) == 1 else ((-1,), (-2,)))


def _size(a: Tensor, axis: int | None = None) -> int:
    return a.size if axis is None else a.shape[axis]


def _hstack(parts: Sequence[Any]) -> Tensor:
    tensors = [asarray(part) for part in parts]
    tensors = [movement.reshape(part, (1,)) if part.ndim == 0 else part for part in tensors]
    return joining.concat(tensors, axis=0 if tensors[0].ndim == 1 else 1)


def _vstack(parts: Sequence[Any]) -> Tensor:
    tensors = [asarray(part) for part in parts]
    rows = [movement.reshape(part, (1, -1)) if part.ndim < 2 else part for part in tensors]
    return joining.concat(rows, axis=0)


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return triangles.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def _cumulative(ours: Function) -> Function:
    def call(a: Any, axis: int | None = None, dtype: object = None, **_: object) -> Tensor:
        a = movement.reshape(a, (-1,)) if axis is None else a
        return ours(a, axis=0 if axis is None else axis, dtype=dtype)

    return call


def _transpose(a: Any, axes: Any = None) -> Tensor:
    return movement.permute_dims(a, tuple(reversed(range(np.ndim(a)))) if axes is None else axes)


def _like(ours: Function) -> Function:
    return lambda a, dtype=None, **_: ours(a, dtype=dtype)


FUNCTIONS: dict[Function, Function] = {
    **_axes(reduction, "sum prod mean var std max min any all argmax argmin median count_nonzero"),
    **_named(
        np, movement, "reshape broadcast_to expand_dims squeeze moveaxis swapaxes roll "
        "broadcast_arrays"
    ),
    **_named(np, padding, "pad tile repeat"),
    **_named(np, joining, "stack split meshgrid diff"),
    **_named(np, triangles, "tril triu"),
    **_named(np, products, "outer kron tensordot"),
    **_named(np, indexing, "take take_along_axis"),
    **_named(np, sorting, "searchsorted isin nonzero"),
    **_named(np, complexes, "real imag angle"),
    np.einsum: einsum.einsum, np.sinc: special.sinc,
    **_named(
        np.linalg, linalg, "solve inv det slogdet cholesky qr svd eigh eigvalsh pinv matrix_power"
    ),
    **{getattr(np.fft, name): _fft(name) for name in
       ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    np.fft.fftn: _fftn("fftn", fft.fftn), np.fft.fft2: _fftn("fft2", fft.fftn, (-2, -1)),
    np.fft.ifftn: _fftn("ifftn", fft.ifftn), np.fft.ifft2: _fftn("ifft2", fft.ifftn, (-2, -1)),
    np.fft.rfftn: _fftn("rfftn", fft.rfftn), np.fft.rfft2: _fftn("rfft2", fft.rfftn, (-2, -1)),
    np.fft.irfftn: _fftn("irfftn", fft.irfftn),
    np.fft.irfft2: _fftn("irfft2", fft.irfftn, (-2, -1)),
    np.fft.fftshift: lambda x, axes=None: fft.fftshift(x, axes=axes),
    np.fft.ifftshift: lambda x, axes=None: fft.ifftshift(x, axes=axes),
    np.amax: _axis(reduction.max), np.amin: _axis(reduction.min),
    np.concatenate: lambda parts, axis=0, **_: joining.concat(parts, axis=axis),
    np.transpose: _transpose, np.where: _where, np.clip: _clip, np.linalg.norm: _norm, np.dot: _dot,
    np.flip: lambda m, axis=None: movement.flip(m, axis=axis),
    np.hstack: _hstack, np.vstack: _vstack,
    np.sort: lambda a, axis=-1, **_: sorting.sort(a, axis=axis),
    np.argsort: lambda a, axis=-1, **_: sorting.argsort(a, axis=axis),
    np.trace: lambda a, offset=0, **_: linalg.trace(a, offset=offset), np.diagonal: _diagonal,
    np.cumsum: _cumulative(reduction.cumulative_sum),
    np.cumprod: _cumulative(reduction.cumulative_prod),
    np.zeros_like: _like(creation.zeros_like), np.ones_like: _like(creation.ones_like),
    np.empty_like: _like(creation.empty_like),
    np.full_like: lambda a, fill_value, dtype=None, **_: creation.full_like(
        a, fill_value, dtype=dtype
    ),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: _size,
    np.ravel: lambda a, order="C": a.ravel(), np.round: lambda a, decimals=0: a.__round__(decimals),
    np.copy: lambda a, **_: arithmetic.identity(a),
    np.iscomplexobj: lambda x: x.dtype.kind == "c", np.isrealobj: lambda x: x.dtype.kind != "c",
    np.result_type: lambda *args: np.result_type(*[getattr(a, "dtype", a) for a in args]),
    np.allclose: lambda a, b, **options: np.allclose(_host(a), _host(b), **options),
    np.array_equal: lambda a, b, **options: np.array_equal(_host(a), _host(b), **options),
    np.isclose: lambda a, b, **options: np.isclose(_host(a), _host(b), **options),
    np.array2string: lambda a, **options: np.array2string(_host(a), **options),
    np.array_repr: lambda a, **options: repr(a), np.array_str: lambda a, **options: str(a),
}  # fmt: skip


def _host(a: Any) -> Any:
    """The computed value, for comparisons that return plain booleans: no derivative is lost."""
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
