"""Ordinary differential equations: fits of parameters and of networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def runge_kutta(slope: Any, y: Any, dt: float) -> Any:
    """A step of the classical method."""
    k1 = slope(y)
    k2 = slope(y + 0.5 * dt * k1)
    k3 = slope(y + 0.5 * dt * k2)
    k4 = slope(y + dt * k3)
    return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def predators(steps: int) -> Arrays:
    rng = np.random.default_rng(201)
    return {
        "rates": np.array([1.1, 0.4, 0.1, 0.4]),
        "start": np.array([10.0, 5.0]),
        "seen": np.exp(rng.standard_normal((steps, 2)) * 0.3 + 1.5),
    }


def lotka_volterra(xp: Any, rates: Any, start: Any, seen: Any) -> Any:
    """The misfit of logarithms of predators and prey."""

    def slope(y: Any) -> Any:
        prey, predator = y[0], y[1]
        return xp.stack(
            [
                rates[0] * prey - rates[1] * prey * predator,
                rates[2] * prey * predator - rates[3] * predator,
            ]
        )

    def step(y: Any, _: Any) -> Any:
        y = runge_kutta(slope, y, 0.05)
        return y, y

    _, found = xp.scan(step, start, None, length=seen.shape[0])
    return xp.mean((xp.log(found) - xp.log(seen)) ** 2)


def reagents(steps: int) -> Arrays:
    times = np.concatenate([[0.0], np.logspace(-4, 2, steps)])
    return {
        "log_rates": np.log([0.04, 3e7, 1e4]),
        "dt": np.diff(times),
        "seen": np.linspace(1.0, 0.7, steps),
    }


def robertson(xp: Any, log_rates: Any, dt: Any, seen: Any) -> Any:
    """The misfit of a stiff reaction, by implicit Euler with four steps of Newton in each."""
    rates = xp.exp(log_rates)

    def slope(y: Any) -> Any:
        first = -rates[0] * y[0] + rates[2] * y[1] * y[2]
        last = rates[1] * y[1] ** 2
        return xp.stack([first, -first - last, last])

    def step(y: Any, dt: Any) -> Any:
        def residual(z: Any) -> Any:
            return z - y - dt * slope(z)

        z = y
        for _ in range(4):
            z = z - xp.solve(xp.jacobian(residual, 0, True)(z), residual(z))
        return z, z[0]

    _, found = xp.scan(step, xp.eye(3)[0], dt)
    return xp.sum((found - seen) ** 2)


def spirals(batch: int, hidden: int, steps: int) -> Arrays:
    rng = np.random.default_rng(203)

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape) / shape[0] ** 0.5).astype("float32")

    return {
        "w1": drawn(2, hidden),
        "b1": np.zeros(hidden, "float32"),
        "w2": drawn(hidden, 2),
        "b2": np.zeros(2, "float32"),
        "start": drawn(batch, 2),
        "seen": drawn(steps, batch, 2),
    }


def neural_ode(xp: Any, w1: Any, b1: Any, w2: Any, b2: Any, start: Any, seen: Any) -> Any:
    """The misfit of trajectories whose slope is a network."""

    def slope(y: Any) -> Any:
        return xp.tanh(y @ w1 + b1) @ w2 + b2

    def step(y: Any, _: Any) -> Any:
        y = runge_kutta(slope, y, 0.1)
        return y, y

    _, found = xp.scan(step, start, None, length=seen.shape[0])
    return xp.mean((found - seen) ** 2)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "lotka-volterra",
            "predators and prey, 200 steps of Runge and Kutta, gradient by the rates",
            partial(predators, 200),
            lotka_volterra,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(predators, 4),
        ),
        Row(
            "robertson",
            "stiff reaction, 40 steps of implicit Euler with Newton, gradient by the rates",
            partial(reagents, 40),
            robertson,
            "gradient",
            libraries=LIBRARIES,
            tolerance=1e-5,
            tiny=partial(reagents, 3),
        ),
        Row(
            "neural-ode",
            "neural differential equation, 32 trajectories of 40 steps float32, gradient",
            partial(spirals, 32, 50, 40),
            neural_ode,
            "gradient",
            (0, 1, 2, 3),
            dtype="float32",
            tolerance=1e-3,
            libraries=LIBRARIES,
            tiny=partial(spirals, 3, 4, 3),
        ),
    )
)
