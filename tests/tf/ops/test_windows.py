"""Convolutions of other kinds, pooling in space, local statistics. Numbers are TensorFlow's."""

import numpy as np
import pytest

import gradtape.tf as tf

PLANE = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
TWO = np.concatenate([PLANE, -PLANE], -1)
SPACE = np.arange(27, dtype=np.float32).reshape(1, 3, 3, 3, 1)


def counted(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def flat(found, shape):
    assert found.shape == shape
    return found.numpy().ravel().tolist()


@pytest.mark.parametrize("stride", [3, 4, 2**40, 2**80])
def test_steps_beyond_the_axis(stride):
    """They leave one window; padding on purpose makes room for more."""
    row = counted(1, 3, 1)
    assert flat(tf.nn.max_pool1d(row, 1, stride, "VALID"), [1, 1, 1]) == [0.0]
    assert flat(tf.nn.max_pool1d(row, 2, stride, "SAME"), [1, 1, 1]) == [1.0]
    plane = tf.nn.conv2d(
        counted(1, 3, 3, 1), np.ones((1, 1, 1, 1), np.float32), [1, stride, 1, 1],
        [[0, 0], [5, 5], [0, 0], [0, 0]],
    )  # fmt: skip
    assert plane.shape[1] == 12 // stride + 1


class TestDepthwise:
    def test_values(self):
        found = tf.nn.depthwise_conv2d(TWO, counted(2, 2, 2, 2), [1, 1, 1, 1], "VALID")
        assert flat(found, [1, 2, 2, 4]) == [
            76, 84, -92, -100, 100, 112, -124, -136, 148, 168, -188, -208, 172, 196, -220, -244,
        ]  # fmt: skip
        found = tf.nn.depthwise_conv2d(TWO, counted(2, 2, 2, 1), [1, 2, 2, 1], "SAME")
        assert flat(found, [1, 2, 2, 2]) == [38, -46, 20, -27, 14, -27, 0, -8]

    def test_separable(self):
        mix = np.float32([[[[1, 2], [3, 4]]]])
        found = tf.nn.separable_conv2d(TWO, counted(2, 2, 2, 1), mix, [1, 1, 1, 1], "VALID")
        assert flat(found, [1, 2, 2, 2]) == [-100, -108, -136, -148, -208, -228, -244, -268]

    def test_channels_first(self):
        last = tf.nn.depthwise_conv2d(TWO, counted(2, 2, 2, 2), [1, 1, 1, 1], "SAME")
        first = tf.nn.depthwise_conv2d(
            TWO.transpose(0, 3, 1, 2), counted(2, 2, 2, 2), [1, 1, 1, 1], "SAME", "NCHW"
        )
        np.testing.assert_array_equal(first, last.numpy().transpose(0, 3, 1, 2))

    def test_channels_that_differ(self):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.nn.depthwise_conv2d(TWO, counted(2, 2, 3, 1), [1, 1, 1, 1], "VALID")


class TestTransposed:
    def test_planes(self):
        found = tf.nn.conv2d_transpose(
            PLANE[:, :2, :2], counted(2, 2, 1, 1) + 1, [1, 4, 4, 1], 2, "SAME"
        )
        assert flat(found, [1, 4, 4, 1]) == [0, 0, 1, 2, 0, 0, 3, 4, 3, 6, 4, 8, 9, 12, 12, 16]
        found = tf.nn.conv2d_transpose(PLANE, counted(3, 3, 1, 1), [1, 5, 5, 1], 2, "SAME")
        assert flat(found, [1, 5, 5, 1]) == [
            0, 3, 4, 11, 8, 3, 12, 11, 28, 19, 12, 27, 16, 35, 20, 27, 60, 35, 76, 43, 24, 51, 28,
            59, 32,
        ]  # fmt: skip

    def test_lines_and_spaces(self):
        line = np.float32([[[1], [2], [3]]])
        found = tf.nn.conv1d_transpose(
            line, np.float32([[[1]], [[10]], [[100]]]), [1, 7, 1], 2, "VALID"
        )
        assert flat(found, [1, 7, 1]) == [1, 10, 102, 20, 203, 30, 300]
        found = tf.nn.conv3d_transpose(
            np.float32([[[[[1]], [[2]]]]]), counted(2, 2, 2, 1, 1), [1, 2, 4, 2, 1],
            [1, 2, 2, 2, 1], "VALID",
        )  # fmt: skip
        assert flat(found, [1, 2, 4, 2, 1]) == [0, 1, 2, 3, 0, 2, 4, 6, 4, 5, 6, 7, 8, 10, 12, 14]

    @pytest.mark.parametrize("padding", ["SAME", "VALID"])
    @pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2)])
    def test_it_is_the_derivative(self, padding, stride, dilation):
        draw = np.random.default_rng(0)
        x = tf.constant(draw.normal(size=(2, 9, 8, 3)))
        kernel = tf.constant(draw.normal(size=(3, 2, 3, 4)))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.conv2d(x, kernel, stride, padding, dilations=dilation)
        g = tf.constant(draw.normal(size=y.shape))
        found = tf.nn.conv2d_transpose(g, kernel, x.shape, stride, padding, dilations=dilation)
        np.testing.assert_allclose(found, tape.gradient(y, x, g), rtol=1e-12, atol=1e-12)

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="output_shape"):
            tf.nn.conv2d_transpose(PLANE, counted(2, 2, 1, 1), [1, 9, 9, 1], 2, "SAME")


