"""Neural-network functions, convolutions and random numbers."""

import itertools

import numpy as np
import pytest
import scipy.special

import gradtape.tf as tf

RNG = np.random.default_rng(3)


def close(found, expected, tolerance=1e-6):
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


class TestActivations:
    x = RNG.normal(size=(3, 4))

    def test_values(self):
        x = self.x
        close(tf.nn.relu(x), np.maximum(x, 0))
        close(tf.nn.relu6(x * 9), np.clip(x * 9, 0, 6))
        close(tf.nn.crelu(x), np.maximum(np.concatenate([x, -x], -1), 0))
        close(tf.nn.leaky_relu(x, alpha=0.1), np.where(x > 0, x, 0.1 * x))
        close(tf.nn.elu(x), np.where(x > 0, x, np.expm1(x)))
        close(tf.nn.gelu(x), x * scipy.special.ndtr(x))
        close(tf.nn.silu(x), x * scipy.special.expit(x))
        close(tf.nn.swish(x, beta=2.0), x * scipy.special.expit(2 * x))
        close(tf.nn.softplus(x), np.log1p(np.exp(x)))
        close(tf.nn.sigmoid(x), scipy.special.expit(x))
        close(tf.nn.tanh(x), np.tanh(x))
        close(tf.nn.softsign(x), x / (1 + abs(x)))
        close(tf.nn.softmax(x), scipy.special.softmax(x, -1))
        close(tf.nn.softmax(x, axis=0), scipy.special.softmax(x, 0))
        close(tf.nn.log_softmax(x), scipy.special.log_softmax(x, -1))
        assert tf.nn.relu([-1, 2]).numpy().tolist() == [0, 2]
        assert tf.nn.softmax([1.0]).dtype == tf.float32


class TestLosses:
    logits = RNG.normal(size=(5, 3))

    def test_cross_entropies(self):
        labels = np.eye(3)[[0, 2, 1, 1, 0]]
        expected = -(labels * scipy.special.log_softmax(self.logits, -1)).sum(-1)
        close(tf.nn.softmax_cross_entropy_with_logits(labels, self.logits), expected)
        close(
            tf.nn.softmax_cross_entropy_with_logits(labels=labels.T, logits=self.logits.T, axis=0),
            expected,
        )
        found = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=[0, 2, 1, 1, 0], logits=self.logits
        )
        close(found, expected)
        p = scipy.special.expit(self.logits)
        binary = -(labels * np.log(p) + (1 - labels) * np.log(1 - p))
        close(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=self.logits), binary)
        weighted = -(3.0 * labels * np.log(p) + (1 - labels) * np.log(1 - p))
        close(tf.nn.weighted_cross_entropy_with_logits(labels, self.logits, 3.0), weighted)

    def test_gradient_of_softmax_cross_entropy(self):
        logits = tf.Variable(self.logits)
        with tf.GradientTape() as tape:
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2, 1, 1, 0], logits)
        expected = scipy.special.softmax(self.logits, -1) - np.eye(3)[[0, 2, 1, 1, 0]]
        close(tape.gradient(loss, logits), expected)

    def test_others(self):
        assert tf.nn.l2_loss([3.0, 4.0]).numpy() == 12.5
        mean, variance = tf.nn.moments(self.logits, axes=[0])
        close(mean, self.logits.mean(0))
        close(variance, self.logits.var(0))
        normal = tf.nn.batch_normalization(self.logits, mean, variance, 1.0, 2.0, 0.0)
        close(normal, (self.logits - self.logits.mean(0)) / self.logits.std(0) * 2 + 1)
        close(tf.nn.bias_add(self.logits, np.arange(3.0)), self.logits + np.arange(3.0))
        close(tf.nn.log_poisson_loss([2.0], [0.5]), np.exp([0.5]) - 1.0)
        with pytest.raises(ValueError, match="bias"):
            tf.nn.bias_add(self.logits, [1.0])
        close(tf.nn.embedding_lookup(tf.constant([[3.0, 4.0]]), [0], max_norm=1.0), [[0.6, 0.8]])


