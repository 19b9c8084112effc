"""Finance: portfolios and options."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import KINKED, Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def assets(periods: int, count: int, factors: int) -> Arrays:
    rng = np.random.default_rng(181)
    return {
        "loadings": rng.standard_normal((count, factors)) * 0.2,
        "log_variance": rng.uniform(-4, -3, count),
        "expected": 0.02 * rng.standard_normal((periods, count)),
        "realised": 0.05 * rng.standard_normal((periods, count)),
        "factor_scale": rng.uniform(0.5, 1.5, (periods, factors)),
    }


def portfolio(
    xp: Any, loadings: Any, log_variance: Any, expected: Any, realised: Any, factor_scale: Any
) -> Any:
    """The negative Sharpe ratio of weights that are optimal in each period by a model of risk."""
    covariance = (loadings * factor_scale[:, None, :]) @ loadings.T + xp.diag(xp.exp(log_variance))
    ones = xp.ones_like(expected)
    right = xp.stack([expected, ones], axis=2)
    found = xp.solve(covariance, right)
    greedy, least = found[:, :, 0], found[:, :, 1]
    share = (1.0 - xp.sum(greedy, axis=1)) / xp.sum(least, axis=1)
    weights = greedy + share[:, None] * least
    gains = xp.sum(weights * realised, axis=1)
    return -xp.mean(gains) / xp.sqrt(xp.mean((gains - xp.mean(gains)) ** 2) + 1e-8)


def draws(paths: int, dates: int) -> Arrays:
    rng = np.random.default_rng(182)
    return {
        "market": np.array([100.0, 0.25, 0.03]),
        "noise": rng.standard_normal((paths, dates)),
    }


def asian(xp: Any, market: Any, noise: Any) -> Any:
    """The price of an option on the mean of the prices of a year."""
    start, volatility, rate = market[0], market[1], market[2]
    dt = 1.0 / noise.shape[1]
    steps = (rate - 0.5 * volatility**2) * dt + volatility * dt**0.5 * noise
    prices = start * xp.exp(xp.cumsum(steps, axis=1))
    return xp.exp(-rate) * xp.mean(xp.relu(xp.mean(prices, axis=1) - 100.0))


def american(xp: Any, market: Any, noise: Any) -> Any:
    """The price of a put that may be exercised early, by the regression of Longstaff, Schwartz."""
    start, volatility, rate = market[0], market[1], market[2]
    dt = 1.0 / noise.shape[1]
    steps = (rate - 0.5 * volatility**2) * dt + volatility * dt**0.5 * noise
    prices = xp.exp(xp.cumsum(steps, axis=1)).T * start / 100.0
    discount = xp.exp(-rate * dt)

    def step(cash: Any, price: Any) -> Any:
        cash = discount * cash
        payoff = xp.relu(1.0 - price)
        inside = xp.where(payoff > 0.0, 1.0, 0.0)
        basis = xp.stack([inside, price * inside, price**2 * inside, price**3 * inside], axis=1)
        weights = xp.solve(basis.T @ basis + 1e-6 * xp.eye(4), basis.T @ cash)
        exercised = (payoff > basis @ weights) & (payoff > 0.0)
        return xp.where(exercised, payoff, cash), None

    cash, _ = xp.scan(step, xp.relu(1.0 - prices[-1]), prices[:-1], reverse=True)
    return 100.0 * discount * xp.mean(cash)


def quotes(count: int) -> Arrays:
    rng = np.random.default_rng(183)
    return {
        "quote": rng.uniform(8.0, 20.0, count),
        "strike": rng.uniform(90.0, 110.0, count),
        "years": rng.uniform(0.5, 2.0, count),
    }


def implied_volatility(xp: Any, quote: Any, strike: Any, years: Any) -> Any:
    """Newton's method on all quotes at once."""
    root = xp.sqrt(years)
    moneyness = xp.log(100.0 / strike)

    def step(_: Any, volatility: Any) -> Any:
        scale = volatility * root
        upper = moneyness / scale + 0.5 * scale
        price = 100.0 * xp.ndtr(upper) - strike * xp.ndtr(upper - scale)
        vega = 100.0 * root * xp.exp(-0.5 * upper**2) * (2 * np.pi) ** -0.5
        return xp.clip(volatility - (price - quote) / vega, 0.01, 2.0)

    return xp.fori_loop(0, 10, step, xp.zeros_like(quote) + 0.3)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "portfolio",
            "portfolios of 50 assets in 24 periods, gradient by the model of risk",
            partial(assets, 24, 50, 5),
            portfolio,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(assets, 3, 4, 2),
        ),
        Row(
            "asian-option",
            "Asian option, 4,000 paths of 52 dates, gradient by the market",
            partial(draws, 4000, 52),
            asian,
            "gradient",
            libraries=LIBRARIES,
            step=KINKED,
            tolerance=1e-4,
            tiny=partial(draws, 8, 3),
        ),
        Row(
            "american-option",
            "American option by regression, 4,000 paths of 25 dates",
            partial(draws, 4000, 25),
            american,
            libraries=LIBRARIES,
            tolerance=1e-8,
            tiny=partial(draws, 32, 3),
        ),
        Row(
            "implied-volatility",
            "implied volatility of 1,000 quotes, 10 steps of Newton",
            partial(quotes, 1000),
            implied_volatility,
            libraries=LIBRARIES,
            tolerance=1e-8,
            tiny=partial(quotes, 4),
        ),
    )
)
