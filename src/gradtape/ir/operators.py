"""The ops that graphs apply by themselves: operators of nodes, constants, sums of rows.

`ir` lies below `ops` and imports none of them. It finds these in the registry, by name, at the
first use; `tests/formalities/test_hooks.py` checks that every name is registered.
"""

from __future__ import annotations

from gradtape.ir.op import REGISTRY, Op


class OperatorOps:
    """One attribute for each op that `ir` applies, read from the registry once."""

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
    # Of `ir.node.constant`.
    full: Op
    # Of a list of tensors among operands (`trace.record`).
    stack: Op
    # Of row-sparse cotangents (`ir.row_cotangents`).
    concat: Op
    scatter_add: Op

    def __getattr__(self, name: str) -> Op:
        if name not in OperatorOps.__annotations__:
            raise AttributeError(name)
        found = REGISTRY[name]
        setattr(self, name, found)
        return found


OPERATORS = OperatorOps()
