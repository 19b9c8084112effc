"""The workloads, in the order of the table. A new one is a file here and a name in `MODULES`."""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads import (
    chain,
    composition,
    functions,
    linear_adam,
    lstm,
    newton,
    perceptron_adam,
    recurrence,
    seawater,
    square,
    where,
)

MODULES = (
    square, where, composition, chain, linear_adam, perceptron_adam, seawater, functions,
    recurrence, newton, lstm,
)  # fmt: skip
WORKLOADS: tuple[Workload, ...] = tuple(
    workload for module in MODULES for workload in module.WORKLOADS
)


def find(name: str) -> Workload:
    """The workload of that name."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    names = ", ".join(workload.name for workload in WORKLOADS)
    raise ValueError(f"no workload is called {name!r}. There are: {names}.")
