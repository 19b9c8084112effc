"""Simplify: identities that are exact in IEEE arithmetic, and constants folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.graph.node import Node
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.graph.walk import topological
from gradtape.ops.custom.custom import passes_through

Rule = Callable[[Node], Node | None]


def simplify(program: Program) -> Program:
    """Replace each node by a simpler one that gives the same bits, where a rule knows one."""
    new: dict[Node, Node] = {node: node for node in program.inputs}
    for node in program.nodes:
        inputs = tuple(new[parent] for parent in node.inputs)
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        current = Node(node.op, inputs, node.params, node.spec) if changed else node
        rule = RULES.get(node.op.name)
        simpler = rule(current) if rule is not None else None
        if simpler is None and _foldable(current):
            simpler = _folded(current)
        new[node] = current if simpler is None else simpler
    outputs = tuple(new[node] for node in program.outputs)
    given = set(program.inputs)
    nodes = [node for node in topological(outputs, stop=given) if node not in given]
    return Program(program.inputs, tuple(nodes), outputs)


def constant_value(node: Node) -> Any:
    """The number that every element of a constant is, or None."""
    return node.params[1] if node.op.name == "full" else None


def full(like: Node, value: Any) -> Node:
    return Node(REGISTRY["full"], (), (like.shape, value, like.dtype), like.spec)


def stretched(node: Node, like: Node) -> Node:
    """`node` in the shape of `like`."""
    if node.shape == like.shape:
        return node
    if constant_value(node) is not None:
        return full(like, constant_value(node))
    return Node(REGISTRY["broadcast_to"], (node,), (like.shape,), like.spec)


def _foldable(node: Node) -> bool:
    return (
        node.op.family == "elementwise"
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


def _multiply(node: Node) -> Node | None:
    if node.dtype.kind == "c":  # (a + bi)(1 + 0i) is not a + bi where a or b is 0 or infinite
        return None
    for factor, other in (node.inputs, node.inputs[::-1]):
        value = constant_value(factor)
        if value == 1:
            return stretched(other, node)
        if value == -1 and other.shape == node.shape:
            return Node(REGISTRY["negative"], (other,), (), node.spec)
    return None


def _divide(node: Node) -> Node | None:
    exact = node.dtype.kind != "c" and constant_value(node.inputs[1]) == 1
    return stretched(node.inputs[0], node) if exact else None


def _subtract(node: Node) -> Node | None:
    # x - 0 is x for every x, -0 included; x + 0 is not.
    exact = node.dtype.kind != "c" and constant_value(node.inputs[1]) == 0
    return stretched(node.inputs[0], node) if exact else None


def _negative(node: Node) -> Node | None:
    inner = node.inputs[0]
    return inner.inputs[0] if inner.op.name == "negative" else None


def _power(node: Node) -> Node | None:
    (exponent,) = node.params
    if node.dtype.kind == "c":  # NumPy's complex powers are not products to the last bit
        return None
    if exponent == 1:
        return node.inputs[0]
    if exponent == 2:
        return Node(REGISTRY["square"], node.inputs, (), node.spec)
    return full(node, 1) if exponent == 0 else None


def _movement(node: Node) -> Node | None:
    """A constant moved is a constant; a movement that moves nothing vanishes; two are one."""
    operand = node.inputs[0]
    if constant_value(operand) is not None and len(node.inputs) == 1:
        return full(node, constant_value(operand))
    name = node.op.name
    if name in ("reshape", "broadcast_to") and node.shape == operand.shape:
        return operand
    if name == operand.op.name and name in ("reshape", "broadcast_to"):
        return Node(node.op, operand.inputs, node.params, node.spec)
    if name == "permute_dims":
        (axes,) = node.params
        if axes == tuple(range(len(axes))):
            return operand
        if operand.op.name == "permute_dims":
            (first,) = operand.params
            joined = tuple(first[axis] for axis in axes)
            again = Node(node.op, operand.inputs, (joined,), node.spec)
            return _movement(again) or again
    return None


def _cast(node: Node) -> Node | None:
    operand = node.inputs[0]
    if operand.dtype == node.dtype:
        return operand
    value = constant_value(operand)
    if value is None or node.dtype.kind not in "fc":
        return None
    return full(node, node.dtype.type(value).item())


def _where(node: Node) -> Node | None:
    value = constant_value(node.inputs[0])
    if value is None:
        return None
    return stretched(node.inputs[1] if value else node.inputs[2], node)


def _reduction(node: Node) -> Node | None:
    axes, _ = node.params
    operand = node.inputs[0]
    if all(operand.shape[axis] == 1 for axis in axes) and operand.dtype == node.dtype:
        if operand.shape == node.shape:
            return operand
        reshaped = Node(REGISTRY["reshape"], (operand,), (node.shape,), node.spec)
        return _movement(reshaped) or reshaped
    return None


def _pick(node: Node) -> Node | None:
    """A derivative written by hand is of no account here: the value passes through."""
    return passes_through(node)


RULES: dict[str, Rule] = {
    "pick": _pick,
    "multiply": _multiply,
    "divide": _divide,
    "subtract": _subtract,
    "negative": _negative,
    "integer_power": _power,
    "reshape": _movement,
    "broadcast_to": _movement,
    "permute_dims": _movement,
    "slice": _movement,
    "cast": _cast,
    "where": _where,
    "sum": _reduction,
    "max": _reduction,
    "min": _reduction,
    "prod": _reduction,
}
