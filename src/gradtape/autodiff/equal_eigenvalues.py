"""Ties: equal eigenvalues or singular values, where the derivative of their vectors has a pole.

A function that does not depend on the choice of vectors, such as V f(w) Vᵀ, has a derivative there:
the pole 1 / (w_j - w_i) multiplies a term h that vanishes with it. The limit of h / p is D h / D p,
where D is the derivative along a change of the values that separates all of them; and the series
D h / D p - p D² h / (2 (D p)²) + p² D³ h / (6 (D p)³) has the right derivatives, too, so that
second and third derivatives are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradtape.errors import UndefinedRuleError
from gradtape.ir import PICK, Node, topological
from gradtape.ir.hooks import hooks

# The powers of the pole, and the factors of the terms of the limit.
TERMS = ((1, 1.0), (2, -1.0 / 2.0), (3, 1.0 / 6.0))


def has_poles(node: Node) -> bool:
    """Whether the derivative of a node has poles where values are equal."""
    return node.op.spectrum is not None and node.op.spectrum.poles is not None


def along_values(targets: Sequence[Node | None], node: Node) -> list[Node | None]:
    """The derivatives of targets along the change of values that separates the node's values."""
    given = [target for target in targets if target is not None]
    assert node.op.spectrum is not None
    values = list(_values(topological(given), node))
    directions = [node.op.spectrum.direction(value) for value in values]
    if not values:
        return [None] * len(targets)
    try:
        found = iter(hooks.transforms.forward(given, values, directions))
    except UndefinedRuleError:
        # A derivative written in Python, of which no other is known.
        return [None] * len(targets)
    return [None if target is None else next(found) for target in targets]


def _values(nodes: Iterable[Node], node: Node) -> Iterable[Node]:
    """The nodes that are the values of the node, or of another of its kind with its operand."""
    assert node.op.spectrum is not None
    for found in nodes:
        of = found.inputs[0] if found.op is PICK else found
        spectrum = of.op.spectrum
        if spectrum is None or spectrum.kind != node.op.spectrum.kind:
            continue
        picked = found.params[0] if found.op is PICK else None
        wanted = spectrum.values if type(of.spec) is tuple else None
        if of.inputs[0] is node.inputs[0] and picked == wanted:
            yield found
