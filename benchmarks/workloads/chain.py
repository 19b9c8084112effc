"""50 rounds of y = sin(y) * 0.9 + x on 4 elements, and the gradient: nothing but overhead."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

ROUNDS = 50


def inputs() -> Arrays:
    rng = np.random.default_rng(4)
    return {"x": rng.uniform(-1, 1, 4).astype("float32")}


def reference(inputs: Arrays) -> list[np.ndarray]:
    """Forward mode by hand: dy becomes 0.9 cos(y) dy + 1 in each round."""
    x = inputs["x"].astype("float64")
    y, dy = x, np.ones_like(x)
    for _ in range(ROUNDS):
        y, dy = np.sin(y) * 0.9 + x, 0.9 * np.cos(y) * dy + 1
    return [dy]


def lines(x: Any) -> Any:
    """The user's own Python lines, which an undecorated program always runs."""
    y = x
    for _ in range(ROUNDS):
        y = y.sin() * 0.9 + x
    return y


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(ROUNDS):
                y = gt.sin(y) * 0.9 + x
        return tape.gradient(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(ROUNDS):
                y = tf.sin(y) * 0.9 + x
        return tape.gradient(y, x)

    return lambda: gradient(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    def function(x: Any) -> Any:
        y = x
        for _ in range(ROUNDS):
            y = jnp.sin(y) * 0.9 + x
        return jnp.sum(y)

    x = jnp.asarray(inputs["x"])
    gradient = wrap(jax.grad(function))
    return lambda: gradient(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    @wrap
    def function(x: Any) -> Any:
        y = x
        for _ in range(ROUNDS):
            y = torch.sin(y) * 0.9 + x
        return y.sum()

    x = torch.from_numpy(inputs["x"]).requires_grad_()
    return lambda: torch.autograd.grad(function(x), x)[0]


def autograd(inputs: Arrays, wrap: Wrap) -> Call:
    import autograd
    import autograd.numpy as anp

    def function(x: Any) -> Any:
        y = x
        for _ in range(ROUNDS):
            y = anp.sin(y) * 0.9 + x
        return y

    gradient = autograd.elementwise_grad(function)
    return lambda: gradient(inputs["x"])


WORKLOADS = (
    Workload(
        name="chain",
        title="50 × sin(y)·0.9 + x and its gradient, 4 elements float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch, autograd),
        limit=Limit(lines=lines),
    ),
)
