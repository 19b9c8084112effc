"""Complex numbers in compiled kernels, against NumPy; see codegen/complexvalues.py."""

import itertools

import numpy as np
import pytest

import gradtape as gt
from gradtape.ops.elementwise import unary

UNARY = [
    "negative", "positive", "conj", "real", "imag", "abs", "angle", "sign", "square", "reciprocal",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "isnan", "isinf",
    "isfinite", "round",
]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "pow", "equal", "not_equal"]
DTYPES = ("complex64", "complex128")
SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)


def random_complex(rng, shape, dtype, scale=2.0):
    parts = rng.uniform(-scale, scale, (2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


def assert_close(want, got, factor=64):
    assert want.dtype == got.dtype
    assert want.shape == got.shape
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    eps = np.finfo(want.dtype).eps
    size = np.abs(want)
    # By size, not part by part: a part that cancels has the rounding of the other.
    wrong = ~(np.abs(got - want) <= factor * eps * (size + 1.0))
    assert not wrong.any(), (want[wrong][:5], got[wrong][:5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name, dtype, both_ways, library_calls):
    rng = np.random.default_rng(3)
    x = gt.asarray(random_complex(rng, (5, 37), dtype))
    y = getattr(gt, name)(x) if hasattr(gt, name) else getattr(unary, name)(x)
    assert library_calls(y) == []
    pairs = both_ways(y)
    assert_close(*pairs[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands(name, dtype, both_ways, library_calls):
    rng = np.random.default_rng(4)
    x = random_complex(rng, (6, 19), dtype)
    y = random_complex(rng, (6, 19), dtype)
    y[0, :10] = x[0, :10]
    y[1, :7] = [-3, -2, -1, 1, 2, 3, 11]
    z = getattr(gt, name)(gt.asarray(x), gt.asarray(y))
    assert library_calls(z) == []
    pairs = both_ways(z)
    assert_close(*pairs[0], factor=1000 if name == "pow" else 16)


# What infinities give is the C library's affair and differs between those; these are our own.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["negative", "conj", "real", "imag", "abs", "sign", "square", "isnan", "isinf",
             "isfinite", "angle", "exp", "sqrt", "expm1", "log1p"]
)  # fmt: skip
def test_special_values_of_one_operand(name, dtype, both_ways):
    numbers = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)], dtype)
    [(want, got)] = both_ways(getattr(gt, name)(gt.asarray(numbers)))
    assert_same(want, got)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "equal", "not_equal"])
def test_special_values_of_two_operands(name, dtype, both_ways):
    numbers = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)], dtype)
    x, y = gt.asarray(numbers[:, None]), gt.asarray(numbers[None, :])
    [(want, got)] = both_ways(getattr(gt, name)(x, y))
    assert_same(want, got)


def assert_same(want, got):
    if want.dtype.kind != "c":
        np.testing.assert_allclose(got, want, rtol=1e-6)
        return
    for a, b in ((want.real, got.real), (want.imag, got.imag)):
        np.testing.assert_array_equal(np.isnan(b), np.isnan(a))
        np.testing.assert_allclose(b, a, rtol=1e-6)


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 5, 8])
def test_whole_powers(exponent, both_ways, library_calls):
    rng = np.random.default_rng(5)
    numbers = random_complex(rng, (33,), "complex128")
    numbers[3] = 0
    x = gt.asarray(numbers)
    y = x**exponent
    assert library_calls(y) == []
    [(want, got)] = both_ways(y)
    known = np.isfinite(want)
    assert_close(want[known], got[known])
    if exponent < 0:
        assert np.isnan(want[3])
        assert np.isnan(got[3])


def test_powers_of_zero(both_ways):
    x = gt.asarray(np.zeros(3, complex))
    [(want, got)] = both_ways(x ** gt.asarray(np.array([0, 1.5 + 1j, -1])))
    np.testing.assert_array_equal(got, want)


def test_a_number_times_its_conjugate_is_real(both_ways):
    rng = np.random.default_rng(6)
    x = gt.asarray(random_complex(rng, (1000,), "complex128"))
    [(_, got)] = both_ways(x * gt.conj(x))
    assert not got.imag.any()


