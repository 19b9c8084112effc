"""Scans: cumulative sums, products and linear recurrences as kernels.

One axis is walked in order and another is vectorised, whichever lies innermost. Backwards is
forwards from the other end, by negative strides.
"""

from __future__ import annotations

import math
from typing import Any

from gradtape.codegen.kernels.kernel import Instruction, Kernel, Operand, Reduce
from gradtape.codegen.kernels.loops import lane_count
from gradtape.codegen.kernels.lower import Lowered, access_of, code_of, merge_axes, target_access
from gradtape.graph.node import Node
from gradtape.ops.families.access import Access, row_major
from gradtape.ops.families.casting import CAST


def lower_scan(node: Node, access: dict[Node, Access], bits: int) -> Lowered:
    """The kernel of a scan that is alone in its loop."""
    axis, reverse = node.params
    sources = [access[parent] for parent in node.inputs]
    strides = [source.strides for source in sources] + [row_major(node.shape)]
    length = node.shape[axis]
    # From the other end: each starts at its last element along the axis.
    ends = [(length - 1) * steps[axis] if reverse else 0 for steps in strides]
    sign = -1 if reverse else 1
    kept: list[Any] = [
        (n, False, [steps[at] for steps in strides])
        for at, n in enumerate(node.shape)
        if at != axis and n != 1
    ]
    kept = merge_axes(kept) or [(1, False, [1] * len(strides))]
    walked = (length, True, [sign * steps[axis] for steps in strides])
    axes = [*kept[:-1], walked, kept[-1]]
    walks = [[each[2][entry] for each in axes] for entry in range(len(strides))]
    kernel = _kernel(node, walks)
    owners = [*((source.base, source.offset) for source in sources), (node, 0)]
    dtypes = [*(parent.dtype for parent in node.inputs), node.dtype]
    entries: list[Any] = [
        (owner, dtype.itemsize * (offset + end), tuple(dtype.itemsize * step for step in walk))
        for (owner, offset), dtype, end, walk in zip(owners, dtypes, ends, walks, strict=True)
    ]
    sizes = tuple(each[0] for each in axes)
    lanes = lane_count(kernel, bits)
    total, grain = (sizes[0], 1) if len(axes) > 2 else (sizes[-1], lanes)
    return Lowered(
        kernel, sizes, entries, total, grain, kernel.cost * math.prod(sizes)
    )  # fmt: skip


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
    kind, target = node.op.scan, target_access(walks[-1])
    assert kind is not None
    reduction = Reduce(numbers[-1], kind, code, target, factor=numbers[0] if numbers[1:] else -1)
    return Kernel("scan", len(walks[0]), operands, tuple(body), (), (reduction,), 1)
