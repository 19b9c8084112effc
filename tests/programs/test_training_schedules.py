"""Training loops whose learning rate changes: schedules of the library, and written by hand."""

import math

import numpy as np
import pytest
from tests.programs.running import nothing_new

import gradtape as gt

STEPS = 30


def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3))
    return x, x @ np.array([[1.0], [-2.0], [0.5]]) + 0.3


def halved(step):
    return 0.2 * 0.5 ** (step / 10.0)


def warm_up(step):
    """Looks at the count: one path while it grows, and one after."""
    if step < 8:
        return 0.02 * (step + 1.0)
    return 0.16 / gt.sqrt(step - 7.0)


schedules = gt.optimizers.schedules
# A schedule, and the same in Python.
SCHEDULES = {
    "constant": (0.1, lambda t: 0.1),
    "exponential": (schedules.ExponentialDecay(0.2, 10, 0.5), lambda t: 0.2 * 0.5 ** (t / 10)),
    "cosine": (
        schedules.CosineDecay(0.2, 25),
        lambda t: 0.1 * (1 + math.cos(math.pi * min(t, 25) / 25)),
    ),
    "piecewise": (
        schedules.PiecewiseConstantDecay([5, 15], [0.2, 0.1, 0.02]),
        lambda t: 0.2 if t <= 5 else 0.1 if t <= 15 else 0.02,
    ),
    "by hand": (halved, halved),
    "by hand, in two parts": (
        warm_up,
        lambda t: 0.02 * (t + 1) if t < 8 else 0.16 / (t - 7) ** 0.5,
    ),
}


def reference(rate, momentum=0.9):
    """Losses and weights of a line, with momentum, in NumPy."""
    x, y = data()
    w, b = np.zeros((3, 1)), np.zeros(1)
    mw, mb = np.zeros((3, 1)), np.zeros(1)
    losses = []
    for step in range(STEPS):
        error = x @ w + b - y
        losses.append(np.mean(error**2))
        gw, gb = 2 * x.T @ error / len(x), 2 * error.sum(0) / len(x)
        mw, mb = momentum * mw - rate(step) * gw, momentum * mb - rate(step) * gb
        w, b = w + mw, b + mb
    return losses, w, b


