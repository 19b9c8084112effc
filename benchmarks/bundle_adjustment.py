"""A sparse bundle-adjustment Jacobian of 95,529 x 55,710 in four forms: time and resident memory.

`python -m benchmarks.bundle_adjustment` runs each form in a process of its own and prints a line
with its figures; it fails if a form takes 1 GB or more.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradtape as gt

# Bytes that a form may take.
LIMIT = 1 << 30
CAMERA = np.array([0, 0, 0, 0, 0, -8.0, 500, 0, 0, 0, 0])


@dataclass(frozen=True)
class Problem:
    """Cameras of 11 numbers see points; each sight has a weight. The default is ADBench's ba1."""

    cameras: int = 49
    points: int = 7_776
    sights: int = 31_843

    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The unknowns as one vector, the camera and the point of each sight, and what it saw."""
        rng = np.random.default_rng(0)
        cameras = rng.normal(size=(self.cameras, 11)) * 0.1 + CAMERA
        points, weights = rng.normal(size=3 * self.points), rng.uniform(0.5, 1.5, self.sights)
        return (
            np.concatenate([cameras.ravel(), points, weights]),
            rng.integers(0, self.cameras, self.sights),
            rng.integers(0, self.points, self.sights),
            rng.normal(size=(self.sights, 2)),
        )

    def forms(self) -> dict[str, Callable[[Any], Any]]:
        """The same residuals, written in different ways."""
        _, camera, point, seen = self.drawn()
        ends = (11 * self.cameras, 11 * self.cameras + 3 * self.points)

        def residuals(write: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
            def f(x: Any) -> Any:
                cameras = gt.reshape(x[: ends[0]], (self.cameras, 11))
                points = gt.reshape(x[ends[0] : ends[1]], (self.points, 3))
                weights = x[ends[1] :]
                rows = gt.reshape(write(cameras, points, weights), (2 * self.sights,))
                return gt.concat([rows, 1.0 - weights * weights])

            return f

        def at(c: Any, p: Any) -> Callable[[Any], Any]:
            return lambda o: _residual(c[o[0]], p[o[1]], o[2], o[3])

        def summed(c: Any, p: Any) -> Callable[[Any, Any], Any]:
            def step(cost: Any, o: Any) -> Any:
                row = at(c, p)(o)
                return cost + gt.sum(row * row), row

            return step

        return {
            "gathers": residuals(lambda c, p, w: _residual(c[camera], p[point], w[:, None], seen)),
            "vmap": residuals(
                lambda c, p, w: gt.vmap(lambda *o: at(c, p)(o))(camera, point, w, seen)
            ),
            "map": residuals(lambda c, p, w: gt.map(at(c, p), (camera, point, w, seen))),
            "scan": residuals(
                lambda c, p, w: gt.scan(summed(c, p), 0.0, (camera, point, w, seen))[1]
            ),
        }


def _residual(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    local = _rotated(camera[..., 0:3], point - camera[..., 3:6])
    flat = local[..., 0:2] / local[..., 2:3]
    r2 = gt.sum(flat * flat, axis=-1, keepdims=True)
    distorted = flat * (1.0 + camera[..., 9:10] * r2 + camera[..., 10:11] * r2 * r2)
    return weight * (distorted * camera[..., 6:7] + camera[..., 7:9] - seen)


def _rotated(r: Any, x: Any) -> Any:
    angle = gt.sqrt(gt.sum(r * r, axis=-1, keepdims=True))
    axis = r / angle
    across = [
        axis[..., i] * x[..., j] - axis[..., j] * x[..., i] for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    along = gt.sum(axis * x, axis=-1, keepdims=True)
    c = gt.cos(angle)
    return x * c + gt.stack(across, axis=-1) * gt.sin(angle) + axis * (along * (1.0 - c))


def _measure(form: str) -> None:
    problem = Problem()
    x = problem.drawn()[0]
    jacobian = gt.jacobian(problem.forms()[form], sparse=True)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        found = jacobian(x)
        seconds.append(time.perf_counter() - start)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{form:8} {found.shape} {found.nnz} entries, {seconds[0]:.2f} s, then {seconds[1]:.2f} s, "
        f"{resident / 2**20:.0f} MB resident"
    )
    sys.exit(resident >= LIMIT)


def main() -> None:
    """Measure the form that is named, or each in a process of its own."""
    if len(sys.argv) > 1:
        _measure(sys.argv[1])
    command = [sys.executable, "-m", "benchmarks.bundle_adjustment"]
    sys.exit(max(subprocess.run([*command, form]).returncode for form in Problem().forms()))


if __name__ == "__main__":
    main()
