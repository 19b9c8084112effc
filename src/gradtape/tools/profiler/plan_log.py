"""The log of runs: the first runs of plans, with their times, and the rate of the clock."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field

from gradtape.compiler import thread_team
from gradtape.compiler.emit.plans.timing import LOG_HEADER, LOG_ROW
from gradtape.config import LOGGED_PLAN_RUNS
from gradtape.runtime import tiers


@dataclass
class Runs:
    """The rate of the processor's counter, and runs: plan, begin, end (ns), thread."""

    rate: float = 1e9
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    total: int = 0


class PlanLog:
    """Times plans between `start` and `stop`."""

    def __init__(self) -> None:
        self._memory: ctypes.Array[ctypes.c_int64] | None = None
        self._began = (0, 0)

    def start(self) -> None:
        """Time plans from now on. Nothing is compiled if `GRADTAPE_JIT` is off."""
        if tiers.MODE == "off":
            return
        self._memory = (ctypes.c_int64 * (LOG_HEADER + LOG_ROW * LOGGED_PLAN_RUNS))()
        self._memory[0] = LOGGED_PLAN_RUNS
        self._began = thread_team.cycles(), time.perf_counter_ns()
        thread_team.set_timing(True, ctypes.addressof(self._memory))

    def stop(self) -> Runs:
        """Stop timing, and give what was written."""
        memory = self._memory
        if memory is None:
            return Runs()
        thread_team.set_timing(False)
        rate = self._rate()
        cycle, began = self._began
        count = min(memory[1], LOGGED_PLAN_RUNS)
        rows = []
        for at in range(LOG_HEADER, LOG_HEADER + LOG_ROW * count, LOG_ROW):
            plan, begin, end, thread = memory[at : at + LOG_ROW]
            if plan:
                times = [began + int((each - cycle) / rate * 1e9) for each in (begin, end)]
                rows.append((plan, times[0], times[1], thread))
        # A thread that is in the middle of a run may still write into it.
        _retired.append(memory)
        del _retired[:-8]
        self._memory = None
        return Runs(rate, rows, memory[1])

    def _rate(self) -> float:
        """Cycles per second, over the time of the profile or at least some milliseconds."""
        while time.perf_counter_ns() - self._began[1] < 5_000_000:
            time.sleep(0.001)
        spent = (time.perf_counter_ns() - self._began[1]) * 1e-9
        return max(1.0, (thread_team.cycles() - self._began[0]) / spent)


_retired: list[object] = []
