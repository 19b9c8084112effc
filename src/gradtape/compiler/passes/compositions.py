"""Compositions: ops that are made of others become those, for the compiled tier, which fuses them.

NumPy computes such an op in one call, so this is not a pass of `optimize`.
"""

from __future__ import annotations

from itertools import islice

from gradtape.compiler.passes.rewrite import Rewriting, rewrite
from gradtape.config import LARGEST_NODE_TABLE
from gradtape.ir import Node, Program, Shape, Spec, spec
from gradtape.ir.node import PICK, Key, Table, exchange, scratch, table
from gradtape.ops.arrays.movement import RESHAPE


def expand_compositions(program: Program) -> Program:
    """Before: `max_mask(x)`. After: `equal(x, max(x))`, or NaN."""
    if all(node.op.composition is None for node in program.nodes):
        return program
    # The outputs of nodes with several.
    parts: dict[Node, tuple[Node, ...]] = {}

    def expanded(node: Node, now: Rewriting) -> Node | None:
        if node.op is PICK and node.inputs[0] in parts:
            return parts[node.inputs[0]][node.params[0]]
        found = _composed(node, now) if is_composed(node) else None
        if found is not None and type(node.spec) is tuple:
            parts[node] = found
            return None
        return None if found is None else found[0]

    # In one scratch table, two compositions share what they have in common.
    with scratch():
        return rewrite(program, expanded)


def _composed(old: Node, now: Rewriting) -> tuple[Node, ...] | None:
    """The outputs of a node by its op's composition, whose nodes are written."""
    node = now.over(old)
    assert node.op.composition is not None
    current = table()
    if len(current.nodes) > LARGEST_NODE_TABLE // 2:
        # A full table is replaced by the next node. That must not happen inside a composition.
        current = Table()
        exchange(current)
    before = len(current.nodes), len(current.slopes)
    found = node.op.composition(*node.inputs, **node.keywords)
    results = found if isinstance(found, tuple) else (found,)
    specs = node.spec if type(node.spec) is tuple else (node.spec,)
    if any(one is None or one.spec is not of for one, of in zip(results, specs, strict=True)):
        return None
    # In the order they were made: loops are formed in the order of nodes.
    made = [*_last(current.nodes, before[0]), *_last(current.slopes, before[1])]
    now.write(old, *made, *results)
    return results


def _last(nodes: dict[Key, Node], before: int) -> list[Node]:
    """The nodes that were added to a table since it had `before` nodes."""
    return list(islice(reversed(nodes.values()), len(nodes) - before))[::-1]


def is_composed(node: Node) -> bool:
    """Whether the compiler replaces a node by the composition of its op, if that gives one."""
    if node.op.composition is None:
        return False
    if not node.inputs or type(node.spec) is tuple or type(node.inputs[0].spec) is tuple:
        return True
    return node.inputs[0].size > 0


def split_reductions(program: Program) -> Program:
    """Before: `sum(x, axis=(0, 2))` of three axes. After: axis 2 first, then axis 0."""
    if all(op.reduction is None for op in {node.op for node in program.nodes}):
        return program

    def split(node: Node, now: Rewriting) -> Node | None:
        kind = node.op.reduction
        if kind is None or not kind.joins_results:
            return None
        first = _inner_part(now.over(node))
        if first is None:
            return None
        # The inner run lies behind the others, so their numbers stay.
        axes = tuple(axis for axis in node.params[0] if axis not in first.params[0])
        found = Node(node.op, (first,), (axes, False), _without(first, axes))
        return Node(RESHAPE, (found,), (node.shape,), node.spec) if node.params[1] else found

    return rewrite(program, split)


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
