"""`x[key]`, `x[key] = v` and look-ups, against NumPy and against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from gradtape.config import MOST_FIXED_STARTS
from gradtape.errors import DtypeError, InPlaceError, ShapeError
from gradtape.ir.node import Node, placeholder
from gradtape.ir.spec import spec
from gradtape.ops.arrays import indexing, joining
from gradtape.ops.elementwise.arithmetic import where
from gradtape.ops.elementwise.unary import sqrt
from gradtape.ops.reductions import reduction
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import asarray, program_of
from gradtape.tensor.variable import Variable
from gradtape.testing import check_gradients

X = np.arange(60.0).reshape(3, 4, 5) * 0.1 - 2
MASK = np.arange(12).reshape(3, 4) % 3 == 0

KEYS = [
    2,
    -1,
    (0, 1, 2),
    slice(None),
    slice(None, None, -1),
    slice(2, None, -2),
    slice(5, 1),
    slice(-100, 100),
    (slice(1, None), slice(None, None, 3), slice(3, 0, -1)),
    ...,
    (..., 1),
    (1, ...),
    (0, ..., slice(1, 3)),
    None,
    (None, 0, None, ..., None),
    (slice(None), None, 2),
    (),
    [0, 2],
    [0, 0, -1],
    [[0, 1], [2, 2]],
    [],
    np.zeros((0, 2), int),
    np.array(1),
    np.uint8(2),
    np.array([1, 2], np.uint64),
    (slice(None), [3, 1, 1]),
    (..., [4, 0]),
    ([0, 1], [1, -1]),
    ([0, 1], [1, 2], [3, 3]),
    ([[0], [2]], [0, 1, 3]),
    ([0, 1], slice(None), [2, 3]),
    (slice(None), [0, 1], [2, 3]),
    (slice(1, 3), [0, 1], slice(None, None, -2)),
    (0, slice(None), [1, 2]),
    (0, [1, 2]),
    (slice(None), 0, [1, 2, 3]),
    ([1, 2], 0, slice(1, 3)),
    ([1, 2], None, [0, 1]),
    (None, [1, 2], [0, 1]),
    (slice(None), [0, 1], ..., [2, 3]),
    (slice(None), [0, 1], None, 2),
    ((0, 2), slice(None)),
    MASK,
    MASK.tolist(),
    MASK[:, 0],
    (slice(None), MASK[0]),
    (slice(None), np.arange(20).reshape(4, 5) % 2 == 0),
    (MASK[:, 0], slice(None), [1, 2]),
    (MASK, 0),
    np.zeros((3, 4, 5), bool),
    X > 0,
    True,
    False,
    np.array(True),
    (slice(None), True, [0, 1]),
    (True, slice(None), [0, 1]),
    (0, False),
]


def as_id(key):
    return "".join(repr(key).split())[:60]


def symbolic(key):
    """The key with its arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(symbolic(item) for item in key)
    return asarray(key) if isinstance(key, (list, np.ndarray)) and np.size(key) else key


def same(got, expected):
    expected = np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


def as_index(key):
    """A key that every NumPy release reads alike: nested lists are arrays."""
    if isinstance(key, tuple):
        return tuple(as_index(item) for item in key)
    if isinstance(key, list):
        return np.asarray(key, None if key else int)
    return key


@pytest.mark.parametrize("key", KEYS, ids=as_id)
def test_reading_equals_numpy(key):
    expected = X[as_index(key)]
    same(asarray(X)[key], expected)
    same(asarray(X)[symbolic(key)], expected)
    same(asarray((X * 10).astype(np.int16))[key], (X * 10).astype(np.int16)[as_index(key)])


@pytest.mark.parametrize("key", KEYS, ids=as_id)
def test_reading_by_computed_indices(key):
    # Adding 0 makes a tensor that is still to be computed when it is used as an index.
    def pending(item):
        if isinstance(item, tuple):
            return tuple(pending(one) for one in item)
        found = symbolic(item)
        return found + 0 if hasattr(found, "result_class") and found.dtype.kind in "iu" else found

    same(asarray(X)[pending(key)], X[as_index(key)])


@pytest.mark.parametrize("key", KEYS, ids=as_id)
def test_derivative_of_reading(key):
    weight = np.asarray(np.sin(np.arange(X[as_index(key)].size))).reshape(X[as_index(key)].shape)
    check_gradients(lambda x: (x * x)[key] * weight, X)


def distinct_value(shape):
    return np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape) * 0.5


