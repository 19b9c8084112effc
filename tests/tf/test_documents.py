"""What people write and ask about in public, with this face in place of TensorFlow.

One case for each of fifteen pieces of code from five discussions: the slowness of tapes for
Jacobians, training steps, compiled element-wise gradients, tapes and state, and batch_jacobian.
"""

import io
import time

import numpy as np
import pytest

import gradtape.tf as tf

try:
    from IPython.core.interactiveshell import InteractiveShell
except ImportError:
    InteractiveShell = None


def powers(x):
    return [x**2, x**3]


class TestJacobians:
    def test_partial_derivatives_without_a_tape_in_a_session(self):
        point = tf.constant([2.0], dtype=tf.float32)
        slopes = tf.gradients(powers(point), point)
        with tf.Session() as session:
            (found,) = session.run(slopes)
        # A sum over both outputs, by definition.
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [16.0])

    def test_jacobians_of_a_list_of_targets(self):
        point = tf.constant([2.0], dtype=tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(point)
            outputs = powers(point)
        matrices = tape.jacobian(outputs, point)
        with tf.Session() as session:
            square, cube = session.run(matrices)
        assert square.tolist() == [[4.0]]
        assert cube.tolist() == [[12.0]]

    def test_two_ways_on_a_large_input(self):
        def outputs(x):
            return [tf.reduce_sum(tf.square(x)), tf.reduce_mean(tf.exp(x))]

        data = tf.random.normal((200, 300), dtype=tf.float32)
        start = time.time()
        summed = tf.gradients(outputs(data), data)
        assert time.time() >= start
        with tf.GradientTape() as tape:
            tape.watch(data)
            y = outputs(data)
        apart = tape.jacobian(y, data)
        with tf.Session() as session:
            (both,) = session.run(summed)
            first, second = session.run(apart)
        values = data.numpy()
        np.testing.assert_allclose(first, 2.0 * values, rtol=1e-6)
        np.testing.assert_allclose(second, np.exp(values) / values.size, rtol=1e-5)
        np.testing.assert_allclose(both, first + second, rtol=1e-5)


class TestTrainingSteps:
    def setup_method(self):
        tf.random.set_seed(7)
        self.weights = tf.Variable(tf.random.normal((784, 10)))
        self.inputs = tf.random.normal((32, 784))
        self.targets = tf.random.normal((32, 10))
        self.optimizer = tf.keras.optimizers.Adam(learning_rate=0.01)

    def descend(self, tape, loss):
        gradients = tape.gradient(loss, [self.weights])
        self.optimizer.apply_gradients(zip(gradients, [self.weights], strict=True))
        return gradients[0].numpy(), loss

    def test_preprocessing_inside_and_outside_the_tape(self):
        def prepared(x):
            return tf.clip_by_value(x / 255.0, 0, 1)

        def step(inside):
            x = self.inputs if inside else prepared(self.inputs)
            with tf.GradientTape() as tape:
                x = prepared(x) if inside else x
                predictions = tf.nn.relu(tf.matmul(x, self.weights))
                loss = tf.reduce_mean(tf.square(predictions - self.targets))
            return tape.gradient(loss, [self.weights])[0].numpy(), loss

        (outside, first), (inside, second) = step(False), step(True)
        np.testing.assert_array_equal(outside, inside)
        assert f"{first:.4f}" == f"{second:.4f}"
        before = self.weights.numpy()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(prepared(self.inputs), self.weights)))
        self.descend(tape, loss)
        moved = np.abs(self.weights.numpy() - before)
        assert 0.0 < moved.max() <= 0.0101

    def test_a_scale_that_is_a_variable_or_a_constant(self):
        scale = tf.Variable(2.0)

        def loss_with(factor):
            with tf.GradientTape() as tape:
                predictions = tf.matmul((self.inputs * factor) * factor, self.weights)
                loss = tf.reduce_mean(tf.square(predictions - self.targets))
            return tape, loss

        tape, loss = loss_with(tf.identity(scale))
        assert not any(v is scale for v in tape.watched_variables())
        constant, _ = self.descend(tape, loss)
        self.weights.assign(self.weights)
        tape, loss = loss_with(scale)
        assert [v is scale for v in tape.watched_variables()].count(True) == 1
        variable, _ = self.descend(tape, loss)
        assert constant.shape == variable.shape == (784, 10)
        assert np.isfinite(variable).all()

    def test_a_compiled_forward_pass_under_a_tape(self):
        @tf.function
        def compiled(x, weights):
            return tf.matmul(x, weights)

        def plain(x, weights):
            return tf.matmul(x, weights)

        found = []
        for forward in (compiled, plain):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(forward(self.inputs, self.weights) - self.targets))
            found.append((tape.gradient(loss, [self.weights])[0].numpy(), float(loss)))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]
        np.testing.assert_allclose(
            compiled(self.inputs, self.weights), plain(self.inputs, self.weights), rtol=1e-6
        )


