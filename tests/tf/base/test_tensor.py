"""Tensors: what becomes one, in which dtype, and how they print, compute and compare."""

import copy
import pickle

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf


class TestConstant:
    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (1, "int32"), (2**40, "int64"), (1.0, "float32"), (True, "bool"), (1j, "complex128"),
            ([1, 2], "int32"), ([1, 2.5], "float32"), ([[True]], "bool"), ([], "float32"),
            (np.array([1.0]), "float64"), (np.float32(1), "float32"), (np.arange(3), "int64"),
            ([np.float64(1.0)], "float64"),
        ],
    )  # fmt: skip
    def test_default_dtype(self, value, dtype):
        assert tf.constant(value).dtype.name == dtype

    def test_dtype_and_shape(self):
        assert tf.constant([1, 2], tf.float64).dtype is tf.float64
        assert tf.constant(5, shape=[2, 2]).numpy().tolist() == [[5, 5], [5, 5]]
        assert tf.constant([1, 2, 3, 4], shape=[2, 2]).shape == [2, 2]
        assert tf.constant(np.array([1.7]), tf.int32).numpy().tolist() == [1]

    def test_refusals(self):
        with pytest.raises(TypeError, match=r"Cannot convert 1.5 to a tensor of dtype int32"):
            tf.constant(1.5, dtype=tf.int32)
        with pytest.raises(TypeError, match="numbers or booleans"):
            tf.constant("text")
        with pytest.raises(ValueError, match="non-rectangular"):
            tf.constant([[1], [2, 3]])
        with pytest.raises(TypeError, match="does not fit int8"):
            tf.constant(300, tf.int8)

    def test_lists_of_tensors_are_stacked(self):
        x = tf.constant([1.0, 2.0])
        assert tf.convert_to_tensor([x, [3, 4]]).numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert tf.reduce_sum([x[0], 2.0, tf.Variable(3.0)]).numpy() == 6.0

    def test_convert_to_tensor(self):
        x = tf.constant([1.0])
        assert tf.convert_to_tensor(x) is x
        assert tf.convert_to_tensor(2.5, dtype_hint=tf.int32).dtype == tf.float32
        assert tf.convert_to_tensor(2, dtype_hint=tf.float64).dtype == tf.float64
        with pytest.raises(ValueError, match="requested dtype float64"):
            tf.convert_to_tensor(x, tf.float64)
        ours = gt.asarray([1.0, 2.0])
        converted = tf.convert_to_tensor(ours)
        assert type(ours) is gt.Tensor
        assert type(converted) is tf.Tensor
        assert converted.dtype == tf.float64


class TestMixing:
    x, n = tf.constant([1.0, 2.0]), tf.constant([1, 2])

    def test_python_numbers_take_the_dtype_of_the_tensor(self):
        for result in (self.x + 1, 1 - self.x, self.x * True, 2.0**self.x, self.x / 3, self.x > 1):
            assert result.dtype in (tf.float32, tf.bool)
        assert (self.n * 2).dtype == tf.int32
        assert (tf.constant([1.0], tf.float64) * 0.1).numpy()[0] == 0.1

    @pytest.mark.parametrize(
        "mixed",
        [
            lambda x, n: x + n,
            lambda x, n: x * tf.constant([1.0], tf.float64),
            lambda x, n: tf.maximum(x, n),
            lambda x, n: n + 1.5,
            lambda x, n: 2.0 * n,
            lambda x, n: n == 1.0,
            lambda x, n: tf.concat([x, n], 0),
            lambda x, n: tf.where([True, False], x, n),
            lambda x, n: n + np.array([0.5, 0.5]),
            lambda x, n: tf.Variable(1.0) + tf.Variable(1),
        ],
    )
    def test_dtypes_do_not_mix(self, mixed):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.cast"):
            mixed(self.x, self.n)
        with pytest.raises(TypeError):
            mixed(self.x, self.n)

    def test_arrays_beside_a_tensor(self):
        for result in (
            self.x + np.array([1.0, 2.0]),
            np.array([1.0, 2.0]) + self.x,
            np.float64(2.0) * self.x,
            self.x * np.float64(2.0),
            self.x + np.array([1, 2]),
            self.x + [1, 2],
        ):
            assert type(result) is tf.Tensor
            assert result.dtype == tf.float32

    def test_gradtape_tensors_beside_ours(self):
        other = gt.asarray(np.float32([1.0, 2.0]))
        assert type(other * self.x) is tf.Tensor
        assert type(self.x * other) is tf.Tensor
        with pytest.raises(TypeError, match="do not mix"):
            self.x * gt.asarray([1.0, 2.0])

    def test_division_of_integers(self):
        assert (self.n / 2).dtype == tf.float64
        assert (self.n / self.n).numpy().tolist() == [1.0, 1.0]
        assert (tf.constant([3], tf.int8) / 2).dtype == tf.float32
        assert (self.n // 2).dtype == tf.int32
        assert (tf.constant(-3) % 2).numpy() == 1

    def test_functions_of_floats_refuse_integers(self):
        for function in (tf.exp, tf.sqrt, tf.math.log, tf.sigmoid, tf.nn.softmax):
            with pytest.raises(TypeError, match=r"int32.*tf\.cast"):
                function(self.n)


OPERATORS = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
    lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a**b, lambda a, b: -a,
    lambda a, b: abs(a), lambda a, b: +a, lambda a, b: a < b, lambda a, b: a <= b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
]  # fmt: skip


