"""Vector norms over any axes, without overflow, with derivative 0 at 0."""

from __future__ import annotations

import math
from typing import Never

import numpy as np

from gradtape.dtypes import REAL_OF, Array
from gradtape.ir import REGISTRY, Node, apply, constant, spec
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal, not_equal, power, where
from gradtape.ops.elementwise.complexes import abs, imag, real, sign
from gradtape.ops.elementwise.unary import sqrt, square
from gradtape.ops.families import Sample, cast, promotion
from gradtape.ops.families.define import define
from gradtape.ops.families.elementwise import conjugate, zeros_like
from gradtape.ops.families.reductions import add_up, count, inexact_operand, reduction_samples
from gradtape.ops.families.shapes import (
    Ints,
    expand_reduced,
    reduced_shape,
    reduced_spec,
    reduction_params,
)
from gradtape.ops.families.signatures import Axes, Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import lanes, nothing
from gradtape.ops.reductions.extrema import max, min
from gradtape.suggestions import unexpected_arguments
from gradtape.trace.record import record

_DOUBLE = np.dtype(np.float64)


def _sum_of_powers(size: Array, ord: float, axis: Ints) -> Array:
    # NumPy sums pairwise, which is more accurate, only along the last axis in memory.
    kept = [position for position in range(size.ndim) if position not in axis]
    last = size.transpose(*kept, *axis)
    powers = np.square(last, order="C") if ord == 2.0 else np.power(last, ord, order="C")
    rows = powers.reshape(*[size.shape[position] for position in kept], count(size, axis))
    return np.sum(rows, axis=-1).reshape(reduced_shape(size.shape, axis, True))


def _root(total: Array, ord: float) -> Array:
    return np.sqrt(total) if ord == 2.0 else np.power(total, 1.0 / ord)


def _kernel(x: Array, ord: float, axis: Ints, keepdims: bool) -> Array:
    size = np.abs(x)
    if ord == 0.0:
        return np.sum(x != 0, axis=axis, keepdims=keepdims, dtype=size.dtype)
    total = _sum_of_powers(size, ord, axis)
    result = _root(total, ord)
    # Powers overflow or underflow long before the norm does. Scaling is worth its cost only then.
    limits = np.finfo(size.dtype)
    doubtful = ~((total > limits.tiny / limits.eps) & (total < np.inf))
    if doubtful.any():
        choose, start = (np.max, 0.0) if ord > 0.0 else (np.min, np.inf)
        scale = choose(size, axis=axis, keepdims=True, initial=start)
        scale = np.where((scale > 0) & (scale < np.inf), scale, size.dtype.type(1))
        scaled = _root(_sum_of_powers(size / scale, ord, axis), ord) * scale
        result = np.where(doubtful, scaled, result)
    return result.reshape(reduced_shape(x.shape, axis, keepdims))


def _direction(y: Node, x: Node, ord: float, axis: Ints) -> Node | None:
    """The gradient of the norm: sign(x) (|x| / y)^(ord - 1), or 0 where this is undefined."""
    if ord == 0.0:
        return None
    y = expand_reduced(y, x.shape, axis)
    if ord == 2.0:
        return where(equal(y, 0), 0.0, x / y)
    size = abs(x)
    flat = equal(y, 0) | equal(size, 0)
    ratio = where(flat, 1.0, size / where(flat, 1.0, y))
    return where(flat, 0.0, sign(x) * power(ratio, ord - 1.0))


def _push(t: Node, y: Node, x: Node, ord: float, axis: Ints, keepdims: bool) -> Node:
    direction = _direction(y, x, ord, axis)
    if direction is None:
        return zeros_like(y)
    return add_up(real(conjugate(direction) * t), axis, keepdims)


def _pull(g: Node, y: Node, x: Node, ord: float, axis: Ints, keepdims: bool) -> Node:
    direction = _direction(y, x, ord, axis)
    return zeros_like(x) if direction is None else direction * expand_reduced(g, x.shape, axis)


