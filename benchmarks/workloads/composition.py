"""Gradient of sin(exp(log|x|)): larger than any cache, and fresh pages for the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SIDE = 10000


def inputs() -> Arrays:
    """Numbers between 0.25 and 1.25 with either sign, so that the logarithm is finite."""
    rng = np.random.default_rng(3)
    x = rng.random((SIDE, SIDE), dtype="float32")
    x += np.float32(0.25)
    np.negative(x[::2], out=x[::2])
    return {"x": x}


def reference(inputs: Arrays) -> list[np.ndarray]:
    """exp(log|x|) is |x|, so the gradient is cos(x) sign(x)."""
    x = inputs["x"]
    found = np.cos(x)
    return [np.copysign(found, x, out=found)]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(gt.exp(gt.log(gt.abs(x))))
        return tape.gradient(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(tf.exp(tf.math.log(tf.abs(x))))
        return tape.gradient(y, x)

    return lambda: gradient(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"])
    gradient = wrap(jax.grad(lambda x: jnp.sum(jnp.sin(jnp.exp(jnp.log(jnp.abs(x)))))))
    return lambda: gradient(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x = torch.from_numpy(inputs["x"]).requires_grad_()
    function = wrap(lambda x: torch.sin(torch.exp(torch.log(torch.abs(x)))).sum())
    return lambda: torch.autograd.grad(function(x), x)[0]


def autograd(inputs: Arrays, wrap: Wrap) -> Call:
    import autograd
    import autograd.numpy as anp

    gradient = autograd.elementwise_grad(lambda x: anp.sin(anp.exp(anp.log(anp.abs(x)))))
    return lambda: gradient(inputs["x"])


WORKLOADS = (
    Workload(
        name="composition",
        title="gradient of sin(exp(log|x|)), 10000² float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch, autograd),
        limit=Limit(copied=SIDE * SIDE * 4),
        slow=True,
        alone=True,
    ),
)
