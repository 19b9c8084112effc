"""Check schedule: which calls of a replayed function run in Python again, and what happened so far.

A check costs a captured run where a replay would do. Calls 3, 7, 17, 37 ... are checks while that
takes less than a tenth of the time; later checks come at a rate that takes about 2 %. The schedule
counts calls; the two costs are measured by the runs and checks so far.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from gradtape.config import (
    CHECKS_SHARE,
    FIRST_CHECK_GAPS,
    FIRST_CHECKS_SHARE,
    SHORTEST_CALL,
    variable,
)

NEVER = 1 << 62

Recheck = int | Literal["auto"] | None


def default_recheck() -> Recheck:
    """What GRADTAPE_RECHECK asks for: every how many calls are checked; 0 for none."""
    text = variable("RECHECK").lower()
    if text in ("", "auto"):
        return "auto"
    if text in ("0", "false", "off", "never"):
        return None
    try:
        return checked_recheck(int(text))
    except ValueError:
        raise ValueError(
            f"GRADTAPE_RECHECK={text!r} is no count of calls. Use a number, 0 or auto."
        ) from None


def checked_recheck(recheck: object) -> Recheck:
    """The option `recheck` of gt.function."""
    if recheck is False or recheck is None:
        return None
    if recheck == "auto":
        return "auto"
    if isinstance(recheck, int) and not isinstance(recheck, bool) and recheck > 0:
        return recheck
    raise ValueError(
        f"function: recheck={recheck!r} is no count of calls. Use a positive int, 'auto' or False."
    )


class CallHistory:
    """What happened to the calls of one signature so far."""

    def __init__(self, why: tuple[str, str, str] | None) -> None:
        # The argument that made it another signature, with what it was before and what it is.
        self.why = why
        # Calls that went through Python, native calls not counted.
        self.calls = 0
        # Why calls run in Python, if they do.
        self.refused: str | None = None
        self.remedy = ""
        # Calls that ran in Python to be compared, what they found, and the replays before the next.
        self.checks = 0
        self.differences: list[str] = []
        self.gap = 0
        # Seconds that captures took: all of them, and each of the latest.
        self.seconds = 0.0
        self.latest: deque[float] = deque(maxlen=8)

    def took(self, seconds: float) -> None:
        """A capture took so long."""
        self.seconds += seconds
        self.latest.append(seconds)


class CheckSchedule:
    """How many calls are replayed before the next check."""

    def __init__(self, recheck: Recheck) -> None:
        self._recheck = recheck
        # Calls that were replayed or checked when the next check comes.
        self._calls = 2
        self._gaps = 0
        # Seconds that a check costs, and that the program takes for each replay: the least so far.
        self._check_cost = float("inf")
        self._replay_cost = float("inf")
        self._checks = 0

    def note_run(self, check: float, replay: float) -> None:
        """Note what a captured run took: without its plans, and its plans alone."""
        if not self._checks:
            self._check_cost = min(self._check_cost, check)
        self._replay_cost = min(self._replay_cost, replay)

    def note_check(self, check: float, replay: float) -> None:
        """Note what a check took, and the program for each of the replays before it."""
        self._checks += 1
        self._check_cost = check if self._checks == 1 else (self._check_cost + check) / 2
        self._replay_cost = min(self._replay_cost, replay)

    def next_gap(self) -> int:
        """The number of replays until the next check."""
        if self._recheck is None:
            return NEVER
        if self._recheck != "auto":
            return self._recheck - 1
        ratio = self._check_cost / max(self._replay_cost, SHORTEST_CALL)
        steady = _power_of_two(ratio / CHECKS_SHARE)
        gap = FIRST_CHECK_GAPS.get(self._calls, self._calls + 2)
        self._gaps += 1
        checks = ratio * self._gaps
        is_cheap = checks < FIRST_CHECKS_SHARE * (self._calls + gap + 1 + checks)
        found = min(gap, steady) if is_cheap else steady
        self._calls += found + 1
        return found


def _power_of_two(number: float) -> int:
    """The next power of two: noise in the costs does not move the checks."""
    return 1 << max(int(number) - 1, 0).bit_length()
