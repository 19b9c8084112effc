"""Convolution, pooling and normalisation layers: against NumPy, their derivatives, and training."""

import numpy as np
import pytest

import gradtape as gt
from gradtape import nn
from gradtape.errors import ArgumentError, AxisError
from gradtape.testing import check_gradients


def by_loops(x, kernel, strides, dilations, groups):
    """A convolution along two axes without padding."""
    height, width, inside, outside = kernel.shape
    rows = (x.shape[1] - (height - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (x.shape[2] - (width - 1) * dilations[1] - 1) // strides[1] + 1
    result = np.zeros((x.shape[0], rows, columns, outside))
    each = outside // groups
    for out in range(outside):
        group = out // each
        part = x[..., group * inside : (group + 1) * inside]
        for i in range(rows):
            for j in range(columns):
                window = part[
                    :,
                    i * strides[0] : i * strides[0] + (height - 1) * dilations[0] + 1 : dilations[
                        0
                    ],
                    j * strides[1] : j * strides[1] + (width - 1) * dilations[1] + 1 : dilations[1],
                ]
                result[:, i, j, out] = np.sum(window * kernel[..., out], axis=(1, 2, 3))
    return result


@pytest.mark.parametrize(
    ("strides", "dilations", "groups"),
    [((1, 1), (1, 1), 1), ((2, 1), (1, 2), 2), ((3, 2), (1, 1), 4)],
)
def test_conv_against_loops(strides, dilations, groups):
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, 7, 8, 4)), rng.normal(size=(3, 2, 4 // groups, 8))
    found = gt.conv(x, kernel, strides=strides, dilations=dilations, groups=groups)
    np.testing.assert_allclose(
        found.numpy(), by_loops(x, kernel, strides, dilations, groups), atol=1e-12
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_conv_has_derivatives(groups):
    rng = np.random.default_rng(1)
    x, kernel = rng.normal(size=(2, 5, 4)), rng.normal(size=(3, 4 // groups, 2))
    check_gradients(
        lambda x, k: gt.conv(x, k, padding="same", strides=2, groups=groups), x, kernel, order=2
    )


def test_same_padding_keeps_the_lengths():
    for size, stride in ((7, 1), (7, 2), (8, 3)):
        found = gt.conv(np.ones((1, size, 1)), np.ones((4, 1, 1)), strides=stride, padding="same")
        assert found.shape == (1, -(-size // stride), 1)
    padded = gt.conv(np.ones((1, 3, 1)), np.ones((3, 1, 1)), padding=[(2, 0)])
    assert padded.numpy().ravel().tolist() == [1.0, 2.0, 3.0]


def test_pooling_against_numpy():
    x = np.random.default_rng(2).normal(size=(2, 4, 6, 3))
    blocks = x.reshape(2, 2, 2, 3, 2, 3)
    np.testing.assert_array_equal(gt.max_pool(x, 2).numpy(), blocks.max(axis=(2, 4)))
    np.testing.assert_allclose(gt.avg_pool(x, 2).numpy(), blocks.mean(axis=(2, 4)), rtol=1e-14)
    # Padding does not count in the mean.
    assert gt.avg_pool(np.ones((1, 3, 1)), 2, padding="same").numpy().ravel().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gt.conv(np.ones((1, 4, 3)), np.ones((2, 2, 1))), "2 channels"),
        (lambda: gt.conv(np.ones(3), np.ones(3)), "lengths"),
        (lambda: gt.conv(np.ones((1, 4, 1)), np.ones((2, 1, 1)), strides=(1, 2)), "1 spatial axes"),
        (lambda: gt.conv(np.ones((1, 4, 1)), np.ones((2, 1, 1)), padding="full"), "'same'"),
        (lambda: gt.conv(np.ones((1, 1, 1)), np.ones((2, 1, 1))), "do not fit"),
        (lambda: gt.max_pool(np.ones((1, 4, 1)), 0), "at least 1"),
        (lambda: gt.avg_pool(np.ones(4), 2), "spatial axis"),
        (lambda: nn.Conv2D(4, 3)(np.ones((28, 28, 3))), "expand_dims"),
        (lambda: nn.Conv2D(4, (3, 3, 3)), "2, one for each axis"),
        (lambda: nn.Conv2D(3, 3, groups=2)(np.ones((1, 5, 5, 4))), "groups"),
        (lambda: nn.Conv1D(0, 3), "filters"),
        (lambda: nn.MaxPool2D()(np.ones((28, 28))), "4 axes"),
        (lambda: nn.GlobalAvgPool()(np.ones((3, 3))), "spatial axis"),
        (lambda: nn.Flatten()(1.0), "0-d"),
        (lambda: nn.GroupNorm(3)(np.ones((2, 4))), "3 groups"),
    ],
)
def test_mistakes_are_explained(call, words):
    with pytest.raises((ArgumentError, ValueError), match=words):
        call()


def test_batch_norm_needs_an_axis_that_exists():
    with pytest.raises(AxisError, match="axis 3 is out of range for 2"):
        nn.BatchNorm(axis=3)(np.ones((2, 2)))


def test_batch_norm_in_training_and_after():
    x = np.random.default_rng(3).normal(2.0, 3.0, size=(64, 5))
    layer = nn.BatchNorm(momentum=0.9)
    found = layer(x).numpy()
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.var(axis=0), 1.0, atol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.1 * x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.9 + 0.1 * x.var(axis=0), rtol=1e-12)
    for _ in range(200):
        layer(x)
    layer.eval()
    again = layer(x).numpy()
    np.testing.assert_allclose(again, found, atol=1e-6)
    # Not trained: optimisers do not find them.
    assert [name for name, _ in layer.named_parameters()] == ["gamma", "beta"]


def test_group_norm_against_numpy():
    x = np.random.default_rng(4).normal(size=(3, 4, 4, 6))
    parts = x.reshape(3, 4, 4, 2, 3)
    moments = {"axis": (1, 2, 4), "keepdims": True}
    expected = (parts - parts.mean(**moments)) / np.sqrt(parts.var(**moments) + 1e-3)
    np.testing.assert_allclose(nn.GroupNorm(2)(x).numpy(), expected.reshape(x.shape), atol=1e-12)


def test_cross_entropy_takes_integers_and_probabilities():
    rng = np.random.default_rng(5)
    logits, labels = rng.normal(size=(4, 3)), np.array([0, 2, 1, 2])
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -logs[np.arange(4), labels]
    kept = nn.cross_entropy(logits, labels, reduction="none").numpy()
    np.testing.assert_allclose(kept, expected, rtol=1e-12)
    assert np.isclose(float(nn.cross_entropy(logits, np.eye(3)[labels])), expected.mean())
    smoothed = -np.sum((np.eye(3)[labels] * 0.9 + 0.1 / 3) * logs, axis=1).mean()
    assert np.isclose(float(nn.cross_entropy(logits, labels, label_smoothing=0.1)), smoothed)
    first = nn.cross_entropy(logits.T, labels, axis=0)
    assert np.isclose(float(first), expected.mean())
    with pytest.raises(Exception, match="label 3 is not a class"):
        nn.cross_entropy(logits, [0, 1, 2, 3])


def test_a_small_network_learns_in_a_function():
    gt.random.seed(0)
    rng = np.random.default_rng(6)
    # The class is which half of the image is bright.
    labels = rng.integers(0, 2, 64)
    images = rng.normal(0.0, 0.1, size=(64, 8, 8, 1))
    images[labels == 0, :4] += 1.0
    images[labels == 1, 4:] += 1.0
    model = nn.Sequential(
        [
            nn.Conv2D(4, 3, padding="same"),
            nn.BatchNorm(),
            nn.relu,
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Dense(2),
        ]
    )
    optimizer = gt.optimizers.Adam(0.01)
    model(images)

    @gt.function
    def step(x, y):
        return optimizer.minimize(lambda: nn.cross_entropy(model(x), y), model.parameters())

    losses = [float(step(images, labels)) for _ in range(30)]
    assert losses[-1] < 0.1 * losses[0]
    model.eval()
    assert np.mean(np.argmax(model(images).numpy(), axis=1) == labels) > 0.95


def test_layers_are_saved(tmp_path):
    model = nn.Sequential([nn.Conv1D(2, 3), nn.BatchNorm(), nn.GroupNorm(1)])
    x = np.random.default_rng(7).normal(size=(2, 8, 3))
    model(x)
    model.eval()
    gt.save(model, tmp_path / "model.npz")
    again = gt.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again(x).numpy(), model(x).numpy(), rtol=1e-12)


def test_norm_of_linalg_is_norm():
    assert float(gt.linalg.norm([3.0, 4.0])) == 5.0
