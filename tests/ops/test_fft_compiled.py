"""Fourier transforms in compiled plans: against NumPy, without calls of Python."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ops.matrices.fourier_plans import RowPlan, plan_of, roots
from gradtape.runtime import tiers

# Lengths of each kind: all numbers of lanes, all radices, convolutions.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17, 18, 26, 31, 64, 96, 100, 121, 127, 128, 254,
           343, 350, 1000, 1001, 1009, 1024, 4096, 8191]  # fmt: skip
ALONG_ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
FROM_REAL = {"rfft", "rfftn", "ihfft"}


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    yield
    gt.clear_plans()


def signal(name, shape, dtype):
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape)
    if name in FROM_REAL:
        return x.astype(dtype)
    return (x + 1j * rng.normal(size=shape)).astype(np.result_type(dtype, np.complex64))


def assert_near(found, expected, length, dtype):
    """The root mean square of the error is a few times eps log n."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    size, error = (np.sqrt(np.mean(np.abs(x) ** 2)) for x in (expected, found - expected))
    assert error <= (2 + np.log2(length)) * np.finfo(dtype).eps * size


def computed(function, *operands):
    """The result of a compiled plan that calls no Python."""
    before = gt.counters().python_calls
    found = function(*[gt.asarray(x) for x in operands]).numpy()
    assert gt.counters().python_calls == before
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(name, n, dtype):
    short = name in ("irfft", "hfft")
    x = signal(name, (2, n // 2 + 1 if short else n), dtype)
    expected = getattr(np.fft, name)(x, n)
    found = computed(lambda x: getattr(gt.fft, name)(x, n=n), x)
    assert_near(found, expected, n, dtype)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_norms_and_lengths(name, norm, axis):
    x = signal(name, (4, 3, 6), "float64")
    for n in (None, 1, 2, 5, 8):
        expected = getattr(np.fft, name)(x, n, axis=axis, norm=norm)
        found = computed(lambda x, n=n: getattr(gt.fft, name)(x, n=n, axis=axis, norm=norm), x)
        assert_near(found, expected, 8, "float64")


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("options", [{}, {"axes": (2, 0)}, {"s": (3, 7), "axes": (0, 1)}])
def test_several_axes(name, options):
    x = signal(name, (4, 3, 6), "float64")
    expected = getattr(np.fft, name)(x, **options)
    found = computed(lambda x: getattr(gt.fft, name)(x, **options), x)
    assert_near(found, expected, 64, "float64")


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_no_rows(name):
    x = signal(name, (0, 5), "float64")
    expected = getattr(np.fft, name)(x)
    assert computed(getattr(gt.fft, name), x).shape == expected.shape


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_many_rows_are_shared_by_threads(name):
    x = signal(name, (3001, 33 if name == "irfft" else 64), "float64")
    assert_near(computed(getattr(gt.fft, name), x), getattr(np.fft, name)(x), 64, "float64")


@pytest.mark.parametrize("n", [1, 6, 17, 64])
def test_in_the_body_of_a_scan(n):
    x = signal("rfft", (5, n), "float64")

    def program(rows):
        def step(carry, row):
            spectrum = gt.fft.rfft(row + carry)
            carry = gt.fft.irfft(spectrum * spectrum, n=n) / n
            return carry, gt.fft.ifft(gt.fft.fft(row * (1 + 2j)))

        return gt.scan(step, gt.zeros(n), rows)

    carry, expected = np.zeros(n), []
    for row in x:
        carry = np.fft.irfft(np.fft.rfft(row + carry) ** 2, n) / n
        expected.append(row * (1 + 2j))
    before = gt.counters().python_calls
    last, rows = program(gt.asarray(x))
    np.testing.assert_allclose(last.numpy(), carry, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(rows.numpy(), np.stack(expected), rtol=1e-13, atol=1e-13)
    assert gt.counters().python_calls == before


def gradient(n, x):

    def loss(x):
        spectrum = gt.fft.rfft(x, axis=0)
        signal = gt.fft.irfft(spectrum * spectrum, axis=0, n=n)
        return gt.sum(gt.sin(signal)) + gt.sum(gt.abs(gt.fft.fft(x * x)) ** 2)

    return np.array(gt.grad(loss)(gt.asarray(x)).numpy())


@pytest.mark.parametrize("n", [1, 2, 5, 8, 34, 64])
def test_derivatives(n, monkeypatch):
    x = signal("rfft", (n, 3), "float64")
    before = gt.counters().python_calls
    found = gradient(n, x)
    assert gt.counters().python_calls == before
    monkeypatch.setattr(tiers, "MODE", "off")
    gt.clear_plans()
    np.testing.assert_allclose(found, gradient(n, x), rtol=1e-11, atol=1e-11)


def test_infinite_and_missing_numbers_stay_in_their_rows():
    x = np.ones((3, 16))
    x[1, 3], x[2, 5] = np.nan, np.inf
    found = computed(gt.fft.fft, x)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
    assert not np.isfinite(found[2]).any()


def test_numpy_computes_transforms_with_long_tables():
    x = signal("fft", (200_000,), "float64")
    before = gt.counters().python_calls
    found = gt.fft.fft(gt.asarray(x)).numpy()
    assert gt.counters().python_calls == before + 1
    np.testing.assert_array_equal(found, np.fft.fft(x))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100, 1009])
def test_roots_are_exact_to_an_ulp(n):
    k = np.arange(-n, 3 * n)
    angle = -2 * np.arccos(np.longdouble(-1)) * (k % n) / n
    expected = np.cos(angle) + 1j * np.sin(angle)
    assert np.abs(roots(k, n) - expected).max() <= 2 * np.finfo(float).eps


@pytest.mark.parametrize("n", range(1, 300))
def test_plans_multiply_to_their_lengths(n):
    plan = plan_of(n)
    if plan.convolution:
        assert plan.convolution >= 2 * n - 1
        assert not plan.inner.convolution
    else:
        assert plan.lanes * np.prod(plan.radices, dtype=int) == n
    for kind in ("complex", "to_half", "from_half"):
        rows = RowPlan(kind, n)
        assert rows.table(np.float64).shape == (rows.table_size(),)
