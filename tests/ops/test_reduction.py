"""Reductions, extrema, norms and cumulative ops: values as NumPy's, derivatives at every kink."""

import itertools
import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import SHORT_RECURRENCE
from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.reductions import reduction
from gradtape.testing import check_gradients

INF, NAN = np.inf, np.nan


def gradient(f, x, weights=None):
    x = gt.asarray(x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    found = tape.gradient(y, x, weights, unconnected_gradients="none")
    return None if found is None else found.numpy()


def hessian(f, x):
    """Rows of second derivatives of a scalar function of a vector, one nested tape each."""
    rows = []
    for unit in np.eye(len(x)):
        source = gt.asarray(x)
        with gt.GradientTape() as outer:
            outer.watch(source)
            with gt.GradientTape() as inner:
                inner.watch(source)
                y = f(source)
            along = gt.sum(inner.gradient(y, source) * unit)
        found = outer.gradient(along, source, unconnected_gradients="zero")
        rows.append(found.numpy())
    return np.array(rows)


def operand(shape, dtype):
    rng = np.random.default_rng(len(shape) + 10)
    values = rng.permutation(math.prod(shape)).reshape(shape) - 3
    if np.dtype(dtype).kind == "c":
        return (values + 0.5j * values[::-1] if shape else values + 2j).astype(dtype)
    return np.abs(values).astype(dtype) if np.dtype(dtype).kind == "u" else values.astype(dtype)


SHAPES_AND_AXES = [
    ((4,), None),
    ((4,), 0),
    ((2, 3), None),
    ((2, 3), 0),
    ((2, 3), -1),
    ((2, 3), (0, 1)),
    ((2, 3), ()),
    ((2, 3, 2), (2, 0)),
    ((), None),
    ((), ()),
    ((0, 3), 1),
    ((3, 0), 0),
]
REAL = ["float64", "float32", "int64", "int8", "uint8", "bool"]
ANY_DTYPE = [*REAL, "complex128", "complex64"]
REDUCTIONS = [
    *[(name, dtype) for name in ("sum", "prod", "any", "all") for dtype in ANY_DTYPE],
    *[(name, dtype) for name in ("mean", "var", "std") for dtype in ANY_DTYPE],
    *[(name, dtype) for name in ("max", "min", "median") for dtype in REAL],
]


@pytest.mark.parametrize(("name", "dtype"), REDUCTIONS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_agrees_with_numpy(name, dtype, keepdims):
    for shape, axis in SHAPES_AND_AXES:
        if name == "median" and axis == ():
            continue  # NumPy flattens here; no axis means no reduction, as elsewhere
        x = operand(shape, dtype)
        expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
        found = getattr(reduction, name)(x, axis=axis, keepdims=keepdims)
        assert found.shape == expected.shape, (shape, axis)
        assert found.dtype == expected.dtype, (shape, axis)
        tolerance = 1e-5 if found.dtype.itemsize < 8 or found.dtype == "complex64" else 1e-13
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions_agree_with_numpy(dtype, keepdims):
    for shape, axis in [((4,), None), ((2, 3), None), ((2, 3), 0), ((2, 3), -1), ((0, 3), 1)]:
        x = operand(shape, dtype)
        for name in ("argmax", "argmin"):
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            found = getattr(reduction, name)(x, axis=axis, keepdims=keepdims)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found.numpy(), expected, strict=True)
    assert int(reduction.argmax(np.array(3.0))) == 0
    assert int(reduction.argmax([1.0, 3.0, 3.0])) == 1
    assert int(reduction.argmin([1.0, NAN, 0.0, NAN])) == 1


def test_empty_reductions():
    empty = np.zeros((0, 2))
    assert reduction.sum(empty, axis=0).tolist() == [0.0, 0.0]
    assert reduction.prod(empty, axis=0).tolist() == [1.0, 1.0]
    assert reduction.logsumexp(empty, axis=0).tolist() == [-INF, -INF]
    assert reduction.norm(empty, axis=0).tolist() == [0.0, 0.0]
    assert reduction.norm(empty, INF, axis=0).tolist() == [0.0, 0.0]
    assert not reduction.any(empty)
    assert reduction.all(empty)
    assert int(reduction.count_nonzero(empty)) == 0
    for name in ("mean", "var", "std", "median"):
        assert np.isnan(getattr(reduction, name)(empty, axis=0).numpy()).all()
        assert getattr(reduction, name)(empty, axis=1).shape == (0,)
    for f in (reduction.sum, reduction.prod, reduction.mean, reduction.logsumexp, reduction.norm):
        assert gradient(lambda x, f=f: f(x), empty).shape == (0, 2)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremum_of_nothing_is_refused_at_once(name):
    with pytest.raises(ShapeError, match=rf"{name}: axis \(0,\) of shape \(0, 3\) has no elements"):
        getattr(reduction, name)(np.zeros((0, 3)), axis=0)


@pytest.mark.parametrize("name", [*reduction.__all__])
def test_axis_out_of_range(name):
    arguments = ([1.0, 2.0], 0.5) if name == "quantile" else ([1.0, 2.0],)
    with pytest.raises(ShapeError, match=rf"{name}: axis 3 is out of range for 1 dimensions"):
        getattr(reduction, name)(*arguments, axis=3)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "mean", "std", "logsumexp", "norm", "median"]
)
def test_axis_named_twice(name):
    with pytest.raises(ShapeError, match=rf"{name}: axis \(0, -2\) names an axis twice"):
        getattr(gt, name)(np.ones((2, 2)), axis=(0, -2))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "median"])
