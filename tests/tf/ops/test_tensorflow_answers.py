"""Values and derivatives that TensorFlow 2.21 gives, of functions in which details decide."""

import numpy as np
import pytest

import gradtape.tf as tf

inf, nan = np.inf, np.nan

# An expression, the dtype of its value, and the value.
VALUES = [
    # Ranges are counted in their own dtype.
    ("tf.range(0.0, 0.3, 0.1)", "float32", [0.0, 0.1, 0.2]),
    ("tf.range(0.0, 0.7, 0.1).shape[0]", None, 7),
    ("tf.range(np.float64(0.0), np.float64(0.3), np.float64(0.1))", "float64", [0.0, 0.1, 0.2]),
    ("tf.range(5.0, 0.0, -2.0)", "float32", [5.0, 3.0, 1.0]),
    ("tf.range(10, 0, -3)", "int32", [10, 7, 4, 1]),
    ("tf.range(3, dtype=tf.float32)", "float32", [0.0, 1.0, 2.0]),
    ("tf.range(tf.constant(2.5), dtype=tf.int64)", "int64", [0, 1]),
    # Means of integers.
    ("tf.math.unsorted_segment_mean([-7, 2, 3, 4], [0, 0, 1, 0], 3)", "float64", [-1 / 3, 3, 0]),
    ("tf.math.unsorted_segment_mean(np.int8([1, 2]), [0, 0], 1)", "float32", [1.5]),
    ("tf.math.segment_mean([-7, 2, 3, 4], [0, 0, 1, 3])", "int32", [-2, 3, 0, 4]),
    ("tf.math.segment_mean([1.0 + 2j, 3.0], [0, 0])", "complex128", [2.0 + 1j]),
    # Casts that end at the range of the dtype.
    ("tf.saturate_cast([300.0 + 1j, -5.0], tf.uint8)", "uint8", [255, 0]),
    ("tf.saturate_cast(np.array([1e300, -inf, 2.0]), tf.float32)", "float32",
     [3.4028235e38, -3.4028235e38, 2.0]),
    ("tf.saturate_cast([inf, -inf, 9.0], tf.int32)", "int32", [2147483520, -2147483648, 9]),
    # Domains and limits of special functions.
    ("tf.math.special.expint([-1.0, 0.0, 0.5])", "float32", [nan, -inf, 0.45421982]),
    ("tf.math.special.bessel_i0e([inf, -inf])", "float32", [0.0, 0.0]),
    ("tf.math.special.bessel_k1e([inf])", "float32", [0.0]),
    ("tf.math.polygamma(tf.zeros([0]), tf.zeros([1]))", "float32", []),
    # Repeats of one number in a list.
    ("tf.repeat([[1, 2], [3, 4]], [2], axis=1)", "int32", [[1, 1, 2, 2], [3, 3, 4, 4]]),
    ("tf.repeat([[1, 2], [3, 4]], [2])", "int32", [1, 1, 2, 2, 3, 3, 4, 4]),
    ("tf.repeat(3, [4])", "int32", [3, 3, 3, 3]),
    # Grids and masks.
    ("tf.meshgrid([[1, 2], [3, 4]], [5, 6])[0]", "int32", [[1, 2, 3, 4], [1, 2, 3, 4]]),
    ("tf.meshgrid([[1], [2]], [[5, 6]], indexing='ij')[1]", "int32", [[5, 6], [5, 6]]),
    ("tf.boolean_mask(tf.zeros([2, 0]), [True, False]).shape", None, (1, 0)),
    ("tf.boolean_mask(tf.zeros([2, 3, 0]), [False, True, True], axis=1).shape", None, (2, 2, 0)),
    ("tf.boolean_mask(tf.zeros([0, 3]), [True, False, True], axis=1).shape", None, (0, 2)),
    ("tf.where([], 1, 2).shape", None, (0,)),
    ("tf.where(np.int8([1, 0, 2]))", "int64", [[0], [2]]),
    ("tf.where([True, False], np.int64(1), 2)", "int64", [1, 2]),
    # Transforms of nothing.
    ("tf.signal.fft(tf.zeros([2, 0], tf.complex64))", "complex64", [[], []]),
    ("tf.signal.ifft2d(tf.zeros([2, 0], tf.complex64))", "complex64", [[], []]),
    ("tf.signal.fft3d(tf.zeros([0, 1, 1], tf.complex64)).shape", None, (0, 1, 1)),
    ("tf.signal.rfft(tf.zeros([2, 0]))", "complex64", [[], []]),
    ("tf.signal.irfft(tf.zeros([2, 0], tf.complex128))", "float64", [[], []]),
    ("tf.signal.irfft2d(tf.ones([2, 2], tf.complex64), fft_length=[0, 0]).shape", None, (0, 0)),
    # Others that a comparison with TensorFlow found.
    ("tf.unique([1.0, nan, nan]).idx", "int32", [0, 1, 2]),
    ("tf.clip_by_value([1.0, 5.0], 2.0, 0.0)", "float32", [2.0, 2.0]),
    ("tf.clip_by_value([1.0, 5.0], tf.constant(2.0), tf.constant(0.0))", "float32", [2.0, 2.0]),
    ("tf.norm(tf.constant([3.0 + 4j], tf.complex64))", "complex64", 5.0),
    ("tf.math.l2_normalize(tf.constant([3.0 + 4j], tf.complex64))", "complex64", [0.6 + 0.8j]),
    ("tf.truncatemod([1.0, -5.5, 7.0], [inf, 2.0, -4.0])", "float32", [1.0, -1.5, 3.0]),
    ("tf.truncatemod(7.0, tf.constant([2.0]))", "float32", [1.0]),
    ("tf.math.in_top_k([0, 1, 5], [[0.5, 0.5], [nan, 1.0], [0.0, 0.0]], 1)", "bool",
     [True, False, False]),
    ("tf.nn.compute_average_loss(tf.zeros([0]))", "float32", 0.0),
    ("tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 2])", "float32", [2.0, 3.0]),
    ("tf.nn.max_pool([[[1.0], [nan]]], 2, 2, 'VALID')", "float32", [[[nan]]]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "dtype", "expected"), VALUES, ids=[v[0] for v in VALUES])
