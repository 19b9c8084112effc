"""The table of results, printed group by group as they arrive, and the same as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.measure import Cell, Measured

LABEL, WIDTH = 18, 11
# Our forms; ratios are a peer's figure by ours, so above 1 gradtape is ahead.
OURS = ("gradtape", "function")
MEASURES = (
    ("best, ms", "best", 1e3),
    ("median, ms", "median", 1e3),
    ("first call, ms", "first", 1e3),
    ("second call, ms", "second", 1e3),
    ("peak memory, MB", "peak", 1e-6),
)
PYTHON_CALLS = "Python calls"
PER_ROUND = "per round, µs"


def header(titles: Sequence[str]) -> str:
    columns = [*titles, "limit", "peer/plain", "peer/func.", "func./lim."]
    return " " * LABEL + "".join(_cell(column) for column in columns)


def block(measured: Measured, titles: Sequence[str]) -> list[str]:
    """The lines of one workload: its title, its measures, its troubles."""
    lines = [measured.title]
    for label, name, scale in MEASURES[: 2 if measured.only_seconds else None]:
        values = {title: _value(measured.cells.get(title), name) for title in titles}
        peers = [value for title, value in values.items() if title not in OURS and value]
        best = min(peers) if peers else None
        limit = measured.limit if name == "best" else None
        cells = [_number(values[title], scale) for title in titles]
        cells.append(_number(limit, scale))
        cells += [_ratio(best, values.get(title)) for title in OURS]
        cells.append(_ratio(values.get("function") or values.get("gradtape"), limit))
        lines.append(f"  {label:<{LABEL - 2}}" + "".join(_cell(cell) for cell in cells))
    if measured.rounds > 1:
        best_of = (_value(measured.cells.get(title), "best") for title in titles)
        shares = (_number(best and best / measured.rounds, 1e6) for best in best_of)
        lines.append(f"  {PER_ROUND:<{LABEL - 2}}" + "".join(_cell(text) for text in shares))
    counts = [_value(measured.cells.get(title), "python_calls") for title in titles]
    if any(count is not None for count in counts):
        shown = ("–" if count is None else f"{count:,}" for count in counts)
        lines.append(f"  {PYTHON_CALLS:<{LABEL - 2}}" + "".join(_cell(text) for text in shown))
    lines += [
        f"  {title}: {cell.trouble or cell.said}"
        for title, cell in measured.cells.items()
        if cell.trouble or cell.said
    ]
    return lines


def ratios(measured: Sequence[Measured], title: str) -> dict[str, float]:
    """For each workload that a peer ran, the best peer's best time by that of one of our forms."""
    found = {}
    for one in measured:
        peers = [cell.best for name, cell in one.cells.items() if name not in OURS and cell.best]
        ours = _value(one.cells.get(title), "best")
        if peers and ours and not one.only_seconds:
            found[one.name] = min(peers) / ours
    return found


def summary(measured: Sequence[Measured]) -> list[str]:
    """The geometric means, the rows that a peer wins, and gradients by their functions."""
    lines = []
    for title in OURS:
        found = ratios(measured, title)
        if not found:
            continue
        mean = _mean(found)
        lines.append(f"{title}: best peer / ours, geometric mean {mean:.2f} of {len(found)} rows")
        groups: dict[str, dict[str, float]] = {}
        for one in measured:
            if one.name in found:
                groups.setdefault(one.group, {})[one.name] = found[one.name]
        lines += [
            f"  {name}: {_mean(some):.2f} of {len(some)} rows" for name, some in groups.items()
        ]
        behind = sorted((ratio, name) for name, ratio in found.items() if ratio < 1)
        if behind:
            lines.append("  behind: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in behind))
    best = {one.name: one.cells for one in measured}
    for name, cells in best.items():
        value = best.get(name.removesuffix("-gradient").removesuffix("-jacobian"))
        if value is None or value is cells:
            continue
        costs = [
            f"{title} {cell.best / value[title].best:.1f}"
            for title, cell in cells.items()
            if cell.best and title in value and value[title].best
        ]
        if costs:
            lines.append(f"{name}, time by that of the function: " + ", ".join(costs))
    return lines


def _mean(ratios: Mapping[str, float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


def as_json(measured: Measured) -> dict[str, object]:
    """All measurements of a row group, in seconds and bytes."""
    return {
        "name": measured.name,
        "title": measured.title,
        "group": measured.group,
        "rounds": measured.rounds,
        "limit": measured.limit,
        "limit_parts": measured.parts,
        "forms": {
            title: {
                "version": cell.version,
                "best": cell.best,
                "median": cell.median,
                "first_call": cell.first,
                "second_call": cell.second,
                "peak_bytes": cell.peak,
                "calls": len(cell.seconds),
                "trouble": cell.trouble,
                "said": cell.said,
                "python_calls": cell.python_calls,
            }
            for title, cell in measured.cells.items()
        },
    }


def _cell(text: str) -> str:
    return f" {text:>{WIDTH}}"


def _value(cell: Cell | None, name: str) -> float | None:
    return None if cell is None else getattr(cell, name)


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "–"
    scaled = value * scale
    digits = 4 if scaled < 0.1 else 3 if scaled < 1 else 2 if scaled < 10 else 1
    return f"{scaled:,.{digits if scaled < 100 else 0}f}"


def _ratio(value: float | None, other: float | None) -> str:
    return f"{value / other:,.2f}" if value is not None and other else "–"
