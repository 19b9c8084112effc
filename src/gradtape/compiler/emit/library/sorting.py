"""Routines that sort rows, and find the order of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gradtape.compiler.emit.library.elements import Elements, register_type
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.library.networks import Keys, declarations, first_lanes, splat
from gradtape.compiler.emit.library.quicksort import quicksort_text, split_text
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.objects import llvm

# Elements of fewer bytes are sorted as 32-bit integers.
SMALLEST_KEY = 4
# Elements from which a pivot is chosen that splits an array in halves.
SAMPLES = 127


def sort_rows(dtype: str, direction: str) -> str:
    """Rows in ascending or descending order; NaN comes last, or first.

    Words: the length of a row. Items: rows. Scratch: two rows of keys.
    """
    of = LibraryRoutine("sort_rows", 1, 1, ("length",))
    r, length = of.r, of.words["length"]
    keys = _keys_of(dtype)
    moved = r.at(of.scratch, r.multiply(length, keys.size))
    with r.loop("%hi", "%lo") as row:
        start = r.multiply(row, length)
        x, y = (Elements(r, base, dtype).at(start) for base in (of.operands[0], of.results[0]))
        _sort_row(r, keys, dtype, direction == "descending", length, (x, y, of.scratch, moved))
    return quicksort_text(keys) + _small_loads(keys, dtype) + of.text()


def _sort_row(
    r: Routine, keys: Keys, dtype: str, descending: bool, length: str, places: Sequence[str]
) -> None:
    """Sort a row of the operand to a row of the result, with two rows of memory for keys."""
    x, y, first, second = places
    same_size = keys.size == int(dtype[1])
    place = y if same_size else first
    missing = r.variable("i64", 0)
    end = (
        llvm.real_text(-math.inf if descending else math.inf, keys.element)
        if dtype[0] == "f"
        else ""
    )

    def enter(at: str, mask: str) -> None:
        found = _loaded(r, keys, dtype, x, at, mask)
        nan = ""
        if dtype[0] == "f":
            nan = r.let(f"fcmp uno {keys.vector()} {found}, {found}")
            nan = r.let(f"and {keys.mask} {nan}, {mask}")
            missing.set(r.add(missing.get(), _count(r, keys, nan)))
        found = _turned(r, keys, found) if descending else found
        if nan:
            kind = keys.vector()
            found = r.let(f"select {keys.mask} {nan}, {kind} {splat(keys, end)}, {kind} {found}")
        _stored(r, keys, keys.element, place, at, mask, found)

    def leave(at: str, mask: str) -> None:
        found = _loaded(r, keys, _code(keys), place, at, mask)
        found = _turned(r, keys, found) if descending else found
        _stored(r, keys, _small(dtype) if not same_size else keys.element, y, at, mask, found)

    _by_vectors(r, keys, length, enter)
    r.do("@sort_part", f"ptr {place}", f"ptr {second}", f"i64 {length}", "i1 false")
    if descending or not same_size:
        _by_vectors(r, keys, length, leave)
    if dtype[0] == "f":
        with r.when(r.unequal(missing.get(), 0)):
            start = 0 if descending else r.subtract(length, missing.get())
            result = Elements(r, y, dtype)
            with r.loop(missing.get()) as number:
                result.put(r.add(start, number), llvm.real_text(math.nan, keys.element))


def split_each(dtype: str) -> str:
    """Each piece of an array in two, of elements before a pivot and of others.

    Operands: the array, and where its pieces begin and end; results: the same. Items: pieces.
    Scratch: samples, of which the pivot is the median. NaN is never before a pivot.
    """
    of = LibraryRoutine("split_each", 2, 2)
    r, keys = of.r, _keys_of(dtype)
    old, new = Elements(r, of.operands[1], "i8"), Elements(r, of.results[1], "i8")
    samples, kind = Elements(r, of.scratch, dtype), keys.element
    with r.loop("%hi", "%lo") as piece:
        first, last = old.get(piece), old.get(r.add(piece, 1))
        some_elements = r.compare("slt", first, last)
        count = r.select(some_elements, r.subtract(last, first), 0)
        x, y = (Elements(r, base, dtype).at(first) for base in (of.operands[0], of.results[0]))
        # A piece without elements may begin behind the array.
        some = Elements(r, r.select(some_elements, x, of.operands[0], "ptr"), dtype)
        step = r.let(f"udiv i64 {count}, {SAMPLES}")
        with r.loop(SAMPLES) as number:
            value = some.get(r.multiply(number, step))
            if dtype[0] == "f":
                nan = r.let(f"fcmp uno {kind} {value}, {value}")
                value = r.select(nan, keys.last, value, kind)
            _insert(r, samples, number, value)
        given = f"ptr {x}", f"ptr {y}", f"i64 {count}", f"{kind} {samples.get(SAMPLES // 2)}"
        before = r.call("i64", "@split_part", *given)
        twice = r.let(f"shl i64 {piece}, 1")
        new.put(twice, first)
        new.put(r.add(twice, 1), r.add(first, before))
        new.put(r.add(twice, 2), last)
    return "\n".join(declarations(keys)) + "\n" + split_text(keys) + of.text()


def _insert(r: Routine, array: Elements, count: str, value: str) -> None:
    """Put an element into a sorted array, behind those that are not after it."""
    place = r.variable("i64", count)
    with r.repeat() as over:
        at = place.get()
        r.go_if(r.equal(at, 0), over)
        before = array.get(r.subtract(at, 1))
        r.go_if(r.negated(array.exceeds(before, value)), over)
        array.put(at, before)
        place.set(r.subtract(at, 1))
    array.put(place.get(), value)


def sort_each(dtype: str) -> str:
    """Each piece of an array in ascending order; the second result is memory for keys.

    Operands: the array, and where its pieces begin and end. Items: pieces.
    """
    of = LibraryRoutine("sort_each", 2, 2)
    r, keys = of.r, _keys_of(dtype)
    bounds = Elements(r, of.operands[1], "i8")
    with r.loop("%hi", "%lo") as piece:
        first = bounds.get(piece)
        count = r.subtract(bounds.get(r.add(piece, 1)), first)
        x, y, more = (Elements(r, base, dtype).at(first) for base in (of.operands[0], *of.results))
        _sort_row(r, keys, dtype, False, count, (x, y, y, more))
    return quicksort_text(keys) + of.text()


def order_rows(dtype: str, direction: str) -> str:
    """The positions that sort rows stably.

    Words: the length of a row. Items: rows. Scratch: two rows of keys, and one of positions.
    """
    of = LibraryRoutine("order_rows", 1, 1, ("length",))
    r, length = of.r, of.words["length"]
    keys = Keys("i64", positions=True)
    size = r.multiply(length, 8)
    more_keys = r.at(of.scratch, size)
    more_positions = r.at(more_keys, size)
    key = Elements(r, of.scratch, "i8")
    with r.loop("%hi", "%lo") as row:
        start = r.multiply(row, length)
        x = Elements(r, of.operands[0], dtype)
        positions = Elements(r, of.results[0], "i8")
        with r.loop(length) as at:
            found = _order_key(r, x, r.add(start, at))
            key.put(at, r.let(f"xor i64 {found}, -1") if direction == "descending" else found)
            positions.put(r.add(start, at), at)
        place = positions.at(start)
        r.do(
            "@sort_part",
            f"ptr {key.base}",
            f"ptr {place}",
            f"ptr {more_keys}",
            f"ptr {more_positions}",
            f"i64 {length}",
            "i1 false",
        )
    return quicksort_text(keys) + of.text()


def _keys_of(dtype: str) -> Keys:
    if int(dtype[1]) < SMALLEST_KEY:
        return Keys("i32")
    return Keys(register_type(dtype), dtype[0] != "u")


def _code(keys: Keys) -> str:
    return {"double": "f8", "float": "f4"}.get(keys.element, f"i{keys.size}")


def _order_key(r: Routine, x: Elements, at: str) -> str:
    """A signed integer that is ordered as the element is: NaN is the largest, 0.0 is -0.0."""
    if x.dtype[0] != "f":
        if x.dtype == "u8":
            return r.let(f"xor i64 {x.get(at)}, {-(2**63)}")
        return x.integer(at)
    found, bits = x.get(at), 8 * x.size
    zero = r.let(f"fadd {x.kind} {found}, {llvm.real_text(0.0, x.kind)}")
    word = r.let(f"bitcast {x.kind} {zero} to i{bits}")
    sign = r.let(f"ashr i{bits} {word}, {bits - 1}")
    turned = r.let(f"and i{bits} {sign}, {2 ** (bits - 1) - 1}")
    key = r.let(f"xor i{bits} {word}, {turned}")
    nan = r.let(f"fcmp uno {x.kind} {found}, {found}")
    key = r.select(nan, 2 ** (bits - 1) - 1, key, f"i{bits}")
    return key if bits == 64 else r.let(f"sext i{bits} {key} to i64")


def _by_vectors(r: Routine, keys: Keys, length: str, write: Callable[[str, str], None]) -> None:
    """Lines for each vector of a row: the first element, and a mask of the lanes in use."""
    steps = r.let(f"udiv i64 {r.add(length, keys.lanes - 1)}, {keys.lanes}")
    with r.loop(steps) as number:
        at = r.multiply(number, keys.lanes)
        write(at, first_lanes(r, keys, r.subtract(length, at)))


def _small(dtype: str) -> str:
    """The type in memory of elements that are converted to 32 bits."""
    return f"i{8 * int(dtype[1])}"


def _small_loads(keys: Keys, dtype: str) -> str:
    if int(dtype[1]) >= SMALLEST_KEY:
        return ""
    kind, name = llvm.vector(_small(dtype), keys.lanes), f"v{keys.lanes}{_small(dtype)}"
    return (
        f"declare {kind} @llvm.masked.load.{name}.p0(ptr, i32, {keys.mask}, {kind})\n"
        f"declare void @llvm.masked.store.{name}.p0({kind}, ptr, i32, {keys.mask})\n"
    )


def _loaded(r: Routine, keys: Keys, dtype: str, base: str, at: Word, mask: str) -> str:
    """A vector of elements as keys."""
    small = int(dtype[1]) < SMALLEST_KEY
    kind = _small(dtype) if small else keys.element
    vector, name = llvm.vector(kind, keys.lanes), f"v{keys.lanes}{_short(kind)}"
    place = r.let(f"getelementptr {kind}, ptr {base}, i64 {at}")
    found = r.call(
        vector,
        f"@llvm.masked.load.{name}.p0",
        f"ptr {place}",
        "i32 1",
        f"{keys.mask} {mask}",
        f"{vector} zeroinitializer",
    )
    if not small:
        return found
    word = "sext" if dtype[0] == "i" else "zext"
    return r.let(f"{word} {vector} {found} to {keys.vector()}")


def _stored(r: Routine, keys: Keys, kind: str, base: str, at: Word, mask: str, value: str) -> None:
    """Store a vector of keys as elements of a type."""
    vector, name = llvm.vector(kind, keys.lanes), f"v{keys.lanes}{_short(kind)}"
    place = r.let(f"getelementptr {kind}, ptr {base}, i64 {at}")
    if kind in ("i8", "i16"):
        value = r.let(f"trunc {keys.vector()} {value} to {vector}")
    r.do(
        f"@llvm.masked.store.{name}.p0",
        f"{vector} {value}",
        f"ptr {place}",
        "i32 1",
        f"{keys.mask} {mask}",
    )


def _short(kind: str) -> str:
    return {"double": "f64", "float": "f32"}.get(kind, kind)


def _turned(r: Routine, keys: Keys, x: str) -> str:
    """Keys in the opposite order; twice gives the same keys."""
    if keys.element in ("double", "float"):
        return r.let(f"fneg {keys.vector()} {x}")
    ones = "<" + ", ".join([f"{keys.element} -1"] * keys.lanes) + ">"
    return r.let(f"xor {keys.vector()} {x}, {ones}")


def _count(r: Routine, keys: Keys, mask: str) -> str:
    lanes = f"i{keys.lanes}"
    bits = r.let(f"bitcast {keys.mask} {mask} to {lanes}")
    count = r.call(lanes, f"@llvm.ctpop.{lanes}", f"{lanes} {bits}")
    return r.let(f"zext {lanes} {count} to i64")
