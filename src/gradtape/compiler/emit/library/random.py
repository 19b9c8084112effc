"""Routines that draw random numbers: Philox4x64-10, and formulas of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.math.vectors import Body, convention
from gradtape.compiler.emit.writer import Routine, every_lane
from gradtape.compiler.objects import llvm
from gradtape.config import RANDOM_BLOCKS_AT_ONCE
from gradtape.ir.math_function import MathFunction, NotLowered
from gradtape.ops.elementwise import exact_draws

WORDS = 4
ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
INCREMENTS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def draw_numbers(kind: str, dtype: str, rows: str) -> str:
    """Numbers from one position, or rows of numbers from a position each.

    Words: numbers in a row. Items: blocks of four words, or rows.
    """
    of = LibraryRoutine("draw_numbers", 1, 1, ("count",))
    r, count = of.r, of.words["count"]
    position, out = of.operands[0], of.results[0]
    of.functions["row"] = _row(kind, dtype)
    if rows == "one":
        r.do("@draw_row", position, out, count, "%lo", "%hi", of.scratch)
        return of.text()
    blocks = r.blocks(count, WORDS)
    size = r.multiply(count, int(dtype[1]))
    with r.loop("%hi", "%lo") as row:
        own = r.at(position, r.multiply(row, 8 * WORDS))
        target = r.at(out, r.multiply(row, size))
        r.do("@draw_row", own, target, count, 0, blocks, of.scratch)
    return of.text()


def _row(kind: str, dtype: str) -> Routine:
    """The function that draws some blocks of a row."""
    element = {"f8": "double", "f4": "float", "u8": "i64"}[dtype]
    lanes = max(2, llvm.host().bits // (8 * int(dtype[1])))
    make, snippets, wide = _maker(kind, element, lanes)
    listed = "ptr %position, ptr %out, i64 %count, i64 %first, i64 %last, ptr %buffer"
    r = Routine(f"internal void @draw_row({listed})")
    r.definitions.update(dict.fromkeys(snippets))
    key = [r.word("%position", 8 * k) for k in range(2)]
    start = [r.word("%position", 8 * k) for k in (2, 3)]
    with r.loop("%last", "%first", RANDOM_BLOCKS_AT_ONCE) as block:
        blocks = r.least(r.subtract("%last", block), RANDOM_BLOCKS_AT_ONCE)
        with r.loop(blocks) as number:
            words = _philox(r, key, start, r.add(r.add(block, number), 1))
            place = r.at("%buffer", r.multiply(number, 8 * WORDS))
            for k, word in enumerate(words):
                r.put(place, 8 * k, word)
        begin = r.multiply(block, WORDS)
        most, rest = r.multiply(blocks, WORDS), r.subtract("%count", begin)
        _convert(r, element, lanes, wide, make, begin, r.least(rest, most))
    return r


Maker = Callable[[Routine, Sequence[str]], Sequence[str]]


def _convert(
    r: Routine, element: str, lanes: int, wide: int, make: Maker, begin: str, elements: str
) -> None:
    """Convert the words of the buffer; `wide` vectors at a time."""
    words = llvm.vector("i64", lanes)
    with r.loop(elements, step=wide * lanes) as offset:
        places = [r.at("%buffer", r.scaled(r.add(offset, lanes * k))) for k in range(wide)]
        for k, found in enumerate(make(r, [r.load(words, place, 8) for place in places])):
            own = r.add(offset, lanes * k)
            mask = r.first_lanes(r.subtract(elements, own), lanes)
            r.store_lanes(found, r.item(element, "%out", r.add(begin, own)), mask)


def _philox(r: Routine, key: Sequence[str], start: Sequence[str], block: str) -> list[str]:
    """The words of the block at a position plus a number, in the order of NumPy's generator."""
    low = r.add(start[0], block)
    high = r.add(start[1], r.cast("zext", r.compare("ult", low, start[0]), "i64"))
    more = r.cast("zext", r.compare("ult", high, start[1]), "i64")
    counter, keys = [low, high, more, "0"], list(key)
    for number in range(ROUNDS):
        if number:
            keys = [r.add(k, _signed(step)) for k, step in zip(keys, INCREMENTS, strict=True)]
        parts = [_product(r, factor, counter[2 * k]) for k, factor in enumerate(MULTIPLIERS)]
        (high0, low0), (high1, low1) = parts
        counter = [
            r.op("xor", r.op("xor", high1, counter[1]), keys[0]),
            low1,
            r.op("xor", r.op("xor", high0, counter[3]), keys[1]),
            low0,
        ]
    return counter


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _product(r: Routine, factor: int, x: str) -> tuple[str, str]:
    """The upper and the lower word of a product."""
    wide = r.multiply(r.cast("zext", x, "i128"), factor)
    return r.cast("trunc", r.op("lshr", wide, 64), "i64"), r.cast("trunc", wide, "i64")


def _maker(kind: str, element: str, lanes: int) -> tuple[Maker, Sequence[str], int]:
    """How vectors of words become vectors of numbers, what that needs, and how many at a time."""
    if kind == "bits":
        return lambda r, words: words, (), 1
    body = Body(element, lanes, _no_function)
    vector = body.type()
    write = exact_draws.exponential if kind == "exponential" else exact_draws.normal_pair
    symbol, snippets = body.function(kind, 1 if kind == "exponential" else 2, write)

    def exponential(r: Routine, words: Sequence[str]) -> Sequence[str]:
        uniform = _uniform(r, element, lanes, words[0])
        return [r.let(f"call {convention(symbol)}{vector} @{symbol}({vector} {uniform})", vector)]

    def normal(r: Routine, words: Sequence[str]) -> Sequence[str]:
        pairs = [r.shuffle(words[0], range(odd, 2 * lanes, 2), words[1]) for odd in range(2)]
        given = ", ".join(f"{vector} {_uniform(r, element, lanes, each)}" for each in pairs)
        both = f"{{{vector}, {vector}}}"
        x, y = r.parts(r.let(f"call {convention(symbol)}{both} @{symbol}({given})", both))
        mixed = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
        return [r.shuffle(x, part, y) for part in (mixed[:lanes], mixed[lanes:])]

    return (exponential, snippets, 1) if kind == "exponential" else (normal, snippets, 2)


def _no_function(function: MathFunction, ty: str, lanes: int) -> llvm.FoundFunction:
    raise NotLowered(f"{function.name} is not rounded exactly")


def _uniform(r: Routine, element: str, lanes: int, words: str) -> str:
    """Numbers in [0, 1) from the leading bits of words."""
    kept = 53 if element == "double" else 24
    found = r.op("lshr", words, every_lane("i64", 64 - kept, lanes))
    if element == "float":
        found = r.cast("trunc", found, llvm.vector("i32", lanes))
    found = r.cast("sitofp", found, llvm.vector(element, lanes))
    scale = llvm.real_text(2.0**-kept, element)
    return r.op("fmul", found, every_lane(element, scale, lanes))
