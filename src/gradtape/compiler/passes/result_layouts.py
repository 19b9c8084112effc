"""Result layouts: sums of products are written in the order of axes in which they are read.

A result whose only readers permute its axes, all in the same way, lies in memory in the permuted
order. Otherwise it would be copied into that order: the groups of a convolution, which come first,
between the positions and the channels, for example.
"""

from __future__ import annotations

from gradtape.ir import Node, Program, View
from gradtape.ops.families.strides import Access, row_major


def is_nest(node: Node) -> bool:
    """Whether a node is a sum of products that native loops compute."""
    if node.op.nest is None or not node.size or not all(parent.size for parent in node.inputs):
        return False
    return node.dtype.kind in "fc" or node.dtype.itemsize in (4, 8)


def layouts(program: Program) -> dict[Node, Access]:
    """The sums of products that do not lie in the order of their axes, and how they lie."""
    nests = {node for node in program.nodes if node.op.nest is not None and is_nest(node)}
    if not nests:
        return {}
    orders: dict[Node, set[object]] = {node: set() for node in nests}
    for node in program.nodes:
        for parent in nests.intersection(node.inputs):
            permutes = node.op.view is View.PERMUTE
            orders[parent].add(node.params[0] if permutes else None)
    for node in nests.intersection(program.outputs):
        orders[node].add(None)
    found = {}
    for node, (*each,) in orders.items():
        if len(each) == 1 and each[0] is not None:
            axes = each[0]
            assert isinstance(axes, tuple)
            if _ends_with_columns(node, axes):
                found[node] = _permuted(node, axes)
    return found


def _ends_with_columns(node: Node, axes: tuple[int, ...]) -> bool:
    """Whether the last axis stays last, so that columns lie side by side."""
    long = [axis for axis in axes if node.shape[axis] != 1]
    return node.shape[-1] == 1 or long[-1] == node.ndim - 1


def _permuted(node: Node, axes: tuple[int, ...]) -> Access:
    steps = row_major(tuple(node.shape[axis] for axis in axes))
    strides = [0] * node.ndim
    for axis, step in zip(axes, steps, strict=True):
        strides[axis] = step
    return Access(node, node.shape, tuple(strides))
