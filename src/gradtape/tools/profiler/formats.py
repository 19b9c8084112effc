"""Formats: the data of a profile as JSON, as a trace for Perfetto, as tables and as text."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

TABLES = ("groups", "lines", "layers", "plans", "advice", "functions", "readings", "memory", "runs")


def json_text(data: Mapping[str, Any]) -> str:
    """The data as JSON. Numbers that JSON does not have become null."""
    return json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)


def _finite(thing: Any) -> Any:
    if isinstance(thing, float):
        return thing if thing - thing == 0 else None
    if isinstance(thing, Mapping):
        return {name: _finite(each) for name, each in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_finite(each) for each in thing]
    return thing


def written(text: str, path: str | Path | None) -> str:
    """The text, which is also written to a file if there is a path."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def chrome_trace(data: Mapping[str, Any]) -> str:
    """The timeline as trace events: complete events in microseconds."""
    process = {"name": f"gradtape: {data['title']}"}
    thread = {"name": "compiling and differentiating"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": process},
        {"ph": "M", "pid": 1, "tid": 1000, "name": "thread_name", "args": thread},
    ]

    def add(thread: int, begin: float, seconds: float, name: str, kind: str, **args: Any) -> None:
        span = {"ph": "X", "pid": 1, "tid": thread, "ts": begin * 1e6, "dur": seconds * 1e6}
        events.append({**span, "name": name, "cat": kind, "args": args})

    plans = {plan["number"]: plan for plan in data["plans"]}
    for number, begin, spent, own_thread, in_numpy in data["timeline"]["runs"]:
        plan = plans.get(number, {})
        name, ops = plan.get("owner") or f"plan {number}", plan.get("ops")
        kind = "plan in NumPy" if in_numpy else "plan"
        add(own_thread, begin, spent, name, kind, ops=ops, line=shown_place(plan))
    for event in data["timeline"]["events"]:
        kind, what = event["kind"], event["text"]
        add(1000, event["begin"], event["seconds"], kind, kind, what=what, line=shown_place(event))
    memory = data["memory"]["over_time"]
    for at, resident, kept in zip(memory["time"], memory["resident"], memory["kept"], strict=True):
        args = {"resident": resident, "kept by tapes": kept}
        events.append({"ph": "C", "pid": 1, "ts": at * 1e6, "name": "memory", "args": args})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def table(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """One table of the data, as rows."""
    if name == "memory":
        columns = data["memory"]["over_time"]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if name == "runs":
        names = ("plan", "begin", "seconds", "thread", "in_numpy")
        return [dict(zip(names, row, strict=True)) for row in data["timeline"]["runs"]]
    if name not in TABLES:
        raise ValueError(f"profile: there is no table {name!r}. Choose one of {', '.join(TABLES)}.")
    return list(data[name])


def data_frame(data: Mapping[str, Any], name: str) -> Any:
    """One table of the data as a pandas DataFrame."""
    rows = table(data, name)
    try:
        # pandas is an optional package.
        pandas: Any = import_module("pandas")
    except ImportError:
        raise ImportError(
            "profile: to_pandas needs pandas, which is not installed. Install it, or use "
            "p.data, which has the same tables as lists of dictionaries."
        ) from None
    return pandas.DataFrame(rows)


def framed(page: str) -> str:
    """A page inside another, as notebooks show it."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" title="gradtape profile" '
        'style="width:100%;height:760px;border:1px solid #8884;border-radius:8px"></iframe>'
    )


# Text.


def seconds(value: float) -> str:
    """A time with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1 or unit == "us":
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s"


def size(value: float) -> str:
    """A number of bytes with three digits and its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def plural(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def phase_name(row: Mapping[str, Any]) -> str:
    """The name of a phase in a report: one of them is easily taken for running plans."""
    return "starting plans" if row["name"] == "running" else str(row["name"])


def shown_place(row: Mapping[str, Any]) -> str:
    """A line as `file:line`."""
    return f"{row['file']}:{row['line']}" if row.get("file") else "unknown"


def text(data: Mapping[str, Any], most: int = 10) -> str:
    """A summary for a terminal: advice first, then time by phase, line and group."""
    lines = [f"{seconds(data['wall_seconds'])} in {data['title']}"]
    counts = data["counters"]
    lines.append(
        f"{counts['plans_run']} plans run, {counts['plans_built']} built, "
        f"{counts['kernels_compiled']} kernels compiled; "
        f"{plural(data['machine']['threads'], 'thread')}"
    )
    if data["advice"]:
        lines += ["", "Advice"]
        for number, each in enumerate(data["advice"], start=1):
            lines.append(
                f"{number:3}. {shown_place(each)}  saves about {seconds(each['seconds'])} "
                f"({each['share']:.0%})"
            )
            if each["source"]:
                lines.append(f"       {each['source']}")
            lines += [f"     {each['sentence']}", f"     {each['remedy']}"]
    lines += ["", "Time by phase"]
    wall = data["wall_seconds"] or 1.0
    for phase in data["phases"]:
        if phase["seconds"] > 0.001 * wall:
            share = phase["seconds"] / wall
            lines.append(f"  {seconds(phase['seconds']):>9}  {share:>4.0%}  {phase_name(phase)}")
    ways = data["directions"]
    lines.append(
        f"  plans: {seconds(ways['forward'])} forward, {seconds(ways['backward'])} backward"
    )
    lines += ["", "Time by line"]
    lines += [
        f"  {seconds(row['seconds']):>9}  {shown_place(row)}  {row['source'] or ''}"
        for row in data["lines"][:most]
    ]
    if data["layers"]:
        lines += ["", "Time of plans by layer"]
        lines += [_layer_line(row) for row in data["layers"][:most]]
    lines += ["", "Time by group"]
    limits = data["machine"]["limits"]
    lines += [_group_line(row, limits) for row in data["groups"][:most]]
    return "\n".join(lines)


def _layer_line(row: Mapping[str, Any]) -> str:
    ways = f"{seconds(row['forward'])} forward, {seconds(row['backward'])} backward"
    return f"  {seconds(row['seconds']):>9}  {row['name'] or 'outside of layers'}  {ways}"


def _group_line(row: Mapping[str, Any], limits: Mapping[str, float]) -> str:
    each = row["seconds"] / max(row["runs"], 1)
    reached = row["bytes"] / max(each, 1e-12) / limits["bytes_per_second"]
    rate = row["flops"] / max(each, 1e-12) * 1e-9
    return (
        f"  {seconds(row['seconds']):>9}  {row['kind']}: {row['title']}  "
        f"{rate:.3g} Gflop/s, {reached:.0%} of memory  {shown_place(row)}"
    )


def rows_as_text(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """A table for a terminal, in columns."""
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
