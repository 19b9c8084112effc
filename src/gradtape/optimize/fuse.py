"""Fuse: nodes that share an iteration space become one loop.

Units come out in an order that can be run. A node joins the first loop of its space that is not
before anything it needs, so siblings fuse as well as chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.graph.spec import Shape
from gradtape.optimize.views import Access, view, whole

# Movements and indexing that `pieces` knows as copies.
PIECEWISE = frozenset({
    "concat", "stack", "slice", "unslice", "set_slice", "resize_axis", "roll", "gather",
    "take_along_axis", "scatter_set", "scatter_add", "scatter_add_rows", "add_along_axis",
})  # fmt: skip
SCANS = frozenset({"cumulative_sum", "cumulative_prod", "linear_recurrence"})
_ALONE = PIECEWISE | SCANS
REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"})
VIEWS = frozenset({"reshape", "broadcast_to", "permute_dims", "slice"})
# A loop with more nodes than this is closed: its compile time would outgrow what fusing saves.
LARGEST_LOOP = 5000


@dataclass
class Content:
    """What a loop computes at a point: found by lowering it, and the same at all sizes."""

    # Nodes read from memory, and the number of the operand that each is.
    reads: list[Node]
    numbers: list[int]
    body: tuple[Any, ...]
    # Values, by number, with the nodes that they are stored or reduced to.
    stores: list[tuple[int, Node]]
    reductions: list[tuple[int, Node]]
    # Kernels that were made of it.
    kernels: list[Any] = field(default_factory=list)


@dataclass
class Loop:
    """Nodes computed point by point over one space; reductions in it share their axes."""

    space: Shape
    axes: tuple[int, ...] | None = None
    nodes: list[Node] = field(default_factory=list)
    # Nodes that are copies of a view which strides cannot express, in their own shape.
    copies: set[Node] = field(default_factory=set)
    outputs: list[Node] = field(default_factory=list)
    # Nodes whose value at a point is known inside the loop: not reductions, not copies.
    pointwise: set[Node] = field(default_factory=set)
    # Of a movement that is made of copies; like a scan, it is alone in its loop.
    pieces: list[Any] | None = None
    alone: bool = False
    content: Content | None = None


@dataclass
class Call:
    """One node that runs as a library call."""

    node: Node


Unit = Loop | Call


@dataclass
class Fused:
    """A program as units, with where each value that is read from memory lies."""

    units: list[Unit]
    access: dict[Node, Access]
    constants: set[Node]


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes of its operand that a reduction combines."""
    found = node.params[0]
    if type(found) is tuple:
        return found
    return tuple(range(node.inputs[0].ndim)) if found is None else (found,)


