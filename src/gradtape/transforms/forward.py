"""Forward mode: tangents from sources on to targets, as more nodes of the same ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from gradtape.graph.node import Node, derive_from, outputs
from gradtape.graph.op import Undefined
from gradtape.graph.walk import dependents, topological
from gradtape.ops.custom.custom import CUSTOM
from gradtape.transforms.reverse import jvp_from_vjp

PythonRule = Callable[[Node, Sequence[Any]], Sequence[Any]]


def forward(
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    blocked: Collection[Node] = (),
    python_rule: PythonRule | None = None,
) -> list[Node | None]:
    """The tangent of each target, or None where it does not depend on any source."""
    pushed: dict[Node, Any] = {}
    for source, tangent in zip(sources, tangents, strict=True):
        pushed[source] = pushed[source] + tangent if source in pushed else tangent
    wanted = set(sources)
    # How the outputs of a function with its own derivative were computed is of no interest.
    order = topological(targets, parents=_inputs if python_rule is None else _sources)
    active = dependents((n for n in order if n not in blocked or n in wanted), wanted)
    for node in order:
        if node not in active:
            continue
        derive_from(node)
        tangent = _through(node, [pushed.get(parent) for parent in node.inputs], python_rule)
        if tangent is None:
            continue
        if node in pushed:  # a source that also depends on another source
            tangent = pushed[node]
        pushed[node] = tangent
    derive_from(None)
    return [pushed.get(target) for target in targets]


def _inputs(node: Node) -> Sequence[Node]:
    return node.inputs


def _sources(node: Node) -> Sequence[Node]:
    return node.inputs[node.params[0] :] if node.op is CUSTOM else node.inputs


def _through(node: Node, tangents: Sequence[Any], python_rule: PythonRule | None) -> Any:
    if all(tangent is None for tangent in tangents):
        return None
    several = type(node.spec) is tuple
    if not several and not node.spec.inexact:
        return None
    if python_rule is not None and node.op is CUSTOM:
        return python_rule(node, tangents)
    jvp = node.op.jvp
    if isinstance(jvp, Undefined):
        jvp.refuse(node.op.name, "the derivative")
    if jvp is None:
        if isinstance(node.op.vjp, Undefined):
            node.op.vjp.refuse(node.op.name, "the derivative")
        return jvp_from_vjp(node, tangents)
    y = outputs(node) if several else node
    return jvp(tangents, y, node.inputs, **node.keywords)
