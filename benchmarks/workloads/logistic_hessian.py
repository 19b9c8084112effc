"""Hessian of logistic regression: one large product of a matrix with itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

EXAMPLES, PARAMETERS = 10_000, 200


def inputs() -> Arrays:
    rng = np.random.default_rng(17)
    x = rng.standard_normal((EXAMPLES, PARAMETERS))
    return {
        "x": x,
        "y": (rng.random(EXAMPLES) < 0.5).astype("float64"),
        "w": rng.standard_normal(PARAMETERS) * 0.1,
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    x, _, w = inputs.values()
    p = 1 / (1 + np.exp(-x @ w))
    return [(x.T * (p * (1 - p))) @ x / EXAMPLES]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, y, w = (gt.asarray(array) for array in inputs.values())

    def loss(w: Any) -> Any:
        z = x @ w
        return gt.mean(gt.softplus(z) - y * z)

    hessian = wrap(gt.hessian(loss))
    return lambda: hessian(w)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x, y, w = (tf.constant(array) for array in inputs.values())

    @wrap
    def hessian(w: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as inner:
                inner.watch(w)
                z = tf.linalg.matvec(x, w)
                loss = tf.reduce_mean(tf.nn.softplus(z) - y * z)
            slope = inner.gradient(loss, w)
        return outer.jacobian(slope, w)

    return lambda: hessian(w)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x, y, w = (jnp.asarray(array) for array in inputs.values())

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return jnp.mean(jax.nn.softplus(z) - y * z)

    hessian = wrap(jax.hessian(loss))
    return lambda: hessian(w, x, y)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x, y, w = (torch.from_numpy(array) for array in inputs.values())

    def loss(w: Any) -> Any:
        z = x @ w
        return (torch.nn.functional.softplus(z) - y * z).mean()

    hessian = wrap(torch.func.hessian(loss))
    return lambda: hessian(w)


WORKLOADS = (
    Workload(
        name="logistic-hessian",
        title="Hessian of logistic regression, 10,000 × 200 float64",
        dtype="float64",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        limit=Limit(products=((PARAMETERS, EXAMPLES, PARAMETERS),)),
    ),
)