@pytest.mark.parametrize("key", KEYS, ids=as_id)
def test_writing_equals_numpy(key):
    shape = X[as_index(key)].shape
    whole = distinct_value(shape)
    for value in (whole, 7.0, 7, np.float32(2.5), whole.reshape(1, 1, *shape)):
        expected = X.copy()
        # Not every kind of key allows leading axes of length 1 in NumPy; here all do.
        expected[as_index(key)] = whole if np.ndim(value) > len(shape) else value
        for form in (key, symbolic(key)):
            got = asarray(X)
            got[form] = value
            same(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=as_id)
def test_derivative_of_writing(key):
    value = distinct_value(X[as_index(key)].shape)
    check_gradients(lambda x, v: indexing.set_item(x * x, key, v * v) ** 2, X, value)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (4, 1), (4, 5)])
@pytest.mark.parametrize("key", [0, [0, 2], slice(0, 2), MASK[:, 0]], ids=as_id)
def test_derivative_of_a_value_that_broadcasts(key, shape):
    check_gradients(
        lambda x, v: indexing.set_item(x, key, v * v) ** 2, X, distinct_value(shape) * 0.1
    )


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_basic_keys(data):
    shape = data.draw(SHAPES)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    array = np.arange(float(np.prod(shape))).reshape(shape)
    same(asarray(array)[key], array[key])
    expected = array.copy()
    expected[key] = -1.0
    got = asarray(array)
    got[key] = -1.0
    same(got, expected)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_integer_array_keys(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    key = data.draw(hnp.integer_array_indices(shape))
    array = np.arange(float(np.prod(shape))).reshape(shape)
    same(asarray(array)[key], array[key])
    value = distinct_value(array[key].shape)
    expected = array.copy()
    expected[key] = value
    got = asarray(array)
    got[key] = value
    same(got, expected)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mixed_keys(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4))
    common = data.draw(st.sampled_from([(), (1,), (3,), (2, 1)]))
    items = []
    for length in shape:
        kind = data.draw(st.sampled_from(["int", "slice", "array", "mask"]))
        if kind == "int":
            items.append(data.draw(st.integers(-length, length - 1)))
        elif kind == "slice":
            items.append(data.draw(st.slices(length)))
        elif kind == "array":
            items.append(
                data.draw(hnp.arrays(np.int64, common, elements=st.integers(-length, length - 1)))
            )
        else:
            items.append(np.arange(length) == data.draw(st.integers(0, length - 1)))
        if data.draw(st.integers(0, 5)) == 0:
            items.append(None)
    place = data.draw(st.integers(0, len(items)))
    if data.draw(st.booleans()):
        items.insert(place, ...)
    key = tuple(items)
    array = np.arange(float(np.prod(shape))).reshape(shape)
    same(asarray(array)[key], array[key])
    value = distinct_value(array[key].shape)
    expected = array.copy()
    expected[key] = value
    got = asarray(array)
    got[key] = value
    same(got, expected)


def gradient(function, *arrays):
    tensors = [asarray(array) for array in arrays]
    with GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return [asarray(found).numpy() for found in tape.gradient(y, tensors)]


def test_duplicates_add_when_read_and_the_last_stays_when_written():
    (g,) = gradient(lambda x: x[[1, 1, 0]] * np.array([1.0, 10.0, 100.0]), np.ones(3))
    assert g.tolist() == [100.0, 11.0, 0.0]
    key, weights = [1, 1, 0, 1], np.array([1.0, 10.0, 100.0])

    def write(x, v):
        return indexing.set_item(x, key, v) * weights

    # All values are equal: only an index can say which one stayed.
    gx, gv = gradient(write, np.full(3, 2.0), np.full(4, 2.0))
    assert gx.tolist() == [0.0, 0.0, 100.0]
    assert gv.tolist() == [0.0, 0.0, 1.0, 10.0]


@pytest.mark.slow
def test_handles_are_rebound_and_differentiable():
    def function(x, v):
        y = x * 1.0
        y[1:3] = v
        y[0] += v[0] * x[3]
        y[[3, 3]] *= x[:2]
        y[y > 100.0] = 0.0
        return y * y

    check_gradients(function, np.array([0.5, 1.5, 2.5, 3.5]), np.array([1.25, -2.0]))
    x = asarray([1.0, 2.0, 3.0])
    before = x * 1.0
    x[0] = 10.0
    x[1:] += 1.0
    x[asarray(2)] -= 0.5
    assert x.tolist() == [10.0, 3.0, 3.5]
    assert before.tolist() == [1.0, 2.0, 3.0]


def test_views_refuse_in_place_writes():
    x = asarray(X)
    for view in (x[0], x[:, 1], x[None], x[...], x[::2]):
        with pytest.raises(InPlaceError, match="x\\[i, j\\] = v"):
            view[0] = 1.0
        with pytest.raises(InPlaceError):
            view += 1.0
    copy = x[[0, 1]]
    copy[0] = 1.0
    assert copy.numpy()[0, 0, 0] == 1.0
    assert x.numpy()[0, 0, 0] == -2.0


