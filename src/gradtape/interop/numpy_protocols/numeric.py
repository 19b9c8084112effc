"""NumPy's element-wise functions that are no ufuncs, and its sums of products along a line."""

from __future__ import annotations

import numpy as np

from gradtape.interop.numpy_protocols.arranging import atleast_1d, ravel
from gradtape.interop.numpy_protocols.binding import (
    NO_VALUE,
    AnyFunction,
    checked_dtype,
    refusal,
    same_names,
)
from gradtape.ops.arrays import creation, indexing, joining, movement, sorting, triangles
from gradtape.ops.elementwise import arithmetic, bessel, complexes, special, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.matrices import contraction, convolution
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import asarray

__all__ = ["FUNCTIONS"]


def clip(a, a_min=None, a_max=None, *, min=NO_VALUE, max=NO_VALUE, **kwargs):
    dtype, where = kwargs.pop("dtype", None), kwargs.pop("where", True)
    if where is not True:
        raise refusal("np.clip", "where", where)
    for name, value in kwargs.items():
        if name not in ("casting", "order", "subok"):
            raise refusal("np.clip", name, value)
    low = a_min if min is NO_VALUE else min
    high = a_max if max is NO_VALUE else max
    if dtype is not None:
        a = cast(asarray(a), checked_dtype("np.clip", dtype))
        low, high = (x if x is None else cast(asarray(x), dtype) for x in (low, high))
    return arithmetic.clip(a, low, high)


def round(a, decimals=0):
    a = asarray(a)
    if a.dtype.kind in "iu":
        if decimals >= 0:
            return a.copy()
        scale = 10**-decimals
        return cast(unary.round(a / float(scale)), a.dtype) * scale
    return a.__round__(decimals)


def angle(z, deg=False):
    found = complexes.angle(z)
    return found * (180.0 / np.pi) if deg else found


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = asarray(x)
    if not copy:
        raise refusal("np.nan_to_num", "copy", copy)
    if x.dtype.kind == "c":
        raise TypeError("np.nan_to_num: a complex tensor. Replace in its real and imaginary parts.")
    if x.dtype.kind != "f":
        return x.copy()
    limits = np.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = arithmetic.where(unary.isnan(x), cast(asarray(nan), x.dtype), x)
    x = arithmetic.where(arithmetic.equal(x, np.inf), cast(asarray(high), x.dtype), x)
    return arithmetic.where(arithmetic.equal(x, -np.inf), cast(asarray(low), x.dtype), x)


def _infinite(sign):
    def call(x):
        x = asarray(x)
        if x.dtype.kind == "c":
            raise TypeError("np.isposinf and np.isneginf: complex numbers have no sign.")
        return arithmetic.equal(x, sign * np.inf) if x.dtype.kind == "f" else _false(x)

    return call


def _false(x):
    return creation.zeros(x.shape, dtype=bool)


def iscomplex(x):
    x = asarray(x)
    return arithmetic.not_equal(x.imag, 0) if x.dtype.kind == "c" else _false(x)


def isreal(x):
    return unary.logical_not(iscomplex(x))


def real_if_close(a, tol=100):
    a = asarray(a)
    if a.dtype.kind != "c":
        return a
    limit = tol * np.finfo(a.dtype).eps if tol > 1 else tol
    return a.real if bool(reduction.all(complexes.abs(a.imag) < limit)) else a


def interp(x, xp, fp, left=None, right=None):
    x, xp, fp = (asarray(each) for each in (x, xp, fp))
    x, xp = (each if each.dtype.kind == "f" else each / 1.0 for each in (x, xp))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(
            f"np.interp: xp has shape {xp.shape} and fp {fp.shape}. Both need one axis of one "
            "length, not 0."
        )
    last = xp.size - 1
    place = sorting.searchsorted(xp, movement.reshape(x, (-1,)), side="right")
    place = movement.reshape(place, x.shape)
    above = arithmetic.clip(place, np.minimum(1, last), last)
    below = arithmetic.maximum(above - 1, 0)
    x0, x1, f0, f1 = (indexing.take(each, at) for each in (xp, fp) for at in (below, above))
    span = x1 - x0
    inside = span > 0.0
    slope = (f1 - f0) / arithmetic.where(inside, span, 1.0)
    found = f0 + slope * (x - x0)
    found = arithmetic.where(x < xp[0], fp[0] if left is None else left, found)
    past = fp[-1] if right is None else right
    found = arithmetic.where(
        x > xp[-1], past, arithmetic.where(arithmetic.equal(x, xp[-1]), fp[-1], found)
    )
    return arithmetic.where(unary.isnan(x), x, found) if found.dtype.kind == "f" else found


