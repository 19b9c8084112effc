"""Sums of products as instructions of a plan: matrix products by BLAS or tiles, others by tiles."""

from __future__ import annotations

import operator

from gradtape.compiler.emit.plans.gemm import MatrixOperand
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.lower.plan import SlotPlace
from gradtape.compiler.lower.products import blas
from gradtape.compiler.lower.products.bundled_products import bundled
from gradtape.compiler.lower.products.tiled_products import Contraction, LoopAxis
from gradtape.ir import Node
from gradtape.ir.op_facts import Nest, NestAxis
from gradtape.ops.families.strides import Strides, row_major

# The slot of an operand, and its offset and strides in bytes.
Lie = tuple[int, int, tuple[int, ...]]


def product_instruction(
    node: Node, left: Lie, right: Lie, place: SlotPlace, steps: Strides
) -> Instruction | None:
    """The instruction that computes a node at a place, or None if there is none.

    `steps` are the distances of the elements of the result.
    """
    x, y = (
        MatrixOperand(slot, offset, parent.shape, strides)
        for (slot, offset, strides), parent in zip((left, right), node.inputs, strict=True)
    )
    if node.op.nest is not None:
        strides = tuple(node.dtype.itemsize * step for step in steps)
        return _nested(node, x, y, MatrixOperand(*place, node.shape, strides))
    a, b = node.inputs
    shape = node.shape
    if a.ndim == 1:
        x = MatrixOperand(x.slot, x.offset, (1, *x.shape), (0, *x.strides))
        shape = (*shape[: max(b.ndim - 2, 0)], 1, *shape[max(b.ndim - 2, 0) :])
    if b.ndim == 1:
        y = MatrixOperand(y.slot, y.offset, (*y.shape, 1), (*y.strides, 0))
        shape = (*shape, 1)
    strides = tuple(node.dtype.itemsize * step for step in row_major(shape))
    return blas.gemm_instruction(node.dtype, x, y, MatrixOperand(*place, shape, strides))


def _nested(
    node: Node, left: MatrixOperand, right: MatrixOperand, result: MatrixOperand
) -> Instruction:
    """Sums of products whose op says by which loops."""
    assert node.op.nest is not None
    found = [_contraction(nest, left, right, result, node) for nest in node.op.nest(node)]
    nbytes = sum(one.spec.nbytes for one in (*node.inputs, node))
    return bundled(found, nbytes)


def _contraction(
    nest: Nest, a: MatrixOperand, b: MatrixOperand, c: MatrixOperand, node: Node
) -> Contraction:
    """A nest over operands that lie somewhere in memory."""

    def step(operand: MatrixOperand, along: tuple[int, int] | None) -> int:
        return 0 if along is None else operand.strides[along[0]] * along[1]

    def axes(loops: tuple[NestAxis, ...]) -> list[LoopAxis]:
        return [
            LoopAxis(one.length, step(a, one.a), step(b, one.b), step(c, one.c)) for one in loops
        ]

    first, second, result = (
        (operand.slot, operand.offset + sum(map(operator.mul, start, operand.strides)))
        for operand, start in zip((a, b, c), nest.starts, strict=True)
    )
    return Contraction(
        node.dtype,
        first,
        second,
        result,
        rows=axes(nest.rows),
        columns=axes(nest.columns),
        depth=axes(nest.depth),
        batch=axes(nest.batch),
        adds=nest.adds,
    )
