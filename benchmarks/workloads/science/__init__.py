"""Programs of scientists, each at a size of practice, written as users of JAX and torch do.

Every program is one formula over `benchmarks.dialects`, so all libraries run the same algorithm.
"""

from __future__ import annotations

from benchmarks.workloads.science import (
    agents,
    biology,
    dynamics,
    fields,
    filtering,
    finance,
    generative,
    geometry,
    particles,
    processes,
    regression,
    robotics,
    sequences,
    tables,
)

MODULES = (
    *(robotics, filtering, sequences, processes, tables, particles, fields),
    *(geometry, finance, biology, dynamics, agents, generative, regression),
)
