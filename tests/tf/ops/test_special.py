"""Special functions with their derivatives. Numbers are TensorFlow's."""

import numpy as np
import pytest

import gradtape.tf as tf
from gradtape import extend
from gradtape.tf.ops import special


def value_and_slopes(function, *numbers):
    operands = [tf.constant(number, tf.float64) for number in numbers]
    with tf.GradientTape() as tape:
        tape.watch(operands)
        y = function(*operands)
    return float(y), [None if g is None else float(g) for g in tape.gradient(y, operands)]


AT_0_7 = [
    ("bessel_i0e", 0.5593055265070683, -0.37463554374432095),
    ("bessel_i1e", 0.18466998276274738, 0.11082128265468177),
    ("bessel_j0", 0.8812008886074052, -0.3289957415400589),
    ("bessel_j1", 0.3289957415400589, 0.41120697212160673),
    ("bessel_k0", 0.6605198599151016, -1.050283535312918),
    ("bessel_k0e", 1.330123656242056, -0.7848876566059968),
    ("bessel_k1", 1.050283535312918, -2.1609249103621275),
    ("bessel_k1e", 2.1150113128480528, -2.2365570760340785),
    ("bessel_y0", -0.1906649293373951, 1.1032498719076336),
    ("bessel_y1", -1.1032498719076336, 1.3854063162449388),
    ("dawsn", 0.5105040575592318, 0.2852943194170755),
    ("expint", 1.0649071946242903, 2.876789582100681),
    ("fresnel_cos", 0.6596523519045103, 0.7181262977631889),
    ("fresnel_sin", 0.17213645786347742, 0.6959127965923142),
    ("spence", 0.3261295100754763, -1.1889164797957747),
]


@pytest.mark.parametrize(("name", "value", "slope"), AT_0_7)
def test_of_one_operand(name, value, slope):
    found, slopes = value_and_slopes(getattr(tf.math.special, name), 0.7)
    assert found == pytest.approx(value, rel=1e-12)
    assert slopes == [pytest.approx(slope, rel=1e-12)]


@pytest.mark.parametrize(
    ("function", "operands", "value", "slopes"),
    [
        (tf.math.igamma, (2.0, 0.5), 0.09020401043104986, [-0.1510342369, 0.3032653298563167]),
        (tf.math.igammac, (2.0, 0.5), 0.9097959895689501, [0.1510342369, -0.3032653298563167]),
        (tf.math.zeta, (3.0, 2.0), 0.2020569031595943, [None, -0.24696970113341465]),
        (tf.math.betainc, (2.0, 3.0, 0.1), 0.0523, [None, None, 0.972]),
    ],
)  # fmt: skip
def test_relatives_of_gamma(function, operands, value, slopes):
    found, given = value_and_slopes(function, *operands)
    assert found == pytest.approx(value, rel=1e-12)
    assert [g is None for g in given] == [s is None for s in slopes]
    for g, s in zip(given, slopes, strict=True):
        assert g is None or g == pytest.approx(s, rel=1e-9)


@pytest.mark.parametrize(
    "function",
    [special._DAWSN, special._EXPINT, special._SPENCE, special._FRESNEL_COS, special._FRESNEL_SIN],
)
def test_every_rule(function):
    extend.check(function)


def test_lbeta():
    assert tf.math.lbeta([1.0, 2.0]).numpy() == pytest.approx(-0.6931472, rel=1e-6)
    assert tf.math.lbeta([[1.0, 2.0], [2.0, 2.0]]).shape == [2]


def test_orders_of_polygamma_may_differ():
    found = tf.math.polygamma([1.0, 2.0], [0.5, 2.0])
    np.testing.assert_allclose(found, [4.934802, -0.40411383], rtol=1e-6)


def test_order():
    assert bool(tf.math.is_non_decreasing([1, 1, 2]))
    assert not bool(tf.math.is_strictly_increasing([1, 1, 2]))
    assert bool(tf.math.is_strictly_increasing([]))


def test_dtypes():
    assert tf.math.igamma(2.0, [0.5, 2.0]).dtype == tf.float32
    assert tf.math.betainc(2.0, 3.0, [0.1, 0.5]).dtype == tf.float32
    with pytest.raises(TypeError):
        tf.math.special.dawsn(1)