def test_complex_numbers_have_no_order(name):
    with pytest.raises(DtypeError, match=f"{name}: complex128 has no order"):
        getattr(reduction, name)([1j, 2.0])


def test_other_messages():
    with pytest.raises(DtypeError, match="logsumexp: dtype complex128 is not accepted"):
        reduction.logsumexp([1j])
    with pytest.raises(ValueError, match="norm: ord 'fro' is not a number"):
        reduction.norm([1.0], "fro")
    with pytest.raises(ValueError, match=r"quantile: q = 1.5 is not a fraction"):
        reduction.quantile([1.0], 1.5)
    with pytest.raises(TypeError, match=r"sum: axis 0.5 is not an integer"):
        reduction.sum([1.0], axis=0.5)
    with pytest.raises(ShapeError, match="cumulative_sum: axis is None and the tensor has shape"):
        reduction.cumulative_sum(np.ones((2, 2)))


def test_dtype_of_accumulation():
    small = np.array([100, 100, 100], np.int8)
    assert reduction.sum(small).dtype == np.int64
    assert int(reduction.sum(small)) == 300
    assert reduction.sum(small, dtype="int8").dtype == np.int8
    assert int(reduction.sum(small, dtype="int8")) == 300 - 256
    assert reduction.prod(small, dtype="float32").dtype == np.float32
    assert reduction.cumulative_sum(small, dtype="int16").dtype == np.int16
    gt.set_default_dtype("float32")
    try:
        assert reduction.mean(small).dtype == np.float32
    finally:
        gt.set_default_dtype("float64")


def test_variance_correction():
    x = operand((3, 4), "float64")
    for correction in (0.0, 1, 1.5):
        expected = np.var(x, axis=1, ddof=correction)
        np.testing.assert_allclose(reduction.var(x, axis=1, correction=correction), expected)
        found = reduction.std(x, axis=1, correction=correction)
        np.testing.assert_allclose(found, np.sqrt(expected))
    assert float(reduction.var([1.0, 2.0], correction=3.0)) == INF
    assert math.isnan(float(reduction.var([1.0], correction=1.0)))


# Products, with any number of zeros.


def partial_product(x, *without):
    return math.prod(value for index, value in enumerate(x) if index not in without)


