"""Functions for one signature: its defaults and nests, values that are filled in, and pickles."""

import copy
import pickle

import numpy as np
import pytest

import gradtape.tf as tf
from gradtape.errors import NoValueError

SCALAR, VECTOR = tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.float32)


def times(x, n, positive=True):
    return x * n if positive else -x * n


@tf.function
def doubled(x):
    return x * 2.0


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    @tf.function
    def scaled(self, x, n):
        return x * n * self.factor

    @tf.function(input_signature=[SCALAR, SCALAR])
    def with_default(self, x, n=2.0):
        return x * n * self.factor


class TestInputSignature:
    def test_arguments_with_a_default_may_be_left_out(self):
        function = tf.function(lambda x, y=2.0: x * y, input_signature=[SCALAR, SCALAR])
        found = [function(3.0), function(3.0, 4.0), function(3.0, y=5.0), function(y=2.0, x=1.0)]
        assert [each.numpy().item() for each in found] == [6.0, 12.0, 15.0, 2.0]
        assert Scaled(1.0).with_default(3.0).numpy() == 6.0
        assert Scaled(1.0).with_default(3.0, n=7.0).numpy() == 21.0

    def test_arguments_beyond_the_signature_keep_their_default(self):
        function = tf.function(lambda x, y=2.0: x * y, input_signature=[SCALAR])
        assert function(3.0).numpy() == 6.0
        with pytest.raises(TypeError, match="1 entries"):
            function(3.0, 5.0)
        with pytest.raises(TypeError):
            function()

    def test_entries_may_be_nests(self):
        function = tf.function(
            lambda d, e: d["a"] * d["b"] + e[0],
            input_signature=[{"a": SCALAR, "b": VECTOR}, [SCALAR]],
        )
        assert function({"a": 2.0, "b": [1.0, 2.0]}, [1.0]).numpy().tolist() == [3.0, 5.0]
        with pytest.raises(ValueError, match="argument 0"):
            function({"a": 2.0, "b": 1.0}, [1.0])
        with pytest.raises((TypeError, ValueError)):
            function({"a": 2.0}, [1.0])


class TestConcreteFunctions:
    def test_values_are_part_of_the_function(self):
        x = tf.constant(2.0)
        concrete = tf.function(times).get_concrete_function(SCALAR, 3)
        assert concrete(x).numpy() == concrete(x, 3).numpy() == concrete(x=x).numpy() == 6.0
        assert concrete.structured_input_signature[0][1] == 3
        negative = tf.function(times).get_concrete_function(SCALAR, 3, positive=False)
        assert negative(x).numpy() == -6.0
        first = tf.function(lambda n, x: x * n).get_concrete_function(3, SCALAR)
        assert first(x).numpy() == first(3, x).numpy() == 6.0

    def test_other_values_and_missing_tensors_are_refused(self):
        concrete = tf.function(times).get_concrete_function(SCALAR, 3)
        with pytest.raises(ValueError, match="made for 3"):
            concrete(tf.constant(2.0), 4)
        with pytest.raises(TypeError, match="missing"):
            concrete()
        with pytest.raises(TypeError, match="float32"):
            concrete(tf.constant(2))

    def test_nests(self):
        one = tf.constant(2.0)
        product = tf.function(lambda d: d["a"] * d["b"])
        concrete = product.get_concrete_function({"a": SCALAR, "b": SCALAR})
        assert concrete({"a": one, "b": one}).numpy() == 4.0
        listed = tf.function(lambda d: d[0] * d[1]).get_concrete_function((one, one))
        assert listed((one, tf.constant(3.0))).numpy() == 6.0

    def test_methods(self):
        concrete = Scaled(10.0).scaled.get_concrete_function(SCALAR, 3)
        assert concrete(tf.constant(2.0)).numpy() == 60.0
        assert Scaled(1.0).with_default.get_concrete_function()(1.0, 2.0).numpy() == 2.0

    def test_asking_for_one_changes_no_variable(self):
        v = tf.Variable(1.0)
        concrete = tf.function(lambda x: v.assign_add(x)).get_concrete_function(tf.constant(1.0))
        assert v.numpy() == 1.0
        concrete(tf.constant(5.0))
        assert v.numpy() == 6.0


