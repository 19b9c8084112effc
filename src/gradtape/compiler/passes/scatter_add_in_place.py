"""Add rows: rows that are put into zeros and added to a tensor are added to it where it lies.

The derivative by a table from which rows were read is zero but for these rows. If the table was
read as a whole, too, such as the weights of the last layer at the words that were said, it is
added to another derivative: a fill of the whole size, and a sum, for a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.compiler.passes.join_parts import ADD
from gradtape.compiler.passes.rewrite import Rewriting, readers_of, rewrite
from gradtape.config import LEAST_JOINED_ZEROS
from gradtape.ir import Node, Program, constant_value
from gradtape.ops.arrays.gathering import SCATTER_ADD
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.families.batching import permuted


def add_rows(program: Program) -> Program:
    """Before: `add(scatter_add(0, i, rows), x)`. After: `scatter_add(x, i, rows)`."""
    if not any(node.op is SCATTER_ADD for node in program.nodes):
        return program
    readers = readers_of(program)

    def added(node: Node, now: Rewriting) -> Node | None:
        found = _rows_and_whole(node, readers) if node.op is ADD else None
        return None if found is None else _added(found[0], now.new[found[1]], now.new)

    return rewrite(program, added)


def _rows_and_whole(node: Node, readers: dict[Node, int]) -> tuple[Node, Node] | None:
    """The term of a sum that is zero but for some rows, and the other one.

    Nothing else may read either: then neither needs memory beside that of the sum.
    """
    if node.size < LEAST_JOINED_ZEROS:
        return None
    for rows, whole in (node.inputs, reversed(node.inputs)):
        if whole.spec == node.spec and readers[whole] == 1 and _are_rows(rows, readers):
            return rows, whole
    return None


def _are_rows(term: Node, readers: dict[Node, int]) -> bool:
    if readers[term] != 1:
        return False
    if term.op is PERMUTE_DIMS:
        term = term.inputs[0]
        if readers[term] != 1 or term.op is not SCATTER_ADD or term.inputs[1].ndim != 1:
            return False
    return term.op is SCATTER_ADD and constant_value(term.inputs[0]) == 0


def _added(rows: Node, whole: Node, new: Mapping[Node, Node]) -> Node:
    """Rows added to a tensor; their operands may be of a node that was not written."""
    axes: tuple[int, ...] | None = None
    if rows.op is PERMUTE_DIMS:
        (axes,) = rows.params
        (rows,) = rows.inputs
    (axis,) = rows.params
    _, indices, values = (new[parent] for parent in rows.inputs)
    if axes is not None:
        axis, values = axes.index(axis), permuted(values, axes)
    return Node(SCATTER_ADD, (whole, indices, values), (axis,), whole.spec)
