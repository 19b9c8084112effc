"""Comparison: the data of two profiles side by side, by phase, line, layer and group."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradtape.tools.profiler.formats import phase_name, rows_as_text, seconds

Data = Mapping[str, Any]
_Row = Mapping[str, Any]


def _line(row: _Row) -> str:
    """A line by its text: its number changes with the lines above it."""
    if not row["file"]:
        return "lines that are not known"
    return f"{row['file']}  {row['source'] or 'line ' + str(row['line'])}"


def _group(row: _Row) -> str:
    shape = ", ".join(map(str, row["shape"]))
    return f"{row['kind']}: {row['title']} {row['dtype']}[{shape}]  {row['source'] or ''}".strip()


# The tables of a profile that are compared, and the name by which rows are the same.
TABLES: dict[str, tuple[str, Callable[[_Row], str]]] = {
    "phases": ("Time by phase", phase_name),
    "lines": ("Time by line", _line),
    "layers": ("Time of plans by layer", lambda row: row["name"] or "outside of layers"),
    "groups": ("Time by group", _group),
}


def read(path: str) -> dict[str, Any]:
    """The data of a profile from a file that `to_json` or `gradtape profile --data` wrote."""
    try:
        data = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"compare: {path} cannot be read as JSON ({error}). "
            f"Write it by gradtape profile --data profile.json script.py."
        ) from None
    if not isinstance(data, dict) or not {"format", *TABLES} <= data.keys():
        raise ValueError(
            f"compare: {path} is not the data of a profile. "
            f"Write it by gradtape profile --data profile.json script.py."
        )
    return data


def comparison(before: Data, after: Data) -> dict[str, Any]:
    """Two profiles as one nest of data; the rows with the largest difference come first."""
    return {
        "before": {name: before[name] for name in ("title", "made", "wall_seconds")},
        "after": {name: after[name] for name in ("title", "made", "wall_seconds")},
        **{name: _rows(before[name], after[name], named) for name, (_, named) in TABLES.items()},
    }


def _rows(
    before: list[_Row], after: list[_Row], named: Callable[[_Row], str]
) -> list[dict[str, Any]]:
    sums: dict[str, list[float]] = {}
    for at, rows in enumerate((before, after)):
        for row in rows:
            sums.setdefault(named(row), [0.0, 0.0])[at] += row["seconds"] or 0.0
    found = [
        {"name": name, "before": old, "after": new, "difference": new - old}
        for name, (old, new) in sums.items()
        if old or new
    ]
    return sorted(found, key=lambda row: -abs(row["difference"]))


def change(old: float, new: float) -> str:
    """A difference with its sign, and its share of the time before."""
    difference = seconds(abs(new - old))
    sign = "+" if new > old else "-"
    return (
        f"{sign}{difference} ({sign}{abs(new - old) / old:.0%})" if old else f"{sign}{difference}"
    )


def text(found: Data, most: int = 10) -> str:
    """Both profiles for a terminal."""
    old, new = found["before"]["wall_seconds"], found["after"]["wall_seconds"]
    lines = [
        f"before  {seconds(old):>8}  {found['before']['title']}",
        f"after   {seconds(new):>8}  {found['after']['title']}",
        f"        {change(old, new)}",
    ]
    for name, (title, _) in TABLES.items():
        rows = found[name][:most]
        if rows:
            cells = [
                (seconds(row["before"]), seconds(row["after"]), change(row["before"], row["after"]))
                + (row["name"],)
                for row in rows
            ]
            lines += ["", title, rows_as_text(cells, ("before", "after", "difference", ""))]
    return "\n".join(lines)
