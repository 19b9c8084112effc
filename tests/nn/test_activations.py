"""Activations against formulas in NumPy and SciPy, at extremes, and their derivatives."""

import numpy as np
import pytest
from scipy import special

import gradtape as gt
from gradtape import nn

X = np.array([[-2.5, -0.5, 0.25], [1.5, 4.0, -7.0]])
LARGE = np.array([-1e4, -50.0, 50.0, 1e4])

FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "gelu": lambda x: x * special.ndtr(x),
    "silu": lambda x: x * special.expit(x),
    "swish": lambda x: x * special.expit(x),
    "softplus": lambda x: np.logaddexp(0, x),
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softmax": lambda x: special.softmax(x, axis=-1),
    "log_softmax": lambda x: special.log_softmax(x, axis=-1),
    "linear": lambda x: x,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values(name):
    function = nn.activations.get(name)
    np.testing.assert_allclose(function(gt.asarray(X)).numpy(), FORMULAS[name](X), rtol=1e-13)
    single = function(gt.asarray(X.astype("float32")))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.numpy(), FORMULAS[name](X), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", FORMULAS)
def test_large_arguments(name):
    x = gt.asarray(LARGE)
    function = nn.activations.get(name)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    np.testing.assert_allclose(y.numpy(), FORMULAS[name](LARGE), rtol=1e-12, atol=1e-300)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_derivatives(name):
    function = nn.activations.get(name)
    gt.testing.check_gradients(lambda x: gt.sum(function(x) * np.cos(X)), X)


def test_gelu_by_tanh():
    cubic = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    got = nn.gelu(gt.asarray(X), approximate=True)
    np.testing.assert_allclose(got.numpy(), 0.5 * X * (1 + np.tanh(cubic)), rtol=1e-12, atol=1e-14)
    gt.testing.check_gradients(lambda x: gt.sum(nn.gelu(x, approximate=True)), X)


def test_gelu_is_exact_far_below_zero():
    np.testing.assert_allclose(float(nn.gelu(-10.0)), -10 * special.ndtr(-10.0), rtol=1e-12)


def test_parameters():
    assert nn.leaky_relu(gt.asarray([-2.0]), 0.5).tolist() == [-1.0]
    assert nn.elu(gt.asarray([-1e3]), 2.0).tolist() == [-2.0]


class TestSoftmax:
    @pytest.mark.parametrize("axis", [0, 1, -1, (0, 2)])
    def test_axes(self, axis):
        x = np.random.default_rng(0).normal(size=(2, 3, 4))
        np.testing.assert_allclose(nn.softmax(x, axis).numpy(), special.softmax(x, axis))
        np.testing.assert_allclose(nn.log_softmax(x, axis).numpy(), special.log_softmax(x, axis))

    def test_infinities(self):
        x = gt.asarray([[0.0, -np.inf, 0.0], [-1e4, 1e4, -np.inf]])
        assert nn.softmax(x).tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
        half, low = np.log(0.5), -np.inf
        assert nn.log_softmax(x).tolist() == [[half, low, half], [-2e4, 0.0, low]]

    def test_gradients_beside_infinities(self):
        x = gt.asarray([0.0, -np.inf, 1.0])
        weights = np.array([1.0, 0.0, 3.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sum(nn.softmax(x) * weights)
        p = special.softmax(x.numpy())
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), p * (weights - p @ weights))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = nn.log_softmax(x)[2]
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0, 0, 1] - p)

    def test_exact_for_large_numbers_of_single_precision(self):
        x = np.array([1e4, 1e4 + 1, 1e4 - 2], "float32")
        expected = special.log_softmax(x.astype("float64"))
        np.testing.assert_allclose(nn.log_softmax(x).numpy(), expected, rtol=1e-6)

    def test_edges(self):
        assert nn.softmax(np.zeros((2, 0))).shape == (2, 0)
        assert nn.softmax(np.zeros((0, 2))).shape == (0, 2)
        assert nn.softmax(gt.asarray([1, 1])).tolist() == [0.5, 0.5]
        with pytest.raises(ValueError, match="0-d"):
            nn.softmax(1.0)
        with pytest.raises(IndexError, match="axis 2"):
            nn.log_softmax(np.zeros((2, 2)), axis=2)


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match=r"'rely' is unknown.*relu"):
        nn.activations.get("rely")
    assert nn.activations.get(None) is None
    assert nn.activations.get(np.sin) is np.sin
