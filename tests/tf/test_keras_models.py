"""Models: what they know of themselves, their layers, metrics and losses in all variations."""

import numpy as np
import pytest

import gradtape.tf as tf

keras = tf.keras
L = keras.layers
X = np.random.RandomState(0).uniform(-2, 2, (6, 3)).astype(np.float32)


class TestShapesAndLayers:
    def model(self):
        return keras.Sequential([keras.Input((3,)), L.Dense(4, name="first"), L.Dense(2)])

    def test_sequential(self):
        model = self.model()
        assert (model.input_shape, model.output_shape) == ((None, 3), (None, 2))
        parts = keras.Model(model.inputs, [layer.output for layer in model.layers])
        first, second = parts(X)
        np.testing.assert_allclose(first, model.layers[0](X), rtol=1e-6)
        np.testing.assert_allclose(second, model(X), rtol=1e-6)
        assert model.get_layer("first") is model.get_layer(index=0) is model.layers[0]
        with pytest.raises(ValueError, match="No such layer"):
            model.get_layer("third")
        with pytest.raises(AttributeError, match="not known"):
            _ = keras.Sequential([L.Dense(1)]).inputs
        with pytest.raises(AttributeError, match="never been called"):
            _ = L.Dense(1).output

    def test_functional(self):
        x = keras.Input((3,), name="x")
        model = keras.Model(x, L.Dense(2)(x))
        assert [type(layer).__name__ for layer in model.layers] == ["InputLayer", "Dense"]
        assert model.layers[0].name == "x"
        assert (model.input_shape, model.output_shape) == ((None, 3), (None, 2))

    def test_own_classes_of_inputs_and_outputs(self):
        class Traced(keras.Model):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.mean = keras.metrics.Mean(name="loss")

            def train_step(self, data):
                x, y = data
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
                gradients = tape.gradient(loss, self.trainable_variables)
                self.optimizer.apply(gradients, self.trainable_variables)
                self.mean.update_state(loss)
                return {"loss": self.mean.result()}

            @property
            def metrics(self):
                return [self.mean]

        x = keras.Input((3,))
        model = Traced(x, L.Dense(1)(x))
        assert isinstance(model, Traced)
        model.compile(keras.optimizers.SGD(0.05))
        found = model.fit(X, X[:, :1], epochs=5, verbose=0).history["loss"]
        assert found[-1] < found[0]
        assert len(model.trainable_variables) == 2

    def test_trainable(self):
        model = self.model()
        model.layers[0].trainable = False
        assert len(model.trainable_weights) == 2
        model.trainable = False
        assert [layer.trainable for layer in model.layers] == [False, False]
        assert model.trainable_weights == []
        model.trainable = True
        assert len(model.trainable_weights) == 4

    def test_copies(self):
        model = self.model()
        copy = keras.models.clone_model(model)
        assert copy.layers[0] is not model.layers[0]
        copy.set_weights(model.get_weights())
        np.testing.assert_array_equal(copy(X), model(X))
        x = keras.Input((3,))
        with pytest.raises(ValueError, match="not a Sequential"):
            keras.models.clone_model(keras.Model(x, L.Dense(1)(x)))

    def test_files(self):
        with pytest.raises(NotImplementedError, match="save_weights"):
            self.model().save("model.keras")
        with pytest.raises(FileNotFoundError, match="no such checkpoint"):
            self.model().load_weights("nothing.weights.h5")
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = self.model().nothing

    def test_names(self):
        assert L.Conv2D(1, 3).name.startswith("conv2d")
        assert L.MaxPooling2D().name.startswith("max_pooling2d")
        assert L.SimpleRNN(1).name.startswith("simple_rnn")
        assert keras.metrics.SparseCategoricalAccuracy().name == "sparse_categorical_accuracy"

    def test_what_is_not_covered(self):
        for options in ({"sparse": True}, {"ragged": True}, {"optional": True}):
            with pytest.raises(ValueError, match="not covered"):
                keras.Input((3,), **options)
        with pytest.raises(ValueError, match="data_format"):
            L.Conv2D(1, 3, data_format="channels_first")
        with pytest.raises(ValueError, match="groups"):
            L.Conv2D(2, 3, groups=2)
        with pytest.raises(ValueError, match="padding"):
            L.Conv2D(2, 3, padding="causal")