def test_values(expression, dtype, expected):
    found = eval(expression, {"tf": tf, "np": np, "inf": inf, "nan": nan})
    if dtype is None:
        assert found == expected
        return
    assert found.dtype.name == dtype
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


REFUSED = [
    ("tf.range(1.5, dtype=tf.int64)", "int64"),
    ("tf.zeros([2.0])", r"shape=\[2.0\] is not"),
    ("tf.zeros([tf.constant(2.0)])", "a length is a whole number"),
    ("tf.zeros(tf.constant(2.0))", "is not a whole number or a sequence"),
    ("tf.math.top_k([1, 2, 3], k=2.5)", "k=2.5 is not a whole number"),
    ("tf.math.top_k([1, 2, 3], k=tf.constant(2.5))", "is not a whole number"),
    ("tf.concat([[1], [2]], axis=-1.5)", "axis=-1.5 is not a whole number"),
    ("tf.boolean_mask([[1, 2]], [True], axis=3)", "axis 3 is out of range"),
    ("tf.linspace([0.0], [1.0], 3, axis=2)", "axis 2 is out of range"),
    ("tf.reverse_sequence([[1, 2]], [2], seq_axis=5)", "axis 5 is out of range"),
    ("tf.split([1, 2, 3], [1, 2], num=3)", "num is 3 and there are 2 sizes"),
    ("tf.math.bincount([1], minlength=-3)", "minlength=-3 is not a whole number of at least 0"),
    ("tf.one_hot([0], depth=True)", "depth=True is not a whole number"),
    ("tf.nn.max_pool2d(tf.ones([1, 4, 4, 1]), 2, 0, 'VALID')", "strides=0 is not"),
    ("tf.keras.layers.Conv2D(2, 0)", "kernel_size=0 is not a whole number of at least 1"),
    ("tf.keras.layers.Conv2D(2, (3, -1))", r"kernel_size=\(3, -1\) is not"),
    ("tf.keras.losses.BinaryCrossentropy(label_smoothing=1.5)", "label_smoothing=1.5 is not"),
    ("tf.keras.metrics.TopKCategoricalAccuracy(k=0)", "k=0 is not a whole number of at least 1"),
    ("tf.keras.layers.Dropout(0.5, seed=2.5)", "seed=2.5 is not a whole number or a generator"),
    ("tf.keras.optimizers.Ftrl(learning_rate_power=0.5)", "learning_rate_power=0.5 is above 0"),
    ("tf.keras.callbacks.ReduceLROnPlateau(patience=-3)", "patience=-3 is not"),
    ("tf.keras.callbacks.ReduceLROnPlateau(factor=1.0)", "factor=1.0 is not"),
    ("tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), [-3])", "negative length"),
    ("tf.TensorShape(None).with_rank(2**40)", "is more than 254"),
    ("tf.TensorShape(None).with_rank(-1)", "rank=-1 is not a whole number of at least 0"),
    ("tf.repeat([1, 2], [[2]], axis=0)", "repeats=.*not a whole number or a sequence"),
    ("tf.math.confusion_matrix([0, -1], [0, 0], 2)", "-1 to 0"),
    ("tf.math.confusion_matrix([0, 5], [0, 0], 2)", "0 to 5"),
    # The id that would be the next one must not vanish.
    ("tf.math.unsorted_segment_sum([1.0, 2.0], [0, 2], 2).numpy()", "range"),
    ("tf.math.unsorted_segment_mean([1.0], [0], 0).numpy()", "range"),
    ("tf.math.logical_and(tf.constant([1.0]), 2.0)", "float32"),
    ("tf.math.logical_or(2, tf.constant([1.0]))", "float32"),
    ("tf.cumsum([True])", "bool"), ("tf.math.top_k([True], 1)", "bool"),
    ("tf.math.reduce_euclidean_norm([True])", "bool"), ("tf.math.lbeta([1, 2])", "int32"),
    ("tf.math.polygamma(1, 2)", "int32"), ("tf.math.l2_normalize([1, 2])", "int32"),
    ("tf.round(1j)", "complex"), ("tf.constant([5]) // 0", "zero"),
    ("tf.constant([5]) % tf.constant([1, 0])", "zero"), ("5 // tf.constant(0)", "zero"),
    ("tf.truncatediv(tf.constant(5), 0)", "zero"), ("tf.truncatemod(5, 0)", "zero"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals(expression, message):
    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        eval(expression, {"tf": tf})


def slopes(function, *arrays, weights=None):
    """The derivatives of the sum of a function's elements, each with a weight."""
    sources = [tf.constant(np.asarray(each, np.float32)) for each in arrays]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        y = function(*sources)
        y = y if weights is None else y * tf.constant(np.asarray(weights, np.float32))
    return [None if g is None else g.numpy().tolist() for g in tape.gradient(y, sources)]


class TestDerivatives:
    """Ties, empty tensors, and derivatives that a look at values must not lose."""

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_equal_elements_share_the_derivative_of_scatters(self, sign):
        name = "tensor_scatter_nd_max" if sign > 0 else "tensor_scatter_nd_min"

        def at(indices, x, updates):
            function = lambda x, u: getattr(tf, name)(x, indices, u)  # noqa: E731
            return slopes(function, np.multiply(sign, x), np.multiply(sign, updates),
                          weights=np.arange(1.0, 1 + np.size(x)).reshape(np.shape(x)))  # fmt: skip

        assert at([[0], [1]], [1, 2, 3], [1, 5]) == [[0.5, 0.0, 3.0], [0.5, 2.0]]
        assert at([[0], [0]], [1, 2, 3], [5, 5]) == [[0.0, 2.0, 3.0], [0.5, 0.5]]
        third = pytest.approx(1 / 3)
        assert at([[0], [0]], [1, 2], [1, 1]) == [[third, 2.0], [third, third]]
        rows = at([[0], [0]], [[1, 2], [3, 4]], [[1, 9], [0, 9]])
        assert rows == [[[0.5, 0.0], [3.0, 4.0]], [[0.5, 1.0], [0.0, 1.0]]]

    def test_a_maximum_of_infinities_has_a_derivative(self):
        function = lambda x, u: tf.tensor_scatter_nd_max(x, [[0]], u)  # noqa: E731
        assert slopes(function, [-inf, 1.0], [2.0]) == [[0.0, 1.0], [1.0]]
        assert slopes(function, [1.0, 1.0], [inf]) == [[0.0, 1.0], [1.0]]

    def test_the_first_of_equal_elements_has_the_derivative_of_a_maximum_pool(self):
        pool = lambda x: tf.nn.max_pool(x, 2, 2, "VALID")  # noqa: E731
        (found,) = slopes(pool, np.zeros((1, 2, 2, 1)))
        assert np.ravel(found).tolist() == [1.0, 0.0, 0.0, 0.0]

    def test_extrema_of_nothing_are_connected(self):
        assert slopes(tf.reduce_max, np.zeros((2, 0))) == [[[], []]]
        assert slopes(lambda x: tf.reduce_min(x, axis=1), np.zeros((2, 0))) == [[[], []]]

    def test_functions_that_look_at_values(self):
        assert slopes(lambda x: tf.unique(x).y, [2.0, 1.0, 2.0], weights=[3, 4]) == [[3.0, 4.0, 0]]
        matrix = lambda w: tf.math.confusion_matrix([0, 1], [0, 0], 2, w, tf.float32)  # noqa: E731
        assert slopes(matrix, [1.0, 2.0], weights=[[1, 2], [3, 4]]) == [[1.0, 3.0]]

    def test_saturating_casts(self):
        x = tf.constant([1e300, 2.0], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.saturate_cast(x, tf.float32)
        assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0]

    def test_rows_of_zeros_are_orthogonal(self):
        for mode in ("rows", "columns"):
            penalty = tf.keras.regularizers.OrthogonalRegularizer(0.1, mode)
            matrix = [[0.0, 0.0], [1.0, 2.0]]
            found = slopes(penalty, matrix if mode == "rows" else np.transpose(matrix))
            assert found == [[[0.0, 0.0], [0.0, 0.0]]]


class TestBetterAnswers:
    """What differs from TensorFlow on purpose; docs/tensorflow.md lists it."""

    def test_labels_that_do_not_sum_to_one(self):
        # TensorFlow gives softmax - labels, which is the derivative only if the sum is one.
        entropy = lambda x: tf.nn.softmax_cross_entropy_with_logits([[2.0, 1.0]], x)  # noqa: E731
        ((found,),) = slopes(entropy, [[1.0, 2.0]])
        np.testing.assert_allclose(found, [-1.1931757, 1.1931757], rtol=1e-5)
        masked = lambda x: tf.nn.softmax_cross_entropy_with_logits([[0.0, 0.0]], x)  # noqa: E731
        assert slopes(masked, [[1.0, 2.0]]) == [[[0.0, 0.0]]]

    def test_values_that_are_overwritten_have_no_derivative(self):
        update = lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [0]], u)  # noqa: E731
        assert slopes(update, [1.0, 2.0], [5.0, 6.0]) == [[0.0, 1.0], [0.0, 1.0]]

    def test_casts_of_wide_integers(self):
        # TensorFlow's clip of int64 gives the lowest integer for all of them.
        assert tf.saturate_cast(tf.constant([5, -5], tf.int64), tf.uint64).numpy().tolist() == [
            5,
            0,
        ]
        assert tf.saturate_cast([1e19], tf.int64).numpy().item() > 9e18

    def test_nan_is_the_largest_and_the_smallest(self):
        assert tf.argmax([1.0, nan, 2.0]).numpy() == tf.argmin([1.0, nan, 2.0]).numpy() == 1
