"""Reverse mode: cotangents from targets back to sources, as more nodes of the same ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from gradtape.graph.node import (
    PICK,
    Node,
    apply,
    constant,
    derive_from,
    outputs,
    placeholder,
)
from gradtape.graph.op import Undefined
from gradtape.graph.operators import OPERATORS
from gradtape.graph.walk import dependents, substitute, topological
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.arithmetic import IDENTITY, WHERE, branch_mask
from gradtape.ops.families.shapes import reduce_to
from gradtape.transforms.cotangent import Cotangent, Rows, masked

# How a custom derivative written in Python is called: (node, cotangents) -> input cotangents.
PythonRule = Callable[[Node, tuple[Any, ...]], Sequence[Any]]


def reverse(
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    blocked: Collection[Node] = (),
    python_rule: PythonRule | None = None,
) -> list[Node | Rows | None]:
    """The cotangent of each source, or None where no path leads to it.

    `blocked` nodes are treated as constants, sources among them as independent. `python_rule`
    differentiates the nodes whose derivative is a Python closure; see gradtape.custom.
    """
    wanted = set(sources)
    order = topological(targets)
    active = dependents((n for n in order if n not in blocked or n in wanted), wanted)
    found: dict[Node, Cotangent] = {}
    several: dict[Node, list[Any]] = {}
    for target, given in zip(targets, cotangents, strict=True):
        if target in active:
            _accumulate(found, target, Cotangent(given))
    for node in reversed(order):
        # A source may be a constant otherwise: how it was computed is nobody's way.
        if node not in active or not node.inputs or node in blocked:
            continue
        derive_from(node)
        if type(node.spec) is tuple:
            if node in several:
                _through_several(node, several.pop(node), found, active, python_rule)
        elif node in found:
            cotangent = found[node]
            if node.op is PICK:
                slots = several.setdefault(node.inputs[0], [None] * len(node.inputs[0].spec))
                slots[node.params[0]] = cotangent
            else:
                _through(node, cotangent, found, active)
            if node not in wanted:
                del found[node]
    derive_from(None)
    return [found[source].content if source in found else None for source in sources]


def _accumulate(found: dict[Node, Cotangent], node: Node, cotangent: Cotangent) -> None:
    earlier = found.get(node)
    found[node] = cotangent if earlier is None else earlier.plus(cotangent)


def _carries(node: Node) -> bool:
    return type(node.spec) is tuple or node.spec.inexact


def _through(
    node: Node, cotangent: Cotangent, found: dict[Node, Cotangent], active: set[Node]
) -> None:
    """Carry a cotangent through one node to its active inputs."""
    for index, parent in enumerate(node.inputs):
        if parent not in active or not _carries(parent):
            continue
        if node.op is IDENTITY:  # rows stay rows
            _accumulate(found, parent, cotangent)
            continue
        result = _pulled(node, index, cotangent.node, cotangent.mask)
        if result is None:
            continue
        mask = _mask(node, index, cotangent.mask)
        if not isinstance(result, Rows):  # rows hold the masked cotangent's own elements
            result = masked(result, mask)
        _accumulate(found, parent, Cotangent(result, mask))


def _pulled(node: Node, index: int, g: Any, mask: Node | None = None) -> Any:
    """The cotangent of one input, with broadcasting undone; a mask acts before the sum does."""
    vjp = node.op.vjp
    if isinstance(vjp, Undefined):
        vjp.refuse(node.op.name, "the derivative")
    if vjp is None:
        if node.op.pullback is not None:
            return _pulled_back(node, (index,), g)[0]
        return _vjp_from_jvp(node, index, g)
    y = outputs(node) if type(node.spec) is tuple else node
    result = vjp(index, g, y, node.inputs, **node.keywords)
    if node.op.elementwise and result is not None:
        shape = node.inputs[index].shape
        if result.shape == node.shape != shape:
            result = reduce_to(masked(result, mask), shape)
    return result


def _mask(node: Node, index: int, mask: Node | None) -> Node | None:
    """The mask of an input's cotangent; `where` is the op that begins one."""
    if node.op is WHERE:
        here = branch_mask(index, node)
        if mask is None:
            return here
        above = node.op.mask(index, mask, node, node.inputs)  # type: ignore[misc]
        return here & above
    if mask is None or node.op.mask is None:
        return None
    return node.op.mask(index, mask, node, node.inputs, **node.keywords)


