"""page: the data of a profile as one HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from gradtape.caches import remembered
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


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script(text: str) -> str:
    return text.replace("</script", "<\\/script")
