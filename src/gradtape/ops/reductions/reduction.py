"""Reductions: sums, products, moments and logical ones.

Extrema, norms and cumulative ops have modules of their own; this module re-exports them, so that
it has every reduction. Its functions shadow the builtins of the same names.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, Never

import numpy as np

from gradtape.argument_checks import as_real
from gradtape.dtypes import as_dtype
from gradtape.ir import Accumulation, Node, Op, Rule, apply, constant, spec
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal, record_operand, where
from gradtape.ops.elementwise.complexes import imag, real
from gradtape.ops.elementwise.unary import exp, log, square
from gradtape.ops.families import Sample, identities, promotion
from gradtape.ops.families.define import define
from gradtape.ops.families.elementwise import conjugate
from gradtape.ops.families.reductions import (
    accumulator,
    count,
    in_dtype,
    inexact_operand,
    reduced,
    reduction_samples,
)
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.shapes import (
    Ints,
    expand_reduced,
    normalize_axes,
    reduced_shape,
    reduced_spec,
    reduction_params,
)
from gradtape.ops.families.signatures import Axes, DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.reductions.cumulative import cumulative_prod, cumulative_sum, product_of_others
from gradtape.ops.reductions.extrema import MAX, argmax, argmin, max, median, min, quantile
from gradtape.ops.reductions.norm import norm
from gradtape.suggestions import unexpected_arguments
from gradtape.trace import record
from gradtape.trace.record import parametric

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "median",
    "min",
    "norm",
    "prod",
    "quantile",
    "std",
    "sum",
    "var",
]


_ACCUMULATED = ("float64", "float32", "complex128", "int32", "bool")

SUM = define(
    "sum",
    "reduction",
    spec=reduced_spec(accumulator),
    numpy=np.sum,
    transpose=lambda g, x, axis, keepdims: expand_reduced(g, x.shape, axis),
    reduction=Accumulation.SUM,
    simpler=identities.reduction,
    samples=reduction_samples("sum", _ACCUMULATED),
)


_record_sum = parametric(SUM)


def _accumulate(recorder: Any, x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    x, name = record_operand(x), recorder.op.name
    params = reduction_params(name, x.spec.ndim, axis, keepdims)
    if dtype is None:
        return recorder(*params, x)
    if dtype is True or dtype is False:
        raise TypeError(f"{name}: dtype={dtype} is a flag. Pass keepdims={dtype} by name.")
    dtype = as_dtype(dtype)
    # Narrow integers are accumulated in 64 bits; an explicit narrow `dtype` is cast to afterwards.
    return in_dtype(recorder(*params, in_dtype(x, dtype)), dtype)


@kind_of_operand
def sum(
    x: TensorLike,
    /,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Sum over axes, all by default.

    >>> gt.sum(gt.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _accumulate(_record_sum, x, axis, dtype, keepdims)


def _partial_products(x: Node, axis: Ints) -> Node | None:
    """The derivative of the product by each element: the product of all other elements."""
    total = None
    for position in axis:
        others = product_of_others(x, position)
        total = others if total is None else total * others
        x = apply(PROD, (x,), ((position,), True))
    return total


def _push_prod(t: Node, y: Node, x: Node, axis: Ints, keepdims: bool) -> Node:
    partials = _partial_products(x, axis)
    return apply(SUM, (t if partials is None else t * partials,), (axis, keepdims))


def _pull_prod(g: Node, y: Node, x: Node, axis: Ints, keepdims: bool) -> Node:
    partials = _partial_products(x, axis)
    g = expand_reduced(g, x.shape, axis)
    return g if partials is None else g * conjugate(partials)


def _prod_samples() -> list[Sample]:
    zeros = np.array([[0.0, 2.0, 0.5], [3.0, 0.0, 0.0]])
    cases: list[Ints] = [(0,), (1,), (0, 1)]
    return reduction_samples("prod", _ACCUMULATED)() + [
        Sample((zeros,), {"axis": axis, "keepdims": False}) for axis in cases
    ]


PROD = define(
    "prod",
    "reduction",
    spec=reduced_spec(accumulator),
    numpy=np.prod,
    push=_push_prod,
    pull=_pull_prod,
    reduction=Accumulation.PROD,
    simpler=identities.reduction,
    samples=_prod_samples,
)


_record_prod = parametric(PROD)


@kind_of_operand
def prod(
    x: TensorLike,
    /,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Product over axes, all by default; the derivative is exact at zeros too.

    >>> gt.prod(gt.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [3.0, 8.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _accumulate(_record_prod, x, axis, dtype, keepdims)


def _logical(name: str, numpy: Rule, reduction: Accumulation) -> Op:
    return define(
        name,
        "reduction",
        spec=reduced_spec(lambda dtype: np.dtype(bool)),
        numpy=numpy,
        undefined=f"{name} gives booleans",
        reduction=reduction,
        samples=reduction_samples(name, ("bool", "float64", "int32")),
    )


ANY = _logical("any", np.any, Accumulation.ANY)
ALL = _logical("all", np.all, Accumulation.ALL)


@kind_of_operand
def any(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Whether any element is nonzero.

    >>> bool(gt.any(gt.asarray([0, 1])))
    True
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return reduced(ANY, record_operand(x), axis, keepdims)


@kind_of_operand
def all(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Whether every element is nonzero.

    >>> bool(gt.all(gt.asarray([0, 1])))
    False
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return reduced(ALL, record_operand(x), axis, keepdims)


@kind_of_operand
def count_nonzero(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """The number of elements that are not zero; NaN is not.

    >>> int(gt.count_nonzero(gt.asarray([0.0, 1.0, -2.0])))
    2
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = in_dtype(record_operand(x), np.dtype(bool))
    return record(SUM, (x,), reduction_params("count_nonzero", x.ndim, axis, keepdims))


