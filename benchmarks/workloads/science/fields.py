"""Partial differential equations, and gradients of what is measured after some time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def wave(cells: int) -> Arrays:
    x = np.linspace(0, 2 * np.pi, cells, endpoint=False)
    return {"u": np.sin(x) + 0.5, "viscosity": np.array(0.05), "seen": np.cos(x)}


def burgers(xp: Any, u: Any, viscosity: Any, seen: Any) -> Any:
    """The misfit of a field after 200 steps of Burgers' equation."""
    cells = u.shape[0]
    dx = 2 * np.pi / cells
    dt = 0.2 * dx

    def step(u: Any, _: Any) -> Any:
        right, left = xp.roll(u, -1, axis=0), xp.roll(u, 1, axis=0)
        flux = (right**2 - left**2) / (4.0 * dx)
        return u + dt * (viscosity * (right - 2.0 * u + left) / dx**2 - flux), None

    u, _ = xp.scan(step, u, None, length=200)
    return xp.mean((u - seen) ** 2)


def rod(cells: int) -> Arrays:
    rng = np.random.default_rng(162)
    x = np.linspace(0, 1, cells)
    return {
        "log_conductivity": 0.3 * rng.standard_normal(cells - 1),
        "start": np.exp(-50 * (x - 0.3) ** 2),
        "seen": np.exp(-10 * (x - 0.5) ** 2),
    }


def implicit_heat(xp: Any, log_conductivity: Any, start: Any, seen: Any) -> Any:
    """The misfit after 30 implicit steps of the heat equation, each with a dense solve."""
    cells = start.shape[0]
    difference = (cells - 1) * (xp.eye(cells)[1:] - xp.eye(cells)[:-1])
    stiffness = difference.T @ (xp.exp(log_conductivity)[:, None] * difference)
    matrix = xp.eye(cells) + 5e-4 * stiffness

    def step(u: Any, _: Any) -> Any:
        return xp.solve(matrix, u), None

    u, _ = xp.scan(step, start, None, length=30)
    return xp.sum((u - seen) ** 2)


def medium(side: int) -> Arrays:
    """A grid of wave speeds, one source and receivers on one edge."""
    rng = np.random.default_rng(163)
    line = np.diag(np.full(side, -2.0)) + np.eye(side, k=1) + np.eye(side, k=-1)
    laplacian = np.kron(line, np.eye(side)) + np.kron(np.eye(side), line)
    source = np.zeros(side * side)
    source[side // 2] = 1.0
    return {
        "speed": 1.0 + 0.1 * rng.standard_normal(side * side),
        "laplacian": laplacian,
        "source": source,
        "receivers": np.arange(side * (side - 1), side * side),
        "seen": 0.1 * rng.standard_normal(side),
    }


def helmholtz(xp: Any, speed: Any, laplacian: Any, source: Any, receivers: Any, seen: Any) -> Any:
    """The misfit of amplitudes at receivers, from a dense complex solve with damping."""
    wave_number = 0.8 / speed
    matrix = laplacian + xp.diag(wave_number**2) * (1.0 + 0.1j)
    pressure = xp.solve(matrix, source * (1.0 + 0.0j))
    return xp.sum((xp.abs(pressure[receivers]) - seen) ** 2)


def dish(side: int) -> Arrays:
    rng = np.random.default_rng(164)
    u, v = np.ones((side, side)), np.zeros((side, side))
    middle = slice(side // 3, 2 * side // 3)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    noise = 0.01 * rng.standard_normal((2, side, side))
    return {"rates": np.array([0.035, 0.06]), "u": u + noise[0], "v": v + noise[1]}


def gray_scott(xp: Any, rates: Any, u: Any, v: Any) -> Any:
    """What remains of one substance after 40 steps of reaction and diffusion."""
    feed, kill = rates[0], rates[1]

    def laplacian(x: Any) -> Any:
        return (
            xp.roll(x, 1, axis=0)
            + xp.roll(x, -1, axis=0)
            + xp.roll(x, 1, axis=1)
            + xp.roll(x, -1, axis=1)
            - 4.0 * x
        )

    def step(carry: Any, _: Any) -> Any:
        u, v = carry
        reaction = u * v * v
        return (
            u + 0.16 * laplacian(u) - reaction + feed * (1.0 - u),
            v + 0.08 * laplacian(v) + reaction - (feed + kill) * v,
        ), None

    (_, v), _ = xp.scan(step, (u, v), None, length=40)
    return xp.mean(v * v)


def flame(cells: int) -> Arrays:
    x = 32 * np.pi * np.arange(cells) / cells
    return {"u": np.cos(x / 16) * (1 + np.sin(x / 16))}


def kuramoto(xp: Any, u: Any) -> Any:
    """The energy after 60 steps of Kuramoto and Sivashinsky's equation, by Fourier series."""
    cells, dt = u.shape[0], 0.1
    k = xp.arange(cells // 2 + 1, dtype="float64") / 16.0
    linear = k**2 - k**4
    grow = xp.exp(dt * linear)
    weight = xp.where(linear == 0.0, dt, (grow - 1.0) / xp.where(linear == 0.0, 1.0, linear))

    def step(wave: Any, _: Any) -> Any:
        u = xp.irfft(wave)
        return grow * wave - 0.5j * (weight * k) * xp.rfft(u * u), None

    wave, _ = xp.scan(step, xp.rfft(u), None, length=60)
    return xp.mean(xp.irfft(wave) ** 2)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "burgers",
            "Burgers' equation, 200 steps of 256 cells, gradient by the start",
            partial(wave, 256),
            burgers,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(wave, 16),
        ),
        Row(
            "implicit-heat",
            "heat equation, 30 implicit steps of 64 cells, gradient by the conductivity",
            partial(rod, 64),
            implicit_heat,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(rod, 6),
        ),
        Row(
            "helmholtz",
            "Helmholtz's equation, dense complex solve of 144, gradient by the speed",
            partial(medium, 12),
            helmholtz,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(medium, 3),
        ),
        Row(
            "reaction-diffusion",
            "reaction and diffusion, 40 steps of 64 × 64, gradient by the rates",
            partial(dish, 64),
            gray_scott,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(dish, 6),
        ),
        Row(
            "kuramoto",
            "Kuramoto and Sivashinsky's equation, 60 steps of 128 cells, gradient by the start",
            partial(flame, 128),
            kuramoto,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(flame, 16),
        ),
    )
)
