"""Guards: what a function names outside itself, compared before every replay.

A guard is a row: how to read some values of a holder, and which objects were there. Objects are
held by weak references, so guards keep nothing alive but plain values and containers; when one of
the objects is gone, the guards do not hold any more. Rows of objects that announce their changes
(`TellsChanges`) are compared only after an announcement.
"""

from __future__ import annotations

import array
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import (
    LARGEST_ARRAY_AS_TEXT,
    LARGEST_ARRAY_COPIED_AT_ONCE,
    LARGEST_PROVEN_ARRAY,
)
from gradtape.ir.origin import shown_line
from gradtape.jit.guards.names import line_of
from gradtape.trace.change_counter import changes

if TYPE_CHECKING:
    from gradtape.jit.native.guard_table import GuardTable

PART_NAMES = ("__code__", "__defaults__", "__kwdefaults__")
FUNCTION_PARTS = operator.attrgetter(*PART_NAMES)
PLAIN = (int, float, complex, str, bytes)

SINGLE = (type(None), bool, type(...), type(NotImplemented), *PLAIN)

Difference = tuple[str, str, str]
Read = Callable[[Any], Sequence[Any]]


class Holders:
    """Weak references to guarded objects; when one of these is gone, all guards are dropped.

    `live` is a word for native code: 1 until then.
    """

    def __init__(self) -> None:
        drops: list[list[Any]] = []
        live = self.live = array.array("q", [1])

        def gone(reference: object) -> None:
            live[0] = 0
            for rows in drops:
                rows.clear()

        self._drops, self._gone = drops, gone
        self._known: dict[int, weakref.ref[Any]] = {}

    def drop(self, rows: list[Any]) -> None:
        """Empty a list of guards when an object is gone."""
        self._drops.append(rows)

    def hold(self, thing: Any) -> Any:
        """A weak reference, or what has none itself."""
        if type(thing) in SINGLE:
            return thing
        known = self._known.get(id(thing))
        if known is None:
            try:
                known = self._known[id(thing)] = weakref.ref(thing, self._gone)
            except TypeError:
                return thing
        return known


def held(thing: Any) -> Any:
    """The argument of `Holders.hold`; None if it is gone."""
    return thing() if type(thing) is weakref.ref else thing


class GuardRow:
    """Some values of one holder: how they are read, and what they were."""

    __slots__ = ("_holders", "holder", "ids", "kept", "labels", "names", "read")

    def __init__(
        self,
        read: Read,
        holder: Any,
        values: list[Any],
        labels: Sequence[str] | str,
        holders: Holders,
        names: Sequence[str] = (),
    ) -> None:
        self.read = read
        # The kind of read: entries of a dictionary, or attributes.
        self.names = names
        # The names of the values; or one for all, if they are the contents of a container.
        self.labels = labels
        self._holders = holders
        self.note(values)
        self.holder = holders.hold(holder)

    def note(self, values: list[Any]) -> None:
        """These are the values to be found from now on."""
        self.kept = [*map(self._holders.hold, values)]
        self.ids = [*map(id, values)]

    def changed(self) -> Difference | None:
        """The first value that is another one. Equal plain values replace those seen."""
        try:
            now = [*self.read(held(self.holder))]
        except Exception as error:
            before = in_words(held(self.kept[0])) if self.kept else "empty"
            return self._label(0), before, f"unreadable ({type(error).__name__})"
        if [*map(id, now)] == self.ids:
            return None
        seen = [*map(held, self.kept)]
        if len(now) != len(seen):
            return self._label(0), f"of length {len(seen)}", f"of length {len(now)}"
        for number, (one, other) in enumerate(zip(now, seen, strict=True)):
            if one is not other and is_other(one, other):
                return self._label(number), in_words(other), in_words(one)
        self.note(now)
        return None

    def _label(self, number: int) -> str:
        if isinstance(self.labels, str):
            return self.labels
        return self.labels[number] if self.labels else "something"


