"""Factorisations of stacks of small real matrices, without loops and without a library.

A call of LAPACK takes a microsecond, and the arithmetic of a 4×4 system a few dozen nanoseconds.
Rows are vectors of LLVM; pivots are chosen as LAPACK chooses them, and rows are exchanged by
`select`, so that a matrix is singular here exactly if it is for LAPACK, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gradtape.compiler.emit.library.butterflies import Vectors
from gradtape.compiler.emit.library.stack_routine import StackRoutine
from gradtape.compiler.emit.writer import Routine, Word, constants
from gradtape.config import SMALL_FACTOR_LANES


def _less(by: Vectors, x: str, factor: str, y: str) -> str:
    """x less a number times y."""
    return by.subtract(x, by.multiply(by.spread(factor), y))


def _divided(by: Vectors, x: str, number: str) -> str:
    return by.r.op("fdiv", x, by.spread(number))


def _exchange(r: Routine, rows: list[str], at: int, other: Word) -> None:
    """Exchange a row and a later one, whose number is a word."""
    old = new = rows[at]
    for j in range(at + 1, len(rows)):
        same = r.equal(other, j)
        new = r.select(same, rows[j], new)
        rows[j] = r.select(same, old, rows[j])
    rows[at] = new


def _pivot_row(r: Routine, rows: Sequence[str], k: int) -> Word:
    """The number of the first row with the largest element of column k, from row k on."""
    best: str = r.intrinsic("fabs", r.lane(rows[k], k))
    at: Word = k
    for i in range(k + 1, len(rows)):
        size = r.intrinsic("fabs", r.lane(rows[i], k))
        larger = r.compare("ogt", size, best)
        best, at = r.select(larger, size, best), r.select(larger, i, at)
    return at


def _rows(by: Vectors, base: str, count: int, step: int = 0) -> list[str]:
    """Rows of a matrix in memory, `step` bytes apart; side by side without a step."""
    return [by.load(by.r.at(base, i * (step or by.nbytes))) for i in range(count)]


def small_factor_lu(letter: str, order: str) -> str:
    """LU factors in column-major memory, and pivots, which count from 1."""
    n = int(order)
    w = StackRoutine("small_factor_lu", letter, ["x"], ["factors", "pivots"])
    r, by = w.r, Vectors(w.r, w.elements.real, n)
    with w.items() as (x, factors, pivots):
        rows = _rows(by, x, n)
        for k in range(n):
            at = _pivot_row(r, rows, k)
            r.put(pivots, 8 * k, r.add(at, 1))
            _exchange(r, rows, k, at)
            _eliminate(by, rows, k)
        for i in range(n):
            for j in range(n):
                w.store(w.element(factors, j * n + i), [r.lane(rows[i], j)])
    return w.text()


def _eliminate(by: Vectors, rows: list[str], k: int) -> None:
    """Subtract multiples of row k from later ones, and put the factors into column k."""
    if k + 1 == len(rows):
        return
    r = by.r
    pivot = r.lane(rows[k], k)
    # A column whose largest element is 0 has nothing to eliminate.
    pivot = r.select(r.compare("oeq", pivot, "0.0"), "1.0", pivot)
    later = constants("i1", (int(lane > k) for lane in range(by.lanes)))
    rest = r.select(later, rows[k], "zeroinitializer")
    for i in range(k + 1, by.lanes):
        factor = r.op("fdiv", r.lane(rows[i], k), pivot)
        rows[i] = r.with_lane(_less(by, rows[i], factor, rest), k, factor)


class _Factors:
    """The elements of LU factors, and the exchanges of rows."""

    def __init__(self, w: StackRoutine, n: int, factors: str, pivots: str) -> None:
        self.n = n
        # Column-major.
        self.of = [[w.load(w.element(factors, j * n + i))[0] for j in range(n)] for i in range(n)]
        self.others = [w.r.subtract(w.r.word(pivots, 8 * i), 1) for i in range(n - 1)]
        for i in range(n):
            w.fail_if(w.is_zero([self.of[i][i]], or_nan=True))

    def solve(self, by: Vectors, rows: list[str], transposed: bool) -> None:
        """Replace the rows of a right-hand side by those of the solution."""
        order = range(self.n)
        if transposed:
            turned = list(map(list, zip(*self.of, strict=True)))
            _substitute(by, rows, turned, order, unit=False)
            _substitute(by, rows, turned, order[::-1], unit=True)
            for i in order[-2::-1]:
                _exchange(by.r, rows, i, self.others[i])
            return
        for i in order[:-1]:
            _exchange(by.r, rows, i, self.others[i])
        _substitute(by, rows, self.of, order, unit=True)
        _substitute(by, rows, self.of, order[::-1], unit=False)


def _substitute(
    by: Vectors, rows: list[str], matrix: Sequence[Sequence[str]], order: range, unit: bool
) -> None:
    """Solve with a triangle of a matrix, row by row in this order."""
    for at, i in enumerate(order):
        for j in order[:at]:
            rows[i] = _less(by, rows[i], matrix[i][j], rows[j])
        if not unit:
            rows[i] = _divided(by, rows[i], matrix[i][i])


def _solve_columns(
    w: StackRoutine,
    sizes: tuple[int, int],
    b: str,
    x: str,
    solve: Callable[[Vectors, list[str]], None],
) -> None:
    """Solve for each vector of the columns of a right-hand side, of which `sizes` is the shape."""
    n, columns = sizes
    for first in range(0, columns, SMALL_FACTOR_LANES):
        by = Vectors(w.r, w.elements.real, min(SMALL_FACTOR_LANES, columns - first))
        rows = _rows(by, w.element(b, first), n, columns * by.size)
        solve(by, rows)
        for i, row in enumerate(rows):
            by.store(w.element(x, i * columns + first), row)


def small_solve_by_lu(letter: str, turned: str, order: str, width: str) -> str:
    """The solutions of systems from LU factors, of the matrix or ("T") its transpose."""
    n, columns = int(order), int(width)
    w = StackRoutine("small_solve_by_lu", letter, ["factors", "pivots", "b"], ["x"])
    with w.items() as (factors, pivots, b, x):
        known = _Factors(w, n, factors, pivots)
        _solve_columns(w, (n, columns), b, x, lambda by, rows: known.solve(by, rows, turned == "T"))
    return w.text()


def small_invert_by_lu(letter: str, order: str) -> str:
    """The inverse, from LU factors."""
    n = int(order)
    w = StackRoutine("small_invert_by_lu", letter, ["factors", "pivots"], ["y"])
    by = Vectors(w.r, w.elements.real, n)
    with w.items() as (factors, pivots, y):
        known = _Factors(w, n, factors, pivots)
        rows: list[str] = [by.constants([float(i == j) for j in range(n)]) for i in range(n)]
        known.solve(by, rows, transposed=False)
        for i, row in enumerate(rows):
            by.store(w.element(y, i * n), row)
    return w.text()


def small_solve_triangle(letter: str, triangle: str, diagonal: str, order: str, width: str) -> str:
    """The solutions of systems with a "lower" or "upper" triangle, whose diagonal may be "unit"."""
    n, columns = int(order), int(width)
    w = StackRoutine("small_solve_triangle", letter, ["a", "b"], ["x"])
    rounds, unit = range(n) if triangle == "lower" else range(n)[::-1], diagonal == "unit"
    with w.items() as (a, b, x):
        # Unused elements are not loaded in the end.
        matrix = [[w.load(w.element(a, i * n + j))[0] for j in range(n)] for i in range(n)]
        if not unit:
            for i in range(n):
                w.fail_if(w.is_zero([matrix[i][i]], or_nan=False))
        solve = partial(_substitute, matrix=matrix, order=rounds, unit=unit)
        _solve_columns(w, (n, columns), b, x, solve)
    return w.text()


def small_factor_symmetric(letter: str, order: str) -> str:
    """The lower factor of the symmetric part."""
    n = int(order)
    w = StackRoutine("small_factor_symmetric", letter, ["x"], ["y"])
    r, by = w.r, Vectors(w.r, w.elements.real, 1)
    with w.items() as (x, y):
        of = [[w.load(w.element(x, i * n + j))[0] for j in range(n)] for i in range(n)]
        factor: list[list[str]] = [["0.0"] * n for _ in range(n)]
        for j in range(n):
            for i in range(j, n):
                value: str = r.op("fmul", r.op("fadd", of[i][j], of[j][i]), "5.0e-01")
                for k in range(j):
                    value = _less(by, value, factor[i][k], factor[j][k])
                if i > j:
                    factor[i][j] = r.op("fdiv", value, factor[j][j])
                    continue
                # Also if it is NaN.
                w.fail_if(r.negated(r.compare("ogt", value, "0.0")))
                factor[i][i] = r.intrinsic("sqrt", value)
        for i in range(n):
            for j in range(n):
                w.store(w.element(y, i * n + j), [factor[i][j]])
    return w.text()


def product(real: str, n: int) -> Routine:
    """The function `product`: the product of two matrices of order n."""
    r = Routine("internal void @product(ptr %a, ptr %b, ptr %to) nounwind")
    by = Vectors(r, real, n)
    rows = _rows(by, "%b", n)
    for i in range(n):
        total = by.constant(0.0)
        for k, row in enumerate(rows):
            factor = by.load_spread(r.at("%a", (i * n + k) * by.size))
            total = by.add(total, by.multiply(factor, row))
        by.store(r.at("%to", i * by.nbytes), total)
    return r


def quotient(real: str, n: int) -> Routine:
    """The function `quotient`: b becomes the solution of a x = b, by elimination with pivots."""
    r = Routine("internal void @quotient(ptr %a, ptr %b) nounwind")
    by = Vectors(r, real, n)
    a, b = (_rows(by, base, n) for base in ("%a", "%b"))
    for k in range(n):
        at = _pivot_row(r, a, k)
        for rows in (a, b):
            _exchange(r, rows, k, at)
        for i in range(k + 1, n):
            factor = r.op("fdiv", r.lane(a[i], k), r.lane(a[k], k))
            a[i], b[i] = _less(by, a[i], factor, a[k]), _less(by, b[i], factor, b[k])
    for i in range(n)[::-1]:
        for k in range(i + 1, n):
            b[i] = _less(by, b[i], r.lane(a[i], k), b[k])
        b[i] = _divided(by, b[i], r.lane(a[i], i))
        by.store(r.at("%b", i * by.nbytes), b[i])
    return r
