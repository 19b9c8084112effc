"""NumPy's reductions on tensors, with NumPy's parameter names; `nan…` variants leave NaN out."""

from __future__ import annotations

import functools

import numpy as np

from gradtape.interop.numpy_protocols.binding import NO_VALUE, AnyFunction, refusal, same_names
from gradtape.ops.arrays import creation, indexing, joining, movement, sorting
from gradtape.ops.elementwise import arithmetic, complexes, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axes, reduced_shape
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import asarray

__all__ = ["FUNCTIONS", "REDUCE"]


def _masked(a, where, otherwise):
    return a if where is True else arithmetic.where(where, a, otherwise)


def _in_dtype(a, dtype):
    return a if dtype is None else cast(asarray(a), dtype)


def _accumulated(ours, neutral, of_two):
    def call(a, axis=None, dtype=None, keepdims=False, initial=NO_VALUE, where=True):
        a = a if where is True else arithmetic.where(where, a, neutral)
        total = ours(a, axis=axis, dtype=dtype, keepdims=keepdims)
        return total if initial is NO_VALUE else of_two(total, cast(asarray(initial), total.dtype))

    return call


sum = _accumulated(reduction.sum, 0, arithmetic.add)
prod = _accumulated(reduction.prod, 1, arithmetic.multiply)


def _extreme(name, ours, of_two):
    def call(a, axis=None, keepdims=False, initial=NO_VALUE, where=True):
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
            return movement.broadcast_to(start, reduced_shape(a.shape, axes, keepdims))
        return of_two(ours(_masked(a, where, start), axis=axis, keepdims=keepdims), start)

    return call


max = _extreme("max", reduction.max, arithmetic.maximum)
min = _extreme("min", reduction.min, arithmetic.minimum)


def _truth(ours, neutral):
    def call(a, axis=None, keepdims=False, where=True):
        return ours(_masked(a, where, neutral), axis=axis, keepdims=keepdims)

    return call


any, all = _truth(reduction.any, False), _truth(reduction.all, True)


def _count(a, axis, where):
    """The number of reduced elements, with the reduced axes kept."""
    mask = movement.broadcast_to(asarray(where), np.broadcast_shapes(np.shape(where), a.shape))
    return reduction.count_nonzero(mask, axis=axis, keepdims=True)


def _inexact(a, dtype):
    """The operand of a mean: of the given dtype, and no integer."""
    a = _in_dtype(asarray(a), dtype)
    return a if a.dtype.kind in "fc" else a / 1.0


def _reduced(kept, like, axis, keepdims):
    axes = normalize_axes("mean", axis, like.ndim)
    return kept if keepdims or not axes else movement.squeeze(kept, axes)


def mean(a, axis=None, dtype=None, keepdims=False, where=True):
    if where is True:
        found = reduction.mean(_in_dtype(a, dtype), axis=axis, keepdims=keepdims)
        # An integer dtype is the dtype of the quotient, as in NumPy.
        return found if dtype is None else cast(found, dtype)
    a = _inexact(a, dtype)
    kept = sum(a, axis, keepdims=True, where=where) / cast(_count(a, axis, where), a.dtype)
    return _in_dtype(_reduced(kept, a, axis, keepdims), dtype)


def _correction(ddof, correction):
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise ValueError("ddof= and correction= are two names of one thing. Pass one of them.")
    return correction


