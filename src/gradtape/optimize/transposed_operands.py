"""Turn: what is computed from a transposed operand for a matrix product keeps the operand's layout.

A product reads transposed matrices as fast as others; a loop that reads across rows does not.
"""

from __future__ import annotations

from collections import Counter

from gradtape.graph.node import Node
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.graph.spec import spec
from gradtape.graph.walk import topological

Axes = tuple[int, ...]


def turn(program: Program) -> Program:
    """Before: `matmul(x.T * s, y)`. After: `matmul((x * s.T).T, y)`, for s that broadcasts."""
    readers = Counter(parent for node in program.nodes for parent in node.inputs)
    readers.update(program.outputs)
    # An input may be any node whose value is known: it is not looked into.
    for node in program.inputs:
        readers[node] = 0
    new: dict[Node, Node] = {node: node for node in program.inputs}
    changed = False
    for node in program.nodes:
        inputs = tuple(new[parent] for parent in node.inputs)
        if node.op.name == "matmul":
            found = tuple(_turned(parent, readers, new) for parent in node.inputs)
            inputs = tuple(b if a is None else a for a, b in zip(found, inputs, strict=True))
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = node if same else Node(node.op, inputs, node.params, node.spec)
        changed = changed or not same
    if not changed:
        return program
    outputs = tuple(new[node] for node in program.outputs)
    given = set(program.inputs)
    nodes = [node for node in topological(outputs, stop=given) if node not in given]
    return Program(program.inputs, tuple(nodes), outputs)


def _turned(node: Node, readers: Counter[Node], new: dict[Node, Node]) -> Node | None:
    """The same value as a transposition of what is computed in another layout."""
    axes = _axes(node, readers)
    if axes is None or not _is_chain(node, readers):
        return None
    found = _unturned(node, axes, readers, new)
    return None if found is None else _permuted(found, axes)


def _is_chain(node: Node, readers: Counter[Node]) -> bool:
    return node.op.family == "elementwise" and readers[node] == 1


def _is_transposed(node: Node, readers: Counter[Node]) -> bool:
    return node.op.name == "permute_dims" and readers[node] > 0


def _axes(node: Node, readers: Counter[Node]) -> Axes | None:
    """How the large operands of a chain of element-wise ops are transposed."""
    while _is_chain(node, readers):
        large = [parent for parent in node.inputs if parent.shape == node.shape]
        turned = [parent for parent in large if _is_transposed(parent, readers)]
        if turned:
            return turned[0].params[0]
        if not large:
            return None
        node = large[0]
    return None


def _unturned(node: Node, axes: Axes, readers: Counter[Node], new: dict[Node, Node]) -> Node | None:
    """What `node` is a transposition of by `axes`."""
    if _is_transposed(node, readers) and node.params[0] == axes:
        return new[node.inputs[0]]
    if node.op.name == "broadcast_to" and readers[node]:
        return _stretched(new[node.inputs[0]], axes)
    if not _is_chain(node, readers):
        return None
    inputs: list[Node] = []
    for parent in node.inputs:
        if parent.shape != node.shape:
            inputs.append(_stretched(new[parent], axes))
            continue
        found = _unturned(parent, axes, readers, new)
        if found is None:
            return None
        inputs.append(found)
    shape = tuple(node.shape[axis] for axis in _inverse(axes))
    if not any(parent.shape == shape for parent in inputs):
        return None
    return Node(node.op, tuple(inputs), node.params, spec(shape, node.dtype))


def _stretched(node: Node, axes: Axes) -> Node:
    """An operand that broadcasts, in the other layout."""
    full = (1,) * (len(axes) - node.ndim) + node.shape
    if full != node.shape:
        node = Node(REGISTRY["reshape"], (node,), (full,), spec(full, node.dtype))
    return _permuted(node, _inverse(axes))


def _permuted(node: Node, axes: Axes) -> Node:
    shape = tuple(node.shape[axis] for axis in axes)
    return Node(REGISTRY["permute_dims"], (node,), (axes,), spec(shape, node.dtype))


def _inverse(axes: Axes) -> Axes:
    return tuple(axes.index(axis) for axis in range(len(axes)))
