"""Creation functions against NumPy, and what is structure and what is a leaf."""

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.arrays.creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from gradtape.testing import check_gradients


def assert_same(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3), 4])
@pytest.mark.parametrize("dtype", [None, "float32", "int8", "bool", "complex64"])
def test_constants(shape, dtype):
    assert_same(zeros(shape, dtype=dtype), np.zeros(shape, dtype))
    assert_same(ones(shape, dtype=dtype), np.ones(shape, dtype))
    assert empty(shape, dtype=dtype).shape == np.empty(shape).shape
    assert_same(full(shape, True, dtype=dtype), np.full(shape, True, dtype))
    like = gt.asarray(np.ones(shape, dtype))
    assert_same(zeros_like(like), np.zeros(shape, dtype))
    assert_same(ones_like(like), np.ones(shape, dtype))
    assert_same(full_like(like, 1), np.ones(shape, dtype))
    assert empty_like(like).dtype == like.dtype
    assert_same(zeros_like(like, dtype="int32"), np.zeros(shape, "int32"))


@pytest.mark.parametrize("value", [2.5, 7, True, 1j, -0.0, math.inf, -1.0, complex(0.0, -0.0)])
def test_full_has_the_dtype_of_its_value(value):
    found, expected = full((2,), value), np.full((2,), value)
    assert_same(found, expected)
    np.testing.assert_array_equal(np.signbit(found.numpy().real), np.signbit(expected.real))
    np.testing.assert_array_equal(np.signbit(found.numpy().imag), np.signbit(expected.imag))


def test_full_of_nan():
    assert np.isnan(full((2,), math.nan).numpy()).all()


def test_negative_zero_does_not_stand_for_zero():
    first, second = full((), -0.0), full((), 0.0)
    assert np.signbit(first.numpy())
    assert not np.signbit(second.numpy())


def test_full_of_a_tensor_broadcasts_and_is_differentiable():
    assert_same(full((2, 3), gt.asarray([1, 2, 3])), np.full((2, 3), [1, 2, 3]))
    check_gradients(lambda x: gt.sin(full((2, 3), x)), np.array(0.5))


def test_full_of_a_changing_number_is_one_program():
    def step(value):
        return (full((3,), value) * 2.0).numpy()

    step(0.5)
    before = gt.counters().plans_built
    for number in range(2, 6):
        np.testing.assert_array_equal(step(number + 0.5), np.full(3, 2.0 * number + 1.0))
    assert gt.counters().plans_built == before


def test_constants_may_be_written_to():
    for x in (zeros((3,)), full((3,), 2.5), full((3,), gt.asarray(2.5))):
        x[0] = 7.0
        assert x.tolist()[0] == 7.0


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (0,),
        (1, 6, 2),
        (5, 0, -1),
        (5, 0, -2),
        (3, 1),
        (0, 1, 0.1),
        (0.5, 4),
        (1, 2, 0.3),
        (-1.0, -7.5, -0.7),
        (2**53, 2**53 + 5, 2),
    ],
)
def test_arange(arguments):
    expected = np.arange(*arguments)
    found = arange(*arguments)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("step", [2**63, 2**80, 1e300, np.inf])
def test_arange_of_a_step_that_is_never_taken(step):
    assert gt.arange(1, 3, step).tolist() == [1]
    assert gt.arange(3, 1, step).tolist() == []
    assert gt.arange(3, 1, -step).tolist() == [3]
    assert gt.arange(1, 1, step).tolist() == []


def test_arange_options():
    assert_same(arange(3, dtype="float32"), np.arange(3, dtype="float32"))
    assert_same(arange(gt.asarray(3)), np.arange(3))
    with pytest.raises(ValueError, match="step is 0"):
        arange(0, 1, 0)
    with pytest.raises(TypeError, match="not a real number"):
        arange("3")


@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2, -3), (1j, 2.0)])
def test_linspace(bounds, num, endpoint):
    expected = np.linspace(*bounds, num, endpoint=endpoint)
    assert_same(linspace(*bounds, num, endpoint=endpoint), expected)
    assert linspace(*bounds, num, dtype="complex64").dtype == np.complex64


def test_linspace_between_tensors():
    start, stop = np.array(0.3), np.array(1.7)
    found = linspace(gt.asarray(start), stop, 5)
    np.testing.assert_allclose(found.numpy(), np.linspace(0.3, 1.7, 5), rtol=1e-15)
    assert found.numpy()[0] == start
    assert found.numpy()[-1] == stop
    check_gradients(lambda a, b: linspace(a, b, 4) ** 2, start, stop)
    with pytest.raises(ShapeError, match="not 0-d"):
        linspace(gt.asarray([1.0]), 2.0, 3)
    with pytest.raises(ValueError, match="num is -1"):
        linspace(0.0, 1.0, -1)


@pytest.mark.parametrize("arguments", [(3,), (2, 3), (3, 2), (0,), (2, 0)])
@pytest.mark.parametrize("k", [0, 1, -1, 5])
def test_eye(arguments, k):
    assert_same(eye(*arguments, k=k), np.eye(*arguments, k=k))
    assert_same(eye(*arguments, k=k, dtype="int32"), np.eye(*arguments, k=k, dtype="int32"))


def test_default_dtype_is_used():
    gt.set_default_dtype("float32")
    try:
        made = [zeros(2), ones(2), full(2, 1.5), eye(2), linspace(0.0, 1.0, 3), arange(1.5)]
        assert {x.dtype for x in made} == {np.dtype("float32")}
        assert full(2, 1j).dtype == np.complex64
    finally:
        gt.set_default_dtype("float64")


def test_errors():
    with pytest.raises(ValueError, match="'gpu' is not a device"):
        zeros(3, device="gpu")
    with pytest.raises(ShapeError, match="negative length"):
        ones((2, -1))
    with pytest.raises(DtypeError, match="complex"):
        full(2, 1j, dtype="float64")
    assert zeros(3, device="cpu").device == "cpu"
