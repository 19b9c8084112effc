"""The Brusselator on a periodic grid, as stiff solvers see it: pattern, colours, Jacobian.

There are 2048 unknowns; each equation reads six. Preparation happens once per structure; its two
parts, pattern and colouring, are rows of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Workload, Wrap

SIDE = 32
UNKNOWNS = 2 * SIDE * SIDE
RATE = 10.0 * (SIDE - 1) ** 2 / 100


def inputs() -> Arrays:
    grid = np.linspace(0, 1, SIDE)
    x, y = grid[:, None], grid[None, :]
    u = 22 * (y * (1 - y)) ** 1.5 + 0 * x
    v = 27 * (x * (1 - x)) ** 1.5 + 0 * y
    return {"state": np.stack([u, v]) + 0.1}


def change(roll: Any, stack: Any, state: Any) -> Any:
    """The change of both concentrations by reaction and diffusion."""
    u, v = state[0], state[1]

    def spread(field: Any) -> Any:
        around = roll(field, 1, 0) + roll(field, -1, 0) + roll(field, 1, 1) + roll(field, -1, 1)
        return RATE * (around - 4.0 * field)

    squared = u * u * v
    return stack([1.0 + squared - 4.4 * u + spread(u), 3.4 * u - squared + spread(v)])


def reference(inputs: Arrays) -> list[np.ndarray]:
    """The Jacobian by hand: diagonals of diffusion and of reaction."""
    u, v = inputs["state"].reshape(2, -1)
    count = u.size
    number = np.arange(count).reshape(SIDE, SIDE)
    spread = -4.0 * np.eye(count)
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        spread[number.reshape(-1), np.roll(number, shift, axis).reshape(-1)] += 1.0
    found = np.zeros((2, count, 2, count))
    found[0, :, 0] = RATE * spread + np.diag(2 * u * v - 4.4)
    found[0, :, 1] = np.diag(u * u)
    found[1, :, 0] = np.diag(3.4 - 2 * u * v)
    found[1, :, 1] = RATE * spread - np.diag(u * u)
    return [found.reshape(UNKNOWNS, UNKNOWNS)]


def pattern_reference(inputs: Arrays) -> list[np.ndarray]:
    return [(reference(inputs)[0] != 0).astype("float64")]


def colours_reference(inputs: Arrays) -> list[np.ndarray]:
    """In a valid colouring, a row has as many colours as entries."""
    return [(reference(inputs)[0] != 0).sum(axis=1).astype("float64")]


def judge_colours(inputs: Arrays, found: list[np.ndarray]) -> tuple[list[Any], str]:
    """The number of colours in each row, and a remark with the number of all colours."""
    (colours,) = found
    rows, columns = np.nonzero(reference(inputs)[0])
    pairs = np.unique(np.stack([rows, colours[columns].astype(int)]), axis=1)
    each = np.bincount(pairs[0], minlength=UNKNOWNS).astype("float64")
    return [each], f"{len(np.unique(colours))} colours, at least {int(each.max())}"


def by_gradtape(state: Any) -> Any:
    import gradtape as gt

    return change(lambda field, shift, axis: gt.roll(field, shift, axis=axis), gt.stack, state)


class Pattern:
    """Which entries can be nonzero, from the program."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        return lambda: gt.sparsity_pattern(by_gradtape, inputs["state"])


class Colours:
    """Which columns one product can carry together."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt
        from gradtape.autodiff.sparse.choose_colouring import colour

        pattern = gt.sparsity_pattern(by_gradtape, inputs["state"])
        return lambda: colour(pattern, "column").columns.of.astype("float64")


class Jacobian:
    """The values, at one state after the other."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        state = gt.asarray(inputs["state"])
        jacobian = wrap(gt.jacobian(by_gradtape, sparse=True))
        return lambda: jacobian(state)

    @staticmethod
    def jax(inputs: Arrays, wrap: Wrap) -> Call:
        import jax
        import jax.numpy as jnp

        state = jnp.asarray(inputs["state"])
        jacobian = wrap(
            lambda state: jax.jacfwd(lambda state: change(jnp.roll, jnp.stack, state))(
                state
            ).reshape(UNKNOWNS, UNKNOWNS)
        )
        return lambda: jacobian(state)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap) -> Call:
        import torch

        state = torch.from_numpy(inputs["state"])
        jacobian = wrap(torch.func.jacfwd(lambda state: change(torch.roll, torch.stack, state)))
        return lambda: jacobian(state).reshape(UNKNOWNS, UNKNOWNS)


WORKLOADS = (
    Workload(
        name="brusselator-pattern",
        title="Brusselator 32 × 32 (2048 unknowns): pattern of the Jacobian",
        dtype="float64",
        inputs=inputs,
        reference=pattern_reference,
        builds=(Pattern.gradtape,),
        left_out=("function",),
    ),
    Workload(
        name="brusselator-colours",
        title="Brusselator 32 × 32: colours of its columns",
        dtype="float64",
        inputs=inputs,
        reference=colours_reference,
        judge=judge_colours,
        builds=(Colours.gradtape,),
        left_out=("function",),
    ),
    Workload(
        name="brusselator-jacobian",
        title="Brusselator 32 × 32: Jacobian, ours sparse",
        dtype="float64",
        inputs=inputs,
        reference=reference,
        builds=(Jacobian.gradtape, Jacobian.jax, Jacobian.torch),
    ),
)
