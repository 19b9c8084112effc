"""Simplify: equal expressions are shared, exact identities applied, constants folded; fast math."""

from __future__ import annotations

import numpy as np

from gradtape.compiler.passes.rewrite import rewrite
from gradtape.ir import OPERATORS, PICK, Node, Program, View, constant_value, rebuilt
from gradtape.ops.custom.custom import passes_through
from gradtape.ops.elementwise.unary import reciprocal
from gradtape.ops.families.identities import full
from gradtape.trace.record import op_of


def simplify(program: Program) -> Program:
    """Replace each node by a simpler one that gives the same bits, where its op has one."""
    return rewrite(program, lambda node, now: _simplest(now.over(node)))


def _simplest(node: Node) -> Node:
    op = node.op
    found: Node | None = passes_through(node) if op is PICK else None
    if op.simpler is not None:
        found = op.simpler(node)
    if found is None and _is_foldable(node):
        found = _folded(node)
    return node if found is None else found


def _is_foldable(node: Node) -> bool:
    # Nearly always the first operand is no constant: that is checked first.
    if not node.inputs or constant_value(node.inputs[0]) is None or not node.op.elementwise:
        return False
    return all(constant_value(parent) is not None for parent in node.inputs)


def _folded(node: Node) -> Node | None:
    """An element-wise op on constants is a constant."""
    operands = [np.full((), constant_value(p), p.dtype) for p in node.inputs]
    with np.errstate(all="ignore"):
        value = np.asarray(node.op.numpy(*operands, **node.keywords)).astype(node.dtype)[()].item()
    # Structures are compared by value, and -0.0 == 0.0.
    parts = (value.real, value.imag)
    return None if any(part == 0 and np.signbit(part) for part in parts) else full(node, value)


def share_subexpressions(program: Program) -> Program:
    """Before: `b = f(a); c = f(a); d = identity(c)`. After: `b = f(a)`, used for all three."""
    # Only nodes that another one stands for: in most programs few are, and a pass over a new
    # program should do little for each of the others.
    same: dict[Node, Node] = {}
    first: dict[tuple[object, ...], Node] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        op, inputs = node.op, node.inputs
        passed = passes_through(node) if op is PICK else None
        if passed is not None:
            same[node] = same.get(passed, passed)
            continue
        if op.transparent:
            # Several outputs are inputs of their own: nothing is left to compute.
            kept = inputs[0]
            same[node] = node if type(node.spec) is tuple else same.get(kept, kept)
            continue
        if same:
            inputs = tuple([same.get(parent, parent) for parent in inputs])
        if op.opaque:
            found = rebuilt(node, inputs)
        else:
            key = (op, node.params, *inputs)
            known = first.get(key)
            if known is not None:
                same[node] = known
                continue
            found = first[key] = node if inputs is node.inputs else rebuilt(node, inputs)
        nodes.append(found)
        if found is not node:
            same[node] = found
    if not same:
        return program
    outputs = tuple(same.get(node, node) for node in program.outputs)
    return Program(program.inputs, tuple(nodes), outputs)


def relax_rounding(program: Program) -> Program:
    """Before: x / n, with n shared by many elements. After: x * (1 / n), one rounding more."""
    return rewrite(
        program, lambda node, now: _by_product(now.over(node)) if _shares_divisor(node) else None
    )


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
