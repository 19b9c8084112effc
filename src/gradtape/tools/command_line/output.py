"""Output: tables for a terminal, by rich if it is installed, else as plain text; or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gradtape.tools.profiler.formats import rows_as_text

Rows = Sequence[Sequence[object]]


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def has_rich() -> bool:
    """Whether tables are drawn by rich: it is installed, and this is a terminal."""
    return sys.stdout.isatty() and find_spec("rich") is not None


def print_table(title: str, header: Sequence[str], rows: Rows) -> None:
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


def print_json(data: object) -> None:
    """Print data as JSON."""
    print(json.dumps(data, indent=2, default=str))