@pytest.mark.parametrize("x", list(itertools.product([0.0, 2.0, -3.0], repeat=3)))
def test_product_derivatives_are_exact_at_zeros(x):
    x = np.array(x)
    np.testing.assert_array_equal(
        gradient(reduction.prod, x), [partial_product(x, i) for i in range(3)]
    )
    expected = [[0.0 if i == j else partial_product(x, i, j) for j in range(3)] for i in range(3)]
    np.testing.assert_array_equal(hessian(reduction.prod, x), expected)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1, (0, 1), (0, 2), None, ()])
def test_product_over_axes(axis):
    x = np.array([[[1.0, 2.0], [0.0, 0.5]], [[0.0, -1.5], [3.0, 0.0]]])
    check_gradients(lambda x: reduction.prod(x, axis=axis), x)
    check_gradients(lambda x: reduction.prod(x, axis=axis, keepdims=True), x + 0.5j)


@pytest.mark.parametrize("length", [5, SHORT_RECURRENCE + 5])
def test_cumulative_product_is_exact_at_zeros(length):
    x = np.linspace(0.7, 1.3, length)
    x[[1, 3]] = 0.0
    expected = [
        sum(partial_product(x[: i + 1], j) for i in range(j, length)) for j in range(length)
    ]
    found = gradient(reduction.cumulative_prod, x)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    check_gradients(reduction.cumulative_prod, x)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ANY_DTYPE)
@pytest.mark.parametrize("include_initial", [False, True])
def test_cumulative_agrees_with_numpy(name, dtype, include_initial):
    for shape, axis in [((4,), None), ((2, 3), 0), ((2, 3), -1), ((0, 2), 0), ((), None)]:
        x = operand(shape, dtype)
        if include_initial and x.ndim == 0:
            continue
        options = {"axis": axis, "include_initial": include_initial}
        expected = getattr(np, name)(x, **options)
        found = getattr(reduction, name)(x, **options)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, strict=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_derivatives(axis):
    x = np.array([[0.5, -1.0, 2.0], [0.0, 1.5, 0.3]])
    for name in ("cumulative_sum", "cumulative_prod"):
        f = getattr(reduction, name)
        check_gradients(lambda x, f=f: f(x, axis=axis, include_initial=True), x)
        check_gradients(lambda x, f=f: f(x, axis=axis), x + 0.3j)


def test_long_recurrences_take_few_steps():
    x = np.full(200_000, 1.0 - 1e-6)
    found = gradient(lambda x: reduction.cumulative_prod(x)[-1], x)
    np.testing.assert_allclose(found, x[0] ** (len(x) - 1), rtol=1e-9)


# Moments and log-sum-exp.


@pytest.mark.slow
def test_moments_have_both_derivatives():
    x = operand((2, 3), "float64") * 0.3
    for name in ("mean", "var", "std"):
        f = getattr(reduction, name)
        check_gradients(lambda x, f=f: f(x, axis=1), x)
        check_gradients(lambda x, f=f: f(x), x + 1j * x**2)
    np.testing.assert_allclose(
        hessian(reduction.var, x[0]), 2 / 3 * (np.eye(3) - 1 / 3), atol=1e-15
    )


def test_standard_deviation_of_equal_numbers():
    for shape in [(3,), (), (1,)]:
        np.testing.assert_array_equal(gradient(reduction.std, np.ones(shape)), np.zeros(shape))
    np.testing.assert_array_equal(hessian(reduction.std, np.ones(3)), np.zeros((3, 3)))
    assert float(reduction.std([1e200, -1e200])) == 1e200


def softmax(x):
    terms = np.exp(x - x.max())
    return terms / terms.sum()


