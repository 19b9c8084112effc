"""Sums of products as instructions of a plan: matrix products by BLAS or tiles, others by tiles."""

from __future__ import annotations

from gradtape.codegen.plans.gemm import Operand
from gradtape.codegen.plans.instructions import Instruction
from gradtape.graph import Node
from gradtape.graph.facts import NestAxis
from gradtape.ops.families.access import row_major
from gradtape.runtime.plan import Place
from gradtape.runtime.products import blas
from gradtape.runtime.products.tiled_products import Axis, Contraction

# The slot of an operand, and its offset and strides in bytes.
Lie = tuple[int, int, tuple[int, ...]]


def product_instruction(node: Node, left: Lie, right: Lie, place: Place) -> Instruction | None:
    """The instruction that computes a node at a place, or None if there is none."""
    x, y = (
        Operand(slot, offset, parent.shape, strides)
        for (slot, offset, strides), parent in zip((left, right), node.inputs, strict=True)
    )
    if node.op.nest is not None:
        return _tiled(node, x, y, place)
    a, b = node.inputs
    shape = node.shape
    if a.ndim == 1:
        x = Operand(x.slot, x.offset, (1, *x.shape), (0, *x.strides))
        shape = (*shape[: max(b.ndim - 2, 0)], 1, *shape[max(b.ndim - 2, 0) :])
    if b.ndim == 1:
        y = Operand(y.slot, y.offset, (*y.shape, 1), (*y.strides, 0))
        shape = (*shape, 1)
    strides = tuple(node.dtype.itemsize * step for step in row_major(shape))
    return blas.gemm_instruction(node.dtype, x, y, Operand(*place, shape, strides))


def _tiled(node: Node, left: Operand, right: Operand, place: Place) -> Instruction | None:
    """A sum of products whose op says by which loops; None if it is beyond all measure."""
    result = tuple(node.dtype.itemsize * step for step in row_major(node.shape))

    def steps(axis: NestAxis) -> Axis:
        a, b = (
            0 if where is None else operand.strides[where[0]] * where[1]
            for where, operand in ((axis.a, left), (axis.b, right))
        )
        return Axis(axis.length, a, b, 0 if axis.c is None else result[axis.c])

    assert node.op.nest is not None
    loops = {role: [steps(axis) for axis in axes] for role, axes in node.op.nest(node).items()}
    a, b = ((operand.slot, operand.offset) for operand in (left, right))
    found = Contraction(node.dtype, a, b, place, **loops)
    return found.instruction() if found.fits() else None
