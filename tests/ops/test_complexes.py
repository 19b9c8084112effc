"""Parts, absolute value, angle and sign, of complex and of real numbers."""

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.ops.elementwise import complexes
from gradtape.testing import check_gradients

NAMES = ["abs", "angle", "conj", "imag", "real", "sign"]
Z = np.array([3.0 + 4.0j, -1.0 + 0.5j, -2.0j, 0.5])


def gradient(f, x, weights=None):
    x = gt.asarray(x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=weights).numpy()


def numpy_function(name):
    return np.sign if name == "sign" else getattr(np, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "dtype", ["complex128", "complex64", "float64", "float32", "int32", "uint8"]
)
def test_agrees_with_numpy(name, dtype):
    x = Z.astype(dtype) if np.dtype(dtype).kind == "c" else np.array([3, 1, 0]).astype(dtype)
    if np.dtype(dtype).kind in "fi":
        x = -x
    for operand in (x, x[0], x[:0], x.reshape(1, -1)):
        expected = np.asarray(numpy_function(name)(operand))
        found = getattr(complexes, name)(operand)
        assert found.shape == expected.shape
        # NumPy's angle of an integer is a float of about its size, ours the default float.
        wide = name == "angle" and expected.dtype.itemsize < 4
        assert found.dtype == (np.float64 if wide else expected.dtype)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    f = getattr(complexes, name)
    check_gradients(f, Z)
    check_gradients(f, np.array([2.0, -0.5]))
    check_gradients(lambda z: f(z * z + 1.0j) * gt.sin(gt.real(z)), Z)


@pytest.mark.parametrize("name", ["abs", "angle", "sign"])
@pytest.mark.parametrize("zero", [0.0, 0j])
def test_derivative_at_zero_is_zero(name, zero):
    f = getattr(complexes, name)
    assert gradient(f, zero) == 0.0

    def first(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x, unconnected_gradients="zero")

    x = gt.asarray(zero)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = first(x)
    assert tape.gradient(y, x, unconnected_gradients="zero").numpy() == 0.0


def test_gradient_convention():
    # dL/dRe + i dL/dIm.
    np.testing.assert_allclose(gradient(complexes.abs, Z), Z / np.abs(Z))
    np.testing.assert_array_equal(gradient(complexes.real, Z), np.ones(4))
    np.testing.assert_array_equal(gradient(complexes.imag, Z), np.full(4, 1j))
    np.testing.assert_allclose(gradient(complexes.angle, Z), 1j * Z / np.abs(Z) ** 2)
    weights = np.array([1j, 2.0, 1.0 - 1j, 0.5])
    np.testing.assert_array_equal(gradient(complexes.conj, Z, weights), weights.conj())
    np.testing.assert_allclose(gradient(lambda z: gt.real(z * gt.conj(z)), Z), 2 * Z)


def test_real_operands():
    x = np.array([-1.5, 0.0, 2.0])
    np.testing.assert_array_equal(gradient(complexes.abs, x), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(gradient(complexes.real, x), np.ones(3))
    np.testing.assert_array_equal(gradient(complexes.conj, x), np.ones(3))
    for name in ("imag", "sign", "angle"):
        np.testing.assert_array_equal(gradient(getattr(complexes, name), x), np.zeros(3))


def test_results_are_handles_of_their_own():
    x = gt.asarray([1.0, 2.0])
    y = complexes.real(x)
    y += 1.0
    assert x.tolist() == [1.0, 2.0]


def test_large_and_small_numbers():
    z = np.array([3e200 + 4e200j, 3e-200 + 4e-200j])
    np.testing.assert_allclose(gradient(complexes.abs, z), [0.6 + 0.8j] * 2)
    np.testing.assert_allclose(gradient(complexes.angle, z * 1e-100)[0], (-0.8 + 0.6j) / 5e100)


def test_edges():
    assert math.isnan(float(complexes.abs(np.nan)))
    assert float(complexes.abs(complex(-np.inf, 1.0))) == np.inf
    assert float(complexes.angle(-1.0)) == math.pi
    assert math.isnan(float(complexes.angle(np.nan)))
    assert complexes.real(True).dtype == bool


@pytest.mark.parametrize("name", ["abs", "sign"])
def test_booleans_are_refused(name):
    with pytest.raises(DtypeError, match=f"{name}: dtype bool is not accepted"):
        getattr(complexes, name)([True])
