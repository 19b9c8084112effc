"""Train a small network on two spirals: layers, a loss, an optimiser, and the time of a step.

Run it with `python examples/train_mlp.py`; it takes a few seconds.
"""

from __future__ import annotations

import time

import numpy as np

import gradtape as gt
from gradtape import nn, optimizers

STEPS = 1500
BATCH = 128


def spirals(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals that wind around each other, and which one each lies on."""
    labels = rng.integers(0, 2, count)
    angle = np.sqrt(rng.uniform(0.02, 1.0, count)) * 3.0 * np.pi
    radius = np.where(labels, angle, -angle) / 10.0
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    noise = 0.01 * rng.normal(size=points.shape)
    return (points + noise).astype(np.float32), labels


def main() -> None:
    rng = np.random.default_rng(0)
    gt.random.seed(0)
    points, labels = spirals(4000, rng)
    unseen, unseen_labels = spirals(1000, rng)

    model = nn.Sequential([nn.Dense(64, "silu"), nn.Dense(64, "silu"), nn.Dense(2)])
    schedule = optimizers.schedules.CosineDecay(
        0.0, STEPS - 100, warmup_target=0.01, warmup_steps=100
    )
    optimizer = optimizers.AdamW(schedule, weight_decay=1e-3, global_clipnorm=1.0)

    def step() -> gt.Tensor:
        rows = rng.integers(0, len(points), BATCH)
        with gt.GradientTape() as tape:
            logits = model(points[rows])
            loss = nn.losses.sparse_categorical_crossentropy(labels[rows], logits, from_logits=True)
        weights = model.parameters()
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    for _ in range(4):  # warm-up: a program is compiled after it has repeated
        step()
    print(model)
    before, start = gt.counters(), time.perf_counter()
    for number in range(5, STEPS + 1):
        loss = step()
        if number % 300 == 0:
            rate = float(optimizer.learning_rate)
            print(f"step {number:5}: loss {float(loss):.4f}, learning rate {rate:.5f}")
    seconds, after = time.perf_counter() - start, gt.counters()
    taken = STEPS - 4
    print(
        f"{taken} steps in {seconds:.1f} s, {1e6 * seconds / taken:.0f} µs each: "
        f"{after.plans_run - before.plans_run} plans run, "
        f"{after.kernels_compiled - before.kernels_compiled} kernels compiled"
    )
    right = np.mean(np.argmax(model(unseen).numpy(), axis=1) == unseen_labels)
    print(f"accuracy on points not seen: {100 * right:.1f} %")


if __name__ == "__main__":
    main()
