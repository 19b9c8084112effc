"""Phases: where the wall time went, from running plans to waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradtape.tools.profiler.groups import PlanRecord
from gradtape.tools.profiler.sampler import PYTHON

if TYPE_CHECKING:
    from gradtape.tools.profiler.measured import Measured

# The order in which a report lists them.
WHAT = {
    "running plans": "native code and library calls of plans, counted exactly",
    "compiling": "making plans and machine code, timed exactly",
    "differentiating": "building derivative graphs that were not known, timed exactly",
    "recording": "the library's Python while ops are recorded, sampled",
    "calling functions": "the library's Python around calls of gt.function, sampled",
    "running": "the library's Python around plans: flushes and their bookkeeping, sampled",
    PYTHON: "the program's own Python, sampled",
    "waiting": "the thread had no processor: input, output, sleep, or other programs had it",
}
# Phases that are known by samples only.
SAMPLED = ("recording", "calling functions", "running", PYTHON)


def phases(measured: Measured, plans: Sequence[PlanRecord], wall: float) -> dict[str, float]:
    """Seconds by phase; they add up to the wall time unless several threads ran plans."""
    exact = measured.collector.event_seconds
    samples = measured.sampler.by_phase()
    # Samples come at even distances of processor time, at those that the system's timer can keep.
    everything = sum(samples.values())
    period = (measured.after.cpu - measured.before.cpu) / everything if everything else 0.0
    found = dict.fromkeys(WHAT, 0.0)
    found["running plans"] = sum(plan.seconds for plan in plans)
    # What is compiled beside plans, such as the native recorder, is known by samples alone.
    compiling = sum(exact.get(kind, 0.0) for kind in ("plan", "compile"))
    found["compiling"] = max(compiling, period * samples["compiling"])
    differentiating = exact.get("derive", 0.0)
    found["differentiating"] = max(differentiating, period * samples["differentiating"])
    rest = max(0.0, wall - sum(found.values()))
    spent = {phase: period * samples[phase] for phase in SAMPLED}
    # A sample during a plan is taken when the plan returns: the flushes themselves are timed.
    flushing = sum(
        each.seconds - each.running - each.building - each.cycles / measured.log.rate
        for each in measured.collector.readings.values()
    )
    spent["running"] = min(spent["running"], max(0.0, flushing))
    total = sum(spent.values())
    idle = wall - (measured.after.thread - measured.before.thread)
    found["waiting"] = min(max(0.0, rest - total), max(0.0, idle))
    rest -= found["waiting"]
    for phase, seconds in spent.items():
        found[phase] = rest * seconds / total if total else 0.0
    if not total:
        found[PYTHON] = rest
    return found
