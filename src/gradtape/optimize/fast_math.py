"""Relax: rewrites that round differently, for functions whose user allows it (`fastmath=True`)."""

from __future__ import annotations

from gradtape.graph.node import Node
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.graph.walk import topological


def relax(program: Program) -> Program:
    """Divide by what many elements share once: x / n becomes x * (1 / n), one rounding more."""
    new: dict[Node, Node] = {node: node for node in program.inputs}
    for node in program.nodes:
        inputs = tuple(new[parent] for parent in node.inputs)
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        current = Node(node.op, inputs, node.params, node.spec) if changed else node
        new[node] = _reciprocal(current) if _shares_divisor(current) else current
    outputs = tuple(new[node] for node in program.outputs)
    given = set(program.inputs)
    nodes = [node for node in topological(outputs, stop=given) if node not in given]
    return Program(program.inputs, tuple(nodes), outputs)


def _shares_divisor(node: Node) -> bool:
    if node.op.name != "divide" or node.dtype.kind != "f":
        return False
    return 0 < node.inputs[1].size < node.size


def _reciprocal(node: Node) -> Node:
    x, divisor = node.inputs
    # Of something spread out, before it is.
    if divisor.op.name == "broadcast_to":
        divisor = divisor.inputs[0]
    inverse = Node(REGISTRY["reciprocal"], (divisor,), (), divisor.spec)
    return Node(REGISTRY["multiply"], (x, inverse), (), node.spec)
