"""Panels: the factorisation of a few columns of a matrix, as IR functions.

A panel is factored in parts of a few columns. A column of a part is searched for its pivot, divided
by it, and subtracted from the columns on its right in the part, one by one; the columns on the
right of the part are reduced by all its columns in one pass.
"""

from __future__ import annotations

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended
from gradtape.codegen.routine import Routine, Word

# Columns of a panel, and of the parts that a panel is factored in.
WIDTH = 32
_PART = 8
# Pivots below these have no reciprocal, or one that is not exact to the last bits.
_TINY = {"float": "0x3880000000000000", "double": "0x0010000000000000"}
# The parameters of functions that work on a matrix: `%first` is the first column of a panel.
PLACES = "ptr %matrix, ptr %pivots, ptr %panel, i64 %leading, i64 %order, i64 %first"


def panel_bytes(lanes: Lanes, order: int) -> int:
    """Bytes of the copy of a panel: see `factors`."""
    bands = -(-max(order - WIDTH, 0) // lanes.per_vector)
    return (WIDTH * WIDTH + bands * WIDTH * lanes.per_vector) * lanes.size


def panels_ir(lanes: Lanes) -> str:
    """The functions `swap_rows` and `factor`, and what they call."""
    kind, vector, suffix = lanes.kind, lanes.vector, f"f{8 * lanes.size}"
    declarations = [
        f"declare {kind} @llvm.fabs.{suffix}({kind})",
        f"declare {kind} @llvm.fmuladd.{suffix}({kind}, {kind}, {kind})",
        f"declare {vector} @llvm.fmuladd.v{lanes.per_vector}{suffix}({vector}, {vector}, {vector})",
        "declare i64 @llvm.cttz.i64(i64, i1)",
    ]
    written = [
        _swap_rows(lanes), _largest(lanes), _scale(lanes), _subtract(lanes, 1),
        _subtract(lanes, _PART), _pack(lanes), _factor(lanes),
    ]  # fmt: skip
    return "\n".join([*declarations, *written])


def column_at(r: Routine, number: Word) -> str:
    """The address of a column of the matrix, where `PLACES` are the parameters."""
    return r.at("%matrix", r.multiply("%leading", number))


def _swap_rows(lanes: Lanes) -> str:
    """Interchange rows of one column: each of a range with the one that the pivots name."""
    r = ElementRoutine(
        "internal void @swap_rows(ptr %column, ptr %pivots, i64 %from, i64 %to) alwaysinline", lanes
    )
    with r.loop("%to", "%from") as row:
        number = r.let(f"load i32, ptr {r.at('%pivots', r.multiply(row, 4))}")
        here = r.element("%column", row)
        there = r.element("%column", r.let(f"sext i32 {number} to i64"))
        x, y = r.load(here, lanes.kind), r.load(there, lanes.kind)
        r.store(y, here, lanes.kind)
        r.store(x, there, lanes.kind)
    return ended(r)


def _largest(lanes: Lanes) -> str:
    """The first element of the largest magnitude.

    Magnitudes are compared as integers, which have the same order; a NaN is above all numbers.
    """
    r = ElementRoutine("internal i64 @largest(ptr %x, i64 %count)", lanes)
    word = f"i{8 * lanes.size}"
    words = f"<{lanes.per_vector} x {word}>"
    positive = (1 << (8 * lanes.size - 1)) - 1
    masks = {
        word: str(positive),
        words: f"<{', '.join([f'{word} {positive}'] * lanes.per_vector)}>",
    }

    def magnitude(kind: str, first: str, step: str) -> str:
        real = lanes.vector if kind == words else lanes.kind
        return r.let(f"and {kind} {r.load(r.walk('%x', real, first, step), kind)}, {masks[kind]}")

    (_, _, vectors), (_, done, rest) = r.vectors_then_elements("%count")
    with r.fold(vectors, words, ["zeroinitializer"]) as wide:
        found = magnitude(words, "0", wide.index)
        more = r.let(f"icmp sgt {words} {found}, {wide.values[0]}")
        chosen = f"<{lanes.per_vector} x i1> {more}, {words} {found}, {words} {wide.values[0]}"
        wide.values = [r.let(f"select {chosen}")]
    with r.fold(rest, word, ["0"]) as narrow:
        found = magnitude(word, done, narrow.index)
        more = r.compare("sgt", found, narrow.values[0], word)
        narrow.values = [r.select(more, found, narrow.values[0], word)]
    most = narrow.values[0]
    for lane in range(lanes.per_vector):
        other = r.let(f"extractelement {words} {wide.values[0]}, i32 {lane}")
        most = r.select(r.compare("sgt", other, most, word), other, most, word)
    one = r.let(f"insertelement {words} poison, {word} {most}, i32 0")
    zeros = f"<{lanes.per_vector} x i32> zeroinitializer"
    wanted = r.let(f"shufflevector {words} {one}, {words} poison, {zeros}")
    with r.loop(vectors) as step:
        same = r.let(f"icmp eq {words} {magnitude(words, '0', step)}, {wanted}")
        bits = r.let(f"bitcast <{lanes.per_vector} x i1> {same} to i{lanes.per_vector}")
        bits = r.let(f"zext i{lanes.per_vector} {bits} to i64")
        with r.when(r.unequal(bits, 0)):
            inside = r.call("i64", "@llvm.cttz.i64", f"i64 {bits}", "i1 true")
            r.give(r.add(r.multiply(step, lanes.per_vector), inside), "i64")
    with r.loop(rest) as step, r.when(r.compare("eq", magnitude(word, done, step), most, word)):
        r.give(r.add(done, step), "i64")
    r.give("0", "i64")
    return r.text()


def _scale(lanes: Lanes) -> str:
    """Divide a run of elements by a number, which is not zero."""
    r = ElementRoutine(f"internal void @scale(ptr %x, i64 %count, {lanes.kind} %by)", lanes)
    size = r.intrinsic("fabs", lanes.kind, "%by")
    inverse = r.let(f"fdiv {lanes.kind} 1.0, %by")
    walks = r.vectors_then_elements("%count")
    r.go_if(r.let(f"fcmp olt {lanes.kind} {size}, {_TINY[lanes.kind]}"), "exactly")
    for operation, factor in (("fmul", inverse), ("fdiv", "%by")):
        for kind, first, steps in walks:
            other = r.spread(factor, kind)
            with r.loop(steps) as step:
                place = r.walk("%x", kind, first, step)
                r.store(r.let(f"{operation} {kind} {r.load(place, kind)}, {other}"), place, kind)
        if operation == "fmul":
            r.end("ret void")
            r.block("exactly")
    return ended(r)


def _subtract(lanes: Lanes, depth: int) -> str:
    """Subtract from a run of elements some columns, each times one of the elements at `top`."""
    r = ElementRoutine(
        f"internal void @subtract{depth}(ptr %to, ptr %columns, i64 %leading, ptr %top, "
        "i64 %count)",
        lanes,
    )
    factors = [
        r.let(f"fneg {lanes.kind} {r.load(r.element('%top', step), lanes.kind)}")
        for step in range(depth)
    ]
    columns = [r.at("%columns", r.multiply("%leading", step)) for step in range(depth)]
    for kind, first, steps in r.vectors_then_elements("%count"):
        spread = [r.spread(factor, kind) for factor in factors]
        with r.loop(steps) as step:
            place = r.walk("%to", kind, first, step)
            total = r.load(place, kind)
            for column, factor in zip(columns, spread, strict=True):
                value = r.load(r.walk(column, kind, first, step), kind)
                total = r.intrinsic("fmuladd", kind, value, factor, total)
            r.store(total, place, kind)
    return ended(r)


def _pack(lanes: Lanes) -> str:
    """Copy a panel with its sign changed: the square part, and the rows below it in bands."""
    r = ElementRoutine("internal void @pack(ptr %to, ptr %from, i64 %leading, i64 %below)", lanes)
    vector, band_bytes = lanes.vector, WIDTH * lanes.bytes

    def copy(source: str, target: str) -> None:
        r.store(r.let(f"fneg {vector} {r.load(source, vector)}"), target, vector)

    bands = r.let(f"sdiv i64 %below, {lanes.per_vector}")
    rest = r.subtract("%below", r.multiply(bands, lanes.per_vector))
    start = r.at("%to", WIDTH * WIDTH * lanes.size)
    with r.loop(WIDTH) as step:
        column = r.at("%from", r.multiply(step, "%leading"))
        square = r.at("%to", r.multiply(step, WIDTH * lanes.size))
        for part in range(0, WIDTH * lanes.size, lanes.bytes):
            copy(r.at(column, part), r.at(square, part))
        below = r.at(column, WIDTH * lanes.size)
        target = r.at(start, r.multiply(step, lanes.bytes))
        with r.loop(bands) as band:
            source = r.at(below, r.multiply(band, lanes.bytes))
            copy(source, r.at(target, r.multiply(band, band_bytes)))
        with r.when(r.compare("sgt", rest, 0)):
            last = r.at(target, r.multiply(bands, band_bytes))
            r.store("zeroinitializer", last, vector)
            source = r.at(below, r.multiply(bands, lanes.bytes))
            with r.loop(rest) as lane:
                value = r.load(r.element(source, lane), lanes.kind)
                r.store(r.let(f"fneg {lanes.kind} {value}"), r.element(last, lane), lanes.kind)
    return ended(r)


def _factor(lanes: Lanes) -> str:
    """Factor the columns of a panel, all rows from the diagonal on, in parts of a few columns."""
    r = ElementRoutine(f"internal void @factor({PLACES}, i64 %width)", lanes)
    end = r.add("%first", "%width")
    parts = r.let(f"sdiv i64 {r.add('%width', _PART - 1)}, {_PART}")
    with r.loop(parts) as part:
        part_first = r.add("%first", r.multiply(part, _PART))
        beyond = r.add(part_first, _PART)
        part_end = r.select(r.compare("slt", beyond, end), beyond, end)
        with r.loop(part_end, part_first) as row:
            column = column_at(r, row)
            diagonal = r.element(column, row)
            count = r.subtract("%order", row)
            found = r.call("i64", "@largest", f"ptr {diagonal}", f"i64 {count}")
            number = r.let(f"trunc i64 {r.add(row, found)} to i32")
            r.line(f"store i32 {number}, ptr {r.at('%pivots', r.multiply(row, 4))}")
            following = r.add(row, 1)
            with r.when(r.unequal(found, 0)), r.loop(end, "%first") as other:
                here = (f"i64 {row}", f"i64 {following}")
                r.do("@swap_rows", f"ptr {column_at(r, other)}", "ptr %pivots", *here)
            pivot = r.load(diagonal, lanes.kind)
            below, rest = r.element(column, following), r.subtract(count, 1)
            with r.when(r.let(f"fcmp une {lanes.kind} {pivot}, 0.0")):
                r.do("@scale", f"ptr {below}", f"i64 {rest}", f"{lanes.kind} {pivot}")
            with r.loop(part_end, following) as other:
                top = r.element(column_at(r, other), row)
                pointers = (f"ptr {r.at(top, lanes.size)}", f"ptr {below}", "i64 0", f"ptr {top}")
                r.do("@subtract1", *pointers, f"i64 {rest}")
        # A part with fewer columns is the last, so nothing is on its right.
        with r.loop(end, part_end) as other:
            column = column_at(r, other)
            with r.loop(_PART - 1) as step:
                row = r.add(part_first, step)
                top = r.element(column, row)
                left = r.at(r.element(column_at(r, row), row), lanes.size)
                pointers = (f"ptr {r.at(top, lanes.size)}", f"ptr {left}", "i64 0", f"ptr {top}")
                r.do("@subtract1", *pointers, f"i64 {r.subtract(_PART - 1, step)}")
            below, top = r.element(column, part_end), r.element(column, part_first)
            left = r.element(column_at(r, part_first), part_end)
            pointers = (f"ptr {below}", f"ptr {left}", "i64 %leading", f"ptr {top}")
            r.do(f"@subtract{_PART}", *pointers, f"i64 {r.subtract('%order', part_end)}")
    rows = r.subtract("%order", end)
    with r.when(r.compare("sgt", rows, 0)):
        start = r.element(column_at(r, "%first"), "%first")
        r.do("@pack", "ptr %panel", f"ptr {start}", "i64 %leading", f"i64 {rows}")
    return ended(r)
