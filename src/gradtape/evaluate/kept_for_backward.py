"""What a live tape keeps of a forward pass that is evaluated before its gradient is asked for."""

from __future__ import annotations

from collections.abc import Collection

from gradtape.graph.node import PICK, Node, apart_from_recorded
from gradtape.graph.program import Program
from gradtape.graph.walk import dependents
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_pullback import residuals


def kept(program: Program, watched: Collection[Node]) -> list[Node]:
    """Outputs of expensive ops that the backward pass may need; cheap ones are recomputed.

    Needed is what depends on a watched source, and what such a node reads through cheap ops. Of a
    scan it is what the way back reads of each step.
    """
    tracked = dependents((*program.inputs, *program.nodes), watched)
    needed: set[Node] = set()
    for node in reversed(program.nodes):
        if node in tracked or (node in needed and not is_expensive(node)):
            needed.update(node.inputs)
    found = []
    for node in program.nodes:
        if type(node.spec) is tuple:
            if node.op is SCAN and node in tracked:
                with apart_from_recorded():  # the very nodes that the derivative will read
                    found += residuals(node)
        elif is_expensive(node) and (node in tracked or node in needed):
            found.append(node)
    return found


def is_expensive(node: Node) -> bool:
    """Worth its memory: contractions, reductions, library calls, random numbers, callbacks."""
    return node.inputs[0].op.expensive if node.op is PICK else node.op.expensive
