"""Gradient of where(x > 0, x², eˣ): two branches, of which each element takes one."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SIDE = 1000


def inputs() -> Arrays:
    rng = np.random.default_rng(2)
    return {"x": rng.standard_normal((SIDE, SIDE), dtype="float32")}


def reference(inputs: Arrays) -> list[np.ndarray]:
    x = inputs["x"]
    return [np.where(x > 0, 2 * x, np.exp(x))]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.where(x > 0, gt.square(x), gt.exp(x))
        return tape.gradient(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.where(x > 0, tf.square(x), tf.exp(x))
        return tape.gradient(y, x)

    return lambda: gradient(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"])
    gradient = wrap(jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.square(x), jnp.exp(x)))))
    return lambda: gradient(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x = torch.from_numpy(inputs["x"]).requires_grad_()
    function = wrap(lambda x: torch.where(x > 0, torch.square(x), torch.exp(x)).sum())
    return lambda: torch.autograd.grad(function(x), x)[0]


def autograd(inputs: Arrays, wrap: Wrap) -> Call:
    import autograd
    import autograd.numpy as anp

    gradient = autograd.elementwise_grad(lambda x: anp.where(x > 0, anp.square(x), anp.exp(x)))
    return lambda: gradient(inputs["x"])


WORKLOADS = (
    Workload(
        name="where",
        title="gradient of where(x > 0, x², eˣ), 1000² float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch, autograd),
        limit=Limit(copied=SIDE * SIDE * 4),
    ),
)
