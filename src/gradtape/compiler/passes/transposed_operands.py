"""Transposed operands: element-wise ops before a matrix product are computed untransposed.

A product reads transposed matrices as fast as others; a loop that reads across rows does not. So
the transposition moves from the start of the chain to its end, where the product takes it over.
"""

from __future__ import annotations

from collections import Counter

from gradtape.compiler.passes.rewrite import Rewriting, readers_of, rewrite
from gradtape.config import LONGEST_TRANSPOSED_CHAIN
from gradtape.ir import OPERATORS, Node, Program, View, rebuilt, spec
from gradtape.ir.origin import LINES, follow
from gradtape.ops.arrays.movement import PERMUTE_DIMS, RESHAPE

_Axes = tuple[int, ...]


def delay_transposes(program: Program) -> Program:
    """Before: `matmul(x.T * s, y)`. After: `matmul((x * s.T).T, y)`, for s that broadcasts."""
    if not any(node.op is OPERATORS.matmul for node in program.nodes):
        return program
    readers = readers_of(program)
    # An input may be any node whose value is known: how it was computed does not matter.
    for node in program.inputs:
        readers[node] = 0

    def delayed(node: Node, now: Rewriting) -> Node | None:
        if node.op is not OPERATORS.matmul:
            return None
        inputs = []
        for parent in node.inputs:
            found = _delayed(parent, readers, now.new)
            inputs.append(now.new[parent] if found is None else found)
        return rebuilt(node, tuple(inputs))

    return rewrite(program, delayed)


def _delayed(node: Node, readers: Counter[Node], new: dict[Node, Node]) -> Node | None:
    """The value of a chain as the transposition of another chain, or None if it is not a chain."""
    axes = _axes(node, readers)
    if axes is None or not _is_chain(node, readers):
        return None
    found = _untransposed(node, axes, readers, new, LONGEST_TRANSPOSED_CHAIN)
    return None if found is None else _permuted(found, axes)


def _is_chain(node: Node, readers: Counter[Node]) -> bool:
    """Whether a node is element-wise and read once, so that no other reader needs it transposed."""
    return node.op.elementwise and readers[node] == 1


def _is_transposed(node: Node, readers: Counter[Node]) -> bool:
    return node.op.view is View.PERMUTE and readers[node] > 0


def _axes(node: Node, readers: Counter[Node]) -> _Axes | None:
    """How the large operands of a chain of element-wise ops are transposed."""
    for _ in range(LONGEST_TRANSPOSED_CHAIN):
        if not _is_chain(node, readers):
            return None
        large = [parent for parent in node.inputs if parent.shape == node.shape]
        transposed = [parent for parent in large if _is_transposed(parent, readers)]
        if transposed:
            axes: _Axes = transposed[0].params[0]
            return axes
        if not large:
            return None
        node = large[0]
    return None


def _untransposed(
    node: Node, axes: _Axes, readers: Counter[Node], new: dict[Node, Node], length: int
) -> Node | None:
    """The node of which `node` is the transposition by `axes`, or None if there is none.

    The chain may go on for `length` ops.
    """
    if _is_transposed(node, readers) and node.params[0] == axes:
        return new[node.inputs[0]]
    if node.op.view is View.BROADCAST and readers[node]:
        return _stretched(new[node.inputs[0]], axes)
    if not length or not _is_chain(node, readers):
        return None
    inputs: list[Node] = []
    for parent in node.inputs:
        if parent.shape != node.shape:
            inputs.append(_stretched(new[parent], axes))
            continue
        found = _untransposed(parent, axes, readers, new, length - 1)
        if found is None:
            return None
        inputs.append(found)
    shape = tuple(node.shape[axis] for axis in _inverse(axes))
    if not any(parent.shape == shape for parent in inputs):
        return None
    made = Node(node.op, tuple(inputs), node.params, spec(shape, node.dtype))
    if LINES.following:
        follow(node, made)
    return made


def _stretched(node: Node, axes: _Axes) -> Node:
    """An operand that broadcasts, with its axes in the order of the untransposed chain."""
    full = (1,) * (len(axes) - node.ndim) + node.shape
    if full != node.shape:
        node = Node(RESHAPE, (node,), (full,), spec(full, node.dtype))
    return _permuted(node, _inverse(axes))


def _permuted(node: Node, axes: _Axes) -> Node:
    shape = tuple(node.shape[axis] for axis in axes)
    return Node(PERMUTE_DIMS, (node,), (axes,), spec(shape, node.dtype))


def _inverse(axes: _Axes) -> _Axes:
    return tuple(axes.index(axis) for axis in range(len(axes)))
