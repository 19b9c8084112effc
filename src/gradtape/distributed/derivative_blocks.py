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
from typing import Any

import numpy as np

from gradtape.argument_checks import as_count
from gradtape.autodiff.sparse.choose_colouring import Coloured, colour
from gradtape.autodiff.sparse.pattern import Pattern, pattern_of
from gradtape.control.vmap import vmap
from gradtape.distributed import functions_sent
from gradtape.distributed.mapping import Results, map as map_items
from gradtape.distributed.programs import (
    NotAProgramError,
    TravellingProgram,
    compile_ahead,
    travelling,
)
from gradtape.distributed.report import Report
from gradtape.errors import DtypeError, SparsityError, shown
from gradtape.ops.arrays.movement import reshape
from gradtape.progress import Choice
from gradtape.tape.grad_vjp_jvp import grad, jvp, vjp
from gradtape.tape.sparsity_patterns import hessian_pattern, sparsity_pattern
from gradtape.tensor import Tensor, asarray

__all__ = ["Blocks", "hessian", "jacobian"]

# Blocks for each worker, so that the last ones end at about the same time.
BLOCKS_PER_WORKER = 4


@dataclass(frozen=True)
class _Products:
    """The products of a Jacobian at one point with seeds: what a worker holds."""

    f: Callable[[Any], Any]
    x: np.ndarray
    forward: bool
    program: TravellingProgram | None
    # Seeds per block: shorter ones are filled with zeros, so that one program serves all.
    size: int
    seed_shape: tuple[int, ...]
    seed_dtype: np.dtype[Any]

    @property
    def programs(self) -> tuple[TravellingProgram, ...]:
        """The programs that travelled."""
        return () if self.program is None else (self.program,)

    def __call__(self, seeds: np.ndarray) -> np.ndarray:
        """One flat product for each seed; a seed is a row of an array."""
        count = len(seeds)
        padded = np.zeros((self.size, *self.seed_shape), self.seed_dtype)
        padded[:count] = seeds.reshape(count, *self.seed_shape)
        if self.program is not None:
            (found,) = self.program([self.x, padded])
        else:
            found = products(self.f, self.x, padded, self.forward).numpy()
        return np.array(found[:count])


def products(f: Callable[[Any], Any], x: Any, seeds: Any, forward: bool) -> Tensor:
    """The products of the Jacobian of f at x with each seed, flat: J s, or sᵀ J."""

    def along(seed: Any) -> Any:
        if forward:
            return reshape(jvp(f, (x,), (seed,))[1], (-1,))
        return reshape(vjp(f, x)[1](seed)[0], (-1,))

    found: Tensor = vmap(along)(seeds)
    return found


@dataclass(frozen=True)
class DenseBlock:
    """A function of a span of columns or rows: the block, or None if it went to a file."""

    products: _Products
    length: int
    file: str | None

    @property
    def programs(self) -> tuple[TravellingProgram, ...]:
        """The programs that travelled."""
        return self.products.programs

    def __call__(self, span: tuple[int, int]) -> np.ndarray | None:
        start, stop = span
        seeds = np.zeros((stop - start, self.length), self.products.seed_dtype)
        seeds[np.arange(stop - start), np.arange(start, stop)] = 1.0
        found = self.products(seeds)
        block = found.T if self.products.forward else found
        if self.file is None:
            return block
        matrix = np.load(self.file, mmap_mode="r+")
        matrix[_place(self.products.forward, start, stop)] = block
        matrix.flush()
        return None


def _place(forward: bool, start: int, stop: int) -> tuple[slice, slice]:
    span = slice(start, stop)
    return (slice(None), span) if forward else (span, slice(None))


