"""Fuse: nodes that share an iteration space become one loop.

Units come out in an order that can be run. A node joins the first loop of its space that does not
come before anything that the node needs, so siblings fuse as well as chains.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from gradtape.compiler.passes.recompute import Recomputation
from gradtape.compiler.passes.result_layouts import layouts
from gradtape.compiler.passes.routine_op import ROUTINE
from gradtape.compiler.passes.scalar_steps import reduced_axes
from gradtape.compiler.passes.units import Call, Fused, FusedLoop, Registers, Unit, nodes_of
from gradtape.config import LARGEST_FUSED_LOOP
from gradtape.ir import OPERATORS, PICK, Node, Program, Shape
from gradtape.ops.families.memory_copies import pieces
from gradtape.ops.families.strides import Access, is_strided_view, viewed, whole


def fuse(program: Program, fusible: Callable[[Node], bool]) -> Fused:
    """Group the nodes of a program; `fusible` says which ones the compiler can put into a loop."""
    return _Fusion(program, fusible).fused()


class _Fusion:
    """The units of a program while its nodes are put into them."""

    def __init__(self, program: Program, fusible: Callable[[Node], bool]) -> None:
        self._program = program
        self._may_fuse = fusible
        # The results of `fusible`, by all that they depend on.
        self._said: dict[tuple[object, ...], bool] = {}
        self._units: list[Unit] = []
        self._unit_of: dict[Node, int] = {}
        self._access: dict[Node, Access] = {node: whole(node) for node in program.inputs}
        self._constants: set[Node] = set()
        self._open_loops: dict[Shape, list[int]] = {}
        self._layouts = layouts(program)

    def fused(self) -> Fused:
        for node in _scalars_first(self._program):
            if node.op is OPERATORS.full:
                self._constants.add(node)
            elif is_strided_view(node):
                self._add_view(node)
            elif node.op is ROUTINE:
                self._unit_of[node] = self._append(Registers(node))
            elif node.op is PICK and node.inputs[0].op is ROUTINE:
                self._add_result(node)
            else:
                self._unit_of[node] = self._place(node)
                if type(node.spec) is not tuple:
                    self._access[node] = self._layouts.get(node) or whole(node)
        _sink(self._program, self._units, self._unit_of)
        recomputation = Recomputation(
            self._program, self._units, self._unit_of, self._access, self._constants
        )
        for unit in self._units:
            if isinstance(unit, FusedLoop):
                recomputation.into(unit)
        _mark_outputs(self._program, self._units, self._unit_of, self._access, self._constants)
        units = [unit for unit in self._units if not isinstance(unit, FusedLoop) or unit.nodes]
        return Fused(units, self._access, self._constants)

    def _add_result(self, pick: Node) -> None:
        """One of the results of a routine."""
        index = self._unit_of[pick] = self._unit_of[pick.inputs[0]]
        unit = self._units[index]
        assert isinstance(unit, Registers)
        unit.outputs.append(pick)
        self._access[pick] = whole(pick)

    def _fusible(self, node: Node) -> bool:
        key = (node.op, node.params, node.spec, *[parent.spec for parent in node.inputs])
        found = self._said.get(key)
        if found is None:
            found = self._said[key] = self._may_fuse(node)
        return found

    def _add_view(self, node: Node) -> None:
        """A view costs nothing where strides can express it; otherwise it is copied."""
        parent = node.inputs[0]
        # A constant has no memory to be viewed.
        constant = parent in self._constants
        found = None if constant else viewed(node, self._access.get(parent) or whole(parent))
        if found is not None:
            self._access[node] = found
            if parent in self._unit_of:
                self._unit_of[node] = self._unit_of[parent]
            return
        self._access[node] = whole(node)
        if self._fusible(node) and not constant:
            self._unit_of[node] = self._join(node, parent.shape, None)
            self._loop(self._unit_of[node]).copies.add(node)
        else:
            self._unit_of[node] = self._append(Call(node))

    def _place(self, node: Node) -> int:
        """Put a node that is not a view into a unit, and give the number of that."""
        op = node.op
        if not self._fusible(node):
            return self._append(Call(node))
        if op.copies is not None:
            copies = pieces(node, self._memory)
            if copies is None:
                return self._append(Call(node))
            return self._append(FusedLoop(node.shape, nodes=[node], pieces=copies, alone=True))
        if op.scan is not None:
            if self._constants.intersection(node.inputs):
                return self._append(Call(node))
            return self._append(FusedLoop(node.shape, nodes=[node], alone=True))
        if op.reduction is not None:
            return self._join(node, node.inputs[0].shape, reduced_axes(node))
        index = self._join(node, node.shape, None)
        self._loop(index).pointwise.add(node)
        return index

    def _memory(self, node: Node) -> Access | None:
        """The place of an operand in memory, unless it is a constant."""
        return None if node in self._constants else self._access[node]

    def _append(self, unit: Unit) -> int:
        self._units.append(unit)
        return len(self._units) - 1

    def _loop(self, index: int) -> FusedLoop:
        loop = self._units[index]
        assert isinstance(loop, FusedLoop)
        return loop

    def _join(self, node: Node, space: Shape, axes: tuple[int, ...] | None) -> int:
        """Put a node into the first loop over `space` that it can be computed in, or a new one."""
        index = self._fitting_loop(node, space, axes)
        loop = self._loop(index)
        loop.axes = loop.axes if axes is None else axes
        loop.nodes.append(node)
        return index

    def _fitting_loop(self, node: Node, space: Shape, axes: tuple[int, ...] | None) -> int:
        opened = self._open_loops.get(space, [])
        # Loops are numbered in their order. A program may have thousands that come too early.
        for place in range(bisect_left(opened, self._earliest(node, space)), len(opened)):
            index = opened[place]
            loop = self._loop(index)
            fits = axes is None or loop.axes is None or loop.axes == axes
            if fits and len(loop.nodes) < LARGEST_FUSED_LOOP:
                return index
        index = self._append(FusedLoop(space, axes))
        self._open_loops.setdefault(space, []).append(index)
        return index

    def _earliest(self, node: Node, space: Shape) -> int:
        """The first unit in which `node` can be computed over `space`."""
        earliest = 0
        for parent in node.inputs:
            # Constants and inputs are in no unit; and a unit before the earliest changes nothing.
            index = self._unit_of.get(parent, -1)
            if index < earliest:
                continue
            unit = self._units[index]
            inside = (
                isinstance(unit, FusedLoop)
                and unit.space == space == parent.shape
                and parent in unit.pointwise
            )
            earliest = index if inside else index + 1
        return earliest


def _scalars_first(program: Program) -> list[Node]:
    """Nodes with scalars that are computed from scalars first: no reader then waits for a loop.

    Otherwise a division of two numbers keeps two loops over one large array apart.
    """
    early: dict[Node, None] = {}
    known = {node for node in program.inputs if node.spec.size == 1}
    for node in program.nodes:
        small = type(node.spec) is not tuple and node.spec.size == 1
        if small and all(parent in known for parent in node.inputs):
            known.add(node)
            early[node] = None
    return [*early, *(node for node in program.nodes if node not in early)]


def _sink(program: Program, units: list[Unit], unit_of: dict[Node, int]) -> None:
    """Move a node down into the only loop that reads it, so that it need not be stored.

    A node joins the first loop it can, which may be long before its reader: the decayed momentum
    of an optimiser would be written before the gradient is known and read again after.
    """
    if sum(isinstance(unit, FusedLoop) for unit in units) < 2:
        return  # there is no loop to move to
    readers: dict[Node, list[Node]] = {}
    for node in program.nodes:
        for parent in node.inputs:
            readers.setdefault(parent, []).append(node)
    kept = set(program.outputs)
    for node in reversed(program.nodes):
        home = units[unit_of[node]] if node in unit_of else None
        if not isinstance(home, FusedLoop) or node not in home.pointwise or node in kept:
            continue
        targets = {_reading_loop(reader, units, unit_of) for reader in readers.get(node, ())}
        if len(targets) != 1:
            continue
        index = targets.pop()
        if index is None or index == unit_of[node]:
            continue
        loop = units[index]
        assert isinstance(loop, FusedLoop)
        if loop.space != home.space or len(loop.nodes) >= LARGEST_FUSED_LOOP:
            continue
        # The nodes that it reads inside its present loop must be able to follow it.
        inside = [parent for parent in node.inputs if parent in home.pointwise]
        if any(parent in kept or set(readers[parent]) != {node} for parent in inside):
            continue
        home.nodes.remove(node)
        home.pointwise.discard(node)
        loop.nodes.insert(0, node)
        loop.pointwise.add(node)
        unit_of[node] = index


def _reading_loop(reader: Node, units: list[Unit], unit_of: dict[Node, int]) -> int | None:
    """The loop that reads a value point by point, or None if it is read from memory."""
    if reader not in unit_of:
        return None
    unit = units[unit_of[reader]]
    if not isinstance(unit, FusedLoop) or reader in unit.copies or reader.op.view is not None:
        return None
    if unit.alone:
        return None
    return unit_of[reader]


def _mark_outputs(
    program: Program,
    units: list[Unit],
    unit_of: dict[Node, int],
    access: dict[Node, Access],
    constants: set[Node],
) -> None:
    """A node of a loop is written to memory if anything outside the loop reads it."""
    needed: set[Node] = set()
    for node in program.outputs:
        needed.add(access[node].base if node in access else node)
    for index, unit in enumerate(units):
        for node in nodes_of(unit):
            for parent in node.inputs:
                if parent in constants or parent not in access:
                    continue
                base = access[parent].base
                again = isinstance(unit, FusedLoop) and parent in unit.pointwise
                local = parent is base and (again or unit_of.get(parent) == index)
                if not local:
                    needed.add(base)
    for index, unit in enumerate(units):
        if isinstance(unit, FusedLoop):
            # A node that a loop computes again is stored by the first loop that computes it.
            own = [node for node in unit.nodes if unit_of[node] == index]
            unit.outputs = [node for node in own if node in needed or node not in unit.pointwise]
