"""Train a classifier of two spirals on several workers: data-parallel steps, checkpoints, a report.

Run it with `python examples/data_parallel_classifier.py`; it starts a local cluster of Ray.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import distributed, nn, optimizers


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals that wind around each other, and which one each lies on."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    angle = np.sqrt(rng.uniform(0.02, 1.0, count)) * 2.0 * np.pi
    radius = np.where(labels, angle, -angle) / 8.0
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points + 0.01 * rng.normal(size=points.shape), labels


def train(workers: int, steps: int, folder: str) -> tuple[float, float, distributed.Report]:
    """The last loss, the accuracy on points not seen, and the report."""

    def loss(model: Any, points: Any, labels: Any) -> Any:
        logits = model(points)
        return nn.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    gt.random.seed(0)
    points, labels = spirals(2000, seed=0)
    model = nn.Sequential([nn.Dense(32, "tanh"), nn.Dense(32, "tanh"), nn.Dense(2)])
    optimizer = optimizers.Adam(0.01)
    # Eight shards, whatever the number of workers: the results are the same to the last bit.
    with (
        gt.Checkpointer(folder, every=max(1, steps // 3)) as checkpoints,
        distributed.data_parallel(
            loss, model, optimizer, workers=workers, shards=8, data=(points, labels),
            checkpoints=checkpoints,
        ) as training,
    ):  # fmt: skip
        value = 0.0
        for step in range(training.steps, steps):
            # Rows that depend on the step alone: a run that goes on draws the same.
            rows = np.random.default_rng((1, step)).integers(0, len(points), 256)
            value = training.step(rows)
    unseen, classes = spirals(500, seed=2)
    right = float(np.mean(np.argmax(model(unseen).numpy(), axis=1) == classes))
    return value, right, training.report


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    try:
        import ray
    except ImportError:
        print("This example needs Ray: pip install 'gradtape[ray]'.")
        return
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        value, right, report = train(2, steps, folder)
    print(f"loss {value:.4f}, accuracy on points not seen {100 * right:.1f} %")
    print(report)
    ray.shutdown()


if __name__ == "__main__":
    main()
