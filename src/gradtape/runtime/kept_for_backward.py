"""The values that a live tape keeps when a flush comes before its gradient is taken.

Without them the backward pass would run the whole forward pass again. Cheap element-wise ops are
run again anyway: reading a kept value costs as much as computing it in the fused loop.
"""

from __future__ import annotations

from collections.abc import Collection

from gradtape.ir.node import PICK, Node, apart_from_recorded
from gradtape.ir.program import Program
from gradtape.ir.walk import dependents
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_pullback import residuals


def kept(program: Program, watched: Collection[Node]) -> list[Node]:
    """Outputs of expensive ops that the backward pass may read.

    It may read the nodes that depend on a watched source, and the nodes that these read through
    cheap ops. For a scan these are its residuals: the values of each iteration that its derivative
    reads.
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
                with apart_from_recorded():  # as the derivative, which must find these nodes
                    found += residuals(node)
        elif is_expensive(node) and (node in tracked or node in needed):
            found.append(node)
    return found


def is_expensive(node: Node) -> bool:
    """Whether a value is worth its memory: products, reductions, library calls, callbacks."""
    return node.inputs[0].op.expensive if node.op is PICK else node.op.expensive
