"""info: versions, processor, threads, BLAS and switches.

The same as `gt.show_config()`, for a bug report.
"""

from __future__ import annotations

import argparse

from gradtape.tools.command_line.output import add_json, print_json, print_table
from gradtape.tools.plans_and_kernels import show_config


def add(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_json(parser)


def facts() -> dict[str, str]:
    """The configuration by name."""
    found = {}
    for line in show_config().splitlines():
        name, _, value = line.partition("  ")
        found[name.strip()] = value.strip()
    return found


def run(chosen: argparse.Namespace) -> int:
    """Print the configuration."""
    found = facts()
    if chosen.json:
        print_json(found)
    else:
        print_table("configuration", ("what", "value"), list(found.items()))
    return 0
