"""The programs of the curves: each is a state and a step, written once for all libraries.

A step takes a dialect (`benchmarks.dialects`), the function that differentiates, and the state, and
returns the next state. `data` is what all steps read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.outside import Outside
from benchmarks.workloads.models import sentences, transformer
from benchmarks.workloads.outside import ROWS

State = Sequence[Any]
Grad = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A row of curves."""

    title: str
    state: Callable[[], list[Any]]
    data: Callable[[], list[Any]]
    # step(xp, grad, state, data) gives the next state.
    step: Callable[[Any, Grad, State, State], State] | None = None
    calls: int = 20_000
    dtype: str = "float64"
    outside: Outside | None = None  # a whole program, in place of a step


def nothing() -> list[Any]:
    return []


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def chain(xp: Any, grad: Grad, state: State, data: State) -> State:
    def loss(x: Any) -> Any:
        y = x
        for _ in range(33):
            y = xp.sin(y) * 0.9 + x
        return xp.sum(y)

    return [state[0] - 1e-4 * grad(loss, 0)(state[0])]


def logistic(xp: Any, grad: Grad, state: State, data: State) -> State:
    x, y = data

    def density(w: Any) -> Any:
        z = x @ w
        return xp.sum(y * z - xp.log(1.0 + xp.exp(z))) - 0.5 * xp.sum(w * w)

    return [state[0] + 1e-3 * grad(density, 0)(state[0])]


def _oscillator(xp: Any, y: Any, p: Any) -> Any:
    return xp.stack([y[1], p[0] * (1.0 - y[0] * y[0]) * y[1] - p[1] * y[0]])


def rk4(xp: Any, grad: Grad, state: State, data: State) -> State:
    def loss(p: Any) -> Any:
        y, h = data[0], 0.1
        for _ in range(20):
            a = _oscillator(xp, y, p)
            b = _oscillator(xp, y + 0.5 * h * a, p)
            c = _oscillator(xp, y + 0.5 * h * b, p)
            d = _oscillator(xp, y + h * c, p)
            y = y + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        return xp.sum(y * y)

    return [state[0] - 1e-4 * grad(loss, 0)(state[0])]


def gaussian_process(xp: Any, grad: Grad, state: State, data: State) -> State:
    squares, y, unit = data

    def loss(p: Any) -> Any:
        k = xp.exp(p[0]) * xp.exp(-squares * xp.exp(p[1])) + xp.exp(p[2]) * unit
        _, log = xp.slogdet(k)
        return 0.5 * xp.sum(y * xp.solve(k, y)) + 0.5 * log

    return [state[0] - 1e-4 * grad(loss, 0)(state[0])]


def distances() -> list[Any]:
    x = np.linspace(0.0, 3.0, 100)
    return [(x[:, None] - x[None, :]) ** 2, np.sin(3.0 * x)[:, None], np.eye(100)]


def curve_fit(xp: Any, grad: Grad, state: State, data: State) -> State:
    x, y = data

    def loss(p: Any) -> Any:
        found = p[0] * xp.exp(-p[1] * x) + p[2] * xp.sin(p[3] * x)
        return xp.mean((found - y) ** 2)

    return [state[0] - 1e-3 * grad(loss, 0)(state[0])]


def _adam(
    xp: Any, gradients: Sequence[Any], weights: State, means: State, squares: State, t: Any
) -> list[Any]:
    """The next weights, means and squares."""
    new: list[list[Any]] = [[], [], []]
    for g, w, m, v in zip(gradients, weights, means, squares, strict=True):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = (m / (1.0 - 0.9**t)) / (xp.sqrt(v / (1.0 - 0.999**t)) + 1e-8)
        for into, value in zip(new, (w - 1e-3 * step, m, v), strict=True):
            into.append(value)
    return [value for part in new for value in part]


def trained(loss: Callable[..., Any], count: int) -> Callable[..., State]:
    """A step of Adam on a loss of so many weights; the state ends with the number of the step."""

    def step(xp: Any, grad: Grad, state: State, data: State) -> State:
        weights, means, squares, t = (
            state[:count], state[count : 2 * count], state[2 * count : 3 * count], state[-1],
        )  # fmt: skip
        found = grad(lambda *w: loss(xp, w, data), tuple(range(count)))(*weights)
        return [*_adam(xp, found, weights, means, squares, t), t + 1.0]

    return step


def weights_of(seed: int, dtype: str, *shapes: tuple[int, ...]) -> Callable[[], list[Any]]:
    def state() -> list[Any]:
        rng = np.random.default_rng(seed)
        found = [(rng.standard_normal(s) * s[0] ** -0.5).astype(dtype) for s in shapes]
        zeros = [np.zeros(s, dtype) for s in shapes]
        return [*found, *zeros, *[z.copy() for z in zeros], np.asarray(1.0, dtype)]

    return state


def linear_loss(xp: Any, weights: State, data: State) -> Any:
    return xp.mean((data[0] @ weights[0] + weights[1] - data[1]) ** 2)


