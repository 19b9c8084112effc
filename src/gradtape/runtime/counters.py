"""Counters of what the runtime did; tests and users read them instead of clocks."""

from __future__ import annotations

from dataclasses import replace

from gradtape.compiler.counts import COUNTS, NATIVE, Counters
from gradtape.compiler.objects import llvm
from gradtape.ir.walk import visits
from gradtape.runtime.buffer_pool import pool_counts


def counters() -> Counters:
    """A snapshot of the counters.

    >>> isinstance(gt.counters().plans_built, int)
    True
    """
    pool = pool_counts()
    return replace(
        COUNTS,
        plans_run=COUNTS.plans_run + NATIVE[0],
        ops_run=COUNTS.ops_run + NATIVE[1],
        compiled_in_calls=llvm.Counts.modules,
        bytes_allocated=pool.bytes_allocated,
        bytes_recycled=pool.bytes_recycled,
        bytes_held=pool.bytes_held,
        nodes_visited=visits(),
    )
