"""Fills `gradtape.graph.operators`: the ops that graphs and recordings apply by themselves."""

from __future__ import annotations

from gradtape.graph.operators import OPERATORS
from gradtape.ops.arrays.creation import FULL
from gradtape.ops.arrays.gathering import SCATTER_ADD_ROWS
from gradtape.ops.arrays.joining import CONCAT, STACK
from gradtape.ops.elementwise import arithmetic, unary
from gradtape.ops.families.elementwise import op_of
from gradtape.ops.matrices.contraction import MATMUL

OPERATORS.add = op_of(arithmetic.add)
OPERATORS.subtract = op_of(arithmetic.subtract)
OPERATORS.multiply = op_of(arithmetic.multiply)
OPERATORS.divide = op_of(arithmetic.divide)
OPERATORS.pow = op_of(arithmetic.power)
OPERATORS.integer_power = op_of(arithmetic.integer_power)
OPERATORS.matmul = MATMUL
OPERATORS.negative = op_of(unary.negative)
OPERATORS.less = op_of(arithmetic.less)
OPERATORS.less_equal = op_of(arithmetic.less_equal)
OPERATORS.greater = op_of(arithmetic.greater)
OPERATORS.greater_equal = op_of(arithmetic.greater_equal)
OPERATORS.logical_and = op_of(arithmetic.logical_and)
OPERATORS.logical_or = op_of(arithmetic.logical_or)
OPERATORS.logical_not = op_of(unary.logical_not)
OPERATORS.full = FULL
OPERATORS.concat = CONCAT
OPERATORS.scatter_add_rows = SCATTER_ADD_ROWS
OPERATORS.stack = STACK
