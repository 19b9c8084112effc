"""Bundle adjustment: find cameras and points from the points' positions in pictures.

Synthetic cameras around a cloud of points, a reprojection error as it is in such problems (rotation
by an axis and an angle, translation, focal length, radial distortion), a Jacobian of which each row
has a dozen entries, and SciPy's trust-region method with LSMR. The first two cameras are known,
which fixes where the scene lies and how large it is. Run `python examples/bundle_adjustment.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import gradtape as gt

KNOWN = 2


def rotate(vectors: gt.Tensor, axes: gt.Tensor) -> gt.Tensor:
    """Rodrigues' formula for many vectors, each with its own axis times angle."""
    squared = gt.sum(axes * axes, axis=-1, keepdims=True)
    # An angle of 0 is replaced by 1 and not selected below, so that nothing divides by zero.
    angle = gt.sqrt(gt.where(squared > 0.0, squared, 1.0))
    turned = squared > 0.0
    sine = gt.where(turned, gt.sin(angle) / angle, 1.0)
    versine = gt.where(turned, (1.0 - gt.cos(angle)) / (angle * angle), 0.5)
    across = gt.linalg.cross(axes, vectors)
    along = gt.sum(axes * vectors, axis=-1, keepdims=True)
    return gt.where(turned, gt.cos(angle), 1.0) * vectors + sine * across + versine * along * axes


def project(cameras: gt.Tensor, points: gt.Tensor) -> gt.Tensor:
    """The position of each point in its camera's picture: cameras have 9 numbers, points 3."""
    seen = rotate(points, cameras[:, :3]) + cameras[:, 3:6]
    flat = -seen[:, :2] / seen[:, 2:]
    focal, first, second = cameras[:, 6:7], cameras[:, 7:8], cameras[:, 8:9]
    squared = gt.sum(flat * flat, axis=-1, keepdims=True)
    return focal * (1.0 + squared * (first + squared * second)) * flat


@dataclass(frozen=True)
class Scene:
    """The true cameras and points, which camera sees which point, and the pictures."""

    cameras: np.ndarray
    points: np.ndarray
    camera_of: np.ndarray
    point_of: np.ndarray
    pictures: np.ndarray

    def residuals(self, unknown: Any) -> Any:
        """Reprojection errors for the unknown cameras and all points."""
        cameras = gt.concat([self.cameras[:KNOWN], unknown["cameras"]])
        here = gt.take(cameras, self.camera_of, axis=0)
        there = gt.take(unknown["points"], self.point_of, axis=0)
        return project(here, there) - self.pictures

    def truth(self) -> dict[str, np.ndarray]:
        """The true values of the unknowns."""
        return {"cameras": self.cameras[KNOWN:], "points": self.points}


def make_scene(cameras: int, points: int, seed: int = 0) -> Scene:
    """Cameras on an arc around a cloud of points; each point is seen by most of them."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(-0.6, 0.6, cameras)
    rows = np.zeros((cameras, 9))
    rows[:, 0] = rng.normal(0.0, 0.05, cameras)
    rows[:, 1] = angles
    rows[:, 2] = rng.normal(0.0, 0.05, cameras)
    rows[:, 3:5] = rng.normal(0.0, 0.2, (cameras, 2))
    rows[:, 5] = -6.0 + rng.normal(0.0, 0.2, cameras)
    rows[:, 6] = 500.0 + rng.normal(0.0, 10.0, cameras)
    rows[:, 7] = rng.normal(0.0, 0.02, cameras)
    rows[:, 8] = rng.normal(0.0, 0.005, cameras)
    cloud = rng.uniform(-1.5, 1.5, (points, 3))
    camera_of, point_of = np.nonzero(rng.uniform(size=(cameras, points)) < 0.8)
    pictures = project(gt.asarray(rows[camera_of]), gt.asarray(cloud[point_of])).numpy()
    return Scene(rows, cloud, camera_of, point_of, np.array(pictures))


def disturbed(scene: Scene, seed: int = 1) -> dict[str, np.ndarray]:
    """A first guess: the truth, with errors of a few percent."""
    rng = np.random.default_rng(seed)
    truth = scene.truth()
    noise = rng.normal(size=truth["cameras"].shape) * 0.02
    noise[:, 6] *= 250.0
    noise[:, 7:] *= 0.1
    return {
        "cameras": truth["cameras"] + noise,
        "points": truth["points"] + 0.05 * rng.normal(size=truth["points"].shape),
    }


def adjust(scene: Scene, guess: dict[str, np.ndarray]) -> tuple[Any, Any, Any]:
    """Run the fit: the unknowns, SciPy's result, and the bridge object that SciPy called."""
    r = gt.residuals(scene.residuals, guess, sparse=True)
    result = least_squares(
        r,
        r.ravel(guess),
        jac=r.jac,
        method="trf",
        tr_solver="lsmr",
        x_scale="jac",
        ftol=1e-15,
        xtol=1e-15,
        gtol=1e-12,
        max_nfev=200,
    )
    return r.unravel(result.x), result, r


def main() -> None:
    scene = make_scene(cameras=12, points=300)
    guess = disturbed(scene)
    begin = time.perf_counter()
    found, result, r = adjust(scene, guess)
    elapsed = time.perf_counter() - begin
    rows, columns = r.jac_sparsity.shape
    print(f"{rows} residuals, {columns} unknowns, {r.jac_sparsity.nnz} entries in the Jacobian")
    print(
        f"cost {0.5 * np.sum(r(r.ravel(guess)) ** 2):.3e} became {result.cost:.3e} in "
        f"{result.nfev} evaluations and {elapsed:.2f} s"
    )
    error = np.max(np.abs(found["points"] - scene.points))
    print(f"points are off by {error:.1e} at most")


if __name__ == "__main__":
    main()
