"""Jacobians and Hessians by blocks: each worker computes the products with some of the seeds.

A dense block is some columns, by forward products, or some rows, by reverse products. A sparse
matrix is coloured by the driver; a block is the entries of some colours, so that all blocks
together take as many products as the whole would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradtape as gt
from gradtape import Tensor
from gradtape.config import BLOCKS_PER_WORKER
from gradtape.distributed import functions_sent
from gradtape.distributed.mapping import map as map_items
from gradtape.distributed.report import Report
from gradtape.errors import DtypeError, SparsityError
from gradtape.export import ExportedProgram, NotExportableError, exported
from gradtape.libraries import shown
from gradtape.typing import ProgressChoice, Size

__all__ = ["Blocks", "hessian", "jacobian"]


class _BlockRange(NamedTuple):
    """One block: its first colour and the one after its last, and what belongs to it."""

    start: int
    stop: int
    # Of a sparse matrix: where the entries lie in the products, one after the other.
    entries: np.ndarray | None
    # The place of the values in the whole: slices, or numbers of entries.
    place: Any


@dataclass(frozen=True)
class _Block:
    """A function of a part of a matrix: its values, or None if they went to a file.

    In a dense matrix each column, or row, has a colour of its own.
    """

    f: Callable[[Any], Any]
    x: np.ndarray
    forward: bool
    program: ExportedProgram | None
    # Seeds of one block: unused ones are zero, so that one program serves all blocks.
    seeds: tuple[int, ...]
    dtype: np.dtype[Any]
    # The colour of each element of a seed.
    colours: np.ndarray
    file: str | None

    @property
    def programs(self) -> tuple[ExportedProgram, ...]:
        """The programs that travelled."""
        return () if self.program is None else (self.program,)

    def __call__(self, part: _BlockRange) -> np.ndarray | None:
        count = part.stop - part.start
        seeds = np.zeros(self.seeds, self.dtype)
        rows = self.colours == np.arange(part.start, part.stop)[:, None]
        seeds[:count] = rows.reshape(count, *self.seeds[1:])
        if self.program is not None:
            found = self.program(self.x, seeds)
        else:
            found = products(self.f, self.x, seeds, self.forward).numpy()
        values = np.array(found[:count])
        if part.entries is not None:
            values = values.reshape(-1)[part.entries]
        elif self.forward:
            values = values.T
        if self.file is None:
            return values
        whole = np.load(self.file, mmap_mode="r+")
        whole[part.place] = values
        whole.flush()
        return None


def products(f: Callable[[Any], Any], x: Any, seeds: Any, forward: bool) -> Tensor:
    """The products of the Jacobian of f at x with each seed, flat: J s, or sᵀ J."""

    def along(seed: Any) -> Any:
        if forward:
            return gt.reshape(gt.jvp(f, (x,), (seed,))[1], (-1,))
        return gt.reshape(gt.vjp(f, x)[1](seed)[0], (-1,))

    found: Tensor = gt.vmap(along)(seeds)
    return found


@dataclass(frozen=True)
class Blocks:
    """A matrix whose blocks are in Ray's object store: places, and references to the values.

    `places[i]` is a pair of slices of a dense matrix, or the numbers of entries of a sparse one
    (in CSR order), and `refs[i]` the values. `assemble()` makes the whole matrix here.

    >>> blocks = gt.distributed.Blocks((1, 2), [], [])
    >>> blocks.assemble().tolist()
    [[0.0, 0.0]]
    """

    shape: tuple[int, int]
    places: list[Any]
    refs: list[Any]
    pattern: Any = None
    dtype: Any = np.float64
    report: Report = field(default_factory=lambda: Report("jacobian"))

    def assemble(self) -> Any:
        """The whole matrix, dense or as a CSR array."""
        values: Any
        if self.pattern is None:
            values = np.zeros(self.shape, self.dtype)
        else:
            values = np.zeros(self.pattern.nnz, self.dtype)
        for place, ref in zip(self.places, self.refs, strict=True):
            import ray  # only Ray makes references

            values[place] = ray.get(ref)
        return values if self.pattern is None else self.pattern.with_data(values)


def jacobian(
    f: Callable[[Any], Any],
    x: Any,
    *,
    sparse: Any = False,
    mode: str = "auto",
    block: Size | None = None,
    out: Any = None,
    workers: Size | None = None,
    executor: futures.Executor | None = None,
    address: str | None = None,
    progress: ProgressChoice = False,
) -> Any:
    """The Jacobian of f at an array x as a matrix, by blocks that workers compute.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as threads:
    ...     found = gt.distributed.jacobian(
    ...         lambda x: x[1:] * x[:-1], np.arange(4.0), executor=threads
    ...     )
    >>> found.tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 1.0, 0.0], [0.0, 0.0, 3.0, 2.0]]

    It has a row for each element of f(x) and a column for each element of x. With `sparse=True`, or
    a pattern, it is a CSR array. `block` is the number of columns, rows or colours of one block.

    `out=None` assembles it here. `out="refs"` leaves the blocks in Ray's object store and gives
    `Blocks`. Any other `out` is a path that all workers can write to: of a .npy file for a dense
    matrix, of a folder with indptr.npy, indices.npy and data.npy for a sparse one. Workers write
    their blocks there, and the result is mapped into memory.
    """
    more = {"workers": workers, "executor": executor, "address": address, "progress": progress}
    return _by_blocks("jacobian", f, x, gt.sparsity_pattern, sparse, mode, block, out, more)


def hessian(
    f: Callable[[Any], Any],
    x: Any,
    *,
    sparse: Any = False,
    block: Size | None = None,
    out: Any = None,
    workers: Size | None = None,
    executor: futures.Executor | None = None,
    address: str | None = None,
    progress: ProgressChoice = False,
) -> Any:
    """The Hessian of a scalar f at an array x as a matrix, by blocks of columns.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as threads:
    ...     gt.distributed.hessian(lambda x: gt.sum(x**3), np.array([1.0, 2.0]), executor=threads)
    array([[ 6.,  0.],
           [ 0., 12.]])

    The other arguments are those of `jacobian`.
    """

    def pattern(_: Any, point: Any) -> Any:
        return gt.hessian_pattern(f, point)

    more = {"workers": workers, "executor": executor, "address": address, "progress": progress}
    return _by_blocks("hessian", gt.grad(f), x, pattern, sparse, "forward", block, out, more)


class _Cut(NamedTuple):
    """The division of a matrix: by colours of its columns (forward) or rows."""

    shape: tuple[int, int]
    forward: bool
    # The number of colours, and the colour of each element of a seed.
    total: int
    colours: np.ndarray
    # Of a sparse matrix: where each entry lies in all products, one after the other.
    pattern: Any = None
    positions: np.ndarray | None = None

    def size(self, block: int | None, workers: int) -> int:
        """The number of colours of one block."""
        return min(block or -(-self.total // (BLOCKS_PER_WORKER * workers)), self.total) or 1

    def parts(self, size: int) -> list[_BlockRange]:
        """The blocks of `size` colours each."""
        found = []
        length = self.shape[0] if self.forward else self.shape[1]
        order = None if self.positions is None else np.argsort(self.positions, kind="stable")
        for start in range(0, self.total, size):
            stop = min(start + size, self.total)
            if self.positions is None or order is None:
                span = slice(start, stop)
                place: Any = (slice(None), span) if self.forward else span
                found.append(_BlockRange(start, stop, None, place))
                continue
            ends = [start * length, stop * length]
            place = order[slice(*np.searchsorted(self.positions, ends, sorter=order))]
            found.append(_BlockRange(start, stop, self.positions[place] - ends[0], place))
        return found


def _cut(name: str, pattern: Any, shape: tuple[int, int], mode: str) -> _Cut:
    if pattern is None:
        forward = shape[1] <= shape[0] if mode == "auto" else mode == "forward"
        total = shape[1] if forward else shape[0]
        return _Cut(shape, forward, total, np.arange(total))
    if pattern.rows is None:
        raise SparsityError(f"{name}: the matrix is dense. Use sparse=False.")
    ways = {"forward": ["column"], "reverse": ["row"]}.get(mode, ["column", "row"])
    coloured = min((gt.colour(pattern, way) for way in ways), key=lambda each: each.cost())
    chosen = coloured.columns if coloured.columns is not None else coloured.rows
    assert chosen is not None
    forward, of = coloured.columns is not None, np.asarray(chosen.of)
    return _Cut(pattern.shape, forward, chosen.count, of, pattern, coloured.positions)


def _by_blocks(
    name: str,
    f: Callable[[Any], Any],
    x: Any,
    find_pattern: Callable[[Any, Any], Any],
    sparse: Any,
    mode: str,
    block_size: int | None,
    out: Any,
    more: dict[str, Any],
) -> Any:
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"{name}: mode={mode!r} is unknown. Use auto, forward or reverse.")
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"{name}: out={shown(out)} is not a path. Pass None, 'refs' or a path.")
    point = np.array(x.numpy() if isinstance(x, Tensor) else x)
    if point.dtype.kind != "f":
        raise DtypeError(f"{name}: x has dtype {point.dtype}, not float32 or float64.")
    value = gt.asarray(f(gt.asarray(point)))
    if value.dtype.kind != "f":
        raise DtypeError(f"{name}: the function returned dtype {value.dtype}. Return real floats.")
    pattern = None
    if sparse is not False and sparse is not None:
        pattern = find_pattern(f, point) if sparse is True else gt.colour(sparse, "column").pattern
    cut = _cut(name, pattern, (value.size, point.size), mode)
    file = None if out in (None, "refs") else _new_file(out, cut, value.dtype)
    like = point if cut.forward else value
    size = cut.size(block_size, more["workers"] or os.cpu_count() or 1)
    block, why = _block(name, f, point, cut, (size, *like.shape), np.dtype(like.dtype), file)
    parts = cut.parts(size)
    results = map_items(block, parts, refs=out == "refs", seed=0, **more)
    results.report.name, results.report.not_a_program = name, why
    if out == "refs":
        places = [part.place for part in parts]
        return Blocks(cut.shape, places, list(results), pattern, value.dtype, results.report)
    if file is None:
        whole = np.empty(cut.shape if pattern is None else pattern.nnz, value.dtype)
        for part, values in zip(parts, results, strict=True):
            whole[part.place] = values
    else:
        list(results)
        whole = np.load(file, mmap_mode="r")
    return whole if pattern is None else pattern.with_data(whole)


def _block(
    name: str,
    f: Callable[[Any], Any],
    x: np.ndarray,
    cut: _Cut,
    seeds: tuple[int, ...],
    dtype: np.dtype[Any],
    file: str | None,
) -> tuple[_Block, str]:
    """The function that workers hold, with its program; if there is none, also the reason."""
    program, why, forward = None, "", cut.forward
    try:
        given = (x, np.zeros(seeds, dtype))
        program = exported(lambda x, s: products(f, x, s, forward), *given).compile()
    except NotExportableError as reason:
        functions_sent.refuse_variables(name, f, remedy="Pass their values to the function.")
        why = str(reason)
    # A program needs no function: then it need not be pickled either.
    kept = f if program is None else _unused
    return _Block(kept, x, forward, program, seeds, dtype, cut.colours, file), why


def _new_file(out: Any, cut: _Cut, dtype: Any) -> str:
    """The file that workers write to: a matrix, or the data of a sparse one in a folder."""
    path = os.fspath(out)
    pattern = cut.pattern
    size: tuple[int, ...] = cut.shape
    if pattern is not None:
        folder, size = Path(path), (pattern.nnz,)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "indptr.npy", pattern.indptr)
        np.save(folder / "indices.npy", pattern.indices)
        path = str(folder / "data.npy")
    path = path if path.endswith(".npy") else f"{path}.npy"
    np.lib.format.open_memmap(path, "w+", dtype, size).flush()
    return path


def _unused(_: Any) -> Any:
    raise AssertionError("a program was sent in the place of this function")
