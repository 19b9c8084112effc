"""Derivatives in graphs of TensorFlow 1: what a trial run on zeros cannot show is found anyway."""

import numpy as np
import pytest

import gradtape.tf as tf

v1 = tf.compat.v1
X = np.array([1.0, 2.0, 3.0, 5.0], np.float32)


def run(gradients, feeds=None):
    with v1.Session() as sess:
        return [None if g is None else sess.run(g, feeds).tolist() for g in gradients]


SORTED = {"sum": [1, 1, 1, 1], "mean": [0.5] * 4, "max": [0, 1, 0, 1], "min": [1, 0, 1, 0],
          "prod": [2, 1, 5, 3]}  # fmt: skip
UNSORTED = {"sum": [1, 1, 1, 0], "mean": [0.5, 1, 0.5, 0], "max": [0, 1, 1, 0],
            "min": [1, 1, 0, 0], "prod": [3, 1, 1, 0],
            "sqrt_n": [0.70710677, 1, 0.70710677, 0]}  # fmt: skip


@pytest.mark.parametrize("are_fed", [False, True])
@pytest.mark.parametrize("name", [*(f"segment_{n}" for n in SORTED),
                                  *(f"unsorted_segment_{n}" for n in UNSORTED)])  # fmt: skip
def test_segments(name, are_fed):
    is_sorted = name.startswith("segment")
    numbers = [0, 0, 2, 2] if is_sorted else [2, 0, 2, -1]
    with tf.Graph().as_default():
        x, ids = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.int32, [None])
        count = () if is_sorted else (4,)
        y = getattr(tf.math, name)(x, ids if are_fed else numbers, *count)
        found = run(tf.gradients(y, x), {x: X, ids: numbers})
    expected = (SORTED if is_sorted else UNSORTED)[name.rpartition("segment_")[2]]
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_look_ups_and_updates_at_positions_that_are_fed():
    with tf.Graph().as_default():
        x, at = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.int32, [None, 1])
        length = v1.placeholder(tf.int32, [1])
        feeds = {x: [1.0, 2.0], at: [[2], [1]], length: [4]}
        assert run(tf.gradients(tf.scatter_nd(at, x * x, length), x), feeds) == [[2.0, 4.0]]
        whole = tf.constant([7.0, 8.0, 9.0])
        y = tf.tensor_scatter_nd_update(whole, at, x)
        assert run(tf.gradients(y, [whole, x]), feeds) == [[1.0, 0.0, 0.0], [1.0, 1.0]]
        first, _ = tf.dynamic_partition(x, at[:, 0] // 2, 2)
        assert run(tf.gradients(first * 3.0, x), feeds) == [[0.0, 3.0]]


def test_functions_of_scipy_and_of_python():
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        y = tf.math.betainc([1.0, 2.0], [2.0, 3.0], x)
        np.testing.assert_allclose(run(tf.gradients(y, x), {x: [0.3, 0.4]}), [[1.4, 1.728]], 1e-5)
        y = tf.py_function(lambda x: x * x, [x], tf.float32)
        assert run(tf.gradients(y, x), {x: [1.0, 2.0]}) == [[2.0, 4.0]]
        # TensorFlow, too, has no derivative of a NumPy function.
        assert tf.gradients(tf.numpy_function(np.sin, [x], tf.float32), x) == [None]


def test_second_derivatives_through_segments():
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        y = tf.math.unsorted_segment_sum(x**3.0, [0, 0], 1)
        feeds = {x: [1.0, 2.0]}
        assert run(tf.hessians(y[0], x), feeds) == [[[6.0, 0.0], [0.0, 12.0]]]
        assert run(tf.gradients(tf.gradients(y, x), x), feeds) == [[6.0, 12.0]]


def test_stop_gradients_hold_at_sources_too():
    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [])
        b = 2.0 * a
        c = b * b
        d = c + a * b
        feeds = {a: 3.0}
        assert run(tf.gradients(a + b, [a, b], stop_gradients=[a, b]), feeds) == [1.0, 1.0]
        assert run(tf.gradients(d, [a, b, c], stop_gradients=[c]), feeds) == [12.0, 3.0, 1.0]
        assert run(tf.gradients(d, [a, b], stop_gradients=[b]), feeds) == [6.0, 15.0]
        every = [a, b, c]
        assert run(tf.gradients(d, every, stop_gradients=every), feeds) == [6.0, 3.0, 1.0]
        assert run(tf.gradients(d, every), feeds) == [36.0, 15.0, 1.0]


