"""Tables: the parts of a profile as rows of plain data, each with the user's line and its text."""

from __future__ import annotations

import linecache
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.compiler.thread_team import get_num_threads
from gradtape.display import shown_file
from gradtape.ir.origin import SourcePlace
from gradtape.tools.profiler.advice import Advice
from gradtape.tools.profiler.collector import Kept
from gradtape.tools.profiler.groups import Group, PlanRecord
from gradtape.tools.profiler.limits import MachineLimits
from gradtape.tools.profiler.measured import FunctionRecord, Measured
from gradtape.version import __version__

# The longest tables of a report.
MOST_GROUPS, MOST_LINES, MOST_PLANS, MOST_RUNS, MOST_EVENTS = 400, 400, 200, 4000, 1000
MOST_GRAPHS, MOST_IN_GRAPH = 4, 120
# Maximum number of rows and columns of a picture of a Jacobian.
PICTURE = 160

COLUMNS = ("forward", "backward", "python", "recording", "reading", "building")


def line_table(
    lines: Mapping[SourcePlace | None, dict[str, float]], groups: Sequence[Group]
) -> list[dict[str, Any]]:
    parts: dict[SourcePlace | None, list[Group]] = {}
    for group in groups:
        for place in dict.fromkeys(place for place, _ in group.shares):
            parts.setdefault(place, []).append(group)
    table = [
        {
            **shown(place),
            **entry,
            "seconds": sum(entry.values()),
            "layers": layer_table(parts.get(place, ()), place),
        }
        for place, entry in lines.items()
    ]
    return sorted(table, key=lambda row: -row["seconds"])


def layer_table(groups: Sequence[Group], *of: SourcePlace | None) -> list[dict[str, Any]]:
    """The time of plans by layer, the longest first; of one line, if there is one.

    There is no row for ops outside of layers if all are outside.
    """
    found: dict[str | None, dict[str, float]] = {}
    for group in groups:
        for (place, backward, layer), share in group.layers.items():
            if not of or place == of[0]:
                entry = found.setdefault(layer, {"forward": 0.0, "backward": 0.0})
                entry["backward" if backward else "forward"] += share * group.seconds
    if not any(found):
        return []
    rows: list[dict[str, Any]] = [
        {"name": name, **entry, "seconds": sum(entry.values())} for name, entry in found.items()
    ]
    return sorted(rows, key=lambda row: -row["seconds"])[:MOST_LINES]


def shown(place: SourcePlace | None) -> dict[str, Any]:
    """A line as data, with its text."""
    if place is None:
        return {"file": None, "line": 0, "function": None, "source": None}
    text = linecache.getline(place.file, place.line).strip()
    return {
        "file": _short(place.file),
        "line": place.line,
        "function": place.function,
        "source": text[:200] or None,
    }


def _short(file: str) -> str:
    """A path without the folder that the program runs in, or the name of a cell."""
    if (cell := shown_file(file)) != file:
        return cell
    try:
        found = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if found.startswith("..") else found


