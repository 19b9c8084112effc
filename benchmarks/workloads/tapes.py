"""What tapes cost: one op, 100,000 ops, derivatives inside a tape, memory, prepared Jacobians."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Build, Call, Workload, Wrap

LONG = 100_000
STEPS, STATES = 1000, 2048
LENGTH = 100_000


def small() -> Arrays:
    return {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}


def number() -> Arrays:
    return {"x": np.array(0.5)}


def chain_reference(inputs: Arrays, count: int) -> list[Any]:
    x, slope = inputs["x"], np.ones_like(inputs["x"])
    for _ in range(count):
        x, slope = np.sin(x), slope * np.cos(x)
    return [slope]


class Chain:
    """sin, applied many times; `count` is 1 for the smallest tape there is."""

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap, count: int) -> Call:
        import gradtape as gt

        x = gt.asarray(inputs["x"])

        @wrap
        def call(x: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(count):
                    y = gt.sin(y)
            return tape.gradient(y, x)

        return lambda: call(x)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap, count: int) -> Call:
        import torch

        x = torch.from_numpy(inputs["x"]).requires_grad_()

        def call() -> object:
            y = x
            for _ in range(count):
                y = torch.sin(y)
            return torch.autograd.grad(y.sum(), x)[0]

        return call

    @staticmethod
    def jax(inputs: Arrays, wrap: Wrap, count: int) -> Call:
        import jax
        import jax.numpy as jnp

        x = jnp.asarray(inputs["x"])
        gradient = wrap(jax.grad(lambda x: jnp.sum(jnp.sin(x))))
        return lambda: gradient(x)

    @staticmethod
    def autograd(inputs: Arrays, wrap: Wrap, count: int) -> Call:
        import autograd
        import autograd.numpy as anp

        gradient = autograd.grad(lambda x: anp.sum(anp.sin(x)))
        return lambda: gradient(inputs["x"])


def counted(build: Any, count: int) -> Build:
    made = partial(build, count=count)
    made.__name__ = build.__name__  # type: ignore[attr-defined]
    return made


class Flight:
    """GradBench's particle by Euler's method: 177 gradients inside one outer tape."""

    @staticmethod
    def reference(inputs: Arrays) -> list[Any]:
        def flown(w: float) -> float:
            charges = (np.array([10.0, 0.0]), np.array([10.0, 10.0 - w]))
            x, speed = np.array([0.0, 8.0]), np.array([0.75, 0.0])
            while (following := x + 0.1 * speed)[1] > 0:
                push = sum((x - at) / np.sum((x - at) ** 2) ** 1.5 for at in charges)
                x, speed = following, speed + 0.1 * push
            return float((x[0] - x[1] / speed[1] * speed[0]) ** 2)

        h = 1e-4
        ends = [flown(float(inputs["x"]) + times * h) for times in (-2, -1, 1, 2)]
        return [np.asarray((ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h))]

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        first = gt.asarray([10.0, 0.0])

        def flown(w: Any) -> Any:
            second = gt.stack([gt.asarray(10.0), 10.0 - w])
            x, speed = gt.asarray([0.0, 8.0]), gt.asarray([0.75, 0.0])
            while True:
                with gt.GradientTape() as tape:
                    tape.watch(x)
                    a, b = x - first, x - second
                    potential = gt.sum(a * a) ** -0.5 + gt.sum(b * b) ** -0.5
                force = tape.gradient(potential, x)
                following = x + 0.1 * speed
                if following[1] <= 0:
                    break
                x, speed = following, speed - 0.1 * force
            reached = x[0] - x[1] / speed[1] * speed[0]
            return reached * reached

        gradient, w = wrap(gt.grad(flown)), gt.asarray(inputs["x"])
        return lambda: gradient(w)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap) -> Call:
        import torch

        def vector(*parts: float) -> Any:
            return torch.tensor(parts, dtype=torch.float64)

        first, w = vector(10.0, 0.0), torch.tensor(float(inputs["x"]), dtype=torch.float64)
        w.requires_grad_()

        def call() -> object:
            second = torch.stack([torch.tensor(10.0, dtype=torch.float64), 10.0 - w])
            x, speed = vector(0.0, 8.0).requires_grad_(), vector(0.75, 0.0)
            while True:
                a, b = x - first, x - second
                potential = torch.sum(a * a) ** -0.5 + torch.sum(b * b) ** -0.5
                (force,) = torch.autograd.grad(potential, x, create_graph=True)
                following = x + 0.1 * speed
                if following[1] <= 0:
                    break
                x, speed = following, speed - 0.1 * force
            reached = x[0] - x[1] / speed[1] * speed[0]
            return torch.autograd.grad(reached * reached, w)[0]

        return call


class Memory:
    """A scan of 1,000 steps over 2,048 states, whose gradient needs them all: 16 MB of states."""

    @staticmethod
    def inputs() -> Arrays:
        rng = np.random.default_rng(51)
        return {"x": rng.standard_normal(STATES), "w": rng.uniform(0.5, 1, STATES)}

    @staticmethod
    def reference(inputs: Arrays) -> list[Any]:
        x, w = inputs["x"], inputs["w"]
        slope = np.zeros_like(x)
        for _ in range(STEPS):
            slope = (1 - np.tanh(w * x) ** 2) * (x + w * slope)
            x = np.tanh(w * x) + 0.1
        return [slope]

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
        import gradtape as gt

        x, w = (gt.asarray(array) for array in inputs.values())

        def loss(w: Any, x: Any) -> Any:
            def step(x: Any, _: Any) -> Any:
                return gt.tanh(w * x) + 0.1, None

            return gt.sum(gt.scan(step, x, length=STEPS)[0])

        gradient = wrap(gt.grad(loss))
        return lambda: gradient(w, x)

    @staticmethod
    def jax(inputs: Arrays, wrap: Wrap) -> Call:
        import jax
        import jax.numpy as jnp

        x, w = (jnp.asarray(array) for array in inputs.values())

        def loss(w: Any, x: Any) -> Any:
            def step(x: Any, _: Any) -> Any:
                return jnp.tanh(w * x) + 0.1, None

            return jnp.sum(jax.lax.scan(step, x, None, length=STEPS)[0])

        gradient = wrap(jax.grad(loss))
        return lambda: gradient(w, x)

    @staticmethod
    def torch(inputs: Arrays, wrap: Wrap) -> Call:
        import torch

        start, w = (torch.from_numpy(array) for array in inputs.values())
        w.requires_grad_()

        def call() -> object:
            x = start
            for _ in range(STEPS):
                x = torch.tanh(w * x) + 0.1
            return torch.autograd.grad(x.sum(), w)[0]

        return call


class Prepared:
    """A prepared sparse Jacobian: the pattern and the colours are found before."""

    @staticmethod
    def inputs() -> Arrays:
        return {"x": np.random.default_rng(52).standard_normal(LENGTH)}

    @staticmethod
    def reference(inputs: Arrays) -> list[Any]:
        x = inputs["x"]
        return [np.stack([np.cos(x[:-1]) * x[1:], np.sin(x[:-1])], 1).ravel()]

    @staticmethod
    def gradtape(inputs: Arrays, wrap: Wrap, prepared: bool = False) -> Call:
        import gradtape as gt

        def f(x: Any) -> Any:
            return gt.sin(x[:-1]) * x[1:]

        x = gt.asarray(inputs["x"])
        if prepared:
            jacobian = gt.prepare_jacobian(f, x, sparse=True)
        else:
            jacobian = wrap(gt.jacobian(f, sparse=True))
        return lambda: jacobian(x).data

    @staticmethod
    def prepared(inputs: Arrays, wrap: Wrap) -> Call:
        return Prepared.gradtape(inputs, wrap, prepared=True)


Prepared.prepared.__name__ = "gradtape"

WORKLOADS = (
    Workload(
        name="one-op",
        title="gradient of sin of 2 × 2 numbers: the smallest tape",
        dtype="float64",
        inputs=small,
        reference=partial(chain_reference, count=1),
        builds=tuple(
            counted(build, 1) for build in (Chain.gradtape, Chain.torch, Chain.jax, Chain.autograd)
        ),
    ),
    Workload(
        name="long-tape",
        title="gradient of a tape of 100,000 sin",
        dtype="float64",
        inputs=number,
        reference=partial(chain_reference, count=LONG),
        builds=tuple(counted(build, LONG) for build in (Chain.gradtape, Chain.torch)),
        left_out=("function",),
        slow=True,
    ),
    Workload(
        name="particle",
        title="177 gradients inside an outer tape (GradBench particle); see its first call",
        dtype="float64",
        inputs=lambda: {"x": np.array(0.0)},
        reference=Flight.reference,
        builds=(Flight.gradtape, Flight.torch),
        tolerance=1e-6,
        slow=True,
    ),
    Workload(
        name="scan-memory",
        title="gradient of a 1,000-step scan of 2,048 states; see its memory",
        dtype="float64",
        inputs=Memory.inputs,
        reference=Memory.reference,
        builds=(Memory.gradtape, Memory.jax, Memory.torch),
    ),
    Workload(
        name="sparse-plain",
        title="sparse Jacobian, n = 100,000 float64, plain call",
        dtype="float64",
        inputs=Prepared.inputs,
        reference=Prepared.reference,
        builds=(Prepared.gradtape,),
    ),
    Workload(
        name="sparse-prepared",
        title="sparse Jacobian, n = 100,000 float64, prepared",
        dtype="float64",
        inputs=Prepared.inputs,
        reference=Prepared.reference,
        builds=(Prepared.prepared,),
        left_out=("function",),
    ),
)
