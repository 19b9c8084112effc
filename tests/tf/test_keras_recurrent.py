"""Keras' recurrent layers, masks and wrappers, against `gt.nn` with the same weights."""

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf

L = tf.keras.layers
X = np.random.RandomState(0).uniform(-2, 2, (2, 5, 3)).astype(np.float32)
MASK = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 0, 0]], bool)
KINDS = [(L.SimpleRNN, gt.nn.RNN), (L.LSTM, gt.nn.LSTM), (L.GRU, gt.nn.GRU)]


def set_weights(layer, seed=1):
    rng = np.random.RandomState(seed)
    layer.set_weights([rng.uniform(-0.5, 0.5, w.shape) for w in layer.get_weights()])


def pair(kind, core, **options):
    """A layer of each, with the same weights."""
    mine, theirs = kind(4, **options), core(4, dtype="float32", **options)
    mine.build((None, 5, 3))
    set_weights(mine)
    theirs(X)
    for variable, value in zip(theirs.variables, mine.get_weights(), strict=True):
        variable.assign(value)
    return mine, theirs


def as_list(found):
    return [np.asarray(y) for y in (found if isinstance(found, (list, tuple)) else [found])]


@pytest.mark.parametrize(("kind", "core"), KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"return_sequences": True}, {"return_state": True, "go_backwards": True},
     {"use_bias": False}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
