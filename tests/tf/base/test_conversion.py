"""Which dtype Python's and NumPy's numbers get, and what is refused, as TensorFlow has it."""

import numpy as np
import pytest

import gradtape.tf as tf

F32, F64 = np.float32([1.5, 2.5]), np.float64([1.5, 2.5])


class TestTheFirstOperandDecides:
    @pytest.mark.parametrize(
        ("made", "dtype"),
        [
            (lambda: tf.add(1.5, 2), "float32"),
            (lambda: tf.maximum(1.5, 2), "float32"),
            (lambda: tf.where([True], 2.5, 1), "float32"),
            (lambda: tf.concat([[1.5, 2], [2]], 0), "float32"),
            (lambda: tf.stack([1, 2.5]), "float32"),
            (lambda: tf.stack([2.5, 1]), "float32"),
            (lambda: tf.maximum(0.0, F64), "float32"),
            (lambda: tf.add(F32, F64), "float32"),
            (lambda: tf.add(F64, F32), "float64"),
            (lambda: tf.add(F32, np.int32([1, 2])), "float32"),
            (lambda: tf.where([True, False], F32, F64), "float32"),
            (lambda: tf.stack([F32, F64]), "float32"),
            (lambda: tf.concat([F32, F64], 0), "float32"),
            (lambda: tf.constant([np.float32(1.0), np.float64(2.0)]), "float32"),
            (lambda: tf.constant([np.float64(1.0), 2.0]), "float64"),
        ],
    )
    def test_dtype(self, made, dtype):
        assert made().dtype == dtype

    @pytest.mark.parametrize("function", [tf.add, tf.maximum, tf.pow, tf.less, tf.atan2])
    def test_an_int_does_not_take_a_float(self, function):
        with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
            function(2, 1.5)


class TestRefusals:
    @pytest.mark.parametrize("value", [None, {1: 2}, object(), 2**70, [[1, 2], [3]]])
    def test_no_tensor(self, value):
        with pytest.raises(ValueError, match="convert"):
            tf.constant(value)

    def test_none_beside_a_tensor(self):
        x = tf.constant([1.0])
        for operate in (lambda: x + None, lambda: tf.add(x, None), lambda: x < None):
            with pytest.raises(ValueError, match="NoneType"):
                operate()
        assert (x == None) is False  # noqa: E711
        assert (x != None) is True  # noqa: E711

    def test_shapes_not_known(self):
        with pytest.raises(ValueError, match="not fully known"):
            tf.convert_to_tensor(tf.TensorShape([None, 3]))

    def test_several_elements_are_no_number(self):
        with pytest.raises(TypeError):
            float(tf.constant([1.0, 2.0]))
        with pytest.raises(TypeError):
            int(tf.constant([1, 2]))
        with pytest.raises(ValueError, match="elements"):
            bool(tf.constant([1, 2]))

    def test_lengths_and_axes_are_whole_numbers(self):
        with pytest.raises(TypeError):
            tf.zeros([2.5])
        with pytest.raises(TypeError):
            tf.reduce_sum([[1.0]], axis=0.5)

    @pytest.mark.parametrize(
        "look",
        [lambda x: x[5], lambda x: x[-5], lambda x: x[0, 0], lambda x: tf.gather(x, [7]),
         lambda x: tf.gather_nd(x, [[7]]), lambda x: tf.tensor_scatter_nd_add(x, [[7]], [1.0])],
    )  # fmt: skip
    def test_an_index_out_of_range(self, look):
        x = tf.constant([1.0, 2.0, 3.0])
        with pytest.raises(tf.errors.InvalidArgumentError):
            look(x)
        with pytest.raises(IndexError):
            look(x)


class TestOperators:
    def test_products_of_truth_values(self):
        both = tf.constant([True, False]) * tf.constant([True, True])
        assert both.dtype == tf.bool
        assert both.numpy().tolist() == [True, False]
        with pytest.raises(TypeError):
            tf.constant([True]) + True

    def test_equality_never_fails_on_shapes(self):
        x, y = tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0])
        assert bool(x == y) is False
        assert bool(x != y) is True
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            tf.equal(x, y)

    def test_dtypes_compare_to_types_of_python(self):
        assert tf.float32 == float  # noqa: E721
        assert tf.float64 != float  # noqa: E721
        assert tf.uint8.limits == (0, 255)
        assert tf.float32.limits == (0, 1)


class TestShapes:
    def test_ranks(self):
        shape = tf.TensorShape([1, None])
        assert shape.with_rank_at_most(2) == [1, None]
        for refused in (lambda: shape.with_rank_at_most(1), lambda: shape.assert_has_rank(3),
                        lambda: shape.assert_same_rank([1])):  # fmt: skip
            with pytest.raises(ValueError, match=r"axes|rank"):
                refused()
        assert shape.most_specific_compatible_shape([1, 3]).as_list() == [1, None]
        assert shape.most_specific_compatible_shape([1]).rank is None

    def test_specs(self):
        renamed = tf.TensorSpec.from_spec(tf.TensorSpec([2], tf.int32), "x")
        assert (renamed.name, renamed.dtype, renamed.shape) == ("x", tf.int32, [2])
