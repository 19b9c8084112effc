"""Comparisons: the checks that nothing outside has changed, written out as one Python function."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.process.source_text import SourceText
from gradtape.recording.tells_changes import changes

PLAIN = (int, float, complex, str, bytes)
SINGLE = (type(None), bool, type(Ellipsis), type(NotImplemented))
# To compare arrays of so many bytes takes milliseconds.
LARGE = 1 << 25

# A line of the text, the number of its place, what is there now, and whether it is told.
Line = tuple[str, int, str, bool]

_LOCAL = re.compile(r"\bt\d+\b")


class Comparisons:
    """Comparisons in the order in which they are made, as lines over named objects.

    A comparison is *told* if the object that it reads from announces every change of its attributes
    (`TellsChanges`): such comparisons are made again only after an announcement.
    """

    def __init__(self) -> None:
        self._things: list[Any] = []
        self._lines: list[Line] = []
        self._temporaries = 0
        # Where things were read, and what was there, in words.
        self.places: list[tuple[str, Any]] = []
        self.large_arrays: list[tuple[str, int]] = []

    def begin(self, label: str, value: Any) -> None:
        """The comparisons that follow belong to this place."""
        self.places.append((label, in_words(value)))

    def thing(self, thing: Any) -> str:
        """A name for an object in the text."""
        self._things.append(thing)
        return f"o{len(self._things) - 1}"

    def local(self, expression: str) -> str:
        """A local name for the value of an expression."""
        name = f"t{self._temporaries}"
        self._temporaries += 1
        self._lines.append((f"{name} = {expression}", len(self.places) - 1, "", False))
        return name

    def check(self, condition: str, now: str = "...", told: bool = False) -> None:
        """Something has changed if this holds."""
        self._lines.append((condition, len(self.places) - 1, now, told))

    def check_value(self, expression: str, value: Any, told: bool = False) -> None:
        """A number or a text is the same in kind and value, or it has changed."""
        now, seen = self.local(expression), self.thing(value)
        self.check(f"{now} is not {seen} and {self.thing(is_other)}({now}, {seen})", now, told)

    def check_values(self, expression: str, values: list[Any], told: bool = False) -> None:
        """All things in a sequence are the same, or one has changed."""
        test = f"{self.thing(_are_others)}({expression}, {self.thing(values)})"
        self.check(test, expression, told)

    def are_those_of(self, other: Comparisons) -> bool:
        """Whether another walk has found the same: then nothing has changed between the two."""
        return (
            self._lines == other._lines
            and len(self._things) == len(other._things)
            and all(map(_is_same_thing, self._things, other._things))
        )

    def compiled(self) -> Callable[[], bool] | None:
        """What tells whether anything has changed; None if nothing can."""
        told = any(line[3] for line in self._lines)
        if not any(line[2] for line in self._lines):
            return None
        if not told:
            return self._whole
        untold = [line for line in self._lines if not line[3]]
        text = self._text(_needed(untold), seen=True)
        text.rebind("whole", self._whole)
        return text.compiled("differs")

    def _text(
        self,
        lines: Iterable[tuple[str, int, str, bool]],
        numbered: bool = False,
        seen: bool = False,
    ) -> SourceText:
        text = SourceText(**{f"o{number}": thing for number, thing in enumerate(self._things)})
        if seen:
            text.name([-1], "seen")  # the first time all is compared
            text.name(changes, "changes")
            text.name(None, "whole")
        text.line("def differs():")
        with text.block():
            text.line("at = 0")
            text.line("try:")
            with text.block():
                if seen:
                    # The number is read before the comparisons: a change in between is noticed.
                    text.line("if changes[0] != seen[0]:")
                    text.line("    number = changes[0]")
                    text.line("    if whole(): return True")
                    text.line("    seen[0] = number")
                for line, place, now, _ in lines:
                    if not now:
                        text.line(line)
                        continue
                    if numbered:
                        text.line(f"at = {place}")
                    answer = f"(at, {now})" if numbered else "True"
                    text.line(f"if {line}: return {answer}")
                text.line(f"return {None if numbered else False}")
            # Whatever cannot be read any more has changed.
            text.line("except Exception:")
            text.line("    return (at, ...)" if numbered else "    return True")
        return text

    @functools.cached_property
    def _whole(self) -> Callable[[], bool]:
        return self._text(self._lines).compiled("differs")

    @functools.cached_property
    def _differing(self) -> Callable[[], tuple[int, Any] | None]:
        return self._text(self._lines, numbered=True).compiled("differs")

    def difference(self) -> tuple[str, str, str] | None:
        """The first place that has changed, what was there, and what is."""
        # The text with numbers of places is compiled only if there is something to tell.
        found = self._differing() if self._whole() else None
        if found is None:
            return None
        place, now = found
        return (*self.places[place], "something else" if now is ... else in_words(now))


def _needed(lines: list[Line]) -> list[Line]:
    """The lines without those that make local names which nobody reads."""
    read: set[str] = set()
    kept = []
    for line in reversed(lines):
        text, _, now, _ = line
        name, _, expression = text.partition(" = ")
        if now or name in read:
            read.update(_LOCAL.findall(text if now else expression))
            kept.append(line)
    return kept[::-1]


def _is_same_thing(one: Any, other: Any) -> bool:
    """Whether things of two walks are the same; walks make lists of things and sets of names."""
    if one is other:
        return True
    if type(one) is list and type(other) is list:
        return len(one) == len(other) and all(map(operator.is_, one, other))
    return type(one) is frozenset and type(other) is frozenset and one == other


def is_other(now: Any, seen: Any) -> bool:
    """Whether a plain value is another one: -0.0 is not 0.0, NaN is NaN, True is not 1."""
    if type(now) is not type(seen):
        return True
    if isinstance(seen, (float, complex, np.floating, np.complexfloating)):
        return repr(now) != repr(seen)
    return bool(now != seen)


def _are_others(now: Iterable[Any], seen: list[Any]) -> bool:
    if all(map(operator.is_, now, seen)):
        return False
    plain = (*PLAIN, *SINGLE)
    return any(
        a is not b and (type(b) not in plain or is_other(a, b))
        for a, b in zip(now, seen, strict=True)
    )


class ArrayContent:
    """The content of an array that may be changed in place."""

    # Arrays of so many bytes are compared as strings of them.
    SHORT = 4096

    def __init__(self, array: Any) -> None:
        self._content = np.array(array, order="C")

    def differs(self, now: Any) -> bool:
        """Whether this is another array, or its content is another one."""
        then = self._content
        if type(now) is not np.ndarray or now.shape != then.shape or now.dtype != then.dtype:
            return True
        if now.nbytes <= self.SHORT or not now.flags.c_contiguous:
            return bool(now.tobytes() != then.tobytes())
        word = np.uint64 if now.nbytes % 8 == 0 else np.uint8
        return not np.array_equal(now.reshape(-1).view(word), then.reshape(-1).view(word))


def in_words(value: Any) -> str:
    """A value as a user would say it."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset):
        # The text of what it holds may be computed by the user's code.
        held = [*value, *value.values()] if kind is dict else value
        if not all(type(each) in (*PLAIN, *SINGLE) for each in held):
            return f"a {kind.__name__} of {len(value)}"
        kind = str
    if kind in (*PLAIN, *SINGLE):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}..."
    # Not by getattr: attributes may be computed by the user's code.
    own = getattr(type(value), "__dict__", {})
    name = value.__name__ if "__name__" in own or isinstance(value, type) else None
    called = f" {name}" if isinstance(name, str) else ""
    return f"a {type(value).__name__}{called} at {id(value):#x}"
