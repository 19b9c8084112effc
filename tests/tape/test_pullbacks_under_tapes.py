"""Derivatives by what the derivative of an ended tape was asked along."""

import numpy as np

import gradtape as gt

X = np.array([1.0, 2.0, 3.0])


def f(x):
    return gt.stack([x[0] * x[1], x[2] ** 2])


JACOBIAN = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 6.0]])


def test_a_pullback_is_transposed():
    _, pull = gt.vjp(f, X)
    _, push = gt.vjp(lambda v: pull(v)[0], np.zeros(2))
    np.testing.assert_allclose(push(np.ones(3))[0].numpy(), JACOBIAN @ np.ones(3))
    np.testing.assert_allclose(
        gt.jacobian(lambda v: pull(v * v)[0])(np.ones(2)).numpy(), 2 * JACOBIAN.T
    )


def test_each_call_has_its_own_direction():
    _, pull = gt.vjp(f, X)
    loss = lambda v: gt.sum(pull(v)[0] * pull(2.0 * v)[0])  # noqa: E731
    slope = gt.grad(loss)(np.array([1.0, 1.0])).numpy()
    np.testing.assert_allclose(slope, 4.0 * JACOBIAN @ JACOBIAN.T @ np.ones(2))


def test_a_look_at_the_gradient_of_a_look_up_keeps_its_derivative():
    def slope(v):
        gradient = gt.vjp(lambda x: gt.sum(x[[0, 0]]), X)[1](v)[0]
        gradient.numpy()
        return gradient

    assert gt.jacobian(slope)(2.0).tolist() == [2.0, 0.0, 0.0]
