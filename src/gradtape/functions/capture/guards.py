"""Guards on what is read outside: values of names that a function uses besides its arguments.

A capture holds as long as the names in the function's code mean the same: globals, variables of the
functions around it, attributes of objects that it is a method of or knows by such a name
(`outside_names` finds them). Their values are noted before a captured run and compared before
every replay. What a run of the function changes itself is an effect, and no guard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.functions.capture.outside_names import (
    CONTAINERS,
    DEPTH,
    ENTRIES,
    GONE,
    SIMPLE,
    outside_names,
    reference_to,
)
from gradtape.graph.lines import warn
from gradtape.runtime.source_text import SourceText

# Arrays of so many bytes are compared as strings of them.
SHORT = 4096
# To compare arrays of so many bytes takes milliseconds.
LARGE = 1 << 25


class OutsideGuards:
    """The values that names outside a function have before a run of it."""

    def __init__(self, function: Callable[..., Any], args: Iterable[object]) -> None:
        self._known = [
            (place, seen)
            for place in outside_names(function, args)
            if (seen := _seen(place.value())) is not None
        ]
        self._random = _global_generators()

    def has_drawn(self) -> bool:
        """Whether the global random generators of Python or NumPy were used during the run."""
        return _global_generators() != self._random

    def settle(self, effects: set[str]) -> Callable[[], bool] | None:
        """After the run: the comparison of all guards, None if there are none.

        Names that the run itself changed are added to its effects, and not compared.
        """
        effects.update(place.label for place, seen in self._known if not seen.same(place.value()))
        self._known = [each for each in self._known if each[0].label not in effects]
        for place, seen in self._known:
            if isinstance(seen, _Array) and seen.nbytes >= LARGE:
                warn(
                    f"gt.function: {place.label} is a NumPy array of {seen.nbytes >> 20} MB that "
                    "is read from outside, and compared at every call because it can be changed. "
                    "Make it a tensor with gt.asarray, or read-only (flags.writeable = False)."
                )
        return self._written() if self._known else None

    def difference(self) -> tuple[str, str, str] | None:
        """The first name whose value differs now, with what it was and is, in words."""
        for place, seen in self._known:
            now = place.value()
            if not seen.same(now):
                label = f"{place.label}, which it reads from outside,"
                return label, seen.words, _words(now)
        return None

    def _written(self) -> Callable[[], bool]:
        """The comparison, written out: it is made in every call."""
        text = SourceText()
        tests = []
        for number, (place, seen) in enumerate(self._known):
            now = place.expression(text.name(place.owner, f"owner{number}"))
            before = text.name(seen.quick, f"seen{number}")
            tests.append(seen.template.format(now=now, seen=before))
        text.line("def differs():")
        with text.block():
            text.line("try:")
            with text.block():
                text.line(f"return {' or '.join(tests)}")
            # A name that is gone has changed, too.
            text.line("except (ValueError, KeyError, AttributeError, TypeError):")
            with text.block():
                text.line("return True")
        return text.compiled("differs")


class _Seen:
    """A simple value as it was. `template` is the test that it is another one now.

    Identity is tested first: where it fails, `same` compares values at leisure.
    """

    template = "{now} is not {seen}"

    def __init__(self, value: Any) -> None:
        self.quick = value
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        then = self.quick
        if now is then:
            return True
        if isinstance(then, (float, complex)) and type(now) is type(then):
            return repr(now) == repr(then)
        return type(now) is type(then) and bool(now == then)


class _Object(_Seen):
    """An object, which is compared by identity and held by a weak reference only."""

    template = "{now} is not {seen}()"

    def __init__(self, value: Any) -> None:
        self.quick = reference_to(value)
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        return now is self.quick()


class _Array(_Seen):
    """An array that may be changed in place."""

    template = "not {seen}({now})"

    def __init__(self, value: Any) -> None:
        self._content = np.array(value, order="C")
        self.quick = self.same
        self.words = _words(value)

    @property
    def nbytes(self) -> int:
        return self._content.nbytes

    def same(self, now: Any) -> bool:
        then = self._content
        return (
            type(now) is np.ndarray
            and now.shape == then.shape
            and now.dtype == then.dtype
            and _same_memory(now, then)
        )


class _Content(_Seen):
    """A container that may be changed in place, with its entries."""

    template = "not {seen}({now})"

    def __init__(self, value: Any, parts: list[_Seen]) -> None:
        self._kind = type(value)
        self._keys = list(value) if self._kind is dict else None
        self._parts = parts
        self.quick = self.same
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        if type(now) is not self._kind or len(now) != len(self._parts):
            return False
        if self._keys is not None:
            if list(now) != self._keys:
                return False
            now = now.values()
        return all(part.same(each) for part, each in zip(self._parts, now, strict=False))


class _Set(_Seen):
    """A set of simple values, which may be changed in place."""

    template = "not {seen}({now})"

    def __init__(self, value: Any) -> None:
        self._kind, self._content = type(value), frozenset(value)
        self.quick = self.same
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        return type(now) is self._kind and now == self._content


def _same_memory(one: np.ndarray, other: np.ndarray) -> bool:
    if one.nbytes <= SHORT or not one.flags.c_contiguous:
        return one.tobytes() == other.tobytes()
    word = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(word), other.reshape(-1).view(word))


def _seen(value: Any, depth: int = 0) -> _Seen | None:
    """The record of a value that it is compared with later; None if it is not guarded."""
    if isinstance(value, SIMPLE):
        return _Seen(value)
    if type(value) is np.ndarray:
        if value.dtype.kind not in "biufc" or not _may_change(value):
            return None
        return _Array(value)
    if isinstance(value, (set, frozenset)):
        simple = len(value) <= ENTRIES and all(isinstance(part, SIMPLE) for part in value)
        return _Set(value) if simple else None
    if type(value) in CONTAINERS:
        if len(value) > ENTRIES or depth > DEPTH:
            return None
        if type(value) is dict and not all(isinstance(key, SIMPLE) for key in value):
            return None
        held = value.values() if type(value) is dict else value
        parts = [_seen(part, depth + 1) for part in held]
        known = [part for part in parts if part is not None]
        return _Content(value, known) if len(known) == len(parts) else None
    return None if value is GONE else _Object(value)


def _may_change(array: object) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _global_generators() -> tuple[object, ...]:
    """The states of the global generators of Python and NumPy, if anybody has imported them."""
    python, numpy = (sys.modules.get(name) for name in ("random", "numpy.random"))
    found: list[object] = []
    if python is not None:
        _, words, normal = python.getstate()
        found += [words[0], words[-1], normal]
    if numpy is not None:
        _, key, *rest = numpy.get_state()
        found += [int(key[0]), *rest]
    return tuple(found)


def _words(value: object) -> str:
    if value is GONE:
        return "nothing"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (*SIMPLE, *CONTAINERS)):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}..."
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    called = f" {name}" if isinstance(name, str) else ""
    return f"a {type(value).__name__}{called} at {id(value):#x}"
