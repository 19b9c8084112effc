"""The workloads, in the order of the table. A new one is a file here and a name in `MODULES`."""

from __future__ import annotations

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
    perceptron_adam,
    recurrence,
    reductions,
    seawater,
    square,
    stencil,
    tapes,
    where,
)

MODULES = (
    *(square, where, composition, chain, linear_adam, perceptron_adam, seawater),
    *(jacobian_pair, jacobian_layers, stencil, brusselator, jacobian_loop, logistic_hessian),
    *(recurrence, newton, lstm, reductions, matrices, elementwise, models, gradbench),
    *(complaints, tapes, compiling),
)
WORKLOADS: tuple[Workload, ...] = tuple(
    workload for module in MODULES for workload in module.WORKLOADS
)


def find(name: str) -> Workload:
    """The workload of a name."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    names = ", ".join(workload.name for workload in WORKLOADS)
    raise ValueError(f"no workload is called {name!r}. There are: {names}.")
