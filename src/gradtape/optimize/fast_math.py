"""Fast math: rewrites that round differently, for functions with `fastmath=True`."""

from __future__ import annotations

from gradtape.graph import OPERATORS, Node, View
from gradtape.graph.program import Program, rewritten
from gradtape.ops.elementwise.unary import reciprocal
from gradtape.ops.families.elementwise import op_of


def relax_rounding(program: Program) -> Program:
    """Before: x / n, with n shared by many elements. After: x * (1 / n), one rounding more."""
    return rewritten(program, lambda node: _by_product(node) if _shares_divisor(node) else node)


def _shares_divisor(node: Node) -> bool:
    if node.op is not OPERATORS.divide or node.dtype.kind != "f":
        return False
    return 0 < node.inputs[1].size < node.size


def _by_product(node: Node) -> Node:
    x, divisor = node.inputs
    # Of a divisor that is spread out, the reciprocal is taken before that.
    if divisor.op.view is View.BROADCAST:
        divisor = divisor.inputs[0]
    inverse = Node(op_of(reciprocal), (divisor,), (), divisor.spec)
    return Node(OPERATORS.multiply, (x, inverse), (), node.spec)
