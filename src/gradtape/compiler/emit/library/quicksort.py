"""Quicksort of keys in memory, by vectors: parts that fit a network are sorted in registers.

A step compares all elements with a pivot. Elements that come before it are packed at the beginning
of one array, and the others at the beginning of a second array, of the same length: one of the two
is the array that is read, so nothing is copied twice. Both keep their order, so elements with their
positions are sorted stably.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.compiler.emit.library.networks import (
    MOST,
    MOST_WITH_POSITIONS,
    Keys,
    Register,
    declarations,
    first_lanes,
    load_lanes,
    sort_registers,
    store_lanes,
)
from gradtape.compiler.emit.writer import Routine, Word
from gradtape.compiler.objects import llvm

# Vectors that a step of a partition reads before it writes any.
_AT_ONCE = 4
_LAST_POSITION = str(2**63 - 1)


def quicksort_text(keys: Keys) -> str:
    """The functions of `sort_part(source…, other…, count, to_other)`.

    It sorts the elements of `source`, to `source` or to `other`, which has the same length. Each is
    a pointer to keys, and one to positions if there are any.
    """
    networks = [_network(keys, count) for count in _counts(keys)]
    parts = [_partition(keys, how) for how in ("lt", "le")]
    return "\n".join([*declarations(keys), *networks, *parts, _sort(keys)])


def _counts(keys: Keys) -> list[int]:
    """How many vectors the networks sort."""
    found = [1]
    while found[-1] < (MOST_WITH_POSITIONS if keys.positions else MOST):
        found.append(2 * found[-1])
    return found


def pointers(keys: Keys, name: str) -> list[str]:
    """The parameters of an array."""
    return [f"ptr %{name}{part}" for part in range(len(keys.kinds))]


def _address(r: Routine, keys: Keys, part: int, base: str, index: Word) -> str:
    return r.let(f"getelementptr {keys.kinds[part]}, ptr {base}, i64 {index}")


def _loaded(r: Routine, keys: Keys, bases: Sequence[str], index: Word) -> Register:
    """A vector of elements."""
    return tuple(
        r.let(f"load {keys.vector(k)}, ptr {_address(r, keys, k, base, index)}, align 1")
        for k, base in enumerate(bases)
    )


def _network(keys: Keys, count: int) -> str:
    """The function that sorts more than half as many elements as `count` vectors have."""
    listed = [*pointers(keys, "source"), *pointers(keys, "target"), "i64 %count"]
    r = Routine(f"internal void @sort_small_{count}({', '.join(listed)})")
    parts = range(len(keys.kinds))
    others = (keys.last, _LAST_POSITION)
    registers: list[Register] = []
    masks: list[str] = []
    for number in range(count):
        start = number * keys.lanes
        if number < count // 2:
            masks.append("")
            registers.append(_loaded(r, keys, [f"%source{k}" for k in parts], start))
            continue
        masks.append(first_lanes(r, keys, r.subtract("%count", start)))
        registers.append(
            tuple(
                load_lanes(
                    r, keys, k, _address(r, keys, k, f"%source{k}", start), masks[-1], others[k]
                )
                for k in parts
            )
        )
    registers = sort_registers(r, keys, registers)
    for number, (register, mask) in enumerate(zip(registers, masks, strict=True)):
        for k, value in enumerate(register):
            place = _address(r, keys, k, f"%target{k}", number * keys.lanes)
            if mask:
                store_lanes(r, keys, k, place, mask, value)
            else:
                r.line(f"store {keys.vector(k)} {value}, ptr {place}, align 1")
    r.end("ret void")
    return r.text()


def _partition(keys: Keys, how: str) -> str:
    """The function that moves elements by a pivot, and gives the number of those before it."""
    names = ("source", "low", "high")
    listed = [each for name in names for each in pointers(keys, name)]
    listed += ["i64 %count", f"{keys.element} %pivot"]
    r = Routine(f"internal i64 @partition_{how}({', '.join(listed)})")
    if llvm.host().bits < 512:
        _partition_one_by_one(r, keys, how)
        return r.text()
    low, high = r.variable("i64", 0), r.variable("i64", 0)
    pivot = _everywhere(r, keys, "%pivot")
    sources = [f"%source{k}" for k in range(len(keys.kinds))]

    def pack(elements: Register, valid: str | None) -> None:
        before = keys.compared(r, how, elements[0], pivot)
        after = r.let(f"xor {keys.mask} {before}, {_ones(keys)}")
        if valid is not None:
            before, after = (r.let(f"and {keys.mask} {m}, {valid}") for m in (before, after))
        for name, mask, count in (("low", before, low), ("high", after, high)):
            at = count.get()
            for k, value in enumerate(elements):
                place, kind = _address(r, keys, k, f"%{name}{k}", at), keys.vector(k)
                if valid is None:
                    # The lanes behind those of the mask are written over, or not needed.
                    name_of = f"@llvm.experimental.vector.compress.{keys.suffix(k)}"
                    packed = r.call(
                        kind, name_of, f"{kind} {value}", f"{keys.mask} {mask}", f"{kind} poison"
                    )
                    r.line(f"store {kind} {packed}, ptr {place}, align 1")
                    continue
                r.do(
                    f"@llvm.masked.compressstore.{keys.suffix(k)}",
                    f"{kind} {value}",
                    f"ptr {place}",
                    f"{keys.mask} {mask}",
                )
            count.set(r.add(at, _set_lanes(r, keys, mask)))

    block = _AT_ONCE * keys.lanes
    blocks = r.let(f"udiv i64 %count, {block}")
    with r.loop(blocks) as number:
        first = r.multiply(number, block)
        # Packed elements lie before the end of what was read.
        read = [_loaded(r, keys, sources, r.add(first, n * keys.lanes)) for n in range(_AT_ONCE)]
        for elements in read:
            pack(elements, None)
    done = r.multiply(blocks, block)
    rest = r.subtract("%count", done)
    steps = r.let(f"udiv i64 {r.add(rest, keys.lanes - 1)}, {keys.lanes}")
    with r.loop(steps) as number:
        at = r.add(done, r.multiply(number, keys.lanes))
        valid = first_lanes(r, keys, r.subtract("%count", at))
        others = (keys.last, _LAST_POSITION)
        elements = tuple(
            load_lanes(r, keys, k, _address(r, keys, k, base, at), valid, others[k])
            for k, base in enumerate(sources)
        )
        pack(elements, valid)
    r.end(f"ret i64 {low.get()}")
    return r.text()


def _partition_one_by_one(r: Routine, keys: Keys, how: str) -> None:
    """Without instructions that pack vectors: each element is written to both arrays."""
    low, high = r.variable("i64", 0), r.variable("i64", 0)
    with r.loop("%count") as at:
        element = [
            r.let(f"load {kind}, ptr {_address(r, keys, k, f'%source{k}', at)}")
            for k, kind in enumerate(keys.kinds)
        ]
        before = keys.compared(r, how, element[0], "%pivot", keys.element)
        for name, count in (("low", low), ("high", high)):
            for k, (value, kind) in enumerate(zip(element, keys.kinds, strict=True)):
                place = _address(r, keys, k, f"%{name}{k}", count.get())
                r.line(f"store {kind} {value}, ptr {place}")
        one = r.let(f"zext i1 {before} to i64")
        low.set(r.add(low.get(), one))
        high.set(r.add(high.get(), r.subtract(1, one)))
    r.end(f"ret i64 {low.get()}")


def split_text(keys: Keys) -> str:
    """The function that packs elements before a pivot at one end of an array, others at the other.

    It gives the number of those before the pivot. The array is not the one that is read.
    """
    listed = ["ptr %source0", "ptr %target", "i64 %count", f"{keys.element} %pivot"]
    r = Routine(f"internal i64 @split_part({', '.join(listed)})")
    low, high = r.variable("i64", 0), r.variable("i64", "%count")
    if llvm.host().bits < 512:
        with r.loop("%count") as at:
            value = r.let(f"load {keys.element}, ptr {_address(r, keys, 0, '%source0', at)}")
            before = keys.compared(r, "lt", value, "%pivot", keys.element)
            one = r.let(f"zext i1 {before} to i64")
            high.set(r.subtract(high.get(), r.subtract(1, one)))
            place = r.select(before, low.get(), high.get())
            r.line(f"store {keys.element} {value}, ptr {_address(r, keys, 0, '%target', place)}")
            low.set(r.add(low.get(), one))
        r.end(f"ret i64 {low.get()}")
        return r.text()
    pivot = _everywhere(r, keys, "%pivot")
    steps = r.let(f"udiv i64 {r.add('%count', keys.lanes - 1)}, {keys.lanes}")
    kind = keys.vector()
    with r.loop(steps) as number:
        at = r.multiply(number, keys.lanes)
        valid = first_lanes(r, keys, r.subtract("%count", at))
        source = _address(r, keys, 0, "%source0", at)
        loaded = load_lanes(r, keys, 0, source, valid, keys.last)
        lower = keys.compared(r, "lt", loaded, pivot)
        upper = r.let(f"xor {keys.mask} {lower}, {_ones(keys)}")
        before, after = (r.let(f"and {keys.mask} {mask}, {valid}") for mask in (lower, upper))
        start, end = low.get(), r.subtract(high.get(), _set_lanes(r, keys, after))
        for mask, first in ((before, start), (after, end)):
            r.do(
                f"@llvm.masked.compressstore.{keys.suffix()}",
                f"{kind} {loaded}",
                f"ptr {_address(r, keys, 0, '%target', first)}",
                f"{keys.mask} {mask}",
            )
        low.set(r.add(start, _set_lanes(r, keys, before)))
        high.set(end)
    r.end(f"ret i64 {low.get()}")
    return r.text()


def _everywhere(r: Routine, keys: Keys, scalar: str) -> str:
    """A key in every lane."""
    start = r.let(f"insertelement {keys.vector()} poison, {keys.element} {scalar}, i32 0")
    zeros = f"<{keys.lanes} x i32> zeroinitializer"
    return r.let(f"shufflevector {keys.vector()} {start}, {keys.vector()} poison, {zeros}")


def _ones(keys: Keys) -> str:
    return "<" + ", ".join(["i1 true"] * keys.lanes) + ">"


def _set_lanes(r: Routine, keys: Keys, mask: str) -> str:
    """The number of lanes that are set in a mask."""
    lanes = f"i{keys.lanes}"
    bits = r.let(f"bitcast {keys.mask} {mask} to {lanes}")
    count = r.call(lanes, f"@llvm.ctpop.{lanes}", f"{lanes} {bits}")
    return r.let(f"zext {lanes} {count} to i64")


def _sort(keys: Keys) -> str:
    listed = [*pointers(keys, "first"), *pointers(keys, "second"), "i64 %length", "i1 %moves"]
    r = Routine(f"internal void @sort_part({', '.join(listed)})")
    parts = range(len(keys.kinds))
    source = [r.variable("ptr", f"%first{k}") for k in parts]
    other = [r.variable("ptr", f"%second{k}") for k in parts]
    length, moves = r.variable("i64", "%length"), r.variable("i1", "%moves")

    def arrays(*bases: Sequence[str]) -> list[str]:
        return [f"ptr {base}" for array in bases for base in array]

    def moved(bases: Sequence[str], by: str) -> list[str]:
        return [_address(r, keys, k, base, by) for k, base in enumerate(bases)]

    with r.repeat() as over:
        count, to_other = length.get(), moves.get()
        here, there = [each.get() for each in source], [each.get() for each in other]
        # Where the elements before the pivot belong, and the array beside it.
        low = [r.select(to_other, b, a, "ptr") for a, b in zip(here, there, strict=True)]
        high = [r.select(to_other, a, b, "ptr") for a, b in zip(here, there, strict=True)]
        for number in _counts(keys):
            with r.when(r.compare("sle", count, number * keys.lanes)):
                r.do(f"@sort_small_{number}", *arrays(here, low), f"i64 {count}")
                r.go(over)
        pivot = _pivot(r, keys, here[0], count)
        given = f"i64 {count}", f"{keys.element} {pivot}"
        before = r.call("i64", "@partition_lt", *arrays(here, low, high), *given)
        with r.when(r.equal(before, 0)):
            # The pivot is the smallest key: all that equal it are in place after this.
            same = r.call("i64", "@partition_le", *arrays(high, low, high), *given)
            rest = r.subtract(count, same)
            r.go_if(r.equal(rest, 0), over)
            for k, place in enumerate(moved(low, same)):
                source[k].set(high[k])
                other[k].set(place)
            length.set(rest)
            moves.set("true")
            r.go(over.replace("enough", "again"))
        rest = r.subtract(count, before)
        lower = (low, moved(high, rest), before, "false")
        upper = (high, moved(low, before), rest, "true")
        few = r.compare("slt", before, rest)
        number = r.fresh()
        r.end(f"br i1 {few}, label %lower{number}, label %upper{number}")
        # The smaller part is sorted by a call, so calls are nested to a small depth only.
        for name, called, kept in (("lower", lower, upper), ("upper", upper, lower)):
            r.block(f"{name}{number}")
            r.do("@sort_part", *arrays(called[0], called[1]), f"i64 {called[2]}", f"i1 {called[3]}")
            for k in parts:
                source[k].set(kept[0][k])
                other[k].set(kept[1][k])
            length.set(kept[2])
            moves.set(kept[3])
            r.go(over.replace("enough", "again"))
        r.block(f"never{number}")
        r.end("unreachable")
    r.end("ret void")
    return r.text()


def _pivot(r: Routine, keys: Keys, base: str, count: str) -> str:
    """The median of two vectors of elements, which are taken in equal distances."""
    plain = Keys(keys.element, keys.signed)
    samples = 2 * keys.lanes
    step = r.let(f"udiv i64 {count}, {samples}")
    first = r.let(f"udiv i64 {step}, 2")
    registers: list[Register] = []
    for number in range(2):
        found = "poison"
        for lane in range(keys.lanes):
            at = r.add(first, r.multiply(step, number * keys.lanes + lane))
            one = r.let(f"load {keys.element}, ptr {_address(r, keys, 0, base, at)}")
            found = r.let(
                f"insertelement {keys.vector()} {found}, {keys.element} {one}, i32 {lane}"
            )
        registers.append((found,))
    last = sort_registers(r, plain, registers)[1][0]
    return r.let(f"extractelement {keys.vector()} {last}, i32 0")
