"""Fourier transforms: against NumPy, their derivatives in both modes, and their errors."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import AxisError, DtypeError, ShapeError
from gradtape.testing import check_gradients

NORMS = ["backward", "ortho", "forward"]
ALONG_ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
ALONG_SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
FROM_REAL = {"rfft", "rfftn", "ihfft"}
TO_REAL = {"irfft", "irfftn", "hfft"}


def signal(name, shape, dtype="float64"):
    rng = np.random.default_rng(7)
    x = rng.normal(size=shape)
    if name not in FROM_REAL:
        x = x + 1j * rng.normal(size=shape)
        dtype = {"float64": "complex128", "float32": "complex64"}[dtype]
    return x.astype(dtype)


def single_cases():
    for n in (None, 1, 2, 3, 4, 5, 8):
        for axis in (-1, 0, 1):
            yield {"n": n, "axis": axis}


SEVERAL_CASES = [
    {},
    {"axes": (0,)},
    {"axes": (2, 0)},
    {"axes": (-1, 1)},
    {"s": (3, 5), "axes": (0, 2)},
    {"s": (5, 2), "axes": (2, 1)},
    {"s": (2, 2, 3), "axes": (0, 1, 2)},
    {"s": (-1, 4), "axes": (0, 2)},
]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_along_one_axis(name, norm, dtype):
    x = signal(name, (3, 4), dtype)
    for options in single_cases():
        expected = getattr(np.fft, name)(x, norm=norm, **options)
        found = getattr(gt.fft, name)(x, norm=norm, **options)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), options
        tolerance = 1e-12 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALONG_SEVERAL)
@pytest.mark.parametrize("options", SEVERAL_CASES, ids=str)
def test_along_several_axes(name, norm, options):
    x = signal(name, (2, 3, 4))
    expected = getattr(np.fft, name)(x, norm=norm, **options)
    found = getattr(gt.fft, name)(x, norm=norm, **options)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("n", [None, 1, 2, 3, 4, 7])
def test_derivatives_along_one_axis(name, norm, n):
    def f(x):
        y = getattr(gt.fft, name)(x * x, n=n, axis=0, norm=norm)
        return y * y

    check_gradients(f, signal(name, (4, 2)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONG_SEVERAL)
@pytest.mark.parametrize("options", SEVERAL_CASES[:6], ids=str)
def test_derivatives_along_several_axes(name, options):
    check_gradients(
        lambda x: gt.sin(getattr(gt.fft, name)(x, norm="ortho", **options)),
        signal(name, (2, 2, 3)) / 2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rfft", "irfft"])
@pytest.mark.parametrize("n", [4, 5])
def test_third_order(name, n):
    # d³/dx³ of sum(|F x|⁴) is linear in x: compare with the derivative of the second order one.
    def f(x):
        return gt.sum(gt.abs(getattr(gt.fft, name)(x, n=n)) ** 4)

    check_gradients(f, signal(name, (3,)) / 3, order=3)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_reverse_mode_is_the_adjoint(n):
    # The columns of the transform as a matrix, and of its adjoint.
    x = gt.asarray(np.zeros(n))
    weights = signal("fft", (n // 2 + 1,))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.fft.rfft(x)
    found = tape.gradient(y, x, output_gradients=gt.asarray(weights))
    matrix = np.fft.rfft(np.eye(n), axis=0)
    np.testing.assert_allclose(found.numpy(), (matrix.conj().T @ weights).real, atol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 6])
def test_round_trip_has_the_gradient_of_the_identity(n):
    x = gt.asarray(np.linspace(-1.0, 1.0, n))
    for there, back in (("fft", "ifft"), ("rfft", "irfft"), ("ihfft", "hfft")):

        def trip(x, there=there, back=back):
            return gt.sum(gt.real(getattr(gt.fft, back)(getattr(gt.fft, there)(x), n=n)) ** 2)

        np.testing.assert_allclose(gt.grad(trip)(x).numpy(), 2 * x.numpy(), atol=1e-12)


def test_real_and_integer_operands():
    np.testing.assert_allclose(gt.fft.fft([1, 2, 4]).numpy(), np.fft.fft([1, 2, 4]))
    np.testing.assert_allclose(gt.fft.irfft([1, 2, 4]).numpy(), np.fft.irfft([1, 2, 4]))
    assert gt.fft.rfft([1, 2, 4]).dtype == np.complex128
    assert gt.fft.fft(np.ones(3, np.float32)).dtype == np.complex64
    gradient = gt.grad(lambda x: gt.real(gt.fft.fft(x)[1]))(gt.asarray([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(gradient.numpy(), np.cos(2 * np.pi * np.arange(3) / 3))


def test_empty_batches_and_no_axes():
    assert gt.fft.fft(np.zeros((0, 3))).shape == (0, 3)
    assert gt.fft.rfft(np.zeros((0, 3))).shape == (0, 2)
    assert gt.fft.irfft(np.zeros((0, 3))).shape == (0, 4)
    assert gt.fft.fft(np.zeros((2, 0)), n=3).tolist() == [[0j] * 3] * 2
    assert gt.fft.fftn(2.0).tolist() == 2 + 0j
    assert gt.fft.fftn([1.0, 2.0], axes=()).tolist() == [1 + 0j, 2 + 0j]


def test_a_where_keeps_nans_of_other_signals_out():
    x = gt.asarray(np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]]))
    with gt.GradientTape() as tape:
        tape.watch(x)
        spectrum = gt.abs(gt.fft.rfft(gt.log(x)))
        y = gt.sum(gt.where(np.array([[True], [False]]), spectrum, 0.0))
    gradient = tape.gradient(y, x).numpy()
    assert np.isfinite(gradient).all()
    assert gradient[1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_frequencies(n):
    for d in (1.0, 0.25):
        np.testing.assert_array_equal(gt.fft.fftfreq(n, d=d).numpy(), np.fft.fftfreq(n, d))
        np.testing.assert_array_equal(gt.fft.rfftfreq(n, d=d).numpy(), np.fft.rfftfreq(n, d))
    assert gt.fft.fftfreq(n, dtype=gt.float32).dtype == np.float32


@pytest.mark.parametrize("axes", [None, 0, (1,), (0, 1), [-1]])
def test_shifts(axes):
    x = np.arange(20.0).reshape(4, 5)
    np.testing.assert_array_equal(gt.fft.fftshift(x, axes=axes).numpy(), np.fft.fftshift(x, axes))
    np.testing.assert_array_equal(gt.fft.ifftshift(x, axes=axes).numpy(), np.fft.ifftshift(x, axes))
    back = gt.fft.ifftshift(gt.fft.fftshift(x, axes=axes), axes=axes)
    np.testing.assert_array_equal(back.numpy(), x)
    check_gradients(lambda x: gt.sin(gt.fft.fftshift(x, axes=axes)), x / 10)


@pytest.mark.parametrize("name", [*ALONG_ONE, *ALONG_SEVERAL, "fft2", "ifft2", "rfft2", "irfft2"])
def test_numpy_calls_record(name):
    x = signal(name.replace("2", "n"), (3, 4))
    found = getattr(np.fft, name)(gt.asarray(x), norm="ortho")
    assert isinstance(found, gt.Tensor)
    expected = getattr(np.fft, name)(x, norm="ortho")
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    assert f"fft.{name}" in gt.numpy_protocols.covered()
    with pytest.raises(TypeError, match=r"out="):
        getattr(np.fft, name)(gt.asarray(x), out=np.empty(1))


def test_numpy_shifts_and_positions():
    x = gt.asarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(np.fft.fftshift(x, 1).numpy(), np.fft.fftshift(x.numpy(), 1))
    np.testing.assert_array_equal(np.fft.ifftshift(x).numpy(), np.fft.ifftshift(x.numpy()))
    np.testing.assert_allclose(np.fft.fft(x, 4, 0).numpy(), np.fft.fft(x.numpy(), 4, 0))


REFUSED = [
    (lambda: gt.fft.fft([1.0], norm="unit"), ValueError, "fft: norm 'unit' is not one of"),
    (lambda: gt.fft.fft([1.0], n=0), ShapeError, "fft: 0 points cannot be transformed"),
    (lambda: gt.fft.fft(np.zeros((2, 0))), ShapeError, "0 points"),
    (lambda: gt.fft.irfft([1.0]), ShapeError, "irfft: 0 points"),
    (lambda: gt.fft.fft([1.0], axis=1), AxisError, "fft: axis 1 is out of range"),
    (lambda: gt.fft.fft(1.0), AxisError, "0-d"),
    (lambda: gt.fft.fftn(np.ones((2, 2)), axes=(0, -2)), ShapeError, "twice"),
    (lambda: gt.fft.fftn(np.ones((2, 2)), s=(2,), axes=(0, 1)), ShapeError, "1 lengths for 2 axes"),
    (lambda: gt.fft.rfft([1j]), DtypeError, "rfft: complex128 is not real"),
    (lambda: gt.fft.rfftn([1.0], axes=()), ShapeError, "rfftn: no axis is left"),
    (lambda: gt.fft.irfftn([1.0], axes=()), ShapeError, "irfftn: no axis is left"),
    (lambda: gt.fft.fftfreq(0), ShapeError, "fftfreq: 0 points"),
    (lambda: gt.fft.fftfreq(3, dtype=gt.int64), DtypeError, "fftfreq: frequencies are real"),
    (lambda: gt.fft.fftfreq(3, device="gpu"), ValueError, "not a device"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
