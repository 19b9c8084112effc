"""Every optimiser against a loop in NumPy, with formulas written for the test."""

import numpy as np
import pytest

import gradtape as gt
from gradtape import optimizers

STEPS = 5
RNG = np.random.default_rng(0)
START = [RNG.normal(size=(3, 2)), RNG.normal(size=4), RNG.normal(size=())]
GRADIENTS = [[RNG.normal(size=w.shape) for w in START] for _ in range(STEPS)]


def run(optimizer, dtype="float64", gradients=GRADIENTS):
    variables = [gt.Variable(w.astype(dtype)) for w in START]
    for step in gradients:
        optimizer.apply_gradients(
            zip([gt.asarray(g.astype(dtype)) for g in step], variables, strict=True)
        )
    return [v.numpy() for v in variables]


def expect(formula, gradients=GRADIENTS):
    """`formula(w, g, state, t)` gives the new weight and changes the state, a dict, in place."""
    weights = [w.copy() for w in START]
    states = [{} for _ in START]
    for t, step in enumerate(gradients, start=1):
        weights = [formula(w, g, s, t) for w, g, s in zip(weights, step, states, strict=True)]
    return weights


def same(got, expected, rtol=1e-12):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def test_sgd():
    same(run(optimizers.SGD(0.1)), expect(lambda w, g, s, t: w - 0.1 * g))


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_with_momentum(nesterov):
    def formula(w, g, s, t):
        s["m"] = 0.9 * s.get("m", 0) - 0.1 * g
        return w + 0.9 * s["m"] - 0.1 * g if nesterov else w + s["m"]

    same(run(optimizers.SGD(0.1, momentum=0.9, nesterov=nesterov)), expect(formula))


def adam(w, g, s, t, decay=0.0, amsgrad=False, rate=0.02, b1=0.8, b2=0.95, epsilon=1e-3):
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
    s["h"] = np.maximum(s.get("h", 0), s["v"]) if amsgrad else s["v"]
    alpha = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
    w = w - rate * decay * w
    return w - alpha * s["m"] / (np.sqrt(s["h"]) + epsilon)


SETTING = {"learning_rate": 0.02, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam(amsgrad):
    expected = expect(lambda *args: adam(*args, amsgrad=amsgrad))
    same(run(optimizers.Adam(**SETTING, amsgrad=amsgrad)), expected)


def test_adamw():
    expected = expect(lambda *args: adam(*args, decay=0.3))
    same(run(optimizers.AdamW(**SETTING, weight_decay=0.3)), expected)
    same(run(optimizers.Adam(**SETTING, weight_decay=0.3)), expected)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_rmsprop(centered, momentum):
    def formula(w, g, s, t):
        s["v"] = 0.7 * s.get("v", 0) + 0.3 * g**2
        s["a"] = 0.7 * s.get("a", 0) + 0.3 * g
        step = 0.05 * g / np.sqrt(s["v"] - (s["a"] ** 2 if centered else 0) + 1e-3)
        s["m"] = momentum * s.get("m", 0) + step
        return w - s["m"]

    optimizer = optimizers.RMSprop(
        0.05, rho=0.7, momentum=momentum, epsilon=1e-3, centered=centered
    )
    same(run(optimizer), expect(formula))


def test_adagrad():
    def formula(w, g, s, t):
        s["a"] = s.get("a", 0.25) + g**2
        return w - 0.05 * g / np.sqrt(s["a"] + 1e-3)

    same(run(optimizers.Adagrad(0.05, 0.25, 1e-3)), expect(formula))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("SGD", {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False}),
        ("Adam", {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
        ("AdamW", {"learning_rate": 0.001, "weight_decay": 0.004, "epsilon": 1e-7}),
        ("RMSprop", {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7}),
        ("Adagrad", {"learning_rate": 0.001, "initial_accumulator_value": 0.1, "epsilon": 1e-7}),
    ],
)
def test_defaults_are_those_of_keras(kind, expected):
    config = getattr(optimizers, kind)().get_config()
    assert {name: config[name] for name in expected} == expected


def test_weight_decay_holds_for_all_and_can_be_excluded():
    same(
        run(optimizers.SGD(0.1, weight_decay=0.2)),
        expect(lambda w, g, s, t: w * (1 - 0.1 * 0.2) - 0.1 * g),
    )
    kernel, bias = gt.Variable(1.0, name="kernel"), gt.Variable(1.0, name="bias")
    other = gt.Variable(1.0, name="other")
    optimizer = optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([other], ["bias"])
    optimizer.apply_gradients([(0.0, kernel), (0.0, bias), (0.0, other)])
    assert [float(kernel), float(bias), float(other)] == [0.95, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_single_precision(kind):
    optimizer = getattr(optimizers, kind)
    got, expected = run(optimizer(0.1), "float32"), run(optimizer(0.1))
    assert all(w.dtype == np.float32 for w in got)
    same(got, expected, rtol=1e-5)


def test_variables_of_several_dtypes():
    a, b = gt.Variable(np.float32(1.0)), gt.Variable(1.0)
    optimizers.Adam(0.1).apply_gradients([(gt.asarray(2.0), a), (np.float32(2.0), b)])
    assert (a.dtype, b.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose([float(a), float(b)], 0.9, rtol=1e-6)


def test_complex_variables_descend():
    z = gt.Variable(3.0 + 4.0j)
    optimizer = optimizers.SGD(0.25, clipnorm=1.0)
    loss = optimizer.minimize(lambda: gt.real(z * gt.conj(z)), [z])
    assert float(loss) == 25.0
    np.testing.assert_allclose(z.numpy(), 3 + 4j - 0.25 * (3 + 4j) / 5)
    with pytest.raises(TypeError, match="complex128 cannot be updated"):
        optimizers.Adam().apply_gradients([(1.0j, z)])