class TestCopies:
    def test_pickles(self):
        assert pickle.loads(pickle.dumps(doubled)) is doubled
        made = pickle.loads(pickle.dumps(tf.function(times, reduce_retracing=True)))
        assert made(tf.constant(2.0), 3.0).numpy() == 6.0
        signed = tf.function(times, input_signature=[SCALAR, SCALAR])
        assert pickle.loads(pickle.dumps(signed))(2.0, 3.0).numpy() == 6.0
        method = pickle.loads(pickle.dumps(Scaled(10.0).scaled))
        assert method(tf.constant(2.0), 3.0).numpy() == 60.0

    def test_copies(self):
        assert copy.deepcopy(tf.function(times))(tf.constant(2.0), 3.0).numpy() == 6.0
        assert copy.copy(doubled)(tf.constant(2.0)).numpy() == 4.0


class TestGradPassThrough:
    def test_variables_inside_get_none(self):
        v, x = tf.Variable(3.0), tf.constant(1.4)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.grad_pass_through(lambda x: tf.round(x) * v)(x)
        assert y.numpy() == 3.0
        assert [g and g.numpy().item() for g in tape.gradient(y, [x, v])] == [1.0, None]

    def test_a_variable_may_be_the_argument_or_assigned(self):
        v = tf.Variable([1.4, 2.6])
        with tf.GradientTape() as tape:
            y = tf.grad_pass_through(tf.round)(v)
        assert tape.gradient(y, v).numpy().tolist() == [1.0, 1.0]
        w, x = tf.Variable(1.0), tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.grad_pass_through(w.assign)(x)
        assert (w.numpy(), tape.gradient(y, x).numpy()) == (3.0, 1.0)


class TestUnconnected:
    def test_batch_jacobians_are_zeros(self):
        x, z = tf.ones([2, 2]), tf.ones([2, 3])
        for choice in tf.UnconnectedGradients:
            with tf.GradientTape() as tape:
                tape.watch([x, z])
                y = z * z
            found = tape.batch_jacobian(y, x, unconnected_gradients=choice)
            assert found.shape == [2, 3, 2]
            assert not found.numpy().any()


MAPPED = {
    "roll": (lambda a: tf.roll(a[0], a[1], 0), [[3, 1, 2], [5, 6, 4]]),
    "slice": (lambda a: tf.slice(a[0], [a[1]], [1]), [[2], [6]]),
    "bincount": (lambda a: tf.math.bincount(a[0], minlength=7), [[0, 1, 1, 1, 0, 0, 0],
                                                                [0, 0, 0, 0, 1, 1, 1]]),
    "while_loop": (lambda a: tf.while_loop(lambda i: i < a[1], lambda i: i + 1, [0])[0], [1, 2]),
}  # fmt: skip


class TestVectorizedMap:
    @pytest.mark.parametrize("name", MAPPED)
    def test_functions_that_need_values_are_called_for_each_example(self, name):
        function, expected = MAPPED[name]
        elements = (tf.constant([[1, 2, 3], [4, 5, 6]]), tf.constant([1, 2]))
        assert tf.vectorized_map(function, elements).numpy().tolist() == expected

    def test_a_loop_may_be_refused(self):
        with pytest.raises(NoValueError, match="no value"):
            tf.vectorized_map(
                lambda s: tf.roll([1, 2], s, 0), tf.constant([0, 1]), fallback_to_while_loop=False
            )

    def test_derivatives_pass_through_the_loop(self):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.vectorized_map(lambda a: tf.roll(a[0] * a[0], a[1], 0), (x, tf.constant([0, 1])))
        assert tape.gradient(y, x).numpy().tolist() == (2.0 * np.asarray(x)).tolist()
