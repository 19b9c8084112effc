"""Particles and chains: molecular dynamics, Hamiltonian Monte Carlo, Metropolis."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")
CUTOFF = 2.5


def fluid(side: int) -> Arrays:
    """Atoms near a cubic lattice in a periodic box, and the pairs of neighbours."""
    rng = np.random.default_rng(151)
    spacing = 1.2
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    place = grid * spacing + 0.05 * rng.standard_normal((side**3, 3))
    box = np.full(3, side * spacing)
    first, second = np.triu_indices(side**3, 1)
    apart = place[first] - place[second]
    apart -= box * np.round(apart / box)
    near = (apart**2).sum(1) < (CUTOFF * 0.8) ** 2
    return {
        "place": place,
        "speed": 0.5 * rng.standard_normal(place.shape),
        "box": box,
        "first": first[near],
        "second": second[near],
    }


def energy(xp: Any, place: Any, speed: Any, box: Any, first: Any, second: Any) -> Any:
    """The energy of Lennard-Jones over the list of neighbours."""
    apart = place[first] - place[second]
    apart = apart - box * xp.round(xp.stop_gradient(apart) / box)
    square = xp.sum(apart * apart, axis=1)
    sixth = 1.0 / square**3
    return xp.sum(xp.where(square < CUTOFF**2, 4.0 * (sixth * sixth - sixth), 0.0))


def leapfrog(xp: Any, place: Any, speed: Any, box: Any, first: Any, second: Any) -> Any:
    """Twenty steps of leapfrog; forces are added to both atoms of a pair."""
    dt = 0.002

    def forces(place: Any) -> Any:
        apart = place[first] - place[second]
        apart = apart - box * xp.round(apart / box)
        square = xp.sum(apart * apart, axis=1)
        sixth = 1.0 / square**3
        size = xp.where(square < CUTOFF**2, 24.0 * (2.0 * sixth * sixth - sixth) / square, 0.0)
        pair = size[:, None] * apart
        total = xp.scatter_add(xp.zeros_like(place), first, pair)
        return xp.scatter_add(total, second, -pair)

    def step(carry: Any, _: Any) -> Any:
        place, speed, force = carry
        speed = speed + 0.5 * dt * force
        place = place + dt * speed
        force = forces(place)
        speed = speed + 0.5 * dt * force
        return (place, speed, force), xp.sum(speed * speed)

    (place, speed, _), kinetic = xp.scan(step, (place, speed, forces(place)), None, length=20)
    return place, speed, kinetic


def labelled(examples: int, features: int) -> Arrays:
    rng = np.random.default_rng(152)
    x = rng.standard_normal((examples, features))
    return {
        "q": 0.1 * rng.standard_normal(features),
        "p": rng.standard_normal(features),
        "x": x,
        "label": (x.sum(1) + rng.standard_normal(examples) > 0).astype("float64"),
    }


def hamiltonian(xp: Any, q: Any, p: Any, x: Any, label: Any) -> Any:
    """A trajectory of 20 leapfrog steps on the posterior of a logistic regression."""
    size = 0.02

    def potential(q: Any) -> Any:
        score = x @ q
        return xp.sum(xp.softplus(score) - label * score) + 0.5 * xp.sum(q * q)

    slope = xp.slope(potential)

    def step(_: Any, carry: Any) -> Any:
        q, p = carry
        q = q + size * p
        return q, p - size * slope(q)

    start = potential(q) + 0.5 * xp.sum(p * p)
    p = p - 0.5 * size * slope(q)
    q, p = xp.fori_loop(0, 20, step, (q, p))
    p = p + 0.5 * size * slope(q)
    return q, p, start - potential(q) - 0.5 * xp.sum(p * p)


def walkers(steps: int, chains: int) -> Arrays:
    rng = np.random.default_rng(153)
    return {
        "start": rng.standard_normal((chains, 2)),
        "noise": rng.standard_normal((steps, chains, 2)),
        "log_uniform": np.log(rng.uniform(size=(steps, chains))),
    }


def metropolis(xp: Any, start: Any, noise: Any, log_uniform: Any) -> Any:
    """Chains of Metropolis on the curved density of Rosenbrock."""

    def density(x: Any) -> Any:
        return -((1.0 - x[:, 0]) ** 2) - 5.0 * (x[:, 1] - x[:, 0] ** 2) ** 2

    def step(carry: Any, given: Any) -> Any:
        x, log_density = carry
        drawn, threshold = given
        proposal = x + 0.4 * drawn
        proposed = density(proposal)
        accepted = threshold < proposed - log_density
        x = xp.where(accepted[:, None], proposal, x)
        log_density = xp.where(accepted, proposed, log_density)
        return (x, log_density), xp.mean(x, axis=0)

    (x, _), means = xp.scan(step, (start, density(start)), (noise, log_uniform))
    return x, means


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "lennard-jones",
            "forces of 216 atoms by Lennard-Jones, over the list of neighbours",
            partial(fluid, 6),
            energy,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(fluid, 3),
        ),
        Row(
            "molecular-dynamics",
            "molecular dynamics of 216 atoms, 20 steps of leapfrog",
            partial(fluid, 6),
            leapfrog,
            libraries=LIBRARIES,
            tiny=partial(fluid, 3),
        ),
        Row(
            "hamiltonian",
            "Hamiltonian Monte Carlo, 20 steps on a logistic regression of 500 × 20",
            partial(labelled, 500, 20),
            hamiltonian,
            libraries=LIBRARIES,
            tolerance=1e-8,
            tiny=partial(labelled, 12, 3),
        ),
        Row(
            "metropolis",
            "Metropolis, 200 steps of 100 chains in 2-D",
            partial(walkers, 200, 100),
            metropolis,
            libraries=LIBRARIES,
            tiny=partial(walkers, 5, 4),
        ),
    )
)
