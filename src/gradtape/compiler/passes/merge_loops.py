"""Merge loops: a loop or branch whose results another one computes as well is not run.

Forward mode makes a loop that carries values and tangents, reverse mode one that also saves the
values that the way back reads. Either computes all that the first loop does, from the same
operands, so the results of the first loop are read from it. In each group of operands and results
those of the first loop come first. So one loop is part of another if its groups are prefixes of the
other's, and its bodies, which are interned, are the other's restricted to these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

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

    # What must be equal in both.
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
            if large is small or large in found or not _may_contain(own, other):
                continue
            if _contains(own, other):
                found[small] = large, _positions(own, other)
                break
    return {small: merge for small, merge in found.items() if merge[0] not in found}


def _may_contain(small: Form, large: Form) -> bool:
    if small.fixed != large.fixed:
        return False
    groups = zip(small.operands, large.operands, strict=True)
    more = all(a <= b for a, b in zip(small.results, large.results, strict=True))
    return more and all(b[: len(a)] == a for a, b in groups)


def _contains(small: Form, large: Form) -> bool:
    """Whether the bodies of the large one, restricted to the groups of the small, are its own."""
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


def _positions(small: Form, large: Form) -> list[int]:
    """For each result of the small one, its number among those of the large one."""
    found: list[int] = []
    start = 0
    for a, b in zip(small.results, large.results, strict=True):
        found += range(start, start + a)
        start += b
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

    if _has_circle(roots, parents):
        return None
    for node in topological(roots, stop=new.keys(), parents=parents):
        if node not in new:
            new[node] = rebuilt(node, tuple([new[parent] for parent in parents(node)]))
            nodes.append(new[node])
    return Program(program.inputs, tuple(nodes), tuple(new[node] for node in roots))


def _has_circle(roots: list[Node], parents: Callable[[Node], list[Node]]) -> bool:
    """Whether some node is read on the way to itself."""
    waiting: dict[Node, int] = {}
    readers: dict[Node, list[Node]] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in waiting:
            continue
        read = parents(node)
        waiting[node] = len(read)
        for parent in read:
            readers.setdefault(parent, []).append(node)
        stack += read
    ready = [node for node, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for reader in readers.get(ready.pop(), ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return done < len(waiting)
