"""The sparse Jacobian of a nonlinear diffusion equation on a large grid, by blocks.

There are two ways. `by_colours` gives the whole residual to `distributed.jacobian`: workers compute
the products of some colours each, and write the entries to files that are mapped into memory.
`by_strips` cuts the grid: each worker gets some rows with their neighbours, and has no more of the
problem than that. Run it with `python examples/pde_jacobian_blocks.py`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

import gradtape as gt
from gradtape import distributed


def interior(u: Any) -> Any:
    """div((1 + u²) grad u) + exp(u) in the inner points of a grid."""
    k = 1.0 + u * u
    kx, ky = 0.5 * (k[1:] + k[:-1]), 0.5 * (k[:, 1:] + k[:, :-1])
    fx, fy = kx * (u[1:] - u[:-1]), ky * (u[:, 1:] - u[:, :-1])
    across = fx[1:, 1:-1] - fx[:-1, 1:-1]
    along = fy[1:-1, 1:] - fy[1:-1, :-1]
    return across + along + gt.exp(u[1:-1, 1:-1])


def start(size: int) -> np.ndarray:
    """A smooth state on a square grid."""
    x = np.linspace(0.0, 1.0, size)
    return np.sin(np.pi * x)[:, None] * np.cos(2.0 * np.pi * x)


def by_colours(u: np.ndarray, folder: str) -> csr_array:
    """Blocks are colours; the entries lie in a file, and no process holds them all."""
    found: csr_array = distributed.jacobian(interior, u, sparse=True, block=2, out=folder)
    return found


def by_strips(u: np.ndarray, rows: int) -> csr_array:
    """Blocks are strips of the grid with a margin of one row on each side."""
    width = u.shape[1]
    # Strips at the end are moved back, so that all have one shape and one program.
    last = u.shape[0] - 2 - rows
    begins = [*range(0, last, rows), last]

    def block(strip: Any) -> Any:
        return gt.jacobian(interior, sparse=True)(gt.asarray(strip))

    strips = [u[begin : begin + rows + 2] for begin in begins]
    parts = []
    done = 0
    for begin, found in zip(begins, distributed.map(block, strips), strict=True):
        matrix = csr_array(found)
        # Columns of the strip become columns of the grid; rows that are there already are left out.
        columns = matrix.indices + begin * width
        moved = csr_array((matrix.data, columns, matrix.indptr), (matrix.shape[0], u.size))
        parts.append(moved[(done - begin) * (width - 2) :])
        done = begin + rows
    return csr_array(vstack(parts))


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    try:
        import ray
    except ImportError:
        print("This example needs Ray: pip install 'gradtape[ray]'.")
        return
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    u = start(size)
    with tempfile.TemporaryDirectory() as folder:
        colours = by_colours(u, folder)
        strips = by_strips(u, rows=max(1, size // 8))
        print(f"Jacobian of shape {colours.shape} with {colours.nnz:,} entries")
        print(f"largest difference of the two ways: {abs(colours - strips).max():.1e}")
    ray.shutdown()


if __name__ == "__main__":
    main()
