"""The linear families: reductions and movements, whose reverse rule is their transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.ir import REGISTRY, Node, Op, Rows, Rule, Shape, apply, declare
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import broadcast_to


def linear(
    name: str,
    family: str,
    *,
    transpose: Callable[..., Node | Rows],
    mask: Rule | None = None,
    **others: Any,
) -> Op:
    """Declare an op that is linear in its one operand.

    `transpose(g, x, **params)` carries a cotangent back to the operand `x`. Forward mode applies
    the op to the tangent; the mask follows from the transpose. `others` are fields of Op.
    """

    def jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...], **given: Any) -> Node:
        return apply(op, (tangents[0],), y.params)

    def vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], **given: Any) -> Node | Rows:
        return transpose(g, inputs[0], **given)

    op = declare(Op(name, family, jvp=jvp, vjp=vjp, mask=mask or mask_by_vjp, **others))
    return op


def mask_by_vjp(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """The mask of a linear op's operand: the transpose of the mask as numbers is not 0 there."""
    weight = cast(mask, np.dtype(y.dtype))
    back = y.op.vjp(index, weight, y, inputs, **params)  # type: ignore[operator,misc]
    back = back.dense() if hasattr(back, "dense") else back
    zero_like = apply(REGISTRY["full"], (), ((), 0, back.dtype))
    return apply(REGISTRY["not_equal"], (back, zero_like))


def keep_axes(node: Node, shape: Shape, axes: tuple[int, ...]) -> Node:
    """Give a reduced node back its axes, with length 1."""
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return node if node.shape == kept else apply(REGISTRY["reshape"], (node,), (kept,))


def expand_reduced(node: Node, shape: Shape, axes: tuple[int, ...]) -> Node:
    """Stretch a reduced node over the axes it was reduced over."""
    return broadcast_to(keep_axes(node, shape, axes), shape)


def mask_reduced(
    index: int, mask: Node, y: Node, inputs: tuple[Node, ...], axis: tuple[int, ...], **params: Any
) -> Node:
    """The mask of a reduction's operand: the result's mask, stretched over the reduced axes."""
    return expand_reduced(mask, inputs[0].shape, axis)
