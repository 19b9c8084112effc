"""Sums, means and variances of a large matrix along each axis: the limit is reading it once."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays, Limit

SIDE = 4000


def inputs() -> Arrays:
    return {"x": np.random.default_rng(31).standard_normal((SIDE, SIDE), dtype="float32")}


def along(name: str, axis: int) -> Any:
    """A reduction, with its name written out as users write it."""
    return {
        "sum": lambda xp, x: xp.sum(x, axis=axis),
        "mean": lambda xp, x: xp.mean(x, axis=axis),
        "var": lambda xp, x: xp.var(x, axis=axis),
    }[name]


WORKLOADS = tuple(
    workload(
        Row(
            name=f"{name}-axis-{axis}",
            title=f"{name} of 4000² float32 along axis {axis}",
            inputs=inputs,
            formula=along(name, axis),
            dtype="float32",
            limit=Limit(read=SIDE * SIDE * 4),
        )
    )
    for name in ("sum", "mean", "var")
    for axis in (0, 1)
)
