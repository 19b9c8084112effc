"""What this machine can do: bytes per second of memory, flops per second of matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.thread_team import get_num_threads
from gradtape.ops.matrices.contraction import matmul
from gradtape.tensor.tensor import Tensor, asarray

# Elements of the arrays that are copied: larger than the caches of most machines.
COPIED = 1 << 22
ROWS = 768
TRIES = 8


@dataclass(frozen=True)
class MachineLimits:
    """Measured limits, with as many threads as compiled code runs on."""

    threads: int
    bytes_per_second: float
    flops_float64: float
    flops_float32: float


def machine_limits() -> MachineLimits:
    """The limits of this machine with the present number of threads; measured once, in 0.2 s."""
    return _measured(get_num_threads())


@remembered(8)
def _measured(threads: int) -> MachineLimits:
    source = asarray(np.ones(COPIED))
    moved = 2 * 8 * COPIED
    copying = min(_best(lambda: source + 1.0), _copying())
    products = [_product(dtype) for dtype in ("float64", "float32")]
    return MachineLimits(
        threads, moved / copying, *[2.0 * ROWS**3 / seconds for seconds in products]
    )


def _copying() -> float:
    source, target = np.ones(COPIED), np.zeros(COPIED)
    return min(_seconds(lambda: np.copyto(target, source)) for _ in range(TRIES))


def _product(dtype: str) -> float:
    rng = np.random.default_rng(0)
    left, right = (asarray(rng.standard_normal((ROWS, ROWS)).astype(dtype)) for _ in range(2))
    return _best(lambda: matmul(left, right))


def _best(compute: Callable[[], Tensor]) -> float:
    """The shortest time of some runs. The first two run in NumPy and compile."""
    times = [_seconds(lambda: compute().numpy()) for _ in range(TRIES + 2)]
    return min(times[2:])


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