@dataclass(frozen=True)
class SparseBlock:
    """A function of a span of colours: the entries of those colours, or None."""

    products: _Products
    # The colour of each seed element; the entries by colour: where they lie in a product.
    colours: np.ndarray
    bounds: np.ndarray
    places: np.ndarray
    order: np.ndarray | None
    file: str | None

    @property
    def programs(self) -> tuple[TravellingProgram, ...]:
        """The programs that travelled."""
        return self.products.programs

    def __call__(self, span: tuple[int, int]) -> np.ndarray | None:
        start, stop = span
        seeds = (self.colours == np.arange(start, stop)[:, None]).astype(self.products.seed_dtype)
        found = self.products(seeds)
        low, high = self.bounds[start], self.bounds[stop]
        which = np.repeat(np.arange(stop - start), np.diff(self.bounds[start : stop + 1]))
        entries = found[which, self.places[low:high]]
        if self.file is None or self.order is None:
            return entries
        data = np.load(self.file, mmap_mode="r+")
        data[self.order[low:high]] = entries
        data.flush()
        return None


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
    pattern: Pattern | None = None
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
    block: int | None = None,
    out: Any = None,
    workers: int | None = None,
    executor: futures.Executor | None = None,
    address: str | None = None,
    progress: Choice = False,
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
    return _by_blocks(
        "jacobian",
        f,
        x,
        sparsity_pattern,
        sparse,
        mode,
        block,
        out,
        workers,
        executor,
        address,
        progress,
    )


def hessian(
    f: Callable[[Any], Any],
    x: Any,
    *,
    sparse: Any = False,
    block: int | None = None,
    out: Any = None,
    workers: int | None = None,
    executor: futures.Executor | None = None,
    address: str | None = None,
    progress: Choice = False,
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
        return hessian_pattern(f, point)

    return _by_blocks(
        "hessian",
        grad(f),
        x,
        pattern,
        sparse,
        "forward",
        block,
        out,
        workers,
        executor,
        address,
        progress,
    )


def _by_blocks(
    name: str,
    f: Callable[[Any], Any],
    x: Any,
    find_pattern: Callable[[Any, Any], Any],
    sparse: Any,
    mode: str,
    block: int | None,
    out: Any,
    workers: int | None,
    executor: futures.Executor | None,
    address: str | None,
    progress: Choice,
) -> Any:
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"{name}: mode={mode!r} is unknown. Use auto, forward or reverse.")
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"{name}: out={shown(out)} is not a path. Pass None, 'refs' or a path.")
    point = np.array(x.numpy() if isinstance(x, Tensor) else x)
    if point.dtype.kind != "f":
        raise DtypeError(f"{name}: x has dtype {point.dtype}, not float32 or float64.")
    value = asarray(f(asarray(point)))
    if value.dtype.kind != "f":
        raise DtypeError(f"{name}: the function returned dtype {value.dtype}. Return real floats.")
    shape = (value.size, point.size)
    options = {
        "workers": workers,
        "executor": executor,
        "address": address,
        "progress": progress,
    }
    if sparse is not False and sparse is not None:
        found = pattern_of(sparse) if sparse is not True else find_pattern(f, point)
        if found.rows is None:
            raise SparsityError(f"{name}: the matrix is dense. Use sparse=False.")
        return _sparse(name, f, point, value, found, mode, block, out, options)
    forward = shape[1] <= shape[0] if mode == "auto" else mode == "forward"
    total = shape[1] if forward else shape[0]
    size = _block_size(name, block, total, options)
    seed_shape = point.shape if forward else value.shape
    like = point if forward else value
    report, held = _held(name, f, point, forward, size, seed_shape, like.dtype)
    path = None if out in (None, "refs") else _as_file(out)
    if path is not None:
        np.lib.format.open_memmap(path, "w+", value.dtype, shape).flush()
    spans = _spans(total, size)
    places = [_place(forward, *span) for span in spans]
    run = DenseBlock(held, total, path)
    results = _results(run, spans, out == "refs", options, report)
    if out == "refs":
        return Blocks(shape, places, list(results), None, value.dtype, results.report)
    matrix = np.empty(shape, value.dtype) if path is None else None
    for place, part in zip(places, results, strict=True):
        if matrix is not None:
            matrix[place] = part
    return np.load(path, mmap_mode="r") if path is not None else matrix


