"""Scaling of data parallelism, Jacobian blocks and sweeps: measured, modelled, simulated.

`python -m benchmarks.scaling` measures the constants of the cost model on a local cluster of Ray,
measures 1, 2 and 4 workers, and prints both tables of docs/scaling.md. `--quick` takes fewer steps.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from benchmarks import scaling_model as model
from benchmarks.scaling_model import Constants, Training
from gradtape import distributed, nn

ROWS, WIDTHS = 128, (784, 512, 512, 10)
# A network of 25 Gbit/s, for the tables beyond one machine.
NETWORK = 8 / 25e9
WORKERS = (1, 2, 4)
FAR = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


def smallest(f: Callable[[], Any], repeat: int) -> float:
    """The shortest of some runs, in seconds."""
    found = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        found.append(time.perf_counter() - start)
    return min(found)


class Probe:
    """An actor that measures what calls and bytes cost."""

    def nothing(self) -> None:
        """Do nothing."""

    def array(self, size: int) -> np.ndarray:
        """An array of so many bytes."""
        return np.ones(size // 8)

    def add(self, *arrays: np.ndarray) -> float:
        """Seconds to read and add arrays from the object store."""
        start = time.perf_counter()
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        return time.perf_counter() - start


def measure_constants(ray: Any, size: int, repeat: int) -> Constants:
    """Calls and bytes on this machine."""
    probes = [ray.remote(Probe).remote() for _ in range(2)]
    ray.get([probe.nothing.remote() for probe in probes])
    call = smallest(lambda: ray.get(probes[0].nothing.remote()), 5 * repeat)
    many = 50
    calls = smallest(
        lambda: ray.get([probes[at % 2].nothing.remote() for at in range(many)]), repeat
    )
    submit = max(0.0, calls - call) / (many - 1)

    def written() -> None:
        ray.wait([probes[0].array.remote(size)])

    def made() -> float:
        start = time.perf_counter()
        np.ones(size // 8)
        return time.perf_counter() - start

    put = max(0.0, smallest(written, repeat) - call - min(made() for _ in range(repeat))) / size
    parts = [probe.array.remote(size) for probe in probes]
    ray.wait(parts, num_returns=2)
    read = min(ray.get(probes[1].add.remote(*parts)) for _ in range(repeat)) / (2 * size)
    for probe in probes:
        ray.kill(probe)
    return Constants(call, submit, put, read, cores=os.cpu_count())


def perceptron() -> nn.Module:
    """The perceptron of the benchmark table, in float32."""
    layers = [nn.Dense(width, "relu", dtype="float32") for width in WIDTHS[1:-1]]
    return nn.Sequential([*layers, nn.Dense(WIDTHS[-1], dtype="float32")])


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Random pictures and classes."""
    rng = np.random.default_rng(6)
    return rng.standard_normal((ROWS, WIDTHS[0]), dtype="float32"), rng.integers(0, 10, ROWS)


def cross_entropy(model: Any, x: Any, labels: Any) -> Any:
    """The loss of the perceptron."""
    return nn.losses.sparse_categorical_crossentropy(labels, model(x), from_logits=True)


def measure_training(workers: int, steps: int) -> dict[str, float]:
    """Shortest step and exchange, and the mean of work and update, by so many workers."""
    gt.random.seed(0)
    own = perceptron()
    x, labels = batch()
    own(x[:2])
    with distributed.data_parallel(
        cross_entropy, own, gt.optimizers.Adam(1e-3), workers=workers, check_every=0
    ) as train:
        for _ in range(3):
            train.step(x, labels)
        report = train.report
        seconds, exchanges, works = [], [], []
        for _ in range(steps):
            before = report.exchange_seconds, report.work_seconds
            start = time.perf_counter()
            train.step(x, labels)
            seconds.append(time.perf_counter() - start)
            exchanges.append(report.exchange_seconds - before[0])
            works.append((report.work_seconds - before[1]) / workers)
    best = int(np.argmin(seconds))
    return {
        "step": seconds[best],
        "exchange": min(exchanges),
        "work": min(works),
        "update": max(0.0, seconds[best] - exchanges[best] - works[best]),
    }


def measure_map(seconds: float, items: int, workers: int) -> float:
    """A sweep of items that keep a core busy for so long."""

    def busy(_: int) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    list(distributed.map(busy, range(workers), workers=workers))
    start = time.perf_counter()
    list(distributed.map(busy, range(items), workers=workers))
    return time.perf_counter() - start


