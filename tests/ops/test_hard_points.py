"""Values and derivatives in tails, near singular points, and of huge and tiny arguments.

The reference values were computed with mpmath to 50 digits.
"""

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf


def gelu_by_tanh(x):
    return gt.nn.gelu(x, approximate=True)


# Function, argument, and the value, first and second derivative; None where it is out of range.
POINTS = [
    (gt.sigmoid, 40.0, 1.0, 4.248354255291589e-18, -4.248354255291589e-18),
    (gt.sigmoid, -40.0, 4.248354255291589e-18, 4.248354255291589e-18, 4.248354255291589e-18),
    (gt.sigmoid, 700.0, 1.0, 9.85967654375977e-305, -9.85967654375977e-305),
    (gt.sigmoid, 1e-08, 0.5000000025, 0.25, -1.25e-09),
    (gt.sigmoid, 30.0, 0.9999999999999064, 9.357622968838423e-14, -9.357622968836672e-14),
    (gt.tanh, 20.0, 1.0, 1.6993417021166355e-17, -3.398683404233271e-17),
    (gt.tanh, -20.0, -1.0, 1.6993417021166355e-17, 3.398683404233271e-17),
    (gt.tanh, 350.0, 1.0, 3.943870617503908e-304, -7.887741235007817e-304),
    (gt.tanh, 1e-08, 1e-08, 0.9999999999999999, -1.9999999999999997e-08),
    (gt.tanh, 9.0, 0.999999969540041, 6.091991712323229e-08, -1.2183983053522824e-07),
    (gt.softplus, -40.0, 4.248354255291589e-18, 4.248354255291589e-18, 4.248354255291589e-18),
    (gt.softplus, 40.0, 40.0, 1.0, 4.248354255291589e-18),
    (gt.log_sigmoid, 40.0, -4.248354255291589e-18, 4.248354255291589e-18, -4.248354255291589e-18),
    (gt.log_sigmoid, -40.0, -40.0, 1.0, -4.248354255291589e-18),
    (gt.asinh, 1e200, 461.2101657793691, 1e-200, None),
    (gt.asinh, -1e300, -691.4686750787737, 1e-300, None),
    (gt.asinh, 1e25, 58.257774505411085, 9.999999999999999e-26, -9.999999999999998e-51),
    (gt.asinh, 1e-200, 1e-200, 1.0, -1e-200),
    (gt.log2, 1e-307, -1019.8319251304202, 1.4426950408889635e307, None),
    (gt.log2, 1e300, 996.5784284662087, 1.4426950408889634e-300, None),
    (gt.log10, 1e-307, -307.0, 4.3429448190325184e306, None),
    (gt.sinc, 12345.25, -1.823203896553545e-05, -5.72761628276124e-05, 0.0001799522910759068),
    (gt.erfcinv, 1e-300, 26.209469960516124, -1.9063218669084349e298, None),
    (gt.erfcinv, 1e-20, 6.601580622355143, -7.489880193897079e18, 7.406749706808445e38),
    (gt.erfcinv, 1.75, -0.8134198475976185, -1.7174997693674523, -4.798860611815591),
    (gt.ndtri, 1e-300, -37.0470962993612, 2.697304465042612e298, None),
    (gt.ndtri, 1e-20, -9.262340089798407, 1.0674725333014e19, -1.0554414389338887e39),
    (gt.ndtri, 0.75, 0.6744897501960817, 3.1468650805610925, 6.679310007532782),
    (gt.nn.silu, -40.0, -1.6993417021166355e-16, -1.6568581595637197e-16, -1.6143746170108038e-16),
    (gt.nn.silu, 40.0, 40.0, 1.0000000000000002, -1.6143746170108038e-16),
    (gelu_by_tanh, -4.0, -7.024594819237271e-05, -0.00033512319712267083, -0.0014740596637653368),
    (gt.log1p, 1e-200, 1e-200, 1.0, -1.0),
    (gt.log1p, -0.5, -0.6931471805599453, 2.0, -4.0),
    (gt.expm1, 1e-200, 1e-200, 1.0, 1.0),
    (gt.expm1, -40.0, -1.0, 4.248354255291589e-18, 4.248354255291589e-18),
    (gt.atanh, 1e-200, 1e-200, 1.0, 2e-200),
    (gt.atanh, 0.9990234375, 3.8120652928306447, 512.2501221299462, 524287.8748778402),
    (gt.ndtr, -8.0, 6.220960574271784e-16, 5.052271083536892e-15, 4.0418168668295136e-14),
]
# Scaled Bessel functions, Dawson's integral and Spence's: their plain recurrences cancel here.
SPECIAL = tf.math.special
i0e, i1e, k0e = SPECIAL.bessel_i0e, SPECIAL.bessel_i1e, SPECIAL.bessel_k0e
k1e, k1, dawsn, spence = SPECIAL.bessel_k1e, SPECIAL.bessel_k1, SPECIAL.dawsn, SPECIAL.spence
FAR_POINTS = [
    (i0e, 25.0, 0.0801967735474367, -0.0016206602281439364, 9.82759235161619e-05),
    (i0e, 1000.5, 0.012614086539375468, -6.305468086126041e-06, 9.455841128300321e-09),
    (i0e, -1e8, 3.989422809001105e-05, 1.9947114094873313e-13, 2.9920671217111648e-21),
    (i1e, -40.0, -0.062482229074442064, -0.000766004926067782, -2.8155641597733327e-05),
    (i1e, 1e5, 0.0012615615301218171, -6.307760341578615e-09, 9.461569548526527e-14),
    (k0e, 0.5, 1.5241093857739094, -1.2069003224378763, 3.048218771547819),
    (k0e, 1e5, 0.003963322343474756, -1.9816562176339892e-08, 2.972476895351634e-13),
    (k1e, 31.0, 0.2277981625945925, -0.0037603026503144196, 0.0001860654435820938),
    (k1e, 1e8, 0.0001253314142015428, -6.266570757076421e-13, 9.39985620611355e-21),
    (k1, 700.5, 2.8333721541793952e-306, -2.8353967090835338e-306, 2.837425603850283e-306),
    (dawsn, 5.0, 0.10213407442427684, -0.021340744242768356, 0.009139293579129872),
    (dawsn, -30.0, -0.016675941401059175, -0.000556484063550548, -3.716101091452277e-05),
    (dawsn, 1e5, 5.00000000025e-06, -5.00000000075e-11, 1.0000000003e-15),
    (spence, 1.0, 0.0, -1.0, 0.5),
    (spence, 1.0078125, -0.007797293961171197, -0.9961139765830335, 0.4948370646437874),
    (spence, 0.25, 0.9784693929303061, -1.8483924814931876, 2.86881002467575),
]
INF = np.inf
# Both arguments, some infinite, and the limits of the partial derivatives there.
LIMITS = [
    (gt.logaddexp, -INF, -INF, 0.5, 0.5),
    (gt.logaddexp, INF, INF, 0.5, 0.5),
    (gt.logaddexp, -INF, 3.0, 0.0, 1.0),
    (gt.hypot, -INF, 2.0, -1.0, 0.0),
    (gt.hypot, 2.0, INF, 0.0, 1.0),
    (gt.atan2, 1.0, -INF, 0.0, 0.0),
    (gt.atan2, INF, 0.0, 0.0, 0.0),
    (gt.atan2, INF, INF, 0.0, 0.0),
    (gt.pow, 0.0, INF, 0.0, 0.0),
    (gt.pow, 2.5, -INF, 0.0, 0.0),
    (gt.pow, INF, -1.0, 0.0, 0.0),
    (gt.pow, INF, -INF, 0.0, 0.0),
]
# One argument, the value and the derivative.
ENDS = [
    (gt.i0, INF, INF, INF),
    (gt.i0, -INF, INF, -INF),
    (gt.i1, -INF, -INF, INF),
    (SPECIAL.bessel_j0, -INF, 0.0, 0.0),
    (SPECIAL.bessel_j1, INF, 0.0, 0.0),
    (SPECIAL.bessel_y1, 0.0, -INF, INF),
    (i0e, INF, 0.0, 0.0),
    (i1e, -INF, 0.0, 0.0),
    (k0e, 0.0, INF, -INF),
    (k1e, INF, 0.0, 0.0),
    (dawsn, INF, 0.0, 0.0),
    (SPECIAL.expint, INF, INF, INF),
]
# Both arguments, and the partial derivatives.
PAIRS = [
    (gt.atan2, 1e-200, 1e-200, 5e199, -5e199),
    (gt.atan2, 3e200, 4e200, 1.6e-201, -1.2e-201),
    (gt.atan2, 3e-300, -4e-300, -1.6e299, -1.2e299),
    (gt.hypot, 3e-300, 4e-300, 0.6, 0.8),
    (gt.hypot, 3e300, 4e300, 0.6, 0.8),
    (gt.logaddexp, 800.0, -800.0, 1.0, 0.0),
    (gt.logaddexp, 0.0, 40.0, 4.248354255291589e-18, 1.0),
]


