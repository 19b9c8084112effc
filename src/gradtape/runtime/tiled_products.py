"""Contractions by tiles: the tables of offsets, the cut among threads, the plan instruction.

`codegen.plans.tiles` writes the kernel; `blas` decides which matrix products it computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from gradtape.codegen import llvm
from gradtape.codegen.plans import tiles
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.tiles import Shape, TileArguments
from gradtape.dtypes import DTypeLike
from gradtape.runtime.plan import Place
from gradtape.runtime.thread_team import get_num_threads

# Axes stay outside the tables if at least so many rows, or so much depth, remain inside.
INNER_ROWS = 48
INNER_DEPTH = 64
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

    @property
    def work(self) -> int:
        """How many multiplications it takes."""
        axes = (*self.batch, *self.rows, *self.columns, *self.depth)
        return math.prod(axis.length for axis in axes)

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
        dense = bool(np.all(np.diff(columns) == item))
        words = TileArguments(
            *(*self.a, *self.b, *self.c, len(batch), batch_table),
            *(row.length, row.a, row.c, count, rows_a, rows_c, n, columns_b, int(dense)),
            *(deep.length, deep.a, deep.b, _length(depth), depth_a, depth_b, 0),
        )
        split, total = _cut(words, -(-n // shape.width))
        parallel = self.work >= PARALLEL_WORK and total > 1
        return Instruction(
            _kernel(shape), words._replace(split=split), total, 1, parallel, self.work, code=tables
        )


ONE = Axis(1)


def _length(axes: Axes) -> int:
    return math.prod(axis.length for axis in axes)


def _longer(axes: Axes) -> list[Axis]:
    return [axis for axis in axes if axis.length != 1]


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


def _filled(table: np.ndarray, length: int) -> np.ndarray:
    return np.ascontiguousarray(np.pad(table, (0, length - len(table)), mode="edge"))


def _cut(words: TileArguments, panels: int) -> tuple[int, int]:
    """What the threads share, and how many of it there are: what divides most evenly."""
    threads = get_num_threads()
    counts = {
        tiles.SPLIT_BATCH: words.batch,
        tiles.SPLIT_ROWS: words.outer_rows,
        tiles.SPLIT_TILES: words.tiles,
        tiles.SPLIT_PANELS: panels,
    }

    def evenness(split: int) -> float:
        rounds = -(-counts[split] // threads)
        return min(counts[split] / (rounds * threads), 0.9)

    split = max(counts, key=evenness)
    return split, counts[split]


@lru_cache(maxsize=8)
def _kernel(shape: Shape) -> int:
    return llvm.compile_ir(tiles.tiles_ir(shape)).address("tiles")
