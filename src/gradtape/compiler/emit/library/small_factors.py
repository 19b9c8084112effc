"""Factorisations of stacks of small real matrices, without loops and without a library.

A call of LAPACK takes a microsecond, and the arithmetic of a 4×4 system a few dozen nanoseconds.
Rows are vectors of LLVM; pivots are chosen as LAPACK chooses them, and rows are exchanged by
`select`, so that a matrix is singular here exactly if it is for LAPACK, but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.library.stack_routine import StackRoutine

# Columns of a right-hand side that are one vector.
_LANES = 8


class _Rows:
    """Arithmetic with vectors of so many lanes."""

    def __init__(self, w: StackRoutine, lanes: int) -> None:
        self.w, self.r, self.lanes = w, w.r, lanes
        self.real = w.elements.real
        self.kind = self.real if lanes == 1 else f"<{lanes} x {self.real}>"

    def load(self, place: str) -> str:
        return self.r.let(f"load {self.kind}, ptr {place}, align {self.w.elements.nbytes}")

    def store(self, place: str, vector: str) -> None:
        self.r.line(f"store {self.kind} {vector}, ptr {place}, align {self.w.elements.nbytes}")

    def spread(self, number: str) -> str:
        """A vector with the same number in each lane."""
        if self.lanes == 1:
            return number
        first = self.r.let(f"insertelement {self.kind} poison, {self.real} {number}, i32 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.r.let(f"shufflevector {self.kind} {first}, {self.kind} poison, {zeros}")

    def lane(self, vector: str, number: int) -> str:
        if self.lanes == 1:
            return vector
        return self.r.let(f"extractelement {self.kind} {vector}, i32 {number}")

    def less(self, x: str, factor: str, y: str) -> str:
        """x less a number times y."""
        product = self.r.let(f"fmul contract {self.kind} {self.spread(factor)}, {y}")
        return self.r.let(f"fsub contract {self.kind} {x}, {product}")

    def divided(self, x: str, number: str) -> str:
        return self.r.let(f"fdiv {self.kind} {x}, {self.spread(number)}")

    def exchange(self, rows: list[str], at: int, other: str) -> None:
        """Exchange a row and a later one, whose number is a word."""
        old = new = rows[at]
        for j in range(at + 1, len(rows)):
            same = self.r.equal(other, j)
            new = self.r.select(same, rows[j], new, self.kind)
            rows[j] = self.r.select(same, old, rows[j], self.kind)
        rows[at] = new


def small_factor_lu(letter: str, order: str) -> str:
    """LU factors in column-major memory, and pivots, which count from 1."""
    n = int(order)
    w = StackRoutine("small_factor_lu", letter, ["x"], ["factors", "pivots"])
    r, by, real = w.r, _Rows(w, n), w.elements.real
    absolute = _fabs(w)
    with w.items() as (x, factors, pivots):
        rows = [by.load(w.element(x, i * n)) for i in range(n)]
        for k in range(n):
            column = [by.lane(rows[i], k) for i in range(k, n)]
            best, at = r.call(real, absolute, f"{real} {column[0]}"), str(k)
            for i in range(k + 1, n):
                size = r.call(real, absolute, f"{real} {column[i - k]}")
                larger = r.let(f"fcmp ogt {real} {size}, {best}")
                best = r.select(larger, size, best, real)
                at = r.select(larger, i, at)
            r.put(pivots, 8 * k, r.add(at, 1))
            by.exchange(rows, k, at)
            _eliminate(by, rows, k)
        for i in range(n):
            for j in range(n):
                w.store(w.element(factors, j * n + i), [by.lane(rows[i], j)])
    return w.text()


def _eliminate(by: _Rows, rows: list[str], k: int) -> None:
    """Subtract multiples of row k from later ones, and put the factors into column k."""
    if k + 1 == len(rows):
        return
    r, n = by.r, by.lanes
    pivot = by.lane(rows[k], k)
    zero = r.let(f"fcmp oeq {by.real} {pivot}, 0.0")
    # A column whose largest element is 0 has nothing to eliminate.
    pivot = r.select(zero, "1.0", pivot, by.real)
    later = ", ".join(f"i1 {int(lane > k)}" for lane in range(n))
    rest = r.let(f"select <{n} x i1> <{later}>, {by.kind} {rows[k]}, {by.kind} zeroinitializer")
    for i in range(k + 1, n):
        factor = r.let(f"fdiv {by.real} {by.lane(rows[i], k)}, {pivot}")
        row = by.less(rows[i], factor, rest)
        rows[i] = r.let(f"insertelement {by.kind} {row}, {by.real} {factor}, i32 {k}")


def _fabs(w: StackRoutine) -> str:
    real = w.elements.real
    name = f"llvm.fabs.f{8 * w.elements.nbytes}"
    return w.function(name, f"{real} @{name}({real})")


class _Factors:
    """The elements of LU factors, and the exchanges of rows."""

    def __init__(self, w: StackRoutine, n: int, factors: str, pivots: str) -> None:
        self.n = n
        # Column-major.
        self.of = [[w.load(w.element(factors, j * n + i))[0] for j in range(n)] for i in range(n)]
        self.others = [w.r.subtract(w.r.word(pivots, 8 * i), 1) for i in range(n - 1)]
        for i in range(n):
            w.fail_if(w.is_zero([self.of[i][i]], or_nan=True))

    def solve(self, by: _Rows, rows: list[str], transposed: bool) -> None:
        """Replace the rows of a right-hand side by those of the solution."""
        order = range(self.n)
        if transposed:
            turned = list(map(list, zip(*self.of, strict=True)))
            _substitute(by, rows, turned, order, unit=False)
            _substitute(by, rows, turned, order[::-1], unit=True)
            for i in order[-2::-1]:
                by.exchange(rows, i, self.others[i])
            return
        for i in order[:-1]:
            by.exchange(rows, i, self.others[i])
        _substitute(by, rows, self.of, order, unit=True)
        _substitute(by, rows, self.of, order[::-1], unit=False)


def _substitute(
    by: _Rows, rows: list[str], matrix: Sequence[Sequence[str]], order: range, unit: bool
) -> None:
    """Solve with a triangle of a matrix, row by row in this order."""
    for at, i in enumerate(order):
        for j in order[:at]:
            rows[i] = by.less(rows[i], matrix[i][j], rows[j])
        if not unit:
            rows[i] = by.divided(rows[i], matrix[i][i])


def _blocks(columns: int) -> list[tuple[int, int]]:
    """The first column of each vector, and its lanes."""
    return [(first, min(_LANES, columns - first)) for first in range(0, columns, _LANES)]


def small_solve_by_lu(letter: str, turned: str, order: str, width: str) -> str:
    """The solutions of systems from LU factors, of the matrix or ("T") its transpose."""
    n, columns = int(order), int(width)
    w = StackRoutine("small_solve_by_lu", letter, ["factors", "pivots", "b"], ["x"])
    with w.items() as (factors, pivots, b, x):
        known = _Factors(w, n, factors, pivots)
        for first, lanes in _blocks(columns):
            by = _Rows(w, lanes)
            rows = [by.load(w.element(b, i * columns + first)) for i in range(n)]
            known.solve(by, rows, turned == "T")
            for i, row in enumerate(rows):
                by.store(w.element(x, i * columns + first), row)
    return w.text()


def small_invert_by_lu(letter: str, order: str) -> str:
    """The inverse, from LU factors."""
    n = int(order)
    w = StackRoutine("small_invert_by_lu", letter, ["factors", "pivots"], ["y"])
    by = _Rows(w, n)

    def unit(i: int) -> str:
        lanes = ", ".join(f"{by.real} {float(i == j)}" for j in range(n))
        return f"<{lanes}>" if n > 1 else "1.0"

    with w.items() as (factors, pivots, y):
        known = _Factors(w, n, factors, pivots)
        rows = [unit(i) for i in range(n)]
        known.solve(by, rows, transposed=False)
        for i, row in enumerate(rows):
            by.store(w.element(y, i * n), row)
    return w.text()


def small_solve_triangle(letter: str, triangle: str, diagonal: str, order: str, width: str) -> str:
    """The solutions of systems with a "lower" or "upper" triangle, whose diagonal may be "unit"."""
    n, columns = int(order), int(width)
    w = StackRoutine("small_solve_triangle", letter, ["a", "b"], ["x"])
    rounds = range(n) if triangle == "lower" else range(n)[::-1]
    with w.items() as (a, b, x):
        # Unused elements are not loaded in the end.
        matrix = [[w.load(w.element(a, i * n + j))[0] for j in range(n)] for i in range(n)]
        if diagonal != "unit":
            for i in range(n):
                w.fail_if(w.is_zero([matrix[i][i]], or_nan=False))
        for first, lanes in _blocks(columns):
            by = _Rows(w, lanes)
            rows = [by.load(w.element(b, i * columns + first)) for i in range(n)]
            _substitute(by, rows, matrix, rounds, unit=diagonal == "unit")
            for i, row in enumerate(rows):
                by.store(w.element(x, i * columns + first), row)
    return w.text()


def small_factor_symmetric(letter: str, order: str) -> str:
    """The lower factor of the symmetric part."""
    n = int(order)
    w = StackRoutine("small_factor_symmetric", letter, ["x"], ["y"])
    r, by, real = w.r, _Rows(w, 1), w.elements.real
    name = f"llvm.sqrt.f{8 * w.elements.nbytes}"
    root = w.function(name, f"{real} @{name}({real})")
    with w.items() as (x, y):
        of = [[w.load(w.element(x, i * n + j))[0] for j in range(n)] for i in range(n)]
        factor: list[list[str]] = [["0.0"] * n for _ in range(n)]
        for j in range(n):
            for i in range(j, n):
                total = r.let(f"fadd {real} {of[i][j]}, {of[j][i]}")
                value: str = r.let(f"fmul {real} {total}, 5.0e-01")
                for k in range(j):
                    value = by.less(value, factor[i][k], factor[j][k])
                if i > j:
                    factor[i][j] = r.let(f"fdiv {real} {value}, {factor[j][j]}")
                    continue
                # Also if it is NaN.
                w.fail_if(r.negated(r.let(f"fcmp ogt {real} {value}, 0.0")))
                factor[i][i] = r.call(real, root, f"{real} {value}")
        for i in range(n):
            for j in range(n):
                w.store(w.element(y, i * n + j), [factor[i][j]])
    return w.text()
