"""Sorting networks: up to sixteen vectors of keys sorted in registers, without branches.

Batcher's bitonic network compares the elements e and e ^ j: between vectors, or with a shuffled
vector. Keys may come with the positions of their elements, which decide between equal keys, so that
the order is the stable one.
"""

from __future__ import annotations

from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects import llvm
from gradtape.records import dataclass

# The largest network has so many vectors.
MOST = 16
# The largest network of keys with positions. One of eight vectors takes 0.2 s to compile, and sorts
# rows of 1,000 in 85 % of the time.
MOST_WITH_POSITIONS = 4

# The vectors of the parts of some elements: keys, and positions if they come with them.
Register = tuple[str, ...]


@dataclass(frozen=True)
class Keys:
    """How elements are compared: the type of keys, and whether positions come with them.

    Floats are numbers, not NaN. Keys with positions are signed integers.
    """

    element: str
    signed: bool = True
    positions: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types of the parts of an element."""
        return (self.element, "i64") if self.positions else (self.element,)

    @property
    def size(self) -> int:
        """The bytes of a key."""
        return 4 if self.element in ("float", "i32") else 8

    @property
    def lanes(self) -> int:
        """The number of elements in a vector."""
        return max(2, llvm.host().bits // (8 * self.size))

    @property
    def last(self) -> str:
        """The key that comes after all others, or is equal to the last."""
        if self.element in ("double", "float"):
            return llvm.real_text(float("inf"), self.element)
        bits = 8 * self.size
        return str(2 ** (bits - 1) - 1 if self.signed else -1)

    def vector(self, part: int = 0) -> str:
        """The type of a vector of parts."""
        return llvm.vector(self.kinds[part], self.lanes)

    @property
    def mask(self) -> str:
        """The type of a vector of conditions."""
        return llvm.vector("i1", self.lanes)

    def suffix(self, part: int = 0) -> str:
        """The type of a vector in the names of LLVM's functions."""
        names = {"double": "f64", "float": "f32"}
        return f"v{self.lanes}{names.get(self.kinds[part], self.kinds[part])}"

    def compared(self, r: Routine, how: str, x: str, y: str, kind: str | None = None) -> str:
        """A comparison of keys: lt, le or gt."""
        kind = self.vector() if kind is None else kind
        if self.element in ("double", "float"):
            return r.let(f"fcmp o{how} {kind} {x}, {y}")
        return r.let(f"icmp {'s' if self.signed else 'u'}{how} {kind} {x}, {y}")

    def before(self, r: Routine, x: Register, y: Register) -> str:
        """Where x comes before y."""
        smaller = self.compared(r, "lt", x[0], y[0])
        if not self.positions:
            return smaller
        same = r.let(f"icmp eq {self.vector()} {x[0]}, {y[0]}")
        first = r.let(f"icmp slt {self.vector(1)} {x[1]}, {y[1]}")
        tied = r.let(f"and {self.mask} {same}, {first}")
        return r.let(f"or {self.mask} {smaller}, {tied}")

    def chosen(self, r: Routine, mask: str, x: Register, y: Register) -> Register:
        """x where a mask is set, y elsewhere."""
        return tuple(
            r.let(f"select {self.mask} {mask}, {self.vector(k)} {a}, {self.vector(k)} {b}")
            for k, (a, b) in enumerate(zip(x, y, strict=True))
        )


def sort_registers(r: Routine, keys: Keys, registers: list[Register]) -> list[Register]:
    """The elements of some vectors, a power of two of them, in ascending order.

    Element e is in lane e // n of vector e % n while they are sorted: most comparisons are then
    between vectors.
    """
    found, count = list(registers), len(registers)
    run = 2
    while run <= keys.lanes * count:
        # Two runs that are sorted are compared, the second one backwards.
        _compare(r, keys, found, run - 1)
        distance = run // 4
        while distance:
            _compare(r, keys, found, distance)
            distance //= 2
        run *= 2
    return _in_rows(r, keys, found)


def _compare(r: Routine, keys: Keys, found: list[Register], distance: int) -> None:
    """Compare the elements e and e ^ distance."""
    count = len(found)
    lane, vector = distance // count, distance % count
    before = list(found)
    if not lane:
        for number, x in enumerate(before):
            other = number ^ vector
            if number < other:
                y = before[other]
                smaller = keys.before(r, x, y)
                found[number] = keys.chosen(r, smaller, x, y)
                found[other] = keys.chosen(r, smaller, y, x)
        return
    for number, x in enumerate(before):
        found[number] = _inside(r, keys, x, _turned(r, keys, before[number ^ vector], lane), lane)


def _turned(r: Routine, keys: Keys, x: Register, distance: int) -> Register:
    """The elements of the lanes l ^ distance."""
    order = _order([lane ^ distance for lane in range(keys.lanes)])
    return tuple(
        r.let(f"shufflevector {keys.vector(k)} {part}, {keys.vector(k)} poison, {order}")
        for k, part in enumerate(x)
    )


