"""Merge loops: a loop or branch whose results another one computes as well is not run.

Forward mode makes a loop that carries values and tangents, reverse mode one that also saves the
values that the way back reads. Either computes all that the first loop does, from the same
operands, so the results of the first loop are read from it. In each group of operands and results
those of the first loop come first. So one loop is part of another if its groups are prefixes of the
other's, and its bodies, which are interned, are the other's restricted to these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter

from gradtape.errors import GraphError
from gradtape.ir import PICK, Node, Op, Program, closed, rebuilt, topological
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.records import dataclass


@dataclass(frozen=True)
class Form:
    """A loop or branch as groups of operands and of results; bodies take operands in that order."""

    # Properties that must be equal in both.
    fixed: tuple[object, ...]
    operands: tuple[tuple[Node, ...], ...]
    results: tuple[int, ...]
    # Each body, and whether it gives the results rather than a condition.
    bodies: tuple[tuple[Program, bool], ...]


def _scan_form(node: Node) -> Form:
    scan = Scan.of(node)
    results = (scan.carries, len(node.spec) - scan.carries)
    fixed = (SCAN, scan.length, scan.reverse)
    groups = tuple(tuple(group) for group in scan.parts(node.inputs))
    return Form(fixed, groups, results, ((scan.body, True),))


def _while_form(node: Node) -> Form:
    condition, body, constants, maximum = node.params
    halves = (node.inputs[:constants], node.inputs[constants:])
    pair = ((condition, False), (body, True))
    return Form((WHILE, maximum), halves, (len(halves[1]), 1), pair)


def _branch_form(node: Node) -> Form:
    (branches,) = node.params
    fixed = (BRANCH, node.inputs[0], len(branches))
    bodies = tuple((body, True) for body in branches)
    return Form(fixed, (node.inputs[1:],), (len(node.spec),), bodies)


_FORMS: dict[Op, Callable[[Node], Form]] = {
    SCAN: _scan_form,
    WHILE: _while_form,
    BRANCH: _branch_form,
}


# A loop, and the one that it is read from with the position there of each of its results.
Merges = dict[Node, tuple[Node, list[int]]]


def merge_loops(program: Program) -> Program:
    """Before: `a = scan(f); b = scan(f with tangents)`. After: `b`, of which both are read."""
    while True:
        merges = _merges(program)
        if not merges:
            return program
        merged = _replaced(program, merges)
        if merged is None:
            # Together they would make loops wait for each other.
            each = (_replaced(program, {small: merge}) for small, merge in merges.items())
            merged = next((found for found in each if found is not None), None)
        if merged is None:
            return program
        program = merged


def _merges(program: Program) -> Merges:
    """Loops of which another one computes all results; that one is not merged as well."""
    forms = {node: _FORMS[node.op](node) for node in program.nodes if node.op in _FORMS}
    if len(forms) < 2:
        return {}
    # The loops that may contain one are found by the first operand of each group.
    by_first: dict[tuple[object, ...], list[Node]] = {}
    for node, form in forms.items():
        choices = [{group[0] if group else None, None} for group in form.operands]
        for firsts in itertools.product(*choices):
            by_first.setdefault((form.fixed, *firsts), []).append(node)
    found: Merges = {}
    for small, own in forms.items():
        own_firsts = [group[0] if group else None for group in own.operands]
        for large in by_first[own.fixed, *own_firsts]:
            other = forms[large]
            if large is not small and large not in found and _contains(own, other):
                found[small] = large, _firsts(zip(own.results, other.results, strict=True))
                break
    return {small: merge for small, merge in found.items() if merge[0] not in found}


def _contains(small: Form, large: Form) -> bool:
    """Whether the groups of the small one are the first of those of the large one.

    Restricted to them, the bodies of the large one must be those of the small one.
    """
    groups = list(zip(small.operands, large.operands, strict=True))
    results = list(zip(small.results, large.results, strict=True))
    if any(b[: len(a)] != a for a, b in groups) or any(a > b for a, b in results):
        return False
    kept = _firsts((len(a), len(b)) for a, b in groups)
    for (own, gives), (other, _) in zip(small.bodies, large.bodies, strict=True):
        inputs, outputs = [other.inputs[number] for number in kept], list(other.outputs)
        if gives:
            # A loop's last result may be the number of steps, which no body gives.
            numbers = [number for number in _firsts(results) if number < len(outputs)]
            outputs = [outputs[number] for number in numbers]
        try:
            if closed(inputs, outputs) is not own:
                return False
        except GraphError:
            return False
    return True


def _firsts(lengths: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers of the first items of each group, given how many of how many these are."""
    found: list[int] = []
    start = 0
    for count, width in lengths:
        found += range(start, start + count)
        start += width
    return found


def _replaced(program: Program, merges: Merges) -> Program | None:
    """The program with loops read from others; None if a loop would wait for itself."""
    instead: dict[Node, Node] = {}
    for node in program.nodes:
        if node.op is PICK and node.inputs[0] in merges:
            large, positions = merges[node.inputs[0]]
            instead[node] = Node(PICK, (large,), (positions[node.params[0]],), node.spec)
    # Readers of the small loop now wait for the large one: the order is found anew.
    roots = [instead.get(node, node) for node in program.outputs]
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []

    def parents(node: Node) -> list[Node]:
        return [instead.get(parent, parent) for parent in node.inputs]

    waiting = list(roots)
    read: dict[Node, list[Node]] = {}
    while waiting:
        node = waiting.pop()
        if node not in read:
            read[node] = parents(node)
            waiting += read[node]
    try:
        TopologicalSorter(read).prepare()
    except CycleError:
        return None
    for node in topological(roots, stop=new.keys(), parents=parents):
        if node not in new:
            new[node] = rebuilt(node, tuple([new[parent] for parent in read[node]]))
            nodes.append(new[node])
    return Program(program.inputs, tuple(nodes), tuple(new[node] for node in roots))
