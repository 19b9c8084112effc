"""info: versions, processor, threads, BLAS and switches.

The same as `gt.show_config()`, for a bug report.
"""

from __future__ import annotations

import argparse

from gradtape.tools.command_line.output import show
from gradtape.tools.plans_and_kernels import configuration


def run(chosen: argparse.Namespace) -> int:
    """Print the configuration."""
    found = configuration()
    show(chosen.json, found, "configuration", ("what", "value"), found.items())
    return 0