class Training:
    """A line, its optimiser and a step of training."""

    def __init__(self, rate, momentum=0.9):
        self.w, self.b = gt.Variable(np.zeros((3, 1))), gt.Variable(np.zeros(1))
        self.optimizer = gt.optimizers.SGD(rate, momentum=momentum)

    def step(self, x, y):
        with gt.GradientTape() as tape:
            loss = gt.mean((x @ self.w + self.b - y) ** 2)
        slopes = tape.gradient(loss, [self.w, self.b])
        self.optimizer.apply_gradients(zip(slopes, [self.w, self.b], strict=True))
        return loss

    def minimized(self, x, y):
        return self.optimizer.minimize(
            lambda: gt.mean((x @ self.w + self.b - y) ** 2), [self.w, self.b]
        )


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("method", ["step", "minimized"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_path_is_that_of_the_reference(name, method, decorated):
    schedule, rate = SCHEDULES[name]
    training = Training(schedule)
    step = getattr(training, method)
    step = gt.function(step) if decorated else step
    x, y = map(gt.asarray, data())
    losses = [float(step(x, y)) for _ in range(STEPS)]
    expected, w, b = reference(rate)
    np.testing.assert_allclose(losses, expected, rtol=1e-8)
    np.testing.assert_allclose(training.w.numpy(), w, rtol=1e-8)
    np.testing.assert_allclose(training.b.numpy(), b, rtol=1e-8)
    assert losses[-1] < 0.5 * losses[0]
    assert int(training.optimizer.iterations) == STEPS


@pytest.mark.parametrize("decorated", [False, True])
def test_a_rate_that_is_passed_as_a_float(decorated):
    w, b = gt.Variable(np.zeros((3, 1))), gt.Variable(np.zeros(1))

    def step(x, y, rate):
        with gt.GradientTape() as tape:
            loss = gt.mean((x @ w + b - y) ** 2)
        for variable, slope in zip([w, b], tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(rate * slope)
        return loss

    step = gt.function(step) if decorated else step
    x, y = map(gt.asarray, data())
    losses = [float(step(x, y, 0.3 / (1 + number))) for number in range(STEPS)]
    expected, *weights = reference(lambda t: 0.3 / (1 + t), momentum=0.0)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    for variable, value in zip([w, b], weights, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-9)


@pytest.mark.parametrize("decorated", [False, True])
def test_the_rate_is_halved_when_the_loss_does_not_fall(decorated):
    """A schedule that watches the loss, with state in variables: `ReduceLROnPlateau`."""

    def make():
        training, best = Training(0.9, momentum=0.0), gt.Variable(np.inf)

        def step(x, y):
            loss = training.step(x, y)
            if loss > 0.999 * best:
                training.optimizer.learning_rate.assign(training.optimizer.learning_rate * 0.5)
            else:
                best.assign(loss)
            return loss

        return training, step

    training, step = make()
    step = gt.function(step) if decorated else step
    x, y = data()
    w, b, best, rate = np.zeros((3, 1)), np.zeros(1), np.inf, 0.9
    for _ in range(STEPS):
        error = x @ w + b - y
        loss = np.mean(error**2)
        w, b = w - rate * 2 * x.T @ error / len(x), b - rate * 2 * error.sum(0) / len(x)
        if loss > 0.999 * best:
            rate *= 0.5
        else:
            best = loss
        assert float(step(gt.asarray(x), gt.asarray(y))) == pytest.approx(loss, rel=1e-7)
        assert float(training.optimizer.learning_rate) == rate
    assert rate < 0.9
    np.testing.assert_allclose(training.w.numpy(), w, rtol=1e-7)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_network_learns_alike_decorated_and_undecorated(optimizer):
    def make():
        gt.random.seed(2)
        model = gt.nn.Sequential([gt.nn.Dense(8, activation="tanh"), gt.nn.Dense(1)])
        kind = getattr(gt.optimizers, optimizer)
        trainer = kind(schedules.ExponentialDecay(0.05, 10, 0.9))

        def step(x, y):
            with gt.GradientTape() as tape:
                loss = gt.mean((model(x) - y) ** 2)
            slopes = tape.gradient(loss, model.parameters())
            trainer.apply_gradients(zip(slopes, model.parameters(), strict=True))
            return loss

        return model, trainer, step

    x, y = map(gt.asarray, data())
    model, trainer, step = make()
    losses = [float(step(x, y)) for _ in range(STEPS)]
    twin, twin_trainer, twin_step = make()
    # Weights and slots are made by the first call, inside the function.
    compiled = gt.function(twin_step)
    np.testing.assert_allclose([float(compiled(x, y)) for _ in range(STEPS)], losses, rtol=1e-7)
    for a, b in zip(
        [*model.variables, *trainer.variables],
        [*twin.variables, *twin_trainer.variables],
        strict=True,
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-9)
    assert losses[-1] < losses[0]


@pytest.mark.usefixtures("compiled_at_once")
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_changing_rate_builds_nothing(name):
    training = Training(SCHEDULES[name][0])
    step = gt.function(training.step)
    x, y = map(gt.asarray, data())
    for _ in range(12):
        step(x, y)
    with nothing_new():
        for _ in range(10):
            step(x, y)


def test_evaluation_in_between_and_a_saved_state():
    """Train, validate, save, go on: what is restored goes on as if nothing had happened."""
    x, y = map(gt.asarray, data())
    training = Training(SCHEDULES["exponential"][0])
    step = gt.function(training.step)
    validate = gt.function(lambda x, y: gt.mean((x @ training.w + training.b - y) ** 2))
    losses = []
    for number in range(STEPS):
        before = float(validate(x, y))
        losses.append(float(step(x, y)))
        assert losses[-1] == pytest.approx(before, rel=1e-12)
        if number == 9:
            saved = (training.w.numpy().copy(), training.b.numpy().copy())
            slots = training.optimizer.state_dict()
    training.w.assign(saved[0])
    training.b.assign(saved[1])
    training.optimizer.load_state_dict(slots)
    again = [float(step(x, y)) for _ in range(STEPS - 10)]
    np.testing.assert_allclose(again, losses[10:], rtol=1e-12)
