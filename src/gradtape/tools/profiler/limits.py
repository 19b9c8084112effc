"""What this machine can do: bytes per second of memory, flops per second of matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.thread_team import get_num_threads
from gradtape.config import PROFILE_COPY_ELEMENTS, PROFILE_MATRIX_ROWS, PROFILE_MEASUREMENTS
from gradtape.ops.matrices.contraction import matmul
from gradtape.tensor.tensor import Tensor, asarray


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
    source = asarray(np.ones(PROFILE_COPY_ELEMENTS))
    moved = 2 * 8 * PROFILE_COPY_ELEMENTS
    copying = min(_best(lambda: source + 1.0), _copying())
    products = [_product(dtype) for dtype in ("float64", "float32")]
    return MachineLimits(
        threads, moved / copying, *[2.0 * PROFILE_MATRIX_ROWS**3 / seconds for seconds in products]
    )


def _copying() -> float:
    source, target = np.ones(PROFILE_COPY_ELEMENTS), np.zeros(PROFILE_COPY_ELEMENTS)
    return min(_seconds(lambda: np.copyto(target, source)) for _ in range(PROFILE_MEASUREMENTS))


def _product(dtype: str) -> float:
    rng = np.random.default_rng(0)
    left, right = (
        asarray(rng.standard_normal((PROFILE_MATRIX_ROWS, PROFILE_MATRIX_ROWS)).astype(dtype))
        for _ in range(2)
    )
    return _best(lambda: matmul(left, right))


def _best(compute: Callable[[], Tensor]) -> float:
    """The shortest time of some runs. The first two run in NumPy and compile."""
    times = [_seconds(lambda: compute().numpy()) for _ in range(PROFILE_MEASUREMENTS + 2)]
    return min(times[2:])


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