def machine(limits: MachineLimits) -> dict[str, Any]:
    return {
        "gradtape": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": platform.machine(),
        "processors": os.cpu_count(),
        "threads": get_num_threads(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
        "limits": asdict(limits),
    }


def columns(thing: object, *names: str) -> dict[str, Any]:
    """Some attributes as data."""
    return {name: getattr(thing, name) for name in names}


def advice_row(found: Advice, wall: float) -> dict[str, Any]:
    share = found.seconds / wall if wall else 0.0
    row = columns(found, "kind", "sentence", "remedy", "seconds", "how")
    return {**row, "share": share, **shown(found.place)}


def directions(groups: Sequence[Group]) -> dict[str, float]:
    found = {"forward": 0.0, "backward": 0.0}
    for group in groups:
        for (_, backward), share in group.shares.items():
            found["backward" if backward else "forward"] += share * group.seconds
    return found


def counters(measured: Measured) -> dict[str, int]:
    old, new = vars(measured.before.counters), vars(measured.after.counters)
    return {name: new[name] - old[name] for name in new}


def caches(measured: Measured) -> dict[str, Any]:
    collector, counts = measured.collector, counters(measured)
    plans = {"hits": counts["plan_hits"], "misses": counts["plans_built"]}
    return {
        "plans": {**plans, "causes": dict(collector.causes)},
        "derivatives": {"hits": counts["derivative_hits"], "misses": counts["derivatives_built"]},
        "kernels": {name: counts[f"kernels_{name}"] for name in ("compiled", "loaded", "reused")},
        "events": {
            kind: {"count": count, "seconds": collector.event_seconds[kind]}
            for kind, count in collector.event_counts.items()
        },
    }


def plan_row(record: PlanRecord) -> dict[str, Any]:
    row = columns(record, "number", "tier", "runs", "seconds", "ops", "owner", "arena")
    return {**row, "groups": len(record.groups), **shown(record.place)}


# The columns that a group has in its table and in the graph of its plan.
OF_GROUP = ("number", "kind", "title", "dtype", "seconds", "backward")


def group_row(group: Group) -> dict[str, Any]:
    return {
        **columns(group, *OF_GROUP, "plan", "runs", "flops", "parallel"),
        "shape": list(group.space),
        "bytes": group.nbytes,
        "ops": len(group.nodes),
        "shared_seconds": group.shared,
        "serial_seconds": group.serial,
        "lines": [
            {**shown(where), "backward": back, "share": share}
            for (where, back), share in sorted(group.shares.items(), key=lambda item: -item[1])[:6]
        ],
        **shown(group.place),
    }


def readings(measured: Measured) -> list[dict[str, Any]]:
    rate = measured.log.rate
    found = [
        {
            **columns(each, "count", "seconds", "building", "values"),
            "running": each.running + each.cycles / rate,
            **shown(place),
        }
        for place, each in measured.collector.readings.items()
    ]
    return sorted(found, key=lambda row: -float(row["seconds"]))[:MOST_LINES]


def function_table(records: Sequence[FunctionRecord]) -> list[dict[str, Any]]:
    """A row for each function, with all its kinds of arguments together."""
    together: dict[tuple[str, SourcePlace | None], list[FunctionRecord]] = {}
    for record in records:
        together.setdefault((record.name, record.place), []).append(record)
    rows = []
    for (name, place), found in together.items():
        # Of several, the latest cause, and the first refusal.
        causes = [each.why for each in found if each.why is not None]
        refused = next((each for each in found if each.refused), None)
        sums = ("calls", "captures", "capture_seconds")
        row = {
            "name": name,
            "kinds": len(found),
            **{column: sum(getattr(each, column) for each in found) for column in sums},
            "why": "{} was {} and is {}".format(*causes[-1]) if causes else None,
            "refused": None if refused is None else refused.refused,
            "remedy": "" if refused is None else refused.remedy,
            "native": any(each.native for each in found),
        }
        rows.append({**row, **shown(place)})
    return rows


def memory(measured: Measured) -> dict[str, Any]:
    notes = measured.sampler.memory
    names = ("time", "resident", "used", "idle", "kept")
    kept = sorted(measured.collector.kept.items(), key=lambda item: -item[1].nbytes)[:8]
    return {
        "over_time": {name: [note[at] for note in notes] for at, name in enumerate(names)},
        "peak": max((note[1] for note in notes), default=0),
        "kept": [
            {
                **shown(place),
                "bytes": found.nbytes,
                "at": found.seconds,
                "values": _kept_values(found),
            }
            for place, found in kept
        ],
    }


def _kept_values(found: Kept) -> list[dict[str, Any]]:
    """A row for each line and kind of value, the largest first."""
    together: dict[tuple[str, str, SourcePlace | None, str], list[int]] = {}
    for op, of, nbytes, where, why in found.values:
        together.setdefault((op, of, where, why), []).append(nbytes)
    rows = [
        {"op": op, "spec": of, "count": len(sizes), "bytes": sum(sizes), "why": why, **shown(where)}
        for (op, of, where, why), sizes in together.items()
    ]
    return sorted(rows, key=lambda row: -int(row["bytes"]))[:40]


def graphs(plans: Sequence[PlanRecord]) -> list[dict[str, Any]]:
    """The plans that took the most time and have groups that read each other's results."""
    rows = (graph_row(each) for each in plans if any(group.reads for group in each.groups))
    return list(islice((row for row in rows if row is not None), MOST_GRAPHS))


def graph_row(record: PlanRecord) -> dict[str, Any] | None:
    """A plan as a graph of its groups; of a very large one the longest groups.

    None if no group of these reads the result of another.
    """
    chosen = sorted(record.groups, key=lambda group: -group.seconds)[:MOST_IN_GRAPH]
    numbers = {group.number for group in chosen}
    nodes = [
        {**columns(each, *OF_GROUP, "keeps"), "shape": list(each.space), **shown(each.place)}
        for each in sorted(chosen, key=lambda group: group.number)
    ]
    edges = [
        [source, group.number] for group in chosen for source in group.reads if source in numbers
    ]
    if not edges:
        return None
    return {
        "plan": record.number,
        "owner": record.owner,
        "tier": record.tier,
        "seconds": record.seconds,
        "nodes": nodes,
        "edges": edges,
        "left_out": len(record.groups) - len(chosen),
        **shown(record.place),
    }


def timeline(measured: Measured, plans: Sequence[PlanRecord], began: int) -> dict[str, Any]:
    number = {address: plan.number for plan in plans for address in plan.addresses}
    in_numpy = {id(plan.plan): plan.number for plan in plans if plan.tier == "NumPy"}
    rows = [(number[row[0]], *row[1:], 0) for row in measured.log.rows if row[0] in number]
    collector = measured.collector
    rows += [(in_numpy[row[0]], *row[1:], 1) for row in collector.numpy_runs if row[0] in in_numpy]
    threads: dict[int, int] = {}
    runs = [
        [
            plan,
            round((begin - began) * 1e-9, 7),
            round((end - begin) * 1e-9, 8),
            threads.setdefault(thread, len(threads)),
            tier,
        ]
        for plan, begin, end, thread, tier in sorted(rows, key=lambda row: row[1])[:MOST_RUNS]
    ]
    events = [
        {
            "kind": event.kind,
            "begin": (event.begin - began) * 1e-9,
            "seconds": (event.end - event.begin) * 1e-9,
            "text": event.text,
            **shown(event.place),
        }
        for event in measured.collector.events[:MOST_EVENTS]
    ]
    left = max(0, measured.log.total + collector.numpy_runs_in_all - len(runs))
    return {"runs": runs, "left_out": left, "events": events, "threads": len(threads)}


def jacobians(measured: Measured) -> list[dict[str, Any]]:
    """A row for each pattern of one line, also if it was prepared more than once."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for coloured, count, place in measured.collector.colourings.values():
        row = _jacobian(coloured, count, place)
        key = (place, row["rows"], row["columns"], row["entries"], row["method"])
        if key in found:
            found[key]["count"] += count
        else:
            found[key] = row
    return list(found.values())


def _jacobian(coloured: Any, count: int, place: SourcePlace | None) -> dict[str, Any]:
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
        **shown(place),
        "count": count,
        "rows": pattern.shape[0],
        "columns": pattern.shape[1],
        "entries": int(pattern.nnz),
        "method": coloured.method,
        "why": f"{ways[coloured.method]}: {products} instead of {min(pattern.shape)}",
        "forward": coloured.forward_count,
        "reverse": coloured.reverse_count,
        "picture": _picture(pattern, coloured),
    }


def _picture(pattern: Pattern, coloured: Any) -> dict[str, Any]:
    """The blocks that have entries, and the colour of each block's columns, or else of its rows."""
    shrink = max(1, -(-max(pattern.shape) // PICTURE))
    rows, columns = (-(-size // shrink) for size in pattern.shape)
    blocks = np.unique(
        (pattern.row_numbers // shrink).astype(np.int64) * columns + pattern.indices // shrink
    )
    colours = coloured.columns if coloured.columns is not None else coloured.rows
    of = np.asarray(colours.of)[::shrink] if colours is not None else np.zeros(0, np.int64)
    return {
        "shrink": shrink,
        "rows": rows,
        "columns": columns,
        "blocks": blocks.tolist(),
        "by": "columns" if coloured.columns is not None else "rows",
        "colours": of.tolist(),
    }
