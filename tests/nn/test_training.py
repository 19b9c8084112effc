"""Small networks that learn."""

import numpy as np
import pytest

import gradtape as gt
from gradtape import nn, optimizers


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.SGD(0.5, momentum=0.9),
        lambda: optimizers.Adam(0.01),
        lambda: optimizers.AdamW(0.01),
        lambda: optimizers.RMSprop(0.005),
        lambda: optimizers.Adagrad(0.1),
    ],
    ids=["sgd", "adam", "adamw", "rmsprop", "adagrad"],
)
def test_perceptron_learns_a_spiral(make):
    gt.random.seed(0)
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.5, 2.0, 200) * np.pi
    labels = np.arange(200) % 2
    radius = np.where(labels, angle, -angle)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1) / 3.0
    model = nn.Sequential([nn.Dense(32, "tanh"), nn.Dense(32, "tanh"), nn.Dense(2)])
    optimizer = make()
    x, y = gt.asarray(points.astype("float32")), gt.asarray(labels)

    def loss():
        return nn.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)

    start = float(loss())
    for _ in range(300):
        optimizer.minimize(loss, model.parameters)
    assert float(loss()) < 0.2 * start
    assert np.mean(np.argmax(model(x).numpy(), axis=1) == labels) > 0.95


def test_embedding_and_gru_learn_to_remember():
    gt.random.seed(0)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 8, (128, 6))
    model = nn.Sequential([nn.Embedding(8, 8, dtype="float32"), nn.GRU(16), nn.Dense(8)])
    optimizer = optimizers.Adam(0.02)
    x, first = gt.asarray(words), gt.asarray(words[:, 0])

    def loss():
        return nn.losses.sparse_categorical_crossentropy(first, model(x), from_logits=True)

    for _ in range(150):
        optimizer.minimize(loss, model.parameters)
    assert np.mean(np.argmax(model(x).numpy(), axis=1) == words[:, 0]) > 0.95
