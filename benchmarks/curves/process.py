"""One curve, in a process of its own: `python -m benchmarks.curves.process PROGRAM LIBRARY FORM`.

Prints JSON: the total seconds at each count of calls, and the sums of the state at a few of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.curves.programs import PROGRAMS, Program, State
from benchmarks.dialects import dialect
from benchmarks.outside import solver

COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000]
# Sums of the state are compared between libraries after so many calls.
CHECKED = (1, 10, 100)


def differentiator(library: str, xp: Any) -> Callable[..., Any]:
    """`grad(f, argnums)` of a library on its own arrays."""
    if library != "torch":
        return xp.gradient
    import torch

    def grad(f: Any, by: Any) -> Any:
        def call(*given: Any) -> Any:
            places = by if isinstance(by, tuple) else (by,)
            sources = [given[place].detach().requires_grad_() for place in places]
            used = list(given)
            for place, source in zip(places, sources, strict=True):
                used[place] = source
            found = torch.autograd.grad(f(*used), sources)
            return found if isinstance(by, tuple) else found[0]

        return call

    return grad


def prepared(program: Program, library: str, form: str) -> tuple[Any, Any, State]:
    """The step as a function of the state, the function that waits for it, and the state."""
    xp = dialect(library)
    convert: Any = xp.array
    wrap: Any = lambda function: function  # noqa: E731
    wait: Any = lambda state: state  # noqa: E731
    if library == "jax":
        import jax

        jax.config.update("jax_enable_x64", program.dtype == "float64")
        wrap, wait = jax.jit, jax.block_until_ready
    elif library == "gradtape":
        import gradtape as gt

        wait = gt.evaluate
        if form == "function":
            wrap = gt.function
    if program.outside:
        solve = solver(program.outside, library, wrap, program.outside.inputs())
        return (lambda state: [solve()[0]]), wait, []
    data = [convert(each) for each in program.data()]
    state = [convert(each) for each in program.state()]
    grad = differentiator(library, xp)
    if program is PROGRAMS["l-bfgs"]:
        return *_minimised(xp, grad, wrap, convert, data), state
    return wrap(lambda state: program.step(xp, grad, state, data)), wait, state


def _minimised(xp: Any, grad: Any, wrap: Any, convert: Any, data: State) -> tuple[Any, Any]:
    """Each call is one evaluation that SciPy's L-BFGS asks for; it begins anew when it is done."""
    from scipy.optimize import minimize

    x, y = data

    def loss(w: Any) -> Any:
        z = x @ w
        return 0.5 * xp.sum(w * w) - xp.sum(y * z - xp.log(1.0 + xp.exp(z)))

    both = wrap(lambda w: (loss(w), grad(loss, 0)(w)))
    points: list[Any] = []

    def evaluated(w: Any) -> tuple[float, Any]:
        value, slope = both(convert(w))
        return float(value), np.asarray(slope.detach() if hasattr(slope, "detach") else slope)

    def step(state: State) -> State:
        if not points:
            start = np.full(8, 0.1)

            def noted(w: Any) -> tuple[float, Any]:
                points.append(w.copy())
                return evaluated(w)

            found = minimize(noted, start, jac=True, method="L-BFGS-B").x
            points.reverse()
            return [found]
        return [evaluated(points.pop())[1]]

    return step, lambda state: state


def total(state: State) -> float:
    found = (np.asarray(each.detach() if hasattr(each, "detach") else each) for each in state)
    return float(sum(np.abs(each).sum() for each in found))


def curve(name: str, library: str, form: str, budget: float) -> dict[str, Any]:
    program = PROGRAMS[name]
    step, wait, state = prepared(program, library, form)
    counts = [count for count in COUNTS if count <= program.calls]
    seconds: dict[int, float] = {}
    sums: dict[int, float] = {}
    apart = 0.0
    begin = time.perf_counter()
    for count in range(1, counts[-1] + 1):
        state = step(state)
        wait(state)
        if count in counts:
            now = time.perf_counter()
            seconds[count] = now - begin - apart
            if count in CHECKED:
                sums[count] = total(state)
                apart += time.perf_counter() - now
            if seconds[count] > budget:
                break
    return {"seconds": seconds, "sums": sums}


if __name__ == "__main__":
    name, library, form, budget = sys.argv[1:]
    print(json.dumps(curve(name, library, form, float(budget))))