def close(found, expected, rounding):
    # The condition of these functions is at most that of exp at -40.
    np.testing.assert_allclose(found, expected, rtol=200 * rounding, atol=0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("f", "x", "value", "slope", "curvature"),
    [pytest.param(*point, id=f"{point[0].__name__}-{point[1]}") for point in POINTS],
)
def test_of_one_argument(f, x, value, slope, curvature, compiled):
    functions = [f, gt.grad(f), gt.grad(gt.grad(f)), lambda x: gt.jvp(f, (x,), (1.0,))[1]]
    for function, expected in zip(functions, (value, slope, curvature, slope), strict=True):
        if expected is None:
            continue
        made = gt.function(function) if compiled else function
        for _ in range(3 if compiled else 1):
            found = made(gt.asarray(x))
        close(float(found), expected, np.finfo(float).eps)


@pytest.mark.parametrize(("f", "x", "value", "slope", "curvature"), POINTS)
def test_in_float32(f, x, value, slope, curvature):
    if abs(x) > 1e38 or float(np.float32(x)) != x or slope is None or not 1e-30 < abs(slope) < 1e30:
        return
    close(float(gt.grad(f)(np.float32(x))), slope, np.finfo(np.float32).eps)


@pytest.mark.parametrize(("f", "x", "y", "by_x", "by_y"), PAIRS)
def test_of_two_arguments(f, x, y, by_x, by_y):
    for found in (gt.grad(f, (0, 1))(x, y), gt.function(gt.grad(f, (0, 1)))(x, y)):
        close([float(one) for one in found], [by_x, by_y], np.finfo(float).eps)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_norm_of_huge_and_tiny_numbers(scale):
    x = np.array([3.0, 4.0]) * scale
    np.testing.assert_allclose(float(gt.norm(gt.asarray(x))), 5.0 * scale, rtol=1e-15)
    np.testing.assert_allclose(gt.grad(gt.norm)(x).numpy(), [0.6, 0.8], rtol=1e-15)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("f", "x", "y", "by_x", "by_y"), LIMITS)