def _through_several(
    node: Node,
    cotangents: list[Any],
    found: dict[Node, Cotangent],
    active: set[Node],
    python_rule: PythonRule | None,
) -> None:
    """The same for a node with several outputs: absent cotangents are zeros."""
    if node.op.pullback is not None:
        given = [None if slot is None else slot.node for slot in cotangents]
        wanted = [
            i for i, parent in enumerate(node.inputs) if parent in active and _carries(parent)
        ]
        for index, result in zip(wanted, _pulled_back(node, wanted, given), strict=True):
            if result is not None:
                _accumulate(found, node.inputs[index], Cotangent(result))
        return
    dense = tuple(
        constant(0, of) if slot is None else slot.node
        for slot, of in zip(cotangents, node.spec, strict=True)
    )
    if python_rule is not None and node.op is CUSTOM:
        results = python_rule(node, dense)
        for parent, result in zip(node.inputs, results, strict=True):
            if result is not None and parent in active:
                _accumulate(found, parent, Cotangent(result))
        return
    for index, parent in enumerate(node.inputs):
        if parent not in active or not _carries(parent):
            continue
        result = _pulled(node, index, dense)
        if result is not None:
            _accumulate(found, parent, Cotangent(result))


def _pulled_back(node: Node, wanted: Sequence[int], cotangents: Sequence[Any]) -> list[Any]:
    rule: Any = node.op.pullback
    return rule(wanted, cotangents, outputs(node), node.inputs, **node.keywords)


def _vjp_from_jvp(node: Node, index: int, g: Any) -> Node | None:
    """Transpose the forward rule: it is linear in the tangent, so reverse mode of it is exact."""
    tangent = placeholder(node.inputs[index].spec)
    tangents: list[Any] = [None] * len(node.inputs)
    tangents[index] = tangent
    several = type(node.spec) is tuple
    y = outputs(node) if several else node
    result = node.op.jvp(tangents, y, node.inputs, **node.keywords)  # type: ignore[operator,misc]
    pairs = list(zip(result, g, strict=True)) if several else [(result, g)]
    pairs = [(t, c) for t, c in pairs if t is not None]
    (found,) = reverse([t for t, _ in pairs], [c for _, c in pairs], [tangent])
    return found.dense() if isinstance(found, Rows) else found


def jvp_from_vjp(node: Node, tangents: Sequence[Node | None]) -> Any:
    """Transpose the reverse rule: the cotangent enters it linearly."""
    several = type(node.spec) is tuple
    specs = node.spec if several else (node.spec,)
    cotangents = tuple(placeholder(of) for of in specs)
    g: Any = cotangents if several else cotangents[0]
    totals: list[Any] = [None] * len(specs)
    for index, tangent in enumerate(tangents):
        if tangent is None:
            continue
        pulled = _pulled(node, index, g)
        if pulled is None:
            continue
        if isinstance(pulled, Rows):
            pulled = pulled.dense()
        for position, pushed in enumerate(reverse([pulled], [tangent], cotangents)):
            if pushed is not None:
                node_pushed = pushed.dense() if isinstance(pushed, Rows) else pushed
                earlier = totals[position]
                totals[position] = node_pushed if earlier is None else earlier + node_pushed
    # The placeholder enters only linearly, so no result may mention it; zero is what is left.
    totals = [
        total if total is None else substitute([total], _zeros(cotangents))[0] for total in totals
    ]
    return tuple(totals) if several else totals[0]


def _zeros(nodes: Sequence[Node]) -> dict[Node, Node]:
    return {node: constant(0, node.spec) for node in nodes}


def ones_like(node: Node) -> Node:
    """The cotangent that a gradient starts from."""
    return apply(OPERATORS.full, (), (node.shape, 1, node.dtype))
