"""NumPy's reductions on tensors, with NumPy's parameter names; `nan…` variants leave NaN out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np

from gradtape.interop.numpy_protocols.binding import NO_VALUE, Function, refusal
from gradtape.ops.arrays import creation, indexing, joining, movement, sorting
from gradtape.ops.elementwise import arithmetic, complexes, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axes
from gradtape.ops.reductions import reduction
from gradtape.ops.reductions.reduction import logsumexp as ours_logsumexp
from gradtape.tensor.tensor import Tensor, asarray

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import Axis, DTypeLike, TensorLike

Operand = TypeVar("Operand", bound="TensorLike")

__all__ = ["FUNCTIONS", "REDUCE"]


def _masked(a: TensorLike, where: TensorLike, otherwise: TensorLike) -> TensorLike:
    return a if where is True else arithmetic.where(where, a, otherwise)


def _in_dtype(a: Operand, dtype: DTypeLike | None) -> Operand | Tensor:
    return a if dtype is None else cast(asarray(a), dtype)


def sum(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: TensorLike = NO_VALUE,
    where: TensorLike = True,
) -> Tensor:
    total = reduction.sum(_masked(a, where, 0), axis=axis, dtype=dtype, keepdims=keepdims)
    return total if initial is NO_VALUE else total + cast(asarray(initial), total.dtype)


def prod(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: TensorLike = NO_VALUE,
    where: TensorLike = True,
) -> Tensor:
    total = reduction.prod(_masked(a, where, 1), axis=axis, dtype=dtype, keepdims=keepdims)
    return total if initial is NO_VALUE else total * cast(asarray(initial), total.dtype)


def _extreme(name: str, ours: Function, of_two: Function) -> Function:
    def call(
        a: TensorLike,
        axis: Axis = None,
        keepdims: bool = False,
        initial: TensorLike = NO_VALUE,
        where: TensorLike = True,
    ) -> Tensor:
        if initial is NO_VALUE or initial is None:
            if where is not True:
                raise ValueError(
                    f"np.{name}: where= without initial=: elements left out need a value to start "
                    f"from. Pass initial=."
                )
            return ours(a, axis=axis, keepdims=keepdims)
        a = asarray(a)
        start = cast(asarray(initial), a.dtype)
        axes = normalize_axes(name, axis, a.ndim)
        if not np.prod([a.shape[i] for i in axes]):
            shape = [
                1 if i in axes else n for i, n in enumerate(a.shape) if keepdims or i not in axes
            ]
            return movement.broadcast_to(start, tuple(shape))
        return of_two(ours(_masked(a, where, start), axis=axis, keepdims=keepdims), start)

    return call


max = _extreme("max", reduction.max, arithmetic.maximum)
min = _extreme("min", reduction.min, arithmetic.minimum)


def any(
    a: TensorLike, axis: Axis = None, keepdims: bool = False, where: TensorLike = True
) -> Tensor:
    return reduction.any(_masked(a, where, False), axis=axis, keepdims=keepdims)


def all(
    a: TensorLike, axis: Axis = None, keepdims: bool = False, where: TensorLike = True
) -> Tensor:
    return reduction.all(_masked(a, where, True), axis=axis, keepdims=keepdims)


def _count(a: Tensor, axis: Axis, where: Any) -> Tensor:
    """How many elements take part, with the reduced axes kept."""
    mask = movement.broadcast_to(asarray(where), np.broadcast_shapes(np.shape(where), a.shape))
    return reduction.count_nonzero(mask, axis=axis, keepdims=True)


def _inexact(a: TensorLike, dtype: DTypeLike | None) -> Tensor:
    """The operand of a mean: of the dtype that was asked for, and no integer."""
    a = _in_dtype(asarray(a), dtype)
    return a if a.dtype.kind in "fc" else a / 1.0


def _reduced(kept: Tensor, like: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = normalize_axes("mean", axis, like.ndim)
    return kept if keepdims or not axes else movement.squeeze(kept, axes)


def mean(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: TensorLike = True,
) -> Tensor:
    if where is True:
        found = reduction.mean(_in_dtype(a, dtype), axis=axis, keepdims=keepdims)
        # An integer dtype is the dtype of the quotient, as in NumPy.
        return found if dtype is None else cast(found, dtype)
    a = _inexact(a, dtype)
    kept = sum(a, axis, keepdims=True, where=where) / cast(_count(a, axis, where), a.dtype)
    return _in_dtype(_reduced(kept, a, axis, keepdims), dtype)


def _correction(ddof: float, correction: float) -> float:
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise ValueError("ddof= and correction= are two names of one thing. Pass one of them.")
    return correction


def _distances(
    name: str,
    a: TensorLike,
    axis: Axis,
    dtype: DTypeLike | None,
    ddof: float,
    where: TensorLike,
    mean: TensorLike,
) -> tuple[Any, Tensor]:
    """Distances from the mean, 0 where elements are left out, and the divisor of their squares."""
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        # NumPy rounds the mean to integers on the way, which nobody can mean.
        raise refusal(name, "dtype", dtype)
    a = _inexact(a, dtype)
    count = _count(a, axis, where)
    if mean is NO_VALUE:
        mean = sum(a, axis, keepdims=True, where=where) / cast(count, a.dtype)
    return _masked(a - mean, where, 0.0), arithmetic.maximum(count - ddof, 0)


def var(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: TensorLike = True,
    mean: TensorLike = NO_VALUE,
    correction: float = NO_VALUE,
) -> Tensor:
    ddof = _correction(ddof, correction)
    if where is True and mean is NO_VALUE and dtype is None:
        return reduction.var(a, axis=axis, correction=ddof, keepdims=keepdims)
    distance, divisor = _distances("np.var", a, axis, dtype, ddof, where, mean)
    squares = unary.square(complexes.abs(distance) if distance.dtype.kind == "c" else distance)
    total = reduction.sum(squares, axis=axis, keepdims=True)
    found = total / cast(divisor, total.dtype)
    return _in_dtype(_reduced(found, distance, axis, keepdims), dtype)


def std(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: TensorLike = True,
    mean: TensorLike = NO_VALUE,
    correction: float = NO_VALUE,
) -> Tensor:
    ddof = _correction(ddof, correction)
    if where is True and mean is NO_VALUE and dtype is None:
        return reduction.std(a, axis=axis, correction=ddof, keepdims=keepdims)
    distance, divisor = _distances("np.std", a, axis, dtype, ddof, where, mean)
    # The norm, unlike a square root, has the derivative 0 at 0.
    total = reduction.norm(distance, 2, axis, True)
    found = total / unary.sqrt(cast(divisor, total.dtype))
    return _in_dtype(_reduced(found, distance, axis, keepdims), dtype)


def ptp(a: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return max(a, axis, keepdims) - min(a, axis, keepdims)


def average(
    a: TensorLike,
    axis: Axis = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    a = asarray(a)
    if weights is None:
        mean_ = reduction.mean(a, axis=axis, keepdims=keepdims)
        axes = normalize_axes("average", axis, a.ndim)
        scale: Tensor = creation.full_like(mean_, np.prod([a.shape[i] for i in axes]))
        return (mean_, scale) if returned else mean_
    weights = asarray(weights)
    if weights.shape != a.shape:
        axes = normalize_axes("average", axis, a.ndim)
        if axis is None or weights.shape != tuple(a.shape[i] for i in axes):
            raise ValueError(
                f"np.average: weights= has shape {weights.shape} and a {a.shape} with axis={axis}. "
                "Give one weight for each element, or for each along the axis."
            )
        shape = [n if i in axes else 1 for i, n in enumerate(a.shape)]
        weights = movement.broadcast_to(movement.reshape(weights, tuple(shape)), a.shape)
    if a.dtype.kind not in "fc" and weights.dtype.kind not in "fc":
        a = a / 1.0
    scale = reduction.sum(weights, axis=axis, keepdims=keepdims)
    product = reduction.sum(a * weights, axis=axis, keepdims=keepdims)
    scale = cast(scale, product.dtype)
    return (product / scale, scale) if returned else product / scale


def _one_at_a_time(name: str, ours: Callable[[None, float], Tensor], q: Any) -> Tensor:
    """The results for every one of `q`, along new first axes."""
    if getattr(q, "node", None) is not None or hasattr(q, "enter"):
        q = q.numpy()
    q = np.asarray(q, dtype=float)
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError(f"{name}: q={q} is not between 0 and 1 (0 and 100 for percentiles).")
    if not q.ndim:
        return ours(None, float(q))
    parts = [ours(None, float(item)) for item in q.ravel()]
    stacked = joining.stack(parts)
    return movement.reshape(stacked, (*q.shape, *parts[0].shape))


def quantile(
    a: TensorLike,
    q: TensorLike,
    axis: Axis = None,
    method: str = "linear",
    keepdims: bool = False,
    weights: TensorLike | None = None,
) -> Tensor:
    _linear("np.quantile", method, weights)
    a = _inexact(a, None)
    return _one_at_a_time(
        "np.quantile", lambda _, q: reduction.quantile(a, q, axis=axis, keepdims=keepdims), q
    )


def _linear(name: str, method: str, weights: TensorLike | None) -> None:
    if method != "linear":
        raise refusal(name, "method", method)
    if weights is not None:
        raise refusal(name, "weights", weights)


def _percent(quantile: Function) -> Function:
    def percentile(
        a: TensorLike,
        q: Any,
        axis: Axis = None,
        method: str = "linear",
        keepdims: bool = False,
        weights: TensorLike | None = None,
    ) -> Tensor:
        q = q.numpy() if hasattr(q, "enter") else q
        return quantile(a, np.asarray(q) / 100.0, axis, method, keepdims, weights)

    return percentile


def nanquantile(
    a: TensorLike,
    q: TensorLike,
    axis: Axis = None,
    method: str = "linear",
    keepdims: bool = False,
    weights: TensorLike | None = None,
) -> Tensor:
    _linear("np.nanquantile", method, weights)
    a = _inexact(a, None)
    axes = normalize_axes("nanquantile", axis, a.ndim)
    others = [i for i in range(a.ndim) if i not in axes]
    rows = movement.permute_dims(a, (*others, *axes))
    rows = movement.reshape(rows, (*[a.shape[i] for i in others], -1))
    ordered = sorting.sort(rows)  # NaN comes last
    count = reduction.sum(unary.logical_not(unary.isnan(rows)), axis=-1, keepdims=True)

    def at(_: None, q: float) -> Tensor:
        place = (count - 1) * q
        below = unary.floor(place)
        ends = [
            indexing.take_along_axis(ordered, cast(arithmetic.maximum(end, 0), "int64"), axis=-1)
            for end in (below, unary.ceil(place))
        ]
        found = ends[0] + (ends[1] - ends[0]) * cast(place - below, a.dtype)
        kept = [1 if i in axes else n for i, n in enumerate(a.shape) if keepdims or i not in axes]
        return movement.reshape(found, tuple(kept))

    return _one_at_a_time("np.nanquantile", at, q)


def median(a: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return reduction.median(a, axis=axis, keepdims=keepdims)


def nanmedian(a: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return nanquantile(a, 0.5, axis, keepdims=keepdims)


def _cumulative(ours: Function) -> Function:
    def call(a: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None) -> Tensor:
        a = movement.reshape(a, (-1,)) if axis is None else a
        return ours(a, axis=0 if axis is None else axis, dtype=dtype)

    return call


cumsum = _cumulative(reduction.cumulative_sum)
cumprod = _cumulative(reduction.cumulative_prod)


def _standard(ours: Function) -> Function:
    def call(
        x: TensorLike,
        /,
        *,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
    ) -> Tensor:
        axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
        return ours(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return call


def _without_nan(a: TensorLike, otherwise: TensorLike) -> Tensor:
    a = asarray(a)
    return arithmetic.where(unary.isnan(a), otherwise, a) if a.dtype.kind in "fc" else a


def _present(a: TensorLike, where: TensorLike) -> Tensor:
    """Where elements take part that are not NaN."""
    found = unary.logical_not(unary.isnan(asarray(a)))
    return found if where is True else arithmetic.logical_and(found, where)


def nansum(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: TensorLike = NO_VALUE,
    where: TensorLike = True,
) -> Tensor:
    return sum(_without_nan(a, 0), axis, dtype, keepdims, initial, where)


def nanprod(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: TensorLike = NO_VALUE,
    where: TensorLike = True,
) -> Tensor:
    return prod(_without_nan(a, 1), axis, dtype, keepdims, initial, where)


def _nan_extreme(extreme: Function, sign: float) -> Function:
    def call(
        a: TensorLike,
        axis: Axis = None,
        keepdims: bool = False,
        initial: TensorLike = NO_VALUE,
        where: TensorLike = True,
    ) -> Tensor:
        a = asarray(a)
        found = extreme(_without_nan(a, -sign * np.inf), axis, keepdims, initial, where)
        if a.dtype.kind not in "fc" or initial is not NO_VALUE:
            return found
        empty = reduction.all(unary.isnan(a), axis=axis, keepdims=keepdims)
        return arithmetic.where(empty, np.nan, found)

    return call


def _nan_position(ours: Function, sign: float) -> Function:
    def call(a: TensorLike, axis: SupportsIndex | None = None, keepdims: bool = False) -> Tensor:
        a = asarray(a)
        if bool(reduction.any(reduction.all(unary.isnan(a), axis=axis))):
            raise ValueError("All-NaN slice encountered: it has no largest or smallest element.")
        return ours(_without_nan(a, -sign * np.inf), axis=axis, keepdims=keepdims)

    return call


def nanmean(
    a: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: TensorLike = True,
) -> Tensor:
    return mean(_without_nan(a, 0), axis, dtype, keepdims, _present(a, where))


def _nan_spread(spread: Function) -> Function:
    def call(
        a: TensorLike,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: TensorLike = True,
        mean: TensorLike = NO_VALUE,
        correction: float = NO_VALUE,
    ) -> Tensor:
        ddof, present = _correction(ddof, correction), _present(a, where)
        found = spread(_without_nan(a, 0), axis, dtype, ddof, keepdims, present, mean)
        # NumPy gives NaN, not infinity, where too few elements are left.
        few = reduction.count_nonzero(present, axis=axis, keepdims=keepdims) <= ddof
        return arithmetic.where(few, np.nan, found)

    return call


def _logaddexp_reduce(a: TensorLike, axis: Axis = 0, keepdims: bool = False) -> Tensor:
    return ours_logsumexp(a, axis=axis, keepdims=keepdims)


# What `ufunc.reduce` records; its parameters are axis, dtype, keepdims, initial and where.
REDUCE: dict[np.ufunc, Function] = {
    np.add: sum,
    np.multiply: prod,
    np.maximum: max,
    np.minimum: min,
    np.logical_and: all,
    np.logical_or: any,
    np.logaddexp: _logaddexp_reduce,
}
# What `ufunc.accumulate` records; its parameters are axis and dtype.
ACCUMULATE: dict[np.ufunc, Function] = {np.add: cumsum, np.multiply: cumprod}

FUNCTIONS: dict[Function, Function] = {
    np.sum: sum,
    np.prod: prod,
    np.max: max,
    np.min: min,
    np.amax: max,
    np.amin: min,
    np.any: any,
    np.all: all,
    np.mean: mean,
    np.var: var,
    np.std: std,
    np.ptp: ptp,
    np.average: average,
    np.quantile: quantile,
    np.percentile: _percent(quantile),
    np.nanquantile: nanquantile,
    np.nanpercentile: _percent(nanquantile),
    np.median: median,
    np.nanmedian: nanmedian,
    np.argmax: reduction.argmax,
    np.argmin: reduction.argmin,
    np.count_nonzero: reduction.count_nonzero,
    np.cumsum: cumsum,
    np.cumprod: cumprod,
    np.cumulative_sum: _standard(reduction.cumulative_sum),
    np.cumulative_prod: _standard(reduction.cumulative_prod),
    np.nansum: nansum,
    np.nanprod: nanprod,
    np.nanmean: nanmean,
    np.nanvar: _nan_spread(var),
    np.nanstd: _nan_spread(std),
    np.nanmax: _nan_extreme(max, 1.0),
    np.nanmin: _nan_extreme(min, -1.0),
    np.nanargmax: _nan_position(reduction.argmax, 1.0),
    np.nanargmin: _nan_position(reduction.argmin, -1.0),
    np.nancumsum: lambda a, axis=None, dtype=None: cumsum(_without_nan(a, 0), axis, dtype),
    np.nancumprod: lambda a, axis=None, dtype=None: cumprod(_without_nan(a, 1), axis, dtype),
}
