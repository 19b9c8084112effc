"""Scenarios: something outside a decorated function changes between calls.

A scenario is made twice. One function is called as it is, the other decorated; both are called
alike, what is outside changes alike, and all results and states must be the same. A scenario in
which no change is visible in the undecorated results would show nothing, and is an error.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.jit.twins import agree, outcome

import gradtape as gt

# The numbers to which what is outside is changed; it begins as 1.0.
CHANGES = (2.0, 3.0, 1.0)

Place = tuple[Callable[[], Any], Callable[[float], Any]]


@dataclass
class Scenario:
    """A function, how something outside it changes, its arguments, and a state to compare."""

    function: Callable[..., Any]
    change: Callable[[float], Any]
    arguments: Callable[[], tuple[Any, ...]] = lambda: (gt.asarray(1.0),)
    state: Callable[[], Any] = lambda: None
    # How the function is decorated, if not by gt.function alone.
    decorate: Callable[[Any], Any] | None = None


SCENARIOS: dict[str, Callable[[], Scenario]] = {}


def scenario(make: Callable[[], Scenario]) -> Callable[[], Scenario]:
    """Register a maker of scenarios."""
    assert make.__name__ not in SCENARIOS, make.__name__
    SCENARIOS[make.__name__] = make
    return make


def place(make: Callable[[], Place], name: str = "") -> Callable[[], Place]:
    """Register a place where a number lives: how code of the user reads it, how it is changed."""

    def made() -> Scenario:
        read, write = make()
        return Scenario(lambda x: x * read(), write)

    made.__name__ = name or make.__name__
    scenario(made)
    return make


@dataclass
class Verdict:
    """What came of a scenario."""

    wrong: list[str] = field(default_factory=list)
    # Why the function ran in Python, if it did.
    refused: list[str] = field(default_factory=list)
    calls: int = 0


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Settings of the process that scenarios change are put back."""
    environment, limit = dict(os.environ), sys.getrecursionlimit()
    modules, dtype = dict(sys.modules), gt.default_dtype()
    with decimal.localcontext(), np.printoptions(), warnings.catch_warnings():
        # What is not captured says so; here it only has to be right.
        warnings.filterwarnings("ignore", "gt.function: ")
        try:
            yield
        finally:
            gt.set_default_dtype(dtype)
            sys.setrecursionlimit(limit)
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            for name in sys.modules.keys() - modules.keys():
                if name.startswith("settings_"):
                    del sys.modules[name]


# What guards do not see: C state that has no name in the code, insides of installed packages, and
# what is reached by computed names. A check finds each of them.
HIDDEN = frozenset(
    (
        "attribute_of_variable", "bases_replaced", "decimal_context",
        "function_of_library_replaced", "function_of_numpy_replaced", "globals_of_helper",
        "limit_of_recursion", "local_of_thread", "memory_by_address", "module_by_import",
        "module_by_importlib", "module_in_table", "pattern_of_arguments", "print_options",
    )
)  # fmt: skip


def run_scenario(
    make: Callable[[], Scenario], before: int, after: int = 4, recheck: Any = False
) -> Verdict:
    """Call, change and call again; `before` calls first and `after` calls after each change."""
    verdict, seen = Verdict(), []
    with restored():
        plain, other = make(), make()
        decorate = other.decorate or functools.partial(gt.function, recheck=recheck)
        decorated = decorate(other.function)
        for change in (None, *CHANGES):
            if change is not None:
                plain.change(change)
                other.change(change)
            for number in range(before if change is None else after):
                given, passed = plain.arguments(), other.arguments()
                want = outcome(lambda given=given: plain.function(*given)), outcome(plain.state)
                got = outcome(lambda passed=passed: decorated(*passed)), outcome(other.state)
                verdict.calls += 1
                seen.append(want)
                if not agree(got, want):
                    moment = "at first" if change is None else f"changed to {change}"
                    verdict.wrong.append(f"{moment}, call {number}: {got} instead of {want}")
    if all(agree(each, seen[0]) for each in seen):
        verdict.wrong.append(f"nothing changes: {seen[0]}")
    if isinstance(decorated, gt.Function):
        verdict.refused = [each.refused for each in decorated.captured if each.refused is not None]
    return verdict


# Every how many calls are checked where staleness is measured.
RECHECK = 10


def stale_calls(make: Callable[[], Scenario], before: int) -> tuple[int, int]:
    """How many calls are stale after a change: before the next check, and after it."""
    early = late = 0
    with restored():
        plain, other = make(), make()
        decorate = other.decorate or functools.partial(gt.function, recheck=RECHECK)
        decorated = decorate(other.function)
        for number in range(before + 2 * RECHECK + 3):
            if number == before:
                plain.change(CHANGES[0])
                other.change(CHANGES[0])
            given, passed = plain.arguments(), other.arguments()
            want = outcome(lambda given=given: plain.function(*given)), outcome(plain.state)
            got = outcome(lambda passed=passed: decorated(*passed)), outcome(other.state)
            if not agree(got, want):
                if number < before + RECHECK:
                    early += 1
                else:
                    late += 1
    return early, late
