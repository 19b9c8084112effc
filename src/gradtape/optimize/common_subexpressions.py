"""Common subexpressions: equal applications become one, and identities vanish."""

from __future__ import annotations

from gradtape.graph import Node, Program, rebuilt
from gradtape.ops.custom.custom import passes_through


def share_subexpressions(program: Program) -> Program:
    """Before: `b = f(a); c = f(a); d = identity(c)`. After: `b = f(a)`, used for all three."""
    same: dict[Node, Node] = {node: node for node in program.inputs}
    first: dict[tuple[object, ...], Node] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        passed = passes_through(node)
        if passed is not None:
            same[node] = same[passed]
            continue
        if node.op.transparent:
            # Several outputs are inputs of their own: nothing is left to compute.
            if type(node.spec) is not tuple:
                same[node] = same[node.inputs[0]]
            continue
        inputs = tuple([same[parent] for parent in node.inputs])
        key = (node.op, node.params, *inputs)
        found = None if node.op.opaque else first.get(key)
        if found is None:
            found = first[key] = rebuilt(node, inputs)
            nodes.append(found)
        same[node] = found
    return Program(program.inputs, tuple(nodes), tuple(same[node] for node in program.outputs))
