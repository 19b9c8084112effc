"""page: the data of a profile as one HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from gradtape.caches import remembered
from gradtape.config import COMPARED_ROWS
from gradtape.tools.profiler.comparison import TABLES, change
from gradtape.tools.profiler.formats import seconds
from gradtape.version import __version__

_ASSETS = files("gradtape.tools.page") / "assets"


@remembered(16)
def asset(name: str) -> str:
    """The text of a file that is shipped with the package."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def page(data: Mapping[str, Any]) -> str:
    """A page with all scripts, styles and data inside."""
    return (
        asset("report.html")
        .replace("{{title}}", html.escape(str(data["title"])))
        .replace("{{version}}", __version__)
        .replace("{{uplot.css}}", asset("uPlot.min.css"))
        .replace("{{report.css}}", asset("report.css"))
        .replace("{{uplot.js}}", _script(asset("uPlot.iife.min.js")))
        .replace("{{dagre.js}}", _script(asset("dagre.min.js")))
        .replace("{{report.js}}", _script(asset("report.js")))
        .replace("{{data}}", embedded(data))
    )


def comparison_page(data: Mapping[str, Any]) -> str:
    """A page with two profiles side by side; see `profiler.comparison`."""
    before, after = data["before"], data["after"]
    old, new = before["wall_seconds"], after["wall_seconds"]
    title = f"{seconds(old)} before, {seconds(new)} after: {change(old, new)}"
    names = (before["title"], after["title"])
    subtitle = names[0] if names[0] == names[1] else " → ".join(names)
    sections = [_compared(heading, data[name]) for name, (heading, _) in TABLES.items()]
    return (
        asset("comparison.html")
        .replace("{{title}}", html.escape(title))
        .replace("{{subtitle}}", html.escape(subtitle))
        .replace("{{version}}", __version__)
        .replace("{{report.css}}", asset("report.css"))
        .replace("{{sections}}", "\n".join(filter(None, sections)))
        .replace("{{data}}", embedded(data))
    )


def _compared(heading: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of rows with their time before and after, as numbers and bars."""
    most = max((max(row["before"], row["after"]) for row in rows), default=0.0)
    if not most:
        return ""
    cells = []
    for row in rows[:COMPARED_ROWS]:
        bars = "".join(
            f'<span class="track"><span class="{when}" style="width:{100 * row[when] / most:.2f}%">'
            "</span></span>"
            for when in ("before", "after")
        )
        times = "".join(f'<td class="n">{seconds(row[when])}</td>' for when in ("before", "after"))
        way = "slower" if row["difference"] > 0 else "faster"
        difference = change(row["before"], row["after"])
        cells.append(
            f'<tr><td><span class="code">{html.escape(row["name"])}</span>{bars}</td>{times}'
            f'<td class="n {way}">{difference}</td></tr>'
        )
    head = '<th></th><th class="n">before</th><th class="n">after</th><th class="n">difference</th>'
    return (
        f'<section><h2>{heading}</h2><div class="tablewrap"><table class="compared">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table></div></section>"
    )


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script(text: str) -> str:
    return text.replace("</script", "<\\/script")
