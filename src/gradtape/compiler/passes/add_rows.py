"""Add rows: rows that are put into zeros and added to a tensor are added to it where it lies.

The derivative by a table from which rows were read is zero but for these rows. If the table was
read as a whole, too, such as the weights of the last layer at the words that were said, it is
added to another derivative: a fill of the whole size, and a sum, for a few rows.
"""

from __future__ import annotations

from gradtape.compiler.passes.join_parts import ADD, LEAST, readers_of, without_unread
from gradtape.ir import Node, Program, constant_value, rebuilt
from gradtape.ir.recorded_lines import LINES, follow_all
from gradtape.ops.arrays.gathering import SCATTER_ADD, SCATTER_ADD_ROWS
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.families.batching import permuted


def add_rows(program: Program) -> Program:
    """Before: `add(scatter_add_rows(0, i, rows), x)`. After: `scatter_add_rows(x, i, rows)`."""
    if not any(node.op is SCATTER_ADD_ROWS for node in program.nodes):
        return program
    readers = readers_of(program)
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []
    for node in program.nodes:
        found = _rows_and_whole(node, readers) if node.op is ADD else None
        if found is None:
            made = [rebuilt(node, tuple([new[parent] for parent in node.inputs]))]
        else:
            rows, whole = found
            made = _added(rows, new[whole], new)
            if LINES.following:
                follow_all(node, made, new.values())
        nodes += made
        new[node] = made[-1]
    if all(one is other for one, other in zip(program.nodes, nodes, strict=False)):
        return program
    outputs = tuple(new[node] for node in program.outputs)
    return without_unread(Program(program.inputs, tuple(nodes), outputs))


def _rows_and_whole(node: Node, readers: dict[Node, int]) -> tuple[Node, Node] | None:
    """The term of a sum that is zero but for some rows, and the other one.

    Nothing else may read either: then neither needs memory beside that of the sum.
    """
    if node.size < LEAST:
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
        if readers[term] != 1 or term.op is not SCATTER_ADD_ROWS or term.inputs[1].ndim != 1:
            return False
    return term.op is SCATTER_ADD_ROWS and constant_value(term.inputs[0]) == 0


def _added(rows: Node, whole: Node, new: dict[Node, Node]) -> list[Node]:
    """The nodes that add rows to a tensor; the last one is the sum."""
    if rows.op is SCATTER_ADD_ROWS:
        _, indices, values = (new.get(parent, parent) for parent in rows.inputs)
        return [Node(SCATTER_ADD_ROWS, (whole, indices, values), (), whole.spec)]
    (axes,) = rows.params
    _, indices, values = (new.get(parent, parent) for parent in rows.inputs[0].inputs)
    turned = permuted(values, axes)
    return [turned, Node(SCATTER_ADD, (whole, indices, turned), (axes.index(0),), whole.spec)]
