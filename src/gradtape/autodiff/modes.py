"""Forward and reverse mode: tangents and cotangents, as more nodes of the same ops.

Either mode can use the rule of the other: a rule is linear, so its transpose is exact.

Equal eigenvalues or singular values are ties, where the derivative of their vectors has a pole. A
function that does not depend on the choice of vectors, such as V f(w) Vᵀ, has a derivative there:
the pole p = 1 / (w_j - w_i) multiplies a term h that vanishes with it. The limit of h / p is
D h / D p, where D is the derivative along a change of the values that separates all of them; and
the series D h / D p - p D² h / (2 (D p)²) + p² D³ h / (6 (D p)³) has the right derivatives, too, so
that second and third derivatives are right.

Cotangents: arrays or row-sparse ones, with masks of where they are not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from gradtape.errors import UndefinedRuleError
from gradtape.ir import OPERATORS, Rows, Undefined, dependents, substitute, topological
from gradtape.ir.node import PICK, Node, apply, constant, derive_from, outputs, placeholder
from gradtape.ir.op_facts import Spectrum
from gradtape.ir.origin import is_noting
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.arithmetic import IDENTITY, WHERE, branch_mask
from gradtape.ops.families.shapes import broadcast_to, reduce_to

if TYPE_CHECKING:
    from gradtape.autodiff.python_rules import PythonRules

# The tangent of a node; of one with several outputs, one or None for each.
_Pushed: TypeAlias = Node | tuple[Node | None, ...]


def reverse(
    targets: Sequence[Node | None],
    cotangents: Sequence[Node | None],
    sources: Sequence[Node],
    blocked: Collection[Node] = (),
    rules: PythonRules | None = None,
) -> list[Node | Rows | None]:
    """The cotangent of each source, or None where no path leads to it.

    `blocked` nodes are treated as constants, sources among them as independent. A pair of target
    and cotangent of which one is None adds nothing.
    """
    wanted = set(sources)
    # Ancestors of a blocked node get no cotangent through it, only on other paths.
    order = topological([node for node in targets if node is not None], stop=blocked)
    active = dependents((n for n in order if n not in blocked or n in wanted), wanted)
    found: dict[Node, Cotangent] = {}

    def collect(shares: Iterable[tuple[Node, Cotangent]]) -> None:
        for node, share in shares:
            found[node] = found[node].plus(share) if node in found else share

    pairs = zip(targets, cotangents, strict=True)
    collect((node, Cotangent(g)) for node, g in pairs if node in active and g is not None)
    noted = is_noting()
    for node in reversed(order):
        # No cotangent passes a blocked node, not even a source, which collects its own before.
        if node in found and node.inputs and node not in blocked:
            cotangent = found[node] if node in wanted else found.pop(node)
            if noted:
                derive_from(node)
            collect(_shares(node, cotangent, active, rules))
    derive_from(None)
    return [found[source].slope if source in found else None for source in sources]


def dense_vjp(
    target: Node,
    cotangent: Node,
    source: Node,
    blocked: Collection[Node] = (),
    rules: PythonRules | None = None,
) -> Node | None:
    """The cotangent of one source as one node."""
    return dense(reverse([target], [cotangent], [source], blocked, rules)[0])


def ones_like(node: Node) -> Node:
    """The cotangent that a gradient starts from."""
    return apply(OPERATORS.full, (), (node.shape, 1, node.dtype))


def _shares(
    node: Node, cotangent: Cotangent, active: set[Node], rules: PythonRules | None
) -> Iterator[tuple[Node, Cotangent]]:
    """The operands of a node that can have a cotangent, which integers and booleans have not."""
    wanted = [
        index
        for index, parent in enumerate(node.inputs)
        if parent in active and (type(parent.spec) is tuple or parent.spec.inexact)
    ]
    if not wanted:
        return
    if node.op is PICK:
        yield node.inputs[0], Cotangent({node.params[0]: cotangent})
    elif node.op is IDENTITY:  # rows stay rows
        yield node.inputs[0], cotangent
    else:
        for index, slope in zip(wanted, _pulled(node, wanted, cotangent, rules), strict=True):
            if slope is not None:
                yield node.inputs[index], cotangent.of_operand(node, index, slope)
        poles = _poles(node)
        if poles is not None:
            for share in _cotangents_of_ties(node, poles, cotangent.outputs(len(node.spec))):
                yield node.inputs[0], Cotangent(share)


def _pulled(
    node: Node, wanted: Sequence[int], cotangent: Cotangent, rules: PythonRules | None = None
) -> Sequence[Slope | None]:
    """The cotangents of the requested operands, from that of the node."""
    op = node.op
    several = type(node.spec) is tuple
    params = node.keywords if node.params else {}
    g: Any = cotangent.outputs(len(node.spec)) if several else cotangent.node
    if op.pullback is not None:
        found: Sequence[Slope | None] = op.pullback(
            wanted, g if several else [g], outputs(node), node.inputs, **params
        )
        return found
    if several:
        pairs = zip(g, node.spec, strict=True)
        g = tuple(constant(0, of) if one is None else one for one, of in pairs)
    if rules is not None and op is CUSTOM:
        slopes = rules.pull(node, g)
        return [slopes[index] for index in wanted]
    if isinstance(op.vjp, Undefined):
        op.vjp.refuse(op.name, "the derivative")
    if op.vjp is None:
        return [_vjp_from_jvp(node, index, g if several else (g,)) for index in wanted]
    y = outputs(node) if several else node
    return [op.vjp(index, g, y, node.inputs, **params) for index in wanted]


def _vjp_from_jvp(node: Node, index: int, cotangents: Sequence[Node]) -> Node | None:
    """Transpose the forward rule: it is linear in the tangent, so reverse mode of it is exact."""
    tangent = placeholder(node.inputs[index].spec)
    tangents: list[Node | None] = [None] * len(node.inputs)
    tangents[index] = tangent
    pushed = _pushed(node, tangents)
    results = pushed if isinstance(pushed, tuple) else (pushed,)
    return dense(reverse(results, cotangents, [tangent])[0])


def _jvp_from_vjp(node: Node, tangents: Sequence[Node | None]) -> _Pushed | None:
    """Transpose the reverse rule: it is linear in the cotangent."""
    several = type(node.spec) is tuple
    unknown = [placeholder(of) for of in (node.spec if several else (node.spec,))]
    parts = {number: Cotangent(one) for number, one in enumerate(unknown)}
    cotangent = Cotangent(parts) if several else parts[0]
    wanted = [index for index, tangent in enumerate(tangents) if tangent is not None]
    pulled = [
        None if slope is None else cotangent.of_operand(node, index, slope).node
        for index, slope in zip(wanted, _pulled(node, wanted, cotangent), strict=True)
    ]
    found = reverse(pulled, [tangents[index] for index in wanted], unknown)
    # A placeholder enters linearly, so no derivative by it depends on its value: zero will do.
    zeros = {node: constant(0, node.spec) for node in unknown}
    totals = [one if one is None else substitute([dense(one)], zeros)[0] for one in found]
    return tuple(totals) if several else totals[0]


def forward(
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node | None],
    blocked: Collection[Node] = (),
    rules: PythonRules | None = None,
) -> list[Node | None]:
    """The tangent of each target, or None where it does not depend on any source.

    A tangent that is None is zero.
    """
    given: dict[Node, Node | None] = {}
    for source, tangent in zip(sources, tangents, strict=True):
        given[source] = _sum(given.get(source), tangent)
    pushed: dict[Node, _Pushed | None] = {**given}
    # A function with its own derivative is not entered: its outputs depend on its arguments.
    order = topological(targets, blocked, None if rules is None else _sources)
    active = dependents((n for n in order if n not in blocked or n in given), given)
    for node in order:
        # A source that depends on another source has the tangent that was given for it.
        if node in active and node not in given:
            derive_from(node)
            pushed[node] = _pushed(node, [pushed.get(parent) for parent in node.inputs], rules)
    found = [_single(pushed.get(target)) for target in targets]
    for node in order:
        poles = _poles(node) if node in active and node not in blocked else None
        moving = None if poles is None else _single(pushed.get(node.inputs[0]))
        if poles is not None and moving is not None:
            derive_from(node)
            shares = _tangents_of_ties(targets, node, poles, moving, {*blocked, *given}, rules)
            found = [_sum(a, b) for a, b in zip(found, shares, strict=True)]
    derive_from(None)
    return found


def _sources(node: Node) -> Sequence[Node]:
    return node.inputs[node.params[0] :] if node.op is CUSTOM else node.inputs


def _sum(a: Node | None, b: Node | None) -> Node | None:
    return a if b is None else b if a is None else a + b


def _single(tangent: _Pushed | None) -> Node | None:
    """The tangent of a node with one output."""
    assert not isinstance(tangent, tuple)
    return tangent


def _pushed(
    node: Node, tangents: Sequence[_Pushed | None], rules: PythonRules | None = None
) -> _Pushed | None:
    """The tangent of a node from those of its inputs; only PICK has an input with several."""
    several = type(node.spec) is tuple
    if all(tangent is None for tangent in tangents) or not (several or node.spec.inexact):
        return None
    if rules is not None and node.op is CUSTOM:
        return tuple(rules.push(node, [_single(tangent) for tangent in tangents]))
    jvp = node.op.jvp
    rule = node.op.vjp if jvp is None else jvp
    if isinstance(rule, Undefined):
        rule.refuse(node.op.name, "the derivative")
    if not callable(jvp):
        return _jvp_from_vjp(node, [_single(tangent) for tangent in tangents])
    y = outputs(node) if several else node
    result: _Pushed | None = jvp(tangents, y, node.inputs, **node.keywords)
    return result


# Ties. The powers of the pole, and the factors of the terms of the limit.
_TERMS = ((1, 1.0), (2, -1.0 / 2.0), (3, 1.0 / 6.0))


def _poles(node: Node) -> Callable[..., Any] | None:
    """The poles of the derivative of a node where values are equal, if it has any."""
    return None if node.op.spectrum is None else node.op.spectrum.poles


def _cotangents_of_ties(
    node: Node, poles: Callable[..., Any], cotangents: Sequence[Node | None]
) -> Iterator[Node]:
    """The contribution of equal values of a spectrum to the cotangent of its operand."""
    moved = cotangents
    for power, factor in _TERMS:
        moved = _along_values(moved, node)
        tangent = placeholder(node.inputs[0].spec)
        at_poles = poles(tangent, outputs(node), power)
        share = dense(reverse(at_poles, moved, [tangent])[0])
        if share is not None:
            yield share * factor


def _tangents_of_ties(
    targets: Sequence[Node],
    node: Node,
    poles: Callable[..., Any],
    tangent: Node,
    blocked: Collection[Node],
    rules: PythonRules | None,
) -> list[Node | None]:
    """The contribution of equal values of a spectrum to the tangents of the targets."""
    vectors = [
        found
        for found in topological(targets)
        if found.op is PICK and found.inputs[0] is node and found not in blocked
        if found.params[0] != _spectrum(node).values
    ]
    # The derivative along the values leaves the tangents of the vectors as they are.
    unknown = [placeholder(vector.spec) for vector in vectors]
    moved = forward(targets, vectors, unknown, blocked, rules)
    total: list[Node | None] = [None] * len(targets)
    for power, factor in _TERMS if vectors else ():
        moved = _along_values(moved, node)
        known = poles(tangent, outputs(node), power)
        given = {u: known[v.params[0]] for u, v in zip(unknown, vectors, strict=True)}
        for number, one in enumerate(moved):
            if one is not None:
                total[number] = _sum(total[number], substitute([one], given)[0] * factor)
    return total


def _along_values(targets: Sequence[Node | None], node: Node) -> list[Node | None]:
    """The derivatives of targets along the change of values that separates the node's values."""
    nothing: list[Node | None] = [None] * len(targets)
    given = [target for target in targets if target is not None]
    values = [found for found in topological(given) if _are_values(found, node)]
    if not values:
        return nothing
    directions = [_spectrum(node).direction(value) for value in values]
    try:
        moved = iter(forward(given, values, directions))
    except UndefinedRuleError:
        # A derivative written in Python, of which no other is known.
        return nothing
    return [None if target is None else next(moved) for target in targets]


