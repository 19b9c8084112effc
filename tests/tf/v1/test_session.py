"""TensorFlow 1: graphs, placeholders, sessions, and optimizers that make ops."""

import numpy as np
import pytest

import gradtape.tf as tf

v1 = tf.compat.v1


class TestSessionsWithoutAGraph:
    def test_nests_of_fetches(self):
        x = tf.constant([1.0, 2.0])
        with tf.Session() as sess:
            found = sess.run({"a": x * 2, "b": [tf.Variable(3), (x[0],)]})
            assert found["a"].tolist() == [2.0, 4.0]
            assert found["b"][0] == 3
            assert found["b"][1] == (1.0,)
            assert isinstance(sess.run(x[0]), np.float32)
            with pytest.raises(TypeError, match="not a tensor"):
                sess.run("text")
        with pytest.raises(RuntimeError, match="closed"):
            sess.run(x)

    def test_evaluation_of_tensors(self):
        assert tf.constant(2.0).eval() == 2.0
        assert v1.InteractiveSession().run(tf.constant(1)) == 1


class TestPlaceholders:
    def test_feeding(self):
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        y = tf.reduce_sum(x * 2.0, axis=1)
        with tf.Session() as sess:
            for rows in (1, 3):
                fed = np.ones((rows, 2))
                assert sess.run(y, feed_dict={x: fed}).tolist() == [4.0] * rows
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"must feed.*'x:0'"):
                sess.run(y)
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                sess.run(y, {x: np.ones((2, 3))})
            # Results may be fed, too.
            assert sess.run(tf.reduce_max(y), {y: [1.0, 9.0]}) == 9.0

    def test_shapes_and_dtypes_are_inferred(self):
        x = v1.placeholder(tf.float32, shape=(None, 3))
        w = tf.Variable(tf.zeros([3, 4]))
        h = tf.nn.relu(tf.matmul(x, w) + 1.0)
        assert h.shape.as_list() == [None, 4]
        assert h.get_shape()[1] == 4
        assert h.dtype == tf.float32
        assert tf.argmax(h, axis=1).dtype == tf.int64
        assert tf.transpose(h).shape.as_list() == [4, None]
        assert "shape=(None, 4)" in repr(h)
        unknown = v1.placeholder(tf.float32)
        assert unknown.shape.rank is None
        assert tf.Session().run(unknown + 1.0, {unknown: [1.0]}).tolist() == [2.0]

    def test_lists_come_apart(self):
        x = v1.placeholder(tf.float32, [None, 4])
        left, right = tf.split(x, 2, axis=1)
        values, indices = tf.math.top_k(x, k=1)
        mean, variance = tf.nn.moments(x, axes=[0])
        fed = np.float32([[4, 1, 3, 2]])
        with tf.Session() as sess:
            found = sess.run([left, right, values, indices, mean, variance], {x: fed})
        assert [f.tolist() for f in found] == [
            [[4, 1]], [[3, 2]], [[4]], [[0]], [4, 1, 3, 2], [0, 0, 0, 0],
        ]  # fmt: skip

    def test_defaults(self):
        x = v1.placeholder_with_default([1.0, 2.0], [None])
        y = x * 2.0
        sess = tf.Session()
        assert sess.run(y).tolist() == [2.0, 4.0]
        assert sess.run(y, {x: [5.0]}).tolist() == [10.0]

    def test_control_flow(self):
        x = v1.placeholder(tf.float32, [])
        y = tf.cond(x > 0.0, lambda: x * 2.0, lambda: -x)
        _, z = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + x), (0, 0.0))
        slope = tf.gradients(y * y + z, x)
        with tf.Session() as sess:
            assert sess.run([y, z], {x: 2.0}) == [4.0, 6.0]
            assert sess.run([y, z], {x: -2.0}) == [2.0, -6.0]
            assert sess.run(slope, {x: 2.0}) == [19.0]

    def test_what_python_cannot_do(self):
        x = v1.placeholder(tf.float32, [None])
        with pytest.raises(TypeError, match=r"tf\.cond"):
            bool(x > 0.0)
        with pytest.raises(TypeError, match=r"tf\.shape"):
            len(x)
        with pytest.raises(NotImplementedError, match=r"sess\.run"):
            x.numpy()
        with pytest.raises(TypeError, match=r"tf\.map_fn"):
            list(x)


