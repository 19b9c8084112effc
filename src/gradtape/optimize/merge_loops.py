"""Subsume: a loop or branch whose results another one computes as well is not run.

Forward mode makes a loop that carries values and tangents, reverse mode one that also saves what
the way back reads. Either computes all that the first loop does, from the same operands: what was
asked of the first is read from it. In each group of operands and results the first loop's come
first, so being part of another is a question of prefixes; programs are compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradtape.errors import GraphError
from gradtape.graph.node import PICK, Node
from gradtape.graph.program import Program, closed
from gradtape.graph.walk import dependents


@dataclass(frozen=True)
class Shape:
    """A control op as groups of operands and of results; bodies take operands in that order."""

    # What must agree.
    fixed: tuple[Any, ...]
    operands: tuple[tuple[Node, ...], ...]
    results: tuple[int, ...]
    # Each body, and whether it gives the results rather than a condition.
    bodies: tuple[tuple[Program, bool], ...]


def shape_of(node: Node) -> Shape | None:
    """How a control op is made; None for any other op."""
    name = node.op.name
    if name == "scan":
        body, constants, carries, length, reverse, _ = node.params
        first = constants + carries
        groups = (node.inputs[:constants], node.inputs[constants:first], node.inputs[first:])
        results = (carries, len(node.spec) - carries)
        return Shape((name, length, reverse), groups, results, ((body, True),))
    if name == "while":
        condition, body, constants, maximum = node.params
        halves = (node.inputs[:constants], node.inputs[constants:])
        pair = ((condition, False), (body, True))
        return Shape((name, maximum), halves, (len(halves[1]), 1), pair)
    if name == "branch":
        (branches,) = node.params
        pairs = tuple((body, True) for body in branches)
        fixed = (name, node.inputs[0], len(branches))
        return Shape(fixed, (node.inputs[1:],), (len(node.spec),), pairs)
    return None


def subsume(program: Program) -> Program:
    """Before: `a = scan(f); b = scan(f with tangents)`. After: `b`, of which both are read."""
    while True:
        found = _pair(program)
        if found is None:
            return program
        # One at a time: each replacement changes what depends on what.
        program = _replaced(program, *found)


def _pair(program: Program) -> tuple[Node, Node, list[int]] | None:
    """A loop, another that computes all that it does, and where its results are there."""
    control = {node: shape_of(node) for node in program.nodes if node.op.family == "control"}
    for small, own in control.items():
        for large, other in control.items():
            if large is small or own is None or other is None or not _may_contain(own, other):
                continue
            order = (*program.inputs, *program.nodes)
            if large not in dependents(order, {small}) and _contains(own, other):
                return small, large, _positions(own, other)
    return None


def _may_contain(small: Shape, large: Shape) -> bool:
    if small.fixed != large.fixed:
        return False
    groups = zip(small.operands, large.operands, strict=True)
    more = all(a <= b for a, b in zip(small.results, large.results, strict=True))
    return more and all(b[: len(a)] == a for a, b in groups)


def _contains(small: Shape, large: Shape) -> bool:
    """Whether the bodies of one, restricted to what the other takes and gives, are the other's."""
    for (own, _), (other, gives) in zip(small.bodies, large.bodies, strict=True):
        inputs: list[Node] = []
        start = 0
        for a, b in zip(small.operands, large.operands, strict=True):
            inputs += other.inputs[start : start + len(a)]
            start += len(b)
        outputs = list(other.outputs)
        if gives:
            # A loop's last result may be the number of steps, which no body gives.
            outputs, start = [], 0
            for count, width in zip(small.results, large.results, strict=True):
                outputs += other.outputs[start : start + count]
                start += width
        try:
            if closed(inputs, outputs) is not own:
                return False
        except GraphError:
            return False
    return True


def _positions(small: Shape, large: Shape) -> list[int]:
    """For each result of one, its number among those of the other."""
    found: list[int] = []
    start = 0
    for a, b in zip(small.results, large.results, strict=True):
        found += range(start, start + a)
        start += b
    return found


def _replaced(program: Program, small: Node, large: Node, positions: list[int]) -> Program:
    instead = {
        node: Node(PICK, (large,), (positions[node.params[0]],), node.spec)
        for node in program.nodes
        if node.op is PICK and node.inputs[0] is small
    }
    # What reads the one now waits for the other: the order is made anew.
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []
    roots = [instead.get(node, node) for node in program.outputs]
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        parents = [instead.get(parent, parent) for parent in node.inputs]
        waiting = [parent for parent in parents if parent not in new]
        if waiting and node not in new:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        if node not in new:
            inputs = tuple(new[parent] for parent in parents)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else Node(node.op, inputs, node.params, node.spec)
            nodes.append(new[node])
    return Program(program.inputs, tuple(nodes), tuple(new[node] for node in roots))
