"""What a Jacobian of a structure seen before costs: counters, not clocks."""

import numpy as np
import pytest
from tests.growth import least_growth_in_bytes

import gradtape as gt

WEIGHTS = np.random.default_rng(0).normal(size=(4, 3))


def taped(x, ask):
    with gt.GradientTape() as tape:
        tape.watch(x)
        hidden = gt.tanh(x @ WEIGHTS)
        y = gt.stack([gt.sum(hidden**2), gt.prod(hidden), hidden[0]])
    return ask(tape, y, x)


WAYS = {
    "jacobian": lambda tape, y, x: tape.jacobian(y, x).numpy(),
    "forward": lambda tape, y, x: tape.jacobian(y, x, mode="forward").numpy(),
    "sparse": lambda tape, y, x: tape.jacobian(y, x, sparse=True).toarray(),
    "hessian": lambda tape, y, x: tape.hessian(y, x).numpy(),
    "sparse hessian": lambda tape, y, x: tape.hessian(y, x, sparse=True).toarray(),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_loop_derives_and_compiles_nothing(name):
    """Three outputs, undecorated, in a Python loop: what others rebuild at every call."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        taped(gt.asarray(rng.normal(size=4)), WAYS[name])
    before = gt.counters()
    for _ in range(10):
        taped(gt.asarray(rng.normal(size=4)), WAYS[name])
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.bytes_allocated == before.bytes_allocated


def test_one_plan_runs_for_each_call():
    x = gt.asarray(np.ones(4))
    for _ in range(3):
        taped(x, WAYS["jacobian"])
    before = gt.counters().plans_run
    taped(x, WAYS["jacobian"])
    assert gt.counters().plans_run == before + 1


@pytest.mark.parametrize("sparse", [False, True])
def test_functions(sparse):
    def f(x):
        return gt.sin(x[1:]) * x[:-1]

    def ask(data):
        found = gt.jacobian(f, sparse=sparse)(data)
        return found.toarray() if sparse else found.numpy()

    for scale in (1.0, 2.0, 3.0):
        ask(np.arange(5.0) * scale)
    before = gt.counters()
    for scale in (4.0, 5.0):
        ask(np.arange(5.0) * scale)
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built


def test_a_new_size_compiles_no_kernel():
    def ask(count):
        return gt.jacobian(lambda x: gt.tanh(x[1:] * x[:-1]))(np.linspace(0.0, 1.0, count)).numpy()

    for count in (40, 40, 40, 60, 60, 60):
        ask(count)
    before = gt.counters().kernels_compiled
    for count in (50, 90):
        for _ in range(3):
            ask(count)
    assert gt.counters().kernels_compiled == before


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_nothing_grows(name):
    x = np.ones(4)

    def step():
        taped(gt.asarray(x), WAYS[name])

    for _ in range(50):
        step()
    # A leak of one small object per call would be 11 kB.
    assert least_growth_in_bytes(step, 200, enough=5_000) <= 5_000
