"""A training step of an LSTM: 100 time steps, batch 32, 64 features, 128 units, plain SGD."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

STEPS, BATCH, FEATURES, UNITS, RATE = 100, 32, 64, 128, 0.01
CHECKED_AFTER = 2


def inputs() -> Arrays:
    rng = np.random.default_rng(12)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype="float32")

    return {
        "x": normal(STEPS, BATCH, FEATURES),
        "target": normal(BATCH, UNITS),
        "weights": [
            normal(FEATURES, 4 * UNITS) * np.float32(0.1),
            normal(UNITS, 4 * UNITS) * np.float32(0.08),
            np.zeros(4 * UNITS, "float32"),
        ],
    }


def _gradients(weights: list[Any], x: Any, target: Any) -> list[Any]:
    w, u, b = weights
    h, c = np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))
    kept = []
    for given in x:
        z = given @ w + h @ u + b
        i, f, o = (1 / (1 + np.exp(-z[:, k * UNITS : (k + 1) * UNITS])) for k in (0, 1, 3))
        g = np.tanh(z[:, 2 * UNITS : 3 * UNITS])
        before, h_before = c, h
        c = f * c + i * g
        h = o * np.tanh(c)
        kept.append((given, h_before, before, i, f, g, o, c))
    by_h, by_c = 2 * (h - target) / target.size, np.zeros_like(c)
    found = [np.zeros_like(weight) for weight in weights]
    for given, h_before, before, i, f, g, o, c in reversed(kept):
        bent = np.tanh(c)
        by_c = by_c + by_h * o * (1 - bent**2)
        by_z = np.concatenate(
            [
                by_c * g * i * (1 - i),
                by_c * before * f * (1 - f),
                by_c * i * (1 - g**2),
                by_h * bent * o * (1 - o),
            ],
            axis=1,
        )
        found[0] += given.T @ by_z
        found[1] += h_before.T @ by_z
        found[2] += by_z.sum(0)
        by_h, by_c = by_z @ u.T, by_c * f
    return found


def reference(inputs: Arrays) -> list[np.ndarray]:
    weights = [weight.astype("float64") for weight in inputs["weights"]]
    x, target = inputs["x"].astype("float64"), inputs["target"].astype("float64")
    for _ in range(CHECKED_AFTER):
        slopes = _gradients(weights, x, target)
        weights = [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)]
    return weights


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, target = gt.asarray(inputs["x"]), gt.asarray(inputs["target"])
    weights = [gt.Variable(weight) for weight in inputs["weights"]]
    zeros = gt.zeros((BATCH, UNITS), dtype=gt.float32)

    @wrap
    def step(x: Any, target: Any) -> None:
        with gt.GradientTape() as tape:
            w, u, b = (weight.value for weight in weights)

            def cell(state: Any, given: Any) -> Any:
                h, c = state
                z = given + h @ u
                i, f, g, o = gt.split(z, 4, axis=1)
                c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
                return (gt.sigmoid(o) * gt.tanh(c), c), None

            (h, _), _ = gt.scan(cell, (zeros, zeros), x @ w + b)
            loss = gt.mean((h - target) ** 2)
        for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(RATE * slope)

    def call() -> object:
        step(x, target)
        return weights

    return call


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"].transpose(1, 0, 2))
    target = tf.constant(inputs["target"])
    layer = tf.keras.layers.LSTM(UNITS)
    layer.build(x.shape)
    for variable, weight in zip(layer.weights, inputs["weights"], strict=True):
        variable.assign(weight)

    @wrap
    def step(x: Any, target: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((layer(x) - target) ** 2)
        slopes = tape.gradient(loss, layer.trainable_variables)
        for variable, slope in zip(layer.trainable_variables, slopes, strict=True):
            variable.assign_sub(RATE * slope)

    def call() -> object:
        step(x, target)
        return list(layer.weights)

    return call


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x, target = jnp.asarray(inputs["x"]), jnp.asarray(inputs["target"])
    weights = [jnp.array(weight) for weight in inputs["weights"]]

    def loss(weights: Any, x: Any, target: Any) -> Any:
        w, u, b = weights

        def cell(state: Any, given: Any) -> Any:
            h, c = state
            z = given + h @ u
            i, f, g, o = jnp.split(z, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((BATCH, UNITS), "float32")
        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), x @ w + b)
        return jnp.mean((h - target) ** 2)

    def step(weights: Any, x: Any, target: Any) -> Any:
        slopes = jax.grad(loss)(weights, x, target)
        return [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)]

    compiled = wrap(step, donate_argnums=0)

    def call() -> object:
        nonlocal weights
        weights = compiled(weights, x, target)
        return weights

    return call


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x, target = torch.from_numpy(inputs["x"]), torch.from_numpy(inputs["target"])
    layer = torch.nn.LSTM(FEATURES, UNITS)
    w, u, b = inputs["weights"]
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.from_numpy(w.T.copy()))
        layer.weight_hh_l0.copy_(torch.from_numpy(u.T.copy()))
        layer.bias_ih_l0.copy_(torch.from_numpy(b))
        layer.bias_hh_l0.zero_()
    trained = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]

    def call() -> object:
        loss = ((layer(x)[0][-1] - target) ** 2).mean()
        slopes = torch.autograd.grad(loss, trained)
        with torch.no_grad():
            for weight, slope in zip(trained, slopes, strict=True):
                weight -= RATE * slope
        return [trained[0].T, trained[1].T, trained[2]]

    return call


WORKLOADS = (
    Workload(
        name="lstm",
        title="training step of an LSTM, 100 steps, batch 32, 128 units, float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        limit=Limit(
            products=(
                (STEPS * BATCH, FEATURES, 4 * UNITS),
                (FEATURES, STEPS * BATCH, 4 * UNITS),
                (UNITS, STEPS * BATCH, 4 * UNITS),
                *((BATCH, UNITS, 4 * UNITS),) * STEPS,
                *((BATCH, 4 * UNITS, UNITS),) * STEPS,
            ),
        ),
        checked_after=CHECKED_AFTER,
        calls_together=3,
        tolerance=1e-4,
    ),
)
