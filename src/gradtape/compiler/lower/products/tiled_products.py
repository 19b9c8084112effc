"""Contractions by tiles: which products, the tables of offsets, the cut, the plan instruction.

`compiler.emit.plans.tiles` writes the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.emit.plans import frame, packing, tiles
from gradtape.compiler.emit.plans.dots import DotArguments
from gradtape.compiler.emit.plans.gemm import MatrixOperand
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.emit.plans.lanes import LaneArguments
from gradtape.compiler.emit.plans.packing import TileShape, shape_for
from gradtape.compiler.emit.plans.tiles import TileArguments
from gradtape.compiler.lower.plan import SlotPlace
from gradtape.compiler.machine_limits import second_cache
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.thread_team import get_num_threads
from gradtape.config import (
    CACHE_LINE,
    DEEPEST_TILED,
    DIRECT_TILE_ROWS,
    HELD_LEFT_BYTES,
    HELD_LEFT_BYTES_APART,
    HELD_LEFT_BYTES_IN_HALVES,
    INNER_TILE_DEPTH,
    INNER_TILE_ROWS,
    LEAST_PACKED_ROWS,
    LEFT_BLOCK_BYTES,
    LONGEST_OFFSET_TABLE,
    PANEL_DEPTH,
    PARALLEL_PRODUCT_WORK,
    SCATTERED_ROWS,
    SHALLOW_DEPTH,
    SHALLOW_ROWS,
    SHALLOW_WORK,
    STRIDED_PANEL_DEPTH,
    TILE_ROWS_BESIDE,
    TILE_RUN,
    TURNED_COLUMNS,
    TURNED_TILES_BYTES,
    UNPACKED_COLUMNS,
    UNPACKED_WORK,
)
from gradtape.dtypes import DTypeLike
from gradtape.records import dataclass

Words = TileArguments | DotArguments | LaneArguments


@dataclass(frozen=True)
class LoopAxis:
    """An axis of a contraction: its length, and the step in bytes of each operand along it."""

    length: int
    a: int = 0
    b: int = 0
    c: int = 0


LoopAxes = Sequence[LoopAxis]


@dataclass(frozen=True)
class Contraction:
    """c[batch, rows, columns] = sum over depth of a[batch, rows, depth] * b[batch, depth, columns].

    A place is a slot of the plan and an offset in bytes. Columns must lie side by side in c, in the
    order of the axes. A contraction that `adds` is added to what is in c.
    """

    dtype: DTypeLike
    a: SlotPlace
    b: SlotPlace
    c: SlotPlace
    rows: LoopAxes
    columns: LoopAxes
    depth: LoopAxes
    batch: LoopAxes = field(default=())
    adds: bool = False

    def fits(self) -> bool:
        """Whether its tables are of a bearable size, and no axis is empty."""
        (_, rows), (_, depth) = self.row_axes(), self.depth_axes()
        longest = max(map(count_of, (self.batch, rows, self.columns, depth)))
        return self.work > 0 and longest <= LONGEST_OFFSET_TABLE

    def row_axes(self) -> tuple[LoopAxis, list[LoopAxis]]:
        """The outer axis of rows, which is in no table, and the inner ones."""
        return with_outer(sorted(longer(self.rows), key=lambda axis: -abs(axis.a)), INNER_TILE_ROWS)

    def depth_axes(self) -> tuple[LoopAxis, list[LoopAxis]]:
        """The outer axis of the depth, which is in no table, and the inner ones."""
        depth = sorted(longer(self.depth), key=lambda axis: -max(abs(axis.a), abs(axis.b)))
        return (
            with_outer(depth, INNER_TILE_DEPTH) if count_of(depth) > PANEL_DEPTH else (ONE, depth)
        )

    @property
    def work(self) -> int:
        """The number of multiplications."""
        axes = (*self.batch, *self.rows, *self.columns, *self.depth)
        return math.prod(axis.length for axis in axes)

    def is_faster(self) -> bool:
        """Whether tiles were measured to take less time than BLAS."""
        m, n, k = count_of(self.rows), count_of(self.columns), count_of(self.depth)
        item, host = np.dtype(self.dtype).itemsize, llvm.host()
        beside = any(axis.b == item for axis in longer(self.columns))
        if host.bits == 512 and not host.in_halves:
            return _is_shallow(m, n, k, item, beside and len(self.batch) == 0)
        lanes = host.bits // (8 * item)
        if 2 * n < max(lanes, 3) or m < 2 or k < 8:
            return False
        across = _across(self.depth, item)
        if host.has_512 and m * n * k <= UNPACKED_WORK:
            return across == item and not beside and m > 2 and n >= UNPACKED_COLUMNS
        if item == 8 and m < 5 and n > 128:
            return False
        in_runs = across == item or (item == 4 and _turns(n, across))
        if n <= (64 if in_runs else 32):
            return True
        return _is_held(
            m, k, item, in_runs, HELD_LEFT_BYTES_IN_HALVES if host.bits == 512 else HELD_LEFT_BYTES
        )

    def instruction(self, narrow: bool = False) -> Instruction:
        """The instruction that computes it; no axis but those of the depth may be empty.

        `narrow` panels have one vector: there are more for threads to share.
        """
        dtype = np.dtype(self.dtype)
        (row, rows), (deep, depth) = self.row_axes(), self.depth_axes()
        item, column_axes = dtype.itemsize, self.columns
        if dtype.kind == "c":
            item //= 2
            depth, column_axes = (
                [*depth, LoopAxis(2, item)],
                [*column_axes, LoopAxis(2, 0, item, item)],
            )
        n, columns = count_of(column_axes), offsets_along(column_axes, "b")
        deep_tables = [offsets_along(depth, name) for name in "ab"]
        across = _across(depth, item)
        turns = _turns(n, across)
        shape = self._shape(item, 1 if narrow else n, rows, deep_tables[0])
        if not turns and dtype.kind != "c" and self._is_read_directly(n, columns, shape):
            shape = shape._replace(direct=True)
        count = -(-count_of(rows) // shape.rows)
        batch = np.stack([offsets_along(self.batch, name) for name in "abc"], axis=1)
        tables = [
            batch,
            *(filled_up(offsets_along(rows, name), count * shape.rows) for name in "ac"),
            columns,
            *deep_tables,
        ]
        batch_table, rows_a, rows_c, columns_b, depth_a, depth_b = (
            table.ctypes.data for table in tables
        )
        panel_depth = PANEL_DEPTH if turns or across < CACHE_LINE else STRIDED_PANEL_DEPTH
        deep_inside = max(min(count_of(depth), panel_depth), 1)
        held = LEFT_BLOCK_BYTES if turns else block_bytes()
        blocks = _blocks(
            row, rows, max(held // (deep_inside * item), LEAST_PACKED_ROWS), shape.rows
        )
        lie = packing.SCATTERED
        if dtype.kind == "c":
            lie = packing.COMPLEX
        elif _in_one_run(columns, item):
            lie = packing.SIDE_BY_SIDE
        elif _in_runs(tables[-1], shape.lanes, item):
            lie = packing.IN_RUNS
        turned = math.prod(blocks) * shape.rows * item * deep_inside
        turns = turns and turned <= TURNED_TILES_BYTES
        words = TileArguments(
            *(*self.a, *self.b, *self.c, len(batch), batch_table),
            *(row.length, row.a, row.c, count, rows_a, rows_c, *blocks, n, columns_b, lie),
            *(deep.length, deep.a, deep.b, count_of(depth), depth_a, depth_b, 0),
            *(int(turns), panel_depth, int(self.adds), -(-n // shape.width)),
        )
        function = llvm.NativeFunction(module_of(tiles.tiles_ir, shape), "tiles")
        return shared_instruction(function, words, words.panels, self.work, tables)

    def _shape(self, item: int, columns: int, rows: LoopAxes, depth: np.ndarray) -> TileShape:
        """The shape of tiles for elements of some bytes, and offsets of the depth in a."""
        bits = llvm.host().bits
        in_runs = not len(depth) % TILE_RUN and _in_runs(depth, TILE_RUN, item)
        shape = shape_for(item, bits, columns, np.dtype(self.dtype).kind in "iu", in_runs)
        if shape.vectors == 1 and not in_runs and bits == 512:
            return _with_rows_beside(shape, offsets_along(rows, "a"))
        return shape

    def _is_read_directly(self, n: int, columns: np.ndarray, shape: TileShape) -> bool:
        """Whether tiles read vectors of the right operand where they lie."""
        few = count_of(self.rows) <= DIRECT_TILE_ROWS
        return few and n % shape.width == 0 and _in_one_run(columns, shape.size)


ONE = LoopAxis(1)


def matrix_product(
    dtype: DTypeLike, a: MatrixOperand, b: MatrixOperand, c: MatrixOperand
) -> Contraction | None:
    """c = a @ b as a contraction, or None if it is empty, too long, or c lies by columns."""
    item = np.dtype(dtype).itemsize
    (m, n), k, leading = c.shape[-2:], a.shape[-1], c.shape[:-2]
    if n > 1 and c.strides[-1] != item:
        return None
    steps = [leading_strides(each, len(leading)) for each in (a, b, c)]
    outer = [LoopAxis(n, *step) for n, *step in zip(leading, *steps, strict=True) if n != 1]
    found = Contraction(
        dtype,
        (a.slot, a.offset),
        (b.slot, b.offset),
        (c.slot, c.offset),
        # Factors of the same matrix become more rows.
        rows=[
            *(axis for axis in outer if not axis.b),
            LoopAxis(m, a.strides[-2], 0, c.strides[-2]),
        ],
        columns=[LoopAxis(n, 0, b.strides[-1], item)],
        depth=[LoopAxis(k, a.strides[-1], b.strides[-2])],
        batch=[axis for axis in outer if axis.b],
    )
    return found if found.fits() else None


def leading_strides(operand: MatrixOperand, count: int) -> list[int]:
    """Steps along the axes of a batch, 0 where the operand is broadcast."""
    own = [
        0 if n == 1 else stride
        for n, stride in zip(operand.shape[:-2], operand.strides[:-2], strict=True)
    ]
    return [0] * (count - len(own)) + own


def _is_shallow(m: int, n: int, k: int, item: int, dense: bool) -> bool:
    """Whether a product is one that tiles do faster than OpenBLAS with vectors of 512 bits."""
    width = shape_for(item, 512, n).width
    panels = -(-n // width)
    return (
        k <= SHALLOW_DEPTH[item]
        and m >= (SHALLOW_ROWS if dense else SCATTERED_ROWS)
        and panels >= 4
        and 10 * panels * width <= 11 * n
        and m * n * k >= SHALLOW_WORK
    )


def _is_held(m: int, k: int, item: int, in_runs: bool, held: Mapping[int, int]) -> bool:
    """Whether the left operand, or in float32 a block of it, stays in the second cache."""
    if item == 4 and in_runs and m * PANEL_DEPTH * item <= LEFT_BLOCK_BYTES:
        return True
    return k <= DEEPEST_TILED and m * k * item <= (held[item] if in_runs else HELD_LEFT_BYTES_APART)


def count_of(axes: LoopAxes) -> int:
    return math.prod(axis.length for axis in axes)


def longer(axes: LoopAxes) -> list[LoopAxis]:
    return [axis for axis in axes if axis.length != 1]


def _across(depth: LoopAxes, item: int) -> int:
    """Bytes between neighbours of the left operand along its depth."""
    return min((abs(axis.a) for axis in longer(depth)), default=item)


def _turns(columns: int, across: int) -> bool:
    """Whether it pays to turn tiles of the left operand before panels pass."""
    return columns >= TURNED_COLUMNS and across >= CACHE_LINE


def with_outer(axes: list[LoopAxis], inner: int) -> tuple[LoopAxis, list[LoopAxis]]:
    """The first axis, if the others alone are long enough for a table, and the rest."""
    if len(axes) > 1 and count_of(axes[1:]) >= inner:
        return axes[0], axes[1:]
    return ONE, axes


def offsets_along(axes: LoopAxes, operand: str) -> np.ndarray:
    """The offset of each position along some axes, in bytes, in row-major order."""
    total = np.zeros(1, np.int64)
    for axis in axes:
        steps = np.arange(axis.length, dtype=np.int64) * getattr(axis, operand)
        total = (total[:, None] + steps).reshape(-1)
    return np.ascontiguousarray(total)


def _in_one_run(offsets: np.ndarray, item: int) -> bool:
    return bool(np.all(np.diff(offsets) == item))


def _with_rows_beside(shape: TileShape, rows: np.ndarray) -> TileShape:
    """The shape for rows at some offsets: with more of them, if these lie side by side."""
    for count in TILE_ROWS_BESIDE:
        if len(rows) % count == 0 and _in_runs(rows, count, shape.size):
            return shape._replace(rows=count, beside=True)
    return shape


def _in_runs(offsets: np.ndarray, length: int, item: int) -> bool:
    """Whether offsets lie side by side in runs of some length, but for a rest at the end."""
    whole = len(offsets) - len(offsets) % length
    return bool(whole) and bool(np.all(np.diff(offsets[:whole].reshape(-1, length)) == item))


@functools.cache
def block_bytes() -> int:
    """Bytes of the left operand that stay in the second cache: a quarter of it."""
    return max(second_cache() // 4, LEFT_BLOCK_BYTES)


def _blocks(row: LoopAxis, rows: LoopAxes, fitting: int, tile: int) -> tuple[int, int]:
    """The outer rows and the tiles that share the second cache, if `fitting` rows fit."""
    inner = count_of(rows)
    if inner >= fitting:
        return 1, max(fitting // tile, 1)
    return max(fitting // inner, 1), -(-inner // tile)


def filled_up(table: np.ndarray, length: int) -> np.ndarray:
    return np.ascontiguousarray(np.pad(table, (0, length - len(table)), mode="edge"))


def _cut(words: Words, panels: int) -> tuple[int, int]:
    """What the threads share, and how many of it there are: what divides most evenly.

    Of equals, panels: threads that share tiles pack every panel each.
    """
    threads = get_num_threads()
    counts = {
        frame.SPLIT_BATCH: words.batch,
        frame.SPLIT_ROWS: words.outer_rows,
        frame.SPLIT_PANELS: panels,
        frame.SPLIT_TILES: words.tiles,
    }

    def evenness(split: int) -> float:
        rounds = -(-counts[split] // threads)
        return min(counts[split] / (rounds * threads), 0.9)

    split = max(counts, key=evenness)
    return split, counts[split]


def shared_instruction(
    function: llvm.NativeFunction, words: Words, panels: int, work: int, tables: object
) -> Instruction:
    """The instruction whose range is what the threads share; it holds the tables."""
    split, total = _cut(words, panels)
    parallel, words = work >= PARALLEL_PRODUCT_WORK and total > 1, words._replace(split=split)
    return Instruction(function, words, total, 1, parallel, work, code=(tables, function))


@remembered(64)
def module_of(text_of: Callable[..., str], *shape: object) -> llvm.NativeModule:
    """The module of a kernel of some shape."""
    # Not for good: instructions hold it.
    return llvm.NativeModule(Source(text_of(*shape), for_good=False))
