"""Blocks, partitions, sequences, bits, and reductions of nothing. Numbers are TensorFlow's."""

import numpy as np
import pytest

import gradtape.tf as tf

IMAGE = np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1)


def gradient(function, *operands):
    operands = [tf.constant(x) for x in operands]
    with tf.GradientTape() as tape:
        tape.watch(operands)
        total = tf.add_n(
            [tf.reduce_sum(y * tf.range(1.0, 1.0 + tf.size(y, tf.float32))[:, None])
             if y.shape.rank == 2 else tf.reduce_sum(y * tf.range(1.0, y.shape[0] + 1.0))
             for y in tf.nest.flatten(function(*operands))]
        )  # fmt: skip
    return [g.numpy().tolist() for g in tape.gradient(total, operands)]


class TestBlocks:
    def test_space_to_batch(self):
        found = tf.space_to_batch(IMAGE, [2, 2], [[0, 0], [0, 0]])
        assert found.shape == [4, 2, 2, 1]
        assert found.numpy()[:, :, :, 0].tolist() == [
            [[0, 2], [8, 10]], [[1, 3], [9, 11]], [[4, 6], [12, 14]], [[5, 7], [13, 15]],
        ]  # fmt: skip
        assert tf.space_to_batch_nd is tf.space_to_batch
        padded = tf.space_to_batch(IMAGE[:, :3, :3], [2, 2], [[0, 1], [1, 0]])
        assert padded.numpy()[:, :, :, 0].tolist() == [
            [[0, 1], [0, 9]], [[0, 2], [8, 10]], [[0, 5], [0, 0]], [[4, 6], [0, 0]],
        ]  # fmt: skip

    def test_back(self):
        parts = tf.space_to_batch(IMAGE, [2, 2], [[0, 0], [0, 0]])
        back = tf.batch_to_space(parts, [2, 2], [[0, 0], [0, 0]])
        np.testing.assert_array_equal(back, IMAGE)
        cropped = tf.batch_to_space(parts, [2, 2], [[1, 0], [0, 2]])
        assert cropped.numpy()[0, :, :, 0].tolist() == [[4, 5], [8, 9], [12, 13]]

    def test_depth(self):
        deep = tf.nn.space_to_depth(IMAGE, 2)
        assert deep.numpy()[0].tolist() == [
            [[0, 1, 4, 5], [2, 3, 6, 7]], [[8, 9, 12, 13], [10, 11, 14, 15]],
        ]  # fmt: skip
        np.testing.assert_array_equal(tf.nn.depth_to_space(deep, 2), IMAGE)
        first = tf.nn.space_to_depth(IMAGE.transpose(0, 3, 1, 2), 2, data_format="NCHW")
        np.testing.assert_array_equal(first, deep.numpy().transpose(0, 3, 1, 2))

    def test_what_does_not_fit(self):
        for refused in (
            lambda: tf.space_to_batch(IMAGE, [3, 2], [[0, 0], [0, 0]]),
            lambda: tf.batch_to_space(IMAGE, [2, 2], [[0, 0], [0, 0]]),
            lambda: tf.nn.space_to_depth(IMAGE, 3),
            lambda: tf.nn.depth_to_space(IMAGE, 2),
            lambda: tf.nn.depth_to_space(IMAGE, 2, "CHWN"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError):
                refused()


class TestPartitions:
    def test_partition(self):
        parts = tf.dynamic_partition([1, 2, 3, 4], [0, 1, 0, 1], 3)
        assert [p.numpy().tolist() for p in parts] == [[1, 3], [2, 4], []]
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.dynamic_partition([1, 2], [0, 3], 2)

    def test_stitch(self):
        found = tf.dynamic_stitch([[0, 2], [1, 3]], [[1.0, 3.0], [2.0, 4.0]])
        assert found.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]
        again = tf.dynamic_stitch([0, [2, 0]], [1.0, [3.0, 9.0]])
        assert again.numpy().tolist() == [9.0, 0.0, 3.0]

    def test_derivatives(self):
        rows = np.ones((3, 2), np.float32)
        assert gradient(lambda x: tf.dynamic_partition(x, [0, 1, 0], 2), [1.0, 2.0, 3.0]) == [
            [1.0, 1.0, 2.0]
        ]
        found = gradient(lambda x, y: tf.dynamic_stitch([[0, 2], [1]], [x, y]), [1.0, 2.0], [3.0])
        assert found == [[1.0, 3.0], [2.0]]
        lost = gradient(lambda x, y: tf.dynamic_stitch([[0], [0]], [x, y]), [1.0], [2.0])
        assert lost == [[0.0], [1.0]]
        assert rows.shape == (3, 2)

    def test_reverse_sequence(self):
        found = tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1, batch_axis=0)
        assert found.numpy().tolist() == [[2, 1, 3], [6, 5, 4]]
        columns = tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 0, 1], seq_axis=0, batch_axis=1)
        assert columns.numpy().tolist() == [[4, 2, 3], [1, 5, 6]]
        with pytest.raises(ValueError, match="lengths"):
            tf.reverse_sequence([[1, 2]], [3], seq_axis=1)

    def test_positions_and_bits(self):
        assert tf.unravel_index([2, 5, 7], [3, 3]).numpy().tolist() == [[0, 1, 2], [2, 2, 1]]
        assert tf.bitcast(tf.constant([1.0]), tf.int32).numpy().tolist() == [1065353216]
        split = tf.bitcast(tf.constant([1], tf.int64), tf.int32)
        assert split.numpy().tolist() == [[1, 0]]
        assert tf.bitcast(split, tf.int64).numpy().tolist() == [1]


