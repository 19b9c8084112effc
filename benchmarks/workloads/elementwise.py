"""Black and Scholes, distances of pairs of points, a million numbers sorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

MILLION, POINTS = 1_000_000, 2000


def options() -> Arrays:
    rng = np.random.default_rng(34)
    return {
        "price": rng.uniform(50, 150, MILLION),
        "strike": rng.uniform(50, 150, MILLION),
        "years": rng.uniform(0.1, 2, MILLION),
        "volatility": rng.uniform(0.1, 0.6, MILLION),
    }


def black_scholes(xp: Any, price: Any, strike: Any, years: Any, volatility: Any) -> Any:
    """The price of a call, at a rate of 3 %."""
    spread = volatility * xp.sqrt(years)
    first = (xp.log(price / strike) + (0.03 + 0.5 * volatility * volatility) * years) / spread
    discounted = strike * xp.exp(-0.03 * years)
    return price * xp.ndtr(first) - discounted * xp.ndtr(first - spread)


def total(xp: Any, *given: Any) -> Any:
    return xp.sum(black_scholes(xp, *given))


def points() -> Arrays:
    rng = np.random.default_rng(35)
    return {
        "x": rng.standard_normal((POINTS, 3)),
        "y": rng.standard_normal((POINTS, 3)) + 0.5,
    }


def distances(xp: Any, x: Any, y: Any) -> Any:
    apart = x[:, None, :] - y
    return xp.sqrt(xp.sum(apart * apart, axis=2))


def total_distance(xp: Any, x: Any, y: Any) -> Any:
    return xp.sum(distances(xp, x, y))


def numbers() -> Arrays:
    return {"x": np.random.default_rng(36).standard_normal(MILLION, dtype="float32")}


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row("black-scholes", "Black-Scholes, 1e6 calls float64", options, black_scholes),
        Row(
            "black-scholes-greeks",
            "Black-Scholes, 1e6 calls float64, gradient by all four",
            options,
            total,
            "gradient",
            (0, 1, 2, 3),
        ),
        Row("distances", "distances of 2000² points in 3-D, float64", points, distances),
        Row(
            "distances-gradient",
            "gradient of the sum of 2000² distances in 3-D, float64",
            points,
            total_distance,
            "gradient",
            (0, 1),
        ),
        Row(
            "sort",
            "sort of 1e6 float32",
            numbers,
            lambda xp, x: xp.sort(x),
            dtype="float32",
        ),
    )
)
