"""The walk that passes share: what is replaced, what is kept, and what is dropped."""

from __future__ import annotations

import gradtape as gt
from gradtape.compiler.passes.rewrite import Rewriting, rewrite
from gradtape.ir import OPERATORS, Node, Program
from gradtape.ir.verify import verify
from gradtape.tensor.tensor import program_of


def example() -> Program:
    x = gt.asarray([1.0, 2.0])
    return program_of(gt.sin(gt.exp(x) + x) * gt.cos(x))


def test_nothing_replaced_is_the_program_itself():
    program = example()
    assert rewrite(program, lambda node, now: None) is program


def test_new_nodes_come_before_their_readers_and_unread_ones_go():
    program = example()

    def doubled(node: Node, now: Rewriting) -> Node | None:
        if node.op.name != "sin":
            return None
        (x,) = program.inputs
        inner = Node(OPERATORS.multiply, (x, x), (), x.spec)
        return Node(OPERATORS.add, (inner, inner), (), x.spec)

    found = rewrite(program, doubled)
    verify(found)
    assert [node.op.name for node in found.nodes] == ["multiply", "add", "cos", "multiply"]
    assert found.nodes[2] is next(node for node in program.nodes if node.op.name == "cos")
