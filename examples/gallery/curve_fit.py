# %% [markdown]
# # Curve fit
#
# Fit two overlapping peaks and a sloping background by least squares, with the exact Jacobian and
# error bars.
#
# `gt.residuals` makes of a model what `scipy.optimize.least_squares` takes: values and their
# Jacobian, from one recording.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import gradtape as gt


def model(p, x):
    """Two Gaussian peaks (height, place, width) and a line."""
    peaks = p[0] * gt.exp(-(((x - p[1]) / p[2]) ** 2)) + p[3] * gt.exp(-(((x - p[4]) / p[5]) ** 2))
    return peaks + p[6] + p[7] * x


x = np.linspace(0.0, 10.0, 200)
truth = np.array([3.0, 4.0, 0.8, 2.0, 5.6, 1.1, 0.5, 0.05])
rng = np.random.default_rng(0)
noise = 0.08
y = model(truth, x).numpy() + noise * rng.normal(size=x.size)

# %% [markdown]
# ## The fit
#
# The model is plain array code. Nothing in it says that it will be differentiated.

# %%
residuals = gt.residuals(lambda p: model(p, x) - y)
start = np.array([2.0, 3.5, 1.0, 2.0, 6.0, 1.0, 0.0, 0.0])
found = least_squares(residuals, start, jac=residuals.jac)
print(f"{found.nfev} evaluations, {found.njev} Jacobians, cost {found.cost:.3f}")

# %% [markdown]
# The Jacobian at the solution gives the covariance of the parameters, (JᵀJ)⁻¹ times the variance
# of the noise.

# %%
J = residuals.jac(found.x)
variance = 2.0 * found.cost / (x.size - found.x.size)
errors = np.sqrt(np.diag(np.linalg.inv(J.T @ J)) * variance)
names = ["height 1", "place 1", "width 1", "height 2", "place 2", "width 2", "offset", "slope"]
for name, value, error, exact in zip(names, found.x, errors, truth, strict=True):
    print(f"{name:9} {value:7.3f} ± {error:.3f}   true {exact:.3f}")
assert np.all(np.abs(found.x - truth) < 5.0 * errors)

# %%
figure, axes = plt.subplots()
axes.plot(x, y, ".", color="#9aa3ad", markersize=4, label="data")
axes.plot(x, model(found.x, x), label="fit")
first, second = found.x.copy(), found.x.copy()
first[3], second[0] = 0.0, 0.0
axes.plot(x, model(first, x), ":", label="first peak")
axes.plot(x, model(second, x), ":", label="second peak")
axes.set_xlabel("x")
axes.legend()
plt.show()
