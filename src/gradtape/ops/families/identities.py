"""Identities: rules `simpler(y)`, which return a simpler node with the same bits, or None.

`y` is a node whose inputs are simplified already. Rules make nodes that are not interned, because
a pass rewrites a program and records nothing. Rules must hold for every IEEE number: x - 0 is x
even for -0.0, but x + 0 is not; (a + bi)(1 + 0i) is not a + bi if a or b is 0 or infinite.
"""

from __future__ import annotations

from gradtape.ir import REGISTRY, Node, View, constant_value


def full(like: Node, value: complex) -> Node:
    """A constant with the shape and dtype of another node."""
    return Node(REGISTRY["full"], (), (like.shape, value, like.dtype), like.spec)


def stretched(node: Node, like: Node) -> Node:
    """`node` in the shape of `like`."""
    if node.shape == like.shape:
        return node
    value = constant_value(node)
    if value is not None:
        return full(like, value)
    return Node(REGISTRY["broadcast_to"], (node,), (like.shape,), like.spec)


def multiply(y: Node) -> Node | None:
    """x * 1 is x, and x * -1 is -x."""
    if y.dtype.kind == "c":
        return None
    for factor, other in (y.inputs, y.inputs[::-1]):
        value = constant_value(factor)
        if value == 1:
            return stretched(other, y)
        if value == -1 and other.shape == y.shape:
            return Node(REGISTRY["negative"], (other,), (), y.spec)
    return None


def divide(y: Node) -> Node | None:
    """x / 1 is x."""
    exact = y.dtype.kind != "c" and constant_value(y.inputs[1]) == 1
    return stretched(y.inputs[0], y) if exact else None


def subtract(y: Node) -> Node | None:
    """x - 0 is x."""
    exact = y.dtype.kind != "c" and constant_value(y.inputs[1]) == 0
    return stretched(y.inputs[0], y) if exact else None


def negative(y: Node) -> Node | None:
    """-(-x) is x."""
    inner = y.inputs[0]
    return inner.inputs[0] if inner.op is y.op else None


def integer_power(y: Node) -> Node | None:
    """x**0 is 1, x**1 is x, x**2 is a square; complex powers in NumPy differ in the last bits."""
    (exponent,) = y.params
    if y.dtype.kind == "c":
        return None
    if exponent == 1:
        return y.inputs[0]
    if exponent == 2:
        return Node(REGISTRY["square"], y.inputs, (), y.spec)
    return full(y, 1) if exponent == 0 else None


def cast(y: Node) -> Node | None:
    """A cast to the operand's own dtype is the operand; a cast of a constant is a constant."""
    operand = y.inputs[0]
    if operand.dtype == y.dtype:
        return operand
    value = constant_value(operand)
    if value is None or y.dtype.kind not in "fc":
        return None
    return full(y, y.dtype.type(value).item())


def where(y: Node) -> Node | None:
    """A constant condition selects one branch."""
    value = constant_value(y.inputs[0])
    if value is None:
        return None
    return stretched(y.inputs[1] if value else y.inputs[2], y)


def view(y: Node) -> Node | None:
    """A view of a constant is a constant, an identity is its operand, and two views are one."""
    operand = y.inputs[0]
    value = constant_value(operand)
    if value is not None and len(y.inputs) == 1:
        return full(y, value)
    kind = y.op.view
    if kind in (View.RESHAPE, View.BROADCAST):
        if y.shape == operand.shape:
            return operand
        return Node(y.op, operand.inputs, y.params, y.spec) if operand.op is y.op else None
    if kind is View.PERMUTE:
        (axes,) = y.params
        if axes == tuple(range(len(axes))):
            return operand
        if operand.op is y.op:
            (first,) = operand.params
            joined = tuple(first[axis] for axis in axes)
            again = Node(y.op, operand.inputs, (joined,), y.spec)
            return view(again) or again
    return None


def reduction(y: Node) -> Node | None:
    """A reduction over axes of length 1 is a reshape."""
    axes, _ = y.params
    operand = y.inputs[0]
    if any(operand.shape[axis] != 1 for axis in axes) or operand.dtype != y.dtype:
        return None
    if operand.shape == y.shape:
        return operand
    reshaped = Node(REGISTRY["reshape"], (operand,), (y.shape,), y.spec)
    return view(reshaped) or reshaped
