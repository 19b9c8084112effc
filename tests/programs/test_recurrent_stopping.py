"""A recurrent network that stops early: how many steps it takes depends on what it computes."""

import numpy as np
import pytest
from tests.programs.running import Counted, differences, nothing_new

import gradtape as gt

UNITS, FEATURES = 6, 3


class Reader(gt.nn.Module):
    """Reads a sequence until it is sure enough."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.into = gt.Variable(0.7 * rng.standard_normal((FEATURES, UNITS)))
        self.around = gt.Variable(0.5 * rng.standard_normal((UNITS, UNITS)))
        self.halt = gt.Variable(rng.standard_normal(UNITS))

    def call(self, sequence, threshold=0.75):
        state, steps = gt.zeros((UNITS,)), 0
        for row in sequence:
            state = gt.tanh(row @ self.into + state @ self.around)
            steps += 1
            if gt.sigmoid(state @ self.halt) > threshold:
                break
        return gt.sum(state * state), steps


def in_arrays(into, around, halt, sequence, threshold=0.75):
    state, steps = np.zeros(UNITS), 0
    for row in sequence:
        state = np.tanh(row @ into + state @ around)
        steps += 1
        if 1 / (1 + np.exp(-state @ halt)) > threshold:
            break
    return state @ state, steps


def sequences(count):
    rng = np.random.default_rng(3)
    return [rng.standard_normal((8, FEATURES)) for _ in range(count)]


def gradients(model, call):
    with gt.GradientTape() as tape:
        loss, steps = call()
    return loss, steps, tape.gradient(loss, model.parameters(), unconnected_gradients="none")


@pytest.mark.parametrize("place", ["undecorated", "around", "inside"])
def test_steps_values_and_gradients(place):
    model = Reader()
    arrays = [v.numpy() for v in model.variables]
    read = gt.function(lambda s: model(s)) if place == "around" else model
    run = gt.function(lambda s: gradients(model, lambda: model(s)))
    seen = set()
    for sequence in [*sequences(12), *sequences(12)]:
        x = gt.asarray(sequence)
        if place == "inside":
            loss, steps, slopes = run(x)
        else:
            loss, steps, slopes = gradients(model, lambda x=x: read(x))
        expected, expected_steps = in_arrays(*arrays, sequence)
        seen.add(steps)
        assert steps == expected_steps
        assert float(loss) == pytest.approx(expected)
        for number in range(2):
            numeric = differences(
                lambda a, n=number, s=sequence: in_arrays(*arrays[:n], a, *arrays[n + 1 :], s)[0],
                arrays[number],
            )
            np.testing.assert_allclose(slopes[number].numpy(), numeric, atol=1e-7)
        # Where it stops is no function that could be differentiated.
        assert slopes[2] is None
    assert len(seen) > 3


def test_weights_decide_anew_after_each_update():
    """Training moves the place where the network stops: guards miss after assignments."""

    def make():
        model, optimizer = Reader(1), gt.optimizers.SGD(0.3, momentum=0.5)

        def step(x):
            loss, steps, slopes = gradients(model, lambda: model(x))
            optimizer.apply_gradients(zip(slopes[:2], model.parameters()[:2], strict=True))
            model.halt.assign_add(0.2 * gt.ones((UNITS,)) * (4.0 - float(steps)))
            return loss, steps

        return model, optimizer, step

    model, optimizer, step = make()
    twin, twin_optimizer, twin_step = make()
    counted = Counted(twin_step)
    compiled = gt.function(counted)
    taken = []
    for sequence in sequences(30):
        loss, steps = step(gt.asarray(sequence))
        twin_loss, twin_steps = compiled(gt.asarray(sequence))
        taken.append(steps)
        assert steps == twin_steps
        assert float(loss) == pytest.approx(float(twin_loss), rel=1e-9)
        for a, b in zip(
            [*model.variables, *optimizer.variables],
            [*twin.variables, *twin_optimizer.variables],
            strict=True,
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-10)
    assert len(set(taken)) > 2
    assert counted.runs < 30


@pytest.mark.usefixtures("compiled_at_once")
def test_paths_that_were_taken_build_nothing():
    model = Reader()
    read = gt.function(lambda s: gradients(model, lambda: model(s)))
    for sequence in sequences(12):
        read(gt.asarray(sequence))
    with nothing_new():
        for sequence in sequences(12):
            read(gt.asarray(sequence))


def test_thresholds_are_numbers_of_the_call():
    model = Reader()
    arrays = [v.numpy() for v in model.variables]
    read = gt.function(lambda s, threshold: model(s, threshold=threshold))
    (sequence,) = sequences(1)
    for threshold in (0.5, 0.6, 0.9, 0.55, 0.999, 0.5):
        loss, steps = read(gt.asarray(sequence), threshold)
        assert (float(loss), steps) == pytest.approx(in_arrays(*arrays, sequence, threshold))
