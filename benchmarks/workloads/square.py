"""Gradient of the sum of squares: nothing but memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SIDE = 1000


def inputs() -> Arrays:
    rng = np.random.default_rng(1)
    return {"x": rng.standard_normal((SIDE, SIDE), dtype="float32")}


def reference(inputs: Arrays) -> list[np.ndarray]:
    return [2 * inputs["x"]]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.square(x)
        return tape.gradient(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.square(x)
        return tape.gradient(y, x)

    return lambda: gradient(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"])
    gradient = wrap(jax.grad(lambda x: jnp.sum(jnp.square(x))))
    return lambda: gradient(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x = torch.from_numpy(inputs["x"]).requires_grad_()
    function = wrap(lambda x: torch.square(x).sum())
    return lambda: torch.autograd.grad(function(x), x)[0]


def autograd(inputs: Arrays, wrap: Wrap) -> Call:
    import autograd
    import autograd.numpy as anp

    gradient = autograd.elementwise_grad(anp.square)
    return lambda: gradient(inputs["x"])


WORKLOADS = (
    Workload(
        name="square",
        title="gradient of x², 1000² float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch, autograd),
        limit=Limit(copied=SIDE * SIDE * 4),
    ),
)
