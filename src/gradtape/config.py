"""Configuration: every environment variable, and every constant that was chosen by measurement.

A constant's comment names the decision in `docs/decisions/` that measured it. Sizes are in bytes,
times in seconds, unless a name says otherwise. Modules import the names they use.
"""

from __future__ import annotations

import os


def variable(name: str, default: str = "") -> str:
    """The value of the environment variable `GRADTAPE_<name>`, or its default."""
    return os.environ.get(f"GRADTAPE_{name}", "").strip() or default


# ir: tables of nodes.

# trace: when a recording is flushed.

# ops: sizes at which an op changes its algorithm.

# compiler: sizes of kernels, of tiles, of work for a thread.

# runtime: plans, the buffer pool, when to compile.

# autodiff: Jacobians, sparsity patterns, colourings.

# tensor, tape, control.

# jit: captures, guards, checks.

# interop, tools.

# training, distributed.