def _spread(name, ours, of_distances, without_nan=False):
    def call(
        a,
        axis=None,
        dtype=None,
        ddof=0,
        keepdims=False,
        where=True,
        mean=NO_VALUE,
        correction=NO_VALUE,
    ):
        ddof = _correction(ddof, correction)
        if without_nan:
            a, where = _without_nan(a, 0), _present(a, where)
        if where is True and mean is NO_VALUE and dtype is None:
            return ours(a, axis=axis, correction=ddof, keepdims=keepdims)
        if dtype is not None and np.dtype(dtype).kind not in "fc":
            # NumPy truncates the intermediate mean to the integer dtype; we refuse instead.
            raise refusal(name, "dtype", dtype)
        a = _inexact(a, dtype)
        count = _count(a, axis, where)
        if mean is NO_VALUE:
            mean = sum(a, axis, keepdims=True, where=where) / cast(count, a.dtype)
        divisor = arithmetic.maximum(count - ddof, 0)
        found = of_distances(_masked(a - mean, where, 0.0), axis, divisor)
        found = _in_dtype(_reduced(found, a, axis, keepdims), dtype)
        if not without_nan:
            return found
        # NumPy gives NaN, not infinity, where too few elements are left.
        few = reduction.count_nonzero(where, axis=axis, keepdims=keepdims) <= ddof
        return arithmetic.where(few, np.nan, found)

    return call


def _variance(distances, axis, divisor):
    squares = unary.square(complexes.abs(distances) if distances.dtype.kind == "c" else distances)
    total = reduction.sum(squares, axis=axis, keepdims=True)
    return total / cast(divisor, total.dtype)


def _deviation(distances, axis, divisor):
    # The norm, unlike a square root, has the derivative 0 at 0.
    total = reduction.norm(distances, 2, axis, True)
    return total / unary.sqrt(cast(divisor, total.dtype))


var = _spread("np.var", reduction.var, _variance)
std = _spread("np.std", reduction.std, _deviation)


def ptp(a, axis=None, keepdims=False):
    return max(a, axis, keepdims) - min(a, axis, keepdims)


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    a = asarray(a)
    if weights is None:
        mean_ = reduction.mean(a, axis=axis, keepdims=keepdims)
        axes = normalize_axes("average", axis, a.ndim)
        scale = creation.full_like(mean_, np.prod([a.shape[i] for i in axes]))
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


def _one_at_a_time(name, ours, q):
    """The results for every one of `q`, along new first axes."""
    if getattr(q, "node", None) is not None or hasattr(q, "enter"):
        q = q.numpy()
    q = np.asarray(q, dtype=float)
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError(f"{name}: q={q} is not between 0 and 1 (0 and 100 for percentiles).")
    if not q.ndim:
        return ours(float(q))
    parts = [ours(float(item)) for item in q.ravel()]
    stacked = joining.stack(parts)
    return movement.reshape(stacked, (*q.shape, *parts[0].shape))


def quantile(a, q, axis=None, keepdims=False):
    a = _inexact(a, None)
    one = functools.partial(reduction.quantile, a, axis=axis, keepdims=keepdims)
    return _one_at_a_time("np.quantile", one, q)


def _percent(quantile):
    def percentile(a, q, axis=None, keepdims=False):
        q = q.numpy() if hasattr(q, "enter") else q
        return quantile(a, np.asarray(q) / 100.0, axis, keepdims)

    return percentile


def nanquantile(a, q, axis=None, keepdims=False):
    a = _inexact(a, None)
    axes = normalize_axes("nanquantile", axis, a.ndim)
    others = [i for i in range(a.ndim) if i not in axes]
    rows = movement.permute_dims(a, (*others, *axes))
    rows = movement.reshape(rows, (*[a.shape[i] for i in others], -1))
    ordered = sorting.sort(rows)  # NaN comes last
    count = reduction.sum(unary.logical_not(unary.isnan(rows)), axis=-1, keepdims=True)

    def at(q):
        place = (count - 1) * q
        below = unary.floor(place)
        ends = [
            indexing.take_along_axis(ordered, cast(arithmetic.maximum(end, 0), "int64"), axis=-1)
            for end in (below, unary.ceil(place))
        ]
        found = ends[0] + (ends[1] - ends[0]) * cast(place - below, a.dtype)
        return movement.reshape(found, reduced_shape(a.shape, axes, keepdims))

    return _one_at_a_time("np.nanquantile", at, q)


def nanmedian(a, axis=None, keepdims=False):
    return nanquantile(a, 0.5, axis, keepdims=keepdims)


