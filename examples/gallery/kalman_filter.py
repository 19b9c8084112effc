# %% [markdown]
# # Kalman filter
#
# Learn the noise of a moving object and of its sensor by maximising the likelihood of a Kalman
# filter.
#
# The filter is a `gt.scan` over the measurements. The gradient of the likelihood goes back
# through all steps of it.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import gradtape as gt

STEPS = 300
A = np.array([[1.0, 1.0], [0.0, 1.0]])  # place and speed
H = np.array([[1.0, 0.0]])  # only the place is measured
PUSH = np.array([[0.25, 0.5], [0.5, 1.0]])  # how a random push moves both

rng = np.random.default_rng(5)
state, places, data = np.zeros(2), [], []
for _ in range(STEPS):
    state = A @ state + np.array([0.5, 1.0]) * 0.3 * rng.normal()
    places.append(state[0])
    data.append(state[0] + 4.0 * rng.normal())
places, data = np.array(places), np.array(data)


# %%
def run_filter(log_noise):
    """The filtered states, and the negative log-likelihood of the data."""
    push, sensor = gt.exp(2.0 * log_noise[0]), gt.exp(2.0 * log_noise[1])

    def step(carry, measured):
        mean, covariance = carry
        mean, covariance = A @ mean, A @ covariance @ A.T + push * PUSH
        surprise = measured - (H @ mean)[0]
        variance = (H @ covariance @ H.T)[0, 0] + sensor
        gain = (covariance @ H.T)[:, 0] / variance
        mean = mean + gain * surprise
        covariance = covariance - gain[:, None] * (H @ covariance)
        return (mean, covariance), (mean, 0.5 * (surprise**2 / variance + gt.log(variance)))

    start = (gt.zeros(2), 100.0 * gt.eye(2))
    _, (means, costs) = gt.scan(step, start, gt.asarray(data))
    return means, gt.sum(costs)


p = gt.objective(lambda log_noise: run_filter(log_noise)[1])
found = minimize(p, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-3})
push, sensor = np.exp(found.x)
print(f"push {push:.2f} (true 0.3), sensor {sensor:.2f} (true 4), {found.nfev} evaluations")
assert 0.15 < push < 0.6
assert 3.3 < sensor < 4.7

# %% [markdown]
# The Hessian at the solution says how sure these are.

# %%
errors = np.sqrt(np.diag(np.linalg.inv(p.hess(found.x))))
print(f"log push ± {errors[0]:.2f}, log sensor ± {errors[1]:.2f}")
means = run_filter(found.x)[0].numpy()
better = np.std(means[20:, 0] - places[20:]) / np.std(data[20:] - places[20:])
print(f"filtering cuts the position error to {better:.0%}")
assert better < 0.7

# %%
figure, axes = plt.subplots()
shown = slice(100, 180)
axes.plot(data[shown] - places[shown], ".", color="#9aa3ad", label="measured")
axes.plot(means[shown, 0] - places[shown], label="filtered")
axes.axhline(0.0, color="#9aa3ad", linewidth=0.7)
axes.set(xlabel="step", ylabel="error of the place")
axes.legend()
plt.show()