class TestOtherAxes:
    def test_space(self):
        found = tf.nn.conv3d(counted(1, 2, 2, 2, 1), counted(2, 2, 2, 1, 1), [1] * 5, "SAME")
        assert flat(found, [1, 2, 2, 2, 1]) == [140, 68, 62, 28, 38, 14, 7, 0]
        found = tf.nn.max_pool3d(SPACE, 2, 1, "VALID")
        assert flat(found, [1, 2, 2, 2, 1]) == [13, 14, 16, 17, 22, 23, 25, 26]
        found = tf.nn.avg_pool3d(SPACE, 2, 2, "SAME")
        assert flat(found, [1, 2, 2, 2, 1]) == [6.5, 8, 11, 12.5, 20, 21.5, 24.5, 26]

    def test_holes(self):
        kernel = np.float32([[1, 2], [3, 4]]).reshape(2, 2, 1, 1)
        found = tf.nn.atrous_conv2d(PLANE, kernel, 2, "SAME")
        assert flat(found, [1, 3, 3, 1]) == [16, 29, 12, 30, 54, 22, 8, 13, 4]
        assert flat(tf.nn.pool(PLANE, [2, 2], "MAX", dilations=[2, 2]), [1, 1, 1, 1]) == [8]

    def test_pool(self):
        found = tf.nn.pool(PLANE, [2, 2], "AVG", strides=[1, 1], padding="SAME")
        assert flat(found, [1, 3, 3, 1]) == [2, 3, 3.5, 5, 6, 6.5, 6.5, 7.5, 8]
        with pytest.raises(ValueError, match="pooling_type"):
            tf.nn.pool(PLANE, [2, 2], "MIN")


class TestStatistics:
    def test_local_response(self):
        found = tf.nn.lrn(
            np.float32([1, 2, 3, 4]).reshape(1, 1, 1, 4), depth_radius=1, bias=1.0, alpha=1.0,
            beta=1.0,
        )  # fmt: skip
        np.testing.assert_allclose(found.numpy().ravel(), [1 / 6, 2 / 15, 0.1, 4 / 26], rtol=1e-6)

    def test_moments(self):
        x = np.float32([[1, 2], [3, 4], [5, 9]])
        mean, variance = tf.nn.weighted_moments(x, 0, np.float32([[1], [2], [1]]))
        assert mean.numpy().tolist() == [3.0, 4.75]
        assert variance.numpy().tolist() == [2.0, 6.6875]
        count, first, second, shift = tf.nn.sufficient_statistics(x, [0], shift=1.0)
        mean, variance = tf.nn.normalize_moments(count, first, second, shift)
        np.testing.assert_allclose(mean, x.mean(0), rtol=1e-6)
        np.testing.assert_allclose(variance, x.var(0), rtol=1e-6)

    def test_losses(self):
        loss = tf.nn.compute_average_loss([1.0, 2.0, 3.0], [1.0, 0.0, 1.0], 6)
        assert loss.numpy() == pytest.approx(2 / 3)
        assert tf.nn.compute_average_loss([1.0, 2.0, 3.0]).numpy() == 2.0


def test_relu6_has_no_derivative_at_its_ends():
    x = tf.constant([0.0, -1.0, 1.0, 6.0, 7.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu6(x)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
