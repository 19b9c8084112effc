"""Contractions of few columns as inner products: which, and the plan instruction.

`compiler.emit.plans.dots` writes the kernel.
"""

from __future__ import annotations

import numpy as np

from gradtape.compiler.emit.plans.dots import NOTHING, DotArguments, DotShape, dot_shape, dots_ir
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.lower.products.tiled_products import (
    Contraction,
    LoopAxes,
    LoopAxis,
    count_of,
    filled_up,
    longer,
    module_of,
    offsets_along,
    shared_instruction,
)
from gradtape.compiler.objects import llvm
from gradtape.config import BETTER_LANES_OF_DOTS, DOT_PANEL_BYTES, LEAST_DOT_ROWS


def dot_instruction(product: Contraction) -> Instruction | None:
    """The instruction that computes a contraction, or None if tiles are expected to be faster."""
    dtype, bits = np.dtype(product.dtype), llvm.host().bits
    item, columns = dtype.itemsize, count_of(product.columns)
    lanes = bits // (8 * item)
    if dtype.kind != "f" or product.adds or not count_of(product.depth):
        return None
    if 2 * columns > lanes or count_of(product.rows) < LEAST_DOT_ROWS:
        return None
    apart, run = _runs(product.depth, item)
    vectors = -(-count_of(run) // lanes)
    packed = count_of(apart) * vectors * columns * lanes * item
    if count_of(run) < BETTER_LANES_OF_DOTS * columns * vectors or packed > DOT_PANEL_BYTES:
        return None
    return _instruction(product, dot_shape(item, bits, columns), apart, run)


def _runs(depth: LoopAxes, item: int) -> tuple[list[LoopAxis], list[LoopAxis]]:
    """The axes of the depth that lie in one run of the left operand, after the others."""
    apart = sorted(longer(depth), key=lambda axis: -abs(axis.a))
    run: list[LoopAxis] = []
    while apart and apart[-1].a == item * count_of(run):
        run.insert(0, apart.pop())
    return apart, run


def _instruction(
    product: Contraction, shape: DotShape, apart: LoopAxes, run: LoopAxes
) -> Instruction:
    row, rows = product.row_axes()
    count = -(-count_of(rows) // shape.rows)
    steps, rest = divmod(count_of(run), shape.lanes)
    batch = np.stack([offsets_along(product.batch, name) for name in "abc"], axis=1)
    tables = [
        batch,
        *(filled_up(offsets_along(rows, name), count * shape.rows) for name in "ac"),
        offsets_along(product.columns, "b"),
        *_depth_tables(shape, apart, run),
    ]
    batch_table, rows_a, rows_c, columns_b, depth_a, depth_b = (
        table.ctypes.data for table in tables
    )
    runs = count_of(apart)
    words = DotArguments(
        *(*product.a, *product.b, *product.c, len(batch), batch_table),
        *(row.length, row.a, row.c, count, rows_a, rows_c, columns_b),
        *(runs * steps, runs if rest else 0, rest, depth_a, depth_b, 0),
    )
    function = llvm.NativeFunction(module_of(dots_ir, shape), "dots")
    return shared_instruction(function, words, 1, product.work, tables)


def _depth_tables(shape: DotShape, apart: LoopAxes, run: LoopAxes) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of each step in a, and of each of its lanes in b; the rests of runs come last."""
    lanes, number = shape.lanes, count_of(run)
    whole = number - number % lanes
    in_a, in_b = (offsets_along(apart, name)[:, None] for name in "ab")
    lanes_b = in_b + offsets_along(run, "b")
    steps_a = in_a + np.arange(0, whole, lanes) * shape.size
    parts_a, parts_b = [steps_a.reshape(-1)], [lanes_b[:, :whole].reshape(-1)]
    if whole < number:
        rest = np.full((len(in_b), lanes), NOTHING)
        rest[:, : number - whole] = lanes_b[:, whole:]
        parts_a.append((in_a + whole * shape.size).reshape(-1))
        parts_b.append(rest.reshape(-1))
    return np.concatenate(parts_a), np.concatenate(parts_b)
