"""Layers as Keras has them: building, losses, configurations, models of inputs and outputs."""

import numpy as np
import pytest

import gradtape.tf as tf

L = tf.keras.layers


class Scale(L.Layer):
    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return x * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class TestBuilding:
    def test_a_built_layer_keeps_its_weights(self):
        layer = L.Dense(2)
        layer.build((None, 3))
        assert layer.built
        layer.set_weights([np.ones((3, 2)), np.zeros(2)])
        assert layer(tf.ones([1, 3])).numpy().tolist() == [[3.0, 3.0]]

    def test_own_build(self):
        class Own(L.Layer):
            def build(self, input_shape):
                self.shape_seen = tuple(input_shape)
                self.w = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="w")

            def call(self, x):
                return x * self.w

        layer = Own()
        layer.build((None, 3))
        weight = layer.w
        layer(tf.ones([2, 3]))
        assert layer.w is weight
        assert weight.name == "w"

    def test_several_inputs(self):
        class Sum(L.Layer):
            def build(self, input_shape):
                self.shapes = [s.as_list() for s in input_shape]

            def call(self, inputs):
                return inputs[0] + inputs[1]

        layer = Sum()
        assert layer([tf.ones([2]), tf.ones([2])]).numpy().tolist() == [2.0, 2.0]
        assert layer.shapes == [[2], [2]]

    def test_named_inputs(self):
        class Named(L.Layer):
            def call(self, inputs):
                return {"z": inputs["x"] + inputs["y"]}

        found = Named()({"x": tf.ones([2]), "y": tf.ones([2])})
        assert found["z"].numpy().tolist() == [2.0, 2.0]

    def test_forgotten_beginning(self):
        class Forgetful(L.Layer):
            def __init__(self):
                pass

            def call(self, x):
                return x

        with pytest.raises(RuntimeError, match="super"):
            Forgetful()(tf.ones([2]))

    def test_integers_become_floats(self):
        layer = L.Dense(2, kernel_initializer="ones")
        found = layer(tf.ones([3, 4], tf.int32))
        assert found.dtype == tf.float32
        assert found.numpy()[0].tolist() == [4.0, 4.0]


class TestLosses:
    def test_penalties(self):
        layer = L.Dense(2, kernel_regularizer="l2", kernel_initializer="ones")
        layer(tf.ones([3, 4]))
        assert float(sum(layer.losses)) == pytest.approx(0.08)
        layer = L.Dense(
            2, kernel_regularizer=tf.keras.regularizers.L1(0.5), kernel_initializer="ones"
        )
        layer(tf.ones([3, 4]))
        assert [float(loss) for loss in layer.losses] == [4.0]

    def test_they_are_differentiable(self):
        layer = L.Dense(1, kernel_regularizer=tf.keras.regularizers.L2(0.5), use_bias=False,
                        kernel_initializer="ones")  # fmt: skip
        layer.build((None, 2))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.zeros([1, 2]))) + sum(layer.losses)
        assert tape.gradient(loss, layer.kernel).numpy().tolist() == [[1.0], [1.0]]

    def test_added_in_a_call(self):
        class Counting(L.Layer):
            def __init__(self):
                super().__init__()
                self.inner = L.Dense(1, kernel_initializer="ones", activity_regularizer="l1")

            def call(self, x):
                self.add_loss(tf.reduce_sum(x))
                return self.inner(x)

        layer = Counting()
        for _ in range(2):
            layer(tf.ones([2, 3]))
            found = sorted(float(loss) for loss in layer.losses)
            # The penalty is over the two examples.
            assert found == [pytest.approx(0.03), 6.0]

    def test_fit_counts_them(self):
        model = tf.keras.Sequential(
            [L.Dense(1, kernel_initializer="ones", kernel_regularizer="l2", use_bias=False)]
        )
        model.compile("sgd", "mse")
        history = model.fit(np.ones((4, 2)), np.full((4, 1), 2.0), verbose=0).history
        assert history["loss"] == [pytest.approx(0.02)]