def test_values_and_gradients(kind, core, options, mask):
    mine, theirs = pair(kind, core, **options)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = mine(x, mask=mask)
        loss = tf.reduce_sum(tf.square(found[0] if isinstance(found, tuple) else found))
    x2 = gt.asarray(X)
    with gt.GradientTape() as tape2:
        tape2.watch(x2)
        expected = theirs(x2, mask=mask)
        loss2 = gt.sum(gt.square(expected[0] if isinstance(expected, tuple) else expected))
    for a, b in zip(as_list(found), as_list(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    gradients = tape.gradient(loss, [x, *mine.trainable_variables])
    others = tape2.gradient(loss2, [x2, *theirs.variables])
    for a, b in zip(gradients, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


class TestLayers:
    def test_weights(self):
        layer = L.LSTM(4)
        assert layer(X).shape == [2, 4]
        assert [w.name for w in layer.weights] == ["kernel", "recurrent_kernel", "bias"]
        assert layer.get_weights()[2].tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
        assert [tuple(w.shape) for w in L.GRU(4).cell.weights] == []
        gru = L.GRU(4)
        gru.build((None, 5, 3))
        assert [tuple(w.shape) for w in gru.weights] == [(3, 12), (4, 12), (2, 12)]
        assert (gru.units, gru.reset_after, gru.activation(0.0).numpy()) == (4, True, 0.0)
        again = L.LSTM.from_config(L.LSTM(4, return_sequences=True, unit_forget_bias=False).
                                   get_config())  # fmt: skip
        assert again.return_sequences
        assert not again.unit_forget_bias

    def test_states(self):
        layer = L.LSTM(4, return_state=True)
        output, h, c = layer(X[:, :3])
        assert (output.numpy() == h.numpy()).all()
        last = layer(X[:, 3:], initial_state=[h, c])[0]
        np.testing.assert_allclose(last, layer(X)[0], rtol=1e-5, atol=1e-6)
        with pytest.raises(ValueError, match="does not fit"):
            layer(X, initial_state=[h])

    def test_arguments(self):
        with pytest.raises(ValueError, match="stateful"):
            L.LSTM(4, stateful=True)
        with pytest.raises(ValueError, match="recurrent_dropout"):
            L.GRU(4, recurrent_dropout=0.5)
        with pytest.raises(TypeError):
            L.GRU(4, bogus=1)
        with pytest.raises(ValueError, match="units=0 is not a whole number of at least 1"):
            L.LSTM(0)
        with pytest.raises(ValueError, match="features"):
            L.LSTM(4)(tf.ones([2, 3]))
        layer = L.SimpleRNN(2, kernel_regularizer="l2", recurrent_constraint="non_neg")
        layer(X)
        assert len(layer.losses) == 1
        assert layer.cell.recurrent_kernel.constraint is not None

    def test_dropout(self):
        """Features fall in all steps of a sequence."""
        layer = L.SimpleRNN(3, dropout=0.5, seed=1, activation="linear", use_bias=False,
                            kernel_initializer="identity", recurrent_initializer="zeros",
                            return_sequences=True)  # fmt: skip
        x = np.ones((4, 5, 3), np.float32)
        assert (layer(x).numpy() == 1.0).all()
        found = layer(x, training=True).numpy()
        assert set(found.ravel().tolist()) == {0.0, 2.0}
        assert (found == found[:, :1]).all()

    def test_cells(self):
        for kind, states in ((L.SimpleRNNCell, 1), (L.LSTMCell, 2), (L.GRUCell, 1)):
            cell = kind(4)
            output, new = cell(X[:, 0], cell.get_initial_state(2))
            assert output.shape == [2, 4]
            assert len(new) == states
            layer = L.RNN(cell)
            expected = cell.get_initial_state(2)
            for t in range(5):
                output, expected = cell(X[:, t], expected)
            np.testing.assert_allclose(layer(X), output, rtol=1e-5, atol=1e-6)

    def test_a_cell_of_ones_own(self):
        class Leaky(L.Layer):
            state_size = 3

            def build(self, input_shape):
                self.share = self.add_weight(shape=(), initializer="ones", name="share")

            def call(self, inputs, states):
                new = inputs + 0.5 * self.share * states[0]
                return 2.0 * new, [new]

        layer = L.RNN(Leaky(), return_sequences=True, return_state=True)
        state, outputs = np.zeros((2, 3), np.float32), []
        with tf.GradientTape() as tape:
            found, last = layer(X, mask=MASK)
            loss = tf.reduce_sum(found)
        output = np.zeros((2, 3), np.float32)
        for t in range(5):
            new = X[:, t] + 0.5 * state
            counts = MASK[:, t, None]
            state = np.where(counts, new, state)
            output = np.where(counts, 2.0 * new, output)
            outputs.append(output)
        np.testing.assert_allclose(found, np.stack(outputs, 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last, state, rtol=1e-5, atol=1e-6)
        assert tape.gradient(loss, layer.trainable_variables)[0].shape == []
        with pytest.raises(ValueError, match="not a cell"):
            L.RNN(3)


class TestMasks:
    def test_they_go_along(self):
        table = L.Embedding(5, 3, mask_zero=True)
        y = table(tf.constant([[1, 2, 0], [3, 0, 0]]))
        assert y._keras_mask.numpy().tolist() == [[True, True, False], [True, False, False]]
        same = L.Dropout(0.5)(L.Dense(3)(y))
        assert (same._keras_mask.numpy() == y._keras_mask.numpy()).all()
        assert L.LSTM(2, return_sequences=True)(y)._keras_mask is not None
        assert not hasattr(L.LSTM(2)(y), "_keras_mask")
        assert not hasattr(y + 1.0, "_keras_mask")
        with pytest.warns(UserWarning, match="destroy the mask"):
            L.Flatten()(y)

    def test_padding_changes_nothing(self):
        model = tf.keras.Sequential(
            [L.Embedding(7, 4, mask_zero=True), L.LSTM(5, return_sequences=True), L.GRU(3)]
        )
        short = model(np.array([[1, 2, 3]])).numpy()
        np.testing.assert_allclose(model(np.array([[1, 2, 3, 0, 0]])), short, rtol=1e-5)
        inputs = tf.keras.Input((None,), dtype="int32")
        outputs = inputs
        for layer in model.layers:
            outputs = layer(outputs)
        functional = tf.keras.Model(inputs, outputs)
        np.testing.assert_allclose(functional(np.array([[1, 2, 3, 0]])), short, rtol=1e-5)
        run = tf.function(model)
        np.testing.assert_allclose(run(tf.constant([[1, 2, 3, 0]])), short, rtol=1e-5)

    def test_losses_and_metrics(self):
        predicted = L.Masking()(tf.constant([[[1.0], [2.0], [0.0]]]))
        target = np.zeros((1, 3, 1), np.float32)
        assert tf.keras.losses.MeanSquaredError()(target, predicted).numpy() == 2.5
        assert tf.keras.losses.MeanSquaredError(reduction="sum")(target, predicted).numpy() == 5.0
        found = tf.keras.metrics.MeanSquaredError()(target, predicted)
        assert found.numpy() == pytest.approx(2.5)

    def test_masking(self):
        x = X.copy()
        x[0, 3:] = 0.0
        layer = L.LSTM(4)
        masked = layer(L.Masking()(x)).numpy()
        np.testing.assert_allclose(masked[0], layer(x[:1, :3])[0], rtol=1e-5)
        np.testing.assert_allclose(masked[1], layer(x[1:])[0], rtol=1e-5)

    def test_statistics_without_padding(self):
        layer = L.BatchNormalization(momentum=0.0, epsilon=0.0)
        layer(X, training=True, mask=MASK)
        seen = X[MASK]
        np.testing.assert_allclose(layer.moving_mean, seen.mean(0), rtol=1e-5)
        np.testing.assert_allclose(layer.moving_variance, seen.var(0), rtol=1e-5)
        means = L.GlobalAveragePooling1D()(X, mask=MASK).numpy()
        np.testing.assert_allclose(means[0], X[0][MASK[0]].mean(0), rtol=1e-5)


class TestWrappers:
    @pytest.mark.parametrize("mode", ["concat", "sum", "mul", "ave", None])
    def test_bidirectional(self, mode):
        layer = L.Bidirectional(L.GRU(4, return_sequences=True), merge_mode=mode)
        found = layer(X)
        assert len(layer.weights) == 6
        one = layer.forward_layer(X).numpy()
        two = layer.backward_layer(X).numpy()[:, ::-1]
        expected = {
            "concat": np.concatenate([one, two], -1), "sum": one + two, "mul": one * two,
            "ave": (one + two) / 2, None: (one, two),
        }[mode]  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_states_of_both(self):
        found = L.Bidirectional(L.LSTM(4, return_state=True))(X)
        assert [tuple(y.shape) for y in found] == [(2, 8), *[(2, 4)] * 4]
        with pytest.raises(ValueError, match="merge_mode"):
            L.Bidirectional(L.LSTM(4), merge_mode="max")
        with pytest.raises(ValueError, match="recurrent"):
            L.Bidirectional(L.Dense(4))

    def test_time_distributed(self):
        layer = L.TimeDistributed(L.Dense(4))
        found = layer(X)
        np.testing.assert_allclose(found[:, 2], layer.layer(X[:, 2]), rtol=1e-5, atol=1e-6)