class Absent:
    """Names that code reads, or Python itself, and that a dictionary does not have."""

    __slots__ = ("_label", "_names", "_read", "count", "holder", "known")

    def __init__(
        self,
        read: Callable[[Any], Any],
        holder: Any,
        names: Set[str],
        label: str,
        holders: Holders,
    ) -> None:
        self._read = read
        self._names = names
        self._label = label
        self.known = frozenset(read(holder))
        self.count = len(self.known)
        self.holder = holders.hold(holder)

    def dictionary(self) -> Any:
        """The dictionary."""
        return self._read(held(self.holder))

    def changed(self) -> Difference | None:
        """The first name that is there now."""
        entries = self.dictionary()
        if entries is None:
            return self._label, "with attributes", "without any"
        for name in () if len(entries) == self.count else [*entries]:
            if name not in self.known and (name in self._names or is_special(name)):
                return f"{self._label}.{name}".lstrip("."), "absent", in_words(entries[name])
        self.count = len(entries)
        return None


class ArrayContent:
    """The content of an array whose elements Python may have read."""

    __slots__ = ("array", "content", "is_input", "label", "layout")

    def __init__(self, array: np.ndarray, label: str) -> None:
        self.array = array
        self.label = label
        self.layout = _layout(array)
        # Whether it has entered the program whole, and may be an input of it.
        self.is_input = False
        self.content: np.ndarray | None = None
        if array.nbytes <= LARGEST_ARRAY_COPIED_AT_ONCE:
            self.copy()

    def copy(self) -> None:
        """Remember the content of now."""
        self.content = np.array(self.array, order="C")

    def differs(self) -> bool:
        """Whether its content is another one."""
        now, then = self.array, self.content
        if _layout(now) != self.layout:
            return True
        if then is None:
            return False
        if now.nbytes <= LARGEST_ARRAY_AS_TEXT or not now.flags.c_contiguous:
            return bool(now.tobytes() != then.tobytes())
        word = np.uint64 if now.nbytes % 8 == 0 else np.uint8
        return not np.array_equal(now.reshape(-1).view(word), then.reshape(-1).view(word))

    def changed(self) -> Difference | None:
        """The label of the array, if its elements are others."""
        return (self.label, "an array", "one with other elements") if self.differs() else None


