"""Tapes, and derivatives without one."""

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf


class TestGradient:
    def test_structures_and_dtypes(self):
        x = {"a": tf.Variable(2.0), "b": [tf.Variable([1.0, 2.0])]}
        with tf.GradientTape() as tape:
            y = x["a"] * tf.reduce_sum(x["b"][0] ** 2)
        found = tape.gradient(y, x)
        assert type(found["a"]) is tf.Tensor
        assert found["a"].numpy() == 5.0
        assert found["b"][0].numpy().tolist() == [4.0, 8.0]
        assert found["a"].dtype == tf.float32

    def test_unconnected(self):
        x, y = tf.Variable(1.0), tf.Variable([1.0, 2.0])
        with tf.GradientTape(persistent=True) as tape:
            z = x * x
        assert tape.gradient(z, y) is None
        for zero in (tf.UnconnectedGradients.ZERO, "zero"):
            found = tape.gradient(z, y, unconnected_gradients=zero)
            assert type(found) is tf.Tensor
            assert found.numpy().tolist() == [0.0, 0.0]
        with pytest.raises(ValueError, match="Unknown value for unconnected_gradients"):
            tape.gradient(z, y, unconnected_gradients="nothing")

    def test_output_gradients(self):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = x * x
        found = tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0]))
        assert found.numpy().tolist() == [2.0, 40.0]

    def test_second_request_is_refused(self):
        x = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            y = x * x
        tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="persistent"):
            tape.gradient(y, x)

    def test_watching(self):
        v, x = tf.Variable(2.0), tf.constant(3.0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = v * x
        assert tape.watched_variables() == ()
        assert tape.gradient(y, [v, x])[0] is None
        with tf.GradientTape() as tape, tape.stop_recording():
            y = v * x
        assert tape.gradient(y, v) is None
        with (
            pytest.raises(ValueError, match="float"),
            tf.GradientTape() as tape,
        ):
            tape.watch(1.0)

    def test_higher_orders(self):
        x = tf.Variable(2.0)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = x**4
            first = inner.gradient(y, x)
        assert (first.numpy(), outer.gradient(first, x).numpy()) == (32.0, 48.0)

    def test_integers_have_no_derivative(self):
        n = tf.constant(1)
        with tf.GradientTape() as tape, pytest.warns(UserWarning, match="no derivative"):
            tape.watch(n)
        assert tape.gradient(n * 2, n) is None


class TestJacobian:
    def test_sources_and_targets_may_be_nests(self):
        x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
        with tf.GradientTape() as tape:
            targets = {"p": x * y, "s": tf.reduce_sum(x)}
        found = tape.jacobian(targets, [x, y])
        assert found["p"][0].numpy().tolist() == [[3.0, 0.0], [0.0, 3.0]]
        assert found["p"][1].numpy().tolist() == [1.0, 2.0]
        assert found["s"][1] is None
        assert type(found["p"][0]) is tf.Tensor

    def test_options_of_tensorflow(self):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = x * x
        found = tape.jacobian(y, x, parallel_iterations=4, experimental_use_pfor=False)
        assert found.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]

    def test_batch_jacobian(self):
        x = tf.Variable(np.arange(6.0).reshape(3, 2).astype(np.float32))
        with tf.GradientTape(persistent=True) as tape:
            y = tf.stack([x[:, 0] * x[:, 1], x[:, 0] ** 2], axis=1)
            mixed = x - tf.reduce_mean(x, axis=0)
        found = tape.batch_jacobian(y, x)
        assert found.shape == (3, 2, 2)
        assert found[1].numpy().tolist() == [[3.0, 2.0], [4.0, 0.0]]
        with pytest.raises(ValueError, match="mixes examples"):
            tape.batch_jacobian(mixed, x)

    def test_beyond_tensorflow(self):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape(persistent=True) as tape:
            y = tf.reduce_sum(x**3)
        assert type(tape.hessian(y, x)) is tf.Tensor
        assert tape.hessian(y, x).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert tape.hvp(y, x, [1.0, 1.0]).numpy().tolist() == [6.0, 12.0]
        assert tape.jvp(y, x, [1.0, 0.0]).numpy() == 3.0
        assert tape.jacobian(y, x, sparse=True).toarray().tolist() == [[3.0, 12.0]]
        # Not recorded by the tape: nothing depends on x.
        assert tape.jacobian(x * x, x, sparse=True) is None
        assert tape.jacobian(x * x, x, "zero", sparse=True).nnz == 0


