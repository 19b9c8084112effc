"""gt.function: functions made at random do what they do undecorated; GRADTAPE_FUZZ sets how many.

A function is a list of statements over tensors of three numbers, two variables, a generator, a
buffer that it writes to, and numbers among its arguments.
"""

import os

import numpy as np
import pytest
from tests.jit.agreement import agrees

import gradtape as gt

COUNT = int(os.environ.get("GRADTAPE_FUZZ", "60"))
A = gt.asarray


class World:
    """What a function has besides its arguments."""

    def __init__(self):
        self.v = gt.Variable([0.5, -0.5, 1.0])
        self.w = gt.Variable(2.0)
        self.generator = gt.random.Generator(3)
        self.buffer = A([0.0, 1.0, 2.0])

    def state(self):
        return [self.v, self.w, self.generator, self.buffer]


def bounded(x):
    return gt.tanh(x) * 1.5


def expression(rng):
    """A function of an environment that gives a vector."""
    kind = rng.integers(0, 14)
    a, b, c = (float(rng.uniform(-1, 1)) for _ in range(3))
    i = int(rng.integers(0, 3))
    return [
        lambda e: bounded(e.x * a + e.y),
        lambda e: gt.sin(e.x) - e.y * b,
        lambda e: e.x * e.rate + c,
        lambda e: bounded(e.x + e.world.v),
        lambda e: e.x * gt.sum(e.y) * 0.1 + e.world.w,
        lambda e: e.x + e.world.generator.normal((3,)) * 0.1,
        lambda e: e.x[::-1] + e.world.buffer,
        lambda e: gt.scan(lambda s, t: (bounded(s + t), s), e.x[0], e.y)[1] + e.x,
        lambda e: gt.vmap(lambda t: gt.sin(t) * e.rate)(e.x),
        lambda e: gt.grad(lambda t: gt.sum(gt.sin(t) * e.y))(e.x),
        lambda e: gt.where(e.x > a, e.x, e.y * b),
        lambda e: gt.cond(gt.sum(e.x) > c, lambda: e.x * 2.0, lambda: e.y - 1.0),
        lambda e: gt.stack([e.x[i], e.y[2 - i] + e.count * 0.1, e.x[0] * max(e.rate, 0.2)]),
        lambda e: gt.vmap(lambda t: t + e.world.generator.uniform(()))(e.x),
    ][kind]


def statement(rng, depth=0):
    """A function that changes an environment."""
    kind = int(rng.integers(0, 16 if depth < 2 else 9))
    f, g = expression(rng), expression(rng)
    limit = float(rng.uniform(-1, 1))
    i = int(rng.integers(0, 3))

    def put(name):
        def run(e):
            setattr(e, name, f(e))

        return run

    def assign(e):
        e.world.v.assign(bounded(f(e)))

    def assign_scalar(e):
        e.world.w.assign_add(gt.mean(f(e)) * 0.1)

    def assign_item(e):
        e.world.v[i] = gt.sum(f(e)) * 0.1

    def write(e):
        e.world.buffer[i] = gt.tanh(gt.sum(f(e)))

    def add_in_place(e):
        e.world.buffer *= 0.5
        e.world.buffer += bounded(f(e))

    def draw(e):
        e.world.generator.normal((5,))

    def own_buffer(e):
        out = gt.zeros(3)
        out[i] = gt.sum(f(e)) * 0.1
        e.y = out + e.y

    simple = [put("x"), put("y"), assign, assign_scalar, assign_item, write, add_in_place, draw,
              own_buffer]  # fmt: skip
    if kind < 9:
        return simple[kind]
    inside = [statement(rng, depth + 1) for _ in range(int(rng.integers(1, 3)))]
    other = [statement(rng, depth + 1) for _ in range(int(rng.integers(0, 3)))]

    def choose(e):
        for each in inside if gt.sum(f(e)) > limit else other:
            each(e)

    def choose_by_number(e):
        for each in inside if e.rate > limit else other:
            each(e)

    def repeat(e):
        count = 0
        while count < 3 and gt.max(f(e)) > limit:
            for each in inside:
                each(e)
            count += 1

    def count(e):
        for _ in range(int(gt.abs(gt.sum(g(e)))) % 3):
            for each in inside:
                each(e)

    def loop(e):
        def step(c, t):
            e.world.w.assign(e.world.w * 0.5 + t)
            return bounded(c + t), c * t

        final, rows = gt.scan(step, gt.sum(e.x) * 0.1, f(e))
        e.y = rows + final

    def tape(e):
        with gt.GradientTape() as tape:
            tape.watch(e.x)
            z = gt.sum(f(e) * e.x * e.world.v)
        slope = tape.gradient(z, e.x, unconnected_gradients="zero")
        e.y = bounded(slope)

    def fail(e):
        try:
            # Not an assertion: pytest rewrites those to much code of its own.
            if not gt.sum(f(e)) > limit:
                raise ArithmeticError
        except ArithmeticError:
            e.y = e.y * 0.5

    return [choose, choose_by_number, repeat, count, loop, tape, fail][kind - 9]


class Environment:
    def __init__(self, world, x, rate, count):
        self.world, self.x, self.y = world, x, x * 0.5
        self.rate, self.count = rate, count


def function_of(seed):
    """A factory of functions with worlds of their own, all the same."""
    rng = np.random.default_rng(seed)
    statements = [statement(rng) for _ in range(int(rng.integers(2, 6)))]
    result = expression(rng)

    def make():
        world = World()

        def f(x, rate, count):
            environment = Environment(world, x, rate, count)
            for each in statements:
                each(environment)
            return result(environment), environment.y, {"rate": rate * 2.0}

        return f, world.state()

    return make


@pytest.mark.filterwarnings("ignore:gt.function. wrapped has run in Python for 6 values")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_functions(seed):
    rng = np.random.default_rng(1000 + seed)
    calls = [
        (A(rng.uniform(-1, 1, 3)), float(rng.uniform(0, 1)), int(rng.integers(0, 6)))
        for _ in range(8)
    ]
    agrees(function_of(seed), calls + calls[:4])
