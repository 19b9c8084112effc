"""Contents: everything that a profile measured as one nest of plain data.

The page, the JSON, the tables and the text are made from this nest and from nothing else, so they
cannot disagree. Times are in seconds since the profile began, sizes in bytes.
"""

from __future__ import annotations

import datetime
import linecache
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gradtape.ir.origin import SourcePlace
from gradtape.runtime.plan_cache import plan_holders
from gradtape.runtime.profiler_sink import compiled_plans
from gradtape.tools.profiler import advice, flame, phases, tables
from gradtape.tools.profiler.collector import Capturing, ObservedPlan, Reading
from gradtape.tools.profiler.groups import Group, PlanRecord, compiled_record, numpy_record
from gradtape.tools.profiler.limits import MachineLimits, machine_limits
from gradtape.tools.profiler.measured import Findings, FunctionRecord, Measured, captures
from gradtape.tools.profiler.sampler import PYTHON
from gradtape.tools.profiler.steady import SampledLine, steady_plans, steady_readings


def contents(measured: Measured) -> dict[str, Any]:
    """Everything, as lists, dictionaries, numbers and texts."""
    functions = _functions(measured)
    plans = _plans(measured)
    wall = measured.wall
    groups = [group for plan in plans for group in plan.groups]
    spent = phases.phases(measured, plans, wall)
    sampled = _seconds_of_samples(measured, spent)
    readings = measured.collector.readings
    lines = _lines(measured, groups, sampled, readings)
    limits = machine_limits()
    found_advice = advice.advice(_findings(measured, plans, sampled, functions, limits, spent))
    began = measured.collector.began
    title = measured.title or (str(measured.place) if measured.place else "a profile")
    longest = sorted(groups, key=lambda group: -group.seconds)[: tables.MOST_GROUPS]
    return {
        "format": 1,
        "title": title,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_seconds": wall,
        "cpu_seconds": measured.after.cpu - measured.before.cpu,
        "machine": tables.machine(limits),
        "advice": [tables.advice_row(each, wall) for each in found_advice],
        "phases": [
            {"name": name, "seconds": seconds, "what": phases.WHAT[name]}
            for name, seconds in spent.items()
        ],
        "directions": tables.directions(groups),
        "counters": tables.counters(measured),
        "caches": tables.caches(measured),
        "plans": [tables.plan_row(each) for each in plans[: tables.MOST_PLANS]],
        "groups": [tables.group_row(each) for each in longest],
        "lines": tables.line_table(lines, groups)[: tables.MOST_LINES],
        "layers": tables.layer_table(groups),
        "readings": tables.readings(measured),
        "functions": tables.function_table(functions),
        "memory": tables.memory(measured),
        "flame": flame.flame(flame.seconds_of(measured.sampler.stacks, spent), tables.shown),
        "graphs": tables.graphs(plans),
        "timeline": tables.timeline(measured, plans, began),
        "jacobians": tables.jacobians(measured),
    }


def _findings(
    measured: Measured,
    plans: Sequence[PlanRecord],
    sampled: Mapping[SampledLine, float],
    functions: Sequence[FunctionRecord],
    limits: MachineLimits,
    spent: Mapping[str, float],
) -> Findings:
    """The input of advice: the times of steady calls."""
    steady, rate = steady_plans(plans, measured.log), measured.log.rate
    readings = steady_readings(measured.collector.readings)
    groups = [group for plan in steady for group in plan.groups]
    lines = _lines(measured, groups, sampled, readings)
    wall = measured.wall
    busy = wall - spent["compiling"] - spent["waiting"]
    return Findings(measured, readings, steady, groups, lines, functions, limits, wall, busy, rate)


# Plans.


