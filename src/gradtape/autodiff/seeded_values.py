"""Responses: the values of the nodes of a linear graph for every seed, structured if possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradtape.autodiff.batch import batch_node
from gradtape.autodiff.seeded import Seeded, dense_form
from gradtape.autodiff.seeded_rules import rule_of
from gradtape.ir import PICK, Node, Shape, apply, pick, topological
from gradtape.ops.arrays.movement import reshape_node


def respond(
    outputs: Iterable[Node], seed: Node, start: Seeded, space: Shape
) -> list[Seeded | None]:
    """The response of each output of a graph that is linear in `seed`; None if it has none."""
    outputs = list(outputs)
    found: dict[Node, Seeded] = {seed: start}
    # Of nodes with several outputs: these for all seeds, which are one axis in front.
    several: dict[Node, Node | tuple[Node, ...]] = {}
    for node in topological(outputs, stop={seed}):
        if node in found:
            continue
        if node.op is PICK:
            if node.inputs[0] in several:
                part = _picked(several[node.inputs[0]], node.params[0])
                found[node] = spread(part, node.shape, space)
            continue
        operands = [found.get(parent) for parent in node.inputs]
        if all(operand is None for operand in operands):
            continue
        rule = rule_of(node.op)
        result = None if rule is None else rule(node, operands, space)
        if result is not None:
            found[node] = result
            continue
        value = _batched(node, operands, space)
        if isinstance(value, tuple) or type(node.spec) is tuple:
            several[node] = value
        else:
            found[node] = spread(value, node.shape, space)
    return [found.get(output) for output in outputs]


def _batched(
    node: Node, operands: Sequence[Seeded | None], space: Shape
) -> Node | tuple[Node, ...]:
    """The result for all seeds by the op's batch rule: all seed axes dense, as one axis."""
    count = math.prod(space)
    if count == 1 and type(node.spec) is not tuple:
        # A single seed needs no axis: the op itself gives the result.
        inputs = [
            parent
            if one is None
            else reshape_node(dense_form(one, parent, space).value, parent.shape)
            for parent, one in zip(node.inputs, operands, strict=True)
        ]
        return apply(node.op, tuple(inputs), node.params)
    batched = {
        parent: reshape_node(dense_form(operand, parent, space).value, (count, *parent.shape))
        for parent, operand in zip(node.inputs, operands, strict=True)
        if operand is not None
    }
    return batch_node(node, batched)


def _picked(outputs: Node | tuple[Node, ...], position: int) -> Node:
    return outputs[position] if isinstance(outputs, tuple) else pick(outputs, position)


def spread(value: Node, shape: Shape, space: Shape) -> Seeded:
    """A response with the axis of all seeds taken apart."""
    return Seeded(reshape_node(value, (*space, *shape)), tuple(range(len(space))), ())
