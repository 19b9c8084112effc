"""Fills `gradtape.ir.operators`: the ops that graphs apply by themselves."""

from __future__ import annotations

from gradtape.ir.operators import OPERATORS
from gradtape.ops.arrays.creation import FULL
from gradtape.ops.arrays.gathering import SCATTER_ADD_ROWS
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.elementwise import arithmetic, unary
from gradtape.ops.families.elementwise import op_of
from gradtape.ops.matrices.contraction import MATMUL

OPERATORS.fill(
    add=op_of(arithmetic.add),
    subtract=op_of(arithmetic.subtract),
    multiply=op_of(arithmetic.multiply),
    divide=op_of(arithmetic.divide),
    pow=op_of(arithmetic.power),
    integer_power=op_of(arithmetic.integer_power),
    matmul=MATMUL,
    negative=op_of(unary.negative),
    less=op_of(arithmetic.less),
    less_equal=op_of(arithmetic.less_equal),
    greater=op_of(arithmetic.greater),
    greater_equal=op_of(arithmetic.greater_equal),
    logical_and=op_of(arithmetic.logical_and),
    logical_or=op_of(arithmetic.logical_or),
    logical_not=op_of(unary.logical_not),
    full=FULL,
    concat=CONCAT,
    scatter_add_rows=SCATTER_ADD_ROWS,
)
