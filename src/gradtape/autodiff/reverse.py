"""Reverse mode: cotangents from targets back to sources, as more nodes of the same ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from gradtape.autodiff.cotangent import Cotangent, Slope, masked
from gradtape.autodiff.equal_eigenvalues import TERMS, along_values, has_poles
from gradtape.ir import OPERATORS, Rows, Undefined, dependents, substitute, topological
from gradtape.ir.node import PICK, Node, apply, constant, derive_from, outputs, placeholder
from gradtape.ir.provenance import provenance
from gradtape.ir.recorded_lines import LINES
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.arithmetic import IDENTITY, WHERE, branch_mask
from gradtape.ops.families.shapes import reduce_to

# How a custom derivative written in Python is called: (node, cotangents) -> input cotangents.
PythonRule = Callable[[Node, tuple[Node, ...]], Sequence[Slope | None]]
# The cotangent of a node; of one with several outputs, one for each.
Given = Node | tuple[Node, ...]
# A tangent of a node; of one with several outputs, one or None for each.
Tangent = Node | tuple[Node | None, ...]


def reverse(
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    blocked: Collection[Node] = (),
    python_rule: PythonRule | None = None,
) -> list[Node | Rows | None]:
    """The cotangent of each source, or None where no path leads to it.

    `blocked` nodes are treated as constants, sources among them as independent. `python_rule`
    differentiates the nodes whose derivative is a Python function of the user.
    """
    wanted = set(sources)
    # What lies behind a blocked node gets no cotangent through it, and is found on other ways.
    order = topological(targets, stop=blocked)
    active = dependents((n for n in order if n not in blocked or n in wanted), wanted)
    found: dict[Node, Cotangent] = {}
    # For nodes with several outputs: the cotangents of these, as far as they are known.
    several: dict[Node, list[Cotangent | None]] = {}
    for target, given in zip(targets, cotangents, strict=True):
        if target in active:
            _accumulate(found, target, Cotangent(given))
    noted = provenance() is not None or LINES.noting
    for node in reversed(order):
        # No cotangent passes a blocked node, not even a source, which collects its own before.
        if node not in active or not node.inputs or node in blocked:
            continue
        if noted:
            derive_from(node)
        if type(node.spec) is tuple:
            if node in several:
                _through_several(node, several.pop(node), found, active, python_rule)
        elif node in found:
            cotangent = found[node]
            if node.op is PICK:
                count = len(node.inputs[0].spec)
                several.setdefault(node.inputs[0], [None] * count)[node.params[0]] = cotangent
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
    """Whether a node can have a cotangent: integers and booleans have none."""
    return type(node.spec) is tuple or bool(node.spec.inexact)


def _through(
    node: Node, cotangent: Cotangent, found: dict[Node, Cotangent], active: set[Node]
) -> None:
    """Carry a cotangent through one node to its active inputs."""
    op, before = node.op, cotangent.mask
    for index, parent in enumerate(node.inputs):
        if parent not in active or not _carries(parent):
            continue
        if op is IDENTITY:  # rows stay rows
            _accumulate(found, parent, cotangent)
            continue
        content = cotangent.content
        given = content if type(content) is Node else cotangent.node
        result = _pulled(node, index, given, before)
        if result is None:
            continue
        mask = None if before is None and op is not WHERE else _mask(node, index, before)
        if mask is not None and not isinstance(result, Rows):  # rows have masked elements
            result = masked(result, mask)
        _accumulate(found, parent, Cotangent(result, mask))


def _pulled(node: Node, index: int, g: Given, mask: Node | None = None) -> Slope | None:
    """The cotangent of one input.

    Broadcasting of element-wise ops is undone here, by a sum. The mask acts before it: a NaN of one
    element must not reach the sum.
    """
    op = node.op
    vjp = op.vjp
    if isinstance(vjp, Undefined):
        vjp.refuse(op.name, "the derivative")
    if vjp is None:
        if op.pullback is not None:
            return _pulled_back(node, (index,), g if isinstance(g, tuple) else (g,))[0]
        return _vjp_from_jvp(node, index, g)
    y = outputs(node) if type(node.spec) is tuple else node
    params = op.keywords(node.params) if node.params else {}
    result: Slope | None = vjp(index, g, y, node.inputs, **params)
    if op.elementwise and isinstance(result, Node) and node.inputs[index].spec is not node.spec:
        shape = node.inputs[index].shape
        if result.shape == node.shape != shape:
            result = reduce_to(masked(result, mask), shape)
    return result


def _mask(node: Node, index: int, mask: Node | None) -> Node | None:
    """The mask of an input's cotangent.

    A mask begins at a `where`, whose branches have a cotangent of 0 where they are not taken. It
    goes on through ops that have a rule for it, and ends at others: there every element may matter.
    """
    found: Node | None = None
    if mask is not None and node.op.mask is not None:
        found = node.op.mask(index, mask, node, node.inputs, **node.keywords)
    if node.op is WHERE:
        here = branch_mask(index, node)
        return here if found is None else here & found
    return found


def _through_several(
    node: Node,
    cotangents: Sequence[Cotangent | None],
    found: dict[Node, Cotangent],
    active: set[Node],
    python_rule: PythonRule | None,
) -> None:
    """Carry the cotangents of a node with several outputs to its inputs; None stands for zero."""
    if node.op.pullback is not None:
        given = [None if one is None else one.node for one in cotangents]
        wanted = [
            i for i, parent in enumerate(node.inputs) if parent in active and _carries(parent)
        ]
        for index, result in zip(wanted, _pulled_back(node, wanted, given), strict=True):
            if result is not None:
                _accumulate(found, node.inputs[index], Cotangent(result))
        return
    dense = tuple(
        constant(0, of) if one is None else one.node
        for one, of in zip(cotangents, node.spec, strict=True)
    )
    if python_rule is not None and node.op is CUSTOM:
        for parent, slope in zip(node.inputs, python_rule(node, dense), strict=True):
            if slope is not None and parent in active:
                _accumulate(found, parent, Cotangent(slope))
        return
    for index, parent in enumerate(node.inputs):
        if parent not in active or not _carries(parent):
            continue
        slope = _pulled(node, index, dense)
        if slope is not None:
            _accumulate(found, parent, Cotangent(slope))
        if has_poles(node):
            for share in _shares_of_ties(node, dense):
                _accumulate(found, parent, Cotangent(share))


def _shares_of_ties(node: Node, cotangents: Sequence[Node]) -> Iterator[Node]:
    """What the pairs of equal values of a spectrum add to the cotangent of its operand."""
    spectrum = node.op.spectrum
    assert spectrum is not None
    assert spectrum.poles is not None
    moved: Sequence[Node | None] = cotangents
    for power, factor in TERMS:
        moved = along_values(moved, node)
        tangent = placeholder(node.inputs[0].spec)
        poles = zip(spectrum.poles(tangent, outputs(node), power), moved, strict=True)
        pairs = [(p, m) for p, m in poles if p is not None and m is not None]
        if pairs:
            (share,) = reverse([p for p, _ in pairs], [m for _, m in pairs], [tangent])
            if share is not None:
                yield _dense(share) * factor


def _pulled_back(
    node: Node, wanted: Sequence[int], cotangents: Sequence[Node | None]
) -> list[Node | None]:
    """The cotangents of wanted inputs, by the op's rule for all of them at once."""
    assert node.op.pullback is not None
    found: list[Node | None] = node.op.pullback(
        wanted, cotangents, outputs(node), node.inputs, **node.keywords
    )
    return found