class TestMetrics:
    """Numbers are those of Keras 3."""

    def test_state(self):
        mean = keras.metrics.Mean(name="m")
        assert [v.name for v in mean.variables] == ["total", "count"]
        assert mean.result().numpy() == 0.0
        mean([[1.0, 2.0], [3.0, 4.0]])
        assert [v.numpy() for v in mean.variables] == [5.0, 2.0]
        assert mean([5.0, 6.0], sample_weight=[1.0, 0.0]).numpy() == pytest.approx(10 / 3)
        mean.reset_state()
        assert mean.result().numpy() == 0.0
        again = keras.metrics.deserialize(keras.metrics.serialize(mean))
        assert (again.name, again.dtype) == ("m", "float32")

    def test_inside_functions(self):
        """The state is in variables, so that updates are part of the program."""
        mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()

        @tf.function
        def step(x, y):
            mean(tf.reduce_mean(x))
            accuracy.update_state(y, x)

        for k in range(4):
            step(tf.constant(np.eye(3, dtype=np.float32) * k + 0.1), tf.constant([0, 1, k % 2]))
        assert mean.result().numpy() == pytest.approx(0.6)
        assert accuracy.result().numpy() == pytest.approx(2 / 3)

    def test_counts(self):
        t, p = [1, 0, 1, 1, 0], [0.9, 0.6, 0.1, 0.8, 0.2]
        m = keras.metrics
        counts = [m.TruePositives(), m.FalsePositives(), m.TrueNegatives(), m.FalseNegatives()]
        assert [metric(t, p).numpy() for metric in counts] == [2.0, 1.0, 1.0, 1.0]
        both = m.Precision(thresholds=[0.5, 0.7])(t, p).numpy()
        np.testing.assert_allclose(both, [2 / 3, 1.0])
        weighted = m.Recall()(t, p, sample_weight=[1, 1, 3, 1, 1]).numpy()
        assert weighted == pytest.approx(0.4)
        assert m.AUC()(t, p).numpy() == pytest.approx(0.66666667, rel=1e-3)
        column = m.Precision(class_id=1)([[0, 1], [1, 0]], [[0.2, 0.8], [0.3, 0.7]])
        assert column.numpy() == 0.5
        with pytest.raises(ValueError, match="top_k"):
            m.Precision(top_k=2)
        with pytest.raises(ValueError, match="thresholds"):
            m.Recall(thresholds=2.0)

    def test_top(self):
        scores = [[0.1, 0.5, 0.4], [0.6, 0.1, 0.3]]
        found = keras.metrics.SparseTopKCategoricalAccuracy(k=2)([2, 1], scores)
        assert found.numpy() == 0.5
        found = keras.metrics.TopKCategoricalAccuracy(2)([[0, 0, 1], [0, 1, 0]], scores)
        assert found.numpy() == 0.5


class TestLosses:
    t, p = [[1], [2], [0]], [[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]]

    def test_classes_to_ignore(self):
        every = -np.log([0.8, 0.6, 0.7])
        loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=2)
        assert loss(self.t, self.p).numpy() == pytest.approx(every[[0, 2]].mean(), rel=1e-5)
        none = keras.losses.SparseCategoricalCrossentropy(ignore_class=2, reduction="none")
        np.testing.assert_allclose(none(self.t, self.p), every * [1, 0, 1], rtol=1e-5)

    def test_weights(self):
        squares, weights = np.array([1.0, 4.0, 9.0]), np.array([1.0, 0.0, 3.0])
        t, p = np.zeros((3, 1)), np.array([[1.0], [2.0], [3.0]])
        expected = {
            "sum_over_batch_size": (squares * weights).mean(), "sum": (squares * weights).sum(),
            "mean_with_sample_weight": (squares * weights).sum() / weights.sum(),
        }  # fmt: skip
        for reduction, value in expected.items():
            loss = keras.losses.MeanSquaredError(reduction=reduction)
            assert loss(t, p, sample_weight=weights).numpy() == pytest.approx(value)
            assert loss(t, p, sample_weight=weights[:, None]).numpy() == pytest.approx(value)

    def test_dtypes(self):
        """Losses compute in float32, unless they are told otherwise, and take integers."""
        assert keras.losses.MeanSquaredError()(np.zeros(2), np.ones(2)).dtype == tf.float32
        double = keras.losses.MeanSquaredError(dtype="float64")
        assert double(np.zeros(2), np.ones(2)).dtype == tf.float64

        class Own(keras.losses.Loss):
            def call(self, y_true, y_pred):
                return tf.square(y_pred - y_true)

        assert Own()(np.array([1, 2]), np.array([1.0, 4.0], np.float32)).numpy() == 2.0
        assert Own().name == "own"
        assert keras.losses.Huber(delta=0.5).get_config()["delta"] == 0.5