def gradient_of(f):
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return slope


ELEMENTWISE = {
    "square": (lambda x: tf.math.square(x), lambda x: 2.0 * x),
    "branches": (
        lambda x: tf.where(x > 0, tf.math.square(x), tf.math.exp(x)),
        lambda x: np.where(x > 0, 2.0 * x, np.exp(x)),
    ),
    "chain": (
        lambda x: tf.math.sin(tf.math.exp(tf.math.log(tf.math.abs(x)))),
        lambda x: np.cos(np.abs(x)) * np.sign(x),
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
class TestElementwiseGradients:
    def test_compiled_and_plain(self, name):
        f, expected = ELEMENTWISE[name]
        x = tf.random.normal((300, 200))
        values = x.numpy().astype(np.float64)
        plain, compiled = gradient_of(f), tf.function(gradient_of(f))
        for slope in (plain, compiled, compiled):
            np.testing.assert_allclose(slope(x), expected(values), rtol=2e-4, atol=1e-5)

    @pytest.mark.skipif(InteractiveShell is None, reason="IPython is not installed")
    def test_timed_in_a_notebook(self, name):
        shell = InteractiveShell.instance()
        shell.user_ns.update(
            slope=tf.function(gradient_of(ELEMENTWISE[name][0])), x=tf.random.normal((50, 50))
        )
        assert shell.run_cell("%timeit -n 2 -r 1 slope(x)").success


class TestStateAndControlFlow:
    def test_a_list_that_grows_under_the_tape(self):
        x = tf.Variable(1.0)
        terms = []
        with tf.GradientTape() as tape:
            terms.append(x * x)
            z = x + tf.reduce_sum(terms)
        assert tape.gradient(z, x).numpy() == 3.0
        with tf.GradientTape() as tape:
            z = x + x * x
        assert str(tape.gradient(z, x)) == "tf.Tensor(3.0, shape=(), dtype=float32)"

    @pytest.mark.parametrize(("start", "slope"), [(2.0, 5.0), (0.5, 2.0)])
    def test_a_branch_on_a_value(self, start, slope):
        x = tf.Variable(start)
        large = tf.greater(x, 1.0)
        with tf.GradientTape() as tape:
            y = x * x if large else x + 1
            z = y + x
        assert tape.gradient(z, x).numpy() == slope

    def test_a_module_whose_call_is_compiled(self):
        class Doubling(tf.Module):
            @tf.function
            def __call__(self, x):
                return x * 2

        double = Doubling()
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            z = double(x) + x
        assert tape.gradient(z, x).numpy() == 3.0
        assert double(tf.constant(4.0)).numpy() == 8.0


class TestGradientAndBatchJacobian:
    def test_gradient_of_several_outputs_is_that_of_their_sum(self):
        x = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = tf.stack(powers(x))
        assert f"{tape.gradient(y, x)}" == "16.0"

    def test_batch_jacobian_without_a_batch_says_what_to_use(self):
        x = tf.Variable(2.0)
        with tf.GradientTape(persistent=True) as tape:
            y = tf.stack(powers(x))
        with pytest.raises(ValueError, match=r"\(2,\).*\(\).*Use jacobian"):
            tape.batch_jacobian(y, x)
        assert tape.jacobian(y, x).numpy().tolist() == [4.0, 12.0]

    def test_batch_jacobian_of_vectors(self):
        x = tf.Variable([2.0, 3.0])
        with tf.GradientTape(persistent=True) as tape:
            y = tf.stack([x[0] ** 2, x[1] ** 3])
        assert f"{tape.batch_jacobian(y, x)}" == "[ 4. 27.]"
        assert tape.jacobian(y, x).numpy().tolist() == [[4.0, 0.0], [0.0, 27.0]]


def test_session_prints_what_it_runs():
    stream = io.StringIO()
    with tf.Session() as session:
        print(session.run(tf.constant([1.0, 2.0]) * 2), file=stream)
    assert stream.getvalue() == "[2. 4.]\n"
