"""Define: declares an op with the rules that all ops of its family share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.ir import REGISTRY, Node, Op, Rule, Undefined, apply, constant, declare
from gradtape.ops.families import batching, independence, sparsity
from gradtape.ops.families.shapes import Ints, expand_reduced, reduce_to, reduced_spec


def mask_broadcast(
    index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any
) -> Node:
    """The mask of an operand that was broadcast: `any` over the axes along which it was."""
    return reduce_to(mask, inputs[index].shape, "any")


def mask_reduced(
    index: int, mask: Node, y: Node, inputs: tuple[Node, ...], axis: Ints, **params: Any
) -> Node:
    """The mask of a reduction's operand: the result's mask, stretched over the reduced axes."""
    return expand_reduced(mask, inputs[0].shape, axis)


def mask_moved(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """The mask of an operand whose elements are only moved: it moves like the cotangent."""
    moved: Node = y.op.vjp(index, mask, y, inputs, **params)  # type: ignore[operator,misc]
    return moved


def mask_by_vjp(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """The mask of a linear op's operand: the transpose of the mask as numbers is not 0 there."""
    weight = apply(REGISTRY["cast"], (mask,), (y.dtype,))
    back = y.op.vjp(index, weight, y, inputs, **params)  # type: ignore[operator,misc]
    return nonzero(back.dense() if hasattr(back, "dense") else back)


def nonzero(node: Node) -> Node:
    """A mask of the elements of a node that are not 0."""
    zero = apply(REGISTRY["full"], (), ((), 0, node.dtype))
    return apply(REGISTRY["not_equal"], (node, zero))


def linear_jvp(
    tangents: Sequence[Node | None], y: Node, inputs: tuple[Node, ...], **params: Any
) -> Node:
    """Forward mode of an op that is linear in all of its floating-point operands together."""
    given = zip(inputs, tangents, strict=True)
    moved = tuple(
        (constant(0, node.spec) if tangent is None else tangent) if node.spec.inexact else node
        for node, tangent in given
    )
    return apply(y.op, moved, y.params)


_CONSTANT = Undefined("a constant has no operand")
# The fields of Op that ops of a family have in common; a declaration may replace them.
FAMILIES: dict[str, dict[str, Any]] = {
    "elementwise": {
        "batch": batching.broadcasting,
        "examples": independence.elementwise,
        "mask": mask_broadcast,
        "sparsity": sparsity.elements,
    },
    "reduction": {
        "params": ("axis", "keepdims"),
        "spec": reduced_spec(),
        "batch": batching.shifted("axis"),
        "examples": independence.along_axes,
        "mask": mask_reduced,
        "sparsity": sparsity.lanes,
        "expensive": True,
    },
    "movement": {"jvp": linear_jvp, "mask": mask_moved, "sparsity": sparsity.moved},
    "indexing": {"params": ("axis",), "jvp": linear_jvp, "mask": mask_by_vjp},
    "creation": {
        "jvp": _CONSTANT,
        "vjp": _CONSTANT,
        "batch": _CONSTANT,
        "sparsity": sparsity.nothing,
    },
}


def define(
    name: str,
    family: str,
    *,
    transpose: Rule | None = None,
    push: Rule | None = None,
    pull: Rule | None = None,
    undefined: str = "",
    **fields: Any,
) -> Op:
    """Declare an op with the rules of its family; `fields` are fields of Op.

    An op that is linear in its first operand gives `transpose(g, *inputs, **params)`, which carries
    a cotangent back to that operand. An op with one operand gives `push(t, y, x, **params)`, which
    carries a tangent on, and `pull(g, y, x, **params)`, which carries a cotangent back. An op
    without derivatives says why they are `undefined`.
    """
    rules = dict(FAMILIES.get(family, {}))
    if push is not None:
        rules["jvp"] = lambda tangents, y, inputs, **params: push(tangents[0], y, *inputs, **params)
    if pull is not None:
        rules["vjp"] = lambda index, g, y, inputs, **params: pull(g, y, *inputs, **params)
    if transpose is not None:

        def vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Any:
            return transpose(g, *inputs, **params)

        rules = {"jvp": linear_jvp, "mask": mask_by_vjp, **rules, "vjp": vjp}
    if undefined:
        why = Undefined(undefined)
        rules |= {"jvp": why, "vjp": why, "mask": None, "sparsity": sparsity.nothing}
    return declare(Op(name, family, **{**rules, **fields}))
