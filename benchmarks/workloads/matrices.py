"""Dense linear algebra: many small matrices, and one of order 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

MANY, SMALL, ORDER = 10_000, 6, 500


def small() -> Arrays:
    rng = np.random.default_rng(32)
    return {
        "m": rng.standard_normal((MANY, SMALL, SMALL)),
        "b": rng.standard_normal((MANY, SMALL, 1)),
        "identity": np.eye(SMALL),
    }


def cholesky_solves(xp: Any, m: Any, b: Any, identity: Any) -> Any:
    matrices = m @ xp.transpose(m, (0, 2, 1)) + identity
    factor = xp.cholesky(matrices)
    x = xp.triangular_solve(factor, xp.triangular_solve(factor, b), transposed=True)
    return xp.sum(x * b)


def large() -> Arrays:
    rng = np.random.default_rng(33)
    return {
        "a": rng.standard_normal((ORDER, ORDER)) + 5 * np.eye(ORDER),
        "b": rng.standard_normal((ORDER, 1)),
    }


def solve(xp: Any, a: Any, b: Any) -> Any:
    x = xp.solve(a, b)
    return xp.sum(x * x)


def alone() -> Arrays:
    return {"a": large()["a"]}


def symmetric() -> Arrays:
    a = large()["a"]
    return {"a": (a + a.T) / 2}


def eigh(xp: Any, a: Any) -> Any:
    # Vectors have either sign.
    values, vectors = xp.eigh(a)
    return values, xp.abs(vectors)


def svd(xp: Any, a: Any) -> Any:
    u, s, v = xp.svd(a)
    return xp.abs(u), s, xp.abs(v)


def slogdet(xp: Any, a: Any) -> Any:
    return xp.slogdet(a)[1]


ONE: tuple[tuple[str, Callable[[], Arrays], Any], ...] = (
    ("inv", alone, lambda xp, a: xp.inv(a)),
    ("slogdet", alone, slogdet),
    ("eigh", symmetric, eigh),
    ("svdvals", alone, lambda xp, a: xp.svdvals(a)),
    ("svd", alone, svd),
)
WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "cholesky-solves",
            "10,000 Cholesky solves of 6 × 6 float64, with gradient",
            small,
            cholesky_solves,
            "gradient",
            (0, 1),
            libraries=("gradtape", "jax", "torch", "tensorflow"),
        ),
        Row("solve", "solve of order 500 float64, with gradient", large, solve, "gradient", (0, 1)),
        *(
            Row(name, f"{name} of order 500 float64", given, formula, tolerance=1e-6)
            for name, given, formula in ONE
        ),
    )
)
