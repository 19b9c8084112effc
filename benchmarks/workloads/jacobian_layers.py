"""Jacobians of two layers: of one example, and of each example of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

WIDTH = 256
BATCH, NARROW, WIDE = 512, 32, 64


def one_inputs() -> Arrays:
    rng = np.random.default_rng(12)
    scale = np.float32(WIDTH**-0.5)
    return {
        "a": rng.standard_normal((WIDTH, WIDTH), dtype="float32") * scale,
        "b": rng.standard_normal((WIDTH, WIDTH), dtype="float32") * scale,
        "x": rng.standard_normal(WIDTH, dtype="float32"),
    }


def one_reference(inputs: Arrays) -> list[np.ndarray]:
    a, b, x = (array.astype("float64") for array in inputs.values())
    h = np.tanh(a @ x)
    y = np.tanh(b @ h)
    return [((1 - y * y)[:, None] * b * (1 - h * h)) @ a]


class One:
    """tanh(B tanh(A x)): the middle is as wide as the ends."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        a, b, x = (gt.asarray(array) for array in inputs.values())

        @wrap
        def jacobian(x: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.tanh(b @ gt.tanh(a @ x))
            return tape.jacobian(y, x)

        return lambda: jacobian(x)

    @staticmethod
    def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
        import tensorflow as tf

        a, b, x = (tf.constant(array) for array in inputs.values())

        @wrap
        def jacobian(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.tanh(tf.linalg.matvec(b, tf.tanh(tf.linalg.matvec(a, x))))
            return tape.jacobian(y, x)

        return lambda: jacobian(x)

    @staticmethod
    def jax(inputs: Arrays, wrap: Wrap) -> Call:
        import jax
        import jax.numpy as jnp

        a, b, x = (jnp.asarray(array) for array in inputs.values())
        jacobian = wrap(jax.jacrev(lambda x, a, b: jnp.tanh(b @ jnp.tanh(a @ x))))
        return lambda: jacobian(x, a, b)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap) -> Call:
        import torch

        a, b, x = (torch.from_numpy(array) for array in inputs.values())
        jacobian = wrap(torch.func.jacrev(lambda x: torch.tanh(b @ torch.tanh(a @ x))))
        return lambda: jacobian(x)


def batch_inputs() -> Arrays:
    rng = np.random.default_rng(13)
    return {
        "x": rng.standard_normal((BATCH, NARROW), dtype="float32"),
        "w": rng.standard_normal((NARROW, WIDE), dtype="float32") * np.float32(NARROW**-0.5),
        "v": rng.standard_normal((WIDE, NARROW), dtype="float32") * np.float32(WIDE**-0.5),
    }


def batch_reference(inputs: Arrays) -> list[np.ndarray]:
    x, w, v = (array.astype("float64") for array in inputs.values())
    h = np.tanh(x @ w)
    return [np.einsum("ko,bk,ik->boi", v, 1 - h * h, w)]


class Batch:
    """tanh(x W) V for each row of x."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        x, w, v = (gt.asarray(array) for array in inputs.values())

        @wrap
        def jacobian(x: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.tanh(x @ w) @ v
            return tape.batch_jacobian(y, x)

        return lambda: jacobian(x)

    @staticmethod
    def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
        import tensorflow as tf

        x, w, v = (tf.constant(array) for array in inputs.values())

        @wrap
        def jacobian(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.tanh(x @ w) @ v
            return tape.batch_jacobian(y, x)

        return lambda: jacobian(x)

    @staticmethod
    def jax(inputs: Arrays, wrap: Wrap) -> Call:
        import jax
        import jax.numpy as jnp

        x, w, v = (jnp.asarray(array) for array in inputs.values())
        one = jax.jacrev(lambda x, w, v: jnp.tanh(x @ w) @ v)
        jacobian = wrap(jax.vmap(one, in_axes=(0, None, None)))
        return lambda: jacobian(x, w, v)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap) -> Call:
        import torch

        x, w, v = (torch.from_numpy(array) for array in inputs.values())
        jacobian = wrap(torch.func.vmap(torch.func.jacrev(lambda x: torch.tanh(x @ w) @ v)))
        return lambda: jacobian(x)


WORKLOADS = (
    Workload(
        name="jacobian-layers",
        title="Jacobian of tanh(B tanh(A x)), 256 float32",
        dtype="float32",
        inputs=one_inputs,
        reference=one_reference,
        builds=(One.gradtape, One.tensorflow, One.jax, One.torch),
        limit=Limit(products=((WIDTH, WIDTH, WIDTH),)),
    ),
    Workload(
        name="jacobian-batch",
        title="batch Jacobian 512 × (32 → 64 → 32) float32",
        dtype="float32",
        inputs=batch_inputs,
        reference=batch_reference,
        builds=(Batch.gradtape, Batch.tensorflow, Batch.jax, Batch.torch),
        limit=Limit(products=((BATCH * NARROW, WIDE, NARROW),)),
    ),
)