def _sparse(
    name: str,
    f: Any,
    point: np.ndarray,
    value: Tensor,
    pattern: Pattern,
    mode: str,
    block: int | None,
    out: Any,
    options: dict[str, Any],
) -> Any:
    coloured = _one_way(pattern, mode)
    forward = coloured.columns is not None
    colours = coloured.columns if coloured.columns is not None else coloured.rows
    assert colours is not None
    of = np.asarray(colours.of)
    across = pattern.indices if forward else pattern.row_numbers
    along = pattern.row_numbers if forward else pattern.indices
    colour_of_entry = of[across]
    order = np.argsort(colour_of_entry, kind="stable")
    bounds = np.searchsorted(colour_of_entry[order], np.arange(colours.count + 1))
    size = _block_size(name, block, colours.count, options)
    seed_shape = point.shape if forward else tuple(value.shape)
    like = point if forward else value
    report, held = _held(name, f, point, forward, size, seed_shape, like.dtype)
    folder = None if out in (None, "refs") else Path(os.fspath(out))
    file = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "indptr.npy", pattern.indptr)
        np.save(folder / "indices.npy", pattern.indices)
        file = str(folder / "data.npy")
        np.lib.format.open_memmap(file, "w+", value.dtype, (pattern.nnz,)).flush()
    run = SparseBlock(
        held, of, bounds, np.asarray(along)[order], None if file is None else order, file
    )
    spans = _spans(colours.count, size)
    results = _results(run, spans, out == "refs", options, report)
    places = [order[bounds[start] : bounds[stop]] for start, stop in spans]
    if out == "refs":
        return Blocks(pattern.shape, places, list(results), pattern, value.dtype, results.report)
    if file is not None:
        for _ in results:
            pass
        return pattern.with_data(np.load(file, mmap_mode="r"))
    data = np.empty(pattern.nnz, value.dtype)
    for place, part in zip(places, results, strict=True):
        data[place] = part
    return pattern.with_data(data)


def _one_way(pattern: Pattern, mode: str) -> Coloured:
    """A colouring of columns or of rows: the one that takes fewer products."""
    if mode != "auto":
        return colour(pattern, "column" if mode == "forward" else "row")
    ways = colour(pattern, "column"), colour(pattern, "row")
    return min(ways, key=lambda found: found.cost())


def _held(
    name: str,
    f: Any,
    x: np.ndarray,
    forward: bool,
    size: int,
    seed_shape: tuple[int, ...],
    seed_dtype: Any,
) -> tuple[Report, _Products]:
    """What workers hold, with the program of a block if the function can be traced."""
    report = Report(name)
    program = None
    try:
        seeds = np.zeros((size, *seed_shape), seed_dtype)
        program = travelling(name, lambda x, s: products(f, x, s, forward), (x, seeds))
        compile_ahead(program)
    except NotAProgramError as reason:
        functions_sent.refuse_variables(name, f, remedy="Pass their values to the function.")
        report.not_a_program = str(reason)
    # A program needs no function: then it need not be pickled either.
    kept = f if program is None else _unused
    return report, _Products(kept, x, forward, program, size, seed_shape, np.dtype(seed_dtype))


def _unused(_: Any) -> Any:
    raise AssertionError("a program was sent in the place of this function")


def _block_size(name: str, block: int | None, total: int, options: dict[str, Any]) -> int:
    if block is not None:
        return min(as_count(f"{name}: block", block, least=1), max(total, 1))
    workers = options["workers"] or os.cpu_count() or 1
    return max(1, -(-total // (BLOCKS_PER_WORKER * workers)))


def _spans(total: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, total)) for start in range(0, total, size)]


def _results(
    run: Any, spans: list[tuple[int, int]], refs: bool, options: dict[str, Any], report: Report
) -> Results:
    results = map_items(run, spans, refs=refs, seed=0, **options)
    results.report.name = report.name
    results.report.not_a_program = report.not_a_program
    return results


def _as_file(out: Any) -> str:
    path = os.fspath(out)
    return path if path.endswith(".npy") else f"{path}.npy"