def test_a_variable_is_its_own_target():
    """As in the guide on automatic differentiation, where a branch gives the variable itself."""
    x, v0, v1 = tf.constant(1.0), tf.Variable(2.0), tf.Variable([2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        result = v0 if x > 0.0 else v1**2
    assert tape.gradient(result, [v0, v1])[0].numpy() == 1.0
    assert tape.gradient(result, v1) is None
    assert tape.gradient(result, {"a": v0, "b": v1}, unconnected_gradients="zero")[
        "b"
    ].numpy().tolist() == [0.0, 0.0]
    assert tape.gradient([v0, v0], v0, output_gradients=[3.0, 4.0]).numpy() == 7.0


class TestVaryingLengths:
    """Lengths of None in the input of a Sequential: weights are made, or refused, at once."""

    def test_weights_do_not_depend_on_them(self):
        recurrent = keras.Sequential([keras.Input((None, 3)), L.LSTM(4), L.Dense(2)])
        assert [w.shape for w in recurrent.get_weights()] == [
            (3, 16), (4, 16), (16,), (4, 2), (2,)
        ]  # fmt: skip
        images = keras.Sequential(
            [keras.Input((None, None, 3)), L.Conv2D(4, 2), L.GlobalMaxPooling2D()]
        )
        assert [w.shape for w in images.get_weights()] == [(2, 2, 3, 4), (4,)]

    def test_set_weights_are_used(self):
        model = keras.Sequential([keras.Input((None, 2)), L.Dense(1)])
        model.set_weights([np.float32([[1.0], [2.0]]), np.float32([3.0])])
        assert model(np.ones((1, 2, 2), np.float32)).numpy().tolist() == [[[6.0], [6.0]]]
        assert model.predict(np.ones((1, 3, 2), np.float32), verbose=0).shape == (1, 3, 1)

    def test_weights_of_a_varying_length_are_refused(self):
        with pytest.raises(ValueError, match="no number of features"):
            keras.Sequential([keras.Input((None, 3)), L.Flatten(), L.Dense(2)])


class TestOrderOfWeights:
    """Layers farther from the outputs come first, then those that lead to the first output."""

    def test_branches_are_ordered_by_their_distance_from_the_outputs(self):
        a = keras.Input((2,))
        x = L.Dense(2)(a)
        left, right = L.Dense(3)(x), L.Dense(4)(x)
        left, right = L.Dense(5)(left), L.Dense(6)(right)
        model = keras.Model(a, [right, left])
        assert [w.shape[1] for w in model.get_weights()[::2]] == [2, 4, 3, 6, 5]

    def test_several_inputs(self):
        a, b = keras.Input((2,)), keras.Input((3,))
        p, q = L.Dense(5)(b), L.Dense(2)(a)
        last, side = L.Dense(6)(L.concatenate([q, p])), L.Dense(3)(p)
        model = keras.Model([a, b], [side, last])
        assert [w.shape for w in model.get_weights()[::2]] == [(3, 5), (2, 2), (5, 3), (7, 6)]

    def test_a_shared_layer_is_where_its_first_call_is(self):
        a = keras.Input((2,))
        shared = L.Dense(2)
        hidden = shared(a)
        skip, main = L.Dense(4)(hidden), L.Dense(3)(hidden)
        model = keras.Model(a, L.concatenate([shared(main[:, :2]), skip, main]))
        assert [w.shape[1] for w in model.get_weights()[::2]] == [2, 3, 4]


def test_weighted_metrics_beside_others_of_the_same_name():
    model = keras.Sequential([keras.Input((1,)), L.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mae", "mse"])
    x = np.ones((2, 1), np.float32)
    y, weights = np.float32([[1.0], [3.0]]), np.float32([3.0, 1.0])
    found = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    assert found == {"loss": 6.0, "mae": 2.0, "weighted_mae": 1.5, "mse": 3.0}


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        ("fit", ["batch_size", "steps_per_epoch", "validation_steps", "validation_batch_size"]),
        ("evaluate", ["batch_size", "steps"]),
        ("predict", ["batch_size", "steps"]),
    ],
)
def test_counts_are_checked(call, counts):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    for count in counts:
        for bad in (0, -3, 2.5):
            arguments = (x,) if call == "predict" else (x, y)
            with pytest.raises((TypeError, ValueError), match=f"{call}: {count}"):
                getattr(model, call)(*arguments, **{count: bad})
