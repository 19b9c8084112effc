"""Steady calls: what a run costs once its plan is compiled and nothing comes in between.

A plan runs in NumPy until compiling it pays, and how many runs that takes depends on how busy the
machine is. So does how often the system takes the processor away in the middle of a run. A
gain that was added up from such times would be another one at the next run of the same program.
Advice therefore counts all runs at the time of steady ones, as far as there are enough of them; the
tables of a report show the times as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from statistics import fmean, median

from gradtape.ir.origin import SourcePlace
from gradtape.tools.profiler.collector import Reading
from gradtape.tools.profiler.groups import PlanRecord
from gradtape.tools.profiler.plan_log import Runs

# The phase and the line of a sample.
SampledLine = tuple[str, SourcePlace | None]

# A time that is longer than the quickest quarter by this factor was interrupted: where other
# programs need the processors, most runs are. Shorter ones are the program's own: a loop op may
# take more steps in one run than in another.
OUTLIER = 1.5
# Steady runs from which the cost of a run is taken.
ENOUGH = 8


def typical(times: Sequence[float]) -> float:
    """The mean of some times, of which none counts as longer than one without interruptions."""
    most = OUTLIER * sorted(times)[len(times) // 4]
    return fmean(min(each, most) for each in times)


def steady_plans(plans: Sequence[PlanRecord], log: Runs) -> list[PlanRecord]:
    """The plans as if every run had been a steady one; those with too few stay as they are."""
    compiled = {
        id(plan.plan): plan
        for plan in plans
        if plan.tier == "compiled" and plan.plan is not None and plan.runs >= ENOUGH
    }
    earlier: dict[int, int] = {}
    for plan in plans:
        if plan.tier != "compiled" and id(plan.plan) in compiled:
            earlier[id(plan.plan)] = earlier.get(id(plan.plan), 0) + plan.runs
    times = _logged(log)
    found = []
    for plan in plans:
        if plan.tier != "compiled":
            if id(plan.plan) not in earlier:
                found.append(plan)
            continue
        runs = plan.runs + earlier.get(id(plan.plan), 0)
        factor = runs / plan.runs * _uninterrupted(plan, times)
        groups = [replace(each, runs=runs, seconds=each.seconds * factor) for each in plan.groups]
        found.append(replace(plan, runs=runs, seconds=plan.seconds * factor, groups=groups))
    return found


def _logged(log: Runs) -> dict[int, list[float]]:
    """The durations of the runs that were written down, by the address of the instructions."""
    found: dict[int, list[float]] = {}
    for address, begin, end, _ in log.rows:
        found.setdefault(address, []).append(float(end - begin))
    return found


def _uninterrupted(plan: PlanRecord, times: Mapping[int, Sequence[float]]) -> float:
    """The share of a plan's time that its runs would have taken alone."""
    spent = alone = 0.0
    for address in plan.addresses:
        logged = times.get(address, ())
        if len(logged) >= ENOUGH:
            spent += sum(logged)
            alone += typical(logged) * len(logged)
    return alone / spent if spent else 1.0


def steady_readings(
    readings: Mapping[SourcePlace | None, Reading],
) -> dict[SourcePlace | None, Reading]:
    """Flushes as if none of them had compiled anything."""
    found = {}
    for place, all_of_them in readings.items():
        quiet = all_of_them.quiet
        if quiet is None or quiet.count < ENOUGH:
            found[place] = all_of_them
            continue
        factor = all_of_them.count / quiet.count
        found[place] = replace(
            all_of_them,
            seconds=quiet.seconds * factor,
            running=quiet.running * factor,
            cycles=round(quiet.cycles * factor),
            building=quiet.building * factor,
        )
    return found


def whole_loop(reading: Reading | None) -> float:
    """Seconds of a loop that flushes at one line: all rounds at the time of the latest ones.

    Nothing inside the loop can cost more than that. The first rounds do: derivatives and plans are
    made in them, and ops are recorded in Python until there is a native recorder.
    """
    if reading is None or len(reading.intervals) < ENOUGH:
        return inf
    return median(reading.intervals) * 1e-9 * reading.count