class TestCounting:
    def test_rows_of_bincount(self):
        found = tf.math.bincount([[0, 1], [1, 3]], axis=-1)
        assert found.numpy().tolist() == [[1, 1, 0, 0], [0, 1, 0, 1]]
        once = tf.math.bincount([0, 1, 1, 3], binary_output=True, axis=0)
        assert once.numpy().tolist() == [1, 1, 0, 1]
        cut = tf.math.bincount([[0, 1], [1, 3]], axis=-1, maxlength=2)
        assert cut.numpy().tolist() == [[1, 1], [0, 1]]

    def test_bins(self):
        found = tf.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5)
        assert found.numpy().tolist() == [0, 0, 1, 2, 4, 4]

    def test_extremes_of_nothing(self):
        assert tf.reduce_max(tf.zeros([0])).numpy() == -np.inf
        assert tf.reduce_min(tf.zeros([0], tf.int32)).numpy() == 2147483647
        assert tf.reduce_max(tf.zeros([0, 2]), 0, True).numpy().tolist() == [[-np.inf, -np.inf]]
        assert tf.reduce_max(tf.zeros([0, 2]), axis=1).shape == [0]

    def test_add_n(self):
        assert tf.add_n(tf.constant([1.0, 2.0])).numpy() == 3.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.add_n([tf.constant([1.0]), tf.constant([1.0, 2.0])])


class TestLimits:
    def test_range_in_the_wrong_direction(self):
        for args in ((3, 1), (1, 3, -1), (1, 5, 0)):
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.range(*args)
        assert tf.range(3, 3).shape == [0]

    def test_linspace_of_nothing(self):
        assert tf.linspace(0.0, 10.0, 0).shape == [0]

    def test_fill_takes_one_value(self):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.fill([2], [1, 2])

    def test_mirrors_reach_so_far(self):
        assert tf.pad([1, 2, 3], [[2, 2]], "REFLECT").numpy().tolist() == [3, 2, 1, 2, 3, 2, 1]
        for mode, width in (("REFLECT", 3), ("SYMMETRIC", 4)):
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.pad([1, 2, 3], [[width, 0]], mode)


def test_gradients_of_rows_are_dense():
    """Only look-ups give IndexedSlices."""
    x = tf.Variable(np.arange(6.0).reshape(3, 2))
    with tf.GradientTape(persistent=True) as tape:
        repeated = tf.repeat(x, [1, 0, 2], axis=0)
        padded = tf.pad(x, [[1, 1], [0, 0]], "REFLECT")
    found = tape.gradient(repeated, x)
    assert isinstance(found, tf.Tensor)
    assert found.numpy().tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert tape.gradient(padded, x).numpy().tolist() == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]]
