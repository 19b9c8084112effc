# %% [markdown]
# # Gaussian process
#
# Learn length scale, amplitude and noise of a Gaussian process by maximising the marginal
# likelihood.
#
# The likelihood goes through a Cholesky factor, and so does its derivative: `gt.linalg` has
# derivatives of every order.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import gradtape as gt

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0.0, 10.0, 60))
y = np.sin(1.3 * x) + 0.3 * x + 0.2 * rng.normal(size=x.size)
mean = y.mean()


def kernel(a, b, p):
    distance = (a[:, None] - b[None, :]) / gt.exp(p["length"])
    return gt.exp(2.0 * p["amplitude"]) * gt.exp(-0.5 * distance**2)


def covariance(p):
    """Of the measured values, noise included."""
    return kernel(x, x, p) + gt.exp(2.0 * p["noise"]) * gt.eye(x.size)


def negative_log_likelihood(p):
    factor = gt.linalg.cholesky(covariance(p))
    white = gt.linalg.triangular_solve(factor, gt.asarray(y - mean)[:, None], lower=True)
    return 0.5 * gt.sum(white**2) + gt.sum(gt.log(gt.diagonal(factor)))


# %% [markdown]
# The parameters are a dictionary: with an `example`, `gt.objective` translates between it and
# SciPy's flat array.

# %%
start = {"length": np.log(0.5), "amplitude": 0.0, "noise": np.log(0.5)}
p = gt.objective(negative_log_likelihood, start)
found = minimize(p, p.ravel(start), jac=True, method="BFGS", options={"gtol": 1e-4})
best = {name: float(value) for name, value in p.unravel(found.x).items()}
print(*(f"{name} {np.exp(value):.3f}" for name, value in best.items()), sep=", ")
assert np.linalg.norm(p.jac(found.x)) < 1e-2
assert 0.1 < np.exp(best["noise"]) < 0.35

# %% [markdown]
# ## Prediction, and its slope
#
# The predicted mean is a function of x like any other, so its derivative is one more call.

# %%
weights = gt.linalg.solve(covariance(best), gt.asarray(y - mean))
factor = gt.linalg.cholesky(covariance(best))


def predict(new):
    return mean + kernel(new, x, best) @ weights


def deviation(new):
    cross = kernel(x, new, best)
    white = gt.linalg.triangular_solve(factor, cross, lower=True)
    return gt.sqrt(np.exp(2 * best["amplitude"]) - gt.sum(white**2, axis=0))


grid = gt.asarray(np.linspace(-0.5, 11.0, 300))
centre, spread = predict(grid).numpy(), deviation(grid).numpy()
slope = gt.grad(lambda g: gt.sum(predict(g)))(grid).numpy()
inside = (grid.numpy() > 0.5) & (grid.numpy() < 9.5)
assert np.abs(slope - (1.3 * np.cos(1.3 * grid.numpy()) + 0.3))[inside].max() < 0.8

# %%
figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(6.4, 4.6), height_ratios=[2, 1])
top.fill_between(grid.numpy(), centre - 2 * spread, centre + 2 * spread, alpha=0.2)
top.plot(grid.numpy(), centre, label="mean, and two standard deviations")
top.plot(x, y, ".", color="#9aa3ad", label="data")
top.legend()
bottom.plot(grid.numpy(), slope, color="C1", label="slope of the mean")
true_slope = 1.3 * np.cos(1.3 * grid.numpy()) + 0.3
bottom.plot(grid.numpy(), true_slope, ":", color="#9aa3ad", label="true slope")
bottom.legend(loc="lower right", fontsize=8)
bottom.set_xlabel("x")
plt.show()
