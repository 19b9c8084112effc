"""Extrema and order statistics: reductions that choose elements by comparison.

For derivatives, one op marks the chosen elements from the operand alone. It does not compare the
operand with a saved extremum: a recomputed operand may differ from that in its last bits.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Never, SupportsIndex

import numpy as np

from gradtape.argument_checks import as_flag, as_real
from gradtape.ir import REGISTRY, Accumulation, Node, Op, Rule, Spec, apply, constant, spec
from gradtape.ops.arrays.movement import permute, reshape_node
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.elementwise.arithmetic import equal, record_operand, where
from gradtape.ops.elementwise.unary import isnan
from gradtape.ops.families import Sample, batching, cast, identities
from gradtape.ops.families.define import define
from gradtape.ops.families.reductions import (
    add_up,
    count,
    inexact_operand,
    reduced,
    reduction_samples,
    require_order,
)
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.shapes import (
    Ints,
    expand_reduced,
    normalize_axis,
    reduced_shape,
    reduction_params,
)
from gradtape.ops.families.signatures import Axes, Tensor, TensorLike, kind_of_operand
from gradtape.suggestions import unexpected_arguments
from gradtape.trace.record import record
from gradtape.trace.value import host_value

if TYPE_CHECKING:
    pass

_BOOL = np.dtype(bool)
_INDEX = np.dtype(np.int64)
_ORDERED = ("float64", "float32", "int32", "uint8", "bool")


def _chosen(name: str, kernel: Rule) -> Op:
    """Declare the op that marks the extreme elements; a NaN counts as extreme."""

    def composition(x: Node, axis: Ints) -> Node:
        # The compiled tier computes every value once and reads it from memory afterwards, so here
        # the extremum can safely be compared with the elements.
        extreme = apply(REGISTRY[name], (x,), (axis, True))
        found = equal(x, extreme)
        # NaN is the extremum if there is one, but NaN != NaN.
        return found | isnan(x) if x.dtype.kind == "f" else found

    def choose(x: np.ndarray, axis: Ints) -> np.ndarray:
        extreme = kernel(x, axis=axis, keepdims=True)
        return (x == extreme) | ((x != x) & (extreme != extreme))

    return define(
        f"{name}_mask",
        "reduction",
        params=("axis",),
        spec=lambda x, axis: spec(x.shape, _BOOL),
        numpy=choose,
        undefined=f"{name}_mask gives booleans",
        composition=composition,
        samples=lambda: [
            Sample((np.array([[1.0, 3.0, 3.0], [np.nan, 2.0, 1.0]]),), {"axis": (1,)}),
            Sample((np.array(2),), {"axis": ()}),
            Sample((np.zeros((0, 2)),), {"axis": (1,)}),
        ],
    )


def _extremum(name: str, kernel: Rule, reduction: Accumulation) -> Op:
    chosen = _chosen(name, kernel)

    def spec_rule(x: Spec, axis: Ints, keepdims: bool) -> Spec:
        require_order(name, x, axis)
        return spec(reduced_shape(x.shape, axis, keepdims), x.dtype)

    def push(t: Node, y: Node, x: Node, axis: Ints, keepdims: bool) -> Node:
        mask = apply(chosen, (x,), (axis,))
        number = cast(add_up(mask, axis, keepdims), y.dtype)
        return add_up(where(mask, t, 0.0), axis, keepdims) / number

    def pull(g: Node, y: Node, x: Node, axis: Ints, keepdims: bool) -> Node:
        mask = apply(chosen, (x,), (axis,))
        number = cast(add_up(mask, axis, keepdims), y.dtype)
        return where(mask, expand_reduced(g / number, x.shape, axis), 0.0)

    return define(
        name,
        "reduction",
        spec=spec_rule,
        numpy=kernel,
        push=push,
        pull=pull,
        reduction=reduction,
        simpler=identities.reduction,
        samples=reduction_samples(name, _ORDERED),
    )


MAX = _extremum("max", np.max, Accumulation.MAX)
MIN = _extremum("min", np.min, Accumulation.MIN)


@kind_of_operand
def max(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Largest element over axes, all by default; ties share the derivative equally.

    >>> gt.max(gt.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [5.0, 4.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return reduced(MAX, record_operand(x), axis, keepdims)


@kind_of_operand
def min(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Smallest element over axes, all by default; ties share the derivative equally.

    >>> gt.min(gt.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    [1.0, 3.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return reduced(MIN, record_operand(x), axis, keepdims)


def _position_batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, axis: int | None, keepdims: bool
) -> Node:
    if axis is not None:
        return apply(y.op, inputs, (axis + 1, keepdims))
    # The position counts all elements of one example.
    flat = batching.reshaped(inputs[0], (inputs[0].shape[0], y.inputs[0].size))
    return batching.reshaped(apply(y.op, (flat,), (1, False)), (flat.shape[0], *y.shape))


def _position(name: str, kernel: Rule, reduction: Accumulation) -> Op:
    def spec_rule(x: Spec, axis: int | None, keepdims: bool) -> Spec:
        axes = tuple(range(x.ndim)) if axis is None else (axis,)
        require_order(name, x, axes)
        return spec(reduced_shape(x.shape, axes, keepdims), _INDEX)

    return define(
        name,
        "reduction",
        spec=spec_rule,
        numpy=kernel,
        undefined=f"{name} gives integers",
        batch=_position_batch,
        reduction=reduction,
        samples=drawn(
            name,
            ("axis", "keepdims"),
            ((2, 3), None, False),
            ((2, 3), None, True),
            ((2, 3), 1, False),
            ((2, 3), 0, True),
            ((), None, False),
            ((0, 3), 1, False),
            dtypes=_ORDERED,
        ),
    )


ARGMAX = _position("argmax", np.argmax, Accumulation.ARGMAX)
ARGMIN = _position("argmin", np.argmin, Accumulation.ARGMIN)


def _record_position(op: Op, x: Any, axis: Any, keepdims: bool) -> Any:
    x = record_operand(x)
    position = None if axis is None else normalize_axis(op.name, axis, x.ndim)
    return record(op, (x,), (position, as_flag(f"{op.name}: keepdims", keepdims)))


@kind_of_operand
def argmax(
    x: TensorLike,
    /,
    axis: SupportsIndex | None = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Index of the first largest element along an axis, of all elements by default.

    >>> gt.argmax(gt.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=0).tolist()
    [1, 0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _record_position(ARGMAX, x, axis, keepdims)


@kind_of_operand
def argmin(
    x: TensorLike,
    /,
    axis: SupportsIndex | None = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Index of the first smallest element along an axis, of all elements by default.

    >>> gt.argmin(gt.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=0).tolist()
    [0, 1]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _record_position(ARGMIN, x, axis, keepdims)


def _lanes(x: np.ndarray, axis: Ints) -> np.ndarray:
    """The array with the reduced axes merged into one last axis."""
    moved = np.moveaxis(x, axis, range(-len(axis), 0)) if axis else x
    return moved.reshape((*moved.shape[: x.ndim - len(axis)], count(x, axis)))


def _order_kernel(
    x: np.ndarray, axis: Ints, keepdims: bool, ranks: tuple[int, ...], weights: tuple[float, ...]
) -> np.ndarray:
    # NaN sorts last, so the last element of a lane is NaN if any of the lane is.
    lanes = np.partition(_lanes(x, axis), sorted({*ranks, count(x, axis) - 1}), axis=-1)
    total = np.zeros(lanes.shape[:-1], x.dtype)
    for rank, weight in zip(ranks, weights, strict=True):
        total += lanes[..., rank] * x.dtype.type(weight)
    last = lanes[..., -1]
    return np.where(last != last, last, total).reshape(reduced_shape(x.shape, axis, keepdims))


def _sorted_lanes(x: Node, axis: Ints) -> tuple[Node, tuple[int, ...]]:
    """The reduced axes merged into one last axis, and the permutation that moved them there."""
    order = (*(at for at in range(x.ndim) if at not in axis), *axis)
    kept = tuple(x.shape[at] for at in order[: x.ndim - len(axis)])
    return reshape_node(permute(x, order), (*kept, count(x, axis))), order


def _order_composition(
    x: Node, axis: Ints, keepdims: bool, ranks: tuple[int, ...], weights: tuple[float, ...]
) -> Node:
    lanes, _ = _sorted_lanes(x, axis)
    last = lanes.ndim - 1
    rows = apply(REGISTRY["sort"], (lanes,), (last, False))
    kept = lanes.shape[:-1]

    def ranked(rank: int) -> Node:
        return reshape_node(along_axis(rows, last, rank, 1), kept)

    total = None
    for rank, weight in zip(ranks, weights, strict=True):
        # NumPy's sum begins with 0, which makes 0.0 of -0.0.
        before = constant(0, spec((), x.dtype)) if total is None else total
        total = apply(
            REGISTRY["shift"], (before, ranked(rank) * constant(weight, spec((), x.dtype)))
        )
    assert total is not None
    end = ranked(lanes.shape[-1] - 1)
    found = where(isnan(end), end, total)
    return reshape_node(found, reduced_shape(x.shape, axis, keepdims))


def _places(lanes: Node, ranks: tuple[int, ...]) -> list[Node]:
    """The positions of the elements with the given ranks in each lane, or of the first NaN.

    A small change of the operand does not change which elements are chosen.
    """
    last = lanes.ndim - 1
    order = apply(REGISTRY["argsort"], (lanes,), (last, False, True))
    nan = isnan(lanes)
    first = apply(ARGMAX, (nan,), (last, True))
    undefined = apply(REGISTRY["any"], (nan,), ((last,), True))
    return [where(undefined, first, along_axis(order, last, rank, 1)) for rank in ranks]


def _push_order(
    t: Node, y: Node, x: Node, axis: Ints, keepdims: bool, ranks: Ints, weights: tuple[float, ...]
) -> Node:
    tangents, last = _sorted_lanes(t, axis)[0], x.ndim - len(axis)
    terms = [
        apply(REGISTRY["take_along_axis"], (tangents, place), (last,)) * weight
        for place, weight in zip(_places(_sorted_lanes(x, axis)[0], ranks), weights, strict=True)
    ]
    return reshape_node(functools.reduce(operator.add, terms), y.shape)


def _pull_order(
    g: Node, y: Node, x: Node, axis: Ints, keepdims: bool, ranks: Ints, weights: tuple[float, ...]
) -> Node:
    lanes, order = _sorted_lanes(x, axis)
    found, share = constant(0, lanes.spec), reshape_node(g, (*lanes.shape[:-1], 1))
    for place, weight in zip(_places(lanes, ranks), weights, strict=True):
        written = (found, place, share * weight)
        found = apply(REGISTRY["add_along_axis"], written, (lanes.ndim - 1,))
    moved = reshape_node(found, tuple(x.shape[at] for at in order))
    return permute(moved, tuple(order.index(at) for at in range(x.ndim)))


ORDER_STATISTIC = define(
    "order_statistic",
    "reduction",
    params=("axis", "keepdims", "ranks", "weights"),
    numpy=_order_kernel,
    push=_push_order,
    pull=_pull_order,
    composition=_order_composition,
    samples=drawn(
        "order_statistic",
        ("axis", "ranks", "weights"),
        ((5,), (0,), (2,), (1.0,)),
        ((2, 4), (1,), (1, 2), (0.5, 0.5)),
        ((2, 3, 2), (0, 2), (1, 2), (0.25, 0.75)),
        ((), (), (0,), (1.0,)),
        ((0, 3), (1,), (1,), (1.0,)),
        dtypes=("float64", "float32"),
        keepdims=False,
    ),
    doc="Weighted sum of the elements with the given ranks; NaN where there is one.",
)


def _interpolated(name: str, x: Any, fraction: float, axis: Any, keepdims: bool) -> Any:
    """The quantile at `fraction`, interpolated between the two neighbouring ranks."""
    x = inexact_operand(x)
    axes, keeps = reduction_params(name, x.ndim, axis, keepdims)
    number = count(x, axes)
    if number == 0:
        return record(REGISTRY["sum"], (x,), (axes, keeps)) / 0
    require_order(name, x, axes)
    place = fraction * (number - 1)
    low = math.floor(place)
    pairs = [(low, 1.0 - (place - low)), (low + 1, place - low)]
    ranks, weights = zip(*[pair for pair in pairs if pair[1] > 0.0], strict=True)
    return record(ORDER_STATISTIC, (x,), (axes, keeps, ranks, weights))


@kind_of_operand
def median(
    x: TensorLike, /, axis: Axes = None, keepdims: bool = False, *more: Never, **unknown: Never
) -> Tensor:
    """Middle element over axes, or the mean of the two in the middle.

    The derivative goes to the elements chosen; equal ones count in the order they stand in.

    >>> gt.median(gt.asarray([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]), axis=1).tolist()
    [2.0, 5.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _interpolated("median", x, 0.5, axis, keepdims)


@kind_of_operand
def quantile(
    x: TensorLike,
    q: TensorLike,
    /,
    axis: Axes = None,
    keepdims: bool = False,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Quantile over axes by linear interpolation; several make a new first axis.

    `q` is a number from 0 to 1 or a sequence of them, and part of the program.

    >>> float(gt.quantile(gt.asarray([0.0, 1.0, 2.0, 4.0]), 0.75))
    2.5
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    fractions: Any = host_value(q).array if isinstance(q, (list, tuple)) else q
    if np.ndim(fractions):
        if not len(fractions):
            raise ValueError("quantile: q is empty. Pass at least one fraction from 0 to 1.")
        parts = tuple(quantile(x, one, axis, keepdims) for one in fractions)
        return record(REGISTRY["stack"], parts, (0,))
    fraction = as_real("quantile: q", fractions)
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"quantile: q = {fraction} is not a fraction. Choose from 0 to 1.")
    return _interpolated("quantile", x, fraction, axis, keepdims)
