"""Guard table: guards as rows of words that native code compares in a few nanoseconds each.

A row says where a pointer lies and which object it must point to: an entry of a dictionary, a word
of an object (a cell, the parts of a function, the length of a dictionary), or the memory of an
array. All that is compared by identity; where something is another object, Python checks whether it
is an equal one. The first row is the word that turns 0 before any of the objects is freed.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import operator
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape.compiler.cpython.call_context import AN_ENTRY, GUARD, SOME_MEMORY, THE_WORD
from gradtape.compiler.cpython.objects import word
from gradtape.config import MOST_NATIVE_ITEMS
from gradtape.jit.guards import guards as comparisons
from gradtape.trace.change_counter import changes

_Words = tuple[int, int, int, int]
_Make = Callable[[comparisons.GuardRow, Any, list[Any]], Iterator[_Words]]

# Offsets of the length of dictionaries and lists, the content of cells, the items of lists.
_LENGTH, _CONTENT, _ITEMS = 16, 16, 24
# Offsets of the keys of dictionaries, and of their count of entries that were ever added.
_KEYS, _ENTRIES = 32, 24
# Where a function may keep its parts, in words; where the dictionary of an instance may be.
_FUNCTION_WORDS = 24
_MANAGED = -24


class NotNativeError(Exception):
    """Only Python can compare this."""


class GuardTable:
    """The words of all guards that native code compares, and the guards that are left to Python."""

    def __init__(self, guards: comparisons.Guards, check: Callable[[int, int], int]) -> None:
        self._check = check
        self._kept: list[Any] = []
        # The kept objects are released when one of the guarded objects is gone.
        guards.holders.drop(self._kept)
        words, kept, self.rest = _table(guards)
        self._kept += kept
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.address, self.count = ctypes.addressof(self._words), len(words) // GUARD

    def fill(self, guards: comparisons.Guards) -> None:
        """Compare with the values that are noted now."""
        words, kept, rest = _table(guards)
        if len(words) == len(self._words) and bool(rest) == bool(self.rest):
            ctypes.memmove(self._words, (ctypes.c_int64 * len(words))(*words), 8 * len(words))
            self._kept[:], self.rest[:] = kept, rest
        else:
            # Native calls have the old number of rows: they leave all calls to Python now.
            self._words[GUARD - 1] = -1

    def holds(self) -> bool:
        """Whether all guards hold; False means that Python has to compare."""
        return bool(self._check(self.address, self.count)) and not self.rest_differs()

    def rest_differs(self) -> bool:
        """Whether any of the guards that are left to Python does not hold."""
        return any(each.changed() is not None for each in self.rest)


def _table(guards: comparisons.Guards) -> tuple[list[int], list[Any], list[comparisons.Guard]]:
    """The words, what they point to, and the guards that have none."""
    kept: list[Any] = [guards.holders.live, changes]
    rest: list[comparisons.Guard] = []
    rows: list[_Words] = [(THE_WORD, guards.holders.live.buffer_info()[0], 0, 1)]
    if guards.announced:
        rows.append((THE_WORD, changes.buffer_info()[0], 0, guards.version))
    for each in (*guards.rows, *guards.compared):
        try:
            rows += [*_words_of(each, kept)]
        except NotNativeError:
            rest.append(each)
    return [number for row in rows for number in row], kept, rest


def _words_of(guard: comparisons.Guard, kept: list[Any]) -> Iterator[_Words]:
    if isinstance(guard, comparisons.Absent):
        dictionary = _dictionary_of(guard.dictionary())
        kept.append(dictionary)
        return iter([(THE_WORD, id(dictionary) + _LENGTH, 0, guard.count)])
    if isinstance(guard, comparisons.ArrayContent):
        return _array(guard, kept)
    holder = comparisons.held(guard.holder)
    make = _OF_HOLDER.get(type(holder)) or _OF_READ.get(guard.read)
    if make is None and guard.names:
        make = _entries if type(guard.read) is operator.itemgetter else _attributes
    if make is None or holder is None:
        raise NotNativeError
    if type(guard.holder) is not weakref.ref:
        kept.append(holder)
    return make(guard, holder, kept)


def _entries(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    dictionary = _dictionary_of(holder)
    kept.append(dictionary)
    for name, seen in zip(row.names, row.ids, strict=False):
        kept.append(name)
        yield AN_ENTRY, id(dictionary), id(name), seen


def _attributes(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    """Attributes of an instance: in its dictionary, or plain ones of its class."""
    own = comparisons.dictionary_of(holder)
    if type(own) is not dict or word(id(holder) + _MANAGED) != id(own):
        raise NotNativeError
    kept.append(own)
    # The dictionary may be exchanged for another one.
    yield THE_WORD, id(holder) + _MANAGED, 0, id(own)
    for name, seen in zip(row.names, row.ids, strict=False):
        kept.append(name)
        if name == "__class__":
            if type(holder) is not holder.__class__:
                raise NotNativeError
            yield THE_WORD, id(holder) + 8, 0, seen
        elif name in own:
            yield AN_ENTRY, id(own), id(name), seen
        else:
            owner = next((each for each in type(holder).__mro__ if name in vars(each)), None)
            if owner is None or id(vars(owner)[name]) != seen:
                raise NotNativeError
            entries = _dictionary_of(vars(owner))
            kept.append(entries)
            yield AN_ENTRY, id(entries), id(name), seen
            yield AN_ENTRY, id(own), id(name), 0


def _function(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    if row.read is not comparisons.FUNCTION_PARTS:
        raise NotNativeError
    for name, seen in zip(comparisons.PART_NAMES, row.ids, strict=True):
        address = id(holder) + _offsets()[name]
        found = word(address)
        # None is a null pointer there.
        if found != seen and not (found == 0 and seen == id(None)):
            raise NotNativeError
        yield THE_WORD, address, 0, found


def _cell(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    yield THE_WORD, id(holder) + _CONTENT, 0, row.ids[0]


def _list(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    if len(row.ids) > MOST_NATIVE_ITEMS:
        raise NotNativeError
    items = word(id(holder) + _ITEMS)
    yield THE_WORD, id(holder) + _LENGTH, 0, len(row.ids)
    yield THE_WORD, id(holder) + _ITEMS, 0, items
    for number, seen in enumerate(row.ids):
        yield THE_WORD, items + 8 * number, 0, seen


def _keys(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    """The keys of a dictionary: it has as many, and none was removed and added again."""
    if not _has_texts(holder) or not _knows_keys():
        raise NotNativeError
    keys = word(id(holder) + _KEYS)
    yield THE_WORD, id(holder) + _LENGTH, 0, len(row.ids)
    yield THE_WORD, id(holder) + _KEYS, 0, keys
    yield THE_WORD, keys + _ENTRIES, 0, word(keys + _ENTRIES)


def _values(row: comparisons.GuardRow, holder: Any, kept: list[Any]) -> Iterator[_Words]:
    if not _has_texts(holder) or len(row.ids) > MOST_NATIVE_ITEMS or len(row.ids) != len(holder):
        raise NotNativeError
    for key, seen in zip(holder, row.ids, strict=True):
        kept.append(key)
        yield AN_ENTRY, id(holder), id(key), seen


def _has_texts(holder: Any) -> bool:
    return type(holder) is dict and all(type(key) is str for key in holder)


def _knows_keys() -> bool:
    """Whether dictionaries count the entries that were ever added where this module expects it."""
    sample = dict.fromkeys(("one", "two", "three"))
    first = word(word(id(sample) + _KEYS) + _ENTRIES)
    del sample["one"]
    sample["one"] = None
    return (first, word(word(id(sample) + _KEYS) + _ENTRIES)) == (3, 4)


def _array(guard: comparisons.ArrayContent, kept: list[Any]) -> Iterator[_Words]:
    now, then = guard.array, guard.content
    if then is None or not now.flags.c_contiguous or type(now) is not np.ndarray:
        raise NotNativeError
    kept += (now, then)
    return iter([(SOME_MEMORY, now.ctypes.data, then.ctypes.data, now.nbytes)])


_OF_HOLDER: dict[type, _Make] = {types.CellType: _cell, types.FunctionType: _function}
_OF_READ: dict[Any, _Make] = {
    list.copy: _list,
    dict.keys: _keys,
    dict.values: _values,
}


def _dictionary_of(holder: Any) -> dict[Any, Any]:
    """The dictionary itself, also behind the view of it that a class shows."""
    if type(holder) is types.MappingProxyType:
        (holder,) = gc.get_referents(holder)
    if type(holder) is not dict:
        raise NotNativeError
    return holder


@functools.cache
def _offsets() -> dict[str, int]:
    """Offsets of the parts of functions: found in one whose parts are all different."""

    def sample(one: object = array, *, other: object = ctypes) -> None:
        pass

    found = {}
    for name in comparisons.PART_NAMES:
        part = id(getattr(sample, name))
        places = [8 * at for at in range(2, _FUNCTION_WORDS) if word(id(sample) + 8 * at) == part]
        if len(places) != 1:
            raise NotNativeError
        (found[name],) = places
    return found
