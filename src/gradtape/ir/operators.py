"""The ops that graphs themselves are written with: operators of nodes, constants, sums of rows.

`graph` lies below `ops` and cannot import them. `gradtape.ops.operators` fills this table, in one
place, when the library is imported.
"""

from __future__ import annotations

from gradtape.ir.op import Op


class OperatorOps:
    """One attribute for each op that `graph` applies by itself."""

    # Of nodes: x + y, x - y, ...
    add: Op
    subtract: Op
    multiply: Op
    divide: Op
    pow: Op
    integer_power: Op
    matmul: Op
    negative: Op
    less: Op
    less_equal: Op
    greater: Op
    greater_equal: Op
    logical_and: Op
    logical_or: Op
    logical_not: Op
    # Of `graph.node.constant`.
    full: Op
    # Of row-sparse cotangents (`ir.rows`).
    concat: Op
    scatter_add_rows: Op

    def fill(self, **ops: Op) -> None:
        """Set all attributes, once."""
        assert ops.keys() == OperatorOps.__annotations__.keys()
        for name, op in ops.items():
            setattr(self, name, op)


OPERATORS = OperatorOps()
