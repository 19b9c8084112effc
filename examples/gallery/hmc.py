# %% [markdown]
# # Hamiltonian Monte Carlo
#
# Sample a banana-shaped density with trajectories that follow its gradient.
#
# One trajectory of leapfrog steps is a `gt.scan`, so it is one op and runs as a native loop;
# `gt.function` makes a whole proposal, with its random numbers and the decision to accept it, one
# compiled call.

# %%
import matplotlib.pyplot as plt
import numpy as np

import gradtape as gt


def energy(q):
    """The negative logarithm of the density: Rosenbrock's banana."""
    return 0.5 * (q[0] ** 2 / 4.0 + (q[1] - 0.5 * q[0] ** 2 + 1.0) ** 2 / 0.16)


force = gt.grad(energy)
STEP, LENGTH = 0.15, 40


def trajectory(q, momentum):
    """Leapfrog: half a kick, then drifts and kicks, and half a kick back."""

    def leap(state, _):
        q, momentum = state
        q = q + STEP * momentum
        return (q, momentum - STEP * force(q)), None

    momentum = momentum - 0.5 * STEP * force(q)
    (q, momentum), _ = gt.scan(leap, (q, momentum), length=LENGTH)
    return q, momentum + 0.5 * STEP * force(q)


@gt.function
def propose(q):
    momentum = gt.random.normal((2,))
    new, kicked = trajectory(q, momentum)
    before = energy(q) + 0.5 * gt.sum(momentum**2)
    after = energy(new) + 0.5 * gt.sum(kicked**2)
    accepted = gt.log(gt.random.uniform(())) < before - after
    return gt.where(accepted, new, q), accepted


# %%
gt.random.seed(0)
q, samples, accepted = gt.zeros(2), [], []
for _ in range(4000):
    q, moved = propose(q)
    samples.append(q)
    accepted.append(moved)
samples = gt.stack(samples).numpy()[200:]
print(f"accepted {np.mean(gt.stack(accepted).numpy()):.0%}")
print(
    f"x: mean {samples[:, 0].mean():.2f}, standard deviation {samples[:, 0].std():.2f} (true: 0, 2)"
)
# Wide bounds: trajectories are chaotic, so samples depend on the last bit of every force.
assert abs(samples[:, 0].mean()) < 0.5
assert abs(samples[:, 0].std() - 2.0) < 0.4
assert abs(np.mean(samples[:, 1] - 0.5 * samples[:, 0] ** 2) + 1.0) < 0.1

# %%
path = [np.array([-2.0, 1.0])]
p = np.array([1.5, 1.2])
for _ in range(25):
    p = p - 0.5 * STEP * force(path[-1]).numpy()
    path.append(path[-1] + STEP * p)
    p = p - 0.5 * STEP * force(path[-1]).numpy()
path = np.array(path)
figure, axes = plt.subplots(figsize=(6.0, 3.8))
axes.plot(*samples.T, ".", markersize=2, alpha=0.5, rasterized=True, label="samples")
axes.plot(*path.T, "o-", markersize=2.5, linewidth=1, color="C1", label="one trajectory")
axes.set(xlabel="x", ylabel="y")
axes.legend()
plt.show()
