"""Shallow products: matrix products of little depth, which gradtape's kernels do faster than BLAS.

The limits below were measured against OpenBLAS on a processor with vectors of 512 bits: 1.15 to 1.3
times as fast on one core. On other processors, and for other shapes, BLAS computes the product.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gradtape.codegen import llvm
from gradtape.codegen.plans import panels
from gradtape.codegen.plans.gemm import Operand
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.panels import PanelArguments, Shape
from gradtape.dtypes import DTypeLike

# The least multiplications, and the least rows that a packed panel must serve.
WORK = 2_000_000
ROWS = 32
# Columns that are read one by one take longer to pack.
ROWS_SCATTERED = 256
PANELS = 4
# The deepest product that is still faster than BLAS, by the size of an element.
DEEPEST = {4: 160, 8: 256}


def panel_instruction(
    dtype: DTypeLike, a: Operand, b: Operand, c: Operand, m: int, n: int, k: int
) -> Instruction | None:
    """The instruction for c = a @ b of three matrices, or None if BLAS is to compute it."""
    item = np.dtype(dtype).itemsize
    if np.dtype(dtype).kind != "f" or llvm.host().bits != 512:
        return None
    shape = panels.shape_for(item, llvm.host().bits)
    count = -(-n // shape.width)
    rows = ROWS if b.strides[-1] == item else ROWS_SCATTERED
    if (
        not 0 < k <= DEEPEST[item]
        or m < rows
        or count < PANELS
        or 10 * count * shape.width > 11 * n
        or m * n * k < WORK
        or (c.strides[-1] != item)
    ):
        return None
    words = PanelArguments(
        *(a.slot, a.offset, b.slot, b.offset, c.slot, c.offset, m, n, k),
        *(*a.strides[-2:], *b.strides[-2:], c.strides[-2]),
    )
    return Instruction(_kernel(shape), words, count, 1, parallel=True, work=m * n * k)


@lru_cache(maxsize=2)
def _kernel(shape: Shape) -> int:
    return llvm.compile_ir(panels.panels_ir(shape)).address("panels")
