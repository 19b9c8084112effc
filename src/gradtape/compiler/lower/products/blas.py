"""Matrix products as plan instructions that call BLAS.

Products are cut by gradtape's own thread team, so the library must run each part on one thread:

- OpenBLAS counts threads per process (`openblas_set_num_threads_local` sets the same number for
  every thread in the builds without OpenMP, which SciPy's wheels are). `hold_instruction` and
  `release_instruction` enclose the products of a plan: the count is one in between and the
  user's own again after it, at about 15 ns each. NumPy's wheels bring another copy of OpenBLAS,
  which is never touched. SciPy calls of other threads run on one thread while a plan is running.
- MKL counts threads per calling thread too, and each call sets that.
- A library that cannot be held keeps its own threads, and its products are not cut.
"""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.emit.plans import gemm
from gradtape.compiler.emit.plans.gemm import GemmArguments, MatrixOperand
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.lower.products.tiled_products import leading_strides, matrix_product
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.objects.llvm import NativeFunction, NativeModule, add_symbol, callable_at
from gradtape.compiler.thread_team import get_num_threads
from gradtape.config import GEMM_GRAINS, GEMV_GRAINS, PARALLEL_GEMM_WORK, PARALLEL_GEMV_WORK
from gradtape.dtypes import DTypeLike
from gradtape.ops.blas_lapack import LETTERS, library

LARGEST = 2**31 - 1


def gemm_instruction(
    dtype: DTypeLike,
    a: MatrixOperand,
    b: MatrixOperand,
    c: MatrixOperand,
    *,
    accumulate: bool = False,
) -> Instruction | None:
    """The instruction for c = a @ b, or c += a @ b, of one dtype and three shapes with strides.

    Leading axes are a batch, along which a and b may broadcast. None means that neither tiles nor
    BLAS can take the operands as they lie in memory; a contiguous copy of each always works. A plan
    puts
    `hold_instruction` before its products and `release_instruction` after them.
    """
    item = np.dtype(dtype).itemsize
    if c.shape[-1] > 1 and c.strides[-1] != item:
        if c.strides[-2] != item and c.shape[-2] > 1:
            return None
        a, b, c = b.transposed(), a.transposed(), c.transposed()
    m, n, k = c.shape[-2], c.shape[-1], a.shape[-1]
    if a.shape[-2:] != (m, k) or b.shape[-2:] != (k, n):
        raise AssertionError(f"gemm: shapes {a.shape}, {b.shape} do not give {c.shape}")
    tiled = None
    if not accumulate and np.dtype(dtype).kind == "f":
        tiled = matrix_product(dtype, a, b, c)
        if tiled is not None and tiled.is_faster():
            return tiled.instruction()
    found = _library_product(dtype, a, b, c, accumulate)
    return tiled.instruction() if found is None and tiled is not None else found


def _library_product(
    dtype: DTypeLike, a: MatrixOperand, b: MatrixOperand, c: MatrixOperand, accumulate: bool
) -> Instruction | None:
    """The product by BLAS, or None if BLAS cannot take the operands as they lie in memory."""
    item = np.dtype(dtype).itemsize
    letter = LETTERS[np.dtype(dtype).name]
    m, n, k = c.shape[-2], c.shape[-1], a.shape[-1]
    batch = _batch(a, b, c)
    if batch is None:
        return None
    count, steps = batch
    if (
        count > 1
        and steps[1] == 0
        and all(
            each.strides[-1] == item and step == m * each.strides[-2]
            for each, step in ((a, steps[0]), (c, steps[2]))
        )
    ):
        # The rows of all items times the same matrix are the rows of one product.
        m, count, steps = m * count, 1, (0, 0, 0)
    read_a, read_b = _read_as(m, k, a, item), _read_as(k, n, b, item)
    leading_c = _leading(m, n, c.strides[-2], c.strides[-1], item)
    if read_a is None or read_b is None or not leading_c:
        return None
    words = GemmArguments(
        *(a.slot, a.offset, b.slot, b.offset, c.slot, c.offset),
        *(m, n, k, read_a[1], read_b[1], leading_c),
        *(read_a[0], read_b[0], int(accumulate), count, *steps, gemm.SPLIT_ROWS),
    )
    if max(words[6:12]) > LARGEST:
        return None
    return _instruction(letter, words)


def _batch(
    a: MatrixOperand, b: MatrixOperand, c: MatrixOperand
) -> tuple[int, tuple[int, int, int]] | None:
    """The leading axes as one: its length, and the step of each operand along it."""
    shape = c.shape[:-2]
    steps = [leading_strides(each, len(shape)) for each in (a, b, c)]
    count, step = 1, (0, 0, 0)
    for axis in reversed(range(len(shape))):
        here = (steps[0][axis], steps[1][axis], steps[2][axis])
        if shape[axis] == 1:
            continue
        if count == 1:
            count, step = shape[axis], here
        elif all(outer == count * inner for outer, inner in zip(here, step, strict=True)):
            count *= shape[axis]
        else:
            return None
    return (0, (0, 0, 0)) if 0 in shape else (count, step)


