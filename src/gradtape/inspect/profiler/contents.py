"""Contents: everything that a profile measured as one nest of plain data.

The page, the JSON, the tables and the text are made from this nest and from nothing else, so they
cannot disagree. Times are in seconds since the profile began, sizes in bytes.
"""

from __future__ import annotations

import datetime
import linecache
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.graph.recorded_lines import Place
from gradtape.inspect.profiler import advice, phases
from gradtape.inspect.profiler.collector import Binding, Collector, Kept
from gradtape.inspect.profiler.groups import (
    Baseline,
    Group,
    PlanRecord,
    compiled_record,
    numpy_record,
)
from gradtape.inspect.profiler.limits import Limits, machine_limits
from gradtape.inspect.profiler.plan_log import Runs
from gradtape.inspect.profiler.sampler import PYTHON, Sampler
from gradtape.runtime.counters import Counters, counters
from gradtape.runtime.plan_cache import plan_holders
from gradtape.runtime.probe import compiled_plans
from gradtape.runtime.thread_team import get_num_threads
from gradtape.sparsity.pattern import Pattern
from gradtape.version import __version__

# The longest tables of a report.
MOST_GROUPS, MOST_LINES, MOST_PLANS, MOST_RUNS, MOST_EVENTS = 400, 400, 200, 4000, 1000
MOST_GRAPHS, MOST_IN_GRAPH = 4, 120
# A picture of a Jacobian has at most so many rows and columns.
PICTURE = 160


@dataclass(frozen=True)
class Moment:
    """The counters and clocks when a profile began or ended, in seconds."""

    counters: Counters
    wall: float
    # Processor time of the process, and of the thread that profiles.
    cpu: float
    thread: float

    @classmethod
    def now(cls) -> Moment:
        """The present moment."""
        return cls(counters(), time.perf_counter(), time.process_time(), time.thread_time())


@dataclass(frozen=True)
class Measured:
    """What the parts of a profile have noted."""

    title: str
    place: Place | None
    collector: Collector
    sampler: Sampler
    log: Runs
    before: Moment
    after: Moment
    baselines: Mapping[int, Baseline]
    calls: Mapping[int, int]


@dataclass(frozen=True)
class FunctionRecord:
    """One signature of a `gt.function` that was called."""

    name: str
    place: Place | None
    last_line: int
    calls: int
    captures: int
    capture_seconds: float
    why: tuple[str, str, str] | None
    refused: str | None
    remedy: str
    native: bool


@dataclass(frozen=True)
class Findings:
    """What was measured, put together: what advice looks at."""

    measured: Measured
    plans: Sequence[PlanRecord]
    groups: Sequence[Group]
    lines: Mapping[Place | None, dict[str, float]]
    functions: Sequence[FunctionRecord]
    limits: Limits
    wall: float
    rate: float


def contents(measured: Measured) -> dict[str, Any]:
    """Everything, as lists, dictionaries, numbers and texts."""
    functions = _functions(measured)
    plans = _plans(measured)
    wall = measured.after.wall - measured.before.wall
    groups = [group for plan in plans for group in plan.groups]
    spent = phases.phases(measured, plans, wall)
    lines = _lines(measured, groups, spent)
    limits = machine_limits()
    findings = Findings(measured, plans, groups, lines, functions, limits, wall, measured.log.rate)
    told = advice.advice(findings)
    began = measured.collector.began
    title = measured.title or (str(measured.place) if measured.place else "a profile")
    return {
        "format": 1,
        "title": title,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_seconds": wall,
        "cpu_seconds": measured.after.cpu - measured.before.cpu,
        "machine": _machine(limits),
        "advice": [_advice(each, wall) for each in told],
        "phases": [
            {"name": name, "seconds": seconds, "what": phases.WHAT[name]}
            for name, seconds in spent.items()
        ],
        "directions": _directions(groups),
        "counters": _counters(measured),
        "caches": _caches(measured),
        "plans": [_plan(each) for each in plans[:MOST_PLANS]],
        "groups": [
            _group(each) for each in sorted(groups, key=lambda group: -group.seconds)[:MOST_GROUPS]
        ],
        "lines": _line_table(lines)[:MOST_LINES],
        "readings": _readings(measured),
        "functions": _function_table(functions),
        "memory": _memory(measured),
        "graphs": [_graph(each) for each in plans[:MOST_GRAPHS] if len(each.groups) > 1],
        "timeline": _timeline(measured, plans, began),
        "jacobians": _jacobians(measured),
    }