class TestGradientsWithoutATape:
    def test_of_constants_and_variables(self):
        x, v = tf.constant(3.0), tf.Variable(2.0)
        y = x * x * v
        by_x, by_v = tf.gradients(y, [x, v])
        assert (by_x.numpy(), by_v.numpy()) == (12.0, 9.0)

    @pytest.mark.parametrize("where", ["function", "cond", "loop"])
    def test_of_variables_inside_functions_branches_and_loops(self, where):
        v = tf.Variable(3.0)

        def slope(a):
            return tf.gradients(v * v.read_value() * a, v)[0]

        ways = {
            "function": tf.function(lambda a: slope(a)),
            "cond": tf.function(lambda a: tf.cond(a > 0, lambda: slope(a), lambda: a)),
            "loop": lambda a: tf.map_fn(slope, tf.reshape(a, [1]))[0],
        }
        for _ in range(3):
            assert ways[where](tf.constant(2.0)).numpy() == 12.0
        v.assign(4.0)
        assert ways[where](tf.constant(2.0)).numpy() == 16.0

    def test_second_derivatives(self):
        x = tf.constant([1.0, 2.0])
        y = tf.reduce_sum(x**4)
        (first,) = tf.gradients(y, x)
        (second,) = tf.gradients(first, x)
        (matrix,) = tf.hessians(y, x)
        assert first.numpy().tolist() == [4.0, 32.0]
        assert second.numpy().tolist() == [12.0, 48.0]
        assert matrix.numpy().tolist() == [[12.0, 0.0], [0.0, 48.0]]

    def test_hessians_of_several_targets_and_sources(self):
        x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
        targets = [tf.reduce_sum(x**2) * y, tf.reduce_sum(x**3)]
        by_x, by_y = tf.hessians(targets, [x, y])
        assert by_x.numpy().tolist() == [[12.0, 0.0], [0.0, 18.0]]
        assert by_y.numpy() == 0.0

    def test_options(self):
        x = tf.constant([1.0, 2.0])
        middle = x * 2.0
        y = middle * x
        weights = tf.constant([1.0, 10.0])
        assert tf.gradients(y, x, grad_ys=weights)[0].numpy().tolist() == [4.0, 80.0]
        x = tf.constant([1.0, 2.0])
        middle = x * 2.0
        stopped = tf.gradients(middle * x, x, stop_gradients=[middle])
        assert stopped[0].numpy().tolist() == [2.0, 4.0]
        other = tf.constant(1.0)
        assert tf.gradients(x * 2.0, other) == [None]
        zero = tf.gradients(x * 2.0, other, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        assert zero[0].numpy() == 0.0

    def test_what_was_computed_has_no_history(self):
        x = tf.constant(2.0)
        y = x * x
        assert y.numpy() == 4.0
        with pytest.raises(RuntimeError, match="GradientTape"):
            tf.gradients(y, x)

    def test_inside_a_tape_and_a_function(self):
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            (slope,) = tf.gradients(x**3, x)
        assert tape.gradient(slope, x).numpy() == 12.0

        @tf.function
        def slopes(x):
            return tf.gradients(x**2, x), tf.hessians(x**3, x)

        for _ in range(2):
            first, second = slopes(tf.constant(2.0))
            assert (first[0].numpy(), second[0].numpy()) == (4.0, 12.0)


class TestIndexedSlices:
    def look_up(self, **more):
        table = tf.Variable(np.arange(8.0).reshape(4, 2).astype(np.float32))
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [3, 1, 3], **more) ** 2)
        return table, tape.gradient(y, table)

    def test_rows(self):
        table, found = self.look_up()
        assert isinstance(found, tf.IndexedSlices)
        assert found.indices.numpy().tolist() == [3, 1, 3]
        assert found.values.numpy().tolist() == [[12.0, 14.0], [4.0, 6.0], [12.0, 14.0]]
        assert found.dense_shape.numpy().tolist() == [4, 2]
        assert found.shape == table.shape
        assert found.dtype == tf.float32
        dense = [[0.0, 0.0], [4.0, 6.0], [0.0, 0.0], [24.0, 28.0]]
        for converted in (tf.convert_to_tensor(found), found + 0.0, tf.identity(found)):
            assert type(converted) is tf.Tensor
            assert converted.numpy().tolist() == dense
        assert str(found).startswith("IndexedSlices(indices=tf.Tensor([3 1 3]")

    def test_other_axes_are_dense(self):
        table = tf.Variable(np.ones((2, 4), np.float32))
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [3, 1], axis=1))
        assert type(tape.gradient(y, table)) is tf.Tensor

    def test_embedding_look_up(self):
        table = tf.Variable([[1.0], [2.0]])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.nn.embedding_lookup(table, [[1, 1]]))
        found = tape.gradient(y, table)
        assert tf.convert_to_tensor(found).numpy().tolist() == [[0.0], [2.0]]

    def test_optimizers_and_clipping(self):
        table, found = self.look_up()
        before = table.numpy()
        (clipped,), norm = tf.clip_by_global_norm([found], 1.0)
        assert isinstance(clipped, tf.IndexedSlices)
        assert norm.numpy() > 1.0
        tf.keras.optimizers.SGD(0.5).apply_gradients([(found, table)])
        expected = before - 0.5 * tf.convert_to_tensor(found).numpy()
        np.testing.assert_allclose(table.numpy(), expected, rtol=1e-6)
        table.assign_sub(found)
        np.testing.assert_allclose(
            table.numpy(), expected - tf.convert_to_tensor(found).numpy(), rtol=1e-6
        )

    def test_from_a_function(self):
        table = tf.Variable([[1.0], [2.0], [3.0]])

        @tf.function
        def slope(ids):
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(tf.gather(table, ids) ** 2)
            return tape.gradient(y, table)

        for ids in ([0, 1], [2, 2], [1, 0]):
            found = slope(tf.constant(ids))
            assert isinstance(found, tf.IndexedSlices)
            assert found.indices.numpy().tolist() == ids

    def test_making(self):
        made = tf.IndexedSlices(values=[[1.0, 2.0]], indices=[0], dense_shape=[3, 2])
        assert tf.convert_to_tensor(made).numpy()[0].tolist() == [1.0, 2.0]

    def test_rows_of_an_unknown_whole(self):
        rows = tf.IndexedSlices([[1.0, 2.0]], [1])
        assert rows.dense_shape is None
        assert rows.shape.as_list() == [None, 2]
        assert tf.is_tensor(rows)
        assert rows.dtype == tf.float32
        with pytest.raises(ValueError, match="dense_shape"):
            tf.convert_to_tensor(rows)
        v = tf.Variable(tf.ones([3, 2]))
        tf.keras.optimizers.SGD(1.0).apply_gradients([(rows, v)])
        assert v.numpy().tolist() == [[1.0, 1.0], [0.0, -1.0], [1.0, 1.0]]
        v.assign_add(rows)
        assert v.numpy().tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]


def test_forward_accumulator():
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
        y = {"s": tf.reduce_sum(x * x), "c": tf.constant(1.0)}
    found = acc.jvp(y)
    assert type(found["s"]) is tf.Tensor
    assert found["s"].numpy() == 2.0
    assert found["c"] is None
    zero = acc.jvp(y["c"], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zero.numpy() == 0.0


def test_forward_over_reverse():
    x = tf.Variable([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 1.0])) as acc:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x**3)
        slope = tape.gradient(y, x)
    assert acc.jvp(slope).numpy().tolist() == [6.0, 12.0]


def test_a_gradtape_tape_sees_tensors_of_this_face():
    x = tf.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]
