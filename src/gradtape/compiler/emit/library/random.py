"""Routines that draw random numbers: Philox4x64-10, and formulas of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.math.vectors import Body, Value, convention
from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects import llvm
from gradtape.ir.math_function import MathFunction, NotLowered
from gradtape.ops.elementwise import exact_draws

WORDS = 4
ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
INCREMENTS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
# Blocks whose words are made at a time, before they are converted by vectors.
AT_ONCE = 64


def draw_numbers(kind: str, dtype: str, rows: str) -> str:
    """Numbers from one position, or rows of numbers from a position each.

    Words: numbers in a row. Items: blocks of four words, or rows.
    """
    of = LibraryRoutine("draw_numbers", 1, 1, ("count",))
    r, count = of.r, of.words["count"]
    position, out = of.operands[0], of.results[0]
    text = _row(kind, dtype)
    if rows == "one":
        r.do("@draw_row", *_row_arguments(position, out, count, "%lo", "%hi", of.scratch))
        return text + of.text()
    blocks = r.let(f"udiv i64 {r.add(count, WORDS - 1)}, {WORDS}")
    size = r.multiply(count, int(dtype[1]))
    with r.loop("%hi", "%lo") as row:
        own = r.at(position, r.multiply(row, 8 * WORDS))
        target = r.at(out, r.multiply(row, size))
        r.do("@draw_row", *_row_arguments(own, target, count, "0", blocks, of.scratch))
    return text + of.text()


def _row_arguments(
    position: str, out: str, count: str, first: str, last: str, buffer: str
) -> list[str]:
    return [
        f"ptr {position}",
        f"ptr {out}",
        f"i64 {count}",
        f"i64 {first}",
        f"i64 {last}",
        f"ptr {buffer}",
    ]


def _row(kind: str, dtype: str) -> str:
    """The function that draws some blocks of a row."""
    element = {"f8": "double", "f4": "float", "u8": "i64"}[dtype]
    lanes = max(2, llvm.host().bits // (8 * int(dtype[1])))
    make, snippets, wide = _maker(kind, element, lanes)
    listed = _row_arguments("%position", "%out", "%count", "%first", "%last", "%buffer")
    r = Routine(f"internal void @draw_row({', '.join(listed)})")
    key = [r.word("%position", 8 * k) for k in range(2)]
    start = [r.word("%position", 8 * k) for k in (2, 3)]
    at = r.variable("i64", "%first")
    with r.repeat() as over:
        block = at.get()
        left = r.subtract("%last", block)
        r.go_if(r.compare("sle", left, 0), over)
        blocks = r.select(r.compare("slt", left, AT_ONCE), left, AT_ONCE)
        with r.loop(blocks) as number:
            words = _philox(r, key, start, r.add(r.add(block, number), 1))
            place = r.at("%buffer", r.multiply(number, 8 * WORDS))
            for k, word in enumerate(words):
                r.put(place, 8 * k, word)
        begin = r.multiply(block, WORDS)
        most, rest = r.multiply(blocks, WORDS), r.subtract("%count", begin)
        elements = r.select(r.compare("slt", rest, most), rest, most)
        _convert(r, element, lanes, wide, make, begin, elements)
        at.set(r.add(block, blocks))
    r.end("ret void")
    return "\n".join([*snippets, *_stores(element, lanes), r.text()])


Maker = Callable[[Routine, Sequence[str]], Sequence[str]]


def _convert(
    r: Routine, element: str, lanes: int, wide: int, make: Maker, begin: str, elements: str
) -> None:
    """Convert the words of the buffer; `wide` vectors at a time."""
    vector, words = llvm.vector(element, lanes), llvm.vector("i64", lanes)
    step = wide * lanes
    steps = r.let(f"udiv i64 {r.add(elements, step - 1)}, {step}")
    with r.loop(steps) as number:
        offset = r.multiply(number, step)
        read = [
            r.let(
                f"load {words}, ptr {r.at('%buffer', r.scaled(r.add(offset, lanes * k)))}, align 8"
            )
            for k in range(wide)
        ]
        for k, found in enumerate(make(r, read)):
            own = r.add(offset, lanes * k)
            place = r.let(f"getelementptr {element}, ptr %out, i64 {r.add(begin, own)}")
            mask = _first_lanes(r, lanes, r.subtract(elements, own))
            r.do(
                f"@llvm.masked.store.v{lanes}{_short(element)}.p0",
                f"{vector} {found}",
                f"ptr {place}",
                "i32 1",
                f"<{lanes} x i1> {mask}",
            )


def _first_lanes(r: Routine, lanes: int, count: str) -> str:
    kind = llvm.vector("i64", lanes)
    start = r.let(f"insertelement {kind} poison, i64 {count}, i32 0")
    every = r.let(f"shufflevector {kind} {start}, {kind} poison, <{lanes} x i32> zeroinitializer")
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
    return r.let(f"icmp sgt {kind} {every}, <{numbers}>")


def _short(element: str) -> str:
    return {"double": "f64", "float": "f32"}.get(element, element)


def _stores(element: str, lanes: int) -> list[str]:
    vector = llvm.vector(element, lanes)
    name = f"llvm.masked.store.v{lanes}{_short(element)}.p0"
    return [f"declare void @{name}({vector}, ptr, i32, <{lanes} x i1>)"]


def _philox(r: Routine, key: Sequence[str], start: Sequence[str], block: str) -> list[str]:
    """The words of the block at a position plus a number, in the order of NumPy's generator."""
    low = r.add(start[0], block)
    carry = r.let(f"zext i1 {r.compare('ult', low, start[0])} to i64")
    high = r.add(start[1], carry)
    more = r.let(f"zext i1 {r.compare('ult', high, start[1])} to i64")
    counter, keys = [low, high, more, "0"], list(key)
    for number in range(ROUNDS):
        if number:
            keys = [r.add(k, _signed(step)) for k, step in zip(keys, INCREMENTS, strict=True)]
        parts = [_product(r, factor, counter[2 * k]) for k, factor in enumerate(MULTIPLIERS)]
        (high0, low0), (high1, low1) = parts
        counter = [
            r.let(f"xor i64 {r.let(f'xor i64 {high1}, {counter[1]}')}, {keys[0]}"),
            low1,
            r.let(f"xor i64 {r.let(f'xor i64 {high0}, {counter[3]}')}, {keys[1]}"),
            low0,
        ]
    return counter


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _product(r: Routine, factor: int, x: str) -> tuple[str, str]:
    """The upper and the lower word of a product."""
    wide = r.let(f"mul i128 {r.let(f'zext i64 {x} to i128')}, {factor}")
    upper = r.let(f"trunc i128 {r.let(f'lshr i128 {wide}, 64')} to i64")
    return upper, r.let(f"trunc i128 {wide} to i64")


