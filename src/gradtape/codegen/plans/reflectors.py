"""Products of narrow matrices and vectors, and reflectors, as IR functions over whole vectors."""

from __future__ import annotations

from gradtape.codegen.plans.elements import ElementRoutine, Lanes, ended

# Columns that a product takes at once.
GROUP = 8
_DOTS = 4
# Vectors that `combine` takes at once.
_ROWS = 4
# Sums of squares outside of these bounds are computed again, of elements that a power of two has
# moved away from the ends of the range of numbers.
_BOUNDS = {"float": (-80, 100, 100), "double": (-900, 900, 600)}


def step_of(lanes: Lanes) -> int:
    """Loops begin and end at multiples of so many elements."""
    return max(GROUP, lanes.per_vector)


def reflectors_ir(lanes: Lanes) -> str:
    """The functions `products`, `sums`, `dots`, `combine` and `reflect`."""
    kind, vector, suffix = lanes.kind, lanes.vector, f"f{8 * lanes.size}"
    wide = f"v{lanes.per_vector}{suffix}"
    declarations = [
        f"declare {vector} @llvm.fmuladd.{wide}({vector}, {vector}, {vector})",
        f"declare {kind} @llvm.fmuladd.{suffix}({kind}, {kind}, {kind})",
        f"declare {kind} @llvm.sqrt.{suffix}({kind})",
        f"declare {kind} @llvm.copysign.{suffix}({kind}, {kind})",
        f"declare {kind} @llvm.vector.reduce.fadd.{wide}({kind}, {vector})",
    ]
    written = [_products(lanes), _sums(lanes), _dots(lanes), _combine(lanes), _reflect(lanes)]
    return "\n".join([*declarations, *written])


def _total(r: ElementRoutine, value: str) -> str:
    """The sum of the lanes of a vector, in any order."""
    kind, vector = r.lanes.kind, r.lanes.vector
    name = f"@llvm.vector.reduce.fadd.v{r.lanes.per_vector}f{8 * r.lanes.size}"
    return r.let(f"call reassoc {kind} {name}({kind} -0.0, {vector} {value})")


def _dot_products(r: ElementRoutine, columns: int) -> list[str]:
    """The products of columns at `%x` with `%v`, in step."""
    vector, nbytes = r.lanes.vector, r.lanes.bytes
    starts = [r.at("%x", r.multiply("%leading", column)) for column in range(columns)]
    with r.fold("%vectors", vector, ["zeroinitializer"] * columns) as fold:
        here = r.multiply(fold.index, nbytes)
        factor = r.load(r.at("%v", here), vector)
        fold.values = [
            r.intrinsic("fmuladd", vector, r.load(r.at(start, here), vector), factor, total)
            for start, total in zip(starts, fold.values, strict=True)
        ]
    return [_total(r, value) for value in fold.values]


def _products(lanes: Lanes) -> str:
    """The products of a group of columns with one vector."""
    r = ElementRoutine(
        "internal void @products(ptr noalias %x, i64 %leading, ptr noalias %v, i64 %vectors, "
        "ptr noalias %to)",
        lanes,
    )
    for column, value in enumerate(_dot_products(r, GROUP)):
        r.store(value, r.element("%to", column), lanes.kind)
    return ended(r)


def _dots(lanes: Lanes) -> str:
    """The products of some columns with one vector, as the first numbers of pairs.

    The last of them may be of columns past the number asked for; nothing reads these.
    """
    r = ElementRoutine(
        "internal void @dots(ptr noalias %first, i64 %leading, i64 %columns, ptr %v, "
        "i64 %vectors, ptr noalias %pairs)",
        lanes,
    )
    with r.loop(r.let(f"sdiv i64 {r.add('%columns', _DOTS - 1)}, {_DOTS}")) as group:
        column = r.multiply(group, _DOTS)
        start = r.at("%first", r.multiply(column, "%leading"))
        pair = r.at("%pairs", r.multiply(column, 2 * lanes.size))
        r.do("@four", f"ptr {start}", "i64 %leading", "ptr %v", "i64 %vectors", f"ptr {pair}")
    four = ElementRoutine(
        "internal void @four(ptr %x, i64 %leading, ptr %v, i64 %vectors, ptr noalias %to)", lanes
    )
    for number, value in enumerate(_dot_products(four, _DOTS)):
        four.store(value, four.element("%to", 2 * number), lanes.kind)
    return ended(four) + ended(r)


