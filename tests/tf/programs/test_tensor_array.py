"""TensorArray, scopes of names, and functions with signatures. Numbers are TensorFlow's."""

import gc
import sys
import warnings

import numpy as np
import pytest

import gradtape.tf as tf


class TestTensorArray:
    def test_write_read_stack(self):
        array = tf.TensorArray(tf.float32, 3)
        array = array.write(0, 1.0).write(1, 2.0).write(2, 3.0)
        assert array.stack().numpy().tolist() == [1.0, 2.0, 3.0]
        assert array.read(1).numpy() == 2.0
        assert array.size().numpy() == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="twice"):
            array.read(1)

    def test_lengths_of_parts(self):
        array = tf.TensorArray(tf.float32, 2, clear_after_read=False)
        assert array.split([1.0, 2.0, 3.0], [1, 2]).read(1).numpy().tolist() == [2.0, 3.0]
        for lengths in ([1, 1], [4, -1]):
            with pytest.raises(ValueError, match="do not add up to the length 3"):
                array.split([1.0, 2.0, 3.0], lengths)

    def test_growing(self):
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for i in range(3):
            array = array.write(i, [float(i)])
        assert array.stack().numpy().tolist() == [[0.0], [1.0], [2.0]]
        assert array.concat().numpy().tolist() == [0.0, 1.0, 2.0]
        assert array.element_shape == [1]

    def test_limits(self):
        with pytest.raises(tf.errors.OutOfRangeError):
            tf.TensorArray(tf.float32, 3).write(5, 1.0)
        with pytest.raises(tf.errors.OutOfRangeError):
            tf.TensorArray(tf.float32, 3).read(3)
        with pytest.raises(ValueError, match="shape"):
            tf.TensorArray(tf.float32, 2).write(0, 1.0).write(1, [1.0])
        with pytest.raises(ValueError, match="dtype"):
            tf.TensorArray(tf.float32, 2).write(0, tf.constant(1))

    def test_whole_tensors(self):
        array = tf.TensorArray(tf.float32, 3).unstack([[1.0], [2.0], [3.0]])
        assert array.gather([0, 2]).numpy().tolist() == [[1.0], [3.0]]
        parts = tf.TensorArray(tf.int32, 2).split([1, 2, 3], [1, 2])
        assert parts.read(1).numpy().tolist() == [2, 3]
        there = tf.TensorArray(tf.int32, 3, element_shape=[]).scatter([2, 0], [5, 6])
        assert there.stack().numpy().tolist() == [6, 0, 5]

    def test_derivatives_in_loops(self):
        def powers(x, count):
            array = tf.TensorArray(tf.float32, size=count)
            _, _, array = tf.while_loop(
                lambda i, y, a: i < count,
                lambda i, y, a: (i + 1, y * x, a.write(i, y)),
                [tf.constant(0), x, array],
            )
            return array.stack()

        x = tf.Variable(2.0)
        for function in (powers, tf.function(powers)):
            with tf.GradientTape() as tape:
                y = function(x, 3)
            assert y.numpy().tolist() == [2.0, 4.0, 8.0]
            assert tape.gradient(y, x).numpy() == 1.0 + 4.0 + 12.0


class TestNameScopes:
    def test_prefixes(self):
        with tf.name_scope("model") as outer:
            a = tf.Variable(1.0, name="a")
            with tf.name_scope("layer"):
                b = tf.Variable(1.0)
                assert tf.get_current_name_scope() == "model/layer"
        c = tf.Variable(1.0, name="c")
        assert (outer, a.name, b.name, c.name) == (
            "model/", "model/a:0", "model/layer/Variable:0", "c:0",
        )  # fmt: skip

    def test_modules(self):
        class Line(tf.Module):
            @tf.Module.with_name_scope
            def __call__(self, x):
                if not hasattr(self, "w"):
                    self.w = tf.Variable(2.0, name="w")
                return self.w * x

        line = Line(name="first")
        assert line(3.0).numpy() == 6.0
        assert line.w.name == "first/w:0"
        with line.name_scope as scope:
            assert scope == "first/"


