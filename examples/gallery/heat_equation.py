# %% [markdown]
# # Heat equation with a sparse Jacobian
#
# Solve a nonlinear heat equation implicitly, with a Jacobian whose pattern is found from the
# program.
#
# The conductivity depends on the temperature, so each implicit time step is a nonlinear system.
# Newton's method needs a Jacobian of 4,096 × 4,096. It has five entries in a row, and takes a
# handful of products at any size.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import splu

import gradtape as gt

SIDE, STEP = 64, 2e-3
grid = (np.arange(SIDE) + 0.5) / SIDE
x, y = np.meshgrid(grid, grid, indexing="ij")
start = np.exp(-80.0 * ((x - 0.35) ** 2 + (y - 0.4) ** 2)) + 0.8 * (
    (x - 0.7) ** 2 + (y - 0.65) ** 2 < 0.02
)


def flow(u, axis):
    """What flows into each cell along an axis; no heat leaves the plate."""
    middle = SIDE - 1
    ahead = u[1:, :] if axis == 0 else u[:, 1:]
    behind = u[:middle, :] if axis == 0 else u[:, :middle]
    conductivity = 0.02 + 0.1 * (0.5 * (ahead + behind)) ** 2
    through = conductivity * (ahead - behind) * SIDE**2
    widths = [(0, 1), (0, 0)] if axis == 0 else [(0, 0), (0, 1)]
    return gt.pad(through, widths) - gt.pad(through, [width[::-1] for width in widths])


def residual(new, old):
    """Zero for the temperatures after one implicit step."""
    u = gt.reshape(new, (SIDE, SIDE))
    return gt.reshape(u - gt.reshape(old, (SIDE, SIDE)) - STEP * (flow(u, 0) + flow(u, 1)), (-1,))


# %% [markdown]
# ## The pattern
#
# `gt.prepare_jacobian` does once what does not depend on values: it finds the pattern, colours it
# and compiles the products.

# %%
jacobian = gt.prepare_jacobian(residual, start.ravel(), start.ravel(), sparse=True)
print(jacobian)
assert jacobian.pattern.nnz < 5 * SIDE**2
assert jacobian.colours <= 10

# %% [markdown]
# ## Time steps

# %%
u, history = start.ravel(), [start]
solves = 0
for _ in range(40):
    old, norm = u, np.inf
    while norm > 1e-9:
        r = residual(u, old).numpy()
        u = u - splu(jacobian(u, old).tocsc()).solve(r)
        norm = np.abs(r).max()
        solves += 1
    history.append(u.reshape(SIDE, SIDE))
print(f"{solves} Newton steps; heat {start.mean():.6f} before, {history[-1].mean():.6f} after")
assert np.isclose(history[-1].mean(), start.mean(), rtol=1e-6)
assert history[-1].max() < start.max()

# %%
figure, panels = plt.subplots(1, 4, figsize=(7.4, 2.2))
panels[0].spy(jacobian(u, u)[:200, :200], markersize=0.6, rasterized=True)
panels[0].set_title("a corner of the Jacobian", fontsize=8)
for axes, index in zip(panels[1:], (0, 8, 40), strict=True):
    axes.imshow(history[index], cmap="inferno", vmin=0.0, vmax=1.0)
    axes.set_title(f"t = {index * STEP:.3f}", fontsize=8)
for axes in panels:
    axes.set(xticks=[], yticks=[])
plt.show()
