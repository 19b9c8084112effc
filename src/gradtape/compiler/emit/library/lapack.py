"""Factorisations and decompositions of stacks of matrices, by LAPACK.

`ops/matrices/lapack_calls.py` has the words of each routine, in the order that they have here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gradtape.compiler.emit.library.lapack_routine import LapackRoutine
from gradtape.compiler.emit.library.stack_routine import StackRoutine
from gradtape.compiler.emit.library.triangles import RightDivision
from gradtape.compiler.emit.writer import Typed, Word


def factor_symmetric(letter: str) -> str:
    """The lower factor of the symmetric part."""
    w = LapackRoutine("factor_symmetric", letter, ["x"], ["y"], ["n"])
    r, n, n_at = w.r, w.words["n"], w.places["n"]
    with w.items() as (x, y):
        w.symmetric_part(x, y, n, triangle=True)
        # The lower triangle of rows is the upper one of columns.
        w.lapack("potrf", "U", n_at, y, n_at)
        # Libraries differ on NaN: NumPy's decides.
        with r.loop(n) as i:
            place = w.element(y, r.multiply(i, r.add(n, 1)))
            w.fail_if(r.negated(w.compares("ogt", place)))
    return w.text()


def factor_lu(letter: str) -> str:
    """LU factors in column-major memory, and pivots, which count from 1."""
    w = LapackRoutine("factor_lu", letter, ["x"], ["factors", "pivots"], ["n", "narrow"])
    n, n_at = w.words["n"], w.places["n"]
    with w.items() as (x, factors, pivots):
        w.transpose(x, factors, n, n)
        small = pivots if w.integer == "i64" else w.area("narrow")
        w.lapack("getrf", n_at, n_at, factors, n_at, small, checked=False)
        w.widen_pivots(small, pivots, n)
    return w.text()


def invert_by_lu(letter: str) -> str:
    """The inverse, from LU factors."""
    words = ["n", "length", "inverse", "work", "narrow"]
    w = LapackRoutine("invert_by_lu", letter, ["factors", "pivots"], ["y"], words)
    r, n, n_at = w.r, w.words["n"], w.places["n"]
    inverse, work = w.area("inverse"), w.area("work")
    with w.items() as (factors, pivots, y):
        fail_if_singular(w, factors)
        w.copy(factors, inverse, r.multiply(n, n))
        small = w.narrow_pivots(pivots, w.area("narrow"), n)
        w.lapack("getri", n_at, inverse, n_at, small, work, w.places["length"])
        w.transpose(inverse, y, n, n)
    return w.text()


def determinant_by_lu(letter: str) -> str:
    """Sign and logarithm of the absolute value of the determinant, from LU factors."""
    w = StackRoutine(
        "determinant_by_lu", letter, ["factors", "pivots"], ["phase", "logarithm"], ["n"]
    )
    r, n, real = w.r, w.words["n"], w.elements.real
    start = ["1.0", *["0.0"] * w.elements.parts]
    with w.items() as (factors, pivots, sign, logarithm):
        with r.fold(n, [Typed(each, real) for each in start]) as fold:
            *signs, total = fold.values
            value = w.load(w.element(factors, r.multiply(fold.index, r.add(n, 1))))
            size = _absolute(w, value)
            swapped = r.unequal(r.word(pivots, r.scaled(fold.index)), r.add(fold.index, 1))
            unit = _direction(w, value, size)
            unit = [r.select(swapped, r.negative(each), each) for each in unit]
            log = r.call(real, f"@log{w.elements.suffix}", size)
            fold.values = [*_product(w, signs, unit), r.op("fadd", total, log)]
        *signs, total = fold.values
        w.store(sign, signs)
        r.store(total, logarithm)
        w.fail_if(w.compares("uno", logarithm))
    return w.text()


def _absolute(w: StackRoutine, value: Sequence[str]) -> str:
    if len(value) == 1:
        return w.r.intrinsic("fabs", *value)
    return w.r.call(w.elements.real, f"@hypot{w.elements.suffix}", *value)


def _direction(w: StackRoutine, value: Sequence[str], size: str) -> list[str]:
    """A number divided by its absolute value; 0 for 0."""
    r = w.r
    zero = r.compare("oeq", size, "0.0")
    if len(value) == 1:
        negative = r.compare("olt", value[0], "0.0")
        found = [r.select(negative, "-1.0", "1.0", w.elements.real)]
    else:
        found = [r.op("fdiv", each, size) for each in value]
    return [r.select(zero, "0.0", each) for each in found]


def _product(w: StackRoutine, x: Sequence[str], y: Sequence[str]) -> list[str]:
    op = w.r.op
    if len(x) == 1:
        return [op("fmul", x[0], y[0])]
    real = op("fsub", op("fmul", x[0], y[0]), op("fmul", x[1], y[1]))
    return [real, op("fadd", op("fmul", x[0], y[1]), op("fmul", x[1], y[0]))]


def fail_if_singular(w: LapackRoutine, factors: str) -> None:
    """Stop if the last factor has a 0 on its diagonal, or NaN, on which NumPy decides."""
    r, n = w.r, w.words["n"]
    with r.loop(n) as i:
        value = w.load(w.element(factors, r.multiply(i, r.add(n, 1))))
        w.fail_if(w.is_zero(value, or_nan=True))


class _Systems:
    """Systems with triangular matrices, whose right-hand sides are rows in memory.

    The rows of the solution are the columns of LAPACK's, so that Xᵀ = Bᵀ A⁻ᵀ is computed where it
    lies. `cut` says whether a part of the range is "items" of a stack, "columns" of the right-hand
    side of one matrix, or items with "one" column.
    """

    def __init__(self, w: LapackRoutine, cut: str) -> None:
        self.w, self.cut = w, cut
        r = w.r
        is_strip = cut == "columns"
        self.first: Word = "%lo" if is_strip else 0
        self.count = r.subtract("%hi", "%lo") if is_strip else w.words["columns"]
        self.count_at = w.stored(self.count)
        self.step_at = w.stored(1)
        self._division = RightDivision(w)

    @contextmanager
    def items(self, *names: str) -> Iterator[list[str]]:
        """The addresses of operands and results of each matrix; columns begin with the first."""
        w, r = self.w, self.w.r
        if self.cut != "columns":
            with w.items() as found:
                yield found
            return
        with r.when(r.compare("slt", "%lo", "%hi")):
            *others, b, x = [w.of_item(name, 0) for name in names]
            yield [*others, w.element(b, self.first), w.element(x, self.first)]

    def copy(self, b: str, x: str) -> None:
        """Copy the columns of the right-hand side."""
        w, r, n = self.w, self.w.r, self.w.words["n"]
        if self.cut == "columns":
            with r.loop(n) as i:
                w.copy(self._row(b, i), self._row(x, i), self.count)
        else:
            w.copy(b, x, r.multiply(n, self.count))

    def _row(self, base: str, i: str) -> str:
        return self.w.element(base, self.w.r.multiply(i, self.w.words["columns"]))

    def divide(self, matrix: str, x: str, uplo: str, transposed: bool, unit: bool) -> None:
        """Multiply x by the inverse of a triangle of a column-major matrix, or its transpose's."""
        w, n_at = self.w, self.w.places["n"]
        diagonal = "U" if unit else "N"
        if self.cut == "one":
            turned = "T" if transposed else "N"
            w.blas("trsv", uplo, turned, diagonal, n_at, matrix, n_at, x, self.step_at)
            return
        turned, columns = "N" if transposed else "T", w.places["columns"]
        known = (w.words["n"], matrix, n_at, x, self.count_at, w.words["columns"], columns)
        self._division.write(uplo, turned, diagonal, *known)

    def swap(self, pivots: str, x: str, reverse: bool) -> None:
        """Exchange rows of x as the pivots say."""
        w, r, n = self.w, self.w.r, self.w.words["n"]
        spare = w.area("row")
        with r.loop(n) as index:
            i = r.subtract(r.subtract(n, 1), index) if reverse else index
            other = r.subtract(r.word(pivots, r.scaled(i)), 1)
            with r.when(r.unequal(i, other)):
                rows = self._row(x, i), self._row(x, other)
                for source, target in ((rows[0], spare), (rows[1], rows[0]), (spare, rows[1])):
                    w.copy(source, target, self.count)


