# %% [markdown]
# # MAP estimate and Hessian
#
# Find the most probable weights of a logistic regression, and their uncertainty from the Hessian
# there.
#
# The Laplace approximation takes the posterior for a normal distribution around its maximum. It
# needs the maximum, which `scipy.optimize.minimize` finds with the gradient and the Hessian, and
# the Hessian once more at the end.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import gradtape as gt

rng = np.random.default_rng(1)
points = rng.normal(size=(120, 2))
labels = (points @ [1.6, -1.0] + 0.4 + 0.7 * rng.normal(size=120) > 0.0).astype(float)
features = np.column_stack([points, np.ones(120)])


def negative_log_posterior(w):
    """Bernoulli likelihood, and a normal prior of standard deviation 3."""
    scores = gt.asarray(features) @ w
    likelihood = gt.sum(labels * scores - gt.softplus(scores))
    return 0.5 * gt.sum((w / 3.0) ** 2) - likelihood


# %%
p = gt.objective(negative_log_posterior)
found = minimize(p.fun, np.zeros(3), jac=p.jac, hess=p.hess, method="trust-exact")
covariance = np.linalg.inv(p.hess(found.x))
print(found.message)
for name, value, error in zip(
    ["w₁", "w₂", "bias"], found.x, np.sqrt(np.diag(covariance)), strict=True
):
    print(f"{name:5} {value:6.3f} ± {error:.3f}")
assert np.linalg.norm(p.jac(found.x)) < 1e-5

# %% [markdown]
# The Hessian of a logistic regression is known in closed form, XᵀDX and the prior. Ours agrees to
# rounding.

# %%
probability = 1.0 / (1.0 + np.exp(-features @ found.x))
closed_form = (features.T * probability * (1.0 - probability)) @ features + np.eye(3) / 9.0
assert np.allclose(p.hess(found.x), closed_form, rtol=1e-12)
print("largest difference:", f"{np.abs(p.hess(found.x) - closed_form).max():.0e}")

# %% [markdown]
# Lines drawn from the approximate posterior show how sure the boundary is.

# %%
figure, axes = plt.subplots(figsize=(5.0, 4.0))
axes.scatter(*points[labels == 1].T, s=14, label="1")
axes.scatter(*points[labels == 0].T, s=14, label="0")
line = np.array([-3.0, 3.0])
for w in rng.multivariate_normal(found.x, covariance, size=40):
    axes.plot(line, -(w[0] * line + w[2]) / w[1], color="#9aa3ad", linewidth=0.6, alpha=0.6)
axes.plot(line, -(found.x[0] * line + found.x[2]) / found.x[1], color="#2f9e63", linewidth=2)
axes.set(xlim=(-3, 3), ylim=(-3, 3))
axes.legend(title="label")
plt.show()