@pytest.mark.slow
def test_logsumexp():
    x = np.array([0.1, -2.0, 1.5])
    weights = softmax(x)
    np.testing.assert_allclose(reduction.logsumexp(x), np.log(np.exp(x).sum()), rtol=1e-15)
    np.testing.assert_allclose(gradient(reduction.logsumexp, x), weights, rtol=1e-14)
    np.testing.assert_allclose(
        hessian(reduction.logsumexp, x), np.diag(weights) - np.outer(weights, weights), atol=1e-15
    )
    check_gradients(lambda x: reduction.logsumexp(x, axis=0), operand((3, 2), "float64") * 0.2)
    # Large numbers cost the weights no digits.
    large = (x + 1e4).astype(np.float32)
    np.testing.assert_allclose(
        gradient(reduction.logsumexp, large), softmax(large.astype(float)), rtol=1e-6
    )
    assert gradient(reduction.logsumexp, large).dtype == np.float32


def test_logsumexp_of_infinities():
    x = np.array([[-INF, -INF], [-INF, 1.0], [INF, 1.0], [NAN, 1.0]])
    np.testing.assert_array_equal(reduction.logsumexp(x, axis=1), [-INF, 1.0, INF, NAN])
    np.testing.assert_array_equal(
        gradient(lambda x: reduction.logsumexp(x, axis=1), x),
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [NAN, NAN]],
    )
    np.testing.assert_array_equal(hessian(reduction.logsumexp, x[0]), np.zeros((2, 2)))


def test_count_nonzero():
    x = np.array([[0.0, NAN, 2.0], [0.0, -0.0, 1.0]])
    assert reduction.count_nonzero(x).dtype == np.int64
    assert reduction.count_nonzero(x, axis=0).tolist() == np.count_nonzero(x, axis=0).tolist()
    assert reduction.count_nonzero([True, False], keepdims=True).tolist() == [1]
    assert gradient(reduction.count_nonzero, x) is None


# Norms.