@pytest.mark.parametrize("operate", OPERATORS)
@pytest.mark.parametrize("kind", ["tensor", "variable", "left number", "right number"])
def test_operators(operate, kind):
    a, b = np.float32([1.5, 2.0, 3.0]), np.float32([0.5, 2.0, 4.0])
    wrap = tf.Variable if kind == "variable" else tf.constant
    left = 2.0 if kind == "left number" else a
    right = 2.0 if kind == "right number" else b
    expected = operate(left, right)
    found = operate(
        left if kind == "left number" else wrap(left),
        right if kind == "right number" else wrap(right),
    )
    if kind == "left number" and np.ndim(expected) == 0:
        return  # the tensor does not take part
    assert type(found) is tf.Tensor
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_logical_operators():
    a, b = tf.constant([True, False]), tf.constant([True, True])
    assert (a & b).numpy().tolist() == [True, False]
    assert (a | b).numpy().tolist() == [True, True]
    assert (a ^ b).numpy().tolist() == [False, True]
    assert (~a).numpy().tolist() == [False, True]
    assert (tf.constant(6) & 3).numpy() == 2


def test_comparison_with_what_is_no_tensor():
    x = tf.constant([1.0])
    assert (x == None) is False  # noqa: E711 - what is tested
    assert (x != "text") is True


class TestImmutability:
    def test_in_place_operators_make_new_tensors(self):
        x = tf.constant([1.0, 2.0])
        first = x
        x += 1
        x *= 2
        assert x.numpy().tolist() == [4.0, 6.0]
        assert first.numpy().tolist() == [1.0, 2.0]

    def test_items_cannot_be_assigned(self):
        x = tf.constant([1.0, 2.0])
        with pytest.raises(TypeError, match="does not support item assignment"):
            x[0] = 5.0

    def test_arrays_are_copies(self):
        x = tf.constant([1.0, 2.0])
        array = x.numpy()
        array[0] = 9.0
        assert x.numpy().tolist() == [1.0, 2.0]
        data = np.array([1.0, 2.0], np.float32)
        y = tf.constant(data)
        data[0] = 9.0
        assert y.numpy().tolist() == [1.0, 2.0]


class TestDisplay:
    def test_repr(self):
        assert repr(tf.constant(16.0)) == "<tf.Tensor: shape=(), dtype=float32, numpy=16.0>"
        assert repr(tf.constant([[1, 2], [3, 4]])) == (
            "<tf.Tensor: shape=(2, 2), dtype=int32, numpy=\n"
            "array([[1, 2],\n       [3, 4]], dtype=int32)>"
        )

    def test_str_and_format(self):
        x = tf.constant([[1.0, 2.0]])
        assert str(x) == "tf.Tensor([[1. 2.]], shape=(1, 2), dtype=float32)"
        assert f"{x}" == "[[1. 2.]]"
        assert f"{x[0, 1]:.3f}" == "2.000"
        assert f"{x[0, 1]}" == "2.0"

    def test_scalars_are_numpy_scalars(self):
        assert isinstance(tf.constant(1.5).numpy(), np.float32)
        assert float(tf.constant(1.5)) == 1.5
        assert int(tf.constant(2.7)) == 2
        assert bool(tf.constant(True))
        assert [0, 1, 2][tf.constant(1)] == 1

    def test_lengths_and_rows(self):
        x = tf.constant([[1, 2], [3, 4]])
        assert len(x) == 2
        assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4]]
        with pytest.raises(ValueError, match="elements"):
            bool(x)


