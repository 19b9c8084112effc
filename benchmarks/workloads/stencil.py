"""Jacobian of a three-point stencil, with three entries in each row.

Peers have no sparse result, so their dense result stands beside our sparse one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SMALL, LARGE = 2000, 1_000_000


def inputs(size: int) -> Arrays:
    return {"x": np.random.default_rng(14).standard_normal(size)}


def entries(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The diagonals below, on and above: of x[i-1] - 2 x[i]² + x[i+1], and of x at both ends."""
    below, on, above = np.ones(x.size), -4 * x, np.ones(x.size)
    on[[0, -1]] = 1
    below[[0, -1]] = above[[0, -1]] = 0
    return below, on, above


def dense_reference(inputs: Arrays) -> list[np.ndarray]:
    below, on, above = entries(inputs["x"])
    return [np.diag(below[1:], -1) + np.diag(on) + np.diag(above[:-1], 1)]


def listed_reference(inputs: Arrays) -> list[np.ndarray]:
    """The entries row by row; the two end rows have one entry each."""
    return [np.stack(entries(inputs["x"]), axis=1).reshape(-1)[[1, *range(3, 3 * LARGE - 3), -2]]]


def gradtape(
    inputs: Arrays,
    wrap: Wrap,
    sparse: bool = False,
    listed: bool = False,
) -> Call:
    import gradtape as gt

    def f(x: Any) -> Any:
        return gt.concat([x[:1], x[:-2] - 2.0 * x[1:-1] ** 2 + x[2:], x[-1:]])

    x = gt.asarray(inputs["x"])
    jacobian = wrap(gt.jacobian(f, sparse=sparse))
    return (lambda: jacobian(x).data) if listed else (lambda: jacobian(x))


def named(**options: bool) -> Any:
    build = partial(gradtape, **options)
    build.__name__ = "gradtape"  # type: ignore[attr-defined]
    return build


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"])

    @wrap
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.concat([x[:1], x[:-2] - 2.0 * x[1:-1] ** 2 + x[2:], x[-1:]], 0)
        return tape.jacobian(y, x)

    return lambda: jacobian(x)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"])
    jacobian = wrap(
        jax.jacfwd(lambda x: jnp.concatenate([x[:1], x[:-2] - 2.0 * x[1:-1] ** 2 + x[2:], x[-1:]]))
    )
    return lambda: jacobian(x)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    x = torch.from_numpy(inputs["x"])
    jacobian = wrap(
        torch.func.jacfwd(
            lambda x: torch.concatenate([x[:1], x[:-2] - 2.0 * x[1:-1] ** 2 + x[2:], x[-1:]])
        )
    )
    return lambda: jacobian(x)


WORKLOADS = (
    Workload(
        name="stencil-dense",
        title="Jacobian of a three-point stencil, n = 2000 float64, dense",
        dtype="float64",
        inputs=partial(inputs, SMALL),
        reference=dense_reference,
        builds=(gradtape, tensorflow, jax, torch),
        limit=Limit(copied=8 * SMALL * SMALL),
    ),
    Workload(
        name="stencil-sparse",
        title="Jacobian of a three-point stencil, n = 2000 float64, ours sparse",
        dtype="float64",
        inputs=partial(inputs, SMALL),
        reference=dense_reference,
        builds=(named(sparse=True), tensorflow, jax, torch),
    ),
    Workload(
        name="stencil-million",
        title="Jacobian of a three-point stencil, n = 1,000,000 float64, sparse",
        dtype="float64",
        inputs=partial(inputs, LARGE),
        reference=listed_reference,
        builds=(named(sparse=True, listed=True),),
        limit=Limit(copied=3 * 8 * LARGE),
    ),
)
