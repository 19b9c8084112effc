"""Movement: the same elements in another order, shape or number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.graph.node import Node, apply
from gradtape.graph.recording import record
from gradtape.graph.spec import Shape, Spec, spec
from gradtape.ops.arithmetic import record_operand
from gradtape.ops.linear import linear
from gradtape.ops.samples import Sample
from gradtape.ops.shapes import broadcast_shapes, normalize_shape, reduce_to


def movement_samples(*cases: tuple[Shape, dict[str, Any]]) -> Any:
    """Samples on counted-up values, one per shape and params, and one of integers."""

    def samples() -> list[Sample]:
        found = [
            Sample((np.arange(math.prod(shape), dtype=float).reshape(shape) * 0.5 - 1,), params)
            for shape, params in cases
        ]
        shape, params = cases[0]
        found.append(Sample((np.arange(math.prod(shape)).reshape(shape),), params))
        return found

    return samples


def _reshape_spec(x: Spec, shape: Shape) -> Spec:
    if math.prod(shape) != x.size:
        raise ShapeError(
            f"reshape: {x.shape} has {x.size} elements and {shape} has {math.prod(shape)}. "
            "Choose a shape with as many elements."
        )
    return spec(shape, x.dtype)


RESHAPE = linear(
    "reshape",
    "movement",
    spec=_reshape_spec,
    numpy=lambda x, shape: np.reshape(x, shape),
    transpose=lambda g, x, shape: reshape_node(g, x.shape),
    mask=lambda index, mask, y, inputs, shape: reshape_node(mask, inputs[0].shape),
    params=("shape",),
    samples=movement_samples(
        ((2, 3), {"shape": (3, 2)}),
        ((2, 3), {"shape": (6,)}),
        ((), {"shape": (1, 1)}),
        ((0, 3), {"shape": (3, 0)}),
    ),
)


def reshape_node(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else apply(RESHAPE, (node,), (shape,))


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The same elements in another shape; one length may be -1.

    >>> gt.reshape(gt.asarray([1, 2, 3, 4]), (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    x = record_operand(x)
    shape = normalize_shape("reshape", shape)
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        if rest == 0 or x.size % rest:
            raise ShapeError(
                f"reshape: {x.shape} has {x.size} elements, which {shape} cannot divide. "
                "Choose lengths whose product divides it."
            )
        shape = tuple(x.size // rest if n == -1 else n for n in shape)
    if builtin_any(n < 0 for n in shape):
        raise ShapeError(f"reshape: {shape} has a negative length. At most one may be -1.")
    return record(RESHAPE, (x,), (shape,))


def builtin_any(items: Any) -> bool:
    return any(items)


def _broadcast_spec(x: Spec, shape: Shape) -> Spec:
    if broadcast_shapes("broadcast_to", [x.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: {x.shape} cannot become {shape}, which is smaller.")
    return spec(shape, x.dtype)


BROADCAST_TO = linear(
    "broadcast_to",
    "movement",
    spec=_broadcast_spec,
    numpy=lambda x, shape: np.broadcast_to(x, shape),
    transpose=lambda g, x, shape: reduce_to(g, x.shape),
    mask=lambda index, mask, y, inputs, shape: reduce_to(mask, inputs[0].shape, "any"),
    params=("shape",),
    samples=movement_samples(
        ((3,), {"shape": (2, 3)}),
        ((2, 1), {"shape": (2, 3)}),
        ((), {"shape": (2,)}),
        ((1, 3), {"shape": (0, 3)}),
    ),
)


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Stretch to a shape by repeating along axes of length 1.

    >>> gt.broadcast_to(gt.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return record(BROADCAST_TO, (record_operand(x),), (normalize_shape("broadcast_to", shape),))
