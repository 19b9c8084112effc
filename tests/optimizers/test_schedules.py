"""Schedules against their formulas, and learning rates of every kind."""

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.optimizers import SGD, Adam, schedules

STEPS = [0, 1, 4, 5, 9, 10, 11, 20, 37]


def values(schedule):
    as_numbers = [float(schedule(step)) for step in STEPS]
    as_tensors = [float(schedule(gt.asarray(step))) for step in STEPS]
    assert as_numbers == as_tensors
    return as_numbers


@pytest.mark.parametrize("staircase", [False, True])
def test_exponential(staircase):
    def formula(step):
        times = step / 10
        return 0.3 * 0.5 ** (math.floor(times) if staircase else times)

    schedule = schedules.ExponentialDecay(0.3, 10, 0.5, staircase=staircase)
    np.testing.assert_allclose(values(schedule), [formula(s) for s in STEPS], rtol=1e-14)


def test_inverse_time():
    schedule = schedules.InverseTimeDecay(0.3, 10, 0.5)
    np.testing.assert_allclose(values(schedule), [0.3 / (1 + 0.05 * s) for s in STEPS])


def test_piecewise_constant():
    schedule = schedules.PiecewiseConstantDecay([4, 10], [3.0, 2.0, 1.0])
    assert values(schedule) == [3, 3, 3, 2, 2, 2, 1, 1, 1]
    with pytest.raises(ValueError, match="one value more"):
        schedules.PiecewiseConstantDecay([4, 10], [3.0, 2.0])
    with pytest.raises(ValueError, match="ascend"):
        schedules.PiecewiseConstantDecay([10, 4], [3.0, 2.0, 1.0])


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0])
def test_polynomial(power):
    def formula(step):
        return 0.9 * (1 - min(step, 10) / 10) ** power + 0.1

    schedule = schedules.PolynomialDecay(1.0, 10, 0.1, power)
    np.testing.assert_allclose(values(schedule), [formula(s) for s in STEPS], rtol=1e-14)


def test_polynomial_in_cycles():
    def formula(step):
        return 0.9 * (1 - step / (10 * max(1, math.ceil(step / 10)))) + 0.1

    schedule = schedules.PolynomialDecay(1.0, 10, 0.1, cycle=True)
    np.testing.assert_allclose(values(schedule), [formula(s) for s in STEPS], rtol=1e-14)


def test_cosine():
    def formula(step):
        return 0.4 * (0.8 * 0.5 * (1 + math.cos(math.pi * min(step, 10) / 10)) + 0.2)

    schedule = schedules.CosineDecay(0.4, 10, alpha=0.2)
    np.testing.assert_allclose(values(schedule), [formula(s) for s in STEPS], rtol=1e-14)


def test_cosine_with_warmup():
    def formula(step):
        if step < 5:
            return 0.1 + 0.3 * step / 5
        return 0.4 * (0.8 * 0.5 * (1 + math.cos(math.pi * min(step - 5, 10) / 10)) + 0.2)

    schedule = schedules.CosineDecay(0.1, 10, alpha=0.2, warmup_target=0.4, warmup_steps=5)
    np.testing.assert_allclose(values(schedule), [formula(s) for s in STEPS], rtol=1e-14)


def test_steps_must_be_positive():
    with pytest.raises(ValueError, match="decay_steps=0"):
        schedules.ExponentialDecay(0.1, 0, 0.5)


def descended(learning_rate, steps=3):
    """How far each step of a gradient of 1 goes."""
    w = gt.Variable(0.0)
    optimizer = SGD(learning_rate)
    found = []
    for _ in range(steps):
        before = float(w)
        optimizer.apply_gradients([(1.0, w)])
        found.append(before - float(w))
    return found


@pytest.mark.parametrize(
    "learning_rate",
    [
        schedules.ExponentialDecay(1.0, 1, 0.5),
        lambda step: 0.5**step,
        lambda step: [1.0, 0.5, 0.25][int(step)],
        lambda step: 1.0 if step < 1 else 0.5 if step < 2 else 0.25,
    ],
)
def test_schedules_and_functions(learning_rate):
    assert descended(learning_rate) == [1.0, 0.5, 0.25]


def test_the_learning_rate_can_be_set():
    w = gt.Variable(0.0)
    optimizer = SGD(1.0)
    optimizer.apply_gradients([(1.0, w)])
    optimizer.learning_rate = 0.5
    assert float(optimizer.learning_rate) == 0.5
    optimizer.apply_gradients([(1.0, w)])
    optimizer.learning_rate = lambda step: 0.25 * step
    assert float(optimizer.learning_rate) == 0.5
    optimizer.apply_gradients([(1.0, w)])
    optimizer.learning_rate = 0.125
    optimizer.learning_rate.assign(0.0625)
    optimizer.apply_gradients([(1.0, w)])
    assert float(w) == -(1.0 + 0.5 + 0.5 + 0.0625)


def test_a_variable_as_learning_rate_stays_the_users():
    rate, w = gt.Variable(1.0, dtype="float32"), gt.Variable(0.0)
    optimizer = SGD(rate)
    assert optimizer.learning_rate is rate
    optimizer.apply_gradients([(1.0, w)])
    rate.assign(0.5)
    optimizer.apply_gradients([(1.0, w)])
    optimizer.learning_rate = 0.25
    assert float(rate) == 0.25
    assert float(w) == -1.5


def test_wrong_learning_rates():
    with pytest.raises(TypeError, match="'fast' is not a number"):
        SGD("fast")
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        SGD(gt.Variable([1.0, 2.0]))


def test_configuration_round_trip():
    optimizer = Adam(schedules.CosineDecay(0.1, 10, warmup_target=0.4), beta_1=0.7, clipnorm=2.0)
    again = Adam.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert float(again.learning_rate) == float(optimizer.learning_rate)
    for kind in schedules.SCHEDULES.values():
        assert issubclass(kind, schedules.LearningRateSchedule)
    with pytest.raises(ValueError, match="no schedule is called 'Other'"):
        SGD({"class_name": "Other", "config": {}})
