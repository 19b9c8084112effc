"""A sweep of learning rates and widths: one small training per item, results as they are completed.

Run it with `python examples/sweep.py`. With `--processes` it needs no Ray.
"""

from __future__ import annotations

import itertools
import logging
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import distributed, nn, optimizers

RATES, WIDTHS = (0.003, 0.01, 0.03), (4, 16)


def sweep(steps: int, executor: Executor | None = None) -> list[tuple[dict[str, Any], float]]:
    """The final loss for each setting, best first."""

    def final_loss(setting: dict[str, Any]) -> float:
        x = np.linspace(-1.0, 1.0, 64)[:, None]
        y = np.sin(3.0 * x)
        # The starting weights come from the random stream of the item, on whichever worker.
        model = nn.Sequential([nn.Dense(setting["width"], "tanh"), nn.Dense(1)])
        optimizer = optimizers.Adam(setting["rate"])
        value = gt.asarray(0.0)
        for _ in range(steps):
            value = optimizer.minimize(lambda: gt.mean((model(x) - y) ** 2), model.parameters)
        return float(value)

    settings = [{"rate": r, "width": w} for r, w in itertools.product(RATES, WIDTHS)]
    results = distributed.map(
        final_loss, settings, seed=0, ordered=False, progress=sys.stderr.isatty(), executor=executor
    )
    found = [(settings[number], value) for number, value in results]
    return sorted(found, key=lambda each: each[1])


def main() -> None:
    steps = 200
    if "--processes" in sys.argv:
        with ProcessPoolExecutor(2) as executor:
            found = sweep(steps, executor)
    else:
        try:
            import ray
        except ImportError:
            print("Without --processes this example needs Ray: pip install 'gradtape[ray]'.")
            return
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
        )
        found = sweep(steps)
        ray.shutdown()
    for setting, value in found:
        print(f"rate {setting['rate']:<6} width {setting['width']:<3} loss {value:.5f}")


if __name__ == "__main__":
    main()