def perceptron_loss(xp: Any, weights: State, data: State) -> Any:
    a, b, c = weights
    scores = xp.relu(xp.relu(data[0] @ a) @ b) @ c
    return xp.mean(xp.logsumexp(scores, axis=1) - xp.sum(scores * data[1], axis=1))


def digits() -> list[Any]:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((128, 784)).astype("float32")
    return [x, np.eye(10, dtype="float32")[rng.integers(0, 10, 128)]]


def mixture(xp: Any, grad: Grad, state: State, data: State) -> State:
    def loss(means: Any, scales: Any) -> Any:
        z = (data[0][:, None, :] - means[None, :, :]) * xp.exp(scales)[None, :, :]
        logs = xp.sum(scales, axis=1)[None, :] - 0.5 * xp.sum(z * z, axis=2)
        return -xp.mean(xp.logsumexp(logs, axis=1))

    means, scales = state
    dm, ds = grad(loss, (0, 1))(means, scales)
    return [means - 1e-3 * dm, scales - 1e-3 * ds]


def attention(xp: Any, grad: Grad, state: State, data: State) -> State:
    found = grad(lambda *w: transformer(xp, *w, data[0]), (0, 1, 2, 3))(*state)
    return [w - 1e-3 * g for w, g in zip(state, found, strict=True)]


def expectation(xp: Any, grad: Grad, state: State, data: State) -> State:
    """A round of expectation maximisation for a mixture in one dimension."""
    means, scales, shares = state
    x = data[0][:, None]
    z = (x - means[None, :]) / scales[None, :]
    logs = xp.log(shares)[None, :] - xp.log(scales)[None, :] - 0.5 * z * z
    parts = xp.exp(logs - xp.logsumexp(logs, axis=1)[:, None])
    sizes = xp.sum(parts, axis=0)
    means = xp.sum(parts * x, axis=0) / sizes
    spread = xp.sum(parts * (x - means[None, :]) ** 2, axis=0) / sizes
    return [means, xp.sqrt(spread + 1e-6), sizes / xp.sum(sizes)]


PROGRAMS = {
    "chain": Program(
        "gradient of a chain of 100 ops, 4 numbers", lambda: [np.linspace(0.1, 0.4, 4)], nothing,
        chain,
    ),
    "logistic": Program(
        "gradient of a logistic log-density, 200 × 8", lambda: [np.zeros(8)],
        lambda: [drawn(1, (200, 8))[0], (drawn(2, (200,))[0] > 0) * 1.0], logistic,
    ),
    "ode": Program(
        "gradient through 20 steps of RK4", lambda: [np.array([1.0, 1.0])],
        lambda: [np.array([1.0, 0.0])], rk4,
    ),
    "gp": Program(
        "gradient of a Gaussian process, 100 points", lambda: [np.array([0.0, 0.0, -2.0])],
        distances, gaussian_process,
    ),
    "curve-fit": Program(
        "curve fit, four parameters, 1,000 points", lambda: [np.array([1.0, 0.5, 0.1, 2.0])],
        lambda: [np.linspace(0.0, 5.0, 1000), np.cos(np.linspace(0.0, 5.0, 1000))], curve_fit,
    ),
    "linear": Program(
        "linear model with Adam, 256 × 32", weights_of(3, "float64", (32, 4), (4,)),
        lambda: drawn(4, (256, 32), (256, 4)), trained(linear_loss, 2),
    ),
    "perceptron": Program(
        "perceptron 128 × 784-512-512-10 with Adam",
        weights_of(5, "float32", (784, 512), (512, 512), (512, 10)), digits,
        trained(perceptron_loss, 3), 2_000, "float32",
    ),
    "mixture": Program(
        "gradient of a Gaussian mixture, 1,000 × 8, 10 parts",
        lambda: [drawn(8, (10, 8))[0], np.zeros((10, 8))], lambda: drawn(9, (1000, 8)), mixture,
    ),
    "transformer": Program(
        "gradient of a transformer block", lambda: list(sentences().values())[:4],
        lambda: [sentences()["x"]], attention, 200, "float32",
    ),
    "em": Program(
        "expectation maximisation, 2,000 points, 4 parts",
        lambda: [np.array([-2.0, -1.0, 1.0, 2.0]), np.ones(4), np.full(4, 0.25)],
        lambda: drawn(10, (2000,)), expectation,
    ),
}  # fmt: skip

# Through SciPy's optimiser, which has the loop; see `process`.
LBFGS = Program(
    "L-BFGS through SciPy, logistic log-density 200 × 8", PROGRAMS["logistic"].state,
    PROGRAMS["logistic"].data, logistic, 20_000,
)  # fmt: skip
PROGRAMS["l-bfgs"] = LBFGS

# A call is a whole run, so call 1 is the time from the first call to the answer.
PROGRAMS |= {
    name: Program(f"{row.title}; {row.rounds} rounds", nothing, nothing, calls=500, outside=row)
    for name, row in ROWS.items()
}
