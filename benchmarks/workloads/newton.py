"""Newton's method until it converges, in a Python `while`, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Workload, Wrap

CLOSE = 1e-10


def inputs() -> Arrays:
    return {"a": np.array(7.0)}


def reference(inputs: Arrays) -> list[np.ndarray]:
    """The cube root, and its derivative."""
    a = inputs["a"]
    return [np.cbrt(a), np.cbrt(a) / (3 * a)]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    a = gt.asarray(inputs["a"])

    @wrap
    def root(a: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(a)
            x = a
            while gt.abs(x * x * x - a) > CLOSE:
                x = x - (x * x * x - a) / (3.0 * x * x)
        return x, tape.gradient(x, a)

    return lambda: root(a)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    a = tf.constant(inputs["a"])

    @wrap
    def root(a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            x = a
            while tf.abs(x * x * x - a) > CLOSE:
                x = x - (x * x * x - a) / (3.0 * x * x)
        return x, tape.gradient(x, a)

    return lambda: root(a)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    a = jnp.asarray(inputs["a"])

    def root(a: Any) -> Any:
        return jax.lax.while_loop(
            lambda x: jnp.abs(x * x * x - a) > CLOSE,
            lambda x: x - (x * x * x - a) / (3.0 * x * x),
            a,
        )

    # jax.lax.while_loop has no reverse mode.
    both = wrap(lambda a: jax.jvp(root, (a,), (jnp.ones_like(a),)))
    return lambda: both(a)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    a = torch.from_numpy(inputs["a"]).requires_grad_()

    def call() -> object:
        x = a
        while torch.abs(x * x * x - a) > CLOSE:
            x = x - (x * x * x - a) / (3.0 * x * x)
        return x, torch.autograd.grad(x, a)[0]

    return call


WORKLOADS = (
    Workload(
        name="newton",
        title="Newton's method to convergence in a Python while, and its gradient, float64",
        dtype="float64",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
        tolerance=1e-9,
    ),
)