def _are_values(found: Node, node: Node) -> bool:
    """Whether a node is the values of a spectrum, or of another of its kind with its operand."""
    of = found.inputs[0] if found.op is PICK else found
    spectrum = of.op.spectrum
    if spectrum is None or spectrum.kind != _spectrum(node).kind:
        return False
    picked = found.params[0] if found.op is PICK else None
    wanted = spectrum.values if type(of.spec) is tuple else None
    return of.inputs[0] is node.inputs[0] and picked == wanted


def _spectrum(node: Node) -> Spectrum:
    assert node.op.spectrum is not None
    return node.op.spectrum


# The cotangent of a node with one output, without its mask.
Slope: TypeAlias = Node | Rows


class Cotangent:
    """A cotangent with an optional mask: where the mask is false it is exactly zero.

    The mask keeps the NaN of a branch that is not taken out of the gradient: 0 * inf appears only
    where the mask is false, and there the product is replaced by 0. A node with several outputs has
    the cotangents of these by their numbers, and no mask.
    """

    __slots__ = ("content", "mask")

    # Written out: one is made for every operand, and a frozen dataclass takes twice as long.
    def __init__(self, content: Slope | dict[int, Cotangent], mask: Node | None = None) -> None:
        self.content = content
        self.mask = mask

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum, which is zero where both are; without a mask, one may be anything anywhere."""
        mine, others = self.content, other.content
        if isinstance(mine, dict) and isinstance(others, dict):
            shared = {number: mine[number].plus(others[number]) for number in mine.keys() & others}
            return Cotangent({**mine, **others, **shared})
        mask = None
        if self.mask is not None and other.mask is not None:
            mask = self.mask | other.mask
        if isinstance(mine, Rows) and isinstance(others, Rows):
            return Cotangent(mine.joined(others), mask)
        return Cotangent(self.node + other.node, mask)

    @property
    def slope(self) -> Slope:
        """The cotangent of a node with one output."""
        assert not isinstance(self.content, dict)
        return self.content

    @property
    def node(self) -> Node:
        """The same as one node."""
        content = self.content
        return content if type(content) is Node else dense(self.slope)

    def outputs(self, count: int) -> list[Node | None]:
        """The cotangents of all outputs of a node with several; None where there is none."""
        parts = self.content
        assert isinstance(parts, dict)
        return [parts[number].node if number in parts else None for number in range(count)]

    def of_operand(self, node: Node, index: int, slope: Slope) -> Cotangent:
        """The cotangent of an operand, from the slope that the op's rule made of this one.

        Broadcasting of element-wise ops is undone here, by a sum. The mask acts before it: a NaN of
        one element must not reach the sum.
        """
        op, mask = node.op, None
        if type(node.spec) is tuple or isinstance(slope, Rows):
            return Cotangent(slope, None if self.mask is None else self._mask_of(node, index))
        if op.elementwise:
            shape = node.inputs[index].shape
            if slope.shape == node.shape != shape:
                slope = reduce_to(masked(slope, self.mask), shape)
        if self.mask is not None or op is WHERE:
            mask = self._mask_of(node, index)
        return Cotangent(masked(slope, mask), mask)

    def _mask_of(self, node: Node, index: int) -> Node | None:
        """The mask of an operand's cotangent.

        A mask begins at a `where`, whose branches have a cotangent of 0 where they are not taken.
        It goes on through ops that have a rule for it, and ends at others: there every element may
        matter.
        """
        found: Node | None = None
        if self.mask is not None and node.op.mask is not None:
            found = node.op.mask(index, self.mask, node, node.inputs, **node.keywords)
        if node.op is WHERE:
            here = branch_mask(index, node)
            return here if found is None else here & found
        return found


@overload
def dense(slope: Slope) -> Node: ...


@overload
def dense(slope: Slope | None) -> Node | None: ...


def dense(slope: Slope | None) -> Node | None:
    """A cotangent as one node."""
    return slope.dense() if isinstance(slope, Rows) else slope


def masked(node: Node, mask: Node | None) -> Node:
    """The node where the mask holds, exactly 0 elsewhere."""
    if mask is None:
        return node
    return apply(WHERE, (broadcast_to(mask, node.shape), node, constant(0, node.spec)))
