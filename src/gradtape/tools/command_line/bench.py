"""bench: what this machine can do, and how near gradtape comes.

  gradtape bench            memory, matrix products, and a few programs beside NumPy
  gradtape bench --all      also the table of docs/benchmarks.md, in a checkout of the repository

Each program is checked against NumPy first. Times are the best of many runs.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradtape.config import BENCH_SECONDS
from gradtape.jit.function import function
from gradtape.ops.elementwise.unary import exp, sin, tanh
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tape.grad_vjp_jvp import grad
from gradtape.tensor.tensor import asarray
from gradtape.tools.command_line.output import print_json, print_table
from gradtape.tools.profiler.formats import seconds
from gradtape.tools.profiler.limits import machine_limits

# Name, the program in gradtape, the same in NumPy, and its arguments.
_Case = tuple[str, Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]


def add(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--all", action="store_true", help="also run the repository's benchmarks")


def programs() -> list[_Case]:
    """Programs that fuse, that multiply, and that differentiate."""
    rng = np.random.default_rng(0)
    large, small = rng.random(1_000_000), rng.random(1000)
    left, right = rng.random((400, 400)), rng.random((400, 400))

    def chain(x: Any) -> Any:
        return sin(x) * exp(-x) + x * x

    def numpy_chain(x: np.ndarray) -> np.ndarray:
        return np.sin(x) * np.exp(-x) + x * x

    def energy(x: Any) -> Any:
        return total(tanh(x) ** 2)

    def slope(x: np.ndarray) -> np.ndarray:
        y = np.tanh(x)
        return 2.0 * y * (1.0 - y * y)

    return [
        ("sin(x) * exp(-x) + x * x, 1,000,000", chain, numpy_chain, (large,)),
        ("the same, 1,000", chain, numpy_chain, (small,)),
        ("matrix product, 400 x 400", lambda a, b: a @ b, np.matmul, (left, right)),
        ("gradient of sum(tanh(x)**2), 1,000,000", grad(energy), slope, (large,)),
    ]


def best(run: Callable[[], object]) -> float:
    """The shortest of many runs."""
    found, runs, until = math.inf, 0, time.perf_counter() + BENCH_SECONDS
    while runs < 10 or time.perf_counter() < until:
        begin = time.perf_counter()
        run()
        found, runs = min(found, time.perf_counter() - begin), runs + 1
    return found


def run(chosen: argparse.Namespace) -> int:
    """Measure, and print two tables."""
    limits = machine_limits()
    found: list[dict[str, Any]] = []
    for name, ours, theirs, arrays in programs():
        compiled, tensors = function(ours), [asarray(array) for array in arrays]
        for _ in range(40):
            value = compiled(*tensors).numpy()
        if not np.allclose(value, theirs(*arrays)):
            print(f"gradtape bench: {name}: the result differs from NumPy's. Please report this.")
            return 1
        mine = best(lambda c=compiled, t=tensors: c(*t).numpy())  # type: ignore[misc]
        other = best(lambda f=theirs, a=arrays: f(*a))  # type: ignore[misc]
        found.append({"program": name, "gradtape": mine, "numpy": other})
    if chosen.json:
        print_json({"limits": asdict(limits), "programs": found})
    else:
        print_table(
            "limits of this machine",
            ("what", "measured"),
            [
                ("threads", limits.threads),
                ("memory", f"{limits.bytes_per_second * 1e-9:.1f} GB/s"),
                ("products in float64", f"{limits.flops_float64 * 1e-9:.1f} Gflop/s"),
                ("products in float32", f"{limits.flops_float32 * 1e-9:.1f} Gflop/s"),
            ],
        )
        print()
        print_table(
            "programs",
            ("program", "gradtape", "NumPy", "times faster"),
            [
                (name, seconds(mine), seconds(other), f"{other / mine:.2f}")
                for name, mine, other in (each.values() for each in found)
            ],
        )
    return _table() if chosen.all else 0


def _table() -> int:
    """The benchmarks of the repository, which are not installed with the library."""
    sys.path.insert(0, "")
    if find_spec("benchmarks") is None:
        print(
            "\ngradtape bench --all: run it in a checkout of the repository, which has the table."
        )
        return 2
    return subprocess.run([sys.executable, "-m", "benchmarks", "--quick"], check=False).returncode