def solve_by_lu(letter: str, turned: str, cut: str) -> str:
    """The solutions of systems from LU factors, of the matrix or ("T") its transpose."""
    names = ("factors", "pivots", "b", "x")
    w = LapackRoutine("solve_by_lu", letter, names[:3], names[3:], ["n", "columns", "row"])
    systems = _Systems(w, cut)
    with systems.items(*names) as (factors, pivots, b, x):
        fail_if_singular(w, factors)
        systems.copy(b, x)
        if turned == "T":
            systems.divide(factors, x, "U", transposed=True, unit=False)
            systems.divide(factors, x, "L", transposed=True, unit=True)
            systems.swap(pivots, x, reverse=True)
        else:
            systems.swap(pivots, x, reverse=False)
            systems.divide(factors, x, "L", transposed=False, unit=True)
            systems.divide(factors, x, "U", transposed=False, unit=False)
    return w.text()


def solve_triangle(letter: str, triangle: str, diagonal: str, cut: str) -> str:
    """The solutions of systems with a "lower" or "upper" triangle, whose diagonal may be "unit"."""
    names = ("a", "b", "x")
    w = LapackRoutine("solve_triangle", letter, names[:2], names[2:], ["n", "columns"])
    r, n = w.r, w.words["n"]
    systems = _Systems(w, cut)
    with systems.items(*names) as (a, b, x):
        if diagonal != "unit":
            with r.loop(n) as i:
                value = w.load(w.element(a, r.multiply(i, r.add(n, 1))))
                w.fail_if(w.is_zero(value, or_nan=False))
        systems.copy(b, x)
        # In column-major memory this is the transpose.
        uplo = "U" if triangle == "lower" else "L"
        systems.divide(a, x, uplo, transposed=True, unit=diagonal == "unit")
    return w.text()