@pytest.mark.parametrize("source", ["bool", "int32", "float32", "float64", "complex64"])
def test_casts(source, both_ways, library_calls):
    rng = np.random.default_rng(7)
    x = rng.uniform(-2, 2, 40).astype(source)
    for target in ("complex64", "complex128"):
        y = gt.cast(gt.asarray(x), target)
        assert library_calls(y * y) == []
        [(want, got)] = both_ways(y * y)
        assert_close(want, got)
    truth = gt.cast(gt.asarray(np.array([0, 1j, -0.0, np.nan], "complex64")), gt.bool)
    [(want, got)] = both_ways(truth)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (8,), (16,), (70000,), (3, 5), (40, 33), (2, 3, 4)]
)
def test_reductions(shape, dtype, both_ways, library_calls):  # fmt: skip
    rng = np.random.default_rng(8)
    x = gt.asarray(random_complex(rng, shape, dtype, 1.3))
    axes = [None, *range(len(shape))]
    outputs = [getattr(gt, name)(x, axis=axis) for name in ("sum", "prod") for axis in axes]
    outputs += [gt.any(x, axis=axis) for axis in axes] + [gt.mean(x * x, axis=a) for a in axes]
    assert library_calls(*outputs) == []
    pairs = both_ways(*outputs)
    for want, got in pairs:
        assert_close(want, got, 1000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_and_broadcasts(dtype, both_ways, library_calls):
    rng = np.random.default_rng(9)
    x = gt.asarray(random_complex(rng, (9, 21), dtype))
    row = gt.asarray(random_complex(rng, (21,), dtype))
    column = gt.asarray(random_complex(rng, (9, 1), dtype))
    outputs = [
        x.T + 1.0, x[:, ::-1] * row, x[::2, 3:] - column[::2], x + row * column,
        gt.reshape(x.T, (21 * 9,)), gt.sum(x.T, axis=0), gt.sum(x[:, ::-1] * row, axis=1),
        gt.where(gt.real(x) > 0.0, x, row), gt.sum(x * row + column),
    ]  # fmt: skip
    assert library_calls(*outputs) == []
    pairs = both_ways(*outputs)
    for want, got in pairs:
        assert_close(want, got)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars(dtype):
    rng = np.random.default_rng(10)
    numbers = random_complex(rng, (13,), dtype)
    x = gt.asarray(numbers)
    scalar = gt.asarray(np.array(0.5 - 2j, dtype))
    for _ in range(3):
        np.testing.assert_allclose(
            (x * scalar + (1 - 2j) + 3).numpy(), numbers * (0.5 - 2j) + (1 - 2j) + 3, rtol=1e-5
        )
        np.testing.assert_allclose((scalar * scalar).numpy(), (0.5 - 2j) ** 2)


def test_a_complex_scalar_that_overflows_is_infinite():
    x = gt.asarray(np.ones(3, np.complex64))
    for _ in range(3):
        found = (x + complex(1e300, 2.0)).numpy()
        assert found.real.tolist() == [np.inf] * 3
        assert found.imag.tolist() == [2.0] * 3


@pytest.mark.parametrize("size", [5, 1000, 200_001])
def test_gradients_of_real_losses(size, both_ways, library_calls):
    rng = np.random.default_rng(11)
    numbers = random_complex(rng, (size,), "complex128")
    x = gt.asarray(numbers)

    def loss(x):
        return gt.sum(gt.abs(gt.sin(x) * gt.conj(x)) ** 2 + gt.real(gt.exp(x * 0.3j)))

    y = gt.grad(loss)(x)
    assert library_calls(y) == []
    [(want, got)] = both_ways(y)
    assert_close(want, got, 1000)


def test_large_results_are_streamed(both_ways):
    rng = np.random.default_rng(12)
    for dtype in DTYPES:
        numbers = random_complex(rng, (300_007,), dtype)
        [(want, got)] = both_ways(gt.asarray(numbers) * 2.0)
        assert_close(want, got)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sign_of_finite_numbers_whose_size_overflows(dtype):
    most = float(np.finfo(dtype).max)
    parts = [most, -most, most / 2, most / 3, most / 5, 1.0, 0.0, -0.0, np.inf, np.nan]
    x = np.empty(len(parts) ** 2, dtype)
    x.real, x.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    eager = gt.sign(gt.asarray(x)).numpy()
    f = gt.function(gt.sign)
    for _ in range(4):
        compiled = f(gt.asarray(x)).numpy()
    np.testing.assert_allclose(compiled, eager, rtol=1e-6 if dtype == "complex64" else 1e-14)
    finite = np.isfinite(x)
    small = x[finite].astype("complex128") / (most if dtype == "complex64" else 4.0)
    size = np.hypot(small.real, small.imag)
    expected = np.where(size == 0, 0, small / np.where(size == 0, 1, size))
    np.testing.assert_allclose(eager[finite], expected, rtol=1e-6, atol=1e-37)
