"""Programs from outside: loops in plain Python that read values, as users of NumPy write them.

A program is written once, over a dialect. It gives `solve`, which runs from the start to the answer
and counts its rounds. What a user would decorate is in `wrap`, which is `gt.function`, `jax.jit` or
nothing: the loop and its reads stay Python in every library. NumPy has the derivative by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.dialects import dialect
from benchmarks.forms import plain
from benchmarks.workload import Arrays, Build, Call, Workload, Wrap

LIBRARIES = ("numpy", "gradtape", "jax", "torch", "autograd")
# Derivatives by hand round differently, and loops end at a tolerance of their own.
TOLERANCE = 1e-6

Function = Callable[..., Any]
# solve(*data) gives the answer and the number of rounds.
Solve = Callable[..., tuple[Any, int]]
# program(xp, wrap, slopes): `slopes(loss)` gives the value and the gradient by the first argument.
Program = Callable[[Any, Wrap, Function], Solve]


@dataclass(frozen=True)
class Outside:
    """A program, its inputs, and the number of rounds until it ends."""

    name: str
    title: str
    inputs: Callable[[], Arrays]
    program: Program
    rounds: int
    by_hand: Function | None = None  # the value and the gradient in NumPy


def solver(row: Outside, library: str, wrap: Wrap, inputs: Arrays) -> Callable[[], tuple[Any, int]]:
    """The program of a library on its own arrays."""
    xp = dialect(library)
    slopes = xp.value_and_gradient if library != "numpy" else lambda loss: row.by_hand
    if library == "torch":
        slopes = _of_torch
    solve = row.program(xp, wrap, slopes)
    data = [xp.array(array) for array in inputs.values()]
    return lambda: solve(*data)


def _of_torch(loss: Function) -> Function:
    import torch

    def both(x: Any, *rest: Any) -> Any:
        x = x.detach().requires_grad_()
        value = loss(x, *rest)
        return value.detach(), torch.autograd.grad(value, x)[0]

    return both


def workload(row: Outside) -> Workload:
    """The workload of a program; a call is a whole run, from the start to the answer."""

    def build(library: str) -> Build:
        def call(inputs: Arrays, wrap: Wrap) -> Call:
            solve = solver(row, library, wrap, inputs)
            return lambda: solve()[0]

        call.__name__ = library
        return call

    return Workload(
        name=row.name,
        title=f"{row.title}; {row.rounds} rounds",
        dtype="float64",
        inputs=row.inputs,
        reference=lambda inputs: [np.asarray(solver(row, "numpy", plain, inputs)()[0])],
        builds=tuple(build(library) for library in LIBRARIES),
        tolerance=TOLERANCE,
        left_out=("torch 1 thr",),
        rounds=row.rounds,
    )
