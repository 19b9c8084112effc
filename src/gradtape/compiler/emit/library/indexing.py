"""Routines on positions: checks of indices, and which of several writes to a position stays."""

from __future__ import annotations

from gradtape.compiler.emit.library.elements import Elements
from gradtape.compiler.emit.library.library_routine import LibraryRoutine


def check_positions(dtype: str) -> str:
    """Indices as positions from 0 on; one that is out of range fails.

    Words: the length of the axis. Items: indices.
    """
    of = LibraryRoutine("check_positions", 1, 1, ("length",))
    r, length = of.r, of.words["length"]
    indices, positions = Elements(r, of.operands[0], dtype), Elements(r, of.results[0], "i8")
    bad = r.variable("i1", "false")
    with r.loop("%hi", "%lo") as at:
        index = indices.integer(at)
        below = r.compare("slt", index, 0)
        # A large unsigned index is negative as a word.
        if dtype == "u8":
            found, wrong = index, r.compare("uge", index, length)
        else:
            found = r.select(below, r.add(index, length), index)
            wrong = r.compare("uge", found, length)
        bad.set(r.either(bad.get(), wrong))
        positions.put(at, found)
    with r.when(bad.get()):
        of.fail()
    return of.text()


def last_writers() -> str:
    """The last of the writes to each position.

    Words: the number of writes. Scratch: a word for each position. Items: all at once.
    """
    of = LibraryRoutine("last_writers", 1, 1, ("count",))
    r, count = of.r, of.words["count"]
    positions, last = Elements(r, of.operands[0], "i8"), Elements(r, of.scratch, "i8")
    result = Elements(r, of.results[0], "b1")
    with r.loop(count) as at:
        last.put(positions.get(at), at)
    with r.loop(count) as at:
        result.put(at, r.equal(last.get(positions.get(at)), at))
    return of.text()


def scatter_winners(dtype: str) -> str:
    """For each element, the number of the largest value written to it, or -1 if it stays.

    The first of equal values counts, and a NaN is larger than every number.
    Words: elements of a row, the number of writes, and elements. Items: columns.
    Scratch: none; the best value so far is that of the winner so far.
    """
    of = LibraryRoutine("scatter_winners", 3, 1, ("width", "count", "rows"))
    r, width = of.r, of.words["width"]
    values = Elements(r, of.operands[2], dtype)
    positions = Elements(r, of.operands[1], "i8")
    winner = Elements(r, of.results[0], "i8")
    with r.loop(of.words["rows"]) as row, r.loop("%hi", "%lo") as column:
        winner.put(r.add(r.multiply(row, width), column), -1)
    with r.loop(of.words["count"]) as number:
        row, start = r.multiply(positions.get(number), width), r.multiply(number, width)
        with r.loop("%hi", "%lo") as column:
            place = r.add(row, column)
            before = winner.get(place)
            stays = r.compare("slt", before, 0)
            # The value that the next one must exceed.
            source = r.select(stays, of.operands[0], of.operands[2], "ptr")
            at = r.select(stays, place, r.add(r.multiply(before, width), column))
            best = Elements(r, source, dtype).get(at)
            with r.when(values.exceeds(values.get(r.add(start, column)), best)):
                winner.put(place, number)
    return of.text()


def copy_words() -> str:
    """The operand's bytes. Items: bytes."""
    of = LibraryRoutine("copy_words", 1, 1)
    r = of.r
    size = r.subtract("%hi", "%lo")
    source, target = r.at(of.operands[0], "%lo"), r.at(of.results[0], "%lo")
    r.copy(target, source, size)
    return of.text()
