"""What a live tape keeps of a forward pass that is evaluated before its gradient is asked for."""

from __future__ import annotations

from collections.abc import Collection

from gradtape.graph.node import PICK, Node
from gradtape.graph.program import Program
from gradtape.graph.walk import dependents


def kept(program: Program, watched: Collection[Node]) -> list[Node]:
    """Outputs of expensive ops that the backward pass may need; cheap ones are recomputed.

    Needed is what depends on a watched source, and what such a node reads through cheap ops.
    """
    tracked = dependents((*program.inputs, *program.nodes), watched)
    needed: set[Node] = set()
    for node in reversed(program.nodes):
        if node in tracked or (node in needed and not is_expensive(node)):
            needed.update(node.inputs)
    return [
        node
        for node in program.nodes
        if is_expensive(node)
        and (node in tracked or node in needed)
        and type(node.spec) is not tuple
    ]


def is_expensive(node: Node) -> bool:
    """Worth its memory: contractions, reductions, library calls, random numbers, callbacks."""
    return node.inputs[0].op.expensive if node.op is PICK else node.op.expensive
