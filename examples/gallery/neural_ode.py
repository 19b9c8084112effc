# %% [markdown]
# # Neural differential equation
#
# Learn the law of motion of a damped pendulum from one noisy trajectory, with a network as the
# right-hand side.
#
# The solver is a classical Runge-Kutta method in a `gt.scan`. The tape goes back through its
# steps, so the gradient is exactly that of the numbers the solver computed.

# %%
import matplotlib.pyplot as plt
import numpy as np

import gradtape as gt
from gradtape import nn, optimizers

STEP = 0.1


def pendulum(y):
    return gt.stack([y[..., 1], -2.0 * gt.sin(y[..., 0]) - 0.15 * y[..., 1]], axis=-1)


def solve(law, start, steps):
    """The states after each step, by the classical Runge-Kutta method."""

    def step(y, _):
        a = law(y)
        b = law(y + 0.5 * STEP * a)
        c = law(y + 0.5 * STEP * b)
        d = law(y + STEP * c)
        y = y + STEP / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        return y, y

    return gt.scan(step, start, length=steps)[1]


rng = np.random.default_rng(7)
start = gt.asarray([2.0, 0.0])
exact = np.concatenate([[start.numpy()], solve(pendulum, start, 120).numpy()])
data = exact + 0.03 * rng.normal(size=exact.shape)

# %% [markdown]
# ## Training
#
# The trajectory is cut into pieces of eight steps. All pieces are solved at once, as rows of a
# batch.

# %%
PIECE = 8
begins = np.arange(0, len(data) - PIECE, 2)
starts = data[begins]
targets = np.stack([data[begins + k] for k in range(1, PIECE + 1)])

gt.random.seed(1)
law = nn.Sequential([nn.Dense(32, "tanh"), nn.Dense(32, "tanh"), nn.Dense(2)])
law(starts)  # makes the weights
weights = law.parameters()
optimizer = optimizers.Adam(optimizers.schedules.CosineDecay(0.01, 800))


@gt.function
def train_step():
    with gt.GradientTape() as tape:
        loss = gt.mean((solve(law, gt.asarray(starts), PIECE) - targets) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


losses = gt.stack([train_step() for _ in range(800)]).numpy()
print(f"loss {losses[0]:.3f} to {losses[-1]:.5f}")
assert losses[-1] < 0.01

# %%
learned = np.concatenate([[start.numpy()], solve(law, start, 120).numpy()])
print(f"mean difference over the whole trajectory: {np.abs(learned - exact).mean():.3f}")
assert np.abs(learned - exact)[:60].mean() < 0.3

figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0))
time = STEP * np.arange(len(data))
left.plot(time, data[:, 0], ".", markersize=3, color="#9aa3ad", label="data")
left.plot(time, learned[:, 0], label="learned law")
left.set(xlabel="time", ylabel="angle")
left.legend()
axis = np.linspace(-2.2, 2.2, 15)
mesh = np.stack(np.meshgrid(axis, axis), axis=-1)
right.quiver(mesh[..., 0], mesh[..., 1], *np.moveaxis(law(mesh).numpy(), -1, 0), color="#9aa3ad")
right.plot(*learned.T, color="C0")
right.plot(*exact.T, ":", color="C1")
right.set(xlabel="angle", ylabel="speed")
plt.show()
