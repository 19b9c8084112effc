"""Fixed points and minima: their methods agree, and so do their derivatives."""

import numpy as np
import pytest

import gradtape as gt


def test_fixed_point_methods_agree():
    def f(x, a):
        return gt.cos(x * a) * 0.5 + 0.1 * gt.roll(x, 1)

    def residual(x, a):
        return x - f(x, a)

    expected = gt.root(residual, np.zeros(4), 0.9).numpy()
    slopes = gt.jacobian(lambda a: gt.root(residual, np.zeros(4), a))(0.9).numpy()
    for method in ("anderson", "iteration", "newton"):
        for way in ({}, {"sparse": True}, {"solver": "gmres"}):
            found = gt.fixed_point(f, np.zeros(4), 0.9, method=method, **way).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-11)
            found = gt.jacobian(lambda a: gt.fixed_point(f, np.zeros(4), a, method=method, **way))  # noqa: B023
            np.testing.assert_allclose(found(0.9).numpy(), slopes, rtol=1e-9)


def test_anderson_takes_fewer_steps():
    calls = {}

    def counting(method):
        calls[method] = 0

        def f(x):
            calls[method] += 1
            return gt.cos(x)

        return gt.fixed_point(f, np.full(3, 0.1), method=method)

    for method in ("anderson", "iteration"):
        counting(method)
    assert calls["anderson"] < calls["iteration"] / 3


def test_fixed_point_of_a_nest():
    found = gt.fixed_point(
        lambda x: {"p": 0.5 * x["q"] + 1.0, "q": gt.cos(x["p"])}, {"p": 0.0, "q": 0.0}
    )
    assert float(found["p"]) == pytest.approx(0.5 * np.cos(float(found["p"])) + 1.0, rel=1e-11)


METHODS = [
    "BFGS", "CG", "L-BFGS-B", "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "dogleg",
    "trust-constr", "SLSQP", "TNC", "Nelder-Mead", "Powell",
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_minimize_by_every_method(method):
    # A bowl: x = a² + roll(a), whatever the curvature.
    def f(x, a):
        d = x - a**2 - gt.roll(a, 1)
        return gt.sum(d**2 * np.array([1.0, 3.0, 2.0])) + 0.1 * gt.sum(d**4)

    a = np.array([0.5, -0.3, 0.8])
    found = gt.minimize(f, np.zeros(3), a, method=method)
    np.testing.assert_allclose(found.numpy(), a**2 + np.roll(a, 1), atol=1e-9)
    jacobian = gt.jacobian(lambda a: gt.minimize(f, np.zeros(3), a, method=method))(a).numpy()
    expected = np.diag(2 * a) + np.roll(np.eye(3), 1, axis=0)
    np.testing.assert_allclose(jacobian, expected, atol=1e-8)


@pytest.mark.parametrize(
    "way", [{}, {"sparse": True}, {"solver": "cg"}, {"solver": "minres"}, {"solver": "gmres"}]
)
def test_minimize_second_derivatives(way):
    # Regularised: x³ + x = a, coordinate by coordinate, with a coupling that vanishes at x = y.
    def f(x, a):
        return gt.sum(x**4 / 4.0 + x**2 / 2.0 - a * x) + 0.5 * gt.sum((x[1:] - x[:-1]) ** 2) * 0.0

    def first(a):
        return gt.sum(gt.minimize(f, np.zeros(2), a, **way))

    a = np.array([2.0, 10.0])
    x = np.array([1.0, 2.0])
    slope = 1 / (3 * x**2 + 1)
    np.testing.assert_allclose(gt.grad(first)(a).numpy(), slope, rtol=1e-9)
    second = -6 * x * slope**3
    np.testing.assert_allclose(gt.hessian(first)(a).numpy(), np.diag(second), rtol=1e-8, atol=1e-12)


def test_gradient_through_a_fit():
    # Ridge regression: the derivative of the weights by the penalty is -(X'X + pI)⁻¹ w.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)

    def weights(p):
        return gt.minimize(lambda w: gt.sum((X @ w - y) ** 2) + p * gt.sum(w**2), np.zeros(3))

    normal = X.T @ X + 0.7 * np.eye(3)
    w = np.linalg.solve(normal, X.T @ y)
    np.testing.assert_allclose(weights(0.7).numpy(), w, rtol=1e-9)
    found = gt.jacobian(weights)(0.7).numpy()
    np.testing.assert_allclose(found, -np.linalg.solve(normal, w), rtol=1e-8)


def test_minimize_nest():
    def f(x, a):
        return (x["p"] - a) ** 2 + gt.sum((x["q"] - x["p"] * gt.asarray([1.0, 2.0])) ** 2)

    found = gt.minimize(f, {"p": 0.0, "q": np.zeros(2)}, 3.0)
    np.testing.assert_allclose(found["q"].numpy(), [3.0, 6.0], rtol=1e-8)
    slope = gt.grad(lambda a: gt.minimize(f, {"p": 0.0, "q": np.zeros(2)}, a)["q"][1])
    assert float(slope(3.0)) == pytest.approx(2.0)
