"""Filters: Kalman, extended Kalman and particles, each one step after the other."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")
LOG_TWO_PI = math.log(2 * math.pi)


def readings(steps: int) -> Arrays:
    """A rotation that decays, seen by four sensors."""
    rng = np.random.default_rng(111)
    a = 0.95 * np.linalg.qr(rng.standard_normal((4, 4)))[0]
    c = rng.standard_normal((4, 4))
    state, seen = rng.standard_normal(4), []
    for _ in range(steps):
        state = a @ state + 0.3 * rng.standard_normal(4)
        seen.append(c @ state + 0.5 * rng.standard_normal(4))
    return {
        "a": a,
        "c": c,
        "log_q": np.full(4, -2.0),
        "log_r": np.full(4, -1.5),
        "seen": np.array(seen),
    }


def kalman(xp: Any, a: Any, c: Any, log_q: Any, log_r: Any, seen: Any) -> Any:
    """The negative log likelihood of a linear Gaussian system."""
    q, r = xp.diag(xp.exp(log_q)), xp.diag(xp.exp(log_r))
    size = seen.shape[1]

    def step(carry: Any, y: Any) -> Any:
        mean, cov = carry
        mean, cov = a @ mean, a @ cov @ a.T + q
        spread = c @ cov @ c.T + r
        error = y - c @ mean
        likelihood = -0.5 * (
            error @ xp.solve(spread, error) + xp.slogdet(spread)[1] + size * LOG_TWO_PI
        )
        gain = xp.solve(spread, c @ cov).T
        return (mean + gain @ error, cov - gain @ spread @ gain.T), likelihood

    start = xp.zeros((size,), dtype="float64"), xp.eye(size)
    return -xp.sum(xp.scan(step, start, seen)[1])


def bearings(steps: int) -> Arrays:
    """Ranges and angles of a vehicle from two stations."""
    rng = np.random.default_rng(112)
    stations = np.array([[0.0, 0.0], [10.0, 0.0]])
    state, seen = np.array([2.0, 4.0, 0.05, 0.02]), []
    for _ in range(steps):
        state[2:] += 0.02 * rng.standard_normal(2)
        state[:2] += state[2:]
        apart = state[:2] - stations
        exact = np.concatenate([np.hypot(*apart.T), np.arctan2(apart[:, 1], apart[:, 0])])
        seen.append(exact + 0.05 * rng.standard_normal(4))
    return {"log_noise": np.array([-8.0, -6.0]), "stations": stations, "seen": np.array(seen)}


def extended_kalman(xp: Any, log_noise: Any, stations: Any, seen: Any) -> Any:
    """The negative log likelihood, with the Jacobian of the measurement in every step."""
    noise = xp.exp(log_noise)
    move = xp.eye(4) + xp.concat([xp.zeros((4, 2), dtype="float64"), xp.eye(4)[:, :2]], axis=1)

    def measure(state: Any) -> Any:
        apart = state[:2] - stations
        return xp.concat([xp.norm(apart, axis=1), xp.atan2(apart[:, 1], apart[:, 0])])

    def step(carry: Any, y: Any) -> Any:
        mean, cov = carry
        mean, cov = move @ mean, move @ cov @ move.T + noise[0] * xp.eye(4)
        slope = xp.jacobian(measure, 0, True)(mean)
        spread = slope @ cov @ slope.T + noise[1] * xp.eye(4)
        error = y - measure(mean)
        likelihood = -0.5 * (error @ xp.solve(spread, error) + xp.slogdet(spread)[1])
        gain = xp.solve(spread, slope @ cov).T
        return (mean + gain @ error, cov - gain @ slope @ cov), likelihood

    start = 2.0 * xp.ones((4,), dtype="float64"), 4.0 * xp.eye(4)
    return -xp.sum(xp.scan(step, start, seen)[1])


def volatilities(steps: int, particles: int) -> Arrays:
    rng = np.random.default_rng(113)
    return {
        "model": np.array([0.95, 0.25, -0.5]),
        "returns": rng.standard_normal(steps) * 0.8,
        "noise": rng.standard_normal((steps, particles)),
        "uniform": rng.uniform(size=steps),
    }


def particle_filter(xp: Any, model: Any, returns: Any, noise: Any, uniform: Any) -> Any:
    """The log likelihood of stochastic volatility, with systematic resampling in every step."""
    persistence, scale, level = model[0], model[1], model[2]
    count = noise.shape[1]
    places = xp.arange(count, dtype="float64")

    def step(x: Any, given: Any) -> Any:
        y, drawn, shift = given
        x = level + persistence * (x - level) + scale * drawn
        log_weights = -0.5 * (LOG_TWO_PI + x + y * y * xp.exp(-x))
        top = xp.max(log_weights)
        weights = xp.exp(log_weights - top)
        total = xp.cumsum(weights)
        wanted = (places + shift) / count * total[-1]
        ancestors = xp.clip(xp.searchsorted(total, wanted), 0, count - 1)
        return x[ancestors], top + xp.log(total[-1] / count)

    start = level + noise[0] * scale
    last, likelihoods = xp.scan(step, start, (returns, noise, uniform))
    return xp.sum(likelihoods), xp.mean(last)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "kalman",
            "Kalman filter of 4 states and 4 sensors, 200 steps, gradient of the likelihood",
            partial(readings, 200),
            kalman,
            "gradient",
            (0, 2, 3),
            libraries=LIBRARIES,
            tiny=partial(readings, 4),
        ),
        Row(
            "extended-kalman",
            "extended Kalman filter, 100 steps, gradient of the likelihood",
            partial(bearings, 100),
            extended_kalman,
            "gradient",
            libraries=LIBRARIES,
            tolerance=1e-5,
            tiny=partial(bearings, 4),
        ),
        Row(
            "particle-filter",
            "particle filter, 100 steps of 500 particles, with resampling",
            partial(volatilities, 100, 500),
            particle_filter,
            libraries=LIBRARIES,
            tiny=partial(volatilities, 5, 16),
        ),
    )
)
