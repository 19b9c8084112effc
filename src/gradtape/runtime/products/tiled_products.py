"""Contractions by tiles: which products, the tables of offsets, the cut, the plan instruction.

`codegen.plans.tiles` writes the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache

import numpy as np

from gradtape.codegen import llvm
from gradtape.codegen.plans import tiles
from gradtape.codegen.plans.gemm import Operand
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.tiles import Shape, TileArguments
from gradtape.dtypes import DTypeLike
from gradtape.process.records import dataclass
from gradtape.runtime.plan import Place
from gradtape.runtime.thread_team import get_num_threads

# Axes stay outside the tables if at least so many rows, or so much depth, remain inside.
INNER_ROWS = 48
INNER_DEPTH = 64
# Bytes of the left operand that stay in the second cache while all panels pass, and the fewest
# rows for which a panel is packed.
BLOCK = 1 << 17
LEAST_ROWS = 64
# Turning tiles of the left operand pays from so many columns on, if each step of depth is in a line
# of the cache of its own.
TURNED_COLUMNS = 256
# The most entries of a table.
LONGEST = 1 << 21
# Which products tiles compute faster than OpenBLAS was measured on one core and on two, with its
# kernels for AVX2 and for AVX-512. Beyond a few columns, the left operand must have at most so many
# bytes, by the size of an element (less if its rows do not lie in runs), and the depth a bound; in
# float32 a left operand whose rows are one block may be of any depth, because each panel is packed
# once.
DEEPEST = 2048
HELD = {4: 1 << 19, 8: 1 << 18}
HELD_IN_HALVES = {4: 1 << 20, 8: 1 << 18}
HELD_APART = 1 << 16
# With AVX-512, OpenBLAS takes products up to so many multiplications without packing, at full speed
# even for few rows; only a transposed right operand slows it down, from so many columns on.
UNPACKED_WORK = 1_000_000
UNPACKED_COLUMNS = 32
# If vectors of 512 bits are computed at full speed, BLAS is slower only for the following: the
# deepest product by the size of an element, the fewest rows that a packed panel must serve (more if
# its columns are read one by one), and the fewest multiplications.
SHALLOW = {4: 160, 8: 256}
SHALLOW_ROWS = 32
SCATTERED_ROWS = 256
SHALLOW_WORK = 2_000_000
# Multiplications below which a second thread costs more than it brings.
PARALLEL_WORK = 100_000


@dataclass(frozen=True)
class Axis:
    """An axis of a contraction: its length, and the step in bytes of each operand along it."""

    length: int
    a: int = 0
    b: int = 0
    c: int = 0


Axes = Sequence[Axis]


@dataclass(frozen=True)
class Contraction:
    """c[batch, rows, columns] = sum over depth of a[batch, rows, depth] * b[batch, depth, columns].

    A place is a slot of the plan and an offset in bytes. Columns must lie side by side in c, in the
    order of the axes.
    """

    dtype: DTypeLike
    a: Place
    b: Place
    c: Place
    rows: Axes
    columns: Axes
    depth: Axes
    batch: Axes = field(default=())

    def fits(self) -> bool:
        """Whether its tables are of a bearable size, and no axis is empty."""
        lengths = [_length(axes) for axes in (self.batch, self.rows, self.columns, self.depth)]
        return 0 not in lengths and max(lengths) <= LONGEST

    @property
    def work(self) -> int:
        """How many multiplications it takes."""
        axes = (*self.batch, *self.rows, *self.columns, *self.depth)
        return math.prod(axis.length for axis in axes)

    def is_faster(self) -> bool:
        """Whether tiles were measured to take less time than BLAS."""
        m, n, k = _length(self.rows), _length(self.columns), _length(self.depth)
        item, host = np.dtype(self.dtype).itemsize, llvm.host()
        beside = any(axis.b == item for axis in _longer(self.columns))
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
        if item == 4 and in_runs and m * tiles.DEPTH * item <= BLOCK:
            return True
        held = HELD_IN_HALVES if host.bits == 512 else HELD
        return k <= DEEPEST and m * k * item <= (held[item] if in_runs else HELD_APART)

    def instruction(self) -> Instruction:
        """The instruction that computes it; no axis may be empty."""
        item = np.dtype(self.dtype).itemsize
        n = _length(self.columns)
        shape = tiles.shape_for(item, llvm.host().bits, n)
        columns = _offsets(self.columns, "b")
        rows = sorted(_longer(self.rows), key=lambda axis: -abs(axis.c))
        depth = sorted(_longer(self.depth), key=lambda axis: -max(abs(axis.a), abs(axis.b)))
        row, rows = _outer(rows, INNER_ROWS)
        deep, depth = _outer(depth, INNER_DEPTH) if _length(depth) > tiles.DEPTH else (ONE, depth)
        count = -(-_length(rows) // shape.rows)
        batch = np.stack([_offsets(self.batch, name) for name in "abc"], axis=1)
        tables = [
            batch,
            *(_filled(_offsets(rows, name), count * shape.rows) for name in "ac"),
            columns,
            *(_offsets(depth, name) for name in "ab"),
        ]
        batch_table, rows_a, rows_c, columns_b, depth_a, depth_b = (
            table.ctypes.data for table in tables
        )
        blocks = _blocks(row, rows, min(_length(depth), tiles.DEPTH) * item, shape.rows)
        lie = tiles.SCATTERED
        if _in_one_run(columns, item):
            lie = tiles.SIDE_BY_SIDE
        elif _in_one_run(tables[-1], item):
            lie = tiles.IN_ONE_RUN
        deep_inside = min(_length(depth), tiles.DEPTH)
        turned = math.prod(blocks) * shape.rows * item * deep_inside
        turns = int(_turns(n, _across(depth, item)) and turned <= tiles.TURNED)
        words = TileArguments(
            *(*self.a, *self.b, *self.c, len(batch), batch_table),
            *(row.length, row.a, row.c, count, rows_a, rows_c, *blocks, n, columns_b, lie),
            *(deep.length, deep.a, deep.b, _length(depth), depth_a, depth_b, 0, turns),
        )
        split, total = _cut(words, -(-n // shape.width))
        parallel = self.work >= PARALLEL_WORK and total > 1
        kernel = _compiled(shape)
        words, function = words._replace(split=split), kernel.address("tiles")
        code = (tables, kernel)
        return Instruction(function, words, total, 1, parallel, self.work, code=code)


ONE = Axis(1)


def matrix_product(dtype: DTypeLike, a: Operand, b: Operand, c: Operand) -> Contraction | None:
    """c = a @ b as a contraction, or None if it is empty, too long, or c lies by columns."""
    item = np.dtype(dtype).itemsize
    (m, n), k, leading = c.shape[-2:], a.shape[-1], c.shape[:-2]
    if n > 1 and c.strides[-1] != item:
        return None
    steps = [_leading_strides(each, len(leading)) for each in (a, b, c)]
    outer = [Axis(n, *step) for n, *step in zip(leading, *steps, strict=True) if n != 1]
    found = Contraction(
        dtype,
        (a.slot, a.offset),
        (b.slot, b.offset),
        (c.slot, c.offset),
        # What is multiplied by the same matrix is more rows.
        rows=[*(axis for axis in outer if not axis.b), Axis(m, a.strides[-2], 0, c.strides[-2])],
        columns=[Axis(n, 0, b.strides[-1], item)],
        depth=[Axis(k, a.strides[-1], b.strides[-2])],
        batch=[axis for axis in outer if axis.b],
    )
    return found if found.fits() else None


def _leading_strides(operand: Operand, count: int) -> list[int]:
    """Steps along the axes of a batch, 0 where the operand is broadcast."""
    own = [
        0 if n == 1 else stride
        for n, stride in zip(operand.shape[:-2], operand.strides[:-2], strict=True)
    ]
    return [0] * (count - len(own)) + own


def _is_shallow(m: int, n: int, k: int, item: int, dense: bool) -> bool:
    """Whether a product is one that tiles do faster than OpenBLAS with vectors of 512 bits."""
    width = tiles.shape_for(item, 512, n).width
    panels = -(-n // width)
    return (
        k <= SHALLOW[item]
        and m >= (SHALLOW_ROWS if dense else SCATTERED_ROWS)
        and panels >= 4
        and 10 * panels * width <= 11 * n
        and m * n * k >= SHALLOW_WORK
    )


def _length(axes: Axes) -> int:
    return math.prod(axis.length for axis in axes)


def _longer(axes: Axes) -> list[Axis]:
    return [axis for axis in axes if axis.length != 1]


def _across(depth: Axes, item: int) -> int:
    """Bytes between neighbours of the left operand along its depth."""
    return min((abs(axis.a) for axis in _longer(depth)), default=item)


def _turns(columns: int, across: int) -> bool:
    """Whether it pays to turn tiles of the left operand before panels pass."""
    return columns >= TURNED_COLUMNS and across >= tiles.LINE


def _outer(axes: list[Axis], inner: int) -> tuple[Axis, list[Axis]]:
    """The first axis, if the others alone are long enough for a table, and the rest."""
    if len(axes) > 1 and _length(axes[1:]) >= inner:
        return axes[0], axes[1:]
    return ONE, axes


def _offsets(axes: Axes, operand: str) -> np.ndarray:
    """The offset of each position along some axes, in bytes, in row-major order."""
    total = np.zeros(1, np.int64)
    for axis in axes:
        steps = np.arange(axis.length, dtype=np.int64) * getattr(axis, operand)
        total = (total[:, None] + steps).reshape(-1)
    return np.ascontiguousarray(total)


def _in_one_run(offsets: np.ndarray, item: int) -> bool:
    return bool(np.all(np.diff(offsets) == item))


def _blocks(row: Axis, rows: Axes, line: int, tile: int) -> tuple[int, int]:
    """How many outer rows and how many tiles share the second cache, with rows of some bytes."""
    fitting = max(BLOCK // line, LEAST_ROWS)
    inner = _length(rows)
    if inner >= fitting:
        return 1, max(fitting // tile, 1)
    return max(fitting // inner, 1), -(-inner // tile)


def _filled(table: np.ndarray, length: int) -> np.ndarray:
    return np.ascontiguousarray(np.pad(table, (0, length - len(table)), mode="edge"))


def _cut(words: TileArguments, panels: int) -> tuple[int, int]:
    """What the threads share, and how many of it there are: what divides most evenly.

    Of equals, panels: threads that share tiles pack every panel each.
    """
    threads = get_num_threads()
    counts = {
        tiles.SPLIT_BATCH: words.batch,
        tiles.SPLIT_ROWS: words.outer_rows,
        tiles.SPLIT_PANELS: panels,
        tiles.SPLIT_TILES: words.tiles,
    }

    def evenness(split: int) -> float:
        rounds = -(-counts[split] // threads)
        return min(counts[split] / (rounds * threads), 0.9)

    split = max(counts, key=evenness)
    return split, counts[split]


@lru_cache(maxsize=8)
def _compiled(shape: Shape) -> llvm.Compiled:
    # Not for good, so that its machine code is kept on disk; instructions hold it.
    return llvm.compile_ir(tiles.tiles_ir(shape), for_good=False)
