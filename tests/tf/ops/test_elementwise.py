"""Element-wise functions where TensorFlow has rules of its own."""

import inspect

import numpy as np
import pytest

import gradtape.tf as tf


def slopes(function, *operands):
    operands = [tf.constant(x) for x in operands]
    with tf.GradientTape() as tape:
        tape.watch(operands)
        y = function(*operands)
    return [g.numpy().tolist() for g in tape.gradient(y, operands)]


@pytest.mark.parametrize("function", [tf.math.xlogy, tf.math.xlog1py, tf.math.xdivy])
def test_no_derivative_where_x_is_zero(function):
    assert slopes(function, [0.0, 0.0], [0.0, 2.0]) == [[0.0, 0.0], [0.0, 0.0]]


def test_xlog1py_is_exact_for_small_y():
    assert tf.math.xlog1py(2.0, 1e-10).numpy() == np.float32(2e-10)


def test_complex_operands():
    x, y = 1.0 + 2.0j, 3.0 - 1.0j
    np.testing.assert_allclose(tf.math.squared_difference(x, y), 13.0)
    np.testing.assert_allclose(tf.sigmoid(x), 1 / (1 + np.exp(-x)))
    np.testing.assert_allclose(tf.math.xlogy(x, y), x * np.log(y))
    np.testing.assert_allclose(tf.math.multiply_no_nan(x, y), x * y)
    assert tf.math.multiply_no_nan(tf.constant(np.nan + 0j), 0j).numpy() == 0


def test_integers_are_divided_as_floats():
    found = tf.math.divide_no_nan([1, 2], [0, 4])
    assert found.dtype == tf.float64
    assert found.numpy().tolist() == [0.0, 0.5]
    small = tf.math.divide_no_nan(np.uint8([1, 200]), np.uint8([2, 100]))
    assert small.dtype == tf.float32
    assert small.numpy().tolist() == [0.5, 2.0]


def test_angles_of_real_numbers():
    found = tf.math.angle([-0.0, 0.0, -1.0, 2.0, -np.inf])
    np.testing.assert_allclose(found, [0.0, 0.0, np.pi, 0.0, np.pi], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "names"),
    [(tf.math.angle, ["input"]), (tf.math.real, ["input"]), (tf.math.imag, ["input"]),
     (tf.math.softplus, ["features"]), (tf.math.softsign, ["features"]), (tf.atan2, ["y", "x"]),
     (tf.math.nextafter, ["x1", "x2"]), (tf.exp, ["x"]), (tf.add, ["x", "y"])],
)  # fmt: skip
def test_names_of_operands(function, names):
    assert list(inspect.signature(function).parameters) == [*names, "name"]


def test_operands_by_name():
    assert tf.atan2(y=1.0, x=0.0).numpy() == pytest.approx(np.pi / 2)
    assert tf.nn.softsign(features=1.0).numpy() == 0.5
