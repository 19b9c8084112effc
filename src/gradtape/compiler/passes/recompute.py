"""Recompute: a loop computes sums and products again that an earlier loop would have to store.

A derivative reads many values of the function: of `gelu`, half a dozen arrays that differ by a sum
or a product. Where one can be had from values that the reading loop loads anyway, or from one that
lies in memory in any case, it is computed again: a product takes less time than a store and a load.

Rounding may differ between the two computations, if one of them joins a product and a sum. So a
value that anything compares, or takes the largest of, is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gradtape.config import (
    CHEAP_LOAD_RATIO,
    LARGEST_RECOMPUTING_LOOP,
    LEAST_RECOMPUTED_BYTES,
    MOST_RECOMPUTED,
)
from gradtape.ir import Accumulation, Node, Program

if TYPE_CHECKING:
    from gradtape.compiler.passes.units import FusedLoop, Unit
    from gradtape.ops.families.strides import Access


_DECIDING = {Accumulation.MAX, Accumulation.MIN, Accumulation.ARGMAX, Accumulation.ARGMIN}


class Recomputation:
    """Puts nodes into loops that read them, beside the loops that compute them first."""

    def __init__(
        self,
        program: Program,
        units: Sequence[Unit],
        unit_of: dict[Node, int],
        access: dict[Node, Access],
        constants: set[Node],
    ) -> None:
        self._units = units
        self._unit_of = unit_of
        self._access = access
        self._constants = constants
        self._program = program
        self._outputs = set(program.outputs)

    # Most programs have nothing that may be computed again, and need neither of these.

    @cached_property
    def _position(self) -> dict[Node, int]:
        return {node: number for number, node in enumerate(self._program.nodes)}

    @cached_property
    def _readers(self) -> dict[Node, list[Node]]:
        found: dict[Node, list[Node]] = {}
        for node in self._program.nodes:
            for parent in node.inputs:
                found.setdefault(parent, []).append(node)
        return found

    def into(self, loop: FusedLoop) -> None:
        """Add to a loop what it can compute again."""
        if loop.alone or loop.copies or len(loop.nodes) > LARGEST_RECOMPUTING_LOOP:
            return
        reads = dict.fromkeys(
            parent
            for node in loop.nodes
            for parent in node.inputs
            if parent not in loop.pointwise and parent.shape == loop.space
        )
        candidates = [node for node in reads if self._may(node, loop)]
        if not candidates:
            return
        loaded = {node for node in reads if node not in candidates}
        chosen: list[Node] = []
        for node in sorted(candidates, key=self._position.__getitem__):
            more = self._more_loads(node, {*loaded, *chosen})
            if more is None or len(more) > 1 or len(chosen) == MOST_RECOMPUTED:
                loaded.add(node)
            else:
                loaded.update(more)
                chosen.append(node)
        loop.nodes[:0] = chosen
        loop.pointwise.update(chosen)

    def _may(self, node: Node, loop: FusedLoop) -> bool:
        """Whether a value is a sum or product that only loops over the same space read."""
        op = node.op
        if (
            node not in self._unit_of
            or node in self._outputs
            or node.spec.nbytes < LEAST_RECOMPUTED_BYTES
        ):
            return False
        if not op.elementwise or op.linear is None or op.compiled_cost > 1:
            return False
        if node.dtype.kind != "f" or any(parent.dtype != node.dtype for parent in node.inputs):
            return False
        home = self._units[self._unit_of[node]]
        if node not in getattr(home, "pointwise", ()):
            return False
        return all(self._reads_point_by_point(reader, loop) for reader in self._readers[node])

    def _reads_point_by_point(self, reader: Node, loop: FusedLoop) -> bool:
        op = reader.op
        if op.reduction in _DECIDING or reader not in self._unit_of or op.view is not None:
            return False
        if type(reader.spec) is tuple or reader.dtype.kind != "f":
            return False
        unit = self._units[self._unit_of[reader]]
        if getattr(unit, "space", None) != loop.space or reader in getattr(unit, "copies", ()):
            return False
        return not getattr(unit, "alone", True)

    def _more_loads(self, node: Node, known: set[Node]) -> list[Node] | None:
        """The values that must be loaded to compute a node; None if one would have to be stored."""
        more = []
        for parent in dict.fromkeys(node.inputs):
            if (
                parent in known
                or parent in self._constants
                or parent.size * CHEAP_LOAD_RATIO <= node.size
            ):
                continue
            if not self._is_stored(parent):
                return None
            more.append(parent)
        return more

    def _is_stored(self, node: Node) -> bool:
        """Whether a value lies in memory in any case: an input, or the result of a call."""
        found = self._access.get(node)
        base = node if found is None else found.base
        if base in self._outputs or base not in self._unit_of:
            return True
        return base not in getattr(self._units[self._unit_of[base]], "pointwise", ())
