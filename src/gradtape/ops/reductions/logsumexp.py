"""Log-sum-exp, and the weights that are its derivative: the softmax of its operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.graph import Node, Op, apply, constant, declare, spec
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal, record_operand, where
from gradtape.ops.elementwise.unary import exp, log
from gradtape.ops.families import batching, examples
from gradtape.ops.families.axes import Axes, reduced_shape, reduction_samples
from gradtape.ops.families.casting import promotion
from gradtape.ops.families.linear import expand_reduced, mask_reduced
from gradtape.ops.families.reads import lanes, reduced
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.shapes import normalize_axes
from gradtape.ops.families.signatures import Axis, Tensor, TensorLike, kind_of_operand
from gradtape.ops.reductions.extrema import MAX
from gradtape.ops.reductions.reduction import ANY, SUM
from gradtape.recording.record import record


def _exponentials(x: np.ndarray, axis: Axes) -> tuple[Any, Any]:
    """exp(x - m) and the maximum m; exp(0) at x = m even if infinite, as inf - inf is NaN."""
    highest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.exp(np.where(x == highest, x.dtype.type(0), x - highest)), highest


def _logsumexp_kernel(x: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
    terms, highest = _exponentials(x, axis)
    total = np.log(np.sum(terms, axis=axis, keepdims=True)) + highest
    return total.reshape(reduced_shape(x.shape, axis, keepdims))


def _weights_kernel(x: np.ndarray, axis: Axes) -> np.ndarray:
    terms, highest = _exponentials(x, axis)
    weights = terms / np.sum(terms, axis=axis, keepdims=True)
    return np.where(highest == -np.inf, x.dtype.type(0), weights)


def _exponential_nodes(x: Node, axis: Axes) -> tuple[Node, Node, Node]:
    """The maximum m, the terms exp(x - m), and their sum, as nodes for the compositions."""
    highest = apply(MAX, (x,), (axis, True))
    zero = constant(0, spec((), x.dtype))
    # The difference is 0 at the maximum even if both are infinite: inf - inf would be NaN.
    terms = exp(where(equal(x, highest), zero, x - highest))
    return highest, terms, apply(SUM, (terms,), (axis, True))


def _logsumexp_composition(x: Node, axis: Axes, keepdims: bool) -> Node:
    highest, _, total = _exponential_nodes(x, axis)
    return reshape_node(log(total) + highest, reduced_shape(x.shape, axis, keepdims))


def _weights_composition(x: Node, axis: Axes) -> Node:
    highest, terms, total = _exponential_nodes(x, axis)
    nothing = equal(highest, constant(-np.inf, spec((), x.dtype)))
    return where(nothing, constant(0, spec((), x.dtype)), terms / total)


def _weights_tangent(tangent: Node, y: Node, axis: Axes) -> Node:
    """The Jacobian of the weights times a vector; it is symmetric, so it serves both modes."""
    weighted = y * tangent
    return weighted - y * apply(SUM, (weighted,), (axis, True))


# Weights are computed from the operand: exp(x - logsumexp(x)) loses digits if the result is large.
LOGSUMEXP_WEIGHTS = declare(Op(
    "logsumexp_weights", "reduction", params=("axis",), spec=lambda x, axis: x,
    numpy=_weights_kernel,
    jvp=lambda tangents, y, inputs, axis: _weights_tangent(tangents[0], y, axis),
    vjp=lambda index, g, y, inputs, axis: _weights_tangent(g, y, axis),
    mask=lambda index, mask, y, inputs, axis: expand_reduced(
        apply(ANY, (mask,), (axis, True)), mask.shape, axis
    ),
    batch=batching.shifted("axis"), examples=examples.reduction, sparsity=lanes,
    composition=_weights_composition, expensive=True,
    samples=lambda: (
        [
            Sample((np.array([[0.3, -1.0, 0.7], [2.0, 0.1, 0.4]]),), {"axis": axis})
            for axis in ((1,), (0, 1), ())
        ]
        + [Sample((np.zeros((0, 2), np.float32),), {"axis": (0,)})]
    ),
    doc="The derivative of log-sum-exp: exp(x) over its sum; 0 where all are -inf.",
))  # fmt: skip
LOGSUMEXP = declare(Op(
    "logsumexp", "reduction", params=("axis", "keepdims"),
    spec=lambda x, axis, keepdims: spec(reduced_shape(x.shape, axis, keepdims), x.dtype),
    numpy=_logsumexp_kernel, promote=promotion("logsumexp", "float", "float"),
    jvp=lambda tangents, y, inputs, axis, keepdims: apply(
        SUM, (apply(LOGSUMEXP_WEIGHTS, inputs, (axis,)) * tangents[0],), (axis, keepdims)
    ),
    vjp=lambda index, g, y, inputs, axis, keepdims: (
        apply(LOGSUMEXP_WEIGHTS, inputs, (axis,)) * expand_reduced(g, inputs[0].shape, axis)
    ),
    mask=mask_reduced, batch=batching.shifted("axis"), examples=examples.reduction,
    sparsity=reduced, composition=_logsumexp_composition, expensive=True,
    samples=reduction_samples("logsumexp", ("float64", "float32")),
))  # fmt: skip


@kind_of_operand
def logsumexp(x: TensorLike, /, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes, all by default, without overflow.

    >>> round(float(gt.logsumexp(gt.asarray([1000.0, 1000.0]))), 6)
    1000.693147
    """
    x = record_operand(x)
    return record(LOGSUMEXP, (x,), (normalize_axes("logsumexp", axis, x.ndim), bool(keepdims)))
