"""Initialisers: moments and bounds, seeds, names."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.nn import Dense, initializers

SHAPE = (300, 200)
CUT = 2.0 / 0.87962566103423978


@pytest.mark.parametrize(
    ("name", "variance", "bound"),
    [
        ("uniform", 0.05**2 / 3, 0.05),
        ("normal", 0.05**2, np.inf),
        ("truncated_normal", 0.05**2 * 0.8796256**2, 0.1),
        ("glorot_uniform", 2 / 500, np.sqrt(6 / 500)),
        ("glorot_normal", 2 / 500, CUT * np.sqrt(2 / 500)),
        ("he_uniform", 2 / 300, np.sqrt(6 / 300)),
        ("he_normal", 2 / 300, CUT * np.sqrt(2 / 300)),
        ("lecun_uniform", 1 / 300, np.sqrt(3 / 300)),
        ("lecun_normal", 1 / 300, CUT * np.sqrt(1 / 300)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments(name, variance, bound, dtype):
    x = getattr(initializers, name)(seed=1)(SHAPE, dtype)
    assert (x.shape, x.dtype) == (SHAPE, np.dtype(dtype))
    x = x.numpy().astype("float64")
    deviation = np.sqrt(variance / x.size)
    assert abs(x.mean()) < 5 * deviation
    assert x.var() == pytest.approx(variance, rel=0.03)
    assert np.abs(x).max() <= bound * (1 + 1e-6)
    if np.isfinite(bound):
        assert np.abs(x).max() > 0.97 * bound


def test_fans_of_kernels_and_vectors():
    scaled = initializers.variance_scaling
    kernel = scaled(1.0, "fan_in", "untruncated_normal", seed=0)((5, 5, 40, 30))
    assert kernel.numpy().var() == pytest.approx(1 / 1000, rel=0.05)
    kernel = scaled(1.0, "fan_out", "untruncated_normal", seed=0)((5, 5, 40, 30))
    assert kernel.numpy().var() == pytest.approx(1 / 750, rel=0.05)
    assert scaled(seed=0)((4,)).shape == (4,)
    assert scaled(seed=0)(()).shape == ()


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 3, 4)])
def test_orthogonal(shape):
    q = initializers.orthogonal(gain=2.0, seed=3)(shape).numpy()
    assert q.shape == shape
    q = q.reshape(-1, shape[-1]) / 2.0
    product = q.T @ q if q.shape[0] >= q.shape[1] else q @ q.T
    np.testing.assert_allclose(product, np.eye(min(q.shape)), atol=1e-12)
    assert initializers.orthogonal(seed=3)(shape, "float32").dtype == np.float32
    with pytest.raises(ValueError, match="fewer than two axes"):
        initializers.orthogonal()((3,))


def test_seeds():
    start = initializers.glorot_uniform(seed=5)
    assert start((3, 2)).tolist() == start((3, 2)).tolist()
    generator = gt.random.Generator(5)
    going_on = initializers.glorot_uniform(seed=generator)
    first, second = going_on((3, 2)).tolist(), going_on((3, 2)).tolist()
    assert first == start((3, 2)).tolist()
    assert first != second
    gt.random.seed(1)
    first = Dense(3, in_features=2).kernel.numpy().tolist()
    gt.random.seed(1)
    assert Dense(3, in_features=2).kernel.numpy().tolist() == first


def test_constants():
    assert initializers.constant(2)((2,), "float32").tolist() == [2.0, 2.0]
    assert initializers.constant([1, 2])((2,)).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"shape \(2,\).*\(3,\)"):
        initializers.constant([1, 2])((3,))


def test_what_layers_take():
    ways = ["ones", initializers.ones, initializers.ones(), 1.0, np.ones((2, 1))]
    for way in ways:
        assert Dense(1, kernel_initializer=way, in_features=2).kernel.numpy().tolist() == [[1], [1]]

    def own(shape, dtype):
        return np.full(shape, 3.0, dtype)

    assert Dense(1, kernel_initializer=own, in_features=1).kernel.numpy().tolist() == [[3.0]]
    with pytest.raises(ValueError, match=r"'one' is unknown.*ones"):
        initializers.get("one")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="scale=0"):
        initializers.variance_scaling(0.0)
    with pytest.raises(ValueError, match="'fan'"):
        initializers.variance_scaling(mode="fan")
    with pytest.raises(ValueError, match="'normal'"):
        initializers.variance_scaling(distribution="normal")
