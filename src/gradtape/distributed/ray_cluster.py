"""Ray: loaded when it is needed, and connected to a cluster, a local one by default."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

OLDEST = (2, 50)


def load_ray(name: str) -> ModuleType:
    """The module `ray`; where it is missing or too old, the error says how to install it."""
    try:
        # An extra, and slow to import.
        import ray
        import ray.util.metrics
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{name}: Ray is not installed. Install it with `pip install 'gradtape[ray]'`, or pass "
            "executor=, such as a concurrent.futures.ProcessPoolExecutor()."
        ) from error
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < OLDEST:
        raise ImportError(
            f"{name}: Ray {ray.__version__} is older than {OLDEST[0]}.{OLDEST[1]}. "
            "Update it with `pip install --upgrade 'gradtape[ray]'`."
        )
    return ray


def connect(name: str, address: str | None = None) -> Any:
    """The module `ray`, connected: to `address`, to what the user connected to, or locally."""
    ray = load_ray(name)
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    return ray


def cpus(ray: Any) -> int:
    """The number of CPUs that the cluster offers."""
    return int(ray.cluster_resources().get("CPU", 1))


def check_room(name: str, ray: Any, workers: int, threads: int) -> None:
    """Raise if the cluster can never hold `workers` workers at once."""
    there = cpus(ray)
    if workers * threads > there:
        raise ValueError(
            f"{name}: {workers} workers of {threads} CPUs do not fit a cluster of {there} CPUs. "
            "Ask for fewer, or begin with a larger cluster: ray.init(num_cpus=...)."
        )
