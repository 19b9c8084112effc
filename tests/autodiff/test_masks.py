"""The branch of a `where` that is not taken sends back no NaN, at any order."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.testing import check_gradients


def gradient(f, *values):
    sources = [gt.asarray(value) for value in values]
    with gt.GradientTape() as tape:
        tape.watch(sources)
        target = f(*sources)
    return [None if found is None else found.numpy() for found in tape.gradient(target, sources)]


def second_gradients(f, value, direction):
    """The derivative of `<direction, gradient>` in reverse and in forward mode."""
    x, v = gt.asarray(value), gt.asarray(direction)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        slope = gt.sum(inner.gradient(y, x) * v)
    backward = outer.gradient(slope, x).numpy()
    with gt.ForwardAccumulator(x, v) as accumulator:
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        slope = inner.gradient(y, x)
    return backward, accumulator.jvp(slope).numpy()


def normalized(x):
    n = gt.sqrt(gt.sum(x * x))
    return gt.sum(gt.where(n > 0.0, x / n, 0.0))


def test_normalizing_zero_has_gradient_zero():
    (found,) = gradient(normalized, np.zeros(3))
    assert found.tolist() == [0.0, 0.0, 0.0]


def test_normalizing_zero_has_second_gradient_zero():
    for found in second_gradients(normalized, np.zeros(3), np.array([1.0, 2.0, 3.0])):
        assert found.tolist() == [0.0, 0.0, 0.0]


def test_normalizing_elsewhere_is_untouched():
    check_gradients(normalized, np.array([1.0, -2.0, 0.5]))


def test_rows_are_masked_one_by_one():
    def rows(x):
        n = gt.sqrt(gt.sum(x * x, axis=1, keepdims=True))
        return gt.where(n > 0.0, x / n, 0.0)

    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    (found,) = gradient(rows, x)
    (alone,) = gradient(rows, x[1:])
    assert found[0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found[1:], alone)
    for second in second_gradients(rows, x, np.ones((2, 2))):
        assert np.isfinite(second).all()
        assert second[0].tolist() == [0.0, 0.0]


UNSAFE = {
    "sqrt": (lambda x: gt.where(x > 0.0, gt.sqrt(x), 0.0), lambda x: 0.5 / np.sqrt(x)),
    "log": (lambda x: gt.where(x > 0.0, gt.log(x) * x, 0.0), lambda x: np.log(x) + 1.0),
    "reciprocal": (lambda x: gt.where(x > 0.0, 1.0 / x, 0.0), lambda x: -1.0 / x**2),
    "overflow": (
        lambda x: gt.where(x > 0.0, gt.exp(-x), gt.stop_gradient(x)) + 0.0 * x,
        lambda x: -np.exp(-x),
    ),
    "below": (lambda x: gt.where(x <= 0.0, 0.0, gt.sqrt(gt.log(x + 1.0))), None),
    "nested": (
        lambda x: gt.where(x > 0.0, gt.where(x > 0.5, gt.log(x), gt.sqrt(x)), 0.0),
        lambda x: np.where(x > 0.5, 1.0 / x, 0.5 / np.sqrt(np.abs(x))),
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_branch_not_taken(name):
    f, expected = UNSAFE[name]
    x = np.array([0.0, 0.25, -1000.0, 2.0])
    (found,) = gradient(f, x)
    assert found[[0, 2]].tolist() == [0.0, 0.0]
    assert np.isfinite(found).all()
    if expected is not None:
        np.testing.assert_allclose(found[[1, 3]], expected(x[[1, 3]]))
    for second in second_gradients(f, x, np.ones(4)):
        assert np.isfinite(second).all()
        assert second[[0, 2]].tolist() == [0.0, 0.0]


def test_operand_shared_with_a_masked_element():
    """A broadcast operand gets its cotangent from kept elements only."""
    x, s = np.array([-1.0, 0.0, 2.0]), 3.0
    by_x, by_s = gradient(lambda x, s: gt.where(x > 0.0, gt.log(x) * s, 0.0), x, s)
    np.testing.assert_allclose(by_x, [0.0, 0.0, 1.5])
    np.testing.assert_allclose(by_s, np.log(2.0))


def test_accumulation_joins_masks():
    """Two uses with different masks: each keeps its own elements."""

    def f(x):
        root = gt.sqrt(x)
        return gt.where(x > 1.0, root, 0.0) + gt.where(x > 2.0, 10.0 * root, 0.0)

    x = np.array([0.0, 1.5, 4.0])
    (found,) = gradient(f, x)
    np.testing.assert_allclose(found, [0.0, 0.5 / np.sqrt(1.5), 11 * 0.25])


def test_taken_branch_may_be_infinite():
    (found,) = gradient(lambda x: gt.where(x >= 0.0, gt.sqrt(x), 0.0), np.array([0.0, -1.0]))
    assert found.tolist() == [np.inf, 0.0]


def test_forward_mode_takes_the_branch_too():
    x = gt.asarray([0.0, 4.0])
    with gt.ForwardAccumulator(x, gt.asarray([1.0, 1.0])) as accumulator:
        y = gt.where(x > 0.0, gt.sqrt(x), 0.0)
    assert accumulator.jvp(y).tolist() == [0.0, 0.25]
