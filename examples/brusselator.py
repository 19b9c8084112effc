"""A stiff reaction and diffusion problem in two dimensions, with a sparse Jacobian and without.

The Brusselator of Hairer and Wanner: two species react and diffuse on a periodic square, and from
t = 1.1 on one of them is fed into a disc. The Jacobian's pattern is found and coloured once; each
Jacobian then takes a dozen products. Run `python examples/brusselator.py [points along a side]`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import gradtape as gt

DIFFUSION = 10.0


@dataclass(frozen=True)
class Brusselator:
    """The equations on a grid of `side` × `side` points."""

    side: int

    def start(self) -> np.ndarray:
        """Both species at time 0, laid end to end."""
        y, x = np.meshgrid(*[np.arange(self.side) / self.side] * 2, indexing="ij")
        u = 22.0 * y * (1.0 - y) ** 1.5
        v = 27.0 * x * (1.0 - x) ** 1.5
        return np.stack([u, v]).ravel()

    def feed(self) -> np.ndarray:
        """The inflow at each point of the grid, in a disc."""
        y, x = np.meshgrid(*[np.arange(self.side) / self.side] * 2, indexing="ij")
        return 5.0 * ((x - 0.3) ** 2 + (y - 0.6) ** 2 <= 0.1**2)

    def slope(self) -> Callable[[float, Any], Any]:
        """The function dy/dt, in plain array code."""
        feed = self.feed()
        spread = DIFFUSION * self.side**2

        def laplacian(w: gt.Tensor) -> gt.Tensor:
            return spread * (
                gt.roll(w, 1, axis=0)
                + gt.roll(w, -1, axis=0)
                + gt.roll(w, 1, axis=1)
                + gt.roll(w, -1, axis=1)
                - 4.0 * w
            )

        def slope(t: float, y: Any) -> Any:
            u, v = gt.unstack(gt.reshape(y, (2, self.side, self.side)))
            reaction = u * u * v
            du = 1.0 + reaction - 4.4 * u + laplacian(u)
            if t >= 1.1:
                du = du + feed
            dv = 3.4 * u - reaction + laplacian(v)
            return [du, dv]

        return slope

    def solve(self, jacobian: bool, until: float = 11.5, tolerance: float = 1e-4) -> Any:
        """Solve by BDF, with the sparse Jacobian or with finite differences of the slope."""
        o = gt.ode(self.slope(), sparse=True)
        return solve_ivp(
            o,
            (0.0, until),
            self.start(),
            method="BDF",
            jac=o.jac if jacobian else None,
            rtol=tolerance,
            atol=tolerance,
            # A step must not jump over the start of the feed.
            max_step=1.0,
        )


def main() -> None:
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    problem = Brusselator(side)
    slope = problem.slope()
    prepared = gt.prepare_jacobian(lambda y: slope(0.0, y), problem.start(), sparse=True)
    print(prepared)
    times = []
    for _ in range(100):
        begin = time.perf_counter()
        prepared(problem.start())
        times.append(time.perf_counter() - begin)
    print(f"one Jacobian: {np.median(times) * 1e3:.2f} ms")
    for jacobian in (True, False):
        if not jacobian and side > 16:
            print("without: left out, it takes minutes; try 16 points along a side")
            break
        begin = time.perf_counter()
        found = problem.solve(jacobian)
        word = "with" if jacobian else "without"
        print(
            f"{word}: {time.perf_counter() - begin:.2f} s, {found.t.size} steps, "
            f"{found.njev} Jacobians, {found.nfev} evaluations, u[0] = {found.y[0, -1]:.5f}"
        )


if __name__ == "__main__":
    main()
