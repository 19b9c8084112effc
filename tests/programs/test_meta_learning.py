"""Meta-learning: an inner loop of assignments, and the gradient of its end by its start."""

import numpy as np
import pytest
from tests.programs.running import differences, nothing_new

import gradtape as gt

RATE, INNER = 0.1, 3


def task(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, 2))
    return x, np.tanh(x @ rng.standard_normal((2, 1)))


def loss_of(w, x, y, xp):
    return xp.mean((xp.tanh(x @ w) - y) ** 2)


def functional(start, x, y, steps=INNER):
    """The adapted weights, without variables."""
    w = start
    for _ in range(steps):
        with gt.GradientTape() as tape:
            tape.watch(w)
            loss = loss_of(w, x, y, gt)
        w = w - RATE * tape.gradient(loss, w)
    return w


def assigned(variable, x, y, steps=INNER):
    """The same in place."""
    for _ in range(steps):
        with gt.GradientTape() as tape:
            loss = loss_of(variable.value, x, y, gt)
        variable.assign_sub(RATE * tape.gradient(loss, variable))
    return variable.value


def in_arrays(start, x, y):
    w = start
    for _ in range(INNER):
        guess = np.tanh(x @ w)
        w = w - RATE * x.T @ (2 * (guess - y) * (1 - guess**2)) / len(x)
    return loss_of(w, x, y, np)


START = np.array([[0.3], [-0.8]])


def by_assignments(variable, x, y):
    variable.assign(START)
    with gt.GradientTape() as outer:
        outer.watch(variable)
        loss = loss_of(assigned(variable, x, y), x, y, gt)
    return loss, outer.gradient(loss, variable)


def by_functions(start, x, y):
    with gt.GradientTape() as outer:
        outer.watch(start)
        loss = loss_of(functional(start, x, y), x, y, gt)
    return loss, outer.gradient(loss, start)


@pytest.mark.slow
@pytest.mark.parametrize("decorated", [False, True])
def test_gradients_flow_through_assignments(decorated):
    variable = gt.Variable(START)

    def with_variable(x, y):
        return by_assignments(variable, x, y)

    run = gt.function(with_variable) if decorated else with_variable
    pure = gt.function(by_functions) if decorated else by_functions
    for seed in (0, 1, 2, 0):
        x, y = task(seed)
        loss, gradient = run(gt.asarray(x), gt.asarray(y))
        assert float(loss) == pytest.approx(in_arrays(START, x, y))
        expected = differences(lambda w, x=x, y=y: in_arrays(w, x, y), START)
        np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-8)
        twin, twin_gradient = pure(gt.asarray(START), gt.asarray(x), gt.asarray(y))
        assert float(loss) == pytest.approx(float(twin), rel=1e-12)
        np.testing.assert_allclose(gradient.numpy(), twin_gradient.numpy(), rtol=1e-9)
        adapted = functional(gt.asarray(START), gt.asarray(x), gt.asarray(y))
        np.testing.assert_allclose(variable.numpy(), adapted.numpy(), rtol=1e-12)


def test_the_way_to_a_variable_of_another_name():
    """Copied into a second variable first, as modules are."""
    meta, fast = gt.Variable(START), gt.Variable(np.zeros_like(START))

    def step(x, y):
        with gt.GradientTape() as outer:
            fast.assign(meta)
            loss = loss_of(assigned(fast, x, y), x, y, gt)
        return loss, outer.gradient(loss, meta)

    for run in (step, gt.function(step)):
        for seed in (3, 4):
            x, y = task(seed)
            loss, gradient = run(gt.asarray(x), gt.asarray(y))
            assert float(loss) == pytest.approx(in_arrays(START, x, y))
            expected = differences(lambda w, x=x, y=y: in_arrays(w, x, y), START)
            np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-8)


