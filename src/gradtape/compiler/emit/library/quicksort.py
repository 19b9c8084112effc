"""Quicksort of keys in memory, by vectors: parts that fit a network are sorted in registers.

A step compares all elements with a pivot. Elements that come before it are packed at the beginning
of one array, and the others at the beginning of a second array, of the same length: one of the two
is the array that is read, so nothing is copied twice. Both keep their order, so elements with their
positions are sorted stably.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.library.networks import Keys, Register, sort_registers
from gradtape.compiler.emit.writer import (
    Routine,
    Typed,
    Word,
    every_lane,
    split_type,
    suffix,
)
from gradtape.compiler.objects import llvm
from gradtape.config import (
    NETWORK_VECTORS,
    NETWORK_VECTORS_WITH_POSITIONS,
    PARTITION_VECTORS_AT_ONCE,
)


def quicksort(keys: Keys) -> dict[str, Routine | str]:
    """The functions of `sort_part(source…, other…, count, to_other)`, by name.

    It sorts the elements of `source`, to `source` or to `other`, which has the same length. Each is
    a pointer to keys, and one to positions if there are any.
    """
    networks = [_network(keys, count) for count in _counts(keys)]
    parts = [_partition(keys, how) for how in ("lt", "le")]
    return {each.head: each for each in (*networks, *parts, _sort(keys))}


def _counts(keys: Keys) -> list[int]:
    """The number of vectors that the networks sort."""
    found = [1]
    while found[-1] < (NETWORK_VECTORS_WITH_POSITIONS if keys.positions else NETWORK_VECTORS):
        found.append(2 * found[-1])
    return found


def _function(head: str, keys: Keys, arrays: Sequence[str], *others: str) -> Routine:
    """The routine of a function of arrays, which are pointers to each part, and of others."""
    parts = range(len(keys.kinds))
    listed = [f"ptr %{name}{part}" for name in arrays for part in parts]
    return Routine(f"internal {head}({', '.join([*listed, *others])})")


def _array(keys: Keys, name: str) -> list[str]:
    """The pointers of an array."""
    return [f"%{name}{part}" for part in range(len(keys.kinds))]


def _at(r: Routine, keys: Keys, bases: Sequence[str], index: Word) -> list[Typed]:
    """The addresses of the parts of an element."""
    return [r.item(kind, base, index) for kind, base in zip(keys.kinds, bases, strict=True)]


def _loaded(
    r: Routine, keys: Keys, bases: Sequence[str], index: Word, mask: str | None = None
) -> Register:
    """A vector of elements; in lanes outside a mask is what comes last."""
    places = zip(keys.vectors, _at(r, keys, bases, index), keys.lasts, strict=True)
    return tuple(r.load_lanes(kind, place, mask, other=last) for kind, place, last in places)


def _network(keys: Keys, count: int) -> Routine:
    """The function that sorts more than half as many elements as `count` vectors have."""
    r = _function(f"void @sort_small_{count}", keys, ("source", "target"), "i64 %count")
    starts = [number * keys.lanes for number in range(count)]
    source, target = _array(keys, "source"), _array(keys, "target")
    masks: list[str | None] = [None] * (count // 2)
    masks += [r.first_lanes(r.subtract("%count", at), keys.lanes) for at in starts[count // 2 :]]
    registers = [_loaded(r, keys, source, *each) for each in zip(starts, masks, strict=True)]
    registers = sort_registers(r, keys, registers)
    for register, mask, start in zip(registers, masks, starts, strict=True):
        for value, place in zip(register, _at(r, keys, target, start), strict=True):
            r.store_lanes(value, place, mask)
    return r


def _partition(keys: Keys, how: str) -> Routine:
    """The function that moves elements by a pivot, and gives the number of those before it."""
    others = ("i64 %count", f"{keys.element} %pivot")
    r = _function(f"i64 @partition_{how}", keys, ("source", "low", "high"), *others)
    low, high = r.variable("i64", 0), r.variable("i64", 0)
    source = _array(keys, "source")
    targets = ((_array(keys, "low"), low), (_array(keys, "high"), high))
    if llvm.host().bits < 512:
        # Without instructions that pack vectors: each element is written to both arrays.
        with r.loop("%count") as at:
            places = zip(keys.kinds, _at(r, keys, source, at), strict=True)
            element = [r.load(kind, place) for kind, place in places]
            before = keys.compared(r, how, element[0], "%pivot")
            for bases, count in targets:
                for value, place in zip(element, _at(r, keys, bases, count.get()), strict=True):
                    r.store(value, place)
            one = r.cast("zext", before, "i64")
            low.set(r.add(low.get(), one))
            high.set(r.add(high.get(), r.subtract(1, one)))
        r.give(low.get())
        return r
    pivot = r.splat("%pivot", keys.lanes)

    def pack(elements: Register, valid: str | None) -> None:
        for mask, (bases, count) in zip(
            _sides(r, keys, how, elements, pivot, valid), targets, strict=True
        ):
            at = count.get()
            for value, place in zip(elements, _at(r, keys, bases, at), strict=True):
                if valid is not None:
                    _compress(r, value, place, mask)
                    continue
                # The lanes behind those of the mask are written over, or not needed.
                kind = r.kind(value)
                poison = Typed("poison", kind)
                packed = r.intrinsic("experimental.vector.compress", value, mask, poison)
                r.store(packed, place, align=1)
            count.set(r.add(at, set_lanes(r, mask)))

    block = PARTITION_VECTORS_AT_ONCE * keys.lanes
    done = r.op("and", "%count", -block)
    with r.loop(done, step=block) as first:
        # Packed elements lie before the end of what was read.
        starts = [r.add(first, n * keys.lanes) for n in range(PARTITION_VECTORS_AT_ONCE)]
        for elements in [_loaded(r, keys, source, start) for start in starts]:
            pack(elements, None)
    with r.vectors("%count", keys.lanes, done) as (at, valid):
        pack(_loaded(r, keys, source, at, valid), valid)
    r.give(low.get())
    return r


def split(keys: Keys) -> Routine:
    """The function that packs elements before a pivot at one end of an array, others at the other.

    It gives the number of those before the pivot. The array is not the one that is read.
    """
    others = ("ptr %target", "i64 %count", f"{keys.element} %pivot")
    r = _function("i64 @split_part", keys, ("source",), *others)
    low, high = r.variable("i64", 0), r.variable("i64", "%count")
    if llvm.host().bits < 512:
        with r.loop("%count") as at:
            value = r.load(keys.element, r.item(keys.element, "%source0", at))
            before = keys.compared(r, "lt", value, "%pivot")
            one = r.cast("zext", before, "i64")
            high.set(r.subtract(high.get(), r.subtract(1, one)))
            place = r.select(before, low.get(), high.get())
            r.store(value, r.item(keys.element, "%target", place))
            low.set(r.add(low.get(), one))
        r.give(low.get())
        return r
    pivot = r.splat("%pivot", keys.lanes)
    with r.vectors("%count", keys.lanes) as (at, valid):
        loaded = _loaded(r, keys, ["%source0"], at, valid)
        before, after = _sides(r, keys, "lt", loaded, pivot, valid)
        start, end = low.get(), r.subtract(high.get(), set_lanes(r, after))
        for mask, first in ((before, start), (after, end)):
            _compress(r, loaded[0], r.item(keys.element, "%target", first), mask)
        low.set(r.add(start, set_lanes(r, before)))
        high.set(end)
    r.give(low.get())
    return r


def _sides(
    r: Routine, keys: Keys, how: str, elements: Register, pivot: str, valid: str | None
) -> list[Typed]:
    """Masks of the elements before a pivot, and of the others."""
    before = keys.compared(r, how, elements[0], pivot)
    sides = [before, r.op("xor", before, every_lane("i1", "1", keys.lanes))]
    return sides if valid is None else [r.op("and", mask, valid) for mask in sides]


def _compress(r: Routine, value: str, place: str, mask: str) -> None:
    """Store the lanes of a mask side by side."""
    r.do(f"@llvm.masked.compressstore.{suffix(r.kind(value))}", value, place, mask)


def set_lanes(r: Routine, mask: str) -> Typed:
    """The number of lanes that are set in a mask."""
    lanes = r.cast("bitcast", mask, f"i{split_type(r.kind(mask))[1]}")
    return r.cast("zext", r.intrinsic("ctpop", lanes), "i64")


def _sort(keys: Keys) -> Routine:
    others = ("i64 %length", "i1 %moves")
    r = _function("void @sort_part", keys, ("first", "second"), *others)
    parts = range(len(keys.kinds))
    source = [r.variable("ptr", f"%first{k}") for k in parts]
    other = [r.variable("ptr", f"%second{k}") for k in parts]
    length, moves = r.variable("i64", "%length"), r.variable("i1", "%moves")

    with r.repeat() as over:
        count, to_other = length.get(), moves.get()
        here, there = [each.get() for each in source], [each.get() for each in other]
        # The place of the elements before the pivot, and the array beside it.
        pairs = list(zip(here, there, strict=True))
        low = [r.select(to_other, b, a) for a, b in pairs]
        high = [r.select(to_other, a, b) for a, b in pairs]
        for number in _counts(keys):
            with r.when(r.compare("sle", count, number * keys.lanes)):
                r.do(f"@sort_small_{number}", *here, *low, count)
                r.go(over)
        pivot = _pivot(r, keys, here[0], count)
        before = r.call("i64", "@partition_lt", *here, *low, *high, count, pivot)
        with r.when(r.equal(before, 0)):
            # The pivot is the smallest key: all that equal it are in place after this.
            same = r.call("i64", "@partition_le", *high, *low, *high, count, pivot)
            rest = r.subtract(count, same)
            r.go_if(r.equal(rest, 0), over)
            for k, place in enumerate(_at(r, keys, low, same)):
                source[k].set(high[k])
                other[k].set(place)
            length.set(rest)
            moves.set("true")
            r.go(over.replace("enough", "again"))
        rest = r.subtract(count, before)
        lower = (low, _at(r, keys, high, rest), before, "false")
        upper = (high, _at(r, keys, low, before), rest, "true")
        few = r.compare("slt", before, rest)
        number = r.fresh()
        r.branch(few, f"lower{number}", f"upper{number}")
        # The smaller part is sorted by a call, so calls are nested to a small depth only.
        for name, called, kept in (("lower", lower, upper), ("upper", upper, lower)):
            r.block(f"{name}{number}")
            r.do("@sort_part", *called[0], *called[1], *called[2:])
            for k in parts:
                source[k].set(kept[0][k])
                other[k].set(kept[1][k])
            length.set(kept[2])
            moves.set(kept[3])
            r.go(over.replace("enough", "again"))
        r.block(f"never{number}")
        r.end("unreachable")
    return r


def _pivot(r: Routine, keys: Keys, base: str, count: str) -> str:
    """The median of two vectors of elements, which are taken in equal distances."""
    samples = 2 * keys.lanes
    step = r.divided(count, samples)
    first = r.divided(step, 2)
    registers: list[Register] = []
    for number in range(2):
        found = Typed("poison", keys.vectors[0])
        for lane in range(keys.lanes):
            at = r.add(first, r.multiply(step, number * keys.lanes + lane))
            found = r.with_lane(found, lane, r.load(keys.element, r.item(keys.element, base, at)))
        registers.append((found,))
    plain = Keys(keys.element, keys.signed)
    return r.lane(sort_registers(r, plain, registers)[1][0], 0)