# Plans.


def _plans(measured: Measured) -> list[PlanRecord]:
    """The plans that ran, the longest first."""
    collector = measured.collector
    owners = _owners()
    by_compiled: dict[int, tuple[Any, Binding | None]] = {}
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
        record = compiled_record(
            len(found), compiled, since, measured.log.rate, collector, binding, plan
        )
        if record is not None:
            found.append(record)
    for plan, runs, times in collector.numpy_plans.values():
        binding = collector.bindings.get(id(plan))
        found.append(numpy_record(len(found), plan, runs[0], times, binding))
    for record in found:
        if record.plan is not None and id(record.plan) in owners:
            _, record.owner, record.owner_place, record.fixed = owners[id(record.plan)]
    found.sort(key=lambda record: -record.seconds)
    for number, record in enumerate(found):
        record.number = number
        for group in record.groups:
            group.plan = number
    return found


def _owners() -> dict[int, tuple[Any, str, Place | None, set[int]]]:
    """The function that each plan belongs to and its fixed inputs, by id of the plan."""
    found: dict[int, tuple[Any, str, Place | None, set[int]]] = {}
    for holder in plan_holders():
        function: Any = holder
        for captured in _captures(function):
            stack = [captured.steps.root]
            while stack:
                step = stack.pop()
                for run in step.runs:
                    place, _ = _definition(function.python_function)
                    fixed = set(run.constants())
                    found[id(run.plan)] = run.plan, function.__name__, place, fixed
                stack += step.branches.values()
    return found


def _captures(function: Any) -> list[Any]:
    known: dict[int, Any] = {}
    for captured in function._local.by_key.values():
        for each in captured.siblings:
            known[id(each)] = each
    return list(known.values())