def test_first_order_stops_at_the_inner_gradient():
    def step(start, x, y):
        with gt.GradientTape() as outer:
            outer.watch(start)
            w = start
            for _ in range(INNER):
                with gt.GradientTape() as tape:
                    tape.watch(w)
                    loss = loss_of(w, x, y, gt)
                w = w - RATE * gt.stop_gradient(tape.gradient(loss, w))
            loss = loss_of(w, x, y, gt)
        return outer.gradient(loss, start), w

    for run in (step, gt.function(step)):
        x, y = task(0)
        gradient, w = run(*map(gt.asarray, (START, x, y)))
        # Steps that count as constants: the gradient at the adapted weights.
        expected = differences(lambda w, x=x, y=y: loss_of(w, x, y, np), w.numpy())
        np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("inner", ["assigned", "optimizer"])
def test_training_over_tasks_decorated_and_undecorated(inner):
    def make():
        meta, fast = gt.Variable(START), gt.Variable(START)
        outer_optimizer = gt.optimizers.Adam(0.05)
        inner_optimizer = gt.optimizers.SGD(RATE)

        def adapted(x, y):
            if inner == "assigned":
                return assigned(fast, x, y)
            for _ in range(INNER):
                inner_optimizer.minimize(lambda: loss_of(fast.value, x, y, gt), [fast])
            return fast.value

        def step(x, y):
            with gt.GradientTape() as outer:
                fast.assign(meta)
                loss = loss_of(adapted(x, y), x, y, gt)
            outer_optimizer.apply_gradients([(outer.gradient(loss, meta), meta)])
            return loss

        return step, [meta, fast, *outer_optimizer.variables]

    step, variables = make()
    twin_step, twins = make()
    compiled = gt.function(twin_step)
    for seed in range(10):
        x, y = map(gt.asarray, task(seed))
        assert float(step(x, y)) == pytest.approx(float(compiled(x, y)), rel=1e-9)
        for a, b in zip(variables[:2], twins[:2], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
    meta = START
    moment, velocity = np.zeros_like(meta), np.zeros_like(meta)
    for seed in range(10):
        x, y = task(seed)
        slope = differences(lambda w, x=x, y=y: in_arrays(w, x, y), meta)
        t = seed + 1
        alpha = 0.05 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        moment, velocity = 0.9 * moment + 0.1 * slope, 0.999 * velocity + 0.001 * slope**2
        meta = meta - alpha * moment / (np.sqrt(velocity) + 1e-7)
    np.testing.assert_allclose(variables[0].numpy(), meta, rtol=1e-5)


def test_hyperparameters_learn_through_a_momentum():
    """The gradient by a learning rate, through variables that hold weights and momentum."""

    def trained(log_rate, x, y, xp, w, m):
        rate = xp.exp(log_rate)
        for _ in range(4):
            guess = xp.tanh(x @ w)
            slope = x.T @ (2.0 * (guess - y) * (1.0 - guess**2)) / len(x)
            m = 0.9 * m - rate * slope
            w = w + m
        return loss_of(w, x, y, xp)

    w, m = gt.Variable(START), gt.Variable(np.zeros_like(START))

    def step(log_rate, x, y):
        with gt.GradientTape() as tape:
            tape.watch(log_rate)
            w.assign(START)
            m.assign(np.zeros_like(START))
            rate = gt.exp(log_rate)
            for _ in range(4):
                with gt.GradientTape() as inner:
                    loss = loss_of(w.value, x, y, gt)
                m.assign(0.9 * m - rate * inner.gradient(loss, w))
                w.assign_add(m)
            loss = loss_of(w.value, x, y, gt)
        return loss, tape.gradient(loss, log_rate)

    x, y = task(7)
    for run in (step, gt.function(step)):
        for log_rate in (-2.0, -1.0, -3.0):
            loss, gradient = run(gt.asarray(log_rate), gt.asarray(x), gt.asarray(y))

            def by_hand(log_rate):
                return trained(log_rate, x, y, np, START, np.zeros_like(START))

            assert float(loss) == pytest.approx(by_hand(log_rate))
            assert float(gradient) == pytest.approx(
                float(differences(by_hand, log_rate)), rel=1e-6, abs=1e-9
            )


@pytest.mark.usefixtures("compiled_at_once")
def test_later_tasks_build_nothing():
    variable = gt.Variable(START)
    run = gt.function(lambda x, y: by_assignments(variable, x, y))
    run(*map(gt.asarray, task(0)))
    with nothing_new():
        for seed in range(1, 6):
            run(*map(gt.asarray, task(seed)))