def _composition(x: Node, ord: float, axis: Ints, keepdims: bool) -> Node | None:
    """The Euclidean norm: float32 is summed in float64; float64 is scaled in three ways at once.

    Scaling by powers of two is exact, so numbers with squares out of range lose no digits.
    """
    if ord != 2.0:
        return _of_order(x, ord, axis, keepdims)
    found, total = _scaled_norm(x, axis, None)
    if REAL_OF[x.dtype] == _DOUBLE:
        limits = np.finfo(_DOUBLE)
        low = _number(float(limits.tiny / limits.eps))
        small, large = _scaled_norm(x, axis, 2.0**600)[0], _scaled_norm(x, axis, 2.0**-600)[0]
        found = where(total < _number(np.inf), found, large)
        # If the total is NaN this comparison is false, and `found` is NaN already.
        found = where(total <= low, small, found)
    else:
        found = cast(found, REAL_OF[x.dtype])
    return reshape_node(found, reduced_shape(x.shape, axis, keepdims))


def _of_order(x: Node, ord: float, axis: Ints, keepdims: bool) -> Node | None:
    """A norm of another order, of numbers scaled by the largest, or by the smallest of them."""
    dtype = REAL_OF[x.dtype]
    if ord == 0.0:
        found = add_up(
            cast(not_equal(x, cast(constant(0, spec((), dtype)), x.dtype)), dtype), axis, True
        )
        return reshape_node(found, reduced_shape(x.shape, axis, keepdims))
    size = cast(abs(x), _DOUBLE)
    extreme = REGISTRY["max" if ord > 0.0 else "min"]
    scale = apply(extreme, (size,), (axis, True))
    usable = (scale > _number(0.0)) & (scale < _number(np.inf))
    scale = where(usable, scale, _number(1.0))
    total = add_up(power(size / scale, _number(ord)), axis, True)
    root = power(total, _number(1.0 / ord)) * scale
    return reshape_node(cast(root, dtype), reduced_shape(x.shape, axis, keepdims))


def _scaled_norm(x: Node, axis: Ints, scale: float | None) -> tuple[Node, Node]:
    """The norm, computed from scaled numbers and scaled back, and the scaled sum of squares."""
    squares = None
    for part in (real, imag) if x.dtype.kind == "c" else (None,):
        number = cast(x if part is None else part(x), _DOUBLE)
        if scale is not None:
            number = number * _number(scale)
        squares = square(number) if squares is None else squares + square(number)
    assert squares is not None
    total = add_up(squares, axis, True)
    found: Node = sqrt(total)
    return found if scale is None else found * _number(1.0 / scale), total


def _number(value: float) -> Node:
    return constant(value, spec((), _DOUBLE))


def _samples() -> list[Sample]:
    found = []
    for ord in (2.0, 3.0, 1.5, -1.0):
        found += reduction_samples("norm", ("float64", "float32", "complex128"), ord=ord)()
    zeros = np.array([[0.0, 1.0], [0.0, 0.0]])
    found += [
        Sample((zeros,), {"ord": ord, "axis": (1,), "keepdims": False}, order=0)
        for ord in (2.0, 3.0, 1.5, 0.5, 0.0, -2.0)
    ]
    return found


NORM = define(
    "norm",
    "reduction",
    params=("ord", "axis", "keepdims"),
    spec=reduced_spec(lambda dtype: REAL_OF[dtype]),
    numpy=_kernel,
    promote=promotion("norm", "float", "inexact"),
    push=_push,
    pull=_pull,
    sparsity=lambda y, operands, ord, **axes: (lanes if ord else nothing)(y, operands, **axes),
    composition=_composition,
    samples=_samples,
)


@kind_of_operand
def norm(
    x: TensorLike,
    /,
    ord: float | str = 2,
    axis: Axes = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Vector norm over axes, all by default; its derivative is 0 where it is 0.

    `ord` is any number p for (Σ|x|^p)^(1/p), infinity for the largest absolute value, minus
    infinity for the smallest, 0 for the count of what is not zero.

    >>> float(gt.norm(gt.asarray([3.0, 4.0])))
    5.0
    >>> float(gt.norm(gt.asarray([3.0, -4.0]), np.inf))
    4.0
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    try:
        order = float(ord)
    except (TypeError, ValueError):
        order = math.nan
    if math.isnan(order):
        raise ValueError(
            f"norm: ord {ord!r} is not a number. Choose one such as 1, 2 or float('inf')."
        )
    x = inexact_operand(x)
    axes, keeps = reduction_params("norm", x.ndim, axis, keepdims)
    if order == 1.0 or (order == math.inf and count(x, axes) == 0):
        return record(REGISTRY["sum"], (abs(x),), (axes, keeps))
    if math.isinf(order):
        choose = max if order > 0.0 else min
        return choose(abs(x), axis=axes, keepdims=keeps)
    return record(NORM, (x,), (order, axes, keeps))
