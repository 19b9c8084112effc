"""Gradients of three models in float32: LeNet, a transformer block, an embedding with a softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import KINKED, Row, workload
from benchmarks.workload import Arrays

BATCH = 64
TOKENS, WIDTH, HEADS = 128, 256, 4
WORDS, SEEN, NARROW = 10_000, 256, 64


def _drawn(rng: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Weights whose products keep the size of what they multiply."""
    return [
        rng.standard_normal(shape, dtype="float32")
        * np.float32(int(np.prod(shape[:-1]) or 1) ** -0.5)
        for shape in shapes
    ]


def images() -> Arrays:
    rng = np.random.default_rng(37)
    shapes = ((5, 5, 1, 6), (5, 5, 6, 16), (256, 120), (120, 84), (84, 10))
    arrays = {f"w{place}": w for place, w in enumerate(_drawn(rng, *shapes))}
    arrays["x"] = rng.standard_normal((BATCH, 28, 28, 1), dtype="float32")
    arrays["target"] = np.eye(10, dtype="float32")[rng.integers(0, 10, BATCH)]
    return arrays


def lenet(xp: Any, w0: Any, w1: Any, w2: Any, w3: Any, w4: Any, x: Any, target: Any) -> Any:
    for w in (w0, w1):
        x = xp.pool(xp.relu(xp.convolve(x, w)))
    x = xp.reshape(x, (BATCH, 256))
    scores = xp.relu(xp.relu(x @ w2) @ w3) @ w4
    return xp.mean(xp.logsumexp(scores, axis=1) - xp.sum(scores * target, axis=1))


def sentences() -> Arrays:
    rng = np.random.default_rng(38)
    shapes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    arrays = {f"w{place}": w for place, w in enumerate(_drawn(rng, *shapes))}
    arrays["x"] = rng.standard_normal((8, TOKENS, WIDTH), dtype="float32")
    return arrays


def transformer(xp: Any, w0: Any, w1: Any, w2: Any, w3: Any, x: Any) -> Any:
    """A block with attention of four heads and a layer of four times the width."""

    def normal(x: Any) -> Any:
        centred = x - xp.mean(x, axis=2)[:, :, None]
        return centred / xp.sqrt(xp.mean(centred * centred, axis=2)[:, :, None] + 1e-5)

    def heads(x: Any) -> Any:
        return xp.transpose(xp.reshape(x, (8, TOKENS, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    mixed = normal(x) @ w0
    q, k, v = (heads(mixed[:, :, place * WIDTH : (place + 1) * WIDTH]) for place in range(3))
    scores = (q @ xp.transpose(k, (0, 1, 3, 2))) * (WIDTH // HEADS) ** -0.5
    scores = xp.exp(scores - xp.max(scores, axis=3)[:, :, :, None])
    attended = (scores / xp.sum(scores, axis=3)[:, :, :, None]) @ v
    x = x + xp.reshape(xp.transpose(attended, (0, 2, 1, 3)), (8, TOKENS, WIDTH)) @ w1
    x = x + xp.relu(normal(x) @ w2) @ w3
    return xp.mean(x * x)


def words() -> Arrays:
    rng = np.random.default_rng(39)
    embedding, output = _drawn(rng, (WORDS, NARROW), (NARROW, WORDS))
    return {
        "embedding": embedding * np.float32(100),
        "output": output,
        "word": rng.integers(0, WORDS, SEEN),
        "target": rng.integers(0, WORDS, SEEN),
    }


def next_word(xp: Any, embedding: Any, output: Any, word: Any, target: Any) -> Any:
    hidden = xp.take(embedding, word)
    scores = hidden @ output
    wanted = xp.sum(hidden * xp.take(xp.transpose(output, (1, 0)), target), axis=1)
    return xp.mean(xp.logsumexp(scores, axis=1) - wanted)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "lenet",
            "LeNet, batch 64 float32, gradient by all weights",
            images,
            lenet,
            "gradient",
            (0, 1, 2, 3, 4),
            dtype="float32",
            tolerance=1e-3,
            step=KINKED,
        ),
        Row(
            "transformer",
            "transformer block, 8 × 128 tokens of 256 float32, gradient by all weights",
            sentences,
            transformer,
            "gradient",
            (0, 1, 2, 3),
            dtype="float32",
            tolerance=1e-3,
            step=KINKED,
        ),
        Row(
            "embedding",
            "embedding and cross-entropy of 10,000 words, 256 examples float32, with gradient",
            words,
            next_word,
            "gradient",
            (0, 1),
            dtype="float32",
            tolerance=1e-3,
            step=KINKED,
        ),
    )
)
