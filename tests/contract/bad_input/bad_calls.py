"""Bad calls: the arguments of a good call with one or two exchanged, and what came of the call."""

from __future__ import annotations

import random
import re
import signal
import traceback
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.contract.bad_input import call_sites, judge
from tests.contract.bad_input.bad_values import LONG, VALUES
from tests.contract.bad_input.call_sites import Site, Stop
from tests.contract.bad_input.parameter_kinds import is_silent, kind_of

import gradtape as gt
from gradtape.tf.base.dispatch import graphs as dispatch

# A call may take so long; an interrupt must end it then.
SECONDS = 20.0
MODES = ("undecorated", "function", "grad", "vmap")


@dataclass(frozen=True)
class BadCall:
    """A call site, and the places whose arguments are exchanged: position or keyword, and value."""

    site: Site
    edits: tuple[tuple[int | str, str], ...]
    mode: str = "undecorated"

    def __str__(self) -> str:
        places = ", ".join(f"{place}=<{value}>" for place, value in self.edits)
        return f"{self.site.name}({places}) in the example of {self.site.example}"

    def parameter(self, place: int | str) -> tuple[str, str]:
        """The name and annotation of the parameter at a place."""
        for index, (name, annotation, kind) in enumerate(self.site.parameters):
            if kind == "VAR_KEYWORD":
                continue
            extra = kind == "VAR_POSITIONAL" and isinstance(place, int) and place > index
            if place in (index, name) or extra:
                return name, annotation
        return str(place), "Any"

    def silent_places(self) -> list[str]:
        """The parameters whose values can never be meant."""
        found = []
        for place, value in self.edits:
            name, annotation = self.parameter(place)
            kind = kind_of(name, annotation, self.site.name)
            if value == "None" and "None" in annotation:
                continue
            if value in VALUES and is_silent(self.site.name, name, kind, value):
                found.append(f"{name} ({kind}) = {value}")
        return found


@dataclass
class Outcome:
    """What came of a bad call; `place` is the line where an internal error was raised."""

    verdict: str
    kind: str = ""
    text: str = ""
    place: str = ""
    # The error came when the result was computed, and not from the call itself.
    late: bool = False
    # The modes in which the same call raises another error, and which one.
    other: tuple[str, ...] = ()


def places_of(site: Site) -> list[int | str]:
    """The arguments that a call can have: those of the example, and the other parameters."""
    found: list[int | str] = [*range(site.positions), *site.keywords]
    for index, (name, _, kind) in enumerate(site.parameters):
        if (kind == "POSITIONAL_OR_KEYWORD" and index >= site.positions and name not in found) or (
            kind == "KEYWORD_ONLY" and name not in found
        ):
            found.append(name)
    return found


# Python or NumPy refuses a bad first operand of these before the library is asked.
_OF_THE_FIRST = ("operator.getitem", "operator.setitem", "operator.iadd")


def bad_calls(sites: list[Site], seed: int) -> Iterator[BadCall]:
    """Bad calls without end, each callable in turn; every tenth exchanges two arguments."""
    chance = random.Random(seed)
    by_name: dict[str, list[Site]] = {}
    for site in sites:
        by_name.setdefault(site.name, []).append(site)
    names = sorted(by_name)
    values = sorted(VALUES)
    seen = set()
    while True:
        chance.shuffle(names)
        for name in names:
            site = chance.choice(by_name[name])
            places = places_of(site)
            if name in _OF_THE_FIRST:
                places.remove(0)
            if not places or chance.random() < 0.03:
                call = BadCall(site, ((chance.choice(("missing", "unknown", "too many")), ""),))
            else:
                number = min(len(places), 2 if chance.random() < 0.1 else 1)
                chosen = chance.sample(places, number)
                call = BadCall(site, tuple((place, chance.choice(values)) for place in chosen))
            if ("executor", "None") in call.edits:
                continue  # without an executor Ray starts a cluster, which takes long
            if call not in seen:
                seen.add(call)
                yield call


