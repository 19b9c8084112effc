"""Programs from outside: each reads values in its loop, in plain Python (`benchmarks.outside`)."""

from __future__ import annotations

from benchmarks.workloads.outside import factors, likelihoods, searches

MODULES = (factors, likelihoods, searches)
ROWS = {row.name: row for module in MODULES for row in module.ROWS}
