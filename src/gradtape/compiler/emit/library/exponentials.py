"""Exponentials of stacks of matrices, by scaling, Padé's approximants and squaring.

The degree and the number of squarings are those of Al-Mohy and Higham (2009), with the bound
max(‖A⁴‖^(1/4), ‖A⁶‖^(1/6)) for the size of A, which is well below ‖A‖ for matrices that are far
from normal. Degrees are 7 and 13: lower ones need the same powers. Diagonal and triangular matrices
are treated as SciPy does. All factors of a product are polynomials of one matrix, so their order
does not matter, and BLAS reads rows as columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradtape.compiler.emit.library.lapack_routine import LapackRoutine
from gradtape.compiler.emit.library.matrix_loops import add_matrix_functions
from gradtape.compiler.emit.library.small_factors import product, quotient
from gradtape.compiler.emit.library.stack_routine import StackRoutine
from gradtape.compiler.emit.writer import StackVariable, Typed, Word
from gradtape.compiler.objects import llvm

# The largest sizes at which an approximant is as exact as a float64.
_SIZES = {7: 9.504178996162932e-1, 13: 4.25}
# More squarings than this are left to SciPy.
_MOST_SQUARINGS = 1000
_AREAS = ("a", "second", "fourth", "sixth", "odd", "even", "other", "vectors", "pivots")


def exponentials(letter: str, order: str) -> str:
    """The exponential of each matrix; real ones of a small order need no library.

    Words: the order, and the offsets of scratch areas.
    """
    kind = LapackRoutine if order == "large" else StackRoutine
    w = kind("exponentials", letter, ["x"], ["y"], ["n", *_AREAS])
    _Exponential(w, order).write()
    return w.text()


class _Exponential:
    """The routine while it is written."""

    def __init__(self, w: StackRoutine, order: str) -> None:
        self.w, self.r = w, w.r
        self.n = w.words["n"]
        self.parts, self.real = w.elements.parts, w.elements.real
        # All elements of a matrix, as real numbers.
        self.count = self.r.multiply(self.r.multiply(self.n, self.n), self.parts)
        self.nbytes = self.r.multiply(self.count, w.elements.real_bytes)
        self.areas = {name: self.r.at(w.scratch, w.words[name]) for name in _AREAS}
        add_matrix_functions(w)
        if order != "large":
            w.functions["product"] = product(self.real, int(order))
            w.functions["quotient"] = quotient(self.real, int(order))

    def write(self) -> None:
        r, w = self.r, self.w
        squarings, scale = r.variable("i64", 0), r.variable("double", "1.0")
        upper = r.variable("i1", "true")
        result, other = r.variable("ptr", "null"), r.variable("ptr", "null")
        with w.items() as (x, y):
            end = f"finished{r.fresh()}"
            below, above = (r.call("i1", f"@has_{side}", x, self.n) for side in ("below", "above"))
            with r.when(r.negated(r.either(below, above))):
                self._diagonal(x, y)
                r.go(end)
            r.copy(self.areas["a"], x, self.nbytes)
            self._powers()
            self._choose(squarings, scale, upper)
            self._approximate(upper.get())
            result.set(self.areas["even"])
            other.set(self.areas["other"])
            triangular = r.negated(r.both(below, above))
            with r.when(triangular):
                self._correct(x, result.get(), squarings.get(), below)
            with r.loop(squarings.get()) as index:
                self._multiply(result.get(), result.get(), other.get())
                old = result.get()
                result.set(other.get())
                other.set(old)
                with r.when(triangular):
                    left = r.subtract(r.subtract(squarings.get(), index), 1)
                    self._correct(x, result.get(), left, below)
            r.copy(y, result.get(), self.nbytes)
            with r.when(triangular):
                self._clear(y, below)
            r.block(end)

    # Steps.

    def _powers(self) -> None:
        a, second, fourth, sixth = (self.areas[name] for name in _AREAS[:4])
        self._multiply(a, a, second)
        self._multiply(second, second, fourth)
        self._multiply(fourth, second, sixth)

    def _choose(self, squarings: StackVariable, scale: StackVariable, upper: StackVariable) -> None:
        """Choose the degree and the number of squarings, and divide the matrix and its powers."""
        r = self.r
        fourth, sixth = (self._norm(self.areas[name]) for name in ("fourth", "sixth"))
        fourth = self._call("sqrt", self._call("sqrt", fourth))
        sixth = self._call("cbrt", self._call("sqrt", sixth))
        size = r.select(r.compare("ogt", fourth, sixth), fourth, sixth)
        whole = self._norm(self.areas["a"])
        # Also if one is NaN.
        for each in (fourth, sixth, whole):
            self.w.fail_if(r.negated(r.compare("olt", each, _text(math.inf))))
        squarings.set(0)
        upper.set("true")
        with r.when(r.compare("ole", size, _text(_SIZES[7]))):
            upper.set(r.compare("sgt", self._excess(7, whole, _text(1.0)), 0))
        with r.when(upper.get()):
            wanted = self._rounded_up(self._call("log2", r.op("fdiv", size, _text(_SIZES[13]))))
            factor = self._halvings(wanted)
            total = r.add(wanted, self._excess(13, whole, factor))
            many = r.compare("sgt", total, _MOST_SQUARINGS)
            self.w.fail_if(many)
            total = r.select(many, 0, total)
            squarings.set(total)
            scale.set(self._halvings(total))
            for name, power in zip(_AREAS[:4], (1, 2, 4, 6), strict=True):
                product = scale.get()
                for _ in range(power - 1):
                    product = r.op("fmul", product, scale.get())
                r.do("@scale", self.areas[name], product, self.count)

    def _excess(self, degree: int, whole: str, factor: str) -> str:
        """The squarings that the approximant's error needs beyond those by the size."""
        r, power = self.r, 2 * degree + 1
        given = (self.areas["a"], self.areas["vectors"], factor, self.n, power)
        found = r.call("double", "@power_norm", *given)
        error = 1 / (math.comb(2 * degree, degree) * math.factorial(power))
        unit = 2.0**-53 if self.real == "double" else 2.0**-24
        share = r.op("fdiv", found, r.op("fmul", whole, factor))
        log = self._call("log2", r.op("fmul", share, _text(error / unit)))
        return self._rounded_up(r.op("fdiv", log, _text(2.0 * degree)))

    def _approximate(self, upper: str) -> None:
        """Replace `even` by the approximant: the quotient of even - odd and even + odd."""
        r, areas = self.r, self.areas
        odd, even, other = (areas[name] for name in ("odd", "even", "other"))
        low, high = _coefficients(7), _coefficients(13)

        def number(k: int) -> str:
            return r.select(upper, _text(high[k]), _text(low[k] if k < 8 else 0.0))

        for place in (odd, even):
            r.fill(place, self.nbytes)
        with r.when(upper):
            for place, first in ((odd, 9), (even, 8)):
                r.fill(other, self.nbytes)
                self._combine(other, [number(first + 2 * k) for k in range(3)])
                self._multiply(areas["sixth"], other, place)
        self._combine(odd, [number(k) for k in (3, 5, 7)], number(1))
        self._combine(even, [number(k) for k in (2, 4, 6)], number(0))
        self._multiply(areas["a"], odd, other)
        r.do("@halves", other, even, self.count)
        self._solve(other, even)

    def _combine(self, to: str, factors: Sequence[str], unit: str | None = None) -> None:
        """Add multiples of the powers, and of the unit matrix."""
        r = self.r
        powers = [self.areas[name] for name in ("second", "fourth", "sixth")]
        r.do("@combine", to, *powers, *factors, self.count)
        if unit is not None:
            number = self._narrow(unit)
            with r.loop(self.n) as i:
                place = self._at_diagonal(to, i)
                r.store(r.op("fadd", r.load(self.real, place), number), place)

    # Triangles.

    def _diagonal(self, x: str, y: str) -> None:
        r = self.r
        r.fill(y, self.nbytes)
        with r.loop(self.n) as i:
            self.w.store(self._at_diagonal(y, i), self._exp(self.w.load(self._at_diagonal(x, i))))

    def _correct(self, x: str, y: str, halvings: str, below: str) -> None:
        """The diagonal of a triangle, and the one beside it, by their formulas (Higham 10.42)."""
        r, w = self.r, self.w
        factor = self._narrow(self._halvings(halvings))

        def scaled(place: str) -> list[str]:
            return [r.op("fmul", value, factor) for value in w.load(place)]

        with r.loop(self.n) as i:
            w.store(self._at_diagonal(y, i), self._exp(scaled(self._at_diagonal(x, i))))
        if self.parts == 2:
            # There is no such function as `expm1` of complex numbers.
            return
        with r.loop(r.subtract(self.n, 1)) as i:
            following = r.add(i, 1)
            (first,), (second,) = (scaled(self._at_diagonal(x, k)) for k in (i, following))
            quotient = self._divided_difference(first, second)
            row, column = r.select(below, following, i), r.select(below, i, following)
            index = r.add(r.multiply(row, self.n), column)
            (value,) = scaled(w.element(x, index))
            w.store(w.element(y, index), [r.op("fmul", quotient, value)])

    def _divided_difference(self, first: str, second: str) -> str:
        """(exp b - exp a) / (b - a), or exp a if they are equal."""
        r = self.r
        above = r.compare("ogt", first, second)
        largest, least = r.select(above, first, second), r.select(above, second, first)
        step = r.op("fsub", least, largest)
        ratio = r.op("fdiv", self._math("expm1", step), step)
        ratio = r.select(r.compare("oeq", step, "0.0"), "1.0", ratio)
        return r.op("fmul", self._math("exp", largest), ratio)

    def _clear(self, y: str, below: str) -> None:
        """Write zeros above the diagonal if the matrix has elements below, else below."""
        r, w = self.r, self.w
        with r.loop(self.n) as i, r.loop(i) as j:
            row = r.select(below, j, i)
            column = r.select(below, i, j)
            w.store(w.element(y, r.add(r.multiply(row, self.n), column)), ["0.0"] * self.parts)

    # Arithmetic.

    def _exp(self, x: Sequence[str]) -> list[str]:
        size = self._math("exp", x[0])
        if self.parts == 1:
            return [size]
        turns = [self._math(name, x[1]) for name in ("cos", "sin")]
        return [self.r.op("fmul", size, turn) for turn in turns]

    def _math(self, name: str, x: str) -> str:
        """A function of C of a number of the matrix's precision."""
        return self._call(name + self.w.elements.suffix, x)

    def _call(self, name: str, x: str) -> Typed:
        """A function of C of a number, which gives one of the same type."""
        return self.r.call(self.r.kind(x), f"@{name}", x)

    def _halvings(self, count: str) -> str:
        """2 to the power of a negative word."""
        return self._call("exp2", self.r.cast("sitofp", self.r.subtract(0, count), "double"))

    def _rounded_up(self, x: str) -> str:
        """The next word, which is at least 0 and at most a bit more than there may be squarings."""
        r = self.r
        for compare, limit in (("ogt", 0.0), ("olt", _MOST_SQUARINGS + 1.0)):
            # The logarithm of 0 is -∞, and NaN is 0, too.
            x = r.select(r.compare(compare, x, _text(limit)), x, _text(limit))
        return r.cast("fptosi", self._call("ceil", x), "i64")

    def _narrow(self, x: str) -> str:
        return x if self.real == "double" else self.r.cast("fptrunc", x, "float")

    def _at_diagonal(self, base: str, i: Word) -> str:
        return self.w.element(base, self.r.multiply(i, self.r.add(self.n, 1)))

    # Matrices.

    def _multiply(self, a: str, b: str, to: str) -> None:
        w, n_at = self.w, self.w.places["n"]
        if isinstance(w, LapackRoutine):
            sizes = ("N", "N", n_at, n_at, n_at)
            w.blas("gemm", *sizes, w.one(), a, n_at, b, n_at, w.one("0.0"), to, n_at)
        else:
            self.r.do("@product", a, b, to)

    def _solve(self, a: str, b: str) -> None:
        w, n_at = self.w, self.w.places["n"]
        if isinstance(w, LapackRoutine):
            # Pivots of the transpose would be others: of a triangle of blocks, worse ones.
            left, right = self.areas["second"], self.areas["fourth"]
            w.transpose(a, left, self.n, self.n)
            w.transpose(b, right, self.n, self.n)
            w.lapack("gesv", n_at, n_at, left, n_at, self.areas["pivots"], right, n_at)
            w.transpose(right, b, self.n, self.n)
        else:
            self.r.do("@quotient", a, b)

    def _norm(self, a: str) -> str:
        return self.r.call("double", "@column_norm", a, self.areas["vectors"], self.n)


def _text(value: float) -> Typed:
    return Typed(llvm.real_text(value, "double"), "double")


def _coefficients(degree: int) -> list[float]:
    """The coefficients of the numerator of Padé's approximant, whose last one is 1."""
    return [
        float(math.factorial(2 * degree - k) // (math.factorial(k) * math.factorial(degree - k)))
        for k in range(degree + 1)
    ]