class TestConfigurations:
    def test_there_and_back(self):
        layer = Scale(3.0, name="triple")
        again = Scale.from_config(layer.get_config())
        assert (again.factor, again.name) == (3.0, "triple")

    def test_dense(self):
        config = L.Dense(3, activation="tanh", use_bias=False).get_config()
        assert (config["units"], config["activation"], config["use_bias"]) == (3, "tanh", False)
        assert L.Dense.from_config(config).units == 3


class TestMerging:
    @pytest.mark.parametrize(
        ("kind", "expected"),
        [(L.Add, 5.0), (L.Subtract, -1.0), (L.Multiply, 6.0), (L.Maximum, 3.0), (L.Minimum, 2.0),
         (L.Average, 2.5)],
    )  # fmt: skip
    def test_of_two(self, kind, expected):
        assert kind()([tf.constant([2.0]), tf.constant([3.0])]).numpy().tolist() == [expected]
        with pytest.raises(ValueError, match="at least 2"):
            kind()([tf.constant([2.0])])

    def test_shapes(self):
        x = tf.ones([2, 3, 4])
        assert L.Concatenate(axis=1)([x, x]).shape == [2, 6, 4]
        assert L.Permute((2, 1))(x).shape == [2, 4, 3]
        assert L.RepeatVector(5)(tf.ones([2, 3])).shape == [2, 5, 3]
        assert L.ZeroPadding2D(((1, 2), (3, 4)))(tf.ones([1, 2, 2, 1])).shape == [1, 5, 9, 1]

    def test_noise_in_training_only(self):
        x = tf.zeros([100])
        layer = L.GaussianNoise(1.0)
        assert float(tf.math.reduce_std(layer(x))) == 0.0
        assert 0.7 < float(tf.math.reduce_std(layer(x, training=True))) < 1.3


class TestFunctional:
    def model(self):
        a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
        hidden = L.Dense(3, kernel_initializer="ones", activation="relu")(L.Add()([a, b]))
        outputs = {"y": L.Dense(1, kernel_initializer="ones")(hidden), "h": hidden * 2.0}
        return tf.keras.Model([a, b], outputs), hidden

    def test_values(self):
        model, hidden = self.model()
        assert hidden.shape.as_list() == [None, 3]
        found = model([tf.ones([4, 2]), 2.0 * tf.ones([4, 2])])
        assert found["y"].numpy()[0].tolist() == [18.0]
        assert found["h"].shape == [4, 3]
        assert len(model.layers) == 5
        assert [w.shape.as_list() for w in model.weights] == [[2, 3], [3], [3, 1], [1]]

    def test_gradients(self):
        model, _ = self.model()
        with tf.GradientTape() as tape:
            y = model([tf.ones([1, 2]), tf.ones([1, 2])])["y"]
        found = tape.gradient(y, model.trainable_variables)
        assert found[0].numpy().tolist() == [[2.0] * 3] * 2
        assert found[3].numpy().tolist() == [1.0]

    def test_training_reaches_the_layers(self):
        x = tf.keras.Input((1000,))
        model = tf.keras.Model(x, L.Dropout(0.5)(x))
        given = tf.ones([1, 1000])
        assert float(tf.reduce_sum(model(given))) == 1000.0
        dropped = model(given, training=True).numpy()
        assert 300 < (dropped == 0).sum() < 700

    def test_fit(self):
        x = tf.keras.Input((1,))
        model = tf.keras.Model(x, L.Dense(1)(x))
        model.compile(tf.keras.optimizers.Adam(0.1), "mse")
        data = np.linspace(-1, 1, 32, dtype="float32")[:, None]
        model.fit(data, 3.0 * data + 1.0, epochs=100, verbose=0)
        np.testing.assert_allclose(model.predict(data), 3.0 * data + 1.0, atol=0.05)

    def test_missing_inputs(self):
        a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
        with pytest.raises(ValueError, match="not among the inputs"):
            tf.keras.Model(a, a + b)

    def test_an_input_of_a_sequential_leaves_no_graph(self):
        from gradtape.tf.base.dispatch import graphs

        model = tf.keras.Sequential([tf.keras.Input((3,)), L.Dense(2)])
        assert len(model.weights) == 2
        assert not graphs.in_use


