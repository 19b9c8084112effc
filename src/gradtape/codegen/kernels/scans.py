"""Scans: cumulative sums, products and linear recurrences as kernels.

One axis is walked in order and another is vectorised, whichever lies innermost. A scan in reverse
starts at the other end and has negative strides.
"""

from __future__ import annotations

from gradtape.codegen.kernels.arguments import (
    Axis,
    Entry,
    Lowered,
    access_of,
    code_of,
    lowered,
    merge_axes,
    target_access,
    walks_of,
)
from gradtape.codegen.kernels.kernel import Instruction, Kernel, Layout, Operand, Reduce, lane_count
from gradtape.graph.node import Node
from gradtape.ops.families.access import Access, row_major
from gradtape.ops.families.casting import CAST


def lower_scan(node: Node, access: dict[Node, Access], bits: int) -> Lowered:
    """The kernel of a scan that is alone in its loop."""
    axis, reverse = node.params
    sources = [access[parent] for parent in node.inputs]
    strides = [source.strides for source in sources] + [row_major(node.shape)]
    length = node.shape[axis]
    # In reverse, each array starts at its last element along the axis.
    ends = [(length - 1) * steps[axis] if reverse else 0 for steps in strides]
    sign = -1 if reverse else 1
    kept: list[Axis] = [
        (n, False, [steps[at] for steps in strides])
        for at, n in enumerate(node.shape)
        if at != axis and n != 1
    ]
    kept = merge_axes(kept) or [(1, False, [1] * len(strides))]
    walked: Axis = (length, True, [sign * steps[axis] for steps in strides])
    axes = [*kept[:-1], walked, kept[-1]]
    walks = walks_of(axes, len(strides))
    kernel = _kernel(node, walks)
    owners = [*((source.base, source.offset) for source in sources), (node, 0)]
    dtypes = [*(parent.dtype for parent in node.inputs), node.dtype]
    entries: list[Entry] = [
        (owner, dtype.itemsize * (offset + end), tuple(dtype.itemsize * step for step in walk))
        for (owner, offset), dtype, end, walk in zip(owners, dtypes, ends, walks, strict=True)
    ]
    outermost = len(axes) > 2
    total, grain = (axes[0][0], 1) if outermost else (axes[-1][0], lane_count(kernel, bits))
    return lowered(kernel, axes, entries, total, grain)


def _kernel(node: Node, walks: list[list[int]]) -> Kernel:
    operands = tuple(
        Operand(code_of(parent.dtype), access_of(walk))
        for parent, walk in zip(node.inputs, walks, strict=False)
    )
    code = code_of(node.dtype)
    body: list[Instruction] = []
    numbers = []
    for number, parent in enumerate(node.inputs):
        if parent.dtype != node.dtype:
            body.append(Instruction(CAST, (node.dtype,), (number,), code))
            number = len(operands) + len(body) - 1
        numbers.append(number)
    assert node.op.scan is not None
    # A recurrence has a second operand, the factor; it comes first.
    factor = numbers[0] if numbers[1:] else -1
    reduction = Reduce(numbers[-1], node.op.scan, code, target_access(walks[-1]), factor=factor)
    return Kernel(Layout.RUNNING, len(walks[0]), operands, tuple(body), (), (reduction,), 1)
