"""Keras' optimizers, layers, losses, metrics and models, and training loops."""

import numpy as np
import pytest

import gradtape.tf as tf
from gradtape.trace.recording import state

keras = tf.keras


def adam_steps(start, slopes, rate=0.01, b1=0.9, b2=0.999, eps=1e-7):
    """Adam as Kingma and Ba wrote it, in float64."""
    w, m, v = np.array(start, float), 0.0, 0.0
    for step, g in enumerate(slopes, start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w = w - rate * np.sqrt(1 - b2**step) / (1 - b1**step) * m / (np.sqrt(v) + eps)
    return w


class TestOptimizers:
    def test_adam(self):
        slopes = [np.array([0.5, -1.0]), np.array([0.1, 2.0]), np.array([-0.3, 0.0])]
        w = tf.Variable([1.0, 2.0], dtype=tf.float64)
        optimizer = keras.optimizers.Adam(learning_rate=0.01)
        for g in slopes:
            optimizer.apply_gradients([(tf.constant(g), w)])
        np.testing.assert_allclose(w.numpy(), adam_steps([1.0, 2.0], slopes), rtol=1e-8)
        # The learning rate is float32 whatever the variables are, as in Keras.
        assert optimizer.learning_rate.dtype == tf.float32
        assert int(optimizer.iterations) == 3

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "optimizer",
        [
            keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
            keras.optimizers.Adam(0.1), keras.optimizers.AdamW(0.1), keras.optimizers.RMSprop(0.02),
            keras.optimizers.Adagrad(0.5),
        ],
        ids=lambda o: repr(o)[:12],
    )  # fmt: skip
    def test_minimize(self, optimizer):
        w = tf.Variable([1.0, -2.0])
        for _ in range(200):
            loss = optimizer.minimize(lambda: tf.reduce_sum(w * w), [w])
        assert isinstance(loss, tf.Tensor)
        assert loss.numpy() < 0.05
        assert w.dtype == tf.float32

    def test_learning_rates(self):
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.learning_rate = 0.5
        assert float(optimizer.learning_rate) == 0.5
        optimizer.lr = 0.25
        assert float(optimizer.learning_rate) == 0.25
        schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
        optimizer, w = keras.optimizers.SGD(schedule), tf.Variable(0.0)
        for _ in range(3):
            optimizer.apply_gradients([(tf.constant(-1.0), w)])
        assert w.numpy() == 1.75

    def test_by_name_and_from_configuration(self):
        assert type(keras.optimizers.get("sgd")) is keras.optimizers.SGD
        described = keras.optimizers.serialize(keras.optimizers.SGD(0.5, momentum=0.9))
        assert keras.optimizers.deserialize(described).momentum == 0.9
        with pytest.raises(ValueError, match="unknown"):
            keras.optimizers.get("nothing")

    def test_gradients_that_are_missing(self):
        w, u = tf.Variable(1.0), tf.Variable(1.0, name="unused")
        optimizer = keras.optimizers.SGD(0.1)
        with pytest.warns(UserWarning, match="unused"):
            optimizer.apply_gradients([(tf.constant(1.0), w), (None, u)])
        with pytest.raises(ValueError, match="no gradient"):
            optimizer.apply_gradients([(None, u)])

    def test_constraints_and_clipping(self):
        w = tf.Variable([1.0, 1.0], constraint=lambda v: tf.clip_by_value(v, 0.0, 0.5))
        keras.optimizers.SGD(0.1, clipvalue=1.0).apply([tf.constant([100.0, -100.0])], [w])
        assert w.numpy().tolist() == [0.5, 0.5]

    def test_a_training_step_is_found_again(self):
        w = tf.Variable(np.ones((3, 2), np.float32))
        x = tf.constant(np.ones((4, 3), np.float32))
        optimizer = keras.optimizers.Adam(0.01)

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])

        import gradtape as gt

        for _ in range(4):
            step()
        before = gt.counters()
        for _ in range(4):
            step()
        w.numpy()
        after = gt.counters()
        assert after.plans_built == before.plans_built
        assert state.recording is not None


