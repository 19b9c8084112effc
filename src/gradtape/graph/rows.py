"""Rows: a cotangent that is zero but for some rows, as a look-up in a table gives it."""

from __future__ import annotations

from dataclasses import dataclass

from gradtape.graph.node import Node, apply, constant
from gradtape.graph.operators import OPERATORS
from gradtape.graph.spec import Spec


@dataclass(frozen=True, eq=False)
class Rows:
    """A cotangent that is zero but for some rows: `values[i]` adds to row `indices[i]`."""

    indices: Node
    values: Node
    spec: Spec

    def dense(self) -> Node:
        nothing = constant(0, self.spec)
        return apply(OPERATORS.scatter_add_rows, (nothing, self.indices, self.values))

    def joined(self, other: Rows) -> Rows:
        concat = OPERATORS.concat
        return Rows(
            apply(concat, (self.indices, other.indices), (0,)),
            apply(concat, (self.values, other.values), (0,)),
            self.spec,
        )
