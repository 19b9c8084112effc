"""Variables: making, reading, assigning, and what tapes see of assignments."""

import copy
import pickle

import numpy as np
import pytest

import gradtape.tf as tf


def test_making():
    v = tf.Variable([1, 2], name="counts")
    assert v.dtype == tf.int32
    assert v.shape == [2]
    assert v.name == "counts:0"
    assert v.trainable
    assert repr(v) == (
        "<tf.Variable 'counts:0' shape=(2,) dtype=int32, numpy=array([1, 2], dtype=int32)>"
    )
    assert tf.Variable(lambda: 2.0).numpy() == 2.0
    assert tf.Variable(2, dtype=tf.float64).dtype == tf.float64
    assert not tf.Variable(1.0, trainable=False).trainable
    with pytest.raises(ValueError, match="initial_value"):
        tf.Variable()
    with pytest.raises(ValueError, match="requested dtype float64"):
        tf.Variable(tf.constant(1.0), dtype=tf.float64)
    with pytest.raises(ValueError, match="does not fit shape"):
        tf.Variable([1.0], shape=[2])


def test_reading():
    v = tf.Variable([1.0, 2.0])
    for read in (v.value, v.value(), v.read_value(), tf.identity(v), tf.convert_to_tensor(v)):
        assert isinstance(read, tf.Tensor)
        assert read.numpy().tolist() == [1.0, 2.0]
    assert type(v + 1) is tf.Tensor
    assert v.numpy().flags.writeable
    assert v[1].numpy() == 2.0
    assert len(v) == 2
    assert float(tf.Variable(2.0)) == 2.0


def test_assigning():
    v = tf.Variable([1.0, 2.0])
    assert v.assign([3, 4]) is v
    v.assign_add([1.0, 1.0]).assign_sub(np.array([0.5, 0.5]))
    assert v.numpy().tolist() == [3.5, 4.5]
    v[0].assign(7.0)
    v[1:].assign([8.0])
    assert v.numpy().tolist() == [7.0, 8.0]
    v.scatter_nd_update([[0]], [1.0]).scatter_nd_add([[1]], [1.0]).scatter_nd_sub([[1]], [2.0])
    assert v.numpy().tolist() == [1.0, 7.0]
    rows = tf.IndexedSlices([1.0], [0], [2])
    v.scatter_add(rows)
    v.scatter_sub(tf.IndexedSlices([5.0], [1], [2]))
    assert v.numpy().tolist() == [2.0, 2.0]
    v.scatter_update(tf.IndexedSlices([9.0], [0], [2]))
    assert v.numpy().tolist() == [9.0, 2.0]


def test_refusals():
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match="shape"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="requested dtype float32"):
        v.assign(tf.constant([1.0, 2.0], tf.float64))
    with pytest.raises(TypeError, match="item assignment"):
        v[0] = 1.0
    with pytest.raises(RuntimeError, match="assign_add"):
        v += 1.0


def test_copies():
    v = tf.Variable([1.0], name="v", trainable=False)
    for other in (copy.deepcopy(v), copy.copy(v), pickle.loads(pickle.dumps(v))):
        assert type(other) is tf.Variable
        assert (other.name, other.trainable, other.numpy().tolist()) == ("v:0", False, [1.0])
        other.assign([5.0])
    assert v.numpy().tolist() == [1.0]


class TestAssignmentsUnderATape:
    def test_all_reads_count_as_one(self):
        v = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            a = v * 2.0
            v.assign(3.0)
            b = v * v
            y = a + b
        assert tape.gradient(y, v).numpy() == 8.0

    def test_nothing_passes_through(self):
        v, x = tf.Variable(1.0), tf.constant(2.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            v.assign(x * 2.0)
            y = v * v
        assert tape.gradient(y, x) is None
        assert tape.gradient(y, v).numpy() == 8.0

    def test_updates_from_itself(self):
        v = tf.Variable(1.0)
        with tf.GradientTape() as tape:
            v.assign_add(v * 2.0)
            v.assign_sub(v * v * 0.0)
            y = v * v
        assert tape.gradient(y, v).numpy() == 6.0
        assert v.numpy() == 3.0

    def test_inner_and_outer_tape(self):
        v = tf.Variable(2.0)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                v.assign(v * 1.5)
                y = v**3
            slope = inner.gradient(y, v)
        assert slope.numpy() == 27.0
        assert outer.gradient(slope, v).numpy() == 18.0

    def test_forward_mode(self):
        v = tf.Variable(2.0)
        with tf.autodiff.ForwardAccumulator(v, tf.constant(1.0)) as acc:
            v.assign(5.0)
            y = v * v
        assert acc.jvp(y).numpy() == 10.0

    def test_integers(self):
        v = tf.Variable(1)
        with tf.GradientTape():
            v.assign_add(2)
        assert v.numpy() == 3


class TestAssignmentsUnderATapeInAFunction:
    """They belong to the program: nothing runs in Python, and gradients are those outside."""

    def test_counters(self):
        count, w = tf.Variable(0.0, trainable=False), tf.Variable([1.0, 2.0])

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                count.assign_add(1.0)
                loss = tf.reduce_sum(w * x * count)
            w.assign_sub(0.5 * tape.gradient(loss, w))
            return loss

        for _ in range(4):
            step(tf.constant([1.0, 0.0]))
        assert count.numpy() == 4.0
        assert w.numpy().tolist() == [1.0 - 0.5 * 10.0, 2.0]

    def test_running_statistics(self):
        layer = tf.keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 1))

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(x, training=True) ** 3)
            return tape.gradient(loss, layer.trainable_variables)

        for _ in range(3):
            step(tf.constant([[1.0], [3.0]]))
        assert layer.moving_mean.numpy().tolist() == [1.75]
        assert layer.moving_variance.numpy().tolist() == [1.0]

    def test_gradients_stop_at_them(self):
        x, y = tf.Variable(3.0), tf.Variable(1.0)

        def step():
            with tf.GradientTape() as tape:
                y.assign(x * 2.0)
                z = y * y
            return tape.gradient(z, [x, y])

        run = tf.function(step)
        for _ in range(3):
            found = run()
            assert found[0] is None
            assert found[1].numpy() == 12.0
