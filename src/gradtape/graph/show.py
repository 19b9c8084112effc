"""Programs as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from string import ascii_lowercase

from gradtape.graph.node import Node
from gradtape.graph.program import Program


def names() -> Iterator[str]:
    """a, b, …, z, aa, ab, …"""
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            yield "".join(letters)


def show(program: Program) -> str:
    """One line per node: name, spec, op, inputs, params."""
    fresh = names()
    name: dict[Node, str] = {node: next(fresh) for node in program.inputs}
    arguments = ", ".join(f"{name[node]}: {node.spec}" for node in program.inputs)
    lines = []
    for node in program.nodes:
        name[node] = next(fresh)
        parts = [name[parent] for parent in node.inputs]
        parts += [f"{key}={_shown(value)}" for key, value in node.keywords.items()]
        lines.append(f"  {name[node]}: {node.spec} = {node.op.name}({', '.join(parts)})")
    results = ", ".join(name[node] for node in program.outputs)
    return "\n".join([f"program({arguments}) -> {results}", *lines])


def _shown(value: object) -> str:
    """A param; a program is indented."""
    if isinstance(value, tuple) and any(isinstance(one, Program) for one in value):
        return "(" + ", ".join(map(_shown, value)) + ")"
    return str(value).replace("\n", "\n    ") if isinstance(value, Program) else str(value)
