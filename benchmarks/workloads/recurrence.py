"""A 1,000-step scan of a 16-state recurrence in float64, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Workload, Wrap

STEPS, STATES = 1000, 16


def inputs() -> Arrays:
    rng = np.random.default_rng(11)
    return {
        "w": rng.standard_normal((STATES, STATES)) * 0.2,
        "b": rng.standard_normal(STATES),
        "u": rng.standard_normal((STEPS, STATES)),
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    """Backpropagation through time, by hand: the gradient of the sum of squares of all states."""
    w, b, u = inputs["w"], inputs["b"], inputs["u"]
    states = [np.zeros(STATES)]
    for given in u:
        states.append(np.tanh(w @ states[-1] + b + given))
    by_w, by_b, by_state = np.zeros_like(w), np.zeros_like(b), np.zeros(STATES)
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        by_sum = (by_state + 2 * after) * (1 - after**2)
        by_w += np.outer(by_sum, before)
        by_b += by_sum
        by_state = w.T @ by_sum
    return [by_w, by_b]


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    w, b, u = (gt.asarray(array) for array in inputs.values())
    start = gt.zeros(STATES)

    def loss(w: Any, b: Any, u: Any) -> Any:
        def step(x: Any, given: Any) -> Any:
            x = gt.tanh(w @ x + b + given)
            return x, gt.sum(x * x)

        return gt.sum(gt.scan(step, start, u)[1])

    gradient = wrap(gt.grad(loss, (0, 1)))
    return lambda: gradient(w, b, u)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    w, b, u = (jnp.asarray(array) for array in inputs.values())

    def loss(w: Any, b: Any, u: Any) -> Any:
        def step(x: Any, given: Any) -> Any:
            x = jnp.tanh(w @ x + b + given)
            return x, jnp.sum(x * x)

        return jnp.sum(jax.lax.scan(step, jnp.zeros(STATES), u)[1])

    gradient = wrap(jax.grad(loss, (0, 1)))
    return lambda: gradient(w, b, u)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    w, b, u = (torch.from_numpy(array) for array in inputs.values())
    w.requires_grad_()
    b.requires_grad_()

    def call() -> object:
        x = torch.zeros(STATES, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for given in u:
            x = torch.tanh(w @ x + b + given)
            total = total + (x * x).sum()
        return torch.autograd.grad(total, (w, b))

    return call


WORKLOADS = (
    Workload(
        name="recurrence",
        title="gradient of a 1,000-step scan, 16 states float64",
        dtype="float64",
        inputs=inputs,
        reference=reference,
        builds=(gradtape, jax, torch),
        tolerance=1e-10,
    ),
)
