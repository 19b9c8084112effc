"""Datasets, and what tests use. Results are TensorFlow's."""

import numpy as np
import pytest

import gradtape.tf as tf

D = tf.data.Dataset


def listed(dataset):
    return [
        tf.nest.map_structure(lambda x: x.tolist(), each) for each in dataset.as_numpy_iterator()
    ]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: D.range(1, 8, 3), [1, 4, 7]),
        (lambda: D.from_tensor_slices([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (lambda: D.from_tensor_slices(([1, 2], [3.0, 4.0])), [(1, 3.0), (2, 4.0)]),
        (lambda: D.from_tensor_slices({"a": [1, 2]}), [{"a": 1}, {"a": 2}]),
        (lambda: D.from_tensors([1, 2]), [[1, 2]]),
        (lambda: D.range(5).map(lambda x: x * 2).batch(2), [[0, 2], [4, 6], [8]]),
        (lambda: D.range(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
        (lambda: D.zip((D.range(2), D.range(5))).map(lambda a, b: a + b), [0, 2]),
        (lambda: D.range(3).repeat().take(5), [0, 1, 2, 0, 1]),
        (lambda: D.range(5).skip(3).concatenate(D.range(1)), [3, 4, 0]),
        (lambda: D.range(5).skip(-1).concatenate(D.range(2).take(-1)), [0, 1]),
        (lambda: D.range(10).filter(lambda x: x % 3 == 0), [0, 3, 6, 9]),
        (lambda: D.range(2).enumerate(5), [(5, 0), (6, 1)]),
        (lambda: D.range(5).batch(2).unbatch(), [0, 1, 2, 3, 4]),
        (lambda: D.range(4).shard(2, 1).cache().prefetch(tf.data.AUTOTUNE), [1, 3]),
    ],
)
def test_elements(made, expected):
    dataset = made()
    assert listed(dataset) == expected
    assert listed(dataset) == expected


def test_dtypes():
    assert next(iter(D.range(1))).dtype == tf.int64
    made = D.from_generator(lambda: iter([(1, 2.0)]), output_types=(tf.int32, tf.float32))
    assert [x.dtype for x in next(iter(made))] == [tf.int32, tf.float32]
    assert D.from_tensor_slices([1, 2, 3]).element_spec == tf.TensorSpec([], tf.int32)


def test_lengths():
    assert len(D.range(5).batch(2)) == 3
    assert D.range(5).repeat().cardinality().numpy() == tf.data.INFINITE_CARDINALITY
    assert D.range(5).filter(lambda x: x > 1).cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
    with pytest.raises(TypeError, match="infinite"):
        len(D.range(5).repeat())
    with pytest.raises(ValueError, match="first axis"):
        D.from_tensor_slices(([1, 2], [1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: D.range(5).batch(2.5), "batch_size=2.5 is not a whole number of at least 1"),
        (lambda: D.range(5).batch(0), "batch_size=0 is not a whole number of at least 1"),
        (lambda: D.range(5).shuffle(-1), "buffer_size=-1 is not a whole number of at least 1"),
        (lambda: D.range(5).shard(2, 2), "index=2 is not below num_shards=2"),
        (lambda: D.range(5).shard(0, 0), "num_shards=0 is not"),
        (lambda: D.range(5).prefetch(-3), "buffer_size=-3 is neither AUTOTUNE"),
    ],
)
def test_numbers_that_make_no_sense(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_shuffling():
    dataset = D.range(100).shuffle(100, seed=1)
    first, second = listed(dataset), listed(dataset)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    still = D.range(100).shuffle(100, seed=1, reshuffle_each_iteration=False)
    assert listed(still) == listed(still)
    near = listed(D.range(100).shuffle(5))
    assert max(value - at for at, value in enumerate(near)) <= 4


def test_reduce_and_fit():
    assert D.range(5).reduce(np.int64(0), lambda s, x: s + x).numpy() == 10
    x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    model.fit(D.from_tensor_slices((x, 2.0 * x)).shuffle(64).batch(16), epochs=60, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], [[2.0]], atol=0.05)


class TestForTests:
    def test_derivatives_by_differences(self):
        x = tf.constant(np.linspace(0.5, 2.0, 3))
        y = tf.constant([[2.0], [3.0]], tf.float64)
        computed, measured = tf.test.compute_gradient(lambda x, y: tf.sin(x) * y, [x, y])
        assert [c.shape for c in computed] == [(6, 3), (6, 2)]
        for c, m in zip(computed, measured, strict=True):
            np.testing.assert_allclose(c, m, atol=1e-5)

    def test_comparisons(self):
        case = tf.test.TestCase()
        case.assertAllClose({"a": tf.constant([1.0])}, {"a": [1.0 + 1e-8]})
        case.assertAllEqual(tf.constant([1, 2]), [1, 2])
        with pytest.raises(AssertionError):
            case.assertAllClose(tf.constant([1.0]), [1.1])
        with pytest.raises(AssertionError):
            case.assertAllEqual(tf.constant([1, 2]), [1, 3])
        assert case.evaluate([tf.constant(1)])[0] == 1


class TestDistributions:
    def test_moments(self):
        tf.random.set_seed(1)
        drawn = tf.random.gamma([4000], alpha=[1.0, 4.0], beta=2.0)
        assert drawn.shape == [4000, 2]
        np.testing.assert_allclose(tf.reduce_mean(drawn, 0), [0.5, 2.0], rtol=0.1)
        counts = tf.random.poisson([4000], 3.0)
        assert counts.dtype == tf.float32
        np.testing.assert_allclose(tf.reduce_mean(counts), 3.0, rtol=0.1)

    def test_seeds(self):
        first = tf.random.stateless_gamma([3], seed=[1, 2], alpha=2.0)
        np.testing.assert_array_equal(first, tf.random.stateless_gamma([3], [1, 2], 2.0))
        other = tf.random.stateless_gamma([3], tf.random.fold_in([1, 2], 7), 2.0)
        assert not np.array_equal(first, other)
        assert tf.random.split([1, 2], 3).shape == [3, 2]
        tf.random.set_seed(5)
        a = tf.random.poisson([9], 4.0).numpy()
        b = tf.random.poisson([9], 4.0).numpy()
        tf.random.set_seed(5)
        np.testing.assert_array_equal(tf.random.poisson([9], 4.0), a)
        assert not np.array_equal(a, b)

    def test_binomial(self):
        found = tf.random.stateless_binomial([2], [1, 2], [3.0, 3.0], [0.0, 1.0])
        assert found.numpy().tolist() == [0, 3]
        drawn = tf.random.Generator.from_seed(1).binomial([2], [3.0, 3.0], [0.0, 1.0])
        assert drawn.numpy().tolist() == [0, 3]

    def test_the_derivative_passes_to_the_rate(self):
        beta = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.random.stateless_gamma([3], [1, 2], 2.0, beta))
        np.testing.assert_allclose(tape.gradient(y, beta), -y.numpy() / 2.0, rtol=1e-6)