def _inside(r: Routine, keys: Keys, x: Register, y: Register, distance: int) -> Register:
    """The smaller of two elements in the lower one of two lanes at a distance, else the larger."""
    highest = 1 << (distance.bit_length() - 1)
    lower = [not lane & highest for lane in range(keys.lanes)]
    if keys.element in ("double", "float"):
        # An instruction each; of equal numbers both give the other one, so that none is lost.
        low = keys.chosen(r, keys.compared(r, "lt", x[0], y[0]), x, y)
        high = keys.chosen(r, keys.compared(r, "gt", x[0], y[0]), x, y)
        return keys.chosen(r, _bits(lower), low, high)
    before = keys.before(r, x, y)
    wanted = r.let(f"xor {keys.mask} {before}, {_bits([not each for each in lower])}")
    return keys.chosen(r, wanted, x, y)


def _in_rows(r: Routine, keys: Keys, registers: list[Register]) -> list[Register]:
    """Element e, in lane e // n of vector e % n, moves to lane e % lanes of vector e // lanes."""
    found, lanes = list(registers), keys.lanes
    bits = (len(found) - 1).bit_length()
    # The bit of e that each bit of the number of a vector is, and each bit of that of a lane.
    of_vector = list(range(bits))
    of_lane = list(range(bits, bits + (lanes - 1).bit_length()))
    for place in range(len(of_lane)):
        if place in of_vector:
            other = of_vector.index(place)
            _exchange(r, keys, found, other, place)
            of_vector[other], of_lane[place] = of_lane[place], place
    assert of_lane == list(range(len(of_lane)))
    ordered = list(found)
    for number, register in enumerate(found):
        target = sum((number >> bit & 1) << (of_vector[bit] - len(of_lane)) for bit in range(bits))
        ordered[target] = register
    return ordered


def _exchange(r: Routine, keys: Keys, found: list[Register], bit: int, place: int) -> None:
    """Exchange a bit of the number of vectors with a bit of the number of lanes."""
    lanes, step = keys.lanes, 1 << place
    first = _order([lane if not lane & step else lanes + (lane ^ step) for lane in range(lanes)])
    second = _order([lane ^ step if not lane & step else lanes + lane for lane in range(lanes)])
    for number in range(len(found)):
        other = number | 1 << bit
        if number == other:
            continue
        x, y = found[number], found[other]
        found[number], found[other] = (
            tuple(
                r.let(f"shufflevector {keys.vector(k)} {a}, {keys.vector(k)} {b}, {order}")
                for k, (a, b) in enumerate(zip(x, y, strict=True))
            )
            for order in (first, second)
        )


def _order(lanes: list[int]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"


def _bits(flags: list[bool]) -> str:
    return "<" + ", ".join(f"i1 {str(flag).lower()}" for flag in flags) + ">"


def first_lanes(r: Routine, keys: Keys, count: str) -> str:
    """A mask of the lanes before a number of them."""
    kind = llvm.vector("i64", keys.lanes)
    start = r.let(f"insertelement {kind} poison, i64 {count}, i32 0")
    every = r.let(
        f"shufflevector {kind} {start}, {kind} poison, <{keys.lanes} x i32> zeroinitializer"
    )
    numbers = ", ".join(f"i64 {lane}" for lane in range(keys.lanes))
    return r.let(f"icmp sgt {kind} {every}, <{numbers}>")


def splat(keys: Keys, text: str, part: int = 0) -> str:
    """A constant in every lane."""
    return "<" + ", ".join([f"{keys.kinds[part]} {text}"] * keys.lanes) + ">"


def load_lanes(r: Routine, keys: Keys, part: int, place: str, mask: str, other: str) -> str:
    """The lanes of a mask, and a constant in the others."""
    kind = keys.vector(part)
    return r.call(
        kind,
        f"@llvm.masked.load.{keys.suffix(part)}.p0",
        f"ptr {place}",
        "i32 1",
        f"{keys.mask} {mask}",
        f"{kind} {splat(keys, other, part)}",
    )


def store_lanes(r: Routine, keys: Keys, part: int, place: str, mask: str, value: str) -> None:
    """Store the lanes of a mask."""
    r.do(
        f"@llvm.masked.store.{keys.suffix(part)}.p0",
        f"{keys.vector(part)} {value}",
        f"ptr {place}",
        "i32 1",
        f"{keys.mask} {mask}",
    )


def declarations(keys: Keys) -> list[str]:
    """The functions of LLVM that are called on vectors of keys and positions."""
    found = []
    for part in range(len(keys.kinds)):
        kind, name = keys.vector(part), keys.suffix(part)
        found += [
            f"declare {kind} @llvm.masked.load.{name}.p0(ptr, i32, {keys.mask}, {kind})",
            f"declare void @llvm.masked.store.{name}.p0({kind}, ptr, i32, {keys.mask})",
            f"declare void @llvm.masked.compressstore.{name}({kind}, ptr, {keys.mask})",
            f"declare {kind} @llvm.experimental.vector.compress.{name}"
            f"({kind}, {keys.mask}, {kind})",
        ]
    found.append(f"declare i{keys.lanes} @llvm.ctpop.i{keys.lanes}(i{keys.lanes})")
    return list(dict.fromkeys(found))
