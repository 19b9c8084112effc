"""A training step of a linear model, 32×784×10: mean squared error and Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap
from benchmarks.workloads import adam

BATCH, FEATURES, RESULTS = 32, 784, 10
CHECKED_AFTER = 3


def inputs() -> Arrays:
    rng = np.random.default_rng(5)
    return {
        "x": rng.standard_normal((BATCH, FEATURES), dtype="float32"),
        "target": rng.standard_normal((BATCH, RESULTS), dtype="float32"),
        "weights": [
            rng.standard_normal((FEATURES, RESULTS), dtype="float32") * np.float32(0.05),
            np.zeros(RESULTS, "float32"),
        ],
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    x, target = inputs["x"].astype("float64"), inputs["target"].astype("float64")
    weights = [weight.astype("float64") for weight in inputs["weights"]]
    state = weights, adam.zeros(weights), adam.zeros(weights)
    for step in range(1, CHECKED_AFTER + 1):
        w, b = state[0]
        by_output = 2 * (x @ w + b - target) / target.size
        state = adam.by_numpy(state, [x.T @ by_output, by_output.sum(0)], step)
    return [array for arrays in state for array in arrays]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, target = gt.asarray(inputs["x"]), gt.asarray(inputs["target"])
    optimizer = adam.ForGradtape(inputs["weights"])
    w, b = optimizer.weights

    @wrap
    def step(x: Any, target: Any, first: float, second: float) -> None:
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.square(x @ w + b - target))
        optimizer.apply(tape.gradient(loss, optimizer.weights), first, second)

    def call() -> object:
        step(x, target, *optimizer.advance())
        return optimizer.all

    return call


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x, target = tf.constant(inputs["x"]), tf.constant(inputs["target"])
    optimizer = adam.ForTensorflow(inputs["weights"])
    w, b = optimizer.weights

    @wrap
    def step(x: Any, target: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w + b - target))
        optimizer.update(tape.gradient(loss, optimizer.weights))

    def call() -> object:
        step(x, target)
        return optimizer.all

    return call


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, target: Any) -> Any:
        w, b = weights
        return jnp.mean(jnp.square(x @ w + b - target))

    return jax_training(inputs, wrap, jax.grad(loss))


def jax_training(inputs: Arrays, wrap: Wrap, gradient: Any) -> Call:
    """A compiled step, and the state that it passes on."""
    import jax.numpy as jnp

    x, target = jnp.asarray(inputs["x"]), jnp.asarray(inputs["target"])
    weights = [jnp.array(weight) for weight in inputs["weights"]]
    state = weights, [*map(jnp.zeros_like, weights)], [*map(jnp.zeros_like, weights)]
    count = jnp.asarray(0.0, "float32")

    def step(state: Any, count: Any, x: Any, target: Any) -> Any:
        count = count + 1
        return adam.by_jax(state, gradient(state[0], x, target), count), count

    # The old state is donated, so that the new state can reuse its memory.
    step = wrap(step, donate_argnums=(0, 1))

    def call() -> object:
        nonlocal state, count
        state, count = step(state, count, x, target)
        return [array for arrays in state for array in arrays]

    return call


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x, target = torch.from_numpy(inputs["x"]), torch.from_numpy(inputs["target"])
    optimizer = adam.ForTorch(inputs["weights"])
    w, b = optimizer.weights
    loss = wrap(lambda x, target: torch.nn.functional.mse_loss(torch.addmm(b, x, w), target))
    return lambda: optimizer.update(loss(x, target))


WORKLOADS = (
    Workload(
        name="linear-adam",
        title="training step 32×784×10, squared error, Adam, float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        limit=Limit(
            products=((BATCH, FEATURES, RESULTS), (FEATURES, BATCH, RESULTS)),
            # The weights and both moments are read and written.
            copied=3 * 4 * (FEATURES * RESULTS + RESULTS),
        ),
        checked_after=CHECKED_AFTER,
        calls_together=20,
        # Adam divides by the gradient's size, which may be close to the rounding error.
        tolerance=1e-4,
    ),
)
