"""Discrete Fourier transforms of rows. `ops/matrices/fourier_plans.py` has their steps and tables.

Between passes a complex number of each lane is a block: a vector of real parts, and one of
imaginary parts behind it. An inverse transform exchanges real and imaginary parts before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gradtape.compiler.emit.library.butterflies import Complex, Vectors
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.writer import Routine, Typed, Word
from gradtape.compiler.objects import llvm
from gradtape.config import FEWEST_FFT_LANES
from gradtape.ops.matrices.fourier_plans import FourierPlan, RowPlan, area

# The arguments of a pass and of a transform.
_PASS = ("ptr %x", "ptr %y", "ptr %table", "i64 %rest", "i64 %stride")
_TRANSFORM = ("ptr %from", "ptr %to", "ptr %table", "ptr %work", "i1 %swap")


def transform_rows(kind: str, direction: str, real: str, length: str) -> str:
    """Rows of transforms: "complex" ones, or real signals "to_half" spectra and "from_half" ones.

    Operands: the rows and the table. Words: the bits of the factor, as a double. Items: rows.
    """
    rows = RowPlan(kind, int(length))
    w = LibraryRoutine("transform_rows", 2, 1, ("scale",))
    r, core, texts = w.r, rows.core, _Texts(real)
    size, n = texts.size, rows.length
    texts.add_transform("transform", core)
    scale = r.cast("bitcast", w.words["scale"], "double")
    scale = scale if real == "double" else r.cast("fptrunc", scale, "float")
    swap = "true" if direction == "inverse" else "false"
    x, table = w.operands
    half = n // 2 + 1
    points = {"complex": (2 * n, 2 * n), "to_half": (n, 2 * half), "from_half": (2 * half, n)}[kind]
    first = w.scratch
    second = r.at(first, area(core.length, size))
    areas = {"complex": 0}.get(kind, 1 if rows.is_halved else 2)
    work = r.at(w.scratch, areas * area(core.length, size))
    roots = r.at(table, 2 * core.length * size if rows.is_halved else 0)

    def transform(source: str, target: str) -> None:
        r.do("@transform", source, target, roots, work, swap, scale)

    with r.loop("%hi", "%lo") as row:
        source = r.at(x, r.multiply(row, points[0] * size))
        target = r.at(w.results[0], r.multiply(row, points[1] * size))
        if kind == "complex":
            transform(source, target)
        elif rows.is_halved and kind == "to_half":
            transform(source, first)
            texts.call(r, _unfold, core.length, first, target, table)
        elif rows.is_halved:
            texts.call(r, _fold, core.length, source, first, table)
            transform(first, target)
        elif kind == "to_half":
            texts.call(r, _widen, n, source, first, table)
            transform(first, second)
            r.copy(target, second, 2 * half * size)
        else:
            texts.call(r, _mirror, n, source, first, table)
            transform(first, second)
            texts.call(r, _narrow, n, second, target, table)
    w.functions = texts.functions
    return w.text()


# Writes the lines of a routine.
WriteLines = Callable[[Routine], None]


class _Texts:
    """The functions of a module beside its routine, each written once."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.size = 4 if real == "float" else 8
        self.functions: dict[str, Routine | str] = {}

    def widest(self, lanes: int) -> int:
        """The lanes of a vector of the machine, at most `lanes`."""
        return min(lanes, llvm.host().bits // (8 * self.size))

    def add(self, name: str, arguments: tuple[str, ...], write: WriteLines) -> None:
        """Write a function, unless there is one of this name."""
        if name not in self.functions:
            attributes = llvm.aligned_stack(llvm.host().bits // 8)
            r = Routine(f"internal void @{name}({', '.join(arguments)}) nounwind {attributes}")
            write(r)
            self.functions[name] = r

    def call(
        self, r: Routine, write: Callable[[Vectors, int], None], length: int, *places: str
    ) -> None:
        """Call a function of a source, a target and a table, for a signal of some length."""
        name = write.__name__.removeprefix("_")
        arguments = ("ptr %from", "ptr %to", "ptr %table")
        self.add(name, arguments, lambda r: write(Vectors(r, self.real, self.widest(8)), length))
        r.do(f"@{name}", *places)

    def add_transform(self, name: str, plan: FourierPlan) -> None:
        """The complex transform of a row; the result is multiplied by a factor."""
        if plan.convolution:
            self.add_transform("inner", plan.inner)
        write = _convolved if plan.convolution else _transformed
        arguments = (*_TRANSFORM, f"{self.real} %scale")
        self.add(name, arguments, lambda r: write(self, r, plan))


# Transforms of smooth lengths.


def _transformed(texts: _Texts, r: Routine, plan: FourierPlan) -> None:
    """The passes of a plan, from the table's first numbers on, and the combination of lanes."""
    real, size, lanes = texts.real, texts.size, texts.widest(plan.lanes)
    by = Vectors(r, real, lanes)
    here, there = "%work", r.at("%work", area(plan.length, size))
    with r.loop(plan.length // lanes) as index:
        offset = r.multiply(index, 2 * by.nbytes)
        value = by.load_pairs(r.at("%from", offset))
        by.store_block(r.at(here, offset), by.swapped(value, "%swap"))
    used, stride = 0, plan.lanes // lanes
    for radix, rest in plan.passes():
        # Neighbours are transformed beside each other where parts are not.
        wide = _narrower(texts.widest(8), stride) if plan.lanes == 1 else 1
        name = f"pass{radix}of{lanes}by{wide}"
        texts.add(name, _PASS, _pass(Vectors(r, real, lanes), radix, wide))
        r.do(f"@{name}", here, there, r.at("%table", used * size), rest, stride)
        used += 2 * (radix - 1) * rest
        stride *= radix
        here, there = there, here
    _combine(by, plan, here, r.at("%table", used * size))


def _narrower(lanes: int, count: int) -> int:
    """The lanes of a vector that has at most `count` numbers."""
    while lanes > count:
        lanes //= 2
    return lanes if lanes >= FEWEST_FFT_LANES else 1


def _pass(like: Vectors, radix: int, wide: int) -> WriteLines:
    """One of Stockham's passes: butterflies of numbers that are `rest` strides apart.

    The results of each are neighbours. All but those of the first are multiplied by roots. Blocks
    of one lane are taken as vectors of `wide` neighbours.
    """

    def write(r: Routine) -> None:
        by = Vectors(r, like.real, max(like.lanes, wide))
        block = 2 * like.nbytes
        near = r.multiply("%stride", block)
        far = r.multiply(near, "%rest")
        sources = [r.multiply(far, k) for k in range(radix)]
        targets = [r.multiply(near, k) for k in range(radix)]
        steps, last = "%stride", r.subtract("%stride", wide)
        if wide > 1:
            steps = r.blocks("%stride", wide)

        def butterflies(source: str, target: str, factors: Sequence[Complex]) -> None:
            with r.loop(steps) as index:
                if wide > 1:
                    # The last vector may overlap the one before it.
                    index = r.multiply(index, wide)
                    index = r.least(index, last)
                offset = r.multiply(index, block)
                x, y = r.at(source, offset), r.at(target, offset)
                places = [r.at(x, each) for each in sources]
                found = by.butterfly([_load(by, wide, place) for place in places])
                for k, value in enumerate(found):
                    product = by.product(value, factors[k - 1]) if k and factors else value
                    _store(by, wide, r.at(y, targets[k]), product)

        butterflies("%x", "%y", [])
        with r.loop("%rest", 1) as index:
            table = r.at("%table", r.multiply(index, 2 * (radix - 1) * by.size))
            places = [r.at(table, 2 * k * by.size) for k in range(radix - 1)]
            factors = [(by.load_spread(at), by.load_spread(r.at(at, by.size))) for at in places]
            source = r.at("%x", r.multiply(index, near))
            target = r.at("%y", r.multiply(r.multiply(index, near), radix))
            butterflies(source, target, factors)

    return write


def _load(by: Vectors, wide: int, place: str) -> Complex:
    return by.load_block(place) if wide == 1 else by.load_pairs(place)


def _store(by: Vectors, wide: int, place: str, value: Complex) -> None:
    by.store_block(place, value) if wide == 1 else by.store_pairs(place, value)


def _combine(by: Vectors, plan: FourierPlan, source: str, table: str) -> None:
    """The transform of the lanes, for each frequency of the parts; results are in order."""
    r, groups = by.r, plan.lanes // by.lanes
    scale = by.spread("%scale")
    row = plan.part * by.size

    def frequencies(by: Vectors, first: Word) -> None:
        values: list[Complex] = []
        for group in range(groups):
            blocks = []
            for k in range(by.lanes):
                index = r.add(r.multiply(r.add(first, k), groups), group)
                blocks.append(by.load_block(r.at(source, r.multiply(index, 2 * by.nbytes))))
            parts = [r.transposed([block[part] for block in blocks]) for part in (0, 1)]
            values += zip(*parts, strict=True)
        offset = r.multiply(first, by.size)
        for lane in range(1, plan.lanes):
            at = r.at(r.at(table, 2 * (lane - 1) * row), offset)
            factor = by.load(at), by.load(r.at(at, row))
            values[lane] = by.product(values[lane], factor)
        for k, value in enumerate(by.butterfly(values)):
            place = r.at(r.at("%to", 2 * k * row), r.multiply(first, 2 * by.size))
            by.store_pairs(place, by.swapped(by.scaled(value, scale), "%swap"))

    _in_blocks(by, 0, plan.part, frequencies)


def _in_blocks(by: Vectors, start: int, stop: int, write: Callable[[Vectors, Word], None]) -> None:
    """Lines for all numbers of a range, a vector at a time.

    The last vector may overlap the one before it: what is written does not depend on the result.
    """
    r, lanes = by.r, by.lanes
    if stop - start < lanes:
        by, lanes = Vectors(r, by.real, 1), 1
    whole, rest = divmod(stop - start, lanes)
    with r.loop(whole) as index:
        write(by, r.add(r.multiply(index, lanes), start))
    if rest:
        write(by, stop - lanes)


# Transforms of other lengths.


def _convolved(texts: _Texts, r: Routine, plan: FourierPlan) -> None:
    """Bluestein's algorithm: factors, a convolution with their conjugates, and factors again."""
    real, size, n, longer = texts.real, texts.size, plan.length, plan.convolution
    first = "%work"
    second = r.at(first, area(longer, size))
    work = r.at(second, area(longer, size))
    spectrum = r.at("%table", 2 * n * size)
    roots = r.at(spectrum, 2 * longer * size)

    def inner(swap: str, scale: str) -> None:
        r.do("@inner", first, second, roots, work, swap, scale)

    def multiply(count: int, before: str, after: str, *places: str) -> None:
        name = f"multiply{count}"
        arguments = ("ptr %from", "ptr %to", "ptr %table", "i1 %before", "i1 %after")
        by = partial(Vectors, real=real, lanes=texts.widest(8))
        texts.add(name, arguments, lambda r: _multiplied(by(r), count))
        r.do(f"@{name}", *places, before, after)

    multiply(n, "%swap", "false", "%from", first, "%table")
    r.fill(r.at(first, 2 * n * size), 2 * (longer - n) * size)
    inner("false", Typed("1.0", real))
    multiply(longer, "false", "false", second, first, spectrum)
    inner("true", "%scale")
    multiply(n, "false", "%swap", second, "%to", "%table")


def _multiplied(by: Vectors, count: int) -> None:
    """The products of complex numbers."""

    def some(by: Vectors, first: Word) -> None:
        x, factor, y = _places(by, first, "%from", "%table", "%to")
        value = by.swapped(by.load_pairs(x), "%before")
        value = by.product(value, by.load_pairs(factor))
        by.store_pairs(y, by.swapped(value, "%after"))

    _in_blocks(by, 0, count, some)


def _places(by: Vectors, index: Word, *bases: str) -> list[str]:
    """The address of a complex number in each array."""
    offset = by.r.multiply(index, 2 * by.size)
    return [by.r.at(base, offset) for base in bases]


def _halves(by: Vectors, first: Word, half: int) -> tuple[Complex, Complex, Complex, str]:
    """Sum and difference of numbers and of the conjugates opposite to them; roots; the target."""
    x, root, y = _places(by, first, "%from", "%table", "%to")
    (other,) = _places(by, by.r.subtract(half - by.lanes + 1, first), "%from")
    value, mirror = by.load_pairs(x), by.conjugate(by.load_pairs(other, backwards=True))
    return by.sum(value, mirror), by.difference(value, mirror), by.load_pairs(root), y


# Real signals of even length.


def _unfold(by: Vectors, half: int) -> None:
    """From a transform of pairs of real numbers to that of the numbers."""

    def some(by: Vectors, first: Word) -> None:
        even, apart, root, y = _halves(by, first, half)
        odd = by.product(by.turned(apart), root)
        by.store_pairs(y, by.scaled(by.sum(even, odd), by.constant(0.5)))

    single = Vectors(by.r, by.real, 1)
    even, odd = single.load_block("%from")
    single.store_block("%to", (single.add(even, odd), single.constant(0.0)))
    last = by.r.at("%to", 2 * half * by.size)
    single.store_block(last, (single.subtract(even, odd), single.constant(0.0)))
    _in_blocks(by, 1, half, some)


def _fold(by: Vectors, half: int) -> None:
    """The reverse: a spectrum whose inverse transform has pairs of real numbers.

    As in NumPy, the imaginary parts of the first and last frequency are ignored.
    """

    def some(by: Vectors, first: Word) -> None:
        even, apart, root, y = _halves(by, first, half)
        odd = by.product(apart, by.conjugate(root))
        # i times the odd part: -i times it, subtracted.
        by.store_pairs(y, by.difference(even, by.turned(odd)))

    single = Vectors(by.r, by.real, 1)
    x, last = single.load("%from"), single.load(by.r.at("%from", 2 * half * by.size))
    single.store_block("%to", (single.add(x, last), single.subtract(x, last)))
    _in_blocks(by, 1, half, some)


# Real signals of odd length are complex ones.


def _widen(by: Vectors, count: int) -> None:
    """Real numbers as complex ones."""

    def some(by: Vectors, first: Word) -> None:
        value = by.load(by.r.item(by.real, "%from", first))
        (place,) = _places(by, first, "%to")
        by.store_pairs(place, (value, by.constant(0.0)))

    _in_blocks(by, 0, count, some)


def _narrow(by: Vectors, count: int) -> None:
    """The real parts of complex numbers."""

    def some(by: Vectors, first: Word) -> None:
        (place,) = _places(by, first, "%from")
        by.store(by.r.item(by.real, "%to", first), by.load_pairs(place)[0])

    _in_blocks(by, 0, count, some)


def _mirror(by: Vectors, length: int) -> None:
    """A half spectrum with its other half; the first imaginary part is ignored."""

    def some(by: Vectors, first: Word) -> None:
        x, y = _places(by, first, "%from", "%to")
        (other,) = _places(by, by.r.subtract(length - by.lanes + 1, first), "%to")
        by.store_pairs(y, by.load_pairs(x))
        by.store_pairs(other, by.conjugate(by.load_pairs(x, backwards=True)))

    single = Vectors(by.r, by.real, 1)
    single.store_block("%to", (single.load("%from"), single.constant(0.0)))
    _in_blocks(by, 1, length // 2 + 1, some)