class TestLayers:
    def test_dense(self):
        layer = keras.layers.Dense(2, activation="relu", kernel_initializer="ones", name="d")
        assert not layer.built
        assert layer([[1.0, -3.0], [1.0, 2.0]]).numpy().tolist() == [[0.0, 0.0], [3.0, 3.0]]
        assert [w.name for w in layer.weights] == ["kernel", "bias"]
        assert layer.kernel.dtype == tf.float32
        assert layer.count_params() == 6
        assert layer(tf.ones([5, 4, 2])).shape == [5, 4, 2]
        layer.set_weights([np.zeros((2, 2)), [1.0, 2.0]])
        assert layer(tf.ones([1, 2])).numpy().tolist() == [[1.0, 2.0]]
        assert [w.shape for w in layer.get_weights()] == [(2, 2), (2,)]
        with pytest.raises(ValueError, match="features"):
            layer(tf.ones([1, 3]))
        with pytest.raises(ValueError, match="units"):
            keras.layers.Dense(0)

    def test_own_layers(self):
        class Scaled(keras.layers.Layer):
            def __init__(self, units):
                super().__init__()
                self.dense = keras.layers.Dense(units)

            def build(self, input_shape):
                self.factor = self.add_weight(
                    name="factor", shape=(1,), initializer="ones", trainable=True
                )
                self.count = self.add_weight(
                    "count", shape=(), initializer="zeros", trainable=False
                )

            def call(self, inputs, training=False):
                y = self.dense(inputs) * self.factor
                return y * 2.0 if training else y

        layer = Scaled(3)
        x = tf.ones([2, 4])
        np.testing.assert_allclose(layer(x, training=True), 2.0 * layer(x).numpy(), rtol=1e-6)
        assert len(layer.weights) == 4
        assert len(layer.trainable_variables) == 3
        assert len(layer.non_trainable_weights) == 1
        layer.dense.trainable = False
        assert [v.name for v in layer.trainable_variables] == ["factor"]
        assert "scaled" in layer.name

    def test_inputs_are_cast(self):
        layer = keras.layers.Dense(1)
        assert layer(np.ones((2, 3))).dtype == tf.float32
        assert keras.layers.Dense(1, dtype="float64")(np.ones((2, 3))).dtype == tf.float64

    def test_others(self):
        x = tf.constant([[1.0, 2.0, 3.0], [2.0, 4.0, 9.0]])
        assert keras.layers.Flatten()(tf.ones([2, 3, 4])).shape == [2, 12]
        assert keras.layers.Reshape((3, 1))(x).shape == [2, 3, 1]
        assert keras.layers.Activation("tanh")(x).shape == [2, 3]
        assert keras.layers.Lambda(lambda x: x + 1)(x).numpy()[0, 0] == 2.0
        np.testing.assert_allclose(keras.layers.Softmax()(x).numpy().sum(-1), 1.0, rtol=1e-6)
        normal = keras.layers.LayerNormalization(epsilon=1e-6)(x).numpy()
        np.testing.assert_allclose(normal.mean(-1), 0.0, atol=1e-6)
        np.testing.assert_allclose(normal.std(-1), 1.0, rtol=1e-4)
        table = keras.layers.Embedding(5, 2)
        assert table(tf.constant([[0, 4]])).shape == [1, 2, 2]
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(table(tf.constant([1, 1])))
        assert isinstance(tape.gradient(y, table.embeddings), tf.IndexedSlices)

    def test_dropout_only_while_training(self):
        layer = keras.layers.Dropout(0.5)
        x = tf.ones([100])
        assert (layer(x).numpy() == 1.0).all()
        assert set(layer(x, training=True).numpy().tolist()) == {0.0, 2.0}
        model = keras.Sequential([keras.layers.Dropout(0.5)])
        assert (model(x).numpy() == 1.0).all()
        assert (model(x, training=True).numpy() != 1.0).all()

    def test_batch_normalization(self):
        layer = keras.layers.BatchNormalization(momentum=0.5, epsilon=0.0)
        x = np.float32([[1.0, 10.0], [3.0, 30.0]])
        np.testing.assert_allclose(layer(x, training=True), [[-1, -1], [1, 1]], rtol=1e-5)
        np.testing.assert_allclose(layer.moving_mean.numpy(), [1.0, 10.0])
        np.testing.assert_allclose(layer.moving_variance.numpy(), [1.0, 50.5])
        expected = (x - [1.0, 10.0]) / np.sqrt([1.0, 50.5])
        np.testing.assert_allclose(layer(x), expected, rtol=1e-5)
        assert len(layer.trainable_variables) == 2

    def test_convolutions(self):
        x = tf.ones([2, 6, 6, 3])
        assert keras.layers.Conv2D(4, 3, strides=2, padding="same")(x).shape == [2, 3, 3, 4]
        assert keras.layers.MaxPooling2D()(x).shape == [2, 3, 3, 3]
        assert keras.layers.AveragePooling2D(3)(x).shape == [2, 2, 2, 3]
        assert keras.layers.GlobalAveragePooling2D()(x).numpy().tolist() == [[1.0] * 3] * 2
        assert keras.layers.Conv1D(4, 3)(tf.ones([2, 6, 3])).shape == [2, 4, 4]