class TestGraphs:
    def test_variables_are_read_when_a_session_runs(self):
        with tf.Graph().as_default():
            w = tf.Variable(2.0, name="w")
            square = w * w
            assign = w.assign(5.0)
            with tf.Session() as sess:
                sess.run(v1.global_variables_initializer())
                assert sess.run(square) == 4.0
                sess.run(assign)
                assert sess.run(square) == 25.0
                sess.run(v1.global_variables_initializer())
                assert sess.run([w, square]) == [2.0, 4.0]
            assert [v.name for v in v1.global_variables()] == ["w:0"]
        assert tf.executing_eagerly()
        assert (w * 3.0).numpy() == 6.0

    def test_random_numbers_are_drawn_in_every_run(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.random_normal([3])
            assert (sess.run(x) != sess.run(x)).any()
            twice = sess.run([x, x])
            np.testing.assert_array_equal(*twice)

    def test_assignments_come_after_reads(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            w = tf.Variable(1.0)
            step = w.assign_add(1.0)
            double = w * 2.0
            assert sess.run([step, double])[1] == 2.0
            assert sess.run(w) == 2.0
            with tf.control_dependencies([v1.assign(w, 10.0)]):
                after = tf.identity(w)
            assert sess.run(after) == 10.0
            both = tf.group(v1.assign_add(w, 1.0), v1.assign_sub(w, 3.0))
            assert sess.run(both) is None
            assert sess.run(w) == 8.0

    def test_named_variables(self):
        with tf.Graph().as_default():
            with v1.variable_scope("layer"):
                w = v1.get_variable("w", [2, 3], initializer=tf.zeros_initializer())
            with v1.variable_scope("layer", reuse=True):
                assert v1.get_variable("w") is w
            assert w.name == "layer/w:0"
            with pytest.raises(ValueError, match="already exists"), v1.variable_scope("layer"):
                v1.get_variable("w", [2, 3])
            with (
                pytest.raises(ValueError, match="does not exist"),
                v1.variable_scope("x", reuse=True),
            ):
                v1.get_variable("w", [2, 3])

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "optimizer",
        [
            v1.train.GradientDescentOptimizer(0.2),
            v1.train.MomentumOptimizer(0.05, 0.8),
            v1.train.AdamOptimizer(0.1),
            v1.train.RMSPropOptimizer(0.05),
            v1.train.AdagradOptimizer(0.5),
        ],
        ids=lambda o: o.name,
    )
    def test_training(self, optimizer):
        rng = np.random.default_rng(0)
        data = rng.normal(size=(64, 3))
        targets = data @ [[1.0], [2.0], [-1.0]] + 0.5
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 3])
            y = tf.placeholder(tf.float32, [None, 1])
            w = tf.Variable(tf.random_normal([3, 1], stddev=0.1))
            b = tf.Variable(tf.zeros([1]))
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
            count = tf.Variable(0, trainable=False)
            train = optimizer.minimize(loss, global_step=count)
            with tf.Session() as sess:
                sess.run(v1.global_variables_initializer())
                for _ in range(150):
                    _, now = sess.run([train, loss], feed_dict={x: data, y: targets})
                assert now < 0.02
                assert sess.run(count) == 150
                np.testing.assert_allclose(sess.run(w)[:, 0], [1.0, 2.0, -1.0], atol=0.15)

    def test_gradients_and_clipping(self):
        with tf.Graph().as_default():
            w = tf.Variable([3.0, 4.0])
            optimizer = v1.train.GradientDescentOptimizer(1.0)
            pairs = optimizer.compute_gradients(tf.reduce_sum(w * w) / 2.0)
            step = optimizer.apply_gradients([(tf.clip_by_norm(g, 1.0), v) for g, v in pairs])
            with tf.Session() as sess:
                sess.run(step)
                np.testing.assert_allclose(sess.run(w), [2.4, 3.2], rtol=1e-6)

    def test_layers(self):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 3])
            layer = tf.keras.layers.Dense(4, activation="relu")
            h = layer(x)
            assert h.shape.as_list() == [None, 4]
            assert layer.kernel.shape == [3, 4]
            sess = tf.Session()
            assert sess.run(h, {x: np.zeros((5, 3))}).shape == (5, 4)
            total = tf.reduce_sum(tf.function(layer)(tf.ones([1, 3])))
            sess.run(layer.kernel.assign(np.ones((3, 4))))
            assert sess.run(total) == 12.0

    def test_disable_eager_execution(self):
        v1.disable_eager_execution()
        assert not tf.executing_eagerly()
        w = tf.Variable(2.0)
        y = -w + abs(w) + w[None][0]
        with pytest.raises(NotImplementedError):
            y.numpy()
        assert tf.Session().run(y) == 2.0
        v1.enable_eager_execution()
        assert tf.executing_eagerly()
        assert (w * 2.0).numpy() == 4.0


