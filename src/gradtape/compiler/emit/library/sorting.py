"""Routines that sort rows, and find the order of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradtape.compiler.emit.library.elements import Elements, register_type
from gradtape.compiler.emit.library.library_routine import LibraryRoutine
from gradtape.compiler.emit.library.networks import Keys
from gradtape.compiler.emit.library.quicksort import quicksort, set_lanes, split
from gradtape.compiler.emit.writer import Routine, Typed, Word, every_lane, split_type
from gradtape.compiler.objects import llvm
from gradtape.config import SPLIT_SAMPLES

# Elements of fewer bytes are sorted as 32-bit integers.
SMALLEST_KEY = 4


def sort_rows(dtype: str, direction: str) -> str:
    """Rows in ascending or descending order; NaN comes last, or first.

    Words: the length of a row. Items: rows. Scratch: two rows of keys.
    """
    of = LibraryRoutine("sort_rows", 1, 1, ("length",))
    r, length, keys = of.r, of.words["length"], _keys_of(dtype)
    of.functions = quicksort(keys)
    moved = r.at(of.scratch, r.multiply(length, keys.size))
    with r.loop("%hi", "%lo") as row:
        start = r.multiply(row, length)
        x, y = (Elements(r, base, dtype).at(start) for base in (of.operands[0], of.results[0]))
        _sort_row(r, keys, dtype, direction == "descending", length, (x, y, of.scratch, moved))
    return of.text()


def _sort_row(
    r: Routine, keys: Keys, dtype: str, descending: bool, length: str, places: Sequence[str]
) -> None:
    """Sort a row of the operand to a row of the result, with two rows of memory for keys."""
    x, y, first, second = places
    same_size = keys.size == int(dtype[1])
    place = y if same_size else first
    missing = r.variable("i64", 0)
    with r.vectors(length, keys.lanes) as (at, mask):
        found = _loaded(r, keys, dtype, x, at, mask)
        nan = None
        if dtype[0] == "f":
            nan = r.op("and", r.compare("uno", found, found), mask)
            missing.set(r.add(missing.get(), set_lanes(r, nan)))
        found = _turned(r, keys, found) if descending else found
        if nan is not None:
            end = llvm.real_text(-math.inf if descending else math.inf, keys.element)
            found = r.select(nan, every_lane(keys.element, end, keys.lanes), found)
        _stored(r, keys.element, place, at, mask, found)
    r.do("@sort_part", place, second, length, "false")
    if descending or not same_size:
        with r.vectors(length, keys.lanes) as (at, mask):
            found = _loaded(r, keys, _code(keys), place, at, mask)
            found = _turned(r, keys, found) if descending else found
            _stored(r, keys.element if same_size else _small(dtype), y, at, mask, found)
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
    of.functions["split"] = split(keys)
    old, new = Elements(r, of.operands[1], "i8"), Elements(r, of.results[1], "i8")
    samples = Elements(r, of.scratch, dtype)
    with r.loop("%hi", "%lo") as piece:
        first, last = old.get(piece), old.get(r.add(piece, 1))
        some_elements = r.compare("slt", first, last)
        count = r.select(some_elements, r.subtract(last, first), 0)
        x, y = (Elements(r, base, dtype).at(first) for base in (of.operands[0], of.results[0]))
        # A piece without elements may begin behind the array.
        some = Elements(r, r.select(some_elements, x, of.operands[0], "ptr"), dtype)
        step = r.divided(count, SPLIT_SAMPLES)
        with r.loop(SPLIT_SAMPLES) as number:
            value = some.get(r.multiply(number, step))
            if dtype[0] == "f":
                value = r.select(r.compare("uno", value, value), keys.last, value)
            _insert(r, samples, number, value)
        before = r.call("i64", "@split_part", x, y, count, samples.get(SPLIT_SAMPLES // 2))
        twice = r.op("shl", piece, 1)
        new.put(twice, first)
        new.put(r.add(twice, 1), r.add(first, before))
        new.put(r.add(twice, 2), last)
    return of.text()


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
    of.functions = quicksort(keys)
    bounds = Elements(r, of.operands[1], "i8")
    with r.loop("%hi", "%lo") as piece:
        first = bounds.get(piece)
        count = r.subtract(bounds.get(r.add(piece, 1)), first)
        x, y, more = (Elements(r, base, dtype).at(first) for base in (of.operands[0], *of.results))
        _sort_row(r, keys, dtype, False, count, (x, y, y, more))
    return of.text()


def order_rows(dtype: str, direction: str) -> str:
    """The positions that sort rows stably.

    Words: the length of a row. Items: rows. Scratch: two rows of keys, and one of positions.
    """
    of = LibraryRoutine("order_rows", 1, 1, ("length",))
    r, length = of.r, of.words["length"]
    keys = Keys("i64", positions=True)
    of.functions = quicksort(keys)
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
            key.put(at, r.op("xor", found, -1) if direction == "descending" else found)
            positions.put(r.add(start, at), at)
        place = positions.at(start)
        r.do("@sort_part", key.base, place, more_keys, more_positions, length, "false")
    return of.text()


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
            return r.op("xor", x.get(at), -(2**63))
        return x.integer(at)
    found, bits = x.get(at), 8 * x.size
    word = r.cast("bitcast", r.op("fadd", found, llvm.real_text(0.0, x.kind)), f"i{bits}")
    most = 2 ** (bits - 1) - 1
    key = r.op("xor", word, r.op("and", r.op("ashr", word, bits - 1), most))
    key = r.select(r.compare("uno", found, found), most, key)
    return key if bits == 64 else r.cast("sext", key, "i64")


def _small(dtype: str) -> str:
    """The type in memory of elements that are converted to 32 bits."""
    return f"i{8 * int(dtype[1])}"


def _loaded(r: Routine, keys: Keys, dtype: str, base: str, at: Word, mask: str) -> Typed:
    """A vector of elements as keys."""
    small = int(dtype[1]) < SMALLEST_KEY
    kind = _small(dtype) if small else keys.element
    found = r.load_lanes(llvm.vector(kind, keys.lanes), r.item(kind, base, at), mask)
    if not small:
        return found
    return r.cast("sext" if dtype[0] == "i" else "zext", found, keys.vectors[0])


def _stored(r: Routine, kind: str, base: str, at: Word, mask: str, value: str) -> None:
    """Store a vector of keys as elements of a type."""
    if kind in ("i8", "i16"):
        value = r.cast("trunc", value, llvm.vector(kind, split_type(r.kind(value))[1]))
    r.store_lanes(value, r.item(kind, base, at), mask)


def _turned(r: Routine, keys: Keys, x: str) -> Typed:
    """Keys in the opposite order; twice gives the same keys."""
    if keys.element in ("double", "float"):
        return r.negative(x)
    return r.op("xor", x, every_lane(keys.element, "-1", keys.lanes))