def symmetric_product_ir(lanes: Lanes) -> str:
    """The functions `one`, `both`, and `symmetric`, which reads half of a symmetric matrix."""
    return _one(lanes) + _both(lanes) + _symmetric(lanes)


def _one(lanes: Lanes) -> str:
    """The product of two vectors."""
    r = ElementRoutine(
        "internal void @one(ptr %x, i64 %leading, ptr %v, i64 %vectors, ptr noalias %to)", lanes
    )
    r.store(_dot_products(r, 1)[0], "%to", lanes.kind)
    return ended(r)


def _taken_at_once(lanes: Lanes) -> int:
    """Columns whose sums and factors the registers hold: processors with long vectors have more."""
    return 8 if lanes.bytes == 64 else 4


def _both(lanes: Lanes) -> str:
    """Add products of some columns with a vector, and the sum of the columns times numbers."""
    r = ElementRoutine(
        "internal void @both(ptr noalias %x, i64 %leading, ptr noalias %v, i64 %vectors, "
        "ptr noalias %factors, ptr noalias %sums, ptr noalias %products)",
        lanes,
    )
    vector, columns = lanes.vector, _taken_at_once(lanes)
    starts = [r.at("%x", r.multiply("%leading", column)) for column in range(columns)]
    factors = [
        r.spread(r.load(r.element("%factors", column), lanes.kind), vector)
        for column in range(columns)
    ]
    with r.fold("%vectors", vector, ["zeroinitializer"] * columns) as fold:
        here = r.multiply(fold.index, lanes.bytes)
        place = r.at("%sums", here)
        other = r.load(r.at("%v", here), vector)
        parts = [r.load(place, vector), "zeroinitializer"]
        found: list[str] = []
        for column, (start, factor) in enumerate(zip(starts, factors, strict=True)):
            value = r.load(r.at(start, here), vector)
            found.append(r.intrinsic("fmuladd", vector, value, other, fold.values[column]))
            parts[column % 2] = r.intrinsic("fmuladd", vector, value, factor, parts[column % 2])
        r.store(r.let(f"fadd {vector} {parts[0]}, {parts[1]}"), place, vector)
        fold.values = found
    for column, value in enumerate(fold.values):
        place = r.element("%products", column)
        total = r.let(f"fadd {lanes.kind} {r.load(place, lanes.kind)}, {_total(r, value)}")
        r.store(total, place, lanes.kind)
    return ended(r)


def _symmetric(lanes: Lanes) -> str:
    """Add what a block on the diagonal and the columns below it bring to a product with `%v`.

    The block has all its elements, `step_of` rows and columns; so many vectors are below it.
    """
    r = ElementRoutine(
        "internal void @symmetric(ptr %x, i64 %leading, ptr %v, i64 %vectors, ptr %sums)", lanes
    )
    vector, step = lanes.vector, step_of(lanes)
    bands = step // lanes.per_vector
    places = [r.at("%sums", band * lanes.bytes) for band in range(bands)]
    with r.fold(step, vector, ["zeroinitializer"] * bands) as fold:
        start = r.at("%x", r.multiply(fold.index, "%leading"))
        factor = r.spread(r.load(r.element("%v", fold.index), lanes.kind), vector)
        fold.values = [
            r.intrinsic("fmuladd", vector, r.load(r.at(start, band * lanes.bytes), vector), factor,
                        total)
            for band, total in enumerate(fold.values)
        ]  # fmt: skip
    for place, total in zip(places, fold.values, strict=True):
        r.store(r.let(f"fadd {vector} {r.load(place, vector)}, {total}"), place, vector)
    below = step * lanes.size
    for column in range(0, step, _taken_at_once(lanes)):
        start = r.at("%x", r.multiply("%leading", column))
        r.do(
            "@both", f"ptr {r.at(start, below)}", "i64 %leading", f"ptr {r.at('%v', below)}",
            "i64 %vectors", f"ptr {r.element('%v', column)}", f"ptr {r.at('%sums', below)}",
            f"ptr {r.element('%sums', column)}",
        )  # fmt: skip
    return ended(r)