class TestByName:
    def test_regularizers(self):
        x = tf.constant([1.0, 2.0])
        regularizers = tf.keras.regularizers
        found = [regularizers.L2(0.1), regularizers.l1(0.1), regularizers.L1L2(0.1, 0.2),
                 regularizers.get("l2")]  # fmt: skip
        np.testing.assert_allclose([float(f(x)) for f in found], [0.5, 0.3, 1.3, 0.05], rtol=1e-6)

    def test_constraints(self):
        w = tf.constant([[3.0], [4.0]])
        constraints = tf.keras.constraints
        for constraint in (constraints.MaxNorm(1.0), constraints.UnitNorm()):
            np.testing.assert_allclose(constraint(w), [[0.6], [0.8]], rtol=1e-6)
        assert constraints.get("non_neg")(tf.constant([-1.0, 2.0])).numpy().tolist() == [0.0, 2.0]
        np.testing.assert_allclose(constraints.MinMaxNorm(10.0, 20.0)(w), [[6.0], [8.0]], rtol=1e-6)

    def test_activations(self):
        a = tf.keras.activations
        assert a.relu([-1.0, 2.0, 8.0], max_value=6.0).numpy().tolist() == [0.0, 2.0, 6.0]
        sloped = a.relu([-1.0, 2.0, 8.0], negative_slope=0.1, threshold=1.0)
        np.testing.assert_allclose(sloped, [-0.2, 2.0, 8.0], rtol=1e-6)
        np.testing.assert_allclose(a.celu([-1.0, 2.0]), [-0.632121, 2.0], rtol=1e-5)
        np.testing.assert_allclose(a.squareplus([-1.0, 1.0]), [0.618034, 1.618034], rtol=1e-5)
        np.testing.assert_allclose(a.hard_silu([-4.0, 1.0, 4.0]), [0.0, 2 / 3, 4.0], rtol=1e-6)
        assert a.get("hard_tanh")([-4.0, 0.5]).numpy().tolist() == [-1.0, 0.5]

    def test_losses(self):
        k = tf.keras.losses
        y, p = [[1.0, 2.0]], [[3.0, 4.0]]
        assert float(k.MeanAbsolutePercentageError()(y, p)) == 150.0
        assert float(k.MeanSquaredLogarithmicError()(y, p)) == pytest.approx(0.370698, rel=1e-5)
        assert float(k.SquaredHinge()([[0.0, 1.0]], [[0.5, 3.0]])) == 1.125
        assert float(k.CategoricalHinge()([[0.0, 1.0]], [[0.5, 3.0]])) == 0.0
        assert k.MeanSquaredError("sum").reduction == "sum"
        assert k.MeanSquaredError().name == "mean_squared_error"

    def test_metrics(self):
        m = tf.keras.metrics
        assert float(m.Precision()([1, 0, 1], [0.9, 0.6, 0.1])) == 0.5
        assert float(m.Recall()([1, 0, 1], [0.9, 0.6, 0.1])) == 0.5
        assert float(m.RootMeanSquaredError()([1.0, 0.0], [0.9, 0.6])) == pytest.approx(0.430116)
        assert float(m.FalsePositives()([1, 0, 1], [0.9, 0.6, 0.1])) == 1.0
        assert m.SparseCategoricalAccuracy().name == "sparse_categorical_accuracy"

    def test_utils(self):
        assert tf.keras.utils.to_categorical([0, 2], 3).tolist() == [[1, 0, 0], [0, 0, 1]]
        tf.keras.utils.set_random_seed(3)
        first = tf.random.normal([2]).numpy()
        tf.keras.utils.set_random_seed(3)
        np.testing.assert_array_equal(tf.random.normal([2]), first)


def test_an_orthogonal_penalty_of_a_row_of_zeros():
    x = tf.Variable([[0.0, 0.0], [3.0, 4.0], [4.0, 3.0]])
    with tf.GradientTape() as tape:
        penalty = tf.keras.regularizers.OrthogonalRegularizer(1.0)(x)
    # Of three pairs one has the cosine 24 / 25; the row of zeros has no direction.
    np.testing.assert_allclose(penalty.numpy(), 0.96 / 3, rtol=1e-6)
    assert np.isfinite(tape.gradient(penalty, x).numpy()).all()
