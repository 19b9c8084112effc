"""Sweep: every parameter that is a number, flag, axis or function, with every senseless value.

Random bad calls find such a parameter sooner or later; the sweep finds it always. For every public
callable it takes one good call and exchanges one argument at a time for the values in `SENSELESS`
that `parameter_kinds` says the parameter can never mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.contract.bad_input import bad_calls, call_sites
from tests.contract.bad_input.bad_calls import BadCall, Outcome, places_of
from tests.contract.bad_input.call_sites import Site, Stop
from tests.contract.bad_input.legal_values import LEGAL, Row
from tests.contract.bad_input.parameter_kinds import excuse, is_silent, kind_of

SENSELESS = ("True", "-1", "-3", "-1.5", "0", "2.5", "7", "99", "text", "None", "NaN", "infinity",
             "list")  # fmt: skip
KINDS = ("axis", "count", "finite", "flag", "function", "integer", "not negative", "positive",
         "probability", "rate", "shape", "size", "sizes")  # fmt: skip


def sweep(sites: Iterable[Site], examples: dict[str, str]) -> Iterator[tuple[BadCall, Outcome]]:
    """The outcome of every senseless value for every callable."""
    best: dict[str, Site] = {}
    for site in sorted(sites, key=_rank):
        best.setdefault(site.name, site)
    for name in sorted(best):
        site = best[name]
        calls = senseless_calls(site)
        if calls:
            yield from _made(site, calls, call_sites.compiled(examples[site.example]))


def _rank(site: Site) -> tuple[bool, bool]:
    """The sites of a callable in their order: its own example first, graphs of TensorFlow 1 last.

    In a graph calls are noted down, and their arguments looked at when a session runs them.
    """
    return ".v1." in site.example, not site.example.endswith(site.name.rpartition(".")[2])


def senseless_calls(site: Site) -> list[BadCall]:
    """The calls of a site in which one argument is senseless."""
    found = []
    for place in places_of(site):
        name, annotation = BadCall(site, ()).parameter(place)
        kind = kind_of(name, annotation, site.name)
        values = [
            value
            for value in (SENSELESS if kind in KINDS else ())
            if is_silent(site.name, name, kind, value)
            and not (value == "None" and "None" in annotation)
        ]
        found += [BadCall(site, ((place, value),)) for value in values]
    return found


def excused_calls(sites: Iterable[Site]) -> Iterator[tuple[Row, BadCall]]:
    """The calls that a row of `LEGAL` excuses."""
    for site in sites:
        for place in places_of(site):
            name, _ = BadCall(site, ()).parameter(place)
            for value in {value for row in LEGAL for value in row[2]}:
                row = excuse(site.name, name, value)
                if row is not None:
                    yield row, BadCall(site, ((place, value),))


def _made(site: Site, calls: list[BadCall], code: Any) -> Iterator[tuple[BadCall, Outcome]]:
    """Make calls in one run of the example for as long as they are refused.

    A call that is accepted may have changed what the others refer to: a new run follows it.
    """
    waiting = calls[::-1]
    made: list[tuple[BadCall, Outcome]] = []

    def through(number: int, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if number != site.number:
            return function(*args, **kwargs)
        while waiting:
            call = waiting.pop()
            made.append((call, bad_calls.attempt(call, function, args, kwargs)))
            if made[-1][1].verdict in ("accepted", "silent"):
                break
        raise Stop

    while waiting:
        left = len(waiting)
        try:
            bad_calls.run(code, through)
        except Exception as error:
            made.append((waiting[-1], Outcome("example failed", type(error).__name__, str(error))))
        else:
            if len(waiting) == left:
                made.append((waiting[-1], Outcome("not reached")))
        yield from made
        if len(waiting) == left:
            return
        made.clear()