def _read_as(rows: int, columns: int, operand: MatrixOperand, item: int) -> tuple[int, int] | None:
    """BLAS's description of a matrix: the code of its transposition, and its leading dimension."""
    down, across = operand.strides[-2:]
    if not operand.conjugate:
        leading = _leading(rows, columns, down, across, item)
        if leading:
            return gemm.PLAIN, leading
    leading = _leading(columns, rows, across, down, item)
    if not leading:
        return None
    return gemm.CONJUGATE_TRANSPOSED if operand.conjugate else gemm.TRANSPOSED, leading


def _leading(rows: int, columns: int, down: int, across: int, item: int) -> int:
    """The leading dimension of a matrix whose rows are contiguous; 0 if they are not."""
    if columns > 1 and across != item:
        return 0
    if rows <= 1 or columns == 0:
        return max(columns, 1)
    return down // item if down % item == 0 and down >= columns * item else 0


def _instruction(letter: str, words: GemmArguments) -> Instruction:
    kernels = _kernels(letter)
    vector = _as_matrix_times_vector(words)
    if vector is not None:
        return _cut(NativeFunction(kernels, "gemv"), vector, PARALLEL_GEMV_WORK, GEMV_GRAINS)
    return _cut(NativeFunction(kernels, "gemm"), words, PARALLEL_GEMM_WORK, GEMM_GRAINS)


def _as_matrix_times_vector(words: GemmArguments) -> GemmArguments | None:
    """The words of `gemv`; None if neither operand is a vector, or for a conjugate BLAS lacks."""
    if words.n == 1 and words.transb != gemm.CONJUGATE_TRANSPOSED:
        if words.transa == gemm.CONJUGATE_TRANSPOSED:
            return None
        return words._replace(ldb=1 if words.transb else words.ldb)
    if words.m == 1 and words.transa != gemm.CONJUGATE_TRANSPOSED:
        # c' = b' a': the matrix comes first and is transposed once more.
        transposed = {
            gemm.PLAIN: gemm.TRANSPOSED,
            gemm.TRANSPOSED: gemm.PLAIN,
            gemm.CONJUGATE_TRANSPOSED: gemm.CONJUGATE_TRANSPOSED,
        }
        return words._replace(
            slot_a=words.slot_b,
            offset_a=words.offset_b,
            stride_a=words.stride_b,
            lda=words.ldb,
            transa=transposed[words.transb],
            slot_b=words.slot_a,
            offset_b=words.offset_a,
            stride_b=words.stride_a,
            ldb=words.lda if words.transa else 1,
            transb=gemm.PLAIN,
            ldc=1,
            m=words.n,
            n=1,
        )
    return None


def _cut(
    function: NativeFunction, words: GemmArguments, enough: int, grains: tuple[int, int]
) -> Instruction:
    """Cut along the batch if that shares the work evenly, else along the longer side of c."""
    threads = get_num_threads()
    rounds = -(-words.batch // threads)
    if words.batch > 1 and words.batch * 5 >= 4 * rounds * threads:
        split, total, grain = gemm.SPLIT_BATCH, words.batch, 1
    elif words.m >= words.n:
        split, total, grain = gemm.SPLIT_ROWS, words.m, grains[0]
    else:
        split, total, grain = gemm.SPLIT_COLUMNS, words.n, grains[1]
    work = words.m * words.n * words.k * words.batch
    parallel = work >= enough and total > grain and library().can_be_held
    return Instruction(function, words._replace(split=split), total, grain, parallel, work)


@remembered(len(LETTERS))
def _kernels(letter: str) -> NativeModule:
    found = library()
    for routine in ("gemm", "gemv"):
        add_symbol(gemm.symbol(letter, routine), found.address(letter + routine))
    local = bool(found.set_threads_local) and not found.sequential
    if local:
        add_symbol(gemm.LOCAL_THREADS, found.set_threads_local)
    return NativeModule(Source(gemm.gemm_ir(letter, local_threads=local), level=0))


def hold_instruction() -> Instruction | None:
    """The instruction before the products of a plan; None if the library needs no holding."""
    hold = _hold()
    return None if hold is None else Instruction(hold[0], (), 0)


def release_instruction() -> Instruction | None:
    """The instruction after the products of a plan; None if the library needs no holding."""
    hold = _hold()
    return None if hold is None else Instruction(hold[1], (), 0, always=True)


@lru_cache(maxsize=1)
def hold_module() -> NativeModule | None:
    """The module of `hold` and `release`; None if the library needs no holding."""
    found = library()
    if found.sequential or not found.set_threads:
        return None
    add_symbol(gemm.GET_THREADS, found.get_threads)
    add_symbol(gemm.SET_THREADS, found.set_threads)
    return NativeModule(Source(gemm.hold_ir(), level=0))


@lru_cache(maxsize=1)
def _hold() -> tuple[int, int] | None:
    compiled = hold_module()
    if compiled is None:
        return None
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callable_at(compiled.address("reset")))
    return compiled.address("hold"), compiled.address("release")