def _definition(function: Any) -> tuple[Place | None, int]:
    """Where a function of Python's is defined, and its last line."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return None, 0
    last = max((line for _, _, line in code.co_lines() if line is not None), default=0)
    # The first line is that of a decorator, if there is one.
    first = code.co_firstlineno
    while first < last and linecache.getline(code.co_filename, first).lstrip().startswith("@"):
        first += 1
    return Place(code.co_filename, first, code.co_qualname), last


def _functions(measured: Measured) -> list[FunctionRecord]:
    known = {id(each): each for holder in plan_holders() for each in _captures(holder)}
    # Functions that are gone by now were captured while the profile ran.
    known |= {id(each.captured): each.captured for each in measured.collector.captures.values()}
    found = []
    for captured in known.values():
        calls = captured.calls - measured.calls.get(id(captured), 0)
        capturing = measured.collector.captures.get(id(captured))
        if calls <= 0 and capturing is None:
            continue
        place, last = _definition(captured.function)
        found.append(FunctionRecord(
            captured.name, place, last, calls,
            0 if capturing is None else capturing.count,
            0.0 if capturing is None else capturing.seconds,
            captured.history.why, captured.refused, captured.history.remedy,
            captured.native_call is not None,
        ))  # fmt: skip
    found.sort(key=lambda record: (-record.capture_seconds, -record.calls))
    return found


# Lines.


def _lines(
    measured: Measured, groups: Sequence[Group], spent: Mapping[str, float]
) -> dict[Place | None, dict[str, float]]:
    """Seconds by line: of plans forward and backward, of Python, of recording, of flushes."""
    found: dict[Place | None, dict[str, float]] = {}

    def add(place: Place | None, name: str, seconds: float) -> None:
        entry = found.setdefault(place, dict.fromkeys(COLUMNS, 0.0))
        entry[name] += seconds

    for group in groups:
        for (place, backward), share in group.shares.items():
            add(place, "backward" if backward else "forward", share * group.seconds)
    looks = measured.sampler.looks
    totals: dict[str, int] = {}
    for (phase, _), count in looks.items():
        totals[phase] = totals.get(phase, 0) + count
    for (phase, place), count in looks.items():
        if phase in phases.SAMPLED:
            name = {PYTHON: "python"}.get(phase, "recording")
            add(place, name, spent.get(phase, 0.0) * count / totals[phase])
    for place, reading in measured.collector.readings.items():
        rest = reading.seconds - reading.running - reading.building
        add(place, "reading", max(0.0, rest - reading.cycles / measured.log.rate))
        add(place, "building", reading.building)
    return found


COLUMNS = ("forward", "backward", "python", "recording", "reading", "building")


def _line_table(lines: Mapping[Place | None, dict[str, float]]) -> list[dict[str, Any]]:
    table = [
        {**_shown(place), **entry, "seconds": sum(entry.values())} for place, entry in lines.items()
    ]
    return sorted(table, key=lambda row: -row["seconds"])


def _shown(place: Place | None) -> dict[str, Any]:
    """A line as data, with its text."""
    if place is None:
        return {"file": None, "line": 0, "function": None, "source": None}
    text = linecache.getline(place.file, place.line).strip()
    return {
        "file": _short(place.file), "line": place.line, "function": place.function,
        "source": text[:200] or None,
    }  # fmt: skip


def _short(file: str) -> str:
    """A path without the folder that the program runs in."""
    try:
        found = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if found.startswith("..") else found


# Tables.


def _machine(limits: Limits) -> dict[str, Any]:
    return {
        "gradtape": __version__, "python": platform.python_version(), "numpy": np.__version__,
        "processor": platform.machine(), "processors": os.cpu_count(),
        "threads": get_num_threads(), "program": os.path.basename(sys.argv[0]) if sys.argv else "",
        "limits": limits.as_dict(),
    }  # fmt: skip


def _advice(found: advice.Advice, wall: float) -> dict[str, Any]:
    return {
        "kind": found.kind, "sentence": found.sentence, "remedy": found.remedy,
        "seconds": found.seconds, "share": found.seconds / wall if wall else 0.0,
        "how": found.how, **_shown(found.place),
    }  # fmt: skip


def _directions(groups: Sequence[Group]) -> dict[str, float]:
    found = {"forward": 0.0, "backward": 0.0}
    for group in groups:
        for (_, backward), share in group.shares.items():
            found["backward" if backward else "forward"] += share * group.seconds
    return found


def _counters(measured: Measured) -> dict[str, int]:
    old, new = vars(measured.before.counters), vars(measured.after.counters)
    return {name: new[name] - old[name] for name in new}


def _caches(measured: Measured) -> dict[str, Any]:
    collector, counts = measured.collector, _counters(measured)
    return {
        "plans": {"hits": counts["plan_hits"], "misses": counts["plans_built"],
                  "causes": dict(collector.causes)},
        "derivatives": {"hits": counts["derivative_hits"],
                        "misses": counts["derivatives_built"]},
        "kernels": {"compiled": counts["kernels_compiled"], "loaded": counts["kernels_loaded"],
                    "reused": counts["kernels_reused"]},
        "events": {kind: {"count": count, "seconds": collector.event_seconds[kind]}
                   for kind, count in collector.event_counts.items()},
    }  # fmt: skip


def _plan(record: PlanRecord) -> dict[str, Any]:
    return {
        "number": record.number, "tier": record.tier, "runs": record.runs,
        "seconds": record.seconds, "ops": record.ops, "groups": len(record.groups),
        "owner": record.owner, "arena": record.arena, **_shown(record.place),
    }  # fmt: skip


def _group(group: Group) -> dict[str, Any]:
    place, _ = max(group.shares, key=lambda key: group.shares[key])
    backward = sum(share for (_, back), share in group.shares.items() if back)
    return {
        "plan": group.plan, "number": group.number, "kind": group.kind, "title": group.title,
        "dtype": group.dtype, "shape": list(group.space), "runs": group.runs,
        "seconds": group.seconds, "flops": group.flops, "bytes": group.nbytes,
        "parallel": group.parallel, "backward": backward, "ops": len(group.nodes),
        "shared_seconds": group.shared, "serial_seconds": group.serial,
        "lines": [
            {**_shown(where), "backward": back, "share": share}
            for (where, back), share in sorted(group.shares.items(), key=lambda item: -item[1])[:6]
        ],
        **_shown(place),
    }  # fmt: skip


def _readings(measured: Measured) -> list[dict[str, Any]]:
    rate = measured.log.rate
    found = [
        {"count": each.count, "seconds": each.seconds,
         "running": each.running + each.cycles / rate, "building": each.building,
         "values": each.values, **_shown(place)}
        for place, each in measured.collector.readings.items()
    ]  # fmt: skip
    return sorted(found, key=lambda row: -float(row["seconds"]))[:MOST_LINES]


def _function_table(records: Sequence[FunctionRecord]) -> list[dict[str, Any]]:
    """A row for each function, with all its kinds of arguments together."""
    together: dict[tuple[str, Place | None], list[FunctionRecord]] = {}
    for record in records:
        together.setdefault((record.name, record.place), []).append(record)
    return [
        {
            "name": name, "kinds": len(found), "calls": sum(each.calls for each in found),
            "captures": sum(each.captures for each in found),
            "capture_seconds": sum(each.capture_seconds for each in found),
            "why": next(("{} was {} and is {}".format(*each.why) for each in reversed(found)
                         if each.why is not None), None),
            "refused": next((each.refused for each in found if each.refused), None),
            "remedy": next((each.remedy for each in found if each.refused), ""),
            "native": any(each.native for each in found), **_shown(place),
        }
        for (name, place), found in together.items()
    ]  # fmt: skip


def _memory(measured: Measured) -> dict[str, Any]:
    notes = measured.sampler.memory
    names = ("time", "resident", "used", "idle", "kept")
    kept = sorted(measured.collector.kept.items(), key=lambda item: -item[1].nbytes)[:8]
    return {
        "over_time": {name: [note[at] for note in notes] for at, name in enumerate(names)},
        "peak": max((note[1] for note in notes), default=0),
        "kept": [
            {**_shown(place), "bytes": found.nbytes, "at": found.seconds,
             "values": _kept_values(found)}
            for place, found in kept
        ],
    }  # fmt: skip


def _kept_values(found: Kept) -> list[dict[str, Any]]:
    """A row for each line and kind of value, the largest first."""
    together: dict[tuple[str, str, Place | None, str], list[int]] = {}
    for op, of, nbytes, where, why in found.values:
        together.setdefault((op, of, where, why), []).append(nbytes)
    rows = [
        {"op": op, "spec": of, "count": len(sizes), "bytes": sum(sizes), "why": why,
         **_shown(where)}
        for (op, of, where, why), sizes in together.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -int(row["bytes"]))[:40]


def _graph(record: PlanRecord) -> dict[str, Any]:
    """A plan as a graph of its groups; of a very large one the longest groups."""
    chosen = sorted(record.groups, key=lambda group: -group.seconds)[:MOST_IN_GRAPH]
    numbers = {group.number for group in chosen}
    nodes = []
    for group in sorted(chosen, key=lambda group: group.number):
        place, _ = max(group.shares, key=lambda key: group.shares[key])
        backward = sum(share for (_, back), share in group.shares.items() if back)
        nodes.append({
            "number": group.number, "title": group.title, "kind": group.kind,
            "seconds": group.seconds, "shape": list(group.space), "dtype": group.dtype,
            "backward": backward, "keeps": group.keeps, **_shown(place),
        })  # fmt: skip
    edges = [
        [source, group.number] for group in chosen for source in group.reads if source in numbers
    ]
    return {
        "plan": record.number, "owner": record.owner, "nodes": nodes, "edges": edges,
        "left_out": len(record.groups) - len(chosen), **_shown(record.place),
    }  # fmt: skip


def _timeline(measured: Measured, plans: Sequence[PlanRecord], began: int) -> dict[str, Any]:
    number = {address: plan.number for plan in plans for address in plan.addresses}
    rows = [row for row in measured.log.rows if row[0] in number]
    threads: dict[int, int] = {}
    runs = [
        [
            number[plan], round((begin - began) * 1e-9, 7), round((end - begin) * 1e-9, 8),
            threads.setdefault(thread, len(threads)),
        ]
        for plan, begin, end, thread in rows[:MOST_RUNS]
    ]  # fmt: skip
    events = [
        {"kind": event.kind, "begin": (event.begin - began) * 1e-9,
         "seconds": (event.end - event.begin) * 1e-9, "text": event.text, **_shown(event.place)}
        for event in measured.collector.events[:MOST_EVENTS]
    ]  # fmt: skip
    left = max(0, measured.log.total - len(runs))
    return {"runs": runs, "left_out": left, "events": events, "threads": len(threads)}


def _jacobians(measured: Measured) -> list[dict[str, Any]]:
    """A row for each pattern that one line asks for, though it was prepared more than once."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for coloured, count, place in measured.collector.colourings.values():
        row = _jacobian(coloured, count, place)
        key = (place, row["rows"], row["columns"], row["entries"], row["method"])
        if key in found:
            found[key]["count"] += count
        else:
            found[key] = row
    return list(found.values())


