"""Compositions: ops that are made of others become those, for the compiled tier, which fuses them.

NumPy computes such an op in one call, so this is not a pass of `optimize`.
"""

from __future__ import annotations

from itertools import islice

from gradtape.graph import Program, rebuilt, topological
from gradtape.graph.node import PICK, TABLE_LIMIT, Key, Node, Table, exchange, scratch, table


def expand_compositions(program: Program) -> Program:
    """Before: `max_mask(x)`. After: `equal(x, max(x))`, or NaN."""
    if all(node.op.composition is None for node in program.nodes):
        return program
    # In one scratch table, two compositions share what they have in common.
    with scratch():
        return _Expansion(program).program()


class _Expansion:
    """A program that is being written anew, with the new node of each old one."""

    def __init__(self, program: Program) -> None:
        self._old = program
        self._nodes: list[Node] = []
        self._known = set(program.inputs)
        self._new: dict[Node, Node] = {node: node for node in program.inputs}
        # The outputs of nodes with several.
        self._parts: dict[Node, tuple[Node, ...]] = {}

    def program(self) -> Program:
        for node in self._old.nodes:
            self._add(node)
        inputs = self._old.inputs
        outputs = tuple(self._new[node] for node in self._old.outputs)
        used = set(topological(outputs, stop=set(inputs)))
        return Program(inputs, tuple(node for node in self._nodes if node in used), outputs)

    def _add(self, node: Node) -> None:
        if node.op is PICK and node.inputs[0] in self._parts:
            self._new[node] = self._parts[node.inputs[0]][node.params[0]]
            return
        current = rebuilt(node, tuple([self._new[parent] for parent in node.inputs]))
        found = self._composed(current) if _is_worth_it(current) else None
        if found is None:
            self._write(current)
            self._new[node] = current
        elif type(node.spec) is tuple:
            self._parts[node] = found
        else:
            (self._new[node],) = found

    def _write(self, node: Node) -> None:
        if node not in self._known:
            self._known.add(node)
            self._nodes.append(node)

    def _composed(self, node: Node) -> tuple[Node, ...] | None:
        """The outputs of a node by its op's composition, whose nodes are written."""
        assert node.op.composition is not None
        current = table()
        if len(current.nodes) > TABLE_LIMIT // 2:
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
        for one in topological([*made, *results], stop=self._known):
            self._write(one)
        return results


def _last(nodes: dict[Key, Node], before: int) -> list[Node]:
    """The nodes that were added to a table when it had so many."""
    return list(islice(reversed(nodes.values()), len(nodes) - before))[::-1]


def _is_worth_it(node: Node) -> bool:
    if node.op.composition is None:
        return False
    operand = node.inputs[0]
    if type(node.spec) is tuple or type(operand.spec) is tuple:
        return True
    return operand.size > 0 and operand.ndim > 0 and operand.dtype.kind != "b"
