"""Programs that users of other libraries reported as slow or large, each at a modest size."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import KINKED, Row, workload
from benchmarks.workload import Arrays

LEAVES, LENGTH = 60, 614
SCANS = ("gradtape", "jax", "torch")


def many_leaves() -> Arrays:
    rng = np.random.default_rng(41)
    return {"rate": rng.uniform(0.1, 0.9, LEAVES), "u": rng.standard_normal(LENGTH)}


def scalar_carry(xp: Any, rate: Any, u: Any) -> Any:
    """jax#40150: a scan whose carry is 60 scalars, each of which follows its neighbour."""

    def step(carry: Any, given: Any) -> Any:
        after = tuple(
            x + rate[place] * (xp.tanh(carry[place - 1] + given) - x)
            for place, x in enumerate(carry)
        )
        return after, after[-1] * after[-1]

    zero = xp.zeros((), dtype="float64")
    return xp.sum(xp.scan(step, (zero,) * LEAVES, u)[1])


def small_matrices() -> Arrays:
    rng = np.random.default_rng(42)
    return {"a": rng.standard_normal((3, 3)) * 0.3, "u": rng.standard_normal((10_000, 3))}


def matrix_carry(xp: Any, a: Any, u: Any) -> Any:
    """jax#36799: a scan with a carry of 3 × 3 numbers in float64, over 10,000 steps."""

    def step(p: Any, given: Any) -> Any:
        p = a @ p @ xp.transpose(a, (1, 0)) + given[:, None] * given
        return p, xp.log(1.0 + p[0, 0] * p[0, 0])

    start = xp.zeros((3, 3), dtype="float64")
    return xp.sum(xp.scan(step, start, u)[1])


def neuron() -> Arrays:
    return {"g": np.array([120.0, 36.0, 0.3]), "u": np.full(2000, 10.0)}


def hodgkin_huxley(xp: Any, g: Any, u: Any) -> Any:
    """jax#26145: a neuron of Hodgkin and Huxley by Euler's method, 2,000 steps of 0.01 ms."""

    def gate(x: Any, up: Any, down: Any) -> Any:
        return x + 0.01 * (up * (1.0 - x) - down * x)

    def step(carry: Any, given: Any) -> Any:
        v, m, h, n = carry
        current = (
            g[0] * m * m * m * h * (v - 50.0)
            + g[1] * n * n * n * n * (v + 77.0)
            + g[2] * (v + 54.4)
        )
        m = gate(
            m,
            0.1 * (v + 40.01) / (1.0 - xp.exp(-(v + 40.01) / 10.0)),
            4.0 * xp.exp(-(v + 65.0) / 18.0),
        )
        h = gate(h, 0.07 * xp.exp(-(v + 65.0) / 20.0), 1.0 / (1.0 + xp.exp(-(v + 35.0) / 10.0)))
        n = gate(
            n,
            0.01 * (v + 55.01) / (1.0 - xp.exp(-(v + 55.01) / 10.0)),
            0.125 * xp.exp(-(v + 65.0) / 80.0),
        )
        v = v + 0.01 * (given - current)
        return (v, m, h, n), v

    zero = xp.zeros((), dtype="float64")
    start = (zero - 65.0, zero + 0.05, zero + 0.6, zero + 0.32)
    return xp.mean(xp.scan(step, start, u)[1])


def small_model() -> Arrays:
    rng = np.random.default_rng(43)

    def drawn(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype="float32")

    return {
        "w": drawn(4, 16),
        "b": drawn(16),
        "v": drawn(16, 3) * np.float32(0.25),
        "x": drawn(32, 4),
        "target": np.eye(3, dtype="float32")[rng.integers(0, 3, 32)],
    }


def dense(xp: Any, w: Any, b: Any, v: Any, x: Any, target: Any) -> Any:
    """keras#18648: two small dense layers, where the overhead of a step is all there is."""
    scores = xp.relu(x @ w + b) @ v
    return xp.mean(xp.logsumexp(scores, axis=1) - xp.sum(scores * target, axis=1))


def kernel_points() -> Arrays:
    rng = np.random.default_rng(44)
    return {"z": rng.uniform(-1, 1, 501), "x": rng.uniform(-1, 1, 5000)}


def kernel_residual(xp: Any, z: Any, x: Any) -> Any:
    """functorch#1058: residuals of a kernel by its points; the Jacobian is small."""
    apart = x[:, None] - z
    return xp.sum(xp.exp(-4.0 * apart * apart), axis=1)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "scan-scalars",
            "gradient of a scan with 60 scalars in its carry, 614 steps (jax#40150)",
            many_leaves,
            scalar_carry,
            "gradient",
            libraries=("gradtape", "jax"),
            slow=True,
        ),
        Row(
            "scan-matrix",
            "gradient of a scan with a 3 × 3 carry, 10,000 steps float64 (jax#36799)",
            small_matrices,
            matrix_carry,
            "gradient",
            libraries=("gradtape", "jax"),
        ),
        Row(
            "neuron",
            "gradient of a neuron of 4 states, 2,000 steps float64 (jax#26145)",
            neuron,
            hodgkin_huxley,
            "gradient",
            libraries=("gradtape", "jax"),
            tolerance=1e-4,
        ),
        Row(
            "small-model",
            "gradient of two small dense layers, 32 examples (keras#18648)",
            small_model,
            dense,
            "gradient",
            (0, 1, 2),
            dtype="float32",
            tolerance=1e-3,
            step=KINKED,
        ),
        Row(
            "kernel-jacobian",
            "Jacobian 5000 × 501 of kernel residuals, with its memory (functorch#1058)",
            kernel_points,
            kernel_residual,
            "jacobian",
            forward=True,
            libraries=("gradtape", "jax", "torch"),
            slow=True,
        ),
    )
)
