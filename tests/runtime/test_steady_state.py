"""What stays the same when a program does the same thing again and again: counters, not clocks."""

import gc
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.growth import least_growth_in_bytes

import gradtape as gt
from gradtape.trace.recording import state

STEPS = 10_000
WARM_UP = 500


class Model:
    """A small network with Adam, written in tensors."""

    def __init__(self):
        rng = np.random.default_rng(0)
        shapes = [(8, 16), (16,), (16, 1), (1,)]
        self.weights = [gt.Variable(rng.standard_normal(shape) * 0.3) for shape in shapes]
        self.first = [gt.Variable(np.zeros(shape)) for shape in shapes]
        self.second = [gt.Variable(np.zeros(shape)) for shape in shapes]
        self.x = gt.asarray(rng.standard_normal((32, 8)))
        self.y = gt.asarray(np.sin(np.asarray(self.x).sum(axis=1, keepdims=True)))

    def loss(self):
        a, b, c, d = self.weights
        return gt.mean((gt.tanh(self.x @ a + b) @ c + d - self.y) ** 2)

    def step(self, number, rate=1e-2):
        with gt.GradientTape() as tape:
            loss = self.loss()
        scale = rate * (1 - 0.999**number) ** 0.5 / (1 - 0.9**number)
        gradients = tape.gradient(loss, self.weights)
        for w, m, v, g in zip(self.weights, self.first, self.second, gradients, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            w.assign_sub(scale * m / (gt.sqrt(v) + 1e-8))
        return loss


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(model, first, last):
    for number in range(first, last):
        loss = model.step(number)
        if number % 7 == 0:
            float(loss)


@pytest.mark.slow
def test_training_for_ten_thousand_steps_takes_nothing_new():
    model = Model()
    begin = float(model.loss())
    run(model, 1, WARM_UP // 2)
    gt.wait_for_compiler()
    run(model, WARM_UP // 2, WARM_UP)
    gc.collect()
    counts, blocks = gt.counters(), sys.getallocatedblocks()
    memory = resident() if Path("/proc/self/statm").exists() else None
    run(model, WARM_UP, STEPS)
    gc.collect()
    after = gt.counters()
    assert after.bytes_allocated == counts.bytes_allocated
    assert after.plans_built == counts.plans_built
    assert after.kernels_compiled == counts.kernels_compiled
    assert after.derivatives_built == counts.derivatives_built
    assert after.plan_hits - counts.plan_hits >= STEPS - WARM_UP
    # A leak of one object per step would be 9,500 of them.
    assert sys.getallocatedblocks() - blocks < 500
    if memory is not None:
        assert resident() - memory < 4 << 20
    assert float(model.loss()) < 0.1 * begin


@pytest.mark.slow
def test_python_memory_of_a_training_loop_is_flat():
    model = Model()
    steps = itertools.count(1)

    def ten():
        first = 10 * next(steps)
        run(model, first, first + 10)

    for _ in range(10):
        ten()
    # 800 steps: a leak of one float per step would be 19 kB.
    assert least_growth_in_bytes(ten, 80, enough=5_000) <= 5_000


@pytest.mark.parametrize("shape", [(3,), (300, 300)])
def test_a_forward_loop_takes_nothing_new(shape):
    x = gt.asarray(np.full(shape, 0.5))

    def step(x):
        return gt.evaluate(gt.sin(x) * 0.9 + gt.mean(x))

    for _ in range(10):
        x = step(x)
        gt.wait_for_compiler()
    before = gt.counters()
    for _ in range(200):
        x = step(x)
    after = gt.counters()
    assert after.bytes_allocated == before.bytes_allocated
    assert after.plans_run - before.plans_run == 200
    assert after.kernels_compiled == before.kernels_compiled


def test_looking_at_variables_leaves_nothing_behind():
    def look():
        v = gt.Variable(np.ones(100))
        assert v.numpy()[0] == 1.0
        return v

    look()
    gc.collect()
    before = sys.getallocatedblocks()
    kept = [look() for _ in range(3)]
    for _ in range(5000):
        look()
        float(kept[0].value[0])
    del kept
    gc.collect()
    # Variables that were read may wait for an update, but not five thousand of them.
    assert sys.getallocatedblocks() - before < 30_000
    assert len(state.recording.leaves) < 10
