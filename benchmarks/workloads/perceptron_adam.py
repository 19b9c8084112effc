"""A training step of a perceptron, 128×784-512-512-10: relu, softmax cross-entropy, Adam."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap
from benchmarks.workloads import adam
from benchmarks.workloads.linear_adam import jax_training

BATCH, WIDTHS = 128, (784, 512, 512, 10)
CHECKED_AFTER = 3


def inputs() -> Arrays:
    """`target` has a one in the column of the class, and zeros."""
    rng = np.random.default_rng(6)
    labels = rng.integers(0, WIDTHS[-1], BATCH)
    weights: list[Any] = []
    for wide, narrow in pairwise(WIDTHS):
        scale = np.float32((2 / wide) ** 0.5)
        weights.append(rng.standard_normal((wide, narrow), dtype="float32") * scale)
        weights.append(np.zeros(narrow, "float32"))
    return {
        "x": rng.standard_normal((BATCH, WIDTHS[0]), dtype="float32"),
        "target": np.eye(WIDTHS[-1], dtype="float32")[labels],
        "labels": labels,
        "weights": weights,
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    x, target = inputs["x"].astype("float64"), inputs["target"].astype("float64")
    weights = [weight.astype("float64") for weight in inputs["weights"]]
    state = weights, adam.zeros(weights), adam.zeros(weights)
    for step in range(1, CHECKED_AFTER + 1):
        w1, b1, w2, b2, w3, b3 = state[0]
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        scores = np.exp(h2 @ w3 + b3)
        by_output = (scores / scores.sum(1, keepdims=True) - target) / BATCH
        by_h2 = (by_output @ w3.T) * (h2 > 0)
        by_h1 = (by_h2 @ w2.T) * (h1 > 0)
        gradients = [
            *(x.T @ by_h1, by_h1.sum(0)),
            *(h1.T @ by_h2, by_h2.sum(0)),
            *(h2.T @ by_output, by_output.sum(0)),
        ]
        state = adam.by_numpy(state, gradients, step)
    return [array for arrays in state for array in arrays]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, target = gt.asarray(inputs["x"]), gt.asarray(inputs["target"])
    optimizer = adam.ForGradtape(inputs["weights"])
    w1, b1, w2, b2, w3, b3 = optimizer.weights

    @wrap
    def step(x: Any, target: Any, first: float, second: float) -> None:
        with gt.GradientTape() as tape:
            h = gt.relu(x @ w1 + b1)
            h = gt.relu(h @ w2 + b2)
            z = h @ w3 + b3
            loss = gt.mean(gt.logsumexp(z, axis=1) - gt.sum(z * target, axis=1))
        optimizer.apply(tape.gradient(loss, optimizer.weights), first, second)

    def call() -> object:
        step(x, target, *optimizer.advance())
        return optimizer.all

    return call


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x, target = tf.constant(inputs["x"]), tf.constant(inputs["target"])
    optimizer = adam.ForTensorflow(inputs["weights"])
    w1, b1, w2, b2, w3, b3 = optimizer.weights

    @wrap
    def step(x: Any, target: Any) -> None:
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ w1 + b1)
            h = tf.nn.relu(h @ w2 + b2)
            z = h @ w3 + b3
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, z))
        optimizer.update(tape.gradient(loss, optimizer.weights))

    def call() -> object:
        step(x, target)
        return optimizer.all

    return call


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, target: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = jax.nn.relu(x @ w1 + b1)
        h = jax.nn.relu(h @ w2 + b2)
        z = h @ w3 + b3
        return jnp.mean(jax.nn.logsumexp(z, axis=1) - jnp.sum(z * target, axis=1))

    return jax_training(inputs, wrap, jax.grad(loss))


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x, labels = torch.from_numpy(inputs["x"]), torch.from_numpy(inputs["labels"])
    optimizer = adam.ForTorch(inputs["weights"])
    w1, b1, w2, b2, w3, b3 = optimizer.weights

    @wrap
    def loss(x: Any, labels: Any) -> Any:
        h = torch.relu(torch.addmm(b1, x, w1))
        h = torch.relu(torch.addmm(b2, h, w2))
        return torch.nn.functional.cross_entropy(torch.addmm(b3, h, w3), labels)

    return lambda: optimizer.update(loss(x, labels))


def products() -> tuple[tuple[int, int, int], ...]:
    """The products of a step: forward, by weights, and by inputs of all but the first layer."""
    found = []
    for layer, (wide, narrow) in enumerate(pairwise(WIDTHS)):
        found += [(BATCH, wide, narrow), (wide, BATCH, narrow)]
        found += [(BATCH, narrow, wide)] * (layer > 0)
    return tuple(found)


def weight_count() -> int:
    return sum((wide + 1) * narrow for wide, narrow in pairwise(WIDTHS))


WORKLOADS = (
    Workload(
        name="perceptron-adam",
        title="training step 128×784-512-512-10, cross-entropy, Adam, float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        # The weights and both moments are read and written.
        limit=Limit(products=products(), copied=3 * 4 * weight_count()),
        checked_after=CHECKED_AFTER,
        calls_together=5,
        # From the second step on, a relu input within rounding of zero may fall on either side,
        # which changes one unit's gradients by some thousandths, so whole arrays are compared.
        tolerance=1e-3,
        by_norm=True,
    ),
)