def _layout(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype


Guard = GuardRow | Absent | ArrayContent


class Guards:
    """Everything that is compared before a replay of one function with arguments of one kind."""

    def __init__(self) -> None:
        self.rows: list[GuardRow | Absent] = []
        # Rows of objects that announce every change, and the announcements counted so far.
        self.announced: list[GuardRow] = []
        self.version = changes[0]
        self.holders = Holders()
        self.holders.drop(self.rows)
        self.holders.drop(self.announced)
        # Arrays that the function can reach, by id, and those that are compared.
        self.arrays: dict[int, ArrayContent] = {}
        self.compared: list[ArrayContent] = []
        # Native code that compares most of the rows, once there is any.
        self.table: GuardTable | None = None
        # Code that was searched.
        self.codes: dict[CodeType, None] = {}

    def renew_arrays(self) -> None:
        """Remember the content that arrays have now, before a run, if none is compared yet."""
        for each in () if self.compared else self.arrays.values():
            if each.content is not None:
                each.copy()

    def seal(self, entered: set[int]) -> None:
        """Compare arrays from now on; those that have `entered` the program may be inputs."""
        for key, each in self.arrays.items():
            each.is_input = key in entered
            if not (each.is_input and each.array.nbytes > LARGEST_PROVEN_ARRAY):
                if each.content is None:
                    each.copy()
                self.compared.append(each)

    def free_arrays(self) -> None:
        """Arrays with other elements gave the same program: they are inputs of it."""
        self.compared = [each for each in self.compared if not (each.is_input and each.differs())]

    def changed_arrays(self) -> set[int]:
        """The ids of compared arrays that have other elements."""
        return {id(each.array) for each in self.compared if each.differs()}

    def differs(self) -> bool:
        """Whether anything is another one than when the guards were made."""
        table = self.table
        if table is not None and table.holds():
            return False
        # The number is read before the comparisons: a change in between is noticed.
        version = changes[0]
        announced = () if version == self.version else self.announced
        if self._first((*announced, *self.rows, *self.compared)) is not None:
            return True
        self.version = version
        if table is not None:
            table.fill(self)
        return False

    def difference(self) -> Difference | None:
        """The first thing that has changed, what it was, and what it is."""
        return self._first((*self.announced, *self.rows, *self.compared))

    def _first(self, guards: Iterable[Guard]) -> Difference | None:
        found = _first_changed(guards)
        return ("something", "there", "gone") if not (found or self.holders.live[0]) else found

    def only_inputs_differ(self) -> bool:
        """Whether all that has changed are arrays that may be inputs of the program."""
        others = [each for each in self.compared if not each.is_input]
        return self._first((*self.announced, *self.rows, *others)) is None

    def changed_by_run(self) -> Difference | None:
        """The first thing that a run has changed.

        Arrays that may be inputs of the program were compared before the run, if they had to be.
        """
        others = [each for each in self.arrays.values() if not each.is_input]
        return _first_changed((*self.announced, *self.rows, *others))

    def values(self) -> list[tuple[str, str]]:
        """The name and the value of everything that is compared, in words."""
        found: list[tuple[str, str]] = []
        for row in (*self.rows, *self.announced):
            if isinstance(row, Absent):
                continue
            if any(isinstance(held(each), CodeType) for each in row.kept):
                continue  # functions are there by the names that hold them
            if isinstance(row.labels, str):
                found.append((row.labels, f"{len(row.kept)} entries"))
            else:
                kept = zip(row.labels, row.kept, strict=False)
                found += [(label, in_words(held(each))) for label, each in kept]
        found += [(each.label, in_words(each.array)) for each in self.compared]
        return [*{label: value for label, value in reversed(found) if label}.items()][::-1]

    def line(self, label: str) -> str:
        """The user's line that reads this name; "" if unknown."""
        name = label.partition("[")[0].rpartition(".")[2]
        for code in self.codes:
            number = line_of(code, name)
            if number is not None:
                return shown_line(code, number)
        return ""


def _first_changed(guards: Iterable[Guard]) -> Difference | None:
    return next(filter(None, (each.changed() for each in guards)), None)


def dictionary_of(value: Any) -> dict[str, Any] | None:
    """The dictionary of an instance, read past the user's code."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def is_special(name: object) -> bool:
    return isinstance(name, str) and name[:2] == "__" == name[-2:]


def is_other(now: Any, seen: Any) -> bool:
    """Whether something is not the same plain value: -0.0 is not 0.0, NaN is NaN, True is not 1."""
    kind = type(seen)
    if type(now) is not kind:
        return True
    if kind in (float, complex) or isinstance(seen, (np.floating, np.complexfloating)):
        return repr(now) != repr(seen)
    if kind in PLAIN or isinstance(seen, np.generic):
        return bool(now != seen)
    if kind is tuple:
        return len(now) != len(seen) or any(
            one is not other and is_other(one, other) for one, other in zip(now, seen, strict=True)
        )
    return True


def in_words(value: Any) -> str:
    """A value as a user would say it."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset):
        # The text of what it holds may be computed by the user's code.
        entries = [*value, *value.values()] if kind is dict else value
        if not all(type(each) in SINGLE for each in entries):
            return f"a {kind.__name__} of {len(value)}"
        kind = str
    if kind in SINGLE:
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}..."
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return f"{value.__name__}"
    # Not by getattr: attributes may be computed by the user's code.
    return f"a {type.__getattribute__(type(value), '__name__')} at {id(value):#x}"