def _sums(lanes: Lanes) -> str:
    """Some vectors of the sum of groups of columns, each column times a number."""
    r = ElementRoutine(
        "internal void @sums(ptr noalias %x, i64 %leading, i64 %groups, ptr noalias %u, "
        "ptr noalias %to, i64 %vectors)",
        lanes,
    )
    vector = lanes.vector
    nothing = r.multiply("%vectors", lanes.bytes)
    r.do("@llvm.memset.p0.i64", "ptr %to", "i8 0", f"i64 {nothing}", "i1 false")
    with r.loop("%groups") as group:
        column = r.multiply(group, GROUP)
        factors = [
            r.spread(r.load(r.element("%u", r.add(column, each)), lanes.kind), vector)
            for each in range(GROUP)
        ]
        starts = [r.at("%x", r.multiply(r.add(column, each), "%leading")) for each in range(GROUP)]
        with r.loop("%vectors") as step:
            here = r.multiply(step, lanes.bytes)
            place = r.at("%to", here)
            parts = [r.load(place, vector), "zeroinitializer"]
            for each, (start, factor) in enumerate(zip(starts, factors, strict=True)):
                value = r.load(r.at(start, here), vector)
                parts[each % 2] = r.intrinsic("fmuladd", vector, value, factor, parts[each % 2])
            r.store(r.let(f"fadd {vector} {parts[0]}, {parts[1]}"), place, vector)
    return ended(r)


def _combine(lanes: Lanes) -> str:
    """Two sums of the same columns: complete a product with one, reduce elements with both.

    With s and t the sums by the first and by the second numbers of pairs: z = scale (w - s), and
    to = from - t - z.
    """
    r = ElementRoutine(
        "internal void @combine(ptr %x, i64 %leading, i64 %columns, ptr %pairs, "
        f"{lanes.kind} %scale, ptr %w, ptr %z, ptr %from, ptr %to, i64 %vectors)",
        lanes,
    )
    vector = lanes.vector
    scale = r.spread("%scale", vector)
    blocks = r.let(f"sdiv i64 %vectors, {_ROWS}")

    def block(rows: int, first: str) -> None:
        here = r.multiply(first, lanes.bytes)
        start = r.at("%x", here)
        with r.fold("%columns", vector, ["zeroinitializer"] * (2 * rows)) as fold:
            column = r.at(start, r.multiply(fold.index, "%leading"))
            pair = r.at("%pairs", r.multiply(fold.index, 2 * lanes.size))
            one, other = (
                r.spread(r.load(r.at(pair, at), lanes.kind), vector) for at in (0, lanes.size)
            )
            found: list[str] = []
            for row in range(rows):
                value = r.load(r.at(column, row * lanes.bytes), vector)
                for factor, total in zip((one, other), fold.values[2 * row :], strict=False):
                    found.append(r.intrinsic("fmuladd", vector, value, factor, total))
            fold.values = found
        for row in range(rows):
            s, t = fold.values[2 * row : 2 * row + 2]
            w, z, source, to = (
                r.at(r.at(name, here), row * lanes.bytes) for name in ("%w", "%z", "%from", "%to")
            )
            rest = r.let(f"fsub {vector} {r.load(w, vector)}, {s}")
            complete = r.let(f"fmul {vector} {scale}, {rest}")
            reduced = r.let(f"fsub {vector} {r.load(source, vector)}, {t}")
            r.store(complete, z, vector)
            r.store(r.let(f"fsub {vector} {reduced}, {complete}"), to, vector)

    with r.loop(blocks) as index:
        block(_ROWS, r.multiply(index, _ROWS))
    with r.loop("%vectors", r.multiply(blocks, _ROWS)) as index:
        block(1, index)
    return ended(r)