class TestSignatures:
    def test_arguments_by_name(self):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([])])
        def scaled(x, by):
            return x * by

        assert scaled([1.0, 2.0], by=3.0).numpy().tolist() == [3.0, 6.0]
        assert scaled(by=3.0, x=[1, 2]).numpy().tolist() == [3.0, 6.0]

    @pytest.mark.parametrize(
        "args",
        [(tf.ones([1, 1]),), (tf.constant([1]),), (tf.ones([1]), tf.ones([1])), ()],
        ids=["shape", "dtype", "too many", "too few"],
    )
    def test_arguments_that_do_not_fit(self, args):
        function = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None], tf.float32)])
        with pytest.raises(TypeError):
            function(*args)

    def test_the_instance_may_be_nobody_elses(self):
        class Scale:
            def __init__(self):
                self.k = 3.0

            @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
            def call(self, x):
                return x * self.k

            @tf.function
            def plain(self, x):
                return x * self.k

        assert Scale().call(tf.constant(2.0)).numpy() == 6.0
        plain = Scale().plain
        gc.collect()
        assert plain(tf.constant(2.0)).numpy() == 6.0
        assert plain.__name__ == "plain"
        concrete = plain.get_concrete_function(tf.TensorSpec([], tf.float32))
        assert concrete(tf.constant(5.0)).numpy() == 15.0


class TestFunctions:
    def test_results_are_tensors(self):
        assert tf.function(lambda x: 5)(1.0).dtype == tf.int32
        assert tf.function(lambda: np.array([1.0, 2.0]))().dtype == tf.float64
        assert tf.function(lambda x: x * 2.0)(3.0).dtype == tf.float32
        one, nothing, several = tf.function(lambda x: (x, None, [x, (True,)]))(tf.constant(1.0))
        assert one.numpy() == 1.0
        assert nothing is None
        assert several[1][0].dtype == tf.bool

    def test_prints_at_every_call(self, capsys):
        @tf.function
        def shown(x):
            print("traced")
            tf.print("x =", x, output_stream=sys.stdout)
            return x

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for value in (1.0, 2.0):
                shown(tf.constant(value))
        assert capsys.readouterr().out.splitlines()[-1] == "x = 2"

    def test_callbacks_for_what_they_do(self):
        seen = []

        @tf.function
        def noted(x):
            tf.py_function(lambda v: seen.append(float(v)), [x], [])
            return x + 1.0

        assert [noted(tf.constant(v)).numpy() for v in (1.0, 2.0, 1.0)] == [2.0, 3.0, 2.0]
        assert seen == [1.0, 2.0, 1.0]


class TestVariables:
    def test_scattering(self):
        v = tf.Variable([1.0, 2.0, 3.0])
        assert v.scatter_nd_max([[0], [1]], [9.0, -8.0]).numpy().tolist() == [9.0, 2.0, 3.0]
        assert v.scatter_nd_min([[0], [1]], [9.5, -8.0]).numpy().tolist() == [9.0, -8.0, 3.0]
        rows = tf.IndexedSlices(tf.constant([2.0, 4.0, 2.0]), tf.constant([0, 2, 0]))
        v.assign([1.0, 2.0, 3.0])
        assert v.scatter_mul(rows).numpy().tolist() == [4.0, 2.0, 12.0]
        assert v.scatter_div(rows).numpy().tolist() == [1.0, 2.0, 3.0]
        assert v.scatter_max(rows).numpy().tolist() == [2.0, 2.0, 4.0]
        assert v.scatter_min(rows).numpy().tolist() == [2.0, 2.0, 4.0]

    def test_reading(self):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        assert v.gather_nd([[0, 1]]).numpy().tolist() == [2.0]
        assert v.sparse_read([1]).numpy().tolist() == [[3.0, 4.0]]
        assert v.is_initialized().numpy()

    def test_a_constant_of_a_variable_is_its_value(self):
        x = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = tf.constant(x) * x
        assert tape.gradient(y, x).numpy() == 2.0

    def test_no_target(self):
        with tf.GradientTape() as tape:
            pass
        with pytest.raises(TypeError, match="None"):
            tape.gradient(None, tf.Variable(1.0))


def test_maps_over_nothing():
    found = tf.map_fn(lambda x: tf.reduce_sum(x, -1), tf.zeros([0, 2, 3]))
    assert found.shape == [0, 2]
    assert found.dtype == tf.float32
