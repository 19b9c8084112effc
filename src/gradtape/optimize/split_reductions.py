"""Split reductions: one over axes that lie apart becomes several, each over neighbours."""

from __future__ import annotations

from gradtape.graph import Node, Program, Shape, Spec, rebuilt, spec
from gradtape.ops.arrays.movement import RESHAPE


def split_reductions(program: Program) -> Program:
    """Before: `sum(x, axis=(0, 2))` of three axes. After: axis 2 first, then axis 0."""
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []
    for node in program.nodes:
        current = rebuilt(node, tuple([new[parent] for parent in node.inputs]))
        kind = node.op.reduction
        # Positions are counted along all axes at once.
        first = None if kind is None or kind.gives_positions else _inner_part(current)
        if first is not None:
            nodes.append(first)
            # The inner run lies behind the others, so their numbers stay.
            axes = tuple(axis for axis in node.params[0] if axis not in first.params[0])
            current = Node(node.op, (first,), (axes, False), _without(first, axes))
            if node.params[1]:
                nodes.append(current)
                current = Node(RESHAPE, (current,), (node.shape,), node.spec)
        nodes.append(current)
        new[node] = current
    return Program(program.inputs, tuple(nodes), tuple(new[node] for node in program.outputs))


def _inner_part(node: Node) -> Node | None:
    """The reduction over the last run of neighbouring axes, if there is another run."""
    axes = node.params[0]
    operand = node.inputs[0]
    # Axes of length 1 lie between nothing.
    long = [axis for axis in range(operand.ndim) if operand.shape[axis] != 1]
    runs: list[list[int]] = []
    for axis in (axis for axis in axes if axis in long):
        near = runs and long.index(axis) == long.index(runs[-1][-1]) + 1
        if near:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if len(runs) < 2:
        return None
    inner = tuple(runs[-1])
    return Node(node.op, (operand,), (inner, False), spec(_drop(operand.shape, inner), node.dtype))


def _drop(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _without(node: Node, axes: tuple[int, ...]) -> Spec:
    return spec(_drop(node.shape, axes), node.dtype)
