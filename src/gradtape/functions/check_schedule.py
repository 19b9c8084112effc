"""Check schedule: which calls of a replayed function run in Python again, to be compared.

A check costs a captured run where a replay would do. Calls 3, 7, 17, 37 ... are checks while that
takes less than a tenth of the time; after that so few are that they take 2 %. The costs are those
that captured runs measured, and the schedule counts calls, so it does not depend on when they come.
"""

from __future__ import annotations

import os
from typing import Literal

# Checks may take this part of the time at first, and in the long run.
AT_FIRST = 0.1
IN_THE_LONG_RUN = 0.02
FIRST_GAPS = (0, 3)
# Before a check that comes after more calls, one replay is timed.
SHORT = 40
NEVER = 1 << 62
# Seconds that a native call saves, that a call in Python adds to a replay, and that any call takes.
IN_PYTHON, AROUND, LEAST = 3e-6, 2e-6, 3e-7

Recheck = int | Literal["auto"] | None


def default_recheck() -> Recheck:
    """What GRADTAPE_RECHECK asks for: every how many calls are checked; 0 for none."""
    text = os.environ.get("GRADTAPE_RECHECK", "").strip().lower()
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


class CheckSchedule:
    """How many calls are replayed before the next check."""

    def __init__(self, recheck: Recheck) -> None:
        self._recheck = recheck
        # Calls that were replayed or checked when the next check comes.
        self._calls = 2
        self._gaps = self._gap = 0
        # Seconds of the Python part of a captured run, and of its plans: the least so far.
        self._check_cost = float("inf")
        self._replay_cost = float("inf")
        # Whether a replay was timed since the latest check.
        self._is_timed = False

    def measure(self, check: float, replay: float) -> None:
        """Note what a captured run took: without its plans, and its plans alone."""
        self._check_cost = min(self._check_cost, check)
        self._replay_cost = min(self._replay_cost, replay)
        self._is_timed = False

    def wants_time(self) -> bool:
        """Whether a replay should be timed before the next check."""
        return self._recheck == "auto" and not self._is_timed and self._gap > SHORT

    def time(self, seconds: float, is_native: bool) -> None:
        """Note what a replay in Python took; native calls take less."""
        self._is_timed = True
        seconds = seconds - IN_PYTHON if is_native else seconds + AROUND
        self._replay_cost = min(self._replay_cost, max(seconds, LEAST))

    def next_gap(self) -> int:
        """The number of replays until the next check."""
        if self._recheck is None:
            return NEVER
        if self._recheck != "auto":
            return self._recheck - 1
        ratio = self._check_cost / max(self._replay_cost, LEAST)
        steady = _power_of_two(ratio / IN_THE_LONG_RUN)
        number = self._gaps
        gap = FIRST_GAPS[number] if number < len(FIRST_GAPS) else self._calls + 2
        self._gaps += 1
        found = self._gap = min(gap, steady) if ratio < AT_FIRST * (gap + 1) else steady
        self._calls += found + 1
        return found


def _power_of_two(number: float) -> int:
    """The next power of two: noise in the costs does not move the checks."""
    return 1 << max(int(number) - 1, 0).bit_length()