def convolved(x, kernel, strides, padding, dilations):
    """The definition, window by window."""
    spatial = x.ndim - 2
    reach = [(k - 1) * d + 1 for k, d in zip(kernel.shape, dilations, strict=False)]
    if padding == "SAME":
        widths = []
        for n, r, s in zip(x.shape[1:-1], reach, strides, strict=True):
            missing = max((-(-n // s) - 1) * s + r - n, 0)
            widths.append((missing // 2, missing - missing // 2))
        x = np.pad(x, [(0, 0), *widths, (0, 0)])
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:-1], reach, strides, strict=True)]
    out = np.zeros((x.shape[0], *counts, kernel.shape[-1]))
    for at in itertools.product(*map(range, counts)):
        for k in itertools.product(*map(range, kernel.shape[:spatial])):
            place = tuple(
                a * s + i * d for a, s, i, d in zip(at, strides, k, dilations, strict=True)
            )
            out[(slice(None), *at)] += x[(slice(None), *place)] @ kernel[k]
    return out


class TestConvolution:
    @pytest.mark.parametrize("padding", ["SAME", "VALID"])
    @pytest.mark.parametrize("stride", [1, 2])
    @pytest.mark.parametrize("dilation", [1, 2])
    def test_conv2d(self, padding, stride, dilation):
        x, kernel = RNG.normal(size=(2, 7, 6, 3)), RNG.normal(size=(3, 2, 3, 4))
        expected = convolved(x, kernel, (stride, stride), padding, (dilation, dilation))
        close(tf.nn.conv2d(x, kernel, stride, padding, dilations=dilation), expected, 1e-9)
        close(
            tf.nn.conv2d(x, kernel, [1, stride, stride, 1], padding, dilations=dilation), expected
        )
        first = tf.nn.conv2d(
            x.transpose(0, 3, 1, 2), kernel, stride, padding, "NCHW", dilations=dilation
        )
        close(first, expected.transpose(0, 3, 1, 2))

    @pytest.mark.parametrize("padding", ["SAME", "VALID"])
    def test_conv1d(self, padding):
        x, kernel = RNG.normal(size=(2, 8, 3)), RNG.normal(size=(3, 3, 2))
        expected = convolved(x, kernel, (2,), padding, (1,))
        close(tf.nn.conv1d(x, kernel, 2, padding), expected, 1e-9)
        close(tf.nn.convolution(x, kernel, 2, padding), expected, 1e-9)

    def test_derivative(self):
        x, kernel = RNG.normal(size=(1, 4, 4, 2)), RNG.normal(size=(2, 2, 2, 3))
        weights = RNG.normal(size=(1, 4, 4, 3))
        k = tf.Variable(kernel)

        def value(kernel):
            return tf.reduce_sum(tf.nn.conv2d(x, kernel, 1, "SAME") * weights)

        with tf.GradientTape() as tape:
            y = value(k)
        found = tape.gradient(y, k).numpy()
        for place in np.ndindex(kernel.shape):
            step = np.zeros_like(kernel)
            step[place] = 1.0
            # Linear in the kernel.
            assert found[place] == pytest.approx(value(step).numpy())

    def test_pooling(self):
        x = RNG.normal(size=(2, 4, 4, 3))
        blocks = x.reshape(2, 2, 2, 2, 2, 3)
        close(tf.nn.max_pool2d(x, 2, 2, "VALID"), blocks.max((2, 4)))
        close(tf.nn.avg_pool2d(x, 2, 2, "VALID"), blocks.mean((2, 4)))
        same = tf.nn.avg_pool2d(np.ones((1, 3, 3, 1)), 2, 2, "SAME")
        close(same, np.ones((1, 2, 2, 1)))
        close(tf.nn.max_pool(x[:, 0], 2, 1, "VALID"), np.maximum(x[:, 0, 1:], x[:, 0, :-1]))

    def test_refusals(self):
        x = tf.ones([1, 3, 3, 2])
        with pytest.raises(ValueError, match="channels"):
            tf.nn.conv2d(x, tf.ones([2, 2, 3, 1]), 1, "VALID")
        with pytest.raises(ValueError, match="padding"):
            tf.nn.conv2d(x, tf.ones([2, 2, 2, 1]), 1, "FULL")
        with pytest.raises(ValueError, match="do not fit"):
            tf.nn.conv2d(x, tf.ones([4, 4, 2, 1]), 1, "VALID")


class TestRandom:
    def test_seed(self):
        tf.random.set_seed(3)
        first = [tf.random.normal([2]).numpy(), tf.random.uniform([2]).numpy()]
        tf.random.set_seed(3)
        second = [tf.random.normal([2]).numpy(), tf.random.uniform([2]).numpy()]
        np.testing.assert_array_equal(first, second)

    def test_shapes_dtypes_and_moments(self):
        x = tf.random.normal([20000], mean=2.0, stddev=3.0)
        assert x.dtype == tf.float32
        assert abs(x.numpy().mean() - 2.0) < 0.1
        assert abs(x.numpy().std() - 3.0) < 0.1
        assert tf.random.normal((), dtype=tf.float64).dtype == tf.float64
        u = tf.random.uniform([1000], -1.0, 1.0).numpy()
        assert -1.0 <= u.min() < -0.9
        assert 0.9 < u.max() < 1.0
        n = tf.random.uniform([1000], 0, 5, dtype=tf.int32).numpy()
        assert sorted(set(n.tolist())) == [0, 1, 2, 3, 4]
        assert abs(tf.random.truncated_normal([1000]).numpy()).max() <= 2.0
        with pytest.raises(ValueError, match="maxval"):
            tf.random.uniform([2], dtype=tf.int32)

    def test_shuffle_and_categorical(self):
        rows = tf.random.shuffle([[1, 1], [2, 2], [3, 3]]).numpy()
        assert sorted(rows.tolist()) == [[1, 1], [2, 2], [3, 3]]
        drawn = tf.random.categorical(tf.math.log([[0.2, 0.8]]), 5000).numpy()
        assert drawn.dtype == np.int64
        assert abs(drawn.mean() - 0.8) < 0.03

    def test_stateless_and_generators(self):
        a, b = (tf.random.stateless_uniform([3], seed=[1, 2]).numpy() for _ in range(2))
        np.testing.assert_array_equal(a, b)
        assert (a != tf.random.stateless_uniform([3], seed=[2, 1]).numpy()).any()
        stream = tf.random.Generator.from_seed(1)
        assert stream.uniform([2], 0, 9, tf.int64).dtype == tf.int64
        first, second = stream.split(2)
        assert (first.normal([3]).numpy() != second.normal([3]).numpy()).any()

    def test_reparametrisation(self):
        scale = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.random.normal([5], stddev=scale, seed=1))
        noise = tf.random.normal([5], seed=1).numpy()
        np.testing.assert_allclose(tape.gradient(y, scale), noise.sum(), rtol=1e-5)

    def test_dropout(self):
        x = tf.ones([2000])
        found = tf.nn.dropout(x, rate=0.25).numpy()
        assert set(found.round(4).tolist()) == {0.0, np.float32(4 / 3).round(4)}
        assert abs(found.mean() - 1.0) < 0.1
        assert tf.nn.dropout(x, 0.0) is x
        rows = tf.nn.dropout(tf.ones([50, 3]), 0.5, noise_shape=[50, 1]).numpy()
        assert (rows == rows[:, :1]).all()
        with pytest.raises(ValueError, match="rate"):
            tf.nn.dropout(x, 1.5)
