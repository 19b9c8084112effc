"""Share: equal applications become one, and identities vanish (common subexpressions)."""

from __future__ import annotations

from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.ops.custom.custom import PASSING, passes_through

# They have the value of their first operand.
_TRANSPARENT = frozenset({"identity", "stop_gradient", "positive", "checkpoint_name", "use_saved"})


def share(program: Program) -> Program:
    """Before: `b = f(a); c = f(a); d = identity(c)`. After: `b = f(a)`, used for all three."""
    same: dict[Node, Node] = {node: node for node in program.inputs}
    first: dict[tuple[object, ...], Node] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = tuple(same[parent] for parent in node.inputs if parent.op.name not in PASSING)
        if node.op.name in _TRANSPARENT:
            same[node] = inputs[0]
            continue
        if node.op.name in PASSING:  # its outputs are inputs of its own; nothing is left to compute
            continue
        passed = passes_through(node)
        if passed is not None:
            same[node] = same[passed]
            continue
        key = (node.op, node.params, *inputs)
        found = None if node.op.opaque else first.get(key)
        if found is None:
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            found = Node(node.op, inputs, node.params, node.spec) if changed else node
            first[key] = found
            nodes.append(found)
        same[node] = found
    return Program(program.inputs, tuple(nodes), tuple(same[node] for node in program.outputs))