def test_limits_of_two_arguments(f, x, y, by_x, by_y, compiled):
    slope = gt.grad(f, (0, 1))
    made = gt.function(slope) if compiled else slope
    for _ in range(3 if compiled else 1):
        found = made(gt.asarray(x), gt.asarray(y))
    assert [float(one) for one in found] == [by_x, by_y]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("f", "x", "value", "slope"), ENDS)
def test_limits_of_one_argument(f, x, value, slope, dtype):
    x = np.asarray(x, dtype)
    assert float(f(x)) == value
    assert float(gt.grad(f)(x)) == slope


@pytest.mark.parametrize(("f", "x", "value", "slope", "curvature"), FAR_POINTS)
def test_far_points(f, x, value, slope, curvature):
    close(float(f(np.float64(x))), value, np.finfo(float).eps)
    close(float(gt.grad(f)(np.float64(x))), slope, np.finfo(float).eps)
    # Up to the asymptotic series a second derivative loses digits as the square of x.
    close(float(gt.grad(gt.grad(f))(np.float64(x))), curvature, 1e3 * np.finfo(float).eps)
    if abs(value) > 1e-30 or value == 0.0:
        close(float(gt.grad(f)(np.float32(x))), slope, np.finfo(np.float32).eps)


def test_ties_at_finite_points_keep_their_second_derivatives():
    for f, x, y, curvature in [(gt.logaddexp, 1.0, 1.0, 0.25), (gt.pow, 0.0, 2.0, 2.0)]:
        assert float(gt.grad(gt.grad(f))(x, y)) == curvature
