"""Gaussian processes: the marginal likelihood, exact and with inducing points."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def measured(count: int, features: int, inducing: int = 0) -> Arrays:
    rng = np.random.default_rng(131)
    x = rng.uniform(-2, 2, (count, features))
    given = {"log_length": np.zeros(features), "log_scale": np.array([0.0, -2.0])}
    if inducing:
        given["z"] = x[:inducing] + 0.01 * rng.standard_normal((inducing, features))
    y = np.sin(x).sum(1) + 0.1 * rng.standard_normal(count)
    return {**given, "x": x, "y": y}


def kernel(xp: Any, a: Any, b: Any, log_length: Any, log_scale: Any) -> Any:
    a, b = a / xp.exp(log_length), b / xp.exp(log_length)
    square = xp.sum(a * a, axis=1)[:, None] + xp.sum(b * b, axis=1) - 2.0 * (a @ b.T)
    return xp.exp(log_scale[0] - 0.5 * square)


def marginal(xp: Any, log_length: Any, log_scale: Any, x: Any, y: Any) -> Any:
    count = x.shape[0]
    noise = xp.exp(log_scale[1])
    covariance = kernel(xp, x, x, log_length, log_scale) + noise * xp.eye(count)
    factor = xp.cholesky(covariance)
    alpha = xp.triangular_solve(factor, y[:, None])
    return (
        0.5 * xp.sum(alpha * alpha)
        + xp.sum(xp.log(xp.diag(factor)))
        + 0.5 * count * math.log(2 * math.pi)
    )


def inducing_bound(xp: Any, log_length: Any, log_scale: Any, z: Any, x: Any, y: Any) -> Any:
    """The collapsed bound of Titsias (2009)."""
    count, inducing = x.shape[0], z.shape[0]
    noise = xp.exp(log_scale[1])
    among = kernel(xp, z, z, log_length, log_scale) + 1e-6 * xp.eye(inducing)
    across = kernel(xp, z, x, log_length, log_scale)
    factor = xp.cholesky(among)
    a = xp.triangular_solve(factor, across) / xp.sqrt(noise)
    b = xp.cholesky(xp.eye(inducing) + a @ a.T)
    c = xp.triangular_solve(b, (a @ y)[:, None]) / xp.sqrt(noise)
    return (
        0.5 * count * (math.log(2 * math.pi) + xp.log(noise))
        + xp.sum(xp.log(xp.diag(b)))
        + 0.5 * (xp.sum(y * y) / noise - xp.sum(c * c))
        + 0.5 * (count * xp.exp(log_scale[0]) / noise - xp.sum(a * a))
    )


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "gp-marginal",
            "Gaussian process, 200 points in 4-D, gradient of the marginal likelihood",
            partial(measured, 200, 4),
            marginal,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(measured, 8, 2),
        ),
        Row(
            "gp-inducing",
            "Gaussian process, 1,000 points with 40 inducing points, gradient of the bound",
            partial(measured, 1000, 4, 40),
            inducing_bound,
            "gradient",
            (0, 1, 2),
            libraries=LIBRARIES,
            tiny=partial(measured, 12, 2, 3),
        ),
    )
)
