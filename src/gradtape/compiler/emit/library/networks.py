"""Sorting networks: up to sixteen vectors of keys sorted in registers, without branches.

Batcher's bitonic network compares the elements e and e ^ j: between vectors, or with a shuffled
vector. Keys may come with the positions of their elements, which decide between equal keys, so that
the order is the stable one.
"""

from __future__ import annotations

from gradtape.compiler.emit.writer import Routine, Typed, constants, every_lane
from gradtape.compiler.objects import llvm

# The vectors of the parts of some elements: keys, and positions if they come with them.
Register = tuple[str, ...]


class Keys:
    """The comparison of elements: the type of keys, and whether positions come with them.

    Floats are numbers, not NaN. Keys with positions are signed integers.
    """

    def __init__(self, element: str, signed: bool = True, positions: bool = False) -> None:
        self.element, self.signed, self.positions = element, signed, positions
        self.size = 4 if element in ("float", "i32") else 8
        self.lanes = max(2, llvm.host().bits // (8 * self.size))
        # The types of the parts of an element, and those of their vectors.
        self.kinds = (element, "i64") if positions else (element,)
        self.vectors = [llvm.vector(kind, self.lanes) for kind in self.kinds]
        # The key that comes after all others, or is equal to the last.
        most = str(2 ** (8 * self.size - 1) - 1 if signed else -1)
        if element in ("double", "float"):
            most = llvm.real_text(float("inf"), element)
        self.last = Typed(most, element)
        # Vectors of that key, and of a position behind all others.
        known = zip(self.kinds, (most, str(2**63 - 1)), strict=False)
        self.lasts = [every_lane(kind, each, self.lanes) for kind, each in known]

    def compared(self, r: Routine, how: str, x: str, y: str) -> Typed:
        """A comparison of keys: lt, le or gt."""
        if self.element in ("double", "float"):
            return r.compare(f"o{how}", x, y)
        return r.compare(f"{'s' if self.signed else 'u'}{how}", x, y)

    def before(self, r: Routine, x: Register, y: Register) -> str:
        """A mask of the elements of x that come before those of y."""
        smaller = self.compared(r, "lt", x[0], y[0])
        if not self.positions:
            return smaller
        first = r.compare("slt", x[1], y[1])
        return r.op("or", smaller, r.op("and", r.compare("eq", x[0], y[0]), first))

    def chosen(self, r: Routine, mask: str, x: Register, y: Register) -> Register:
        """x where a mask is set, y elsewhere."""
        return tuple(r.select(mask, *pair) for pair in zip(x, y, strict=True))


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
    order = [lane ^ distance for lane in range(keys.lanes)]
    return tuple(r.shuffle(part, order) for part in x)


def _inside(r: Routine, keys: Keys, x: Register, y: Register, distance: int) -> Register:
    """The smaller of two elements in the lower one of two lanes at a distance, else the larger."""
    highest = 1 << (distance.bit_length() - 1)
    lower = [not lane & highest for lane in range(keys.lanes)]
    if keys.element in ("double", "float"):
        # An instruction each; of equal numbers both give the other one, so that none is lost.
        low = keys.chosen(r, keys.compared(r, "lt", x[0], y[0]), x, y)
        high = keys.chosen(r, keys.compared(r, "gt", x[0], y[0]), x, y)
        return keys.chosen(r, constants("i1", map(int, lower)), low, high)
    upper = constants("i1", (int(not each) for each in lower))
    return keys.chosen(r, r.op("xor", keys.before(r, x, y), upper), x, y)


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
    first = [lane if not lane & step else lanes + (lane ^ step) for lane in range(lanes)]
    second = [lane ^ step if not lane & step else lanes + lane for lane in range(lanes)]
    for number in range(len(found)):
        other = number | 1 << bit
        if number == other:
            continue
        x, y = found[number], found[other]
        found[number], found[other] = (
            tuple(r.shuffle(a, order, b) for a, b in zip(x, y, strict=True))
            for order in (first, second)
        )
