"""Searches that branch on values: Newton's method, a line search, L-BFGS."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.outside import Function, Outside, Solve, workload
from benchmarks.workload import Arrays, Wrap

PAIRS = 5


def newton(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Lambert's W: the root of x exp(x) - a."""

    both = wrap(slopes(lambda x, a: x * xp.exp(x) - a))

    def solve(a: Any, start: Any) -> tuple[Any, int]:
        x, rounds = start, 0
        value, slope = both(x, a)
        while abs(value) > 1e-10:
            x = x - value / slope
            value, slope = both(x, a)
            rounds += 1
        return x, rounds

    return solve


def newton_by_hand(x: Any, a: Any) -> Any:
    e = np.exp(x)
    return x * e - a, e * (x + 1.0)


def examples() -> Arrays:
    rng = np.random.default_rng(221)
    x = rng.standard_normal((100, 4)) * [1.0, 2.0, 0.5, 1.5]
    chance = 1.0 / (1.0 + np.exp(-x @ [1.0, -0.5, 2.0, 0.3]))
    return {"x": x, "y": (rng.uniform(size=100) < chance) * 1.0, "w": np.zeros(4)}


def backtracking(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Logistic regression by gradient descent; each step is halved until the loss falls enough."""

    @wrap
    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return xp.mean(xp.log(1.0 + xp.exp(z)) - y * z) + 0.05 * xp.sum(w * w)

    both = wrap(slopes(loss))

    def solve(x: Any, y: Any, w: Any) -> tuple[Any, int]:
        rounds = 0
        value, slope = both(w, x, y)
        while (square := float(slope @ slope)) > 1e-12:
            rate = 8.0
            while loss(w - rate * slope, x, y) > value - 0.5 * rate * square:
                rate *= 0.5
            w = w - rate * slope
            value, slope = both(w, x, y)
            rounds += 1
        return w, rounds

    return solve


def logistic_by_hand(w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    e = np.exp(z)
    value = np.mean(np.log(1.0 + e) - y * z) + 0.05 * np.sum(w * w)
    return value, (e / (1.0 + e) - y) @ x / len(y) + 0.1 * w


def quasi_newton(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Rosenbrock's function by L-BFGS, with its recursion of two loops over the last pairs."""

    @wrap
    def loss(x: Any) -> Any:
        a, b = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
        return xp.sum(100.0 * a * a + b * b)

    both = wrap(slopes(loss))

    @wrap
    def direction(slope: Any, steps: Any, changes: Any) -> Any:
        q, alphas = slope, []
        for s, y in zip(reversed(steps), reversed(changes), strict=True):
            alpha = (s @ q) / (s @ y)
            q = q - alpha * y
            alphas.append(alpha)
        if steps:
            q = q * ((steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1]))
        for s, y, alpha in zip(steps, changes, reversed(alphas), strict=True):
            q = q + s * (alpha - (y @ q) / (s @ y))
        return -q

    def solve(x: Any) -> tuple[Any, int]:
        steps: list[Any] = []
        changes: list[Any] = []
        rounds = 0
        value, slope = both(x)
        while xp.sqrt(slope @ slope) > 1e-6:
            way = direction(slope, steps, changes)
            falls = slope @ way
            rate = 1.0
            while loss(x + rate * way) > value + 1e-4 * rate * falls:
                rate *= 0.5
            after = x + rate * way
            value, slope_after = both(after)
            s, y = after - x, slope_after - slope
            if s @ y > 1e-12:
                steps, changes = [*steps, s][-PAIRS:], [*changes, y][-PAIRS:]
            x, slope = after, slope_after
            rounds += 1
        return x, rounds

    return solve


def rosenbrock_by_hand(x: Any) -> Any:
    a, b = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
    slope = np.zeros_like(x)
    slope[1:] += 200.0 * a
    slope[:-1] -= 400.0 * a * x[:-1] + 2.0 * b
    return np.sum(100.0 * a * a + b * b), slope


ROWS = (
    Outside(
        "newton-while",
        "Newton's method on one number, `while abs(f) > tol`",
        lambda: {"a": np.array(50.0), "start": np.array(1.0)},
        newton,
        rounds=14,
        by_hand=newton_by_hand,
    ),
    Outside(
        "backtracking",
        "logistic regression 100 × 4 by descent with a backtracking line search",
        examples,
        backtracking,
        rounds=25,
        by_hand=logistic_by_hand,
    ),
    Outside(
        "l-bfgs-loops",
        "L-BFGS with the recursion of two loops, Rosenbrock's function of 10 numbers",
        lambda: {"x": np.linspace(-1.2, 1.0, 10)},
        quasi_newton,
        rounds=109,
        by_hand=rosenbrock_by_hand,
    ),
)
WORKLOADS = tuple(workload(row) for row in ROWS)