def residual(u: Any) -> Any:
    """A dense function: a chain of products with a fixed matrix."""
    matrix = gt.asarray(np.cos(np.arange(400.0)[:, None] * np.arange(400.0)))
    for _ in range(40):
        u = gt.tanh(matrix @ u / 20.0)
    return u


def measure_blocks(workers: int) -> float:
    """A dense Jacobian of 400 columns."""
    x = np.linspace(0.0, 1.0, 400)
    block = 400 // (4 * workers)

    def run() -> Any:
        return distributed.jacobian(residual, x, mode="forward", block=block, workers=workers)

    run()
    return smallest(run, 3)


def shown(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{1e3 * seconds:9.2f}"


def print_measured(constants: Constants, steps: int) -> Training:
    """The table of 1, 2 and 4 workers on this machine."""
    size = 4 * sum((a + 1) * b for a, b in itertools.pairwise(WIDTHS))
    print(
        "\nmilliseconds          workers  measured  efficiency  exchange  predicted  ratio  limit"
    )
    first: dict[str, float] = {}
    batch_bytes = sum(part.nbytes for part in batch())
    load = Training(size, ROWS, 0.0, 0.0, batch_bytes)
    for workers in WORKERS:
        found = measure_training(workers, steps)
        if not first:
            first = found
            load = Training(size, ROWS, found["work"] / ROWS, found["update"], batch_bytes)
        predicted = model.exchange(load, workers, constants)
        parts = model.training(load, workers, constants)
        print(
            f"perceptron step       {workers:7} {shown(found['step'])} "
            f"{first['step'] / found['step'] / workers:10.0%} {shown(found['exchange'])} "
            f"{shown(predicted)}  {found['exchange'] / predicted:5.2f}  {parts.limit}"
        )
    one = 0.0
    for workers in WORKERS:
        seconds = measure_map(0.05, 16, workers)
        one = one or seconds
        parts = model.sweep(16, one / 16, workers, constants)
        print(
            f"sweep of 16 items     {workers:7} {shown(seconds)} {one / seconds / workers:10.0%} "
            f"{'':9} {shown(parts.total)}  {seconds / parts.total:5.2f}  {parts.limit}"
        )
    one = 0.0
    for workers in WORKERS:
        seconds = measure_blocks(workers)
        one = one or seconds
        parts = model.blocks(400, one / 400, 400 * 8, workers, constants, assembled=True)
        print(
            f"Jacobian 400 by 400   {workers:7} {shown(seconds)} {one / seconds / workers:10.0%} "
            f"{'':9} {shown(parts.total)}  {seconds / parts.total:5.2f}  {parts.limit}"
        )
    return load


def print_far(load: Training, constants: Constants) -> None:
    """The model and the simulation from 1 to 1,000 machines."""
    far = Constants(constants.call, constants.submit, constants.put, constants.read, NETWORK)
    large = Training(load.size, 64 * ROWS, load.row, load.update)
    # Batches are row numbers of data that workers hold, so little is sent with a step.
    print("\nmilliseconds, one worker on each machine, 25 Gbit/s, batches of 8,192 rows")
    print("workers  perceptron  simulated  efficiency  limit               sweep   Jacobian, files")
    one = model.training(large, 1, far).total
    for workers in FAR:
        parts = model.training(large, workers, far)
        simulated = model.simulate_training(large, workers, far, jitter=0.05)
        items = model.sweep(10_000, 1.0, workers, far)
        rows = model.blocks(100_000, 0.01, 8e5, workers, far, assembled=False)
        print(
            f"{workers:7} {shown(parts.total)}  {shown(simulated)}  "
            f"{one / parts.total / workers:9.0%}  {parts.limit:19} "
            f"{1e4 / items.total / workers:5.0%}   {1e3 / rows.total / workers:5.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    quick = parser.parse_args().quick
    import ray

    ray.init(
        num_cpus=max(WORKERS), include_dashboard=False, object_store_memory=500 << 20,
        log_to_driver=False, logging_level=logging.ERROR,
    )  # fmt: skip
    try:
        print(
            f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, Ray {ray.__version__}"
        )
        constants = measure_constants(ray, 4 << 20, 5 if quick else 20)
        print(
            f"call {1e6 * constants.call:.0f} µs, further call {1e6 * constants.submit:.0f} µs, "
            f"write {1e-9 / max(constants.put, 1e-12):.2f} GB/s, "
            f"read and add {1e-9 / max(constants.read, 1e-12):.2f} GB/s"
        )
        load = print_measured(constants, 10 if quick else 60)
        print_far(load, constants)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
