# %% [markdown]
# # Physics-informed network
#
# Train a network to solve Burgers' equation by making the equation itself the loss.
#
# The equation u_t + u u_x = ν u_xx needs derivatives of the network by its inputs, to second
# order, inside a loss that is differentiated by the weights: third order in all. Forward mode
# inside reverse mode does it without a mesh.

# %%
import matplotlib.pyplot as plt
import numpy as np

import gradtape as gt
from gradtape import nn, optimizers

VISCOSITY = 0.05
gt.random.seed(0)
rng = np.random.default_rng(0)
network = nn.Sequential([nn.Dense(24, "tanh"), nn.Dense(24, "tanh"), nn.Dense(1)])


def u(t, x):
    """The network, with the start and both ends built in: u = -sin πx at t = 0, u = 0 at x = ±1."""
    inner = network(gt.stack([2.0 * t - 1.0, 2.0 * x], axis=-1))[..., 0]
    return -gt.sin(np.pi * x) + t * (1.0 - x * x) * inner


def equation(t, x):
    """What is left of the equation at these points; ones are the tangents of all at once."""
    ones, zeros = gt.ones_like(x), gt.zeros_like(x)
    value, u_t = gt.jvp(u, (t, x), (ones, zeros))

    def slope(x):
        return gt.jvp(lambda x: u(t, x), (x,), (ones,))[1]

    u_x, u_xx = gt.jvp(slope, (x,), (ones,))
    return u_t + value * u_x - VISCOSITY * u_xx


# %%
t, x = rng.uniform(0.0, 1.0, 600), rng.uniform(-1.0, 1.0, 600)
network(np.zeros((1, 2)))  # makes the weights
weights = network.parameters()
optimizer = optimizers.Adam(optimizers.schedules.CosineDecay(0.02, 1500))


@gt.function
def train_step(t, x):
    with gt.GradientTape() as tape:
        loss = gt.mean(equation(t, x) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


losses = [train_step(t, x) for _ in range(1500)]
losses = gt.stack(losses).numpy()
print(f"loss {losses[0]:.3f} to {losses[-1]:.5f}")
assert losses[-1] < 0.01 * losses[0]

# %% [markdown]
# ## Beside finite differences
#
# A fine grid with small time steps gives a solution to compare with.

# %%
points = np.linspace(-1.0, 1.0, 401)
h, dt = points[1] - points[0], 1e-4
fine = -np.sin(np.pi * points)
for _ in range(5000):
    slope = np.gradient(fine, h)
    bent = np.zeros_like(fine)
    bent[1:-1] = (fine[2:] - 2.0 * fine[1:-1] + fine[:-2]) / h**2
    fine = fine + dt * (VISCOSITY * bent - fine * slope)
    fine[[0, -1]] = 0.0
learned = u(np.full_like(points, 0.5), points).numpy()
difference = np.abs(learned - fine).max()
print(f"largest difference at t = 0.5: {difference:.3f}")
assert difference < 0.1

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0))
for moment in (0.0, 0.25, 0.5, 1.0):
    left.plot(points, u(np.full_like(points, moment), points), label=f"t = {moment}")
left.plot(points, fine, ":", linewidth=1, color="#9aa3ad", label="grid, t = 0.5")
left.legend(fontsize=8)
left.set(xlabel="x", ylabel="u")
right.semilogy(losses)
right.set(xlabel="step", ylabel="loss")
plt.show()
