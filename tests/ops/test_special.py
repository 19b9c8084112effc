"""Special functions against mpmath, their derivatives at every order, and their edges."""

import math

import mpmath
import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.ops.elementwise import bessel, special
from gradtape.testing import check_gradients

INF, NAN = np.inf, np.nan


def derivatives(f, x, order):
    """f and its derivatives at x, by tapes nested `order` deep."""
    x = gt.asarray(x)
    if order == 0:
        return [f(x).numpy()]

    def derivative(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return [f(x).numpy(), *derivatives(derivative, x, order - 1)]


def mp_sinc(x):
    return mpmath.sincpi(x)


REFERENCES = {
    "erf": (special.erf, mpmath.erf, [-3.0, -0.5, 0.0, 1e-9, 0.7, 4.0]),
    "erfc": (special.erfc, mpmath.erfc, [-2.0, 0.0, 0.5, 5.0, 20.0]),
    "erfinv": (special.erfinv, mpmath.erfinv, [-0.99, -0.3, 0.0, 1e-9, 0.5, 0.999]),
    "ndtr": (special.ndtr, mpmath.ncdf, [-10.0, -1.0, 0.0, 2.0]),
    "lgamma": (
        special.lgamma,
        lambda x: mpmath.log(abs(mpmath.gamma(x))),
        [-2.5, 0.1, 0.9, 3.7, 50.0],
    ),
    "digamma": (special.digamma, mpmath.digamma, [-2.5, 0.1, 1.0, 7.3]),
    "trigamma": (
        lambda x: special.polygamma(1, x),
        lambda x: mpmath.polygamma(1, x),
        [-2.5, 0.1, 1.0, 7.3],
    ),
    "polygamma": (
        lambda x: special.polygamma(4, x),
        lambda x: mpmath.polygamma(4, x),
        [-0.5, 0.2, 1.0, 30.0],
    ),
    "sinc": (special.sinc, mp_sinc, [-2.5, -0.1, 0.0, 1e-9, 0.2, 0.33, 1.7, 10.25]),
    "i0": (bessel.i0, lambda x: mpmath.besseli(0, x), [-3.0, 0.0, 0.5, 10.0]),
    "i1": (bessel.i1, lambda x: mpmath.besseli(1, x), [-3.0, 0.0, 0.5, 10.0]),
    "log_sigmoid": (
        special.log_sigmoid,
        lambda x: -mpmath.log1p(mpmath.exp(-x)),
        [-30.0, -1.0, 0.0, 2.0, 30.0],
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_agree_with_mpmath(name, dtype):
    f, reference, points = REFERENCES[name]
    x = np.array(points, dtype)
    found = f(x)
    assert found.dtype == dtype
    with mpmath.workdps(40):
        expected = [float(reference(mpmath.mpf(float(point)))) for point in x]
    tolerance = 2e-14 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance * 1e-2)
    assert f(x[0]).shape == ()
    assert f(x[:0]).shape == (0,)


@pytest.mark.parametrize("name", REFERENCES)
def test_derivatives_agree_with_mpmath(name):
    f, reference, points = REFERENCES[name]
    x = np.array(points)
    _, first, second = derivatives(f, x, 2)
    with mpmath.workdps(40):
        for order, found in ((1, first), (2, second)):
            expected = [float(mpmath.diff(reference, mpmath.mpf(p), order)) for p in points]
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("point", [0.0, 1e-300, 1e-8, -0.01, 0.2, 0.3183, 0.32, 0.6, -1.0, 3.25])
def test_sinc_derivatives_of_many_orders(point):
    found = [float(value) for value in derivatives(special.sinc, point, 7)]
    with mpmath.workdps(60):
        expected = [float(mpmath.diff(mp_sinc, mpmath.mpf(point), n)) for n in range(8)]
    # Derivatives of order n are at most πⁿ / (n + 1).
    for order, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one == pytest.approx(other, rel=1e-11, abs=2e-14 * math.pi**order), order


def test_sinc_derivatives_at_zero():
    found = derivatives(special.sinc, np.zeros(2), 4)
    expected = [1.0, 0.0, -(math.pi**2) / 3, 0.0, math.pi**4 / 5]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, [other, other], rtol=1e-15)


def test_sinc_agrees_with_numpy():
    x = np.linspace(-5, 5, 101)
    np.testing.assert_allclose(special.sinc(x), np.sinc(x), atol=1e-15)
    np.testing.assert_allclose(special.sinc(x + 0.3j), np.sinc(x + 0.3j), atol=1e-14)
    check_gradients(special.sinc, np.array([0.0, 0.1 + 0.2j, 1.5 - 1j]))


def test_derivative_by_complex_step():
    x = np.array([-0.7, 0.0, 1.3])
    step = 1e-30
    expected = np.sinc(x[[0, 2]] + 1j * step).imag / step
    found = derivatives(special.sinc, x, 1)[1]
    np.testing.assert_allclose(found[[0, 2]], expected, rtol=1e-13)


def test_bessel_chain_at_zero():
    found = [float(value) for value in derivatives(bessel.i0, 0.0, 4)]
    assert found == [1.0, 0.0, 0.5, 0.0, 0.375]


def test_edges():
    np.testing.assert_array_equal(special.erf([-INF, INF, NAN]), [-1.0, 1.0, NAN])
    np.testing.assert_array_equal(special.erfinv([-1.0, 1.0, 2.0]), [-INF, INF, NAN])
    np.testing.assert_array_equal(special.lgamma([0.0, -1.0, INF]), [INF, INF, INF])
    np.testing.assert_array_equal(special.log_sigmoid([-1e4, 1e4, -INF]), [-1e4, 0.0, -INF])
    assert derivatives(special.erf, INF, 1)[1] == 0.0
    assert derivatives(special.log_sigmoid, -1e4, 1)[1] == 1.0


def test_multiply_no_nan():
    x, y = np.array([-np.inf, NAN, 2.0, np.inf]), np.array([0.0, 0.0, 3.0, -1.0])
    np.testing.assert_array_equal(special.multiply_no_nan(x, y), [0.0, 0.0, 6.0, -np.inf])
    a = gt.asarray(x)
    with gt.GradientTape() as tape:
        tape.watch(a)
        total = special.multiply_no_nan(a, y)
    assert tape.gradient(total, a).tolist() == y.tolist()
    check_gradients(special.multiply_no_nan, np.array([0.5, 1.5]), np.array([0.0, 0.5]))


def test_xlogy():
    x, y = np.array([0.0, 0.0, 2.0, 0.0]), np.array([0.0, 3.0, 0.5, NAN])
    np.testing.assert_array_equal(special.xlogy(x, y), [0.0, 0.0, 2.0 * np.log(0.5), NAN])
    assert special.xlogy(np.float32(2.0), np.ones(2, np.float32)).dtype == np.float32
    a, b = gt.asarray(x[:3]), gt.asarray(y[:3])
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        total = special.xlogy(a, b)
    da, db = tape.gradient(total, [a, b])
    np.testing.assert_allclose(da.numpy(), [-INF, np.log(3.0), np.log(0.5)])
    np.testing.assert_array_equal(db.numpy(), [0.0, 0.0, 4.0])
    # At x = 0 the mixed derivative is 1 / y, not 0.
    check_gradients(special.xlogy, np.array([0.0, 1.5]), np.array([3.0, 0.5]))


def test_polygamma_orders():
    assert float(special.polygamma(0, 2.0)) == float(special.digamma(2.0))
    with pytest.raises(TypeError, match=r"polygamma: order 1.5 is not an integer"):
        special.polygamma(1.5, 2.0)
    with pytest.raises(ValueError, match="polygamma: order -1 is negative"):
        special.polygamma(-1, 2.0)


def test_integers_become_floats():
    assert special.erf([1, 2]).dtype == np.float64
    assert special.sinc(np.array([1, 2])).dtype == np.float64


@pytest.mark.parametrize("name", ["erf", "lgamma", "digamma", "i0"])
def test_complex_is_refused(name):
    with pytest.raises(DtypeError, match="complex128 is not accepted"):
        getattr(gt, name)(1j)
