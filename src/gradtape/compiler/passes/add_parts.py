"""Add parts: parts that are put into zeros at the same place are added before they are put there.

The derivative by a tensor from which an element was read a thousand times is a sum of a thousand
tensors of the whole size. After this pass it is a sum of as many as there are elements that were
read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gradtape.compiler.passes.join_parts import (
    ADD,
    inner_sums,
    readers_of,
    terms_of,
    without_unread,
)
from gradtape.ir import Node, Program, rebuilt
from gradtape.ir.recorded_lines import LINES, follow_all
from gradtape.ops.arrays.slicing import UNSLICE


def add_parts(program: Program) -> Program:
    """Before: `unslice(a) + b + unslice(c)` at one place. After: `unslice(a + c) + b`."""
    if sum(node.op is UNSLICE for node in program.nodes) < 2:
        return program
    readers = readers_of(program)
    inner = inner_sums(program, readers)
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []
    changed = False

    def written(node: Node) -> Node:
        nodes.append(node)
        return node

    for node in program.nodes:
        groups: list[list[Node]] = []
        if node.op is ADD and node not in inner:
            groups = _groups(terms_of(node, inner), node, readers)
        if not any(len(group) > 1 for group in groups):
            new[node] = written(rebuilt(node, tuple([new[parent] for parent in node.inputs])))
            continue
        changed = True
        total: Node | None = None
        for group in groups:
            term = _placed(group, new, written) if len(group) > 1 else new[group[0]]
            total = term if total is None else written(Node(ADD, (total, term), (), node.spec))
        assert total is not None
        if LINES.following:
            follow_all(node, [total], new.values())
        new[node] = total
    if not changed:
        return program
    outputs = tuple(new[node] for node in program.outputs)
    return without_unread(Program(program.inputs, tuple(nodes), outputs))


def _groups(terms: list[Node], whole: Node, readers: dict[Node, int]) -> list[list[Node]]:
    """The terms of a sum, those that are parts at one place together.

    Parts come first: they have the shape of the whole, and other terms may be broadcast.
    """
    parts: dict[object, list[Node]] = {}
    others: list[list[Node]] = []
    here = Counter(terms)
    for term in terms:
        if term.op is UNSLICE and term.spec == whole.spec and readers[term] == here[term]:
            source, *moving = term.inputs
            parts.setdefault((source.spec, term.params, tuple(moving)), []).append(term)
        else:
            others.append([term])
    return [*parts.values(), *others]


def _placed(group: list[Node], new: dict[Node, Node], written: Callable[[Node], Node]) -> Node:
    """The sum of parts, put into zeros once."""
    first, *others = group
    total = new[first.inputs[0]]
    for part in others:
        total = written(Node(ADD, (total, new[part.inputs[0]]), (), total.spec))
    return written(rebuilt(first, (total, *(new[each] for each in first.inputs[1:]))))
