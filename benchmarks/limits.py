"""The limit of the machine: copying, matrix products and Python lines, each measured alone.

Limits are measured in the same rounds as the libraries. A part is measured in several ways and
the best way counts; a workload's limit is the sum of its parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from benchmarks.workload import Limit, Workload

# For each part of the limit and each way to measure it, the function that is timed.
Ways = dict[str, dict[str, Callable[[], Any]]]


class Idle:
    """A tensor whose operations do nothing, to time the user's own Python lines."""

    def __mul__(self, other: object) -> Idle:
        return self

    __add__ = __radd__ = __rmul__ = __mul__

    def sin(self) -> Idle:
        return self


def by_numpy(workload: Workload) -> Ways:
    """The ways to measure that need NumPy only."""
    limit, ways = workload.limit, Ways()
    if limit.copied:
        ways["copy"] = {"np.copyto": copy_alone(limit), "two threads": copy_by_two(limit)}
    if limit.read:
        ways["read"] = {"np.max": read_alone(limit), "two threads": read_by_two(limit)}
    for m, k, n in limit.products:
        left, right, out = matrices(workload.dtype, m, k, n)
        ways[f"{m}×{k}×{n}"] = {"NumPy": partial(np.matmul, left, right, out=out)}
    if limit.lines is not None:
        lines = limit.lines
        ways["lines"] = {"Python": lambda: lines(Idle())}
    return ways


def by_torch(workload: Workload) -> Ways:
    """The ways to measure with torch, which copies with all threads and may have another BLAS."""
    import torch

    limit, ways = workload.limit, Ways()
    if limit.copied:
        source, target = map(torch.from_numpy, touched(limit.copied))
        ways["copy"] = {"torch": lambda: target.copy_(source)}
    if limit.read:
        numbers = torch.ones(limit.read // 4)
        ways["read"] = {"torch": numbers.sum}
    for m, k, n in limit.products:
        left, right, out = map(torch.from_numpy, matrices(workload.dtype, m, k, n))
        ways[f"{m}×{k}×{n}"] = {"torch": partial(torch.mm, left, right, out=out)}
    return ways


def total(limit: Limit, seconds: dict[str, float]) -> float | None:
    """The limit, from the best time of each part; None if there is nothing to measure."""
    parts = ["copy"] * bool(limit.copied) + ["lines"] * (limit.lines is not None)
    parts += ["read"] * bool(limit.read)
    parts += [f"{m}×{k}×{n}" for m, k, n in limit.products]
    if not parts or not all(part in seconds for part in parts):
        return None
    return sum(seconds[part] for part in parts)


def matrices(dtype: str, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return left.astype(dtype), right.astype(dtype), np.zeros((m, n), dtype)


def touched(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays that are written to, so that the system has mapped their pages."""
    return np.full(size // 8, 1.0), np.full(size // 8, 2.0)


def copy_alone(limit: Limit) -> Callable[[], None]:
    source, target = touched(limit.copied)
    return lambda: np.copyto(target, source)


def read_alone(limit: Limit) -> Callable[[], None]:
    numbers = np.ones(limit.read // 4, "float32")
    return lambda: numbers.max()


def read_by_two(limit: Limit) -> Callable[[], None]:
    numbers = np.ones(limit.read // 4, "float32")
    middle = len(numbers) // 2
    return by_two(lambda: numbers[:middle].max(), lambda: numbers[middle:].max())


def copy_by_two(limit: Limit) -> Callable[[], None]:
    source, target = touched(limit.copied)
    middle = len(source) // 2
    return by_two(
        lambda: np.copyto(target[:middle], source[:middle]),
        lambda: np.copyto(target[middle:], source[middle:]),
    )


def by_two(here: Callable[[], Any], there: Callable[[], Any]) -> Callable[[], None]:
    """Do one half in this thread, the other half in a waiting thread."""
    begin: SimpleQueue[None] = SimpleQueue()
    done: SimpleQueue[None] = SimpleQueue()

    def work() -> None:
        while True:
            begin.get()
            there()
            done.put(None)

    threading.Thread(target=work, daemon=True).start()

    def call() -> None:
        begin.put(None)
        here()
        done.get()

    return call