def _dense(slope: Slope) -> Node:
    return slope.dense() if isinstance(slope, Rows) else slope


def _vjp_from_jvp(node: Node, index: int, g: Given) -> Node | None:
    """Transpose the forward rule: it is linear in the tangent, so reverse mode of it is exact."""
    tangent = placeholder(node.inputs[index].spec)
    tangents: list[Node | None] = [None] * len(node.inputs)
    tangents[index] = tangent
    jvp = node.op.jvp
    assert callable(jvp)
    y = outputs(node) if isinstance(g, tuple) else node
    result: Tangent | None = jvp(tangents, y, node.inputs, **node.keywords)
    results = result if isinstance(result, tuple) else (result,)
    given = g if isinstance(g, tuple) else (g,)
    pairs = [(t, c) for t, c in zip(results, given, strict=True) if t is not None]
    (found,) = reverse([t for t, _ in pairs], [c for _, c in pairs], [tangent])
    return None if found is None else _dense(found)


def jvp_from_vjp(node: Node, tangents: Sequence[Node | None]) -> Tangent | None:
    """Transpose the reverse rule: it is linear in the cotangent."""
    several = type(node.spec) is tuple
    specs = node.spec if several else (node.spec,)
    cotangents = tuple(placeholder(of) for of in specs)
    totals: list[Node | None] = [None] * len(specs)
    for index, tangent in enumerate(tangents):
        if tangent is None:
            continue
        pulled = _pulled(node, index, cotangents if several else cotangents[0])
        if pulled is None:
            continue
        for position, pushed in enumerate(reverse([_dense(pulled)], [tangent], cotangents)):
            if pushed is not None:
                earlier, found = totals[position], _dense(pushed)
                totals[position] = found if earlier is None else earlier + found
    # A placeholder enters linearly, so no derivative by it depends on its value: zero will do.
    totals = [
        total if total is None else substitute([total], _zeros(cotangents))[0] for total in totals
    ]
    return tuple(totals) if several else totals[0]


def _zeros(nodes: Sequence[Node]) -> dict[Node, Node]:
    return {node: constant(0, node.spec) for node in nodes}


def ones_like(node: Node) -> Node:
    """The cotangent that a gradient starts from."""
    return apply(OPERATORS.full, (), (node.shape, 1, node.dtype))