def _cumulative(ours):
    def call(a, axis=None, dtype=None):
        a = movement.reshape(a, (-1,)) if axis is None else a
        return ours(a, axis=0 if axis is None else axis, dtype=dtype)

    return call


cumsum = _cumulative(reduction.cumulative_sum)
cumprod = _cumulative(reduction.cumulative_prod)


def _standard(ours):
    @functools.wraps(ours)
    def call(x, axis=None, **options):
        axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
        return ours(x, axis=axis, **options)

    return call


def _without_nan(a, otherwise):
    a = asarray(a)
    return arithmetic.where(unary.isnan(a), otherwise, a) if a.dtype.kind in "fc" else a


def _present(a, where):
    """A mask of the reduced elements that are not NaN."""
    found = unary.logical_not(unary.isnan(asarray(a)))
    return found if where is True else arithmetic.logical_and(found, where)


def _nan_replaced(ours, neutral):
    @functools.wraps(ours)
    def call(a, *args, **kwargs):
        return ours(_without_nan(a, neutral), *args, **kwargs)

    return call


def _nan_extreme(extreme, sign):
    def call(a, axis=None, keepdims=False, initial=NO_VALUE, where=True):
        a = asarray(a)
        found = extreme(_without_nan(a, -sign * np.inf), axis, keepdims, initial, where)
        if a.dtype.kind not in "fc" or initial is not NO_VALUE:
            return found
        empty = reduction.all(unary.isnan(a), axis=axis, keepdims=keepdims)
        return arithmetic.where(empty, np.nan, found)

    return call


def _nan_position(ours, sign):
    def call(a, axis=None, keepdims=False):
        a = asarray(a)
        if bool(reduction.any(reduction.all(unary.isnan(a), axis=axis))):
            raise ValueError("All-NaN slice encountered: it has no largest or smallest element.")
        return ours(_without_nan(a, -sign * np.inf), axis=axis, keepdims=keepdims)

    return call


def nanmean(a, axis=None, dtype=None, keepdims=False, where=True):
    return mean(_without_nan(a, 0), axis, dtype, keepdims, _present(a, where))


# The functions that `ufunc.reduce` records, with axis, dtype, keepdims, initial and where.
REDUCE: dict[np.ufunc, AnyFunction] = {
    np.add: sum,
    np.multiply: prod,
    np.maximum: max,
    np.minimum: min,
    np.logical_and: all,
    np.logical_or: any,
    np.logaddexp: reduction.logsumexp,
}
# The functions that `ufunc.accumulate` records, with axis and dtype.
ACCUMULATE: dict[np.ufunc, AnyFunction] = {np.add: cumsum, np.multiply: cumprod}

FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **same_names(
        np,
        globals(),
        "sum prod max min any all mean var std ptp average quantile nanquantile "
        "nanmedian cumsum cumprod nanmean",
    ),
    **same_names(np, vars(reduction), "argmax argmin count_nonzero median"),
    np.nansum: _nan_replaced(sum, 0),
    np.nanprod: _nan_replaced(prod, 1),
    np.amax: max,
    np.amin: min,
    np.percentile: _percent(quantile),
    np.nanpercentile: _percent(nanquantile),
    np.cumulative_sum: _standard(reduction.cumulative_sum),
    np.cumulative_prod: _standard(reduction.cumulative_prod),
    np.nanvar: _spread("np.nanvar", reduction.var, _variance, without_nan=True),
    np.nanstd: _spread("np.nanstd", reduction.std, _deviation, without_nan=True),
    np.nanmax: _nan_extreme(max, 1.0),
    np.nanmin: _nan_extreme(min, -1.0),
    np.nanargmax: _nan_position(reduction.argmax, 1.0),
    np.nanargmin: _nan_position(reduction.argmin, -1.0),
    np.nancumsum: _nan_replaced(cumsum, 0),
    np.nancumprod: _nan_replaced(cumprod, 1),
}
