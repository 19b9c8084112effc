"""How compiled plans call LAPACK: the rules `native` of the ops on matrices.

Each gives the words of a routine of `compiler/emit/library/lapack.py`: the bytes from one matrix
of a stack to the next, the sizes, and the offsets of what it needs of scratch memory. The library
says how much work space is best for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.config import (
    FEW_RIGHT_SIDES,
    LAPACK_CALL_COST,
    MATRIX_PANEL,
    SHARED_MATRIX_ORDER,
    SMALL_MATRIX_COLUMNS,
    SMALL_MATRIX_COST,
    SMALL_MATRIX_ORDER,
)
from gradtape.ir import Node, Spec
from gradtape.ops.blas_lapack import LETTERS, integers, lapack, library
from gradtape.ops.families.native_code import NativeCall

# Scratch areas begin at multiples of this.
_ALIGNMENT = 64


def _specs_of(y: Node) -> tuple[Spec, ...]:
    """The specs of all results of a node."""
    return y.spec if type(y.spec) is tuple else (y.spec,)


def _stack(y: Node, cores: Sequence[int]) -> tuple[int, tuple[int, ...] | None]:
    """The items of the stack that results, and the bytes from one to the next in each operand.

    None for stacks that broadcast partly.
    """
    specs = [*[parent.spec for parent in y.inputs], *_specs_of(y)]
    counts = [math.prod(of.shape[: of.ndim - core]) for of, core in zip(specs, cores, strict=True)]
    total = counts[-1]
    if not {*counts} <= {1, total}:
        return total, None
    sizes = zip(specs, counts, strict=True)
    return total, tuple(of.nbytes // count if count == total else 0 for of, count in sizes)


class Areas:
    """Scratch memory, cut into areas."""

    def __init__(self, *sizes: int) -> None:
        self.offsets: list[int] = []
        self.nbytes = 0
        for size in sizes:
            self.offsets.append(self.nbytes)
            self.nbytes += -(-size // _ALIGNMENT) * _ALIGNMENT


def _call(
    y: Node,
    routine: str,
    cores: Sequence[int],
    sizes: Sequence[int],
    areas: Areas,
    *options: str,
) -> NativeCall | None:
    """The call of a routine for each item of the stack that results."""
    letter = LETTERS.get(y.inputs[0].dtype.name)
    total, steps = _stack(y, cores)
    if letter is None or steps is None or max(sizes) > np.iinfo(library().integers).max:
        return None
    assert y.op.flops is not None
    work = int(y.op.flops(y)) // 2 + total * LAPACK_CALL_COST
    words = (*steps, *sizes, *areas.offsets)
    return NativeCall(routine, (letter, *options), words, total, work, areas.nbytes, True)


def _small_call(
    y: Node, routine: str, cores: Sequence[int], *options: str | int
) -> NativeCall | None:
    """The call of a routine whose text depends on the sizes."""
    total, steps = _stack(y, cores)
    if steps is None:
        return None
    assert y.op.flops is not None
    work = int(y.op.flops(y)) + total * SMALL_MATRIX_COST
    words = (LETTERS[y.inputs[0].dtype.name], *map(str, options))
    return NativeCall(routine, words, steps, total, work)


def _is_small(x: Node, columns: int = 1) -> bool:
    real = x.dtype.name in ("float32", "float64")
    return real and x.shape[-1] <= SMALL_MATRIX_ORDER and columns <= SMALL_MATRIX_COLUMNS


@remembered(1024)
def _best_lengths(name: str, dtype: np.dtype[Any], *arguments: str | int) -> tuple[int, int, int]:
    """The lengths of work space for a routine: of elements, of real numbers, of integers.

    The arguments are those before the work spaces; "matrix" stands for an array.
    """
    real = np.empty(1, dtype).real.dtype
    work, more, numbers = np.ones(1, dtype), np.ones(1, real), integers(1)
    numbers[0] = 1
    given = [np.empty(1, dtype) if each == "matrix" else each for each in arguments]
    several: list[Any] = []
    if name in ("syevd", "heevd"):
        several = [*([more, -1] if dtype.kind == "c" else []), numbers, -1]
    elif name == "gesdd":
        several = [*([np.empty(1, real)] if dtype.kind == "c" else []), integers(1)]
    lapack(name, dtype, *given, work, -1, *several)
    # A float32 may have rounded the length down.
    lengths = [int(np.ceil(float(x[0].real) * (1 + 1e-6))) for x in (work, more)]
    return max(lengths[0], 1), max(lengths[1], 1), max(int(numbers[0]), 1)


def cholesky(y: Node) -> NativeCall | None:
    """The rule of Cholesky factors."""
    if _is_small(y):
        return _small_call(y, "small_factor_symmetric", (2, 2), y.shape[-1])
    return _call(y, "factor_symmetric", (2, 2), (y.shape[-1],), Areas())


def lu_factors(y: Node) -> NativeCall | None:
    """The rule of LU factors."""
    n = y.inputs[0].shape[-1]
    if _is_small(y.inputs[0]):
        return _small_call(y, "small_factor_lu", (2, 2, 1), n)
    found = _call(y, "factor_lu", (2, 2, 1), (n,), Areas(8 * n))
    # Whether the library runs on one thread, on whichever thread it is called.
    held = library().sequential or library().set_threads
    if found is None or found.total > 1 or n < SHARED_MATRIX_ORDER or not held:
        return found
    # The block follows the order among the words.
    words = (*found.words[:-1], MATRIX_PANEL, found.words[-1])
    return replace(found, routine="factor_large_lu", words=words, shares=True)


def lu_inverse(y: Node) -> NativeCall | None:
    """The rule of inverses from LU factors."""
    (n, size), dtype = (y.shape[-1], y.dtype.itemsize), y.dtype
    if _is_small(y):
        return _small_call(y, "small_invert_by_lu", (2, 1, 2), n)
    if dtype.name not in LETTERS:
        return None
    if y.ndim == 2 and n > MATRIX_PANEL:
        blocks, areas = -(-n // MATRIX_PANEL), Areas(n * MATRIX_PANEL * size, 8 * n)
        found = _call(y, "invert_large_by_lu", (2, 1, 2), (n, MATRIX_PANEL, blocks), areas)
        # Items are pairs of blocks.
        return None if found is None else replace(found, total=-(-blocks // 2))
    length = max(n, _best_lengths("getri", dtype, n, "matrix", n, "matrix")[0])
    areas = Areas(n * n * size, length * size, 8 * n)
    return _call(y, "invert_by_lu", (2, 1, 2), (n, length), areas)


def lu_slogdet(y: Node) -> NativeCall | None:
    """The rule of determinants from LU factors."""
    n = y.inputs[0].shape[-1]
    found = _call(y, "determinant_by_lu", (2, 1, 0, 0), (n,), Areas())
    return None if found is None else replace(found, calls_library=False)


def _systems(y: Node, routine: str, cores: Sequence[int], areas: Areas, *options: str) -> Any:
    """Systems: threads share stacks, or the columns of one right-hand side."""
    n, columns = y.shape[-2:]
    if _is_small(y.inputs[0], columns):
        return _small_call(y, f"small_{routine}", cores, *options, n, columns)
    cut = "one" if columns == 1 else "items"
    found = _call(y, routine, cores, (n, columns), areas, *options, cut)
    if found is None or found.total > 1 or columns <= FEW_RIGHT_SIDES:
        return found
    return replace(found, options=(*found.options[:-1], "columns"), total=columns)


def lu_solve(y: Node) -> NativeCall | None:
    """The rule of solutions from LU factors."""
    turned = "T" if y.keywords["transposed"] else "N"
    areas = Areas(y.shape[-1] * y.dtype.itemsize)
    return _systems(y, "solve_by_lu", (2, 1, 2, 2), areas, turned)


def triangular_solve(y: Node) -> NativeCall | None:
    """The rule of solutions of triangular systems."""
    triangle = "lower" if y.keywords["lower"] else "upper"
    diagonal = "unit" if y.keywords["unit_diagonal"] else "any"
    return _systems(y, "solve_triangle", (2, 2, 2), Areas(), triangle, diagonal)


def qr(y: Node) -> NativeCall | None:
    """The rule of QR decompositions."""
    (x,), size, dtype = y.inputs, y.inputs[0].dtype.itemsize, y.inputs[0].dtype
    if dtype.name not in LETTERS or not x.size:
        return None
    rows, columns = x.shape[-2:]
    inner, short = _specs_of(y)[0].shape[-1], min(rows, columns)
    generate = "ungqr" if dtype.kind == "c" else "orgqr"
    first = _best_lengths("geqrf", dtype, rows, columns, "matrix", rows, "matrix")[0]
    second = _best_lengths(generate, dtype, rows, inner, short, "matrix", rows, "matrix")[0]
    length = max(first, second, rows, columns)
    areas = Areas(rows * max(columns, inner) * size, short * size, length * size)
    return _call(y, "factor_orthogonal", (2, 2, 2), (rows, columns, short, inner, length), areas)


def _symmetric(y: Node, job: str, cores: Sequence[int]) -> NativeCall | None:
    n, dtype = y.inputs[0].shape[-1], y.inputs[0].dtype
    if dtype.name not in LETTERS:
        return None
    routine = "heevd" if dtype.kind == "c" else "syevd"
    size, real = dtype.itemsize, np.empty(1, dtype).real.itemsize
    lengths = _best_lengths(routine, dtype, job, "L", n, "matrix", n, "matrix")
    length, more, numbers = lengths
    areas = Areas(n * n * size, length * size, more * real, 8 * numbers)
    return _call(y, "decompose_symmetric", cores, (n, *lengths), areas, job)


def eigh(y: Node) -> NativeCall | None:
    """The rule of eigenvalues and eigenvectors."""
    return _symmetric(y, "V", (2, 1, 2))


def eigvalsh(y: Node) -> NativeCall | None:
    """The rule of eigenvalues."""
    return _symmetric(y, "N", (2, 1))


def _singular(y: Node, job: str, cores: Sequence[int]) -> NativeCall | None:
    (x,), dtype = y.inputs, y.inputs[0].dtype
    # LAPACK gives no bases for a matrix without elements.
    if dtype.name not in LETTERS or not x.size:
        return None
    rows, columns = x.shape[-2:]
    short, long = min(rows, columns), max(rows, columns)
    wide, high = {"A": (rows, columns), "S": (short, short), "N": (1, 1)}[job]
    size, real = dtype.itemsize, np.empty(1, dtype).real.itemsize
    sizes: tuple[int | str, ...] = (job, rows, columns, "matrix", rows, "matrix")
    vectors: tuple[int | str, ...] = ("matrix", rows, "matrix", high)
    length = _best_lengths("gesdd", dtype, *sizes, *vectors)[0]
    # The length of the real numbers beside complex ones is LAPACK's formula: no call computes it.
    more = short * max(5 * short + 7, 2 * long + 2 * short + 1) if dtype.kind == "c" else 0
    if job == "N":
        more = min(more, 7 * short)
    areas = Areas(
        rows * columns * size,
        rows * wide * size,
        high * columns * size,
        length * size,
        more * real,
        8 * 8 * short,
    )
    return _call(
        y, "decompose_singular", cores, (rows, columns, short, wide, high, length), areas, job
    )


def svd(y: Node) -> NativeCall | None:
    """The rule of singular values and vectors."""
    return _singular(y, "A" if y.keywords["full_matrices"] else "S", (2, 2, 1, 2))


def svdvals(y: Node) -> NativeCall | None:
    """The rule of singular values."""
    return _singular(y, "N", (2, 1))


def expm(y: Node) -> NativeCall | None:
    """The rule of exponentials."""
    n, matrix = y.shape[-1], y.spec.nbytes // max(math.prod(y.shape[:-2]), 1)
    small = _is_small(y)
    areas = Areas(*[matrix] * 7, 16 * n, 8 * n)
    found = _call(y, "exponentials", (2, 2), (n,), areas, str(n) if small else "large")
    return found and replace(found, calls_library=not small)