class TestDtypes:
    def test_names_and_facts(self):
        assert repr(tf.float32) == "tf.float32"
        assert str(tf.float32) == "<dtype: 'float32'>"
        assert tf.float32.as_numpy_dtype is np.float32
        assert tf.float32.is_floating
        assert tf.int32.is_integer
        assert tf.complex64.real_dtype is tf.float32
        assert (tf.uint8.min, tf.uint8.max) == (0, 255)
        assert tf.int64.size == 8

    def test_comparisons(self):
        assert tf.float32 == np.float32 == tf.as_dtype("float32").as_numpy_dtype
        assert tf.float32 == "float32"
        assert tf.float32 != tf.float64
        assert tf.float32 != 3
        assert {tf.float32: 1}[np.dtype("float32")] == 1
        assert pickle.loads(pickle.dumps(tf.float32)) is tf.float32

    def test_numpy_takes_them(self):
        assert np.zeros(2, tf.float32).dtype == np.float32
        assert np.arange(3).astype(tf.int8).dtype == np.int8

    def test_what_is_not_computed_with(self):
        with pytest.raises(TypeError, match="float16 is not computed with"):
            tf.as_dtype("float16")
        with pytest.raises(AttributeError, match=r"use tf\.float32"):
            tf.float16  # noqa: B018 - what is tested

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float64", "complex64", "bool"])
    def test_cast(self, dtype):
        found = tf.cast([0.0, 1.75], dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.array([0.0, 1.75]).astype(dtype))

    def test_cast_of_complex_numbers_drops_the_imaginary_part(self):
        assert tf.cast(1 + 2j, tf.float32).numpy() == 1.0

    def test_saturate_cast(self):
        found = tf.dtypes.saturate_cast([1e20, -1e20], tf.int32).numpy()
        assert found.tolist() == [2147483520, -2147483648]


class TestShapes:
    def test_like_a_list_and_like_a_tuple(self):
        shape = tf.zeros([2, 3]).shape
        assert shape == [2, 3] == list(shape)
        assert shape == (2, 3)
        assert shape != [2, 4]
        assert shape.as_list() == [2, 3]
        assert (shape.rank, shape.ndims, len(shape), shape.num_elements()) == (2, 2, 2, 6)
        assert repr(shape) == "TensorShape([2, 3])"
        assert str(shape) == "(2, 3)"
        assert repr(shape[1:]) == "TensorShape([3])"
        assert repr(shape + [4]) == repr((2, 3) + tf.TensorShape([4])) == "TensorShape([2, 3, 4])"
        batch, features = shape
        assert (batch, features) == (2, 3)

    def test_unknown_lengths(self):
        shape = tf.TensorShape([None, 3])
        assert not shape.is_fully_defined()
        assert shape.is_compatible_with([7, 3])
        assert not shape.is_compatible_with([7, 4])
        assert shape.merge_with([2, None]) == [2, 3]
        assert tf.TensorShape(None).rank is None
        assert tf.TensorShape(None).is_compatible_with([1, 2])
        assert repr(tf.TensorShape(None)) == "TensorShape(None)"
        with pytest.raises(ValueError, match="not compatible"):
            shape.assert_is_compatible_with([2, 4])

    def test_specs(self):
        spec = tf.TensorSpec([None, 2])
        assert repr(spec) == "TensorSpec(shape=(None, 2), dtype=tf.float32, name=None)"
        assert spec.is_compatible_with(tf.zeros([3, 2]))
        assert not spec.is_compatible_with(tf.zeros([3, 2], tf.int32))
        assert spec == tf.TensorSpec([None, 2], "float32")

    def test_gradtape_keeps_plain_shapes_and_dtypes(self):
        shape = (5, 7, 3)
        tf.zeros(tf.TensorShape(shape), tf.complex64) + tf.zeros(shape, tf.complex64)
        found = gt.zeros(shape, dtype=gt.complex64)
        assert type(found.shape) is tuple
        assert isinstance(found.dtype, np.dtype)
        assert type(gt.sum(tf.zeros(shape)).spec.dtype) is type(np.dtype("float32"))


def test_copies():
    x = tf.constant([1.0, 2.0]) * 2
    for other in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is tf.Tensor
        assert other.numpy().tolist() == [2.0, 4.0]
    assert np.asarray(x).tolist() == [2.0, 4.0]
    assert np.from_dlpack(x).tolist() == [2.0, 4.0]


def test_references():
    x = tf.constant(1.0)
    assert {x.ref(): 1}[x.ref()] == 1
    assert x.ref().deref() is x
    assert x.ref() != tf.constant(1.0).ref()


def test_numpy_functions_record():
    x = tf.constant([0.5, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(np.sin(x))
    assert type(y) is tf.Tensor
    np.testing.assert_allclose(tape.gradient(y, x), np.cos([0.5, 1.0]), rtol=1e-6)
