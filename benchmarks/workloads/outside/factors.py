"""Programs without derivatives: a non-negative CP, optimal transport, a mixture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.outside import Function, Outside, Solve, workload
from benchmarks.workload import Arrays, Wrap

RANK, SIZES, SWEEPS = 3, (12, 10, 8), 5


def measured_tensor() -> Arrays:
    rng = np.random.default_rng(201)
    parts = [rng.uniform(size=(RANK, size)) for size in SIZES]
    x = np.einsum("ri,rj,rk->ijk", *parts) + 0.02 * rng.uniform(size=SIZES)
    starts = {f"factor_{n}": rng.uniform(size=(RANK, size)) for n, size in enumerate(SIZES)}
    return {"x": x, **starts}


def hals(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Non-negative CP by hierarchical alternating least squares, one row after the other."""

    @wrap
    def problem(unfolded: Any, first: Any, second: Any) -> Any:
        """The products and the Gram matrix of the least squares problem of one mode."""
        columns = first[:, :, None] * second[:, None, :]
        gram = (first @ first.T) * (second @ second.T)
        return xp.reshape(columns, (RANK, -1)) @ unfolded.T, gram

    @wrap
    def better(products: Any, gram: Any, factor: Any, k: int) -> Any:
        change = (products[k] - gram[k] @ factor) / gram[k, k]
        change = xp.maximum(change, -factor[k])
        return factor[k] + change, change @ change

    @wrap
    def distance(size: Any, products: Any, gram: Any, factor: Any) -> Any:
        fitted = xp.sum(gram * (factor @ factor.T))
        return xp.sqrt(xp.abs(size + fitted - 2.0 * xp.sum(products * factor)) / size)

    def swept(products: Any, gram: Any, factor: Any) -> Any:
        first = None
        for _ in range(SWEEPS):
            moved = 0.0
            for k in range(RANK):
                if gram[k, k] > 0:
                    row, change = better(products, gram, factor, k)
                    factor = xp.index_update(factor, k, row)
                    moved = moved + change
            if first is None:
                first = moved
            if moved < 0.01 * first:
                break
        return factor

    def solve(x: Any, *starts: Any) -> tuple[Any, int]:
        factors = [1.0 * start for start in starts]
        orders = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
        unfolded = [xp.reshape(xp.transpose(x, order), (x.shape[order[0]], -1)) for order in orders]
        size = xp.sum(x * x)
        errors: list[float] = []
        for rounds in range(1, 51):
            for mode, (_, first, second) in enumerate(orders):
                products, gram = problem(unfolded[mode], factors[first], factors[second])
                factors[mode] = swept(products, gram, factors[mode])
            errors.append(float(distance(size, products, gram, factors[-1])))
            if rounds > 1 and abs(errors[-2] - errors[-1]) < 5e-3:
                break
        return xp.concat(factors, axis=1), rounds

    return solve


def two_clouds() -> Arrays:
    rng = np.random.default_rng(202)
    x, y = rng.standard_normal((40, 2)), rng.standard_normal((50, 2)) + 1.0
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    return {"a": np.full(40, 1 / 40), "b": np.full(50, 1 / 50), "cost": cost / cost.max()}


def sinkhorn(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Optimal transport with entropy: the loop of POT, which reads its error every ten rounds."""

    @wrap
    def scaled(kernel: Any, a: Any, b: Any, u: Any) -> Any:
        v = b / (kernel.T @ u)
        return a / (kernel @ v), v

    @wrap
    def left(kernel: Any, b: Any, u: Any, v: Any) -> Any:
        apart = v * (kernel.T @ u) - b
        return xp.sqrt(xp.sum(apart * apart))

    def solve(a: Any, b: Any, cost: Any) -> tuple[Any, int]:
        kernel = xp.exp(-cost / 0.01)
        u, v = a * 0.0 + 1.0 / len(a), b * 0.0 + 1.0 / len(b)
        for rounds in range(1, 1001):
            u, v = scaled(kernel, a, b, u)
            if rounds % 10 == 0:
                error = left(kernel, b, u, v)
                if error < 1e-6:
                    break
        return u[:, None] * kernel * v[None, :], rounds

    return solve


def three_heaps() -> Arrays:
    rng = np.random.default_rng(203)
    middles = np.repeat([-3.0, 0.0, 2.5], [150, 100, 250])
    x = middles + rng.standard_normal(500) * np.repeat([0.5, 0.8, 0.6], [150, 100, 250])
    return {"x": x, "means": np.array([-1.0, 0.5, 1.0]), "scales": np.ones(3)}


def mixture(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Expectation maximisation for a mixture of normals, until the log likelihood stays."""

    @wrap
    def expected(x: Any, means: Any, scales: Any, shares: Any) -> Any:
        z = (x[:, None] - means) / scales
        logs = xp.log(shares / scales) - 0.5 * z * z - 0.5 * math.log(2 * math.pi)
        top = xp.max(logs, axis=1, keepdims=True)
        parts = xp.exp(logs - top)
        total = xp.sum(parts, axis=1, keepdims=True)
        return parts / total, xp.sum(top + xp.log(total))

    @wrap
    def maximised(x: Any, parts: Any) -> Any:
        sizes = xp.sum(parts, axis=0)
        means = parts.T @ x / sizes
        apart = x[:, None] - means
        return means, xp.sqrt(xp.sum(parts * apart * apart, axis=0) / sizes), sizes / len(x)

    def solve(x: Any, means: Any, scales: Any) -> tuple[Any, int]:
        shares = scales / 3.0
        before = 0.0
        for rounds in range(1, 501):
            parts, likelihood = expected(x, means, scales, shares)
            means, scales, shares = maximised(x, parts)
            if rounds > 1 and abs(float(likelihood) - before) < 1e-4:
                break
            before = float(likelihood)
        return xp.stack([means, scales, shares]), rounds

    return solve


ROWS = (
    Outside(
        "cp-hals",
        "non-negative CP of 12 × 10 × 8 numbers by HALS, a read for each row of a factor",
        measured_tensor,
        hals,
        rounds=6,
    ),
    Outside(
        "sinkhorn-loop",
        "Sinkhorn's loop, 40 × 50, the error read every 10 rounds",
        two_clouds,
        sinkhorn,
        rounds=70,
    ),
    Outside(
        "em-mixture",
        "EM for a mixture of 3 normals, 500 points, the likelihood read every round",
        three_heaps,
        mixture,
        rounds=71,
    ),
)
WORKLOADS = tuple(workload(row) for row in ROWS)
