"""Output: tables for a terminal, by rich if it is installed, else as plain text; or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gradtape.tools.profiler.formats import rows_as_text

_Rows = Iterable[Sequence[object]]


def has_rich() -> bool:
    """Whether tables are drawn by rich: it is installed, and this is a terminal."""
    return sys.stdout.isatty() and find_spec("rich") is not None


def print_table(title: str, header: Sequence[str], rows: _Rows) -> None:
    """Print a table."""
    texts = [[str(cell) for cell in row] for row in rows]
    if not has_rich():
        print(title)
        print(rows_as_text(texts, header))
        return
    # rich is an optional package.
    table_module: Any = import_module("rich.table")
    console: Any = import_module("rich.console").Console()
    table = table_module.Table(title=title, title_justify="left", header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in texts:
        table.add_row(*[cell.replace("[", r"\[") for cell in row])
    console.print(table)


def show(as_json: bool, data: object, title: str, header: Sequence[str], rows: _Rows) -> None:
    """Print data as JSON, or rows of it as a table."""
    if as_json:
        print_json(data)
    else:
        print_table(title, header, rows)


def print_json(data: object) -> None:
    """Print data as JSON."""
    print(json.dumps(data, indent=2, default=str))
