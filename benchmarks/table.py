"""The table of results, printed group by group as they arrive, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Cell, Measured

LABEL, WIDTH = 18, 11
MEASURES = (
    ("best, ms", "best", 1e3),
    ("median, ms", "median", 1e3),
    ("first call, ms", "first", 1e3),
    ("peak memory, MB", "peak", 1e-6),
)


def header(titles: Sequence[str]) -> str:
    columns = [*titles, "limit", "÷ best peer", "÷ limit"]
    return " " * LABEL + "".join(_cell(column) for column in columns)


def group(measured: Measured, titles: Sequence[str]) -> list[str]:
    """The lines of one workload: its title, its measures, its troubles."""
    lines = [measured.title]
    for label, name, scale in MEASURES[: 2 if measured.only_seconds else None]:
        values = {title: _value(measured.cells.get(title), name) for title in titles}
        ours = values.get("gradtape")
        peers = [value for title, value in values.items() if title != "gradtape" and value]
        limit = measured.limit if name == "best" else None
        cells = [_number(values[title], scale) for title in titles]
        cells.append(_number(limit, scale))
        cells.append(_ratio(ours, min(peers) if peers else None))
        cells.append(_ratio(ours, limit))
        lines.append(f"  {label:<{LABEL - 2}}" + "".join(_cell(cell) for cell in cells))
    lines += [
        f"  {title}: {cell.trouble or cell.said}"
        for title, cell in measured.cells.items()
        if cell.trouble or cell.said
    ]
    return lines


def as_json(measured: Measured) -> dict[str, object]:
    """All measurements of a row group, in seconds and bytes."""
    return {
        "name": measured.name,
        "title": measured.title,
        "limit": measured.limit,
        "limit_parts": measured.parts,
        "forms": {
            title: {
                "version": cell.version,
                "best": cell.best,
                "median": cell.median,
                "first_call": cell.first,
                "peak_bytes": cell.peak,
                "calls": len(cell.seconds),
                "trouble": cell.trouble,
                "said": cell.said,
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
