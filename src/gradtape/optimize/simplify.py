"""Simplify: identities that are exact in IEEE arithmetic, and constants folded."""

from __future__ import annotations

import numpy as np

from gradtape.graph.node import Node, constant_value
from gradtape.graph.program import Program, rewritten
from gradtape.ops.custom.custom import passes_through
from gradtape.ops.families.identities import full


def simplify(program: Program) -> Program:
    """Replace each node by a simpler one that gives the same bits, where its op knows one."""
    return rewritten(program, _simplest)


def _simplest(node: Node) -> Node:
    found: Node | None = passes_through(node)
    if node.op.simpler is not None:
        found = node.op.simpler(node)
    if found is None and _is_foldable(node):
        found = _folded(node)
    return node if found is None else found


def _is_foldable(node: Node) -> bool:
    return (
        node.op.elementwise
        and bool(node.inputs)
        and all(constant_value(parent) is not None for parent in node.inputs)
    )


def _folded(node: Node) -> Node | None:
    """An element-wise op on constants is a constant."""
    operands = [np.full((), constant_value(p), p.dtype) for p in node.inputs]
    with np.errstate(all="ignore"):
        value = np.asarray(node.op.numpy(*operands, **node.keywords)).astype(node.dtype)[()].item()
    # Structures are compared by value, and -0.0 == 0.0.
    parts = (value.real, value.imag)
    return None if any(part == 0 and np.signbit(part) for part in parts) else full(node, value)