def test_names_of_tensorflow_1():
    assert tf.log(1.0).numpy() == 0.0
    assert tf.to_float([1]).dtype == tf.float32
    assert tf.matrix_inverse([[2.0]]).numpy().tolist() == [[0.5]]
    assert v1.random_uniform([2]).shape == [2]
    assert v1.div(7, 2).numpy() == 3
    assert v1.reduce_sum([1, 2]).numpy() == 3
    assert v1.ceil(0.5).numpy() == 1.0
    v1.set_random_seed(1)
    with pytest.raises(AttributeError, match=r"tf\.compat\.v1.*Did you mean"):
        v1.placeholdr  # noqa: B018 - what is tested


class TestOldArguments:
    """What TensorFlow 1 called arguments, in `tf.compat.v1` only."""

    def test_names(self):
        v1 = tf.compat.v1
        x = [[1.0, 2.0], [3.0, 4.0]]
        assert v1.reduce_sum(x, reduction_indices=[0]).numpy().tolist() == [4.0, 6.0]
        assert v1.reduce_mean(x, axis=1, keep_dims=True).shape == [2, 1]
        assert v1.argmax(x, dimension=1).numpy().tolist() == [1, 1]
        assert v1.expand_dims([1], dim=0).shape == [1, 1]
        assert v1.squeeze([[1]], squeeze_dims=[0]).shape == [1]
        assert v1.nn.softmax([[0.0, 0.0]], dim=-1).numpy().tolist() == [[0.5, 0.5]]
        assert v1.nn.dropout([1.0, 2.0], keep_prob=1.0).numpy().tolist() == [1.0, 2.0]
        with pytest.raises(TypeError):
            tf.reduce_sum(x, keep_dims=True)

    def test_functions(self):
        v1 = tf.compat.v1
        assert v1.nn.xw_plus_b([[1.0]], [[2.0]], [3.0]).numpy().tolist() == [[5.0]]
        assert v1.floor_div(5, 3).numpy() == 1
        assert v1.tensor_scatter_update([1, 2], [[0]], [5]).numpy().tolist() == [5, 2]
        loss = v1.nn.softmax_cross_entropy_with_logits_v2(labels=[[0.0, 1.0]], logits=[[1.0, 2.0]])
        assert loss.numpy().tolist() == [pytest.approx(0.31326166)]
        assert v1.get_default_session() is None
        v1.Session(config=v1.ConfigProto(allow_soft_placement=True)).close()


def test_unconnected_placeholders_have_no_gradient():
    with tf.Graph().as_default():
        x, z = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        assert tf.gradients(x * x, [z]) == [None]


def test_rmsprop_begins_at_one():
    with tf.Graph().as_default():
        w = tf.Variable([5.0, -1.0])
        step = tf.compat.v1.train.RMSPropOptimizer(0.1).minimize(tf.reduce_sum(w * w))
        with tf.Session() as sess:
            sess.run(tf.compat.v1.global_variables_initializer())
            for _ in range(3):
                sess.run(step)
            np.testing.assert_allclose(sess.run(w), [4.2995825, -0.57452303], rtol=1e-6)
