# %% [markdown]
# # Bundle adjustment
#
# Find the places of cameras and of points from pictures, a least-squares problem with a sparse
# Jacobian.
#
# Each picture shows a point by a camera, so a row of the Jacobian has entries for one camera and
# one point, and zeros for all others. `gt.residuals` finds that from the program: the indices of
# camera and point are integers, and detection reads them.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import gradtape as gt

CAMERAS, POINTS = 8, 150
rng = np.random.default_rng(6)
angle = 2.0 * np.pi * np.arange(CAMERAS) / CAMERAS
truth = {
    # A camera has a rotation about the vertical axis, a distance and a height.
    "turn": angle,
    "distance": 6.0 + 0.5 * np.cos(3.0 * angle),
    "height": 0.8 * np.sin(2.0 * angle),
    "points": rng.uniform(-1.0, 1.0, size=(POINTS, 3)),
}
camera_of, point_of = np.divmod(np.flatnonzero(rng.uniform(size=CAMERAS * POINTS) < 0.6), POINTS)


def project(world):
    """Where each point appears in each picture that shows it."""
    turn = world["turn"][camera_of]
    points = world["points"][point_of]
    right = gt.cos(turn) * points[:, 0] + gt.sin(turn) * points[:, 2]
    depth = world["distance"][camera_of] - gt.sin(turn) * points[:, 0] + gt.cos(turn) * points[:, 2]
    up = points[:, 1] - world["height"][camera_of]
    return gt.stack([right / depth, up / depth], axis=1)


seen = project({name: gt.asarray(value) for name, value in truth.items()}).numpy()
seen = seen + 2e-4 * rng.normal(size=seen.shape)

# %% [markdown]
# ## The problem
#
# The unknowns are a dictionary of arrays. A few residuals hold the first camera in its place,
# because all cameras and points could move together otherwise.


# %%
def differences(world):
    held = [10.0 * (world[name][0] - truth[name][0]) for name in ("turn", "distance", "height")]
    return [project(world) - seen, gt.stack(held)]


guess = {name: value + 0.03 * rng.normal(size=value.shape) for name, value in truth.items()}
r = gt.residuals(differences, guess, sparse=True)
start = r.ravel(guess)
pattern = r.jac(start)
share = pattern.nnz / np.prod(pattern.shape)
print(f"{pattern.shape[0]} × {pattern.shape[1]} with {pattern.nnz} entries, {share:.1%}")
assert share < 0.03

# %%
begin = time.perf_counter()
found = least_squares(r, start, jac=r.jac, x_scale="jac", method="trf", max_nfev=30, ftol=1e-10)
seconds = time.perf_counter() - begin
world = r.unravel(found.x)
error = np.sqrt(np.mean(np.asarray(r(found.x))[:-3] ** 2))
print(f"{found.nfev} evaluations in {seconds:.1f} s, residual {error:.1e} (noise 2e-4)")
off = np.abs(np.asarray(world["points"]) - truth["points"]).mean()
before = np.abs(guess["points"] - truth["points"]).mean()
print(f"points are off by {off:.4f} on average, {before:.4f} at the start")
assert error < 3e-4
assert off < 0.01

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.4))
left.spy(pattern, markersize=0.4, aspect="auto", rasterized=True)
left.set_title("the Jacobian: cameras, then points", fontsize=9)
left.set(xticks=[], yticks=[])
right.plot(
    *np.asarray(guess["points"])[:, [0, 2]].T, "x", markersize=3, color="#9aa3ad", label="guess"
)
right.plot(*truth["points"][:, [0, 2]].T, "o", markersize=4, fillstyle="none", label="truth")
right.plot(*np.asarray(world["points"])[:, [0, 2]].T, ".", markersize=3, label="found")
right.legend(loc="upper right", fontsize=8)
right.set_aspect("equal")
plt.show()