def _jacobian(coloured: Any, count: int, place: Place | None) -> dict[str, Any]:
    pattern: Pattern = coloured.pattern
    ways = {
        "column": "forward products, one for each colour of columns",
        "row": "reverse products, one for each colour of rows",
        "bidirectional": "forward and reverse products together",
        "star": "Hessian-vector products, a star colouring of a symmetric matrix",
        "acyclic": "Hessian-vector products, an acyclic colouring of a symmetric matrix",
    }
    products = coloured.forward_count + coloured.reverse_count
    return {
        **_shown(place), "count": count, "rows": pattern.shape[0], "columns": pattern.shape[1],
        "entries": int(pattern.nnz), "method": coloured.method, "why": (
            f"{ways[coloured.method]}: {products} instead of {min(pattern.shape)}"
        ),
        "forward": coloured.forward_count, "reverse": coloured.reverse_count,
        "picture": _picture(pattern, coloured),
    }  # fmt: skip


def _picture(pattern: Pattern, coloured: Any) -> dict[str, Any]:
    """Which blocks have entries, and the colour of each block's columns, or else of its rows."""
    shrink = max(1, -(-max(pattern.shape) // PICTURE))
    rows, columns = (-(-size // shrink) for size in pattern.shape)
    blocks = np.unique(
        (pattern.row_numbers // shrink).astype(np.int64) * columns + pattern.indices // shrink
    )
    colours = coloured.columns if coloured.columns is not None else coloured.rows
    of = np.asarray(colours.of)[::shrink] if colours is not None else np.zeros(0, np.int64)
    return {
        "shrink": shrink, "rows": rows, "columns": columns, "blocks": blocks.tolist(),
        "by": "columns" if coloured.columns is not None else "rows",
        "colours": of.tolist(),
    }  # fmt: skip
