"""Factor loops: a matrix that every step of a loop solves with is factored once, before the loop.

`solve` is one op until a program is compiled. As factors and a solution by factors, the factors
of a constant matrix are what every step would compute alike, which `trim_loops` moves outside.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.compiler.passes.compositions import expand_compositions
from gradtape.compiler.passes.rewrite import Rewriting, rewrite
from gradtape.compiler.passes.trim_loops import trim_loops
from gradtape.ir import Program, closed, of_structure
from gradtape.ir.node import Node
from gradtape.ops.control.scan import SCAN


def factor_loops(program: Program, optimized: Callable[[Program], Program]) -> Program:
    """Before: `scan` of `solve(a, u)`. After: `factors(a)`, and `scan` of `solve_by(factors, u)`.

    `optimized` runs all passes on a body.
    """
    if not any(_solves_with_a_constant(node) for node in program.nodes if node.op is SCAN):
        return program

    def expanded(node: Node, now: Rewriting) -> Node | None:
        if not _solves_with_a_constant(node):
            return None
        body, *others = node.params
        return Node(SCAN, now.over(node).inputs, (_expanded(body), *others), node.spec)

    return trim_loops(rewrite(program, expanded), optimized)


def _solves_with_a_constant(node: Node) -> bool:
    """Whether the body of a loop solves with a matrix that is one of its constants."""
    if node.op is not SCAN:
        return False
    body, constants = node.params[0], node.params[1]
    fixed = set(body.inputs[:constants])
    return any(
        each.op.solves and each.op.composition is not None and _source(each.inputs[0]) in fixed
        for each in body.nodes
    )


def _source(node: Node) -> Node:
    """The node that a node is a view of, such as a transposed matrix."""
    while node.op.view is not None:
        node = node.inputs[0]
    return node


def _expanded(body: Program) -> Program:
    """A body in the ops that compositions consist of, remembered with it."""

    def expand() -> Program:
        found = expand_compositions(body)
        return closed(found.inputs, found.outputs)

    return body.derived.once(of_structure("expanded"), expand)
