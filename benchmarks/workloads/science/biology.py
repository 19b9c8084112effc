"""Biology and medicine: a tree of species, an epidemic, survival times."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def alignment(species: int, sites: int) -> Arrays:
    rng = np.random.default_rng(191)
    return {
        "log_length": rng.uniform(-3, -1, 2 * species - 2),
        "log_rate": 0.3 * rng.standard_normal(6),
        "share": 0.2 * rng.standard_normal(4),
        "seen": rng.integers(0, 4, (species, sites)),
    }


def pruning(xp: Any, log_length: Any, log_rate: Any, share: Any, seen: Any) -> Any:
    """The negative log likelihood of a tree of species, by the pruning of Felsenstein."""
    frequency, rate = xp.softmax(share, axis=0), xp.exp(log_rate)
    zero = xp.zeros_like(rate[0])
    exchange = xp.stack(
        [
            xp.stack([zero, rate[0], rate[1], rate[2]]),
            xp.stack([rate[0], zero, rate[3], rate[4]]),
            xp.stack([rate[1], rate[3], zero, rate[5]]),
            xp.stack([rate[2], rate[4], rate[5], zero]),
        ]
    )
    flow = exchange * frequency
    flow = flow - xp.diag(xp.sum(flow, axis=1))
    flow = flow / -xp.sum(frequency * xp.diag(flow))
    change = xp.expm(flow * xp.exp(log_length)[:, None, None])
    # The likelihood of what is seen below the upper end of each branch, for each base there.
    waiting = [change[leaf][:, seen[leaf]] for leaf in range(seen.shape[0])]
    branch = seen.shape[0]
    while len(waiting) > 2:
        joined = waiting.pop(0) * waiting.pop(0)
        waiting.append(change[branch] @ joined)
        branch += 1
    return -xp.sum(xp.log(frequency @ (waiting[0] * waiting[1])))


def outbreak(days: int) -> Arrays:
    rng = np.random.default_rng(192)
    weeks = -(-days // 7)
    return {
        "log_contact": np.log(0.35) + 0.1 * rng.standard_normal(weeks),
        "model": np.array([np.log(0.15), np.log(20.0), np.log(5.0)]),
        "week": np.arange(days) // 7,
        "cases": rng.poisson(50.0 * np.exp(-(((np.arange(days) - 50) / 25) ** 2)) + 1.0).astype(
            "float64"
        ),
    }


def epidemic(xp: Any, log_contact: Any, model: Any, week: Any, cases: Any) -> Any:
    """The negative log likelihood of daily cases, with a contact rate for each week."""
    recovery, infected, shape = xp.exp(model[0]), xp.exp(model[1]), xp.exp(model[2])
    people = 10_000.0

    def step(carry: Any, week: Any) -> Any:
        susceptible, infected = carry
        new = xp.exp(log_contact[week]) * susceptible * infected / people
        return (susceptible - new, infected + new - recovery * infected), new

    _, new = xp.scan(step, (people - infected, infected), week)
    expected = 0.3 * new + 1e-3
    return -xp.sum(
        xp.lgamma(cases + shape)
        - xp.lgamma(shape)
        + shape * xp.log(shape / (shape + expected))
        + cases * xp.log(expected / (shape + expected))
    )


def patients(count: int, features: int) -> Arrays:
    rng = np.random.default_rng(193)
    return {
        "weights": 0.1 * rng.standard_normal(features),
        "x": rng.standard_normal((count, features)),
        "time": rng.exponential(size=count),
        "died": (rng.uniform(size=count) < 0.7).astype("float64"),
    }


def survival(xp: Any, weights: Any, x: Any, time: Any, died: Any) -> Any:
    """The negative partial log likelihood of Cox: who is at risk comes from a sort of the times."""
    order = xp.argsort(-time)
    risk = (x @ weights)[order]
    return -xp.sum(died[order] * (risk - xp.logcumsumexp(risk))) / x.shape[0]


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "phylogeny",
            "tree of 12 species and 300 sites, gradient of the likelihood",
            partial(alignment, 12, 300),
            pruning,
            "gradient",
            (0, 1, 2),
            libraries=LIBRARIES,
            tiny=partial(alignment, 4, 3),
        ),
        Row(
            "epidemic",
            "epidemic of 150 days with weekly contact rates, gradient of the likelihood",
            partial(outbreak, 150),
            epidemic,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(outbreak, 9),
        ),
        Row(
            "survival",
            "survival of 500 patients by 10 features, gradient of Cox's likelihood",
            partial(patients, 500, 10),
            survival,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(patients, 8, 2),
        ),
    )
)
