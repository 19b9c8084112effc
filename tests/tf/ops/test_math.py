"""Element-wise functions and reductions against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.special

import gradtape.tf as tf

X = np.array([[0.3, 0.7, 1.0], [0.2, 0.5, 0.9]])

UNARY = {
    "abs": np.abs, "negative": np.negative, "sign": np.sign, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": np.reciprocal, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "atanh": lambda x: np.arctanh(x * 0.9), "sigmoid": scipy.special.expit,
    "log_sigmoid": lambda x: np.log(scipy.special.expit(x)), "softplus": np.logaddexp.outer,
    "softsign": lambda x: x / (1 + np.abs(x)), "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erfinv": lambda x: scipy.special.erfinv(x * 0.9),
    "erfcinv": scipy.special.erfcinv, "ndtri": lambda x: scipy.special.ndtri(x * 0.9),
    "lgamma": scipy.special.gammaln, "digamma": scipy.special.digamma, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "rint": np.rint, "is_nan": np.isnan, "is_inf": np.isinf,
    "is_finite": np.isfinite, "real": np.real, "imag": np.imag, "conj": np.conj, "angle": np.angle,
    "bessel_i0": scipy.special.i0, "bessel_i1": scipy.special.i1,
}  # fmt: skip
SCALED = {"atanh": 0.9, "erfinv": 0.9, "ndtri": 0.9}
UNARY["softplus"] = lambda x: np.log1p(np.exp(x))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(name, dtype):
    x = (X * SCALED.get(name, 1.0)).astype(dtype)
    found = getattr(tf.math, name)(tf.constant(x))
    expected = UNARY[name](X)
    assert type(found) is tf.Tensor
    assert found.dtype == (np.bool_ if expected.dtype == bool else dtype)
    np.testing.assert_allclose(
        found, expected, rtol=2e-5 if dtype == "float32" else 1e-10, atol=1e-6
    )
    assert type(getattr(tf.math, name)(tf.Variable(x))) is tf.Tensor
    assert getattr(tf.math, name)(x.tolist()).dtype in (tf.float32, tf.bool)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "truediv": np.divide, "floordiv": np.floor_divide, "floormod": np.mod, "mod": np.mod,
    "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
    "squared_difference": lambda a, b: (a - b) ** 2, "xlogy": scipy.special.xlogy,
    "xlog1py": scipy.special.xlog1py, "xdivy": np.divide, "divide_no_nan": np.divide,
    "multiply_no_nan": np.multiply, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "nextafter": np.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    a, b = X, np.array([0.5, 0.7, 2.0])
    function = getattr(tf.math, name)
    found = function(tf.constant(a), tf.constant(b))
    np.testing.assert_allclose(found, BINARY[name](a, b), rtol=1e-12)
    assert function(tf.constant(a, tf.float32), 2).dtype in (tf.float32, tf.bool)
    np.testing.assert_allclose(function(0.5, tf.constant(b)), BINARY[name](0.5, b), rtol=1e-12)


@pytest.mark.parametrize("name", ["truncatediv", "truncatemod"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_towards_zero(name, dtype):
    a, b = np.array([7, -7, 7, -7, 6], dtype), np.array([2, 2, -2, -2, 3], dtype)
    expected = np.trunc(a / b) if name == "truncatediv" else np.fmod(a, b)
    found = getattr(tf, name)(a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


def test_where_nothing_is_divided():
    assert tf.math.divide_no_nan([1.0, 2.0], [0.0, 4.0]).numpy().tolist() == [0.0, 0.5]
    assert tf.math.reciprocal_no_nan([0.0, 4.0]).numpy().tolist() == [0.0, 0.25]
    assert tf.math.multiply_no_nan([np.inf, 2.0], [0.0, 4.0]).numpy().tolist() == [0.0, 8.0]
    assert tf.math.xdivy([0.0, 2.0], [0.0, 4.0]).numpy().tolist() == [0.0, 0.5]
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.math.divide_no_nan(1.0, x))
    assert tape.gradient(y, x).numpy().tolist() == [0.0, -0.0625]


def test_logic():
    a, b = [True, True, False], [True, False, False]
    assert tf.logical_and(a, b).numpy().tolist() == [True, False, False]
    assert tf.logical_or(a, b).numpy().tolist() == [True, True, False]
    assert tf.math.logical_xor(a, b).numpy().tolist() == [False, True, False]
    assert tf.logical_not(a).numpy().tolist() == [False, False, True]
    with pytest.raises(TypeError, match="not accepted"):
        tf.logical_and(tf.constant([1]), tf.constant([1]))


def test_complex_numbers():
    z = tf.complex([1.0, 2.0], [3.0, -4.0])
    assert z.dtype == tf.complex64
    assert tf.math.real(z).numpy().tolist() == [1.0, 2.0]
    assert tf.math.imag(z).numpy().tolist() == [3.0, -4.0]
    assert tf.abs(z).dtype == tf.float32
    np.testing.assert_allclose(tf.exp(z), np.exp([1 + 3j, 2 - 4j]), rtol=1e-6)


REDUCTIONS = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_mean": np.mean, "reduce_max": np.max,
    "reduce_min": np.min, "reduce_variance": np.var, "reduce_std": np.std,
    "reduce_logsumexp": scipy.special.logsumexp,
    "reduce_euclidean_norm": lambda x, axis, keepdims: np.sqrt(
        np.sum(x * x, axis=axis, keepdims=keepdims)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 1], [1], ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    if axis == () and name == "reduce_logsumexp":
        pytest.skip("SciPy has no reduction over no axes")
    function = getattr(tf.math, name)
    expected = REDUCTIONS[name](X, axis=tuple(axis) if isinstance(axis, list) else axis,
                                keepdims=keepdims)  # fmt: skip
    found = function(tf.constant(X), axis, keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert function(tf.constant(X, tf.float32), axis=axis).dtype == tf.float32


def test_reductions_of_integers_keep_their_dtype():
    n = tf.constant([[1, 2], [3, 5]])
    assert (tf.reduce_sum(n).dtype, tf.reduce_sum(n).numpy()) == (tf.int32, 11)
    assert (tf.reduce_prod(n).dtype, tf.reduce_prod(n).numpy()) == (tf.int32, 30)
    assert (tf.reduce_mean(n).dtype, tf.reduce_mean(n).numpy()) == (tf.int32, 2)
    assert tf.reduce_mean(-n).numpy() == -2
    assert tf.reduce_max(n, 0).numpy().tolist() == [3, 5]
    assert tf.cumsum(n).dtype == tf.int32


def test_truth_values():
    b = tf.constant([[True, False], [True, True]])
    assert tf.reduce_all(b, axis=1).numpy().tolist() == [False, True]
    assert tf.reduce_any(b, axis=0).numpy().tolist() == [True, True]
    with pytest.raises(TypeError, match="truth value"):
        tf.reduce_all([1, 2])


def test_counts_and_positions():
    x = tf.constant([[0.0, 3.0, 1.0], [2.0, 0.0, 5.0]])
    assert tf.math.count_nonzero(x).numpy() == 4
    assert tf.math.count_nonzero(x, axis=0, dtype=tf.int32).numpy().tolist() == [1, 1, 2]
    assert tf.argmax(x).numpy().tolist() == [1, 0, 1]
    assert tf.argmax(x, axis=1, output_type=tf.int32).dtype == tf.int32
    assert tf.argmin(x, 1).numpy().tolist() == [0, 1]
    assert tf.argmax(x).dtype == tf.int64
    assert tf.math.zero_fraction(x).numpy() == pytest.approx(1 / 3)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running(exclusive, reverse, axis):
    def expected(accumulate, start):
        x = np.flip(X, axis) if reverse else X
        found = accumulate(x, axis)
        if exclusive:
            shifted = np.full_like(x, start)
            inner = [slice(None)] * 2
            inner[axis] = slice(1, None)
            outer = [slice(None)] * 2
            outer[axis] = slice(None, -1)
            shifted[tuple(inner)] = found[tuple(outer)]
            found = shifted
        return np.flip(found, axis) if reverse else found

    options = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    np.testing.assert_allclose(tf.cumsum(X, **options), expected(np.cumsum, 0.0), rtol=1e-12)
    np.testing.assert_allclose(tf.math.cumprod(X, **options), expected(np.cumprod, 1.0), rtol=1e-12)
    sums = expected(lambda x, a: np.logaddexp.accumulate(x, a), -np.inf)
    np.testing.assert_allclose(tf.math.cumulative_logsumexp(X, **options), sums, rtol=1e-12)


def test_running_logarithms_of_very_different_size():
    x = tf.Variable([-1000.0, 0.0, 500.0])
    with tf.GradientTape() as tape:
        y = tf.math.cumulative_logsumexp(x)
    assert y.numpy().tolist() == [-1000.0, 0.0, 500.0]
    assert tape.gradient(y, x).numpy().tolist() == [1.0, 1.0, 1.0]


def test_sums_of_lists():
    assert tf.add_n([[1.0], tf.constant([2.0]), tf.Variable([3.0])]).numpy().tolist() == [6.0]
    assert tf.math.accumulate_n([[1.0], [2.0]]).numpy().tolist() == [3.0]
    with pytest.raises(ValueError, match="at least one"):
        tf.add_n([])
    with pytest.raises(ValueError, match="differ"):
        tf.add_n([[1.0], [1.0, 2.0]])


def test_polynomials():
    assert tf.math.polyval([1.0, 2.0, 3.0], [0.0, 2.0]).numpy().tolist() == [3.0, 11.0]
    assert tf.math.scalar_mul(3.0, [1.0]).numpy().tolist() == [3.0]
    np.testing.assert_allclose(
        tf.math.polygamma(2.0, [1.5]), scipy.special.polygamma(2, [1.5]), rtol=1e-5
    )


def test_bits():
    assert tf.bitwise.bitwise_and([6], [3]).numpy().tolist() == [2]
    assert tf.bitwise.bitwise_or([6], [3]).numpy().tolist() == [7]
    assert tf.bitwise.bitwise_xor([6], [3]).numpy().tolist() == [5]
    assert tf.bitwise.left_shift([1], [3]).numpy().tolist() == [8]
    assert tf.bitwise.right_shift([8], [3]).numpy().tolist() == [1]
    assert tf.bitwise.invert([0]).numpy().tolist() == [-1]


def test_clipping():
    x = tf.constant([-1.0, 0.5, 9.0])
    assert tf.clip_by_value(x, 0, 1).numpy().tolist() == [0.0, 0.5, 1.0]
    assert tf.clip_by_value(tf.constant([-1, 5]), 0, 3).dtype == tf.int32
    with pytest.raises(TypeError, match="Cannot convert"):
        tf.clip_by_value(tf.constant([1]), 0.5, 1.5)
    np.testing.assert_allclose(tf.clip_by_norm([3.0, 4.0], 2.0), [1.2, 1.6], rtol=1e-6)
    assert tf.clip_by_norm([0.3, 0.4], 2.0).numpy().tolist() == pytest.approx([0.3, 0.4])
    rows = tf.clip_by_norm([[3.0, 4.0], [0.3, 0.4]], 1.0, axes=[1])
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    clipped, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([4.0])], 1.0)
    assert norm.numpy() == 5.0
    assert clipped[1] is None
    np.testing.assert_allclose([clipped[0][0], clipped[2][0]], [0.6, 0.8], rtol=1e-6)
    untouched, _ = tf.clip_by_global_norm([tf.constant([0.3])], 1.0)
    assert untouched[0].numpy()[0] == np.float32(0.3)
    broken, _ = tf.clip_by_global_norm([tf.constant([np.inf])], 1.0)
    assert np.isnan(broken[0].numpy()).all()
