"""Merge routines: those between which nothing has to happen become one.

Routines are made before loops are, at the earliest place of each, so that no loop waits for one.
When loops are made, several routines may stand side by side, or apart without need.
"""

from __future__ import annotations

from gradtape.compiler.passes.routines import LONGEST
from gradtape.compiler.passes.units import Fused, Registers, Unit, nodes_of
from gradtape.ir import Node, Program


def merge_routines(program: Program, fused: Fused) -> Fused:
    """The same units, in which a routine joins the first that does not come before its operands."""
    if not any(isinstance(unit, Registers) for unit in fused.units):
        return fused
    units: list[Unit] = []
    # The unit that computes each node.
    home: dict[Node, int] = {}
    for unit in fused.units:
        nodes = nodes_of(unit)
        index = _fitting(unit, units, home, fused) if isinstance(unit, Registers) else None
        if index is None:
            index = len(units)
            units.append(unit)
        else:
            first = units[index]
            assert isinstance(first, Registers)
            assert isinstance(unit, Registers)
            units[index] = Registers(
                [*first.routines, *unit.routines],
                [*first.picks, *unit.picks],
                [],
                first.cost + unit.cost,
            )
        home |= dict.fromkeys(nodes, index)
    _mark_outputs(program, fused, units, home)
    return Fused(units, fused.access, fused.constants)


def _base(node: Node, fused: Fused) -> Node:
    found = fused.access.get(node)
    return node if found is None else found.base


def _fitting(unit: Registers, units: list[Unit], home: dict[Node, int], fused: Fused) -> int | None:
    """The first routine that another one can join."""
    earliest = 0
    for node in unit.routines:
        for parent in node.inputs:
            at = home.get(_base(parent, fused), -1)
            inside = at >= 0 and isinstance(units[at], Registers)
            earliest = max(earliest, at if inside else at + 1)
    for index in range(earliest, len(units)):
        found = units[index]
        if isinstance(found, Registers) and found.cost + unit.cost <= LONGEST:
            return index
    return None


def _mark_outputs(program: Program, fused: Fused, units: list[Unit], home: dict[Node, int]) -> None:
    """A result of a routine is in memory if another unit reads it."""
    needed = {_base(node, fused) for node in program.outputs}
    for index, unit in enumerate(units):
        for node in nodes_of(unit):
            for parent in node.inputs:
                base = _base(parent, fused)
                if home.get(base) != index:
                    needed.add(base)
    for unit in units:
        if isinstance(unit, Registers):
            unit.outputs = [pick for pick in unit.picks if pick in needed]
