"""Forward mode: tangents from sources on to targets, as more nodes of the same ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gradtape.autodiff.equal_eigenvalues import TERMS, along_values, has_poles
from gradtape.autodiff.reverse import Tangent, jvp_from_vjp
from gradtape.ir import PICK, Undefined, dependents, placeholder, substitute, topological
from gradtape.ir.node import Node, derive_from, outputs
from gradtape.ops.custom.custom import CUSTOM

# How a custom derivative written in Python is called: (node, tangents) -> tangents of its outputs.
PythonRule = Callable[[Node, Sequence[Node | None]], Sequence[Node | None]]


def forward(
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    blocked: Collection[Node] = (),
    python_rule: PythonRule | None = None,
) -> list[Node | None]:
    """The tangent of each target, or None where it does not depend on any source."""
    given: dict[Node, Node] = {}
    for source, tangent in zip(sources, tangents, strict=True):
        given[source] = given[source] + tangent if source in given else tangent
    pushed: dict[Node, Tangent] = {**given}
    wanted = set(sources)
    # A function with its own derivative is not entered: its outputs depend on its arguments.
    order = topological(targets, blocked, None if python_rule is None else _sources)
    active = dependents((n for n in order if n not in blocked or n in wanted), wanted)
    for node in order:
        if node not in active:
            continue
        derive_from(node)
        found = _through(node, [pushed.get(parent) for parent in node.inputs], python_rule)
        # A source that depends on another source has the tangent that was given for it.
        if found is not None and node not in given:
            pushed[node] = found
    found_tangents = [_single(pushed.get(target)) for target in targets]
    for node in order:
        if node in active and node not in blocked and has_poles(node):
            moving = _single(pushed.get(node.inputs[0]))
            if moving is not None:
                derive_from(node)
                shares = _shares_of_ties(targets, node, moving, {*blocked, *given}, python_rule)
                pairs = zip(found_tangents, shares, strict=True)
                found_tangents = [_sum(a, b) for a, b in pairs]
    derive_from(None)
    return found_tangents


def _shares_of_ties(
    targets: Sequence[Node],
    node: Node,
    tangent: Node,
    blocked: Collection[Node],
    python_rule: PythonRule | None,
) -> list[Node | None]:
    """What the pairs of equal values of a spectrum add to the tangents of the targets."""
    spectrum = node.op.spectrum
    assert spectrum is not None
    assert spectrum.poles is not None
    picks = [
        found
        for found in topological(targets)
        if found.op is PICK and found.inputs[0] is node and found not in blocked
    ]
    vectors = [found for found in picks if found.params[0] != spectrum.values]
    # The derivative along the values leaves the tangents of the vectors as they are.
    unknown = [placeholder(vector.spec) for vector in vectors]
    moved = forward(targets, vectors, unknown, blocked, python_rule) if vectors else []
    total: list[Node | None] = [None] * len(targets)
    for power, factor in TERMS if vectors else ():
        moved = along_values(moved, node)
        known = spectrum.poles(tangent, outputs(node), power)
        given = {u: known[v.params[0]] for u, v in zip(unknown, vectors, strict=True)}
        for number, one in enumerate(moved):
            if one is not None:
                total[number] = _sum(total[number], substitute([one], given)[0] * factor)
    return total


def _sum(a: Node | None, b: Node | None) -> Node | None:
    return a if b is None else b if a is None else a + b


def _single(tangent: Tangent | None) -> Node | None:
    """The tangent of a node with one output."""
    assert not isinstance(tangent, tuple)
    return tangent


def _sources(node: Node) -> Sequence[Node]:
    return node.inputs[node.params[0] :] if node.op is CUSTOM else node.inputs


def _through(
    node: Node, tangents: Sequence[Tangent | None], python_rule: PythonRule | None
) -> Tangent | None:
    """The tangent of a node from those of its inputs; only PICK has an input with several."""
    if all(tangent is None for tangent in tangents):
        return None
    several = type(node.spec) is tuple
    if not several and not node.spec.inexact:
        return None
    if python_rule is not None and node.op is CUSTOM:
        return tuple(python_rule(node, [_single(tangent) for tangent in tangents]))
    jvp = node.op.jvp
    if isinstance(jvp, Undefined):
        jvp.refuse(node.op.name, "the derivative")
    if jvp is None:
        if isinstance(node.op.vjp, Undefined):
            node.op.vjp.refuse(node.op.name, "the derivative")
        return jvp_from_vjp(node, [_single(tangent) for tangent in tangents])
    y = outputs(node) if several else node
    result: Tangent | None = jvp(tangents, y, node.inputs, **node.keywords)
    return result
