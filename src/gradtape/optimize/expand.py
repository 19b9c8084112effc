"""Expand: a composition of other ops is written out, so that the compiler can fuse it."""

from __future__ import annotations

from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.graph.walk import topological
from gradtape.optimize.share import share


def expand(program: Program) -> Program:
    """Before: `logsumexp(x)`. After: its maximum, the sum of exponentials, and their logarithm."""
    if all(node.op.expand is None for node in program.nodes):
        return program
    new: dict[Node, Node] = {node: node for node in program.inputs}
    for node in program.nodes:
        inputs = tuple(new[parent] for parent in node.inputs)
        if node.op.expand is not None and node.inputs[0].size:
            new[node] = node.op.expand(inputs, **node.keywords)
            continue
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = Node(node.op, inputs, node.params, node.spec) if changed else node
    outputs = tuple(new[node] for node in program.outputs)
    given = set(program.inputs)
    nodes = [node for node in topological(outputs, stop=given) if node not in given]
    # Two compositions of the same operand have parts in common.
    return share(Program(program.inputs, tuple(nodes), outputs))
