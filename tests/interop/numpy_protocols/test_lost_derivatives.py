"""A tensor that a live tape tracks does not become an array or a number without a word."""

import math
import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import LostDerivativeError

X = gt.asarray([0.3, 0.7])

ARRAYS = {
    "np.array of a list": lambda x: np.array([x[0] * 2.0, x[1]]),
    "np.mean of a list": lambda x: np.mean([x[0], x[1]]),
    "np.linalg.norm of a list": lambda x: np.linalg.norm([x[0], x[1]]),
    "np.r_": lambda x: np.r_[x, x],
    "np.asarray": lambda x: np.asarray(x * x),
    "np.asarray of the argument": lambda x: np.asarray(x),
    "np.asarray of a view": lambda x: np.asarray(x[:1]),
    "np.histogram": lambda x: np.histogram(x),
    "a list in a ufunc": lambda x: np.sin([x[0]]),
    "dlpack": lambda x: np.from_dlpack(x),
    "an element of an array": lambda x: np.zeros(2).__setitem__(slice(None), x),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_tracked_tensor_does_not_become_an_array(name):
    with pytest.raises(LostDerivativeError, match=r"x\.numpy\(\)"):
        gt.grad(lambda x: gt.sum(gt.asarray(ARRAYS[name](x))))(X)
    with gt.GradientTape() as tape:
        tape.watch(X)
        with pytest.raises(LostDerivativeError):
            ARRAYS[name](X)
    v = gt.Variable([0.3, 0.7])
    with gt.GradientTape(), pytest.raises(LostDerivativeError):
        ARRAYS[name](v.value)
    ARRAYS[name](v.value)


def test_scipy_functions():
    stats = pytest.importorskip("scipy.stats")
    linalg = pytest.importorskip("scipy.linalg")
    with gt.GradientTape() as tape:
        tape.watch(X)
        with pytest.raises(LostDerivativeError):
            stats.norm.pdf(X)
        with pytest.raises(LostDerivativeError):
            linalg.expm(gt.outer(X, X))
    assert stats.norm.pdf(X).shape == (2,)


@pytest.mark.parametrize(
    "allowed",
    [
        lambda x: (x * x).numpy(),
        lambda x: np.asarray(gt.stop_gradient(x)),
        lambda x: np.asarray(gt.asarray([1.0])),
        lambda x: np.asarray(x > 0.5),
        lambda x: np.asarray(gt.argmax(x)),
        lambda x: np.array_equal(x, x),
        lambda x: f"{x[0]:.2f} {x}",
    ],
)
def test_values_may_leave(allowed):
    with gt.GradientTape() as tape:
        tape.watch(X)
        allowed(X)
    gt.grad(lambda x: (allowed(x), gt.sum(x))[1])(X)


def test_tapes_that_do_not_record_do_not_track():
    with gt.GradientTape(persistent=True) as outer:
        with gt.GradientTape(persistent=True) as inner:
            inner.watch(X)
            y = X * X
        assert np.asarray(y).tolist() == y.tolist()
    with gt.GradientTape() as tape:
        tape.watch(X)
        z = X * X
        with tape.stop_recording():
            np.asarray(z)
    assert outer.watched_variables() == ()


NUMBERS = {
    "float": lambda x: float(x[0]),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist()[0],
    "math": lambda x: math.sin(x[0]),
    "complex": lambda x: complex(x[0]).real,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("transform", [gt.grad, gt.jacobian, gt.hessian, gt.value_and_grad])
def test_a_number_warns_with_the_line(name, transform):
    with pytest.warns(UserWarning, match="no derivative") as caught:
        transform(lambda x: NUMBERS[name](x) * x[1])(X)
    assert caught[0].filename == __file__
    assert NUMBERS[name].__code__.co_firstlineno == caught[0].lineno


def test_it_warns_once_per_line():
    def f(x):
        total = x[0] * 0.0
        for _ in range(3):
            total = total + float(x[0]) * x[1]
        return total

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        gt.grad(f)(X)
    assert len(caught) == 1


def test_numbers_are_silent_where_nothing_is_lost():
    with gt.GradientTape() as tape:
        tape.watch(X)
        assert float(X[0]) == 0.3  # logging in the user's own tape
    gt.grad(lambda x: x[0] * (2.0 if x[1] > 0.5 else 1.0))(X)
    gt.grad(lambda x: x[0] * X[0].item())(X)


def test_tensorflow_allows_it_with_a_warning():
    tf = gt.tf
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape, pytest.warns(UserWarning, match="no derivative"):
        y = tf.reduce_sum(v * np.asarray(v * 2.0))
    assert tape.gradient(y, v).numpy().tolist() == [2.0, 4.0]
