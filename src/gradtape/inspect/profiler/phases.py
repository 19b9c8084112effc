"""Phases: where the wall time went, from running plans to waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradtape.inspect.profiler.groups import PlanRecord
from gradtape.inspect.profiler.sampler import PYTHON

if TYPE_CHECKING:
    from gradtape.inspect.profiler.contents import Measured

# The order in which a report lists them.
WHAT = {
    "running plans": "native code and library calls of plans, counted exactly",
    "compiling": "making plans, passes and machine code, timed exactly",
    "differentiating": "building derivative graphs that were not known, timed exactly",
    "recording": "the library's Python while ops are recorded, sampled",
    "calling functions": "the library's Python around calls of gt.function, sampled",
    "running": "the library's Python around plans: flushes and their bookkeeping, sampled",
    PYTHON: "the program's own Python, sampled",
    "waiting": "no processor time was used: input, output, sleep, other threads",
}
# Phases that are known by looks only.
SAMPLED = ("recording", "calling functions", "running", PYTHON)


def phases(measured: Measured, plans: Sequence[PlanRecord], wall: float) -> dict[str, float]:
    """Seconds by phase; they add up to the wall time unless several threads ran plans."""
    exact = measured.collector.event_seconds
    found = dict.fromkeys(WHAT, 0.0)
    found["running plans"] = sum(plan.seconds for plan in plans)
    found["compiling"] = exact.get("plan", 0.0) + exact.get("compile", 0.0)
    found["differentiating"] = exact.get("derive", 0.0)
    rest = max(0.0, wall - sum(found.values()))
    looks = dict.fromkeys(SAMPLED, 0)
    for (phase, _), count in measured.sampler.by_line().items():
        if phase in looks:
            looks[phase] += count
    everything = sum(measured.sampler.by_line().values())
    if not sum(looks.values()):
        found[PYTHON] = rest
        return found
    # Looks come at even distances of processor time, at those that the system's timer can keep.
    period = (measured.after[2] - measured.before[2]) / everything
    # A look during a plan comes when the plan returns: the flushes themselves are timed.
    flushing = sum(
        each.seconds - each.running - each.building - each.cycles / measured.log.rate
        for each in measured.collector.readings.values()
    )
    spent = {phase: count * period for phase, count in looks.items()}
    spent["running"] = min(spent["running"], max(0.0, flushing))
    scale = min(1.0, rest / max(sum(spent.values()), 1e-12))
    for phase, seconds in spent.items():
        found[phase] = seconds * scale
    found["waiting"] = max(0.0, rest - sum(spent.values()) * scale)
    return found
