"""The verifier: the invariants of programs, checked between optimiser passes in tests."""

from __future__ import annotations

from gradtape.errors import GraphError
from gradtape.ir.node import LEAF, PLACEHOLDER
from gradtape.ir.program import Program


def verify(program: Program) -> Program:
    """Return the program if it is well formed; raise GraphError naming the first fault."""
    known = set(program.inputs)
    if len(known) != len(program.inputs):
        raise GraphError("verify: an input is listed twice.")
    for node in program.nodes:
        if node in known:
            raise GraphError(f"verify: {node} is computed twice or is also an input.")
        if node.op is LEAF or node.op is PLACEHOLDER:
            raise GraphError(f"verify: leaf {node} is not among the inputs.")
        for parent in node.inputs:
            if parent not in known:
                raise GraphError(f"verify: {node} uses {parent} before it is computed.")
        if len(node.params) != len(node.op.params):
            raise GraphError(
                f"verify: {node} has {len(node.params)} params, {node.op} takes {node.op.params}."
            )
        expected = node.op.spec(*[parent.spec for parent in node.inputs], **node.keywords)
        if expected is not node.spec and expected != node.spec:
            raise GraphError(f"verify: {node} should have spec {expected}.")
        known.add(node)
    for node in program.outputs:
        if node not in known:
            raise GraphError(f"verify: output {node} is never computed.")
    return program