@pytest.mark.parametrize("ord", [2, 1, 3, 1.5, 0.5, 0, -1, -2.5, INF, -INF])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int32"])
def test_norm_agrees_with_numpy(ord, dtype):
    x = operand((3, 4), dtype) + np.dtype(dtype).type(5)
    for axis, keepdims in [(0, False), (-1, True)]:
        expected = np.linalg.norm(x, ord, axis=axis, keepdims=keepdims)
        found = reduction.norm(x, ord, axis=axis, keepdims=keepdims)
        assert found.dtype == (np.float32 if dtype == "float32" else np.float64)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, strict=dtype != "float32")
    np.testing.assert_allclose(reduction.norm(x, ord), np.linalg.norm(x.ravel(), ord), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("ord", [2, 1, 3, 1.5, 0.5, 0, -1, INF, -INF])
def test_norm_derivatives(ord):
    x = np.array([[0.5, -1.25, 2.0], [0.75, 1.5, -0.25]])
    check_gradients(lambda x: reduction.norm(x, ord, axis=1), x)
    check_gradients(lambda x: reduction.norm(x, ord, keepdims=True), x + 0.3j * x[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("ord", [2, 1, 3, 1.5, 0.5, 0, -1, INF, -INF])
def test_norm_at_zero_has_derivative_zero(ord):
    def f(x):
        return reduction.norm(x, ord)

    zeros = np.zeros(3)
    assert float(f(zeros)) == 0.0
    np.testing.assert_array_equal(gradient(f, zeros), zeros)
    np.testing.assert_array_equal(hessian(f, zeros), np.zeros((3, 3)))
    np.testing.assert_array_equal(gradient(f, zeros + 0j), zeros)
    assert float(f(np.array(0.0))) == 0.0


@pytest.mark.parametrize("ord", [1.5, 3, 0.5])
def test_norm_with_one_zero_element(ord):
    found = gradient(lambda x: reduction.norm(x, ord), np.array([0.0, 2.0]))
    np.testing.assert_allclose(found, [0.0, 1.0])
    assert np.isfinite(hessian(lambda x: reduction.norm(x, ord), np.array([0.0, 2.0]))).all()


def test_division_by_norm_under_where():
    def unit(x):
        size = reduction.norm(x)
        return gt.where(size > 0.0, x / size, 0.0)

    np.testing.assert_array_equal(gradient(unit, np.zeros(2)), [0.0, 0.0])


@pytest.mark.parametrize("ord", [2, 3, -2])
@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-200, 1e-300])
def test_norm_neither_overflows_nor_underflows(ord, scale):
    x = np.array([3.0, 4.0])
    expected = np.linalg.norm(x, ord)
    assert float(reduction.norm(x * scale, ord)) == pytest.approx(expected * scale, rel=1e-13)
    np.testing.assert_allclose(
        gradient(lambda x: reduction.norm(x, ord), x * scale),
        gradient(lambda x: reduction.norm(x, ord), x),
        rtol=1e-12,
    )
    assert float(reduction.norm([1.0, INF])) == INF
    assert math.isnan(float(reduction.norm([1.0, NAN])))


# Extrema and order statistics.


def test_ties_share_the_derivative():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    found = gradient(lambda x: reduction.max(x, axis=1), x, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(found, [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(gradient(reduction.min, x), [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(hessian(reduction.max, x[0]), np.zeros((3, 3)))
    accumulator = gt.ForwardAccumulator(source := gt.asarray(x), np.array([[0, 1.0, 2.0]] * 2))
    with accumulator:
        y = reduction.max(source, axis=1)
    assert accumulator.jvp(y).tolist() == [1.5, 1.0]


def test_nan_is_the_extremum():
    x = np.array([1.0, NAN, 3.0])
    for name in ("max", "min", "median"):
        f = getattr(reduction, name)
        assert math.isnan(float(f(x)))
        np.testing.assert_array_equal(gradient(f, x), [0.0, 1.0, 0.0])


def test_extremum_saved_before_the_gradient():
    x = gt.asarray(np.linspace(0.1, 2.0, 101))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = reduction.max(gt.sin(x) * gt.exp(x))
    y.numpy()
    assert np.count_nonzero(tape.gradient(y, x).numpy()) == 1


def test_median_follows_the_elements_chosen():
    np.testing.assert_array_equal(
        gradient(reduction.median, np.array([5.0, 1.0, 3.0])), [0.0, 0.0, 1.0]
    )
    np.testing.assert_array_equal(
        gradient(reduction.median, np.array([5.0, 1.0, 3.0, 2.0])), [0.0, 0.0, 0.5, 0.5]
    )
    # Equal elements count in the order they stand in.
    np.testing.assert_array_equal(gradient(reduction.median, np.full(3, 2.0)), [0.0, 1.0, 0.0])
    x = operand((2, 3, 2), "float64")
    for axis in (0, 1, (0, 2), None):
        check_gradients(lambda x, axis=axis: reduction.median(x, axis=axis), x)
    assert float(reduction.median([INF, 1.0, -INF])) == 1.0
    np.testing.assert_array_equal(
        gradient(reduction.median, np.array([INF, 1.0, -INF])), [0.0, 1.0, 0.0]
    )


@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_quantile(q):
    x = operand((3, 5), "float64")
    for axis in (None, 0, (0, 1)):
        np.testing.assert_allclose(reduction.quantile(x, q, axis), np.quantile(x, q, axis=axis))
    check_gradients(lambda x: reduction.quantile(x, q, 1), x)


def test_branch_not_taken_sends_nothing_back():
    def f(x):
        worst = reduction.max(1.0 / x, axis=1)
        return gt.where(gt.asarray([True, False]), worst, 0.0)

    found = gradient(f, np.array([[1.0, 2.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(found, [[-1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_branch_not_taken_after_cumulation(name):
    def f(x):
        total = getattr(reduction, name)(1.0 / x)
        return gt.where(gt.asarray([True, False, False]), total, 0.0)

    np.testing.assert_array_equal(gradient(f, np.array([2.0, 0.0, 0.0])), [-0.25, 0.0, 0.0])
