"""Jacobian of two scalars with respect to a large array: no more work than two gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SIDE = 1000


def inputs() -> Arrays:
    rng = np.random.default_rng(11)
    return {"x": rng.standard_normal((SIDE, SIDE), dtype="float32")}


def reference(inputs: Arrays) -> list[np.ndarray]:
    x = inputs["x"].astype("float64")
    return [np.stack([2 * x, np.exp(x) / x.size])]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.stack([gt.sum(gt.square(x)), gt.mean(gt.exp(x))])
        return tape.jacobian(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.stack([tf.reduce_sum(tf.square(x)), tf.reduce_mean(tf.exp(x))])
        return tape.jacobian(y, x)

    return lambda: jacobian(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"])
    jacobian = wrap(jax.jacrev(lambda x: jnp.stack([jnp.sum(jnp.square(x)), jnp.mean(jnp.exp(x))])))
    return lambda: jacobian(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x = torch.from_numpy(inputs["x"])
    jacobian = wrap(
        torch.func.jacrev(lambda x: torch.stack([torch.square(x).sum(), torch.exp(x).mean()]))
    )
    return lambda: jacobian(x)


WORKLOADS = (
    Workload(
        name="jacobian-pair",
        title="Jacobian of (Σx², mean eˣ), 1000² float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        # The result has two parts as large as x.
        limit=Limit(copied=2 * 4 * SIDE * SIDE),
    ),
)
