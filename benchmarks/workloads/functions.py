"""The chain and the linear training step again, under each library's compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.workload import Arrays, Call, Wrap
from benchmarks.workloads import adam, chain, linear_adam


def _chain(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x = gt.asarray(inputs["x"])

    @gt.function
    def gradient(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(chain.ROUNDS):
                y = gt.sin(y) * 0.9 + x
        return tape.gradient(y, x)

    return lambda: gradient(x)


def _linear(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    x, target = gt.asarray(inputs["x"]), gt.asarray(inputs["target"])
    optimizer = adam.ForGradtape(inputs["weights"])
    w, b = optimizer.weights

    @gt.function
    def step(x: Any, target: Any, first: float, second: float) -> None:
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.square(x @ w + b - target))
        optimizer.apply(tape.gradient(loss, optimizer.weights), first, second)

    def call() -> object:
        step(x, target, *optimizer.advance())
        return optimizer.all

    return call


_chain.__name__ = _linear.__name__ = "gradtape"

_whole_chain, _whole_linear = chain.WORKLOADS[0], linear_adam.WORKLOADS[0]
WORKLOADS = (
    replace(
        _whole_chain,
        name="chain-function",
        title=_whole_chain.title + ", under gt.function",
        builds=(_chain, *_whole_chain.builds[1:]),
    ),
    replace(
        _whole_linear,
        name="linear-adam-function",
        title=_whole_linear.title + ", under gt.function",
        builds=(_linear, *_whole_linear.builds[1:]),
    ),
)