def _maker(kind: str, element: str, lanes: int) -> tuple[Maker, Sequence[str], int]:
    """How vectors of words become vectors of numbers, what that needs, and how many at a time."""
    if kind == "bits":
        return lambda r, words: words, (), 1
    body = Body(element, lanes, _no_function)
    vector = body.type()
    result: tuple[Value, ...]
    if kind == "exponential":
        result = exact_draws.exponential(body, body.operand("x0"))
    else:
        result = exact_draws.normal_pair(body, body.operand("x0"), body.operand("x1"))
    names = [f"x{k}" for k in range(len(result))]
    symbol, snippets = body.function(kind, names, result, "noinline nounwind")
    called = f"{convention(symbol)}"

    def exponential(r: Routine, words: Sequence[str]) -> Sequence[str]:
        uniform = _uniform(r, element, lanes, words[0])
        return [r.let(f"call {called}{vector} @{symbol}({vector} {uniform})")]

    def normal(r: Routine, words: Sequence[str]) -> Sequence[str]:
        wide = llvm.vector("i64", lanes)
        pairs = [
            r.let(
                f"shufflevector {wide} {words[0]}, {wide} {words[1]}, "
                + _order(list(range(odd, 2 * lanes, 2)))
            )
            for odd in range(2)
        ]
        given = ", ".join(f"{vector} {_uniform(r, element, lanes, each)}" for each in pairs)
        both = f"{{{vector}, {vector}}}"
        found = r.let(f"call {called}{both} @{symbol}({given})")
        x, y = (r.let(f"extractvalue {both} {found}, {k}") for k in range(2))
        mixed = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
        return [
            r.let(f"shufflevector {vector} {x}, {vector} {y}, {_order(part)}")
            for part in (mixed[:lanes], mixed[lanes:])
        ]

    return (exponential, snippets, 1) if kind == "exponential" else (normal, snippets, 2)


def _no_function(function: MathFunction, ty: str, lanes: int) -> llvm.Found:
    raise NotLowered(f"{function.name} is not rounded exactly")


def _order(lanes: Sequence[int]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"


def _uniform(r: Routine, element: str, lanes: int, words: str) -> str:
    """Numbers in [0, 1) from the leading bits of words."""
    kept = 53 if element == "double" else 24
    wide, vector = llvm.vector("i64", lanes), llvm.vector(element, lanes)
    count = "<" + ", ".join([f"i64 {64 - kept}"] * lanes) + ">"
    found = r.let(f"lshr {wide} {words}, {count}")
    if element == "float":
        narrow = llvm.vector("i32", lanes)
        found = r.let(f"trunc {wide} {found} to {narrow}")
        wide = narrow
    found = r.let(f"sitofp {wide} {found} to {vector}")
    scale = "<" + ", ".join([f"{element} {llvm.real_text(2.0**-kept, element)}"] * lanes) + ">"
    return r.let(f"fmul {vector} {found}, {scale}")
