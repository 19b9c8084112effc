"""The workloads, in the order of the table. A new one is a file here and a name in `GROUPS`."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from benchmarks.workload import Workload
from benchmarks.workloads import (
    brusselator,
    chain,
    compiling,
    complaints,
    composition,
    elementwise,
    gradbench,
    jacobian_layers,
    jacobian_loop,
    jacobian_pair,
    linear_adam,
    logistic_hessian,
    lstm,
    matrices,
    models,
    newton,
    outside,
    perceptron_adam,
    recurrence,
    reductions,
    science,
    seawater,
    square,
    stencil,
    tapes,
    where,
)

# The names of `--group`, and the modules of each group.
GROUPS: dict[str, tuple[ModuleType, ...]] = {
    "basics": (
        *(square, where, composition, chain, linear_adam, perceptron_adam, seawater),
        *(jacobian_pair, jacobian_layers, stencil, brusselator, jacobian_loop, logistic_hessian),
        *(recurrence, newton, lstm),
    ),
    "ops": (reductions, matrices, elementwise),
    "models": (models,),
    "gradbench": (gradbench,),
    "complaints": (complaints,),
    "tapes": (tapes,),
    "compiling": (compiling,),
    "science": science.MODULES,
    "outside": outside.MODULES,
}
WORKLOADS: tuple[Workload, ...] = tuple(
    replace(workload, group=name)
    for name, modules in GROUPS.items()
    for module in modules
    for workload in module.WORKLOADS
)


def find(name: str) -> Workload:
    """The workload of a name."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    names = ", ".join(workload.name for workload in WORKLOADS)
    raise ValueError(f"no workload is called {name!r}. There are: {names}.")