def factor_orthogonal(letter: str) -> str:
    """Orthonormal columns, and the upper triangle."""
    words = ["rows", "columns", "short", "inner", "length", "matrix", "scales", "work"]
    w = LapackRoutine("factor_orthogonal", letter, ["x"], ["q", "r"], words)
    r, of, at = w.r, w.words, w.places
    matrix, scales, work = (w.area(name) for name in ("matrix", "scales", "work"))
    generate = "ungqr" if w.elements.is_complex else "orgqr"
    bits, aligned = w.elements.bits, w.elements.real_bytes
    with w.items() as (x, q, upper):
        w.transpose(x, matrix, of["rows"], of["columns"])
        w.lapack("geqrf", at["rows"], at["columns"], matrix, at["rows"], scales, work, at["length"])
        with r.loop(of["inner"]) as i, r.loop(of["columns"]) as j:
            place = w.element(matrix, r.add(r.multiply(j, of["rows"]), i))
            value = r.load(bits, place, aligned)
            above = r.compare("sle", i, j)
            value = r.select(above, value, "0" if bits[0] == "i" else "zeroinitializer")
            target = w.element(upper, r.add(r.multiply(i, of["columns"]), j))
            r.store(value, target, align=aligned)
        sizes = (at["rows"], at["inner"], at["short"])
        w.lapack(generate, *sizes, matrix, at["rows"], scales, work, at["length"])
        w.transpose(matrix, q, of["inner"], of["rows"])
    return w.text()


def decompose_symmetric(letter: str, job: str) -> str:
    """Eigenvalues of the symmetric part, and for the job "V" eigenvectors as columns."""
    names = ["vectors", "work", "more", "numbers"]
    words = ["n", "length", "more length", "numbers length", *names]
    results = ["values", "columns"] if job == "V" else ["values"]
    w = LapackRoutine("decompose_symmetric", letter, ["x"], results, words)
    n, at = w.words["n"], w.places
    vectors, work, more, numbers = (w.area(name) for name in names)
    routine = "heevd" if w.elements.is_complex else "syevd"
    spaces = [work, at["length"]]
    if w.elements.is_complex:
        spaces += [more, at["more length"]]
    spaces += [numbers, at["numbers length"]]
    with w.items() as (x, values, *columns):
        w.symmetric_part(x, vectors, n, triangle=False)
        w.lapack(routine, job, "L", at["n"], vectors, at["n"], values, *spaces)
        _fail_if_any_nan(w, values, n)
        if columns:
            w.transpose(vectors, columns[0], n, n)
    return w.text()


def _fail_if_any_nan(w: LapackRoutine, values: str, count: str) -> None:
    """Libraries differ on NaN: NumPy's decides."""
    with w.r.loop(count) as index:
        place = w.r.at(values, w.r.multiply(index, w.elements.real_bytes))
        w.fail_if(w.compares("uno", place))


def decompose_singular(letter: str, job: str) -> str:
    """Singular values, and for the jobs "S" and "A" left and right vectors."""
    names = ["matrix", "left", "right", "work", "more", "numbers"]
    words = ["rows", "columns", "short", "wide", "high", "length", *names]
    results = ["s"] if job == "N" else ["u", "s", "vh"]
    w = LapackRoutine("decompose_singular", letter, ["x"], results, words)
    of, at = w.words, w.places
    matrix, left, right, work, more, numbers = (w.area(name) for name in names)
    spaces = [work, at["length"], *([more] if w.elements.is_complex else []), numbers]
    with w.items() as (x, *found):
        w.transpose(x, matrix, of["rows"], of["columns"])
        s = found[0] if job == "N" else found[1]
        vectors = (left, at["rows"], right, at["high"])
        w.lapack("gesdd", job, at["rows"], at["columns"], matrix, at["rows"], s, *vectors, *spaces)
        _fail_if_any_nan(w, s, of["short"])
        if job != "N":
            w.transpose(left, found[0], of["wide"], of["rows"])
            w.transpose(right, found[2], of["columns"], of["high"])
    return w.text()