ERRORS = [
    (3, IndexError, r"index 3 is out of range for axis 0 of length 3 \(-3 to 2\)"),
    ((0, -5), IndexError, "index -5 is out of range for axis 1 of length 4"),
    ((0, 0, [1, 5]), IndexError, "index 5 is out of range for axis 2 of length 5"),
    (asarray([0, -4]), IndexError, "index -4 is out of range for axis 0 of length 3"),
    ((0, 0, 0, 0), IndexError, "names 4 axes and the tensor of shape"),
    ((..., ...), IndexError, "2 ellipses"),
    (([0, 1], [0, 1, 2]), IndexError, "do not broadcast"),
    (np.zeros(4, bool), IndexError, "length 4 where axis 0 of the tensor has length 3"),
    (1.5, DtypeError, "1.5 cannot be an index"),
    ("a", DtypeError, "'a' cannot be an index"),
    (asarray([1.0]), DtypeError, "float64 are not integers"),
    (slice(None, None, 0), ValueError, "step of a slice is 0"),
]


@pytest.mark.parametrize(("key", "error", "message"), ERRORS, ids=lambda item: as_id(item))
def test_errors_name_the_key(key, error, message):
    x = asarray(X)
    with pytest.raises(error, match=message):
        x[key]
    with pytest.raises(error, match=message):
        x[key] = 1.0


def test_computed_indices_are_checked_on_their_line():
    x, index = asarray(X), asarray([1, 3])
    index = index + 1
    with pytest.raises(IndexError, match="index 4 is out of range for axis 1 of length 4"):
        x[:, index]
    assert x[:, index - 1].shape == (3, 2, 5)
    with pytest.raises(IndexError, match="take: index 2 is out of range for axis 0 of length 1"):
        indexing.take(asarray([1.0]), asarray([1]) + 1)


def test_values_that_do_not_fit_are_refused():
    x = asarray(X)
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        x[0] = np.ones(3)
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        x[[0, 1]] = np.ones(3)
    with pytest.raises(ShapeError, match=r"does not fit"):
        x[MASK] = np.ones((2, 5))
    with pytest.raises(ShapeError, match="does not fit"):
        x[0, 0] = np.ones((2, 5))
    whole = asarray([1, 2, 3])
    for key in (0, [0], asarray([True, False, True])):
        with pytest.raises(
            DtypeError, match="float64 cannot be written to a tensor of dtype int64"
        ):
            whole[key] = 1.5
        with pytest.raises(DtypeError, match="complex128"):
            asarray([1.0, 2.0, 3.0])[key] = asarray(1j)
    small = asarray(np.zeros(3, np.uint8))
    for key in (0, [0], asarray([True, False, True])):
        with pytest.raises(OverflowError):
            small[key] = 300
    assert whole.tolist() == [1, 2, 3]


def test_masked_writes_observe_nothing():
    x = asarray([1.0, -2.0, 3.0])
    y = x * 2.0
    y[y < 0.0] = 0.0
    assert y.computed is None
    assert "where" in str(program_of(y))
    assert y.tolist() == [2.0, 0.0, 6.0]


def test_a_loop_over_positions_is_one_program():
    x = asarray(np.arange(1000.0))
    starts = range(0, 900, 10)
    for start in starts:
        same(x[start : start + 7] * 1.0, np.arange(start, start + 7.0))
    programs = {str(program_of(x[start : start + 7] * 1.0)) for start in starts}
    assert len(programs) == 1
    y = asarray(np.zeros(1000))
    for start in starts:
        y[start : start + 7] = 1.0
    assert float(y.sum()) == 7.0 * len(starts)

    def total(x):
        return sum((x[start : start + 7] * start).sum() for start in starts)

    (g,) = gradient(total, np.arange(1000.0))
    expected = np.zeros(1000)
    for start in starts:
        expected[start : start + 7] += start
    np.testing.assert_array_equal(g, expected)


def test_fixed_parts_are_static():
    x = asarray(np.arange(17.0))
    assert MOST_FIXED_STARTS > 2
    assert len(program_of(x[1:4] * x[2:5]).inputs) == 1


def test_many_parts_in_one_recording_are_static():
    def product(x):
        found = x[0]
        for place in range(1, len(x)):
            found = found * x[place]
        return found

    x = asarray(np.linspace(0.5, 1.5, 3 * MOST_FIXED_STARTS))
    for _ in range(3):
        y = product(x)
        assert len(program_of(y).inputs) == 1
        np.testing.assert_allclose(y.numpy(), np.prod(x.numpy()), rtol=1e-12)


