"""Dense, Embedding, Dropout, LayerNorm and Sequential against NumPy."""

import numpy as np
import pytest

import gradtape as gt
from gradtape import nn

RNG = np.random.default_rng(0)


class TestDense:
    @pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3), (2, 0, 3)])
    def test_values(self, shape):
        layer = nn.Dense(4, activation="tanh", bias_initializer="normal")
        x = RNG.normal(size=shape)
        y = layer(x)
        expected = np.tanh(x @ layer.kernel.numpy() + layer.bias.numpy())
        assert y.shape == (*shape[:-1], 4)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)

    def test_gradients(self):
        layer = nn.Dense(2, activation="sigmoid", in_features=3)
        x = RNG.normal(size=(2, 4, 3))
        gt.testing.check_gradients(lambda x: gt.sum(layer(x)), x)
        with gt.GradientTape() as tape:
            loss = gt.sum(layer(x) * np.arange(2.0))
        found = tape.gradient(loss, layer.parameters())
        y = layer(x).numpy()
        slope = y * (1 - y) * np.arange(2.0)
        expected = np.einsum("abi,abj->ij", x, slope)
        np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(found[1].numpy(), slope.sum((0, 1)), rtol=1e-12)

    def test_made_at_the_first_call_or_at_once(self):
        layer = nn.Dense(2)
        assert layer.variables == []
        layer(np.zeros((1, 3), "float32"))
        assert layer.kernel.dtype == np.float32
        assert nn.Dense(2, in_features=3).kernel.dtype == np.float64
        assert nn.Dense(2, in_features=3, dtype="float32").kernel.dtype == np.float32
        assert nn.Dense(2, use_bias=False, in_features=3).bias is None

    def test_later_inputs_are_cast(self):
        layer = nn.Dense(2, in_features=3, dtype="float32")
        assert layer(np.zeros((1, 3))).dtype == np.float32
        assert layer(np.zeros((1, 3), int)).dtype == np.float32

    def test_first_call_under_a_tape(self):
        layer = nn.Dense(1)
        x = gt.asarray(RNG.normal(size=(4, 3)))
        with gt.GradientTape() as tape:
            loss = gt.sum(layer(x * 2.0))
        kernel, bias = tape.gradient(loss, layer.parameters())
        np.testing.assert_allclose(kernel.numpy()[:, 0], 2 * x.numpy().sum(0))
        assert bias.tolist() == [4.0]

    def test_errors(self):
        layer = nn.Dense(2, in_features=3, name="head")
        with pytest.raises(ValueError, match=r"head: an input of shape \(1, 4\).*3 features"):
            layer(np.zeros((1, 4)))
        with pytest.raises(ValueError, match="0-d"):
            nn.Dense(2)(1.0)
        with pytest.raises(ValueError, match="units=0"):
            nn.Dense(0)

    def test_names_of_variables(self):
        layer = nn.Dense(2, in_features=3, name="head")
        assert [v.name for v in layer.variables] == ["head.kernel", "head.bias"]
        assert nn.Dense(2).name != nn.Dense(2).name


class TestEmbedding:
    def test_look_up_and_row_sparse_gradient(self):
        layer = nn.Embedding(10, 3)
        indices = np.array([[1, 7], [7, 0]])
        with gt.GradientTape() as tape:
            y = layer(indices)
            loss = gt.sum(y * y)
        table = layer.embeddings.numpy()
        np.testing.assert_array_equal(y.numpy(), table[indices])
        g = tape.gradient(loss, layer.embeddings)
        assert isinstance(g, gt.RowSparse)
        expected = np.zeros((10, 3))
        np.add.at(expected, indices, 2 * table[indices])
        np.testing.assert_allclose(g.numpy(), expected)

    def test_errors(self):
        with pytest.raises(IndexError, match="index 10"):
            nn.Embedding(10, 3)([10])
        with pytest.raises(TypeError, match="not integers"):
            nn.Embedding(10, 3)([1.0])
        with pytest.raises(ValueError, match="input_dim=0"):
            nn.Embedding(0, 3)


class TestDropout:
    def test_rate_and_scale(self):
        x = np.ones((100, 100), "float32")
        y = nn.Dropout(0.3, seed=0)(x)
        assert y.dtype == np.float32
        values, counts = np.unique(y.numpy(), return_counts=True)
        np.testing.assert_allclose(values, [0.0, 1 / 0.7], rtol=1e-6)
        assert counts[0] / x.size == pytest.approx(0.3, abs=0.02)

    def test_draws_differ_and_seeds_repeat(self):
        layer, x = nn.Dropout(0.5, seed=1), np.ones(50)
        first, second = layer(x).tolist(), layer(x).tolist()
        assert first != second
        assert nn.Dropout(0.5, seed=1)(x).tolist() == first
        assert nn.Dropout(0.5, seed=gt.random.Generator(1))(x).tolist() == first
        gt.random.seed(4)
        free = nn.Dropout(0.5)(x).tolist()
        gt.random.seed(4)
        assert nn.Dropout(0.5)(x).tolist() == free

    def test_not_in_training(self):
        layer, x = nn.Dropout(0.5), np.ones(50)
        assert layer(x, training=False).tolist() == x.tolist()
        layer.eval()
        assert layer(x).tolist() == x.tolist()
        assert 0.0 in layer(x, training=True).tolist()

    def test_noise_shape_and_ends(self):
        y = nn.Dropout(0.5, noise_shape=(6, 1), seed=0)(np.ones((6, 4))).numpy()
        assert (y == y[:, :1]).all()
        assert nn.Dropout(1.0)(np.ones(3)).tolist() == [0.0, 0.0, 0.0]
        assert nn.Dropout(0.0)(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(ValueError, match=r"rate=1\.5"):
            nn.Dropout(1.5)

    def test_gradient(self):
        layer, x = nn.Dropout(0.5, seed=3), gt.asarray(np.full(20, 2.0))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        assert (tape.gradient(y, x).numpy() * 2.0 == y.numpy()).all()


class TestLayerNorm:
    @pytest.mark.slow
    @pytest.mark.parametrize("axis", [-1, 1, (1, 2)])
    def test_values(self, axis):
        x = RNG.normal(size=(2, 3, 4)) * 5 + 2
        layer = nn.LayerNorm(axis, gamma_initializer="normal", beta_initializer="normal")
        y = layer(x).numpy()
        mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
        axes = {-1: (2,), 1: (1,), (1, 2): (1, 2)}[axis]
        shape = [n if at in axes else 1 for at, n in enumerate(x.shape)]
        gamma, beta = (v.numpy().reshape(shape) for v in (layer.gamma, layer.beta))
        expected = (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta
        np.testing.assert_allclose(y, expected, rtol=1e-12)
        gt.testing.check_gradients(lambda x: gt.sum(gt.sin(layer(x))), x)

    def test_without_offset_and_scale(self):
        layer = nn.LayerNorm(center=False, scale=False)
        layer(RNG.normal(size=(2, 3)))
        assert layer.variables == []


class TestSequential:
    def test_functions_and_modules(self):
        model = nn.Sequential([nn.Dense(4, in_features=3), gt.exp])
        model.add(nn.Dense(1))
        x = RNG.normal(size=(2, 3))
        a, b = model[0], model[2]
        hidden = np.exp(x @ a.kernel.numpy() + a.bias.numpy())
        np.testing.assert_allclose(model(x).numpy(), hidden @ b.kernel.numpy() + b.bias.numpy())
        assert len(model) == 3
        assert list(model) == model.layers

    def test_things_that_cannot_be_called(self):
        with pytest.raises(TypeError, match="int cannot be called"):
            nn.Sequential([3])
