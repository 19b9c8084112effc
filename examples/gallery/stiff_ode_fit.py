# %% [markdown]
# # Fit of a stiff reaction
#
# Find the rates of Robertson's chemical reaction, whose time scales differ by nine decades, from
# noisy measurements.
#
# A stiff solver needs the Jacobian of the right-hand side: `gt.ode` gives it. The fit needs the
# derivative of the solution by the rates: the sensitivities obey a differential equation whose
# right-hand side is a product with the same Jacobian, so we integrate both together, and `gt.jvp`
# writes it for us.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import gradtape as gt

START = np.array([1.0, 0.0, 0.0])
times = np.geomspace(0.1, 1e4, 25)


def reaction(y, log_rates):
    """Robertson's reaction; the unknowns are logarithms, so that rates stay positive."""
    k = gt.exp(log_rates)
    slow, fast, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return gt.stack([back - slow, slow - fast - back, fast])


# %% [markdown]
# ## Solution and sensitivities
#
# The state has four rows: y, and its derivative by each of the three rates. `gt.vmap` applies the
# product to all three directions at once.


# %%
def augmented(t, state, log_rates):
    """dy/dt, and the time derivative of each ∂y/∂(log k)."""
    rows = gt.reshape(state, (4, 3))

    def pushed(dy, dk):
        return gt.jvp(reaction, (rows[0], log_rates), (dy, dk))[1]

    moved = gt.vmap(pushed)(rows[1:], gt.eye(3))
    return gt.concat([reaction(rows[0], log_rates), gt.reshape(moved, (9,))])


def solve(log_rates):
    o = gt.ode(lambda t, s: augmented(t, s, log_rates), sparse=False)
    start = np.concatenate([START, np.zeros(9)])
    found = solve_ivp(o, (0.0, times[-1]), start, "BDF", times, jac=o.jac, rtol=1e-6, atol=1e-9)
    rows = found.y.T.reshape(-1, 4, 3)
    return rows[:, 0], rows[:, 1:]


truth = np.log([0.04, 3e7, 1e4])
exact, _ = solve(truth)
scale = np.array([1.0, 3e-5, 1.0])  # the middle species is always rare
rng = np.random.default_rng(3)
data = exact + 0.01 * scale * rng.normal(size=exact.shape)

# %% [markdown]
# ## The fit

# %%
kept = {}


def values_and_slopes(log_rates):
    """One integration serves the residuals and their Jacobian."""
    key = log_rates.tobytes()
    if key not in kept:
        kept.clear()
        kept[key] = solve(log_rates)
    return kept[key]


def residuals(log_rates):
    return ((values_and_slopes(log_rates)[0] - data) / scale).ravel()


def jacobian(log_rates):
    return np.moveaxis(values_and_slopes(log_rates)[1] / scale, 1, 2).reshape(-1, 3)


guess = truth + np.log([2.0, 0.5, 1.6])
found = least_squares(residuals, guess, jac=jacobian, x_scale=1.0, xtol=1e-6, ftol=1e-6)
for name, value, true in zip(["slow", "fast", "back"], np.exp(found.x), np.exp(truth), strict=True):
    print(f"{name}: {value:.4g}   true {true:.4g}")
assert np.allclose(found.x, truth, atol=0.06)

# %%
figure, axes = plt.subplots()
for index, name in enumerate(["A", "B · 10⁴", "C"]):
    factor = 1e4 if index == 1 else 1.0
    axes.semilogx(times, factor * data[:, index], "o", markersize=3.5, color=f"C{index}")
    axes.semilogx(
        times, factor * values_and_slopes(found.x)[0][:, index], color=f"C{index}", label=name
    )
axes.set_xlabel("time")
axes.set_ylabel("concentration")
axes.legend()
plt.show()
