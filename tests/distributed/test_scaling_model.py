"""The cost model of docs/scaling.md: closed forms beside a simulation, and where the limits are."""

import numpy as np
import pytest
from benchmarks.scaling_model import Constants, Training

from benchmarks import scaling_model as model

NEAR = Constants(call=5e-4, submit=1e-4, put=5e-10, read=2e-10, cores=2)
FAR = Constants(call=5e-4, submit=1e-4, put=5e-10, read=2e-10, network=8 / 25e9)
LOADS = {
    "perceptron": Training(2_700_000, 8192, 5e-5, 2e-3),
    "small": Training(40_000, 4096, 2e-5, 2e-4),
    "large": Training(400_000_000, 8192, 1e-3, 0.2),
}


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 16, 64, 256, 1000])
@pytest.mark.parametrize("constants", [NEAR, FAR], ids=["one machine", "many machines"])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_simulation_agrees_within_a_factor_of_two(load, constants, workers):
    predicted = model.training(load, workers, constants).total
    simulated = model.simulate_training(load, workers, constants, jitter=0.05)
    assert 0.5 < simulated / predicted < 2.0


@pytest.mark.parametrize("workers", [1, 4, 100, 1000])
def test_simulated_sweeps_agree(workers):
    predicted = model.sweep(10_000, 0.3, workers, FAR).total
    simulated = model.simulate_items(np.full(10_000, 0.3), workers, FAR)
    assert 0.5 < simulated / predicted < 2.0


def test_the_driver_is_the_limit_beyond_the_square_root():
    load = Training(40_000, 4096, 2e-5, 0.0)
    most = (load.row * load.rows / (2 * FAR.submit)) ** 0.5
    assert model.training(load, int(most / 4), FAR).limit == "work"
    assert model.training(load, int(most * 4), FAR).limit != "work"


def test_buckets_are_independent_of_the_number_of_workers():
    few, many = model.bytes_of(10 << 20, 10), model.bytes_of(10 << 20, 1000)
    np.testing.assert_allclose(few, many, rtol=0.12)


def test_a_driver_that_assembles_is_the_limit():
    assembled = model.blocks(100_000, 1e-3, 8e5, 1000, FAR, assembled=True)
    apart = model.blocks(100_000, 1e-3, 8e5, 1000, FAR, assembled=False)
    assert assembled.limit == "bytes"
    assert apart.total < assembled.total / 10