def fuse(program: Program, fusible: Callable[[Node], bool]) -> Fused:
    """Group the nodes of a program."""
    units: list[Unit] = []
    unit_of: dict[Node, int] = {}
    access: dict[Node, Access] = {node: whole(node) for node in program.inputs}
    constants: set[Node] = set()
    open_loops: dict[Shape, list[int]] = {}

    def where(node: Node) -> Access | None:
        """Where an operand lies in memory, unless it is a constant."""
        return None if node in constants else access[node]

    def ready(node: Node, space: Shape) -> int:
        """The first unit in which `node` can be computed over `space`."""
        earliest = 0
        for parent in node.inputs:
            if parent in constants or parent not in unit_of:
                continue
            index = unit_of[parent]
            unit = units[index]
            inside = (
                isinstance(unit, Loop)
                and unit.space == space == parent.shape
                and parent in unit.pointwise
            )
            earliest = max(earliest, index if inside else index + 1)
        return earliest

    def join(node: Node, space: Shape, axes: tuple[int, ...] | None) -> int:
        earliest = ready(node, space)
        for index in open_loops.get(space, ()):
            loop = units[index]
            assert isinstance(loop, Loop)
            fits = axes is None or loop.axes is None or loop.axes == axes
            if index >= earliest and fits and len(loop.nodes) < LARGEST_LOOP:
                loop.axes = loop.axes if axes is None else axes
                return index
        loop = Loop(space, axes)
        units.append(loop)
        open_loops.setdefault(space, []).append(len(units) - 1)
        return len(units) - 1

    for node in _scalars_first(program):
        if node.op.name == "full":
            constants.add(node)
            continue
        if node.op.name in VIEWS and len(node.inputs) == 1:
            parent = node.inputs[0]
            # A constant has no memory to be viewed.
            constant = parent in constants
            found = None if constant else view(node, access.get(parent) or whole(parent))
            if found is not None:
                access[node] = found
                if parent in unit_of:
                    unit_of[node] = unit_of[parent]
                continue
            access[node] = whole(node)
            if fusible(node) and not constant:
                unit_of[node] = join(node, parent.shape, None)
                loop = units[unit_of[node]]
                assert isinstance(loop, Loop)
                loop.nodes.append(node)
                loop.copies.add(node)
            else:
                units.append(Call(node))
                unit_of[node] = len(units) - 1
            continue
        copied = None
        if node.op.name in PIECEWISE and fusible(node):
            from gradtape.optimize.copies import pieces

            copied = pieces(node, where)
        if copied is not None:
            units.append(Loop(node.shape, nodes=[node], pieces=copied, alone=True))
            index = len(units) - 1
        elif node.op.name in SCANS and fusible(node) and not constants.intersection(node.inputs):
            units.append(Loop(node.shape, nodes=[node], alone=True))
            index = len(units) - 1
        elif node.op.name not in _ALONE and fusible(node):
            reduction = node.op.name in REDUCTIONS
            space = node.inputs[0].shape if reduction else node.shape
            index = join(node, space, reduced_axes(node) if reduction else None)
            loop = units[index]
            assert isinstance(loop, Loop)
            loop.nodes.append(node)
            if not reduction:
                loop.pointwise.add(node)
        else:
            units.append(Call(node))
            index = len(units) - 1
        unit_of[node] = index
        if type(node.spec) is not tuple:
            access[node] = whole(node)
    _sink(program, units, unit_of)
    _mark_outputs(program, units, unit_of, access, constants)
    units = [unit for unit in units if isinstance(unit, Call) or unit.nodes]
    return Fused(units, access, constants)


def _scalars_first(program: Program) -> list[Node]:
    """Scalars computed from scalars come first: nothing that reads one need then wait for a loop.

    Otherwise two loops over one large array are kept apart by a division of two numbers.
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
    readers: dict[Node, list[Node]] = {}
    for node in program.nodes:
        for parent in node.inputs:
            readers.setdefault(parent, []).append(node)
    kept = set(program.outputs)
    for node in reversed(program.nodes):
        home = units[unit_of[node]] if node in unit_of else None
        if not isinstance(home, Loop) or node not in home.pointwise or node in kept:
            continue
        targets = {_reading_loop(reader, units, unit_of) for reader in readers.get(node, ())}
        if len(targets) != 1:
            continue
        index = targets.pop()
        if index is None or index == unit_of[node]:
            continue
        loop = units[index]
        assert isinstance(loop, Loop)
        if loop.space != home.space or len(loop.nodes) >= LARGEST_LOOP:
            continue
        # What it reads inside its present loop must be able to follow it.
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
    if not isinstance(unit, Loop) or reader in unit.copies or reader.op.name in VIEWS:
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
        nodes = [unit.node] if isinstance(unit, Call) else unit.nodes
        for node in nodes:
            for parent in node.inputs:
                if parent in constants or parent not in access:
                    continue
                base = access[parent].base
                local = parent is base and unit_of.get(parent) == index
                if not local:
                    needed.add(base)
    for unit in units:
        if isinstance(unit, Loop):
            unit.outputs = [
                node for node in unit.nodes if node in needed or node not in unit.pointwise
            ]
