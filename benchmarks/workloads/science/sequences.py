"""Models of sequences: hidden Markov, switching linear systems, conditional random fields."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")
LOG_TWO_PI = math.log(2 * math.pi)


def symbols(states: int, kinds: int, steps: int) -> Arrays:
    rng = np.random.default_rng(121)
    return {
        "start": rng.standard_normal(states),
        "move": rng.standard_normal((states, states)),
        "emit": rng.standard_normal((states, kinds)),
        "seen": rng.integers(0, kinds, steps),
    }


def hidden_markov(xp: Any, start: Any, move: Any, emit: Any, seen: Any) -> Any:
    """The negative log likelihood by the forward algorithm; emissions are looked up."""
    start = xp.log_softmax(start, axis=0)
    move = xp.log_softmax(move, axis=1)
    emit = xp.log_softmax(emit, axis=1)

    def step(alpha: Any, symbol: Any) -> Any:
        alpha = xp.logsumexp(alpha[:, None] + move, axis=0) + emit[:, symbol]
        return alpha, None

    alpha, _ = xp.scan(step, start + emit[:, seen[0]], seen[1:])
    return -xp.logsumexp(alpha, axis=0)


def regimes(modes: int, steps: int) -> Arrays:
    rng = np.random.default_rng(122)
    a = np.tile(np.array([[1.0, 0.1], [-0.1, 0.9]]), (modes, 1, 1))
    return {
        "move": 2.0 * np.eye(modes) + 0.1 * rng.standard_normal((modes, modes)),
        "a": a + 0.05 * rng.standard_normal((modes, 2, 2)),
        "log_q": np.linspace(-4.0, -1.0, modes),
        "log_r": np.array(-2.0),
        "seen": np.cumsum(rng.standard_normal(steps)) * 0.3,
    }


def switching(xp: Any, move: Any, a: Any, log_q: Any, log_r: Any, seen: Any) -> Any:
    """The negative log likelihood of a switching linear system, by interacting filters."""
    move = xp.log_softmax(move, axis=1)
    modes = move.shape[0]
    q, r = xp.exp(log_q)[:, None, None] * xp.eye(2), xp.exp(log_r)

    def step(carry: Any, y: Any) -> Any:
        log_weight, mean, cov = carry
        joint = log_weight[:, None] + move
        log_weight = xp.logsumexp(joint, axis=0)
        mix = xp.exp(joint - log_weight)
        mixed = mix.T @ mean
        apart = mean[:, None, :] - mixed
        cov = xp.einsum("ij,iab->jab", mix, cov) + xp.einsum("ij,ija,ijb->jab", mix, apart, apart)
        mean = xp.einsum("jab,jb->ja", a, mixed)
        cov = a @ cov @ a.mT + q
        spread = cov[:, 0, 0] + r
        error = y - mean[:, 0]
        gain = cov[:, :, 0] / spread[:, None]
        mean = mean + gain * error[:, None]
        cov = cov - gain[:, :, None] * cov[:, 0:1, :]
        log_weight = log_weight - 0.5 * (error**2 / spread + xp.log(spread) + LOG_TWO_PI)
        total = xp.logsumexp(log_weight, axis=0)
        return (log_weight - total, mean, cov), total

    start = (
        xp.zeros((modes,), dtype="float64") - math.log(modes),
        xp.zeros((modes, 2), dtype="float64"),
        xp.ones((modes, 1, 1), dtype="float64") * xp.eye(2),
    )
    return -xp.sum(xp.scan(step, start, seen)[1])


def tagged(batch: int, length: int, tags: int) -> Arrays:
    rng = np.random.default_rng(123)
    return {
        "scores": rng.standard_normal((batch, length, tags)),
        "transitions": rng.standard_normal((tags, tags)) * 0.5,
        "tags": rng.integers(0, tags, (batch, length)),
    }


def random_field(xp: Any, scores: Any, transitions: Any, tags: Any) -> Any:
    """The loss of a linear-chain conditional random field."""
    chosen = xp.take_along_axis(scores, tags[:, :, None], axis=2)
    path = xp.sum(chosen) + xp.sum(transitions[tags[:, :-1], tags[:, 1:]])

    def step(alpha: Any, given: Any) -> Any:
        return xp.logsumexp(alpha[:, :, None] + transitions, axis=1) + given, None

    alpha, _ = xp.scan(step, scores[:, 0], xp.transpose(scores, (1, 0, 2))[1:])
    return (xp.sum(xp.logsumexp(alpha, axis=1)) - path) / scores.shape[0]


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "hidden-markov",
            "hidden Markov model of 12 states, 400 symbols, gradient of the likelihood",
            partial(symbols, 12, 30, 400),
            hidden_markov,
            "gradient",
            (0, 1, 2),
            libraries=LIBRARIES,
            tiny=partial(symbols, 3, 4, 6),
        ),
        Row(
            "switching",
            "switching linear system of 3 modes, 200 steps, gradient of the likelihood",
            partial(regimes, 3, 200),
            switching,
            "gradient",
            (0, 1, 2, 3),
            libraries=LIBRARIES,
            tiny=partial(regimes, 2, 5),
        ),
        Row(
            "random-field",
            "conditional random field, 16 × 30 words with 9 tags, gradient",
            partial(tagged, 16, 30, 9),
            random_field,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(tagged, 2, 4, 3),
        ),
    )
)