class TestLosses:
    y, p = [[0.0, 1.0], [1.0, 0.0]], [[0.2, 0.8], [0.6, 0.4]]

    def test_functions_and_classes(self):
        squares = np.array([0.04, 0.16])
        each = keras.losses.mean_squared_error(self.y, self.p)
        np.testing.assert_allclose(each, squares, rtol=1e-5)
        assert keras.losses.MSE is keras.losses.mse is keras.losses.mean_squared_error
        assert keras.losses.MeanSquaredError()(self.y, self.p).numpy() == pytest.approx(0.1)
        sums = keras.losses.MeanSquaredError(reduction="sum")
        assert sums(self.y, self.p).numpy() == pytest.approx(0.2)
        none = keras.losses.MeanSquaredError(reduction=keras.losses.Reduction.NONE)
        np.testing.assert_allclose(none(self.y, self.p), squares, rtol=1e-5)
        weighted = keras.losses.MeanSquaredError()(self.y, self.p, sample_weight=[1.0, 0.0])
        assert weighted.numpy() == pytest.approx(0.02)

    def test_cross_entropies(self):
        expected = -np.log([0.8, 0.6])
        np.testing.assert_allclose(
            keras.losses.categorical_crossentropy(self.y, self.p), expected, rtol=1e-5
        )
        sparse = keras.losses.SparseCategoricalCrossentropy()
        assert sparse([1, 0], self.p).numpy() == pytest.approx(expected.mean(), rel=1e-5)
        logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        assert logits([1, 0], np.log(self.p)).numpy() == pytest.approx(expected.mean(), rel=1e-5)
        binary = keras.losses.BinaryCrossentropy()([[1.0], [0.0]], [[0.8], [0.4]])
        assert binary.numpy() == pytest.approx(expected.mean(), rel=1e-5)
        column = keras.losses.BinaryCrossentropy(from_logits=True)([1.0, 0.0], [[0.0], [0.0]])
        assert column.numpy() == pytest.approx(np.log(2.0), rel=1e-5)

    def test_own_and_by_name(self):
        class Half(keras.losses.Loss):
            def call(self, y_true, y_pred):
                return 0.5 * tf.reduce_sum(tf.abs(y_pred - y_true), axis=-1)

        assert Half()([[0.0, 0.0]], [[1.0, 3.0]]).numpy() == 2.0
        assert isinstance(keras.losses.get("mae"), keras.losses.MeanAbsoluteError)
        with pytest.raises(ValueError, match="unknown"):
            keras.losses.get("nothing")
        with pytest.raises(ValueError, match="reduction"):
            keras.losses.Huber(reduction="nothing")