@kind_of_operand
def mean(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Arithmetic mean over axes, all by default; NaN if there is nothing to average.

    >>> gt.mean(gt.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [2.0, 3.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = inexact_operand(x)
    params = reduction_params("mean", x.ndim, axis, keepdims)
    return record(SUM, (x,), params) / count(x, params[0])


def _from_mean(x: Node, axis: Ints) -> Node:
    """The distance of each element from the mean."""
    total = apply(SUM, (x,), (axis, True))
    # An empty axis has no mean, and no distances from it.
    number = x.size // builtins.max(total.size, 1)
    return x - total / constant(number, spec((), x.dtype))


def _squared_deviations_kernel(x: np.ndarray, axis: Ints, keepdims: bool) -> np.ndarray:
    total = np.sum(x, axis=axis, keepdims=True)
    number = x.size // builtins.max(total.size, 1)
    distance = x - total / x.dtype.type(builtins.max(number, 1))
    return np.asarray(np.sum(np.square(distance), axis=axis, keepdims=keepdims))


def _squared_deviations_composition(x: Node, axis: Ints, keepdims: bool) -> Node | None:
    """Two passes, unless columns are reduced: rows stay in a cache from one pass to the next."""
    long = [position for position in range(x.ndim) if x.shape[position] != 1]
    reduced = [long.index(position) for position in axis if position in long]
    if reduced and reduced[-1] - reduced[0] == len(reduced) - 1 and reduced[-1] != len(long) - 1:
        return None
    return apply(SUM, (square(_from_mean(x, axis)),), (axis, keepdims))


def _push_deviations(t: Node, y: Node, x: Node, axis: Ints, keepdims: bool) -> Node:
    # Distances add up to 0, so the tangent of the mean adds nothing.
    terms = _from_mean(x, axis) * t
    return apply(SUM, (terms + terms,), (axis, keepdims))


SQUARED_DEVIATIONS = define(
    "squared_deviations",
    "reduction",
    numpy=_squared_deviations_kernel,
    promote=promotion("squared_deviations", "float", "float"),
    push=_push_deviations,
    pull=lambda g, y, x, axis, keepdims: expand_reduced(g + g, x.shape, axis) * _from_mean(x, axis),
    reduction=Accumulation.SQUARED_DEVIATIONS,
    composition=_squared_deviations_composition,
    counts_elements=True,
    samples=reduction_samples("squared_deviations", ("float64", "float32")),
    doc="The sum of squared distances from the mean: the variance is this over n.",
)


def _divisor(name: str, x: Any, axes: Ints, correction: float) -> float:
    """The divisor of the sum of squared distances."""
    number = count(x, axes) - as_real(f"{name}: correction", correction)
    return number if number > 0.0 else 0.0


@kind_of_operand
def var(
    x: TensorLike,
    /,
    axis: Axes = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Variance over axes: the sum of squared distances from the mean over n - correction.

    >>> float(gt.var(gt.asarray([1.0, 2.0, 3.0, 4.0])))
    1.25
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = inexact_operand(x)
    params = reduction_params("var", x.ndim, axis, keepdims)
    number = _divisor("var", x, params[0], correction)
    parts = (real(x), imag(x)) if x.dtype.kind == "c" else (x,)
    squares = [record(SQUARED_DEVIATIONS, (part,), params) for part in parts]
    return (squares[0] if len(squares) == 1 else squares[0] + squares[1]) / number


@kind_of_operand
def std(
    x: TensorLike,
    /,
    axis: Axes = None,
    correction: float = 0.0,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Standard deviation over axes; its derivative is 0 where it is 0.

    >>> float(gt.std(gt.asarray([1.0, 1.0, 3.0, 3.0])))
    1.0
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = inexact_operand(x)
    axes = normalize_axes("std", axis, x.ndim)
    number = _divisor("std", x, axes, correction)
    return norm(x - mean(x, axis=axes, keepdims=True), 2, axes, keepdims) / math.sqrt(number)


def _exponentials(x: np.ndarray, axis: Ints) -> tuple[Any, Any]:
    """exp(x - m) and the maximum m; exp(0) at x = m even if infinite, as inf - inf is NaN."""
    highest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.exp(np.where(x == highest, x.dtype.type(0), x - highest)), highest


def _logsumexp_kernel(x: np.ndarray, axis: Ints, keepdims: bool) -> np.ndarray:
    terms, highest = _exponentials(x, axis)
    total = np.log(np.sum(terms, axis=axis, keepdims=True)) + highest
    return total.reshape(reduced_shape(x.shape, axis, keepdims))


def _weights_kernel(x: np.ndarray, axis: Ints) -> np.ndarray:
    terms, highest = _exponentials(x, axis)
    weights = terms / np.sum(terms, axis=axis, keepdims=True)
    return np.where(highest == -np.inf, x.dtype.type(0), weights)


def _exponential_nodes(x: Node, axis: Ints) -> tuple[Node, Node, Node]:
    """The maximum m, the terms exp(x - m), and their sum, as nodes for the compositions."""
    highest = apply(MAX, (x,), (axis, True))
    zero = constant(0, spec((), x.dtype))
    # The difference is 0 at the maximum even if both are infinite: inf - inf would be NaN.
    terms = exp(where(equal(x, highest), zero, x - highest))
    return highest, terms, apply(SUM, (terms,), (axis, True))


def _logsumexp_composition(x: Node, axis: Ints, keepdims: bool) -> Node:
    highest, _, total = _exponential_nodes(x, axis)
    return reshape_node(log(total) + highest, reduced_shape(x.shape, axis, keepdims))


def _weights_composition(x: Node, axis: Ints) -> Node:
    highest, terms, total = _exponential_nodes(x, axis)
    nothing = equal(highest, constant(-np.inf, spec((), x.dtype)))
    return where(nothing, constant(0, spec((), x.dtype)), terms / total)


def _weights_tangent(tangent: Node, y: Node, x: Node, axis: Ints) -> Node:
    """The Jacobian of the weights times a vector; it is symmetric, so it serves both modes."""
    weighted = y * tangent
    return weighted - y * apply(SUM, (weighted,), (axis, True))


# Weights are computed from the operand: exp(x - logsumexp(x)) loses digits if the result is large.
LOGSUMEXP_WEIGHTS = define(
    "logsumexp_weights",
    "reduction",
    params=("axis",),
    spec=lambda x, axis: x,
    numpy=_weights_kernel,
    push=_weights_tangent,
    pull=_weights_tangent,
    mask=lambda index, mask, y, inputs, axis: expand_reduced(
        apply(ANY, (mask,), (axis, True)), mask.shape, axis
    ),
    composition=_weights_composition,
    samples=drawn(
        "logsumexp_weights",
        ("axis",),
        ((2, 3), (1,)),
        ((2, 3), (0, 1)),
        ((2, 3), ()),
        ((0, 2), (0,)),
        dtypes=("float64", "float32"),
    ),
    doc="The derivative of log-sum-exp: exp(x) over its sum; 0 where all are -inf.",
)


def _weights(x: Node, axis: Ints) -> Node:
    return apply(LOGSUMEXP_WEIGHTS, (x,), (axis,))


LOGSUMEXP = define(
    "logsumexp",
    "reduction",
    numpy=_logsumexp_kernel,
    promote=promotion("logsumexp", "float", "float"),
    push=lambda t, y, x, axis, keepdims: apply(SUM, (_weights(x, axis) * t,), (axis, keepdims)),
    pull=lambda g, y, x, axis, keepdims: _weights(x, axis) * expand_reduced(g, x.shape, axis),
    composition=_logsumexp_composition,
    samples=reduction_samples("logsumexp", ("float64", "float32")),
)


@kind_of_operand
def logsumexp(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """log(sum(exp(x))) over axes, all by default, without overflow.

    >>> round(float(gt.logsumexp(gt.asarray([1000.0, 1000.0]))), 6)
    1000.693147
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return reduced(LOGSUMEXP, record_operand(x), axis, keepdims)
