"""A Jacobian with three outputs in an undecorated Python loop: the overhead of each request.

TensorFlow's issue 48314 has this pattern: a small network at one point after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Workload, Wrap

INPUTS, HIDDEN, OUTPUTS = 8, 16, 3


def inputs() -> Arrays:
    rng = np.random.default_rng(16)
    return {
        "x": rng.standard_normal(INPUTS, dtype="float32"),
        "w": rng.standard_normal((HIDDEN, INPUTS), dtype="float32") * np.float32(0.3),
        "b": rng.standard_normal(HIDDEN, dtype="float32"),
        "v": rng.standard_normal((OUTPUTS, HIDDEN), dtype="float32") * np.float32(0.3),
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    x, w, b, v = (array.astype("float64") for array in inputs.values())
    h = np.tanh(w @ x + b)
    return [(v * (1 - h * h)) @ w]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, w, b, v = (gt.asarray(array) for array in inputs.values())

    @wrap
    def call(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = v @ gt.tanh(w @ x + b)
        return tape.jacobian(y, x)

    return lambda: call(x)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x, w, b, v = (tf.constant(array) for array in inputs.values())

    @wrap
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.linalg.matvec(v, tf.tanh(tf.linalg.matvec(w, x) + b))
        return tape.jacobian(y, x)

    return lambda: jacobian(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x, w, b, v = (jnp.asarray(array) for array in inputs.values())
    jacobian = wrap(jax.jacrev(lambda x, w, b, v: v @ jnp.tanh(w @ x + b)))
    return lambda: jacobian(x, w, b, v)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x, w, b, v = (torch.from_numpy(array) for array in inputs.values())
    jacobian = wrap(torch.func.jacrev(lambda x: v @ torch.tanh(w @ x + b)))
    return lambda: jacobian(x)


WORKLOADS = (
    Workload(
        name="jacobian-loop",
        title="Jacobian of 3 outputs (8 → 16 → 3) in a loop, float32",
        dtype="float32",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch),
    ),
)