def _plans(measured: Measured) -> list[PlanRecord]:
    """The plans that ran, the longest first."""
    collector = measured.collector
    owners = _owners()
    by_compiled: dict[int, tuple[Any, ObservedPlan | None]] = {}
    tiered = {id(each): each for each in collector.plans}
    tiered |= {id(each.plan): each.plan for each in collector.bindings.values()}
    tiered |= {id(plan): plan for plan, _, _, _ in owners.values()}
    for key, plan in tiered.items():
        if plan.compiled is not None:
            by_compiled[id(plan.compiled)] = plan, collector.bindings.get(key)
    found: list[PlanRecord] = []
    for compiled in compiled_plans():
        plan, binding = by_compiled.get(id(compiled), (None, None))
        since = measured.baselines.get(id(compiled))
        record = compiled_record(compiled, since, measured.log.rate, binding, plan)
        if record is not None:
            found.append(record)
    for runs in collector.numpy_plans.values():
        found.append(numpy_record(runs, collector.bindings.get(id(runs.plan))))
    for record in found:
        if record.plan is not None and id(record.plan) in owners:
            _, record.owner, record.owner_place, record.fixed = owners[id(record.plan)]
    found.sort(key=lambda record: -record.seconds)
    for number, record in enumerate(found):
        record.number = number
        for group in record.groups:
            group.plan = number
    return found


def _owners() -> dict[int, tuple[Any, str, SourcePlace | None, set[int]]]:
    """The function that each plan belongs to and its fixed inputs, by id of the plan."""
    found: dict[int, tuple[Any, str, SourcePlace | None, set[int]]] = {}
    for holder in plan_holders():
        function: Any = holder
        for captured in captures(function):
            stack = [captured.steps.root]
            while stack:
                step = stack.pop()
                for run in step.runs:
                    place, _ = _definition(function.python_function)
                    fixed = set(run.constants())
                    found[id(run.plan)] = run.plan, function.__name__, place, fixed
                stack += step.branches.values()
    return found


def _definition(function: Any) -> tuple[SourcePlace | None, int]:
    """The definition of a Python function, and its last line."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return None, 0
    last = max((line for _, _, line in code.co_lines() if line is not None), default=0)
    # The first line is that of a decorator, if there is one.
    first = code.co_firstlineno
    while first < last and linecache.getline(code.co_filename, first).lstrip().startswith("@"):
        first += 1
    return SourcePlace(code.co_filename, first, code.co_qualname), last


def _functions(measured: Measured) -> list[FunctionRecord]:
    known = {id(each): each for each in captures()}
    # Functions that are gone by now were captured while the profile ran.
    known |= {id(each.captured): each.captured for each in measured.collector.captures.values()}
    found = []
    for captured in known.values():
        calls = captured.calls - measured.calls.get(id(captured), 0)
        capturing = measured.collector.captures.get(id(captured), Capturing(captured))
        if calls <= 0 and not capturing.count:
            continue
        place, last = _definition(captured.function)
        found.append(
            FunctionRecord(
                captured.name,
                place,
                last,
                calls,
                capturing.count,
                capturing.seconds,
                captured.history.why,
                captured.refused,
                captured.history.remedy,
                captured.native_call is not None,
            )
        )
    found.sort(key=lambda record: (-record.capture_seconds, -record.calls))
    return found


# Lines.


def _lines(
    measured: Measured,
    groups: Sequence[Group],
    sampled: Mapping[SampledLine, float],
    readings: Mapping[SourcePlace | None, Reading],
) -> dict[SourcePlace | None, dict[str, float]]:
    """Seconds by line: of plans forward and backward, of Python, of recording, of flushes."""
    found: dict[SourcePlace | None, dict[str, float]] = defaultdict(
        lambda: dict.fromkeys(tables.COLUMNS, 0.0)
    )
    for group in groups:
        for (place, backward), share in group.shares.items():
            found[place]["backward" if backward else "forward"] += share * group.seconds
    for (phase, place), seconds in sampled.items():
        found[place]["python" if phase == PYTHON else "recording"] += seconds
    for place, reading in readings.items():
        rest = reading.seconds - reading.running - reading.building
        found[place]["reading"] += max(0.0, rest - reading.cycles / measured.log.rate)
        found[place]["building"] += reading.building
    return dict(found)


def _seconds_of_samples(measured: Measured, spent: Mapping[str, float]) -> dict[SampledLine, float]:
    """Seconds by phase and line: each phase is divided as its samples are."""
    samples, totals = measured.sampler.samples, measured.sampler.by_phase()
    return {
        (phase, place): spent.get(phase, 0.0) * count / totals[phase]
        for (phase, place), count in samples.items()
        if phase in phases.SAMPLED
    }