class TestModels:
    def data(self):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(256, 2)).astype(np.float32)
        return x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)

    def network(self):
        return keras.Sequential([keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(2)])

    def test_fit_evaluate_and_predict(self, capsys):
        tf.random.set_seed(0)
        x, y = self.data()
        model = self.network()
        model.compile(
            optimizer=keras.optimizers.Adam(0.05),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        history = model.fit(x, y, epochs=15, batch_size=64, verbose=0, validation_split=0.25)
        losses = history.history["loss"]
        assert losses[-1] < 0.6 * losses[0]
        assert history.history["accuracy"][-1] > 0.85
        assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
        loss, accuracy = model.evaluate(x, y, verbose=0)
        assert accuracy > 0.85
        assert loss < 0.5
        predicted = model.predict(x)
        assert predicted.shape == (256, 2)
        assert (predicted.argmax(1) == y).mean() == pytest.approx(accuracy)
        model.fit(x[:32], y[:32], epochs=1)
        assert capsys.readouterr().out.startswith("Epoch 1/1 - loss: ")
        model.summary()
        assert "82 parameters" in capsys.readouterr().out

    def test_custom_loop(self):
        tf.random.set_seed(0)
        x, y = self.data()
        model, optimizer = self.network(), keras.optimizers.Adam(0.05)
        loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def step(inputs, targets):
            with tf.GradientTape() as tape:
                loss = loss_function(targets, model(inputs, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        model(x[:1])
        found = [float(step(tf.constant(x), tf.constant(y))) for _ in range(60)]
        assert found[-1] < 0.4 * found[0]

    def test_subclass(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.first, self.second = keras.layers.Dense(4), keras.layers.Dense(1)

            def call(self, x, training=False):
                return self.second(tf.nn.relu(self.first(x)))

        net = Net()
        assert net(tf.ones([3, 2])).shape == [3, 1]
        assert len(net.trainable_weights) == 4
        assert [layer.name for layer in net.layers] == [net.first.name, net.second.name]
        with pytest.raises(RuntimeError, match="compile"):
            net.fit(np.ones((2, 2)), np.ones((2, 1)))

    def test_sequential(self):
        model = keras.Sequential([keras.layers.Input(shape=(3,)), keras.layers.Dense(2)])
        assert model.built
        assert len(model.weights) == 2
        assert len(model.layers) == 1
        model.add(keras.layers.Dense(1))
        assert len(model.weights) == 4
        model.pop()
        assert len(model.layers) == 1
        with pytest.raises(TypeError, match="not a layer"):
            model.add(3)


class TestMetricsAndInitializers:
    def test_metrics(self):
        mean = keras.metrics.Mean()
        mean.update_state([1.0, 3.0])
        mean.update_state(8.0)
        assert mean.result().numpy() == 4.0
        mean.reset_state()
        assert mean([2.0], sample_weight=[3.0]).numpy() == 2.0
        assert keras.metrics.Sum()([1.0, 2.0]).numpy() == 3.0
        assert keras.metrics.MeanSquaredError()([[1.0]], [[3.0]]).numpy() == 4.0
        assert keras.metrics.BinaryAccuracy()([1, 0], [0.7, 0.6]).numpy() == 0.5
        assert keras.metrics.get("mae").name == "mean_absolute_error"

    @pytest.mark.parametrize(
        "name",
        ["zeros", "ones", "glorot_uniform", "glorot_normal", "he_normal", "he_uniform",
         "lecun_normal", "random_normal", "random_uniform", "truncated_normal", "orthogonal",
         "identity", "variance_scaling"],
    )  # fmt: skip
    def test_initializers(self, name):
        made = keras.initializers.get(name)([4, 4])
        assert type(made) is tf.Tensor
        assert made.dtype == tf.float32
        assert made.shape == [4, 4]

    def test_bounds(self):
        limit = np.sqrt(6 / (20 + 30))
        values = keras.initializers.GlorotUniform(seed=1)((20, 30)).numpy()
        assert 0.9 * limit < abs(values).max() <= limit
        assert keras.initializers.Constant(3.0)([2], tf.int32).numpy().tolist() == [3, 3]
        assert tf.random_normal_initializer(stddev=0.1)([3]).shape == [3]
