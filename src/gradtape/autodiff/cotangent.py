"""Cotangents: arrays or row-sparse ones, with masks of where they are not zero."""

from __future__ import annotations

from typing import TypeAlias, overload

from gradtape.ir import Node, Rows, apply, constant
from gradtape.ops.elementwise.arithmetic import WHERE, branch_mask
from gradtape.ops.families.shapes import broadcast_to, reduce_to

# The cotangent of a node with one output, without its mask.
Slope: TypeAlias = Node | Rows


class Cotangent:
    """A cotangent with an optional mask: where the mask is false it is exactly zero.

    The mask keeps the NaN of a branch that is not taken out of the gradient: 0 * inf appears only
    where the mask is false, and there the product is replaced by 0. A node with several outputs has
    the cotangents of these by their numbers, and no mask.
    """

    __slots__ = ("content", "mask")

    # Written out: one is made for every operand, and a frozen dataclass takes twice as long.
    def __init__(self, content: Slope | dict[int, Cotangent], mask: Node | None = None) -> None:
        self.content = content
        self.mask = mask

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum, which is zero where both are; without a mask, one may be anything anywhere."""
        mine, others = self.content, other.content
        if isinstance(mine, dict) and isinstance(others, dict):
            shared = {number: mine[number].plus(others[number]) for number in mine.keys() & others}
            return Cotangent({**mine, **others, **shared})
        mask = None
        if self.mask is not None and other.mask is not None:
            mask = self.mask | other.mask
        if isinstance(mine, Rows) and isinstance(others, Rows):
            return Cotangent(mine.joined(others), mask)
        return Cotangent(self.node + other.node, mask)

    @property
    def slope(self) -> Slope:
        """The cotangent of a node with one output."""
        assert not isinstance(self.content, dict)
        return self.content

    @property
    def node(self) -> Node:
        """The same as one node."""
        content = self.content
        return content if type(content) is Node else dense(self.slope)

    def outputs(self, count: int) -> list[Node | None]:
        """The cotangents of all outputs of a node with several; None where there is none."""
        parts = self.content
        assert isinstance(parts, dict)
        return [parts[number].node if number in parts else None for number in range(count)]

    def of_operand(self, node: Node, index: int, slope: Slope) -> Cotangent:
        """The cotangent of an operand, from the slope that the op's rule made of this one.

        Broadcasting of element-wise ops is undone here, by a sum. The mask acts before it: a NaN of
        one element must not reach the sum.
        """
        op, mask = node.op, None
        if type(node.spec) is tuple or isinstance(slope, Rows):
            return Cotangent(slope, None if self.mask is None else self._mask_of(node, index))
        if op.elementwise:
            shape = node.inputs[index].shape
            if slope.shape == node.shape != shape:
                slope = reduce_to(masked(slope, self.mask), shape)
        if self.mask is not None or op is WHERE:
            mask = self._mask_of(node, index)
        return Cotangent(masked(slope, mask), mask)

    def _mask_of(self, node: Node, index: int) -> Node | None:
        """The mask of an operand's cotangent.

        A mask begins at a `where`, whose branches have a cotangent of 0 where they are not taken.
        It goes on through ops that have a rule for it, and ends at others: there every element may
        matter.
        """
        found: Node | None = None
        if self.mask is not None and node.op.mask is not None:
            found = node.op.mask(index, self.mask, node, node.inputs, **node.keywords)
        if node.op is WHERE:
            here = branch_mask(index, node)
            return here if found is None else here & found
        return found


@overload
def dense(slope: Slope) -> Node: ...


@overload
def dense(slope: Slope | None) -> Node | None: ...


def dense(slope: Slope | None) -> Node | None:
    """A cotangent as one node."""
    return slope.dense() if isinstance(slope, Rows) else slope


def masked(node: Node, mask: Node | None) -> Node:
    """The node where the mask holds, exactly 0 elsewhere."""
    if mask is None:
        return node
    return apply(WHERE, (broadcast_to(mask, node.shape), node, constant(0, node.spec)))
