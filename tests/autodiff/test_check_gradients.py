"""check_gradients passes what is right, and says what is wrong where it is not."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.op import Op
from gradtape.testing import check_gradients
from gradtape.trace.record import record

X = np.array([0.5, -1.5, 2.0])


def square_with(**rules):
    """x² with rules of one's own."""
    op = Op("square_with", "elementwise", spec=lambda x: x, numpy=lambda x: x * x, **rules)
    return lambda x: record(op, (x,))


def right(factor, inputs):
    return factor * (2.0 * inputs[0])


def wrong(factor, inputs):
    return factor * (2.1 * inputs[0])


def jvp(rule):
    return lambda tangents, y, inputs: rule(tangents[0], inputs)


def vjp(rule):
    return lambda index, g, y, inputs: rule(g, inputs)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x * x, (3.0,)),
        (lambda x: gt.sum(gt.sin(x) * x), (X,)),
        (lambda x, y: x * y, (X, gt.asarray(2.0))),
        (lambda x, n: x * n, (X, np.array([1, 2, 3]))),
        (lambda z: z * gt.exp(z), (X + 0.5j,)),
        (lambda z: gt.sum(gt.real(z * gt.conj(z))), (X + 0.5j,)),
        (lambda d: [d["a"] * d["b"][0], {"c": gt.sin(d["b"][1])}], ({"a": X, "b": [2.0, X]},)),
        (lambda x: x * gt.exp(-x), (X.astype(np.float32),)),
        (lambda x: (x, x > 0.0), (X,)),
        (lambda x: x * x, (np.zeros((0, 2)),)),
        (lambda x: 1e8 + x, (X,)),
    ],
)
def test_right_derivatives_pass(f, args):
    check_gradients(f, *args)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_orders(order):
    check_gradients(lambda x: gt.sin(x) * x, X, order=order)


def test_wrong_forward_rule():
    f = square_with(jvp=jvp(wrong), vjp=vjp(right))
    with pytest.raises(AssertionError, match=r"argument 0, order 1, forward at \(\d,\): expected"):
        check_gradients(f, X)
    with pytest.raises(AssertionError, match=r"error [\d.e-]+ exceeds tolerance [\d.e-]+\."):
        check_gradients(f, X)
    check_gradients(f, X, modes=("reverse",))


def test_wrong_reverse_rule():
    f = square_with(jvp=jvp(right), vjp=vjp(wrong))
    with pytest.raises(AssertionError, match="argument 0, order 1, reverse"):
        check_gradients(f, X)
    check_gradients(f, X, modes=("forward",))


@pytest.mark.parametrize(
    ("mode", "title"),
    [("forward", "order 2, forward over forward"), ("reverse", "order 2, reverse over reverse")],
)
def test_wrong_second_derivative(mode, title):
    def stopped(factor, inputs):
        return factor * (2.0 * gt.stop_gradient(inputs[0]))

    f = square_with(jvp=jvp(stopped), vjp=vjp(stopped))
    check_gradients(f, X, order=1)
    with pytest.raises(AssertionError, match=title):
        check_gradients(f, X, modes=(mode,))


def test_the_faulty_argument_is_named():
    f = square_with(jvp=jvp(wrong))
    with pytest.raises(AssertionError, match="argument 1, order 1"):
        check_gradients(lambda x, y: x * f(y), X, X)
    with pytest.raises(AssertionError, match="argument 0, leaf 1, order 1"):
        check_gradients(lambda pair: pair[0] * f(pair[1]), [X, X])


def test_missing_conjugate_is_found():
    def holomorphic(factor, inputs):
        return factor * (2.0 * inputs[0])

    f = square_with(jvp=jvp(holomorphic), vjp=vjp(holomorphic))
    check_gradients(f, X)
    with pytest.raises(AssertionError, match="reverse"):
        check_gradients(f, X + 0.5j)


def test_shape_or_dtype_of_a_gradient_is_checked():
    f = square_with(jvp=jvp(right), vjp=lambda index, g, y, inputs: gt.sum(g * inputs[0]) * 2.0)
    with pytest.raises(AssertionError, match=r"the gradient is float64 of shape \(\)"):
        check_gradients(f, X)


def test_values_must_be_finite():
    with pytest.raises(AssertionError, match="the value is not finite"):
        check_gradients(gt.log, np.array([0.0]))
    with pytest.raises(AssertionError, match=r"not finite|expected"):
        check_gradients(gt.sqrt, np.array([1e-12, 1.0]))


def test_tolerances_can_be_given():
    f = square_with(jvp=jvp(wrong))
    check_gradients(f, X, atol=1.0, rtol=1.0)
    with pytest.raises(AssertionError, match="exceeds tolerance 1e-15"):
        check_gradients(lambda x: gt.sin(x), X, atol=1e-15, rtol=0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"modes": ("sideways",)}, "sideways"), ({"modes": ()}, "modes"), ({"order": 0}, "order 0")],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        check_gradients(lambda x: x, X, **options)


def test_something_must_be_differentiable():
    with pytest.raises(ValueError, match="no argument is a float"):
        check_gradients(lambda n: n * 1.0, np.array([1, 2]))
    with pytest.raises(ValueError, match="no result is a float"):
        check_gradients(lambda x: x > 0.0, X)
