"""Sparse tables of counts and ratings: topics, factors, transport between two samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def documents(texts: int, words: int, topics: int, pairs: int) -> Arrays:
    rng = np.random.default_rng(141)
    return {
        "mixture": rng.dirichlet(np.full(topics, 2.0), texts),
        "topics": rng.dirichlet(np.full(words, 2.0), topics).T.copy(),
        "text": rng.integers(0, texts, pairs),
        "word": rng.integers(0, words, pairs),
        "count": rng.integers(1, 6, pairs).astype("float64"),
    }


def allocation(xp: Any, mixture: Any, topics: Any, text: Any, word: Any, count: Any) -> Any:
    """Ten rounds of latent Dirichlet allocation, by expected counts."""
    texts, words = mixture.shape[0], topics.shape[0]

    def rounds(_: Any, carry: Any) -> Any:
        mixture, topics = carry
        share = mixture[text] * topics[word]
        share = share * (count / xp.sum(share, axis=1))[:, None]
        mixture = xp.segment_sum(share, text, texts) + 0.1
        topics = xp.segment_sum(share, word, words) + 0.01
        return (
            mixture / xp.sum(mixture, axis=1, keepdims=True),
            topics / xp.sum(topics, axis=0),
        )

    return xp.fori_loop(0, 10, rounds, (mixture, topics))


def likelihood(xp: Any, mixture: Any, topics: Any, text: Any, word: Any, count: Any) -> Any:
    """The log likelihood of the counts, by unconstrained parameters."""
    mixture, topics = xp.softmax(mixture, axis=1), xp.softmax(topics, axis=0)
    return -xp.sum(count * xp.log(xp.sum(mixture[text] * topics[word], axis=1)))


def ratings(users: int, items: int, rank: int) -> Arrays:
    rng = np.random.default_rng(142)
    return {
        "item": rng.standard_normal((items, rank)),
        "rating": rng.integers(1, 6, (users, items)).astype("float64"),
        "rated": (rng.uniform(size=(users, items)) < 0.3).astype("float64"),
    }


def alternating(xp: Any, item: Any, rating: Any, rated: Any) -> Any:
    """Alternating least squares: the users' factors, then the items', one solve for each."""
    ridge = 0.1 * xp.eye(item.shape[1])

    def factors(other: Any, rating: Any, rated: Any) -> Any:
        normal = xp.einsum("ui,ia,ib->uab", rated, other, other) + ridge
        right = (rated * rating) @ other
        return xp.solve(normal, right[:, :, None])[:, :, 0]

    user = factors(item, rating, rated)
    return user, factors(user, rating.T, rated.T)


def samples(count: int) -> Arrays:
    rng = np.random.default_rng(143)
    return {"x": rng.standard_normal((count, 2)), "y": rng.standard_normal((count, 2)) + 0.5}


def costs(xp: Any, x: Any, y: Any) -> Any:
    return xp.sum((x[:, None, :] - y) ** 2, axis=2)


def sinkhorn(xp: Any, x: Any, y: Any) -> Any:
    """The cost of regularised transport after 50 rounds of Sinkhorn in logarithms."""
    cost, strength = costs(xp, x, y), 0.2
    log_share = -np.log(x.shape[0])

    def step(carry: Any, _: Any) -> Any:
        _, g = carry
        f = strength * (log_share - xp.logsumexp((g - cost) / strength, axis=1))
        g = strength * (log_share - xp.logsumexp((f[:, None] - cost) / strength, axis=0))
        return (f, g), None

    start = xp.zeros_like(x[:, 0]), xp.zeros_like(y[:, 0])
    (f, g), _ = xp.scan(step, start, None, length=50)
    return xp.sum(xp.exp((f[:, None] + g - cost) / strength) * cost)


def converged_sinkhorn(xp: Any, x: Any, y: Any) -> Any:
    """Rounds of scaling until the margins agree."""
    share = 1.0 / x.shape[0]
    gibbs = xp.exp(-costs(xp, x, y) / 0.5)

    def unfinished(carry: Any) -> Any:
        return carry[2] > 1e-9

    def rounds(carry: Any) -> Any:
        u, v, _ = carry
        v = share / (u @ gibbs)
        after = share / (gibbs @ v)
        return after, v, xp.max(xp.abs(after / u - 1.0))

    ones = xp.ones_like(x[:, 0])
    u, v, _ = xp.while_loop(unfinished, rounds, (ones, ones, xp.sum(ones)))
    return u[:, None] * gibbs * v


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "topics",
            "latent Dirichlet allocation, 10 rounds of 4,000 counts and 10 topics",
            partial(documents, 100, 400, 10, 4000),
            allocation,
            libraries=LIBRARIES,
            tiny=partial(documents, 4, 6, 3, 12),
        ),
        Row(
            "topics-likelihood",
            "topic model, 4,000 counts and 10 topics, gradient of the likelihood",
            partial(documents, 100, 400, 10, 4000),
            likelihood,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(documents, 4, 6, 3, 12),
        ),
        Row(
            "factorisation",
            "matrix factorisation of 200 × 150 ratings, one round of alternating solves",
            partial(ratings, 200, 150, 8),
            alternating,
            libraries=LIBRARIES,
            tiny=partial(ratings, 6, 5, 2),
        ),
        Row(
            "sinkhorn",
            "optimal transport of 60 points, 50 rounds of Sinkhorn, gradient by the points",
            partial(samples, 60),
            sinkhorn,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(samples, 5),
        ),
        Row(
            "sinkhorn-converged",
            "optimal transport of 100 points, rounds until the margins agree",
            partial(samples, 100),
            converged_sinkhorn,
            libraries=LIBRARIES,
            tolerance=1e-6,
            tiny=partial(samples, 5),
        ),
    )
)