MADE = {
    "constant": lambda: tf.constant([3.0, 4.0]), "ones": lambda: tf.ones([2]),
    "fill": lambda: tf.fill([2], 3.0), "range": lambda: tf.range(2.0),
    "identity": lambda: tf.identity([1.0, 2.0]), "cast": lambda: tf.cast([1, 2], tf.float32),
    "square": lambda: tf.square([1.0, 2.0]), "convert": lambda: tf.convert_to_tensor([1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_sources_may_be_made_without_placeholders(name):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        source = MADE[name]()
        assert run(tf.gradients((source * 2.0) * x, source), {x: [1.0, 2.0]}) == [[2.0, 4.0]]


class TestBranches:
    """Other runs may take another way: a source behind a branch has zeros, and is not None."""

    def test_cond(self):
        with tf.Graph().as_default():
            x, w = v1.placeholder(tf.float32, []), tf.constant(5.0)
            y = tf.cond(x > 1.0, lambda: x * x, lambda: w * x)
            gradients = tf.gradients(y, [x, w])
            assert run(gradients, {x: 2.0}) == [4.0, 0.0]
            assert run(gradients, {x: 0.5}) == [5.0, 0.5]

    def test_loops_and_functions_that_read_a_source_inside(self):
        with tf.Graph().as_default():
            x, w = v1.placeholder(tf.float32, []), tf.constant(5.0)
            body = lambda i, s: (i + 1, s * x)  # noqa: E731
            loop = tf.while_loop(lambda i, s: i < 3, body, (0, w))
            assert run(tf.gradients(loop[1], [x, w]), {x: 2.0}) == [60.0, 8.0]
            y = tf.function(lambda t: t * x * w)(x)
            assert run(tf.gradients(y, [x, w]), {x: 2.0}) == [20.0, 4.0]

    def test_shapes_that_zeros_do_not_fit(self):
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, [])
            y = tf.reshape(tf.fill([6], x), [tf.cast(x, tf.int32), 3])
            assert run(tf.gradients(y, x), {x: 2.0}) == [6.0]

    def test_surely_unconnected_sources_are_none(self):
        with tf.Graph().as_default():
            x, z = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.float32, [2])
            v, u = v1.get_variable("v", initializer=[1.0, 2.0]), tf.Variable(1.0)
            y = tf.math.segment_sum(x * v, [0, 0])
            gradients = tf.gradients(y, [z, u, tf.stop_gradient(x), v])
            assert gradients[:3] == [None] * 3
            assert gradients[3].shape == [2]
            assert run(gradients[3:], {x: [1.0, 2.0]}) == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("nesterov", "expected"),
    [(False, [0.8, 0.766, -0.1524, -0.3438]), (True, [0.62, 0.58024, -0.35322237, -0.44391757])],
)
def test_momentum_with_a_changing_rate(nesterov, expected):
    with tf.Graph().as_default(), v1.Session() as sess:
        w = v1.get_variable("w", initializer=tf.constant(1.0))
        rate = v1.placeholder(tf.float32, [])
        step = v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=nesterov).minimize(w * w)
        sess.run(v1.global_variables_initializer())
        found = [(sess.run(step, {rate: r}), sess.run(w))[1] for r in (0.1, 0.01, 0.2, 0.05)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
