"""Cotangents: nodes or row-sparse ones, with masks of where they are not zero."""

from __future__ import annotations

from gradtape.ir import Node, Rows, apply, constant
from gradtape.ops.elementwise.arithmetic import WHERE
from gradtape.ops.families.shapes import broadcast_to

# A cotangent without its mask.
Slope = Node | Rows


class Cotangent:
    """A cotangent with an optional mask: where the mask is false it is exactly zero.

    The mask keeps the NaN of a branch that is not taken out of the gradient: 0 * inf appears only
    where the mask is false, and there the product is replaced by 0.
    """

    __slots__ = ("content", "mask")

    # Written out: one is made for every operand, and a frozen dataclass takes twice as long.
    def __init__(self, content: Slope, mask: Node | None = None) -> None:
        self.content = content
        self.mask = mask

    @property
    def node(self) -> Node:
        """The cotangent as one node."""
        return self.content.dense() if isinstance(self.content, Rows) else self.content

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum, which is zero where both are; without a mask, one may be anything anywhere."""
        mask = None
        if self.mask is not None and other.mask is not None:
            mask = self.mask | other.mask
        if isinstance(self.content, Rows) and isinstance(other.content, Rows):
            return Cotangent(self.content.joined(other.content), mask)
        return Cotangent(self.node + other.node, mask)


def masked(node: Node, mask: Node | None) -> Node:
    """The node where the mask holds, exactly 0 elsewhere."""
    if mask is None:
        return node
    return apply(WHERE, (broadcast_to(mask, node.shape), node, constant(0, node.spec)))
