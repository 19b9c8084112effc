"""An ODE solver with step control: steps are rejected where the error is too large."""

import numpy as np
import pytest
import scipy.integrate
from tests.programs.running import Counted, all_ways, differences

import gradtape as gt

# Dormand and Prince's pair of orders 5 and 4, and Bogacki and Shampine's of orders 3 and 2. Nodes
# are not needed: the equations are autonomous.
DORMAND_PRINCE = (
    [
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ],
    [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    5,
)
BOGACKI_SHAMPINE = (
    [[1 / 2], [0.0, 3 / 4], [2 / 9, 1 / 3, 4 / 9]],
    [5 / 72, -1 / 12, -1 / 9, 1 / 8],
    3,
)


def volterra(y, rates, stack):
    """Prey and predators."""
    prey, hunters = y[0], y[1]
    return stack([rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - hunters])


def solve(rates, pair, xp, stack, tolerance=1e-4, end=3.0, first=1.0):
    """The solution at the end, and the numbers of steps accepted and rejected.

    The same text for NumPy and for tensors. The step size is a number of the program like others,
    so derivatives pass through it.
    """
    stages, errors, order = pair
    y = stack([rates[0] * 0.0 + 1.0, rates[0] * 0.0 + 0.5])
    t, h = rates[0] * 0.0, rates[0] * 0.0 + first
    accepted = rejected = 0
    slope = volterra(y, rates, stack)
    while t < end:
        if t + h > end:
            h = end - t
        slopes = [slope]
        for weights in stages:
            new = y + h * sum(w * k for w, k in zip(weights, slopes, strict=True))
            slopes.append(volterra(new, rates, stack))
        error = h * sum(w * k for w, k in zip(errors, slopes, strict=True))
        scale = tolerance * (1.0 + xp.abs(y))
        size = xp.sqrt(xp.mean((error / scale) ** 2))
        if size > 1.0:
            rejected += 1
            h = h * xp.maximum(0.9 * size ** (-1.0 / order), 0.2)
            continue
        t, y, slope = t + h, new, slopes[-1]
        accepted += 1
        h = h * xp.minimum(0.9 * size ** (-1.0 / order), 5.0)
    return y, accepted, rejected


PAIRS = {"RK23": BOGACKI_SHAMPINE, "RK45": DORMAND_PRINCE}
RATES = [[1.5, 1.0, 1.0], [2.5, 0.7, 1.3], [1.5, 1.0, 1.0], [0.3, 2.0, 0.5], [2.5, 0.7, 1.3]]


def tensor_solution(pair):
    def run(rates):
        return gt.sum(solve(rates, PAIRS[pair], gt, gt.stack)[0] * gt.asarray([1.0, 2.0]))

    return run


def array_solution(pair):
    return lambda rates: solve(rates, PAIRS[pair], np, np.array)[0] @ [1.0, 2.0]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("way", all_ways(tensor_solution("RK23")))
def test_values_and_gradients(pair, way):
    run = all_ways(tensor_solution(pair))[way]
    for rates in RATES:
        value, gradient = run(gt.asarray(rates))
        assert float(value) == pytest.approx(array_solution(pair)(np.array(rates)), rel=1e-10)
        expected = differences(array_solution(pair), rates, 1e-6)
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_the_path_is_that_of_scipy_and_steps_are_rejected():
    rates = np.array(RATES[1])
    for name, pair in PAIRS.items():
        y, accepted, rejected = solve(gt.asarray(rates), pair, gt, gt.stack, 1e-7, first=1.0)
        assert rejected > 0
        assert accepted > 5
        found = scipy.integrate.solve_ivp(
            lambda t, y: volterra(y, rates, np.array), (0, 3), [1.0, 0.5], rtol=1e-10, atol=1e-10
        )
        np.testing.assert_allclose(y.numpy(), found.y[:, -1], rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_gradients_are_those_of_the_sensitivity_equations():
    rates = np.array(RATES[0])

    def both(t, z):
        y, s = z[:2], z[2:].reshape(2, 3)
        by_y = [
            [rates[0] - rates[1] * y[1], -rates[1] * y[0]],
            [rates[2] * y[1], rates[2] * y[0] - 1],
        ]
        by_rates = [[y[0], -y[0] * y[1], 0.0], [0.0, 0.0, y[0] * y[1]]]
        return [*volterra(y, rates, np.array), *(np.array(by_y) @ s + by_rates).ravel()]

    start = [1.0, 0.5, *np.zeros(6)]
    exact = scipy.integrate.solve_ivp(both, (0, 3), start, rtol=1e-11, atol=1e-11).y[2:, -1]
    run = gt.function(
        lambda rates: gt.jacobian(
            lambda r: solve(r, DORMAND_PRINCE, gt, gt.stack, tolerance=1e-8)[0]
        )(rates)
    )
    for _ in range(2):
        np.testing.assert_allclose(
            run(gt.asarray(rates)).numpy(), exact.reshape(2, 3), rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
def test_known_paths_run_without_python_and_unknown_ones_are_added():
    counted = Counted(lambda rates: solve(rates, BOGACKI_SHAMPINE, gt, gt.stack))
    compiled = gt.function(counted)
    for rates in [*RATES] * 2:
        compiled(gt.asarray(rates))
    assert counted.runs <= 6
    runs = counted.runs
    for rates in RATES:
        y, *counts = compiled(gt.asarray(rates))
        expected, *expected_counts = solve(np.array(rates), BOGACKI_SHAMPINE, np, np.array)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10)
        assert counts == expected_counts
    assert counted.runs == runs
    # Rates nearby may take the same steps or others: the answer is right in both cases.
    for shift in np.linspace(0.0, 0.3, 12):
        rates = np.array(RATES[0]) + shift
        y, *counts = compiled(gt.asarray(rates))
        expected, *expected_counts = solve(rates, BOGACKI_SHAMPINE, np, np.array)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10)
        assert counts == expected_counts


@pytest.mark.slow
def test_rates_are_fitted_by_gradient_descent():
    target = solve(np.array([1.6, 0.9, 1.1]), DORMAND_PRINCE, np, np.array)[0]
    rates = gt.Variable([1.5, 1.0, 1.0])
    optimizer = gt.optimizers.Adam(0.02)

    @gt.function
    def step():
        with gt.GradientTape() as tape:
            y, *_ = solve(rates.value, DORMAND_PRINCE, gt, gt.stack)
            loss = gt.sum((y - target) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, rates), rates)])
        return loss

    losses = [float(step()) for _ in range(60)]
    assert losses[-1] < 1e-3 * losses[0]