def _exchanged(call: BadCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found, named = list(args), dict(kwargs)
    for place, value in call.edits:
        if place == "missing":
            found = found[:-1]
        elif place == "unknown":
            named["no_such_parameter"] = 1
        elif place == "too many":
            found += [1] * 12
        elif isinstance(place, int):
            found[place] = VALUES[value]()
        else:
            named[place] = VALUES[value]()
    return found, named


def settle(result: Any, depth: int = 0) -> None:
    """Compute what a call gave: an error may come only now."""
    if isinstance(result, (gt.Tensor, gt.Variable)):
        result.numpy()
    elif type(result) in (list, tuple) and depth < 5:
        for each in result:
            settle(each, depth + 1)
    elif type(result) is dict and depth < 5:
        settle(list(result.values()), depth + 1)


class _Late(BaseException):
    """The time is over."""


def _ring(*_: object) -> None:
    raise _Late


def make_in_all_modes(call: BadCall, code: types.CodeType) -> Outcome:
    """Make a bad call; if it is refused, then also inside gt.function, gt.grad and gt.vmap."""
    first = make(call, code)
    if first.verdict != "ours" or call.site.name.endswith("Function.__call__"):
        # Inside another function a function is not captured: the user's code gets other values.
        return first
    others = []
    # The other modes drop the result, and nobody computes it.
    for mode in MODES[1:2] if first.late else MODES[1:]:
        found = make(replace(call, mode=mode), code)
        if found.kind in ("NoValueError", "NotRecordingError"):
            # Inside vmap a tensor has no value and no tape of outside records: that is found first.
            continue
        if (found.kind, _comparable(found.text)) != (first.kind, _comparable(first.text)):
            others.append(f"{mode}: {found.verdict} {found.kind}: {found.text}")
    return replace(first, other=tuple(others))


def _comparable(text: str) -> str:
    """A text without addresses, numbers of objects and folders that are new in each call."""
    return re.sub(r"0x[0-9a-f]+|_\d+\b|/tmp\w+", "", text)


def make(call: BadCall, code: types.CodeType) -> Outcome:
    """Make a bad call, in the example's program."""
    outcome = Outcome("not reached")

    def through(number: int, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        nonlocal outcome
        if number != call.site.number:
            return function(*args, **kwargs)
        outcome = attempt(call, function, args, kwargs)
        raise Stop

    try:
        run(code, through)
    except Exception as error:
        outcome = Outcome("example failed", type(error).__name__, str(error))
    return outcome


def run(code: types.CodeType, through: Any) -> None:
    """Run an example with its calls going through a function, and without its warnings."""
    signal.signal(signal.SIGALRM, _ring)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        call_sites.run(code, through)


def attempt(call: BadCall, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    """Call a function with the bad arguments, and say what came of it."""
    found, named = _exchanged(call, args, kwargs)
    late = False
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            result = _in_mode(call.mode, lambda: function(*found, **named))
            late = True
            settle(result)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        # In a graph of TensorFlow 1 a call is noted down, and made when a session runs it.
        silent = [] if dispatch.in_use else call.silent_places()
        return Outcome("silent" if silent else "accepted", text="; ".join(silent))
    except _Late as late:
        return Outcome("long" if _is_long(call, late) else "slow")
    except Exception as error:
        step = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(
            judge.verdict(error, call.site.name), type(error).__name__, str(error)[:300],
            f"{step.filename.removeprefix(judge.LIBRARY)}:{step.lineno} {step.name}", late,
        )  # fmt: skip


def _is_long(call: BadCall, late: BaseException) -> bool:
    """Whether work that had to be interrupted was asked for: of a number, or in the user's loop."""
    files = [step.filename for step in traceback.extract_tb(late.__traceback__)]
    asked = any(value in LONG for _, value in call.edits) or call.site.name == "gradtape.while_loop"
    return asked or call_sites.FILE in files[2:]


def _in_mode(mode: str, call: Any) -> Any:
    if mode == "function":
        return gt.function(call, frozen=True)()
    if mode == "grad":
        return gt.grad(lambda x: (call(), x)[1])(1.0)
    if mode == "vmap":
        return gt.vmap(lambda x: (call(), x)[1])(np.ones(2))
    return call()
