"""gt.function: random generators move on as they do in Python, whatever is used of the numbers."""

import numpy as np
import pytest
from tests.jit.agreement import agrees, counted, stateless, tensors

import gradtape as gt

A = gt.asarray


def generators(f, count=1):
    """Functions of x and generators, with generators of their own."""

    def make():
        own = [gt.random.Generator(seed) for seed in range(count)]
        return lambda x: f(x, *own), own

    return make


@pytest.mark.parametrize(
    "f",
    [
        lambda x, g: x + g.normal((3,)),
        lambda x, g: x + g.uniform((5,)) - g.normal(()),
        lambda x, g: (g.normal((2,)), g.integers((7,), 10), g.bernoulli((3,)), g.permutation(5)),
        lambda x, g: g.exponential(()) * g.truncated_normal((2,)),
        lambda x, g: (g.normal((8,)), g.normal(()))[1] * x,
        lambda x, g: g.normal((8,)) is None or x,
        lambda x, g: list(reversed([g.normal((n,)) for n in (1, 5, 9)])),
        lambda x, g: gt.vmap(lambda a: a + g.normal(()))(gt.stack([x, x, x])),
        lambda x, g: gt.vmap(lambda a: a + g.normal((2,)) * g.uniform(()))(gt.stack([x, x])),
        lambda x, g: gt.scan(lambda c, _: (c + g.normal(()), c), x, length=4),
        lambda x, g: gt.scan(lambda c, _: (c + g.normal(()), c), x, length=4, reverse=True),
        lambda x, g: gt.fori_loop(0, 3, lambda i, c: c * g.uniform(()), x),
        lambda x, g: gt.map(lambda a: a + g.uniform((2,)), gt.stack([x, x])),
        lambda x, g: gt.cond(x > 0.0, lambda: x + g.normal(()), lambda: x),
        lambda x, g: gt.vmap(
            lambda a: gt.scan(lambda c, _: (c + g.normal(()), None), a, length=3)[0]
        )(gt.stack([x, x])),
        lambda x, g: gt.scan(
            lambda c, _: (c + gt.sum(gt.vmap(lambda b: b * g.normal(()))(gt.ones(2))), None),
            x, length=3,
        )[0] + g.normal(()),
    ],
)  # fmt: skip
def test_the_same_numbers_in_one_run_of_python(f):
    assert agrees(generators(f), tensors(1.0, 2.0, 3.0, 4.0)).runs == 2


def test_guards_on_random_numbers():
    def f(x, g):
        n = 0
        while g.uniform(()) < 0.7:
            n += 1
        return x + n + g.normal(())

    assert agrees(generators(f), tensors(*[1.0] * 30)).runs < 45


def test_several_generators_and_guards_between():
    def f(x, g, h):
        a, b, c = g.normal((8,)), h.normal((3,)), g.uniform(())
        if gt.sum(b) > 0.0:
            return c * x + g.normal(())
        if gt.sum(a) > 0.0:
            return h.normal(()) + g.uniform(())
        return gt.vmap(lambda y: y * h.uniform(()))(gt.stack([x, x]))[0]

    assert agrees(generators(f, 2), tensors(*[1.0] * 30)).runs == 6


def test_draws_around_calls_of_other_functions():
    def f(x, g):
        inner = gt.function(lambda a: a + g.normal(()))
        return inner(x) * g.uniform(()) + inner(x)

    assert agrees(generators(f), tensors(1.0, 2.0, 3.0)).runs == 2


def test_the_shared_stream():
    f, runs = counted(lambda x: x + gt.random.normal(()))
    compiled = gt.function(f)
    for seed in (1, 2, 1):
        gt.random.seed(seed)
        found = [float(compiled(A(1.0))) for _ in range(3)]
        gt.random.seed(seed)
        assert found == [float(1.0 + gt.random.normal(())) for _ in range(3)]
    assert len(runs) == 2


def test_seeds_give_the_same_numbers_at_every_call():
    def f(x):
        local = gt.random.Generator(7)
        return x + gt.random.normal((2,), seed=5) + local.normal((2,)) * local.uniform(())

    assert agrees(stateless(f), tensors(1.0, 2.0, 3.0)).runs == 2


def test_a_generator_that_the_first_call_makes_goes_on():
    def make():
        kept = {}

        def f(x):
            if "generator" not in kept:
                kept["generator"] = gt.random.Generator(0)
            return x + kept["generator"].normal(())

        return f, []

    assert agrees(make, tensors(1.0, 1.0, 1.0, 1.0)).runs == 3


def test_a_generator_without_a_seed_is_new_every_time():
    f = gt.function(lambda x: x + gt.random.Generator().normal(()))
    with pytest.warns(UserWarning, match="a generator without a seed is made at"):
        f(A(1.0))
    assert float(f(A(1.0))) != float(f(A(1.0)))


@pytest.mark.parametrize(
    "look",
    [lambda g: g.state, lambda g: g.restart(1), lambda g: gt.random.seed(1)],
    ids=["state", "restart", "seed"],
)
def test_looks_at_the_state_itself_run_in_python(look):
    generator = gt.random.Generator(3)
    gt.random.seed(0)

    def f(x):
        look(generator)
        return x + generator.normal(()) + gt.random.normal(())

    compiled = gt.function(f)
    with pytest.warns(UserWarning, match=r"runs in Python.*generator"):
        found = [float(compiled(A(1.0)))]
    found += [float(compiled(A(1.0))) for _ in range(2)]
    gt.random.seed(0)
    generator = gt.random.Generator(3)
    assert found == [float(f(A(1.0))) for _ in range(3)]


def test_dropout_in_a_training_step():
    def make():
        w, drop = gt.Variable(np.ones(6)), gt.nn.Dropout(0.5, seed=3)

        def step(x):
            with gt.GradientTape() as tape:
                loss = gt.sum(drop(w * x) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        return step, [w]

    assert agrees(make, [(A(np.arange(6.0)),)] * 5).runs == 2


def test_large_counters_carry():
    def make():
        generator = gt.random.Generator.from_state((1, 2, 2**64 - 2))
        return lambda x: gt.vmap(lambda a: a + generator.normal((4,)))(x), [generator]

    agrees(make, [(A([1.0, 2.0]),)] * 4)