def _reflect(lanes: Lanes) -> str:
    """Make the reflector 1 - tau v v' that turns x to a multiple of its element number `at`.

    v takes the place of x: zeros before that element, and a 1 in its place.
    """
    r = ElementRoutine(
        "internal void @reflect(ptr noalias %x, i64 %at, i64 %vectors, ptr noalias %value, "
        "ptr noalias %tau)",
        lanes,
    )
    kind, vector = lanes.kind, lanes.vector
    low, high, move = _BOUNDS[kind]
    with r.loop("%at") as index:
        r.store("0.0", r.element("%x", index), kind)
    head = r.element("%x", "%at")
    first = r.load(head, kind)
    r.store("0.0", head, kind)

    def squares() -> str:
        with r.fold("%vectors", vector, ["zeroinitializer"]) as fold:
            value = r.load(r.at("%x", r.multiply(fold.index, lanes.bytes)), vector)
            fold.values = [r.intrinsic("fmuladd", vector, value, value, fold.values[0])]
        return _total(r, fold.values[0])

    def scaled(factor: str) -> None:
        spread = r.spread(factor, vector)
        with r.loop("%vectors") as index:
            place = r.at("%x", r.multiply(index, lanes.bytes))
            value = r.let(f"fmul {vector} {r.load(place, vector)}, {spread}")
            r.store(value, place, vector)

    plain = squares()
    whole = r.intrinsic("fmuladd", kind, first, first, plain)
    above = r.let(f"fcmp ogt {kind} {whole}, {_power(low)}")
    below = r.let(f"fcmp olt {kind} {whole}, {_power(high)}")
    before = r.here
    safe = r.both(above, below)
    r.end(f"br i1 {safe}, label %ready, label %extreme")
    r.block("extreme")
    tiny = r.let(f"fcmp olt {kind} {whole}, 1.0")
    by = r.select(tiny, _power(move), _power(-move), kind)
    back = r.select(tiny, _power(-move), _power(move), kind)
    scaled(by)
    moved = r.let(f"fmul {kind} {first}, {by}")
    again = squares()
    since = r.here
    r.block("ready")
    alpha = r.phi(kind, (first, before), (moved, since))
    rest = r.phi(kind, (plain, before), (again, since))
    unit = r.phi(kind, ("1.0", before), (back, since))
    r.go_if(r.let(f"fcmp oeq {kind} {rest}, 0.0"), "nothing")
    norm = r.intrinsic("sqrt", kind, r.intrinsic("fmuladd", kind, alpha, alpha, rest))
    opposite = r.let(f"fneg {kind} {alpha}")
    beta = r.intrinsic("copysign", kind, norm, opposite)
    difference = r.let(f"fsub {kind} {alpha}, {beta}")
    scaled(r.let(f"fdiv {kind} 1.0, {difference}"))
    lowered = r.let(f"fsub {kind} {beta}, {alpha}")
    r.store(r.let(f"fdiv {kind} {lowered}, {beta}"), "%tau", kind)
    r.store(r.let(f"fmul {kind} {beta}, {unit}"), "%value", kind)
    r.store("1.0", head, kind)
    r.end("ret void")
    r.block("nothing")
    r.store("0.0", "%tau", kind)
    r.store(first, "%value", kind)
    r.store("1.0", head, kind)
    # What the sum of squares has lost counts for nothing.
    with r.loop(r.subtract(r.multiply("%vectors", lanes.per_vector), r.add("%at", 1))) as index:
        r.store("0.0", r.at(r.element(head, index), lanes.size), kind)
    return ended(r)


def _power(exponent: int) -> str:
    """A power of two, as IR writes it."""
    return f"0x{(exponent + 1023) << 52:016X}"
