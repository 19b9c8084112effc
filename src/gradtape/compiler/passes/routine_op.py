"""The op of routines: many nodes on tiny arrays as one node, which register code computes.

It appears in compiled programs alone, and holds its nodes as they were, as a program whose inputs
stand for its operands. It is not in the registry: no user's program has it.
"""

from __future__ import annotations

from typing import Any

from gradtape.dtypes import Array
from gradtape.ir import PICK, Node, Op, Program, Spec, Undefined

_LATER = Undefined("routines appear in compiled programs, after differentiation")


def _spec(*operands: Spec, body: Program, cost: int) -> tuple[Spec, ...]:
    return tuple(node.spec for node in body.outputs)


def _numpy(*operands: Array, body: Program, cost: int) -> tuple[Any, ...]:
    found: dict[Node, Any] = dict(zip(body.inputs, operands, strict=True))
    for node in body.nodes:
        parents = [found[parent] for parent in node.inputs]
        if node.op is PICK:
            found[node] = parents[0][node.params[0]]
        else:
            found[node] = node.op.numpy(*parents, **node.keywords)
    return tuple(found[node] for node in body.outputs)


ROUTINE = Op(
    "routine",
    "routine",
    params=("body", "cost"),
    spec=_spec,
    numpy=_numpy,
    jvp=_LATER,
    vjp=_LATER,
    batch=_LATER,
)


def routine(body: Program, operands: tuple[Node, ...], cost: int) -> tuple[Node, list[Node]]:
    """The node that computes a body of about `cost` scalar steps, and those of its results."""
    specs = tuple(node.spec for node in body.outputs)
    made = Node(ROUTINE, operands, (body, cost), specs)
    return made, [Node(PICK, (made,), (at,), of) for at, of in enumerate(specs)]


def body_of(node: Node) -> Program:
    """The program of a routine."""
    body: Program = node.params[0]
    return body


def cost_of(node: Node) -> int:
    """About the number of scalar steps of a routine."""
    cost: int = node.params[1]
    return cost