def test_look_ups_have_row_sparse_gradients():
    table = Variable(np.arange(6.0).reshape(3, 2))
    for look_up in (
        lambda t, i: t[i],
        lambda t, i: indexing.take(t, i, axis=0),
        indexing.gather,
    ):
        with GradientTape() as tape:
            rows = look_up(table, asarray([[2, 0], [2, -1]]))
            y = reduction.sum(rows * rows)
        g = tape.gradient(y, table)
        assert g.indices.tolist() == [2, 0, 2, 2]
        assert g.values.shape == (4, 2)
        assert asarray(g).tolist() == [[0.0, 2.0], [0.0, 0.0], [24.0, 30.0]]


def test_rows_of_a_where_leave_no_nan():
    # The slope of sqrt at 0 is infinite, in a row that `where` does not take.
    (g,) = gradient(
        lambda x: where(asarray([True, False]), sqrt(x)[[1, 0]], 0.0), np.array([0.0, 4.0])
    )
    assert g.tolist() == [0.0, 0.25]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [[1, 0, 1], [[1], [-1]], 1, []])
def test_take(axis, indices):
    indices = np.asarray(indices, int)
    same(indexing.take(asarray(X), asarray(indices), axis=axis), np.take(X, indices, axis))
    check_gradients(lambda x: indexing.take(x, indices, axis=axis) ** 2, X)


def test_take_along_axis():
    order = np.argsort(np.sin(X * 9), axis=1)
    same(
        indexing.take_along_axis(asarray(X), asarray(order), axis=1),
        np.take_along_axis(X, order, 1),
    )
    few = np.array([[[0], [-1]]])
    same(indexing.take_along_axis(asarray(X), few, axis=1), np.take_along_axis(X, few, 1))
    check_gradients(lambda x: indexing.take_along_axis(x, few, axis=1) ** 2, X)
    with pytest.raises(ShapeError, match="number of axes"):
        indexing.take_along_axis(asarray(X), [0])
    with pytest.raises(IndexError, match="index 5"):
        indexing.take_along_axis(asarray(X), np.full((3, 4, 1), 5))


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "batch_dims"), [(1, 0), (1, 1), (2, 1), (2, 2), (None, 1)])
def test_gather_in_batches(axis, batch_dims):
    params = np.arange(48.0).reshape(2, 3, 4, 2)
    indices = np.arange(12).reshape(2, 3, 2) % 3
    found = indexing.gather(asarray(params), indices, axis=axis, batch_dims=batch_dims)
    axis = batch_dims if axis is None else axis
    lead = params.shape[:batch_dims]
    expected = np.empty(
        (*params.shape[:axis], *indices.shape[batch_dims:], *params.shape[axis + 1 :])
    )
    for at in np.ndindex(*lead):
        expected[at] = np.take(params[at], indices[at], axis - batch_dims)
    same(found, expected)
    check_gradients(
        lambda p: indexing.gather(p, indices, axis=axis, batch_dims=batch_dims) ** 2, params * 0.1
    )


def test_gather_refuses_batches_that_differ():
    with pytest.raises(ShapeError, match="leading 1 axes"):
        indexing.gather(asarray(X), np.zeros((2, 1), int), batch_dims=1)
    with pytest.raises(ShapeError, match="batch_dims 2"):
        indexing.gather(asarray(X), np.zeros((3, 1), int), axis=1, batch_dims=2)


def test_variables_are_indexed_and_written():
    v = Variable([1.0, 2.0, 3.0])
    assert v[1:].tolist() == [2.0, 3.0]
    assert v[asarray([2, 0])].tolist() == [3.0, 1.0]
    assert indexing.set_item(v, 0, 5.0).tolist() == [5.0, 2.0, 3.0]
    with GradientTape() as tape:
        y = v[0] * v[2]
    assert tape.gradient(y, v).tolist() == [3.0, 0.0, 1.0]


def test_rules_can_index_nodes():
    x = placeholder(spec((3, 4), np.dtype("float64")))
    rows = placeholder(spec((2,), np.dtype("int64")))
    assert indexing.get_item(x, (slice(None), 1)).shape == (3,)
    assert indexing.get_item(x, rows).shape == (2, 4)
    assert indexing.set_item(x, rows, 0.0).shape == (3, 4)
    assert indexing.set_item(x, 0, 1).op.name == "set_slice"
    parts = [*joining.unstack(x), *joining.split(x, 2, axis=1)]
    assert [part.shape for part in parts] == [(4,), (4,), (4,), (3, 2), (3, 2)]
    assert all(type(part) is Node for part in parts)
    with pytest.raises(TypeError, match="depends on values"):
        indexing.get_item(x, placeholder(spec((3,), np.dtype(bool))))
