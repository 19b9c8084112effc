"""The difference of two products, each rounded by itself, and the cross product by components.

A product that is joined with a sum is rounded once instead of twice. The cross product of a vector
with itself would then be what rounding takes from one of two equal products, and not 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradtape.ir import Node, Op, Spec, Undefined, apply, declare, spec
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.families import Sample, batching, independence
from gradtape.ops.families.samples import generator, uniform
from gradtape.ops.families.shapes import broadcast_shapes
from gradtape.ops.families.sparsity import elements
from gradtape.ops.matrices.contraction import entry

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import Builder, Vector

_LATER = Undefined("it appears in compiled programs, after differentiation")


def _spec(a: Spec, b: Spec, c: Spec, d: Spec) -> Spec:
    shapes = [each.shape for each in (a, b, c, d)]
    return spec(broadcast_shapes("product_difference", shapes), a.dtype)


def _llvm(builder: Builder, a: Vector, b: Vector, c: Vector, d: Vector) -> Vector:
    first = builder.arithmetic("fmul", "mul", a, b, contract=False)
    second = builder.arithmetic("fmul", "mul", c, d, contract=False)
    return builder.arithmetic("fsub", "sub", first, second, contract=False)


def _samples() -> list[Sample]:
    rng = generator("product_difference")
    return [
        Sample(tuple(uniform(rng, (0, 3), shape, dtype) for shape in ((2, 3), (3,), (2, 1), ())))
        for dtype in ("float64", "complex128", "float32", "int32", "uint8")
    ]


PRODUCT_DIFFERENCE = declare(
    Op(
        "product_difference",
        "elementwise",
        spec=_spec,
        numpy=lambda a, b, c, d: a * b - c * d,
        jvp=_LATER,
        vjp=_LATER,
        batch=batching.broadcasting,
        examples=independence.elementwise,
        sparsity=elements,
        llvm=_llvm,
        compiled_cost=3,
        samples=_samples,
    )
)


def cross_by_components(a: Node, b: Node, axis: int) -> Node | None:
    """The cross product as three element-wise results side by side; `axis` counts from the end."""
    if not b.size:
        return None
    left, right = ([entry(x, x.ndim + axis, at) for at in range(3)] for x in (a, b))
    parts = []
    for first, second in ((1, 2), (2, 0), (0, 1)):
        operands = (left[first], right[second], left[second], right[first])
        parts.append(apply(PRODUCT_DIFFERENCE, operands))
    return apply(CONCAT, tuple(parts), (parts[0].ndim + axis,))