def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = asarray(y)
    axis = normalize_axis("trapezoid", axis, y.ndim)
    steps = dx
    if x is not None:
        x = asarray(x)
        steps = joining.diff(x, axis=0 if x.ndim == 1 else axis)
        if x.ndim == 1:
            steps = movement.reshape(steps, (-1,) + (1,) * (y.ndim - axis - 1))
    front = (slice(None),) * axis
    pairs = y[(*front, slice(1, None))] + y[(*front, slice(None, -1))]
    return reduction.sum(steps * pairs / 2.0, axis=axis)


def gradient(f, *varargs, axis=None):
    f = asarray(f)
    f = f if f.dtype.kind in "fc" else f / 1.0
    axes = range(f.ndim) if axis is None else (axis,) if np.ndim(axis) == 0 else axis
    axes = [normalize_axis("gradient", one, f.ndim) for one in axes]
    spacing = [1.0] * len(axes) if not varargs else list(varargs)
    spacing = spacing * len(axes) if len(spacing) == 1 else spacing
    if len(spacing) != len(axes):
        raise TypeError(f"np.gradient: {len(varargs)} spacings for {len(axes)} axes.")
    found = [_slope(f, one, step) for one, step in zip(axes, spacing, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(f, axis, step):
    """Second-order differences inside, first-order ones at the ends."""
    if f.shape[axis] < 2:
        raise ValueError(f"np.gradient: axis {axis} has length {f.shape[axis]}; it needs 2.")
    rows = movement.moveaxis(f, axis, 0)
    widths = step
    if np.ndim(step):
        widths = joining.diff(asarray(step))
        widths = movement.reshape(widths, (-1,) + (1,) * (f.ndim - 1))
    slopes = joining.diff(rows, axis=0) / widths
    inner = (slopes[1:] + slopes[:-1]) / 2.0
    if np.ndim(step):
        before, after = widths[:-1], widths[1:]
        inner = (slopes[1:] * before + slopes[:-1] * after) / (before + after)
    whole = joining.concat([slopes[:1], inner, slopes[-1:]], axis=0)
    return movement.moveaxis(whole, 0, axis)


def _line(name, x):
    x = atleast_1d(x)
    if x.ndim > 1 or not x.size:
        raise ValueError(f"np.{name}: shape {x.shape}. Both operands need one axis, not empty.")
    return x


def convolve(a, v, mode="full"):
    a, v = _line("convolve", a), _line("convolve", v)
    a, v = (v, a) if a.size < v.size else (a, v)
    n, m = a.size, v.size
    both = np.result_type(a.dtype, v.dtype)
    x = movement.reshape(cast(a, both), (1, 1, n, 1))
    kernel = movement.reshape(movement.flip(cast(v, both)), (1, m, 1, 1))
    full = convolution.convolve(x, kernel, (1,), (1,), padding=((m - 1, m - 1),))
    full = movement.reshape(full, (-1,))
    return _window(full, n, m, mode, (m - 1) // 2)


def _window(full, n, m, mode, start):
    if mode == "full":
        return full
    if mode == "same":
        return full[start : start + n]
    if mode != "valid":
        raise ValueError(f"mode={mode!r} is not one of 'full', 'same', 'valid'.")
    return full[m - 1 : n]


def correlate(a, v, mode="valid"):
    a, v = _line("correlate", a), _line("correlate", v)
    v = movement.flip(complexes.conj(v) if v.dtype.kind == "c" else v)
    if a.size >= v.size or mode != "same":
        return convolve(a, v, mode)
    full = convolve(a, v, "full")
    return _window(full, v.size, a.size, "same", a.size // 2)


def cov(m, y=None, rowvar=True, bias=False, ddof=None, *, dtype=None):
    rows = _observations(m, rowvar)
    if y is not None:
        rows = joining.concat([rows, _observations(y, rowvar)], axis=0)
    rows = rows if rows.dtype.kind in "fc" else rows / 1.0
    rows = rows if dtype is None else cast(rows, dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    rows = rows - reduction.mean(rows, axis=1, keepdims=True)
    other = complexes.conj(rows) if rows.dtype.kind == "c" else rows
    divisor = rows.shape[1] - ddof
    product = contraction.matmul(rows, movement.matrix_transpose(other))
    found = product / float(divisor if divisor > 0 else 0)
    squeezed = tuple(axis for axis, length in enumerate(found.shape) if length == 1)
    return movement.squeeze(found, squeezed) if squeezed else found


def _observations(m, rowvar):
    m = asarray(m)
    if m.ndim > 2:
        raise ValueError(f"np.cov: shape {m.shape} has more than 2 axes.")
    rows = movement.reshape(m, (1, -1)) if m.ndim < 2 else m
    return rows if rowvar or m.ndim < 2 or rows.shape[0] == 1 else movement.matrix_transpose(rows)


def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    deviation = unary.sqrt(complexes.real(triangles.diagonal(found)))
    found = found / movement.reshape(deviation, (-1, 1)) / deviation
    return found if found.dtype.kind == "c" else arithmetic.clip(found, -1.0, 1.0)


def vander(x, N=None, increasing=False):
    x = asarray(x)
    if x.ndim != 1:
        raise ValueError(f"np.vander: x= has shape {x.shape}, not one axis.")
    count = x.size if N is None else N
    column = movement.reshape(x if x.dtype.kind != "b" else cast(x, "int64"), (-1, 1))
    ones = creation.ones((x.size, 1), dtype=column.dtype)
    columns = [ones[:, :0]]
    for at in range(count):
        columns.append(columns[-1] * column if at else ones)
    found = joining.concat(columns, axis=1)
    return found if increasing else movement.flip(found, axis=1)


def polyval(p, x):
    p, x = ravel(p), asarray(x)
    total = creation.zeros(x.shape, dtype=x.dtype)
    for at in range(p.size):
        total = total * x + p[at]
    return total


def _polynomials(ours):
    def call(a1, a2):
        first, second = atleast_1d(a1), atleast_1d(a2)
        length = max(first.size, second.size)
        padded = [
            joining.concat([creation.zeros(length - each.size, dtype=each.dtype), each], axis=0)
            for each in (first, second)
        ]
        return ours(*padded)

    return call


def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi):
    p = asarray(p)
    p = p if p.dtype.kind == "f" else p / 1.0
    discont = period / 2 if discont is None else discont
    steps = joining.diff(p, axis=axis)
    turned = arithmetic.remainder(steps + period / 2, period) - period / 2
    edge = arithmetic.logical_and(arithmetic.equal(turned, -period / 2), steps > 0.0)
    turned = arithmetic.where(edge, period / 2, turned)
    change = arithmetic.where(complexes.abs(steps) < discont, 0.0, turned - steps)
    axis = normalize_axis("unwrap", axis, p.ndim)
    first = p[(slice(None),) * axis + (slice(0, 1),)] * 0.0
    return p + reduction.cumulative_sum(joining.concat([first, change], axis=axis), axis=axis)


def piecewise(x, condlist, funclist, *args, **kw):
    x = asarray(x)
    conditions = (
        [asarray(each) for each in condlist] if np.ndim(condlist[0]) else [asarray(condlist)]
    )
    pieces = list(funclist)
    if len(pieces) == len(conditions) + 1:
        rest = pieces.pop()
    elif len(pieces) == len(conditions):
        rest = 0
    else:
        raise ValueError(
            f"np.piecewise: {len(conditions)} conditions and {len(pieces)} functions. Give one for "
            "each, and one more for the rest if need be."
        )

    def piece(each):
        return cast(asarray(each(x, *args, **kw) if callable(each) else each), x.dtype)

    found = piece(rest)
    found = movement.broadcast_to(found, x.shape)
    for condition, each in zip(conditions, pieces, strict=True):
        found = arithmetic.where(condition, piece(each), found)
    return found


def bincount(x, /, weights=None, minlength=0):
    places = x.numpy() if hasattr(x, "enter") else np.asarray(x)
    if weights is None:
        return asarray(np.bincount(places, minlength=minlength))
    weights = cast(asarray(weights), "float64")
    length = max(int(places.max(initial=-1)) + 1, minlength)
    return indexing.scatter_add(creation.zeros(length, dtype="float64"), places, weights)


FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **same_names(
        np,
        globals(),
        "clip round angle nan_to_num iscomplex isreal interp trapezoid gradient convolve "
        "correlate cov corrcoef vander polyval unwrap piecewise bincount real_if_close",
    ),
    np.real: complexes.real,
    np.imag: complexes.imag,
    np.sinc: special.sinc,
    np.i0: bessel.i0,
    np.around: round,
    np.fix: unary.trunc,
    np.isposinf: _infinite(1.0),
    np.isneginf: _infinite(-1.0),
    np.polyadd: _polynomials(arithmetic.add),
    np.polysub: _polynomials(arithmetic.subtract),
    np.polymul: lambda a1, a2: convolve(a1, a2),
}
