"""DOT: a program as a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterable

from gradtape.graph.node import Node

_COLOURS = {"input": "#dbeafe", "output": "#fde68a", "op": "#ffffff"}


def dot(inputs: Iterable[Node], nodes: Iterable[Node], outputs: Iterable[Node]) -> str:
    """A digraph with a box for each node; inputs and outputs are filled."""
    number: dict[Node, int] = {}
    ends = set(outputs)
    lines = ["digraph program {", '  node [shape=box, style="rounded,filled", fontsize=10];']
    for kind, found in (("input", inputs), ("op", nodes)):
        for node in found:
            number[node] = len(number)
            colour = _COLOURS["output" if node in ends else kind]
            name = "input" if kind == "input" else node.op.name
            spec = node.spec if type(node.spec) is not tuple else ", ".join(map(str, node.spec))
            lines.append(f'  n{number[node]} [label="{name}\\n{spec}", fillcolor="{colour}"];')
    for node, target in number.items():
        lines += [
            f"  n{number[parent]} -> n{target};" for parent in node.inputs if parent in number
        ]
    return "\n".join([*lines, "}"])
