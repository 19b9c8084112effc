"""Rows: cotangents that are zero but for some rows, such as those of an embedding table."""

from __future__ import annotations

from gradtape.ir.node import Node, apply, constant
from gradtape.ir.operators import OPERATORS
from gradtape.ir.spec import Spec
from gradtape.records import dataclass


@dataclass(frozen=True, eq=False)
class Rows:
    """A cotangent that is zero but for some rows: `values[i]` adds to row `indices[i]`."""

    indices: Node
    values: Node
    spec: Spec

    def dense(self) -> Node:
        """The cotangent as one array."""
        nothing = constant(0, self.spec)
        return apply(OPERATORS.scatter_add, (nothing, self.indices, self.values), (0,))

    def joined(self, other: Rows) -> Rows:
        """The sum of two cotangents: their rows one after the other."""
        concat = OPERATORS.concat
        return Rows(
            apply(concat, (self.indices, other.indices), (0,)),
            apply(concat, (self.values, other.values), (0,)),
            self.spec,
        )
