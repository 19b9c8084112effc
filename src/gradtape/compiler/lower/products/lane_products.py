"""Contractions of a single row and column for each item of a batch, as sums of vectors.

`compiler.emit.plans.lanes` writes the kernel.
"""

from __future__ import annotations

import numpy as np

from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.emit.plans.lanes import LaneArguments, lane_shape, lanes_ir
from gradtape.compiler.lower.products.tiled_products import (
    Contraction,
    count_of,
    filled_up,
    longer,
    module_of,
    offsets_along,
    shared_instruction,
)
from gradtape.compiler.objects import llvm
from gradtape.config import LEAST_LANE_SHARE


def lane_instruction(product: Contraction) -> Instruction | None:
    """The instruction that computes a contraction, or None if its batch does not fill vectors."""
    dtype, bits = np.dtype(product.dtype), llvm.host().bits
    item, batch = dtype.itemsize, longer(product.batch)
    if dtype.kind not in "iuf" or count_of(product.columns) > 1 or len(batch) != 1:
        return None
    (lane,) = batch
    beside = lane.a == lane.c == item and lane.b in (0, item)
    if not beside or lane.length * item * 8 < LEAST_LANE_SHARE * bits:
        return None
    row, rows = product.row_axes()
    depth = sorted(longer(product.depth), key=lambda axis: -max(abs(axis.a), abs(axis.b)))
    shape = lane_shape(item, bits, lane.length, count_of(rows), dtype.kind in "iu")
    count = -(-count_of(rows) // shape.rows)
    tables = [
        *(filled_up(offsets_along(rows, name), count * shape.rows) for name in "ac"),
        *(offsets_along(depth, name) for name in "ab"),
    ]
    rows_a, rows_c, depth_a, depth_b = (table.ctypes.data for table in tables)
    words = LaneArguments(
        *(*product.a, *product.b, *product.c, row.length, row.a, row.c, count, rows_a, rows_c),
        *(lane.length, count_of(depth), depth_a, depth_b, 0, int(product.adds)),
        -(-lane.length // shape.width),
    )
    function = llvm.NativeFunction(module_of(lanes_ir, shape, lane.b == 0), "lanes")
    return shared_instruction(function, words, words.panels, product.work, tables)
