"""Random numbers inside vmap: those that a loop over the examples would draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NoValueError

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3))
MATRIX = RNG.normal(size=(3, 3))


def loop(f: Any, *columns: Any) -> Any:
    """What vmap stands for."""
    rows = [gt.pytree.flatten(f(*map(gt.asarray, row))) for row in zip(*columns, strict=True)]
    columns = zip(*[leaves for leaves, _ in rows], strict=True)
    stacked = [np.stack([np.asarray(x) for x in column]) for column in columns]
    return gt.pytree.unflatten(rows[0][1], stacked)


def close(got: Any, expected: Any) -> None:
    got, expected = gt.pytree.flatten(got)[0], gt.pytree.flatten(expected)[0]
    for a, b in zip(got, expected, strict=True):
        a, b = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def check(f: Any, *columns: Any) -> None:
    close(gt.vmap(f)(*columns), loop(f, *columns))


def noisy(generator: Any) -> Any:
    def f(x):
        return x + generator.normal((3,)), generator.uniform(), generator.integers((2,), 10)

    return f


def test_random_numbers_are_those_of_a_loop():
    a, b = gt.random.Generator(7), gt.random.Generator(7)
    close(gt.vmap(noisy(a))(ROWS), loop(noisy(b), ROWS))
    assert a.state == b.state
    close(a.normal((3,)), b.normal((3,)))


def test_random_numbers_of_the_shared_stream():
    def f(x):
        return x + gt.random.normal((3,))

    gt.random.seed(3)
    first = gt.vmap(f)(ROWS).numpy()
    gt.random.seed(3)
    close(first, loop(f, ROWS))


def test_random_numbers_of_nested_calls():
    def nested(generator):
        def f(row):
            scale = generator.uniform()
            return gt.vmap(lambda x: x * generator.uniform() + scale)(row)

        return f

    def looped(generator):
        def f(row):
            scale = generator.uniform()
            return gt.stack([x * generator.uniform() + scale for x in row])

        return f

    a, b = gt.random.Generator(1), gt.random.Generator(1)
    close(gt.vmap(nested(a))(ROWS), loop(looped(b), ROWS))
    assert a.state == b.state


def test_a_seed_inside_is_the_same_for_all_examples():
    def f(x):
        return x * 0.0 + gt.random.normal((3,), seed=5), gt.random.Generator(2).uniform()

    check(f, ROWS)


def test_random_numbers_in_chunks_and_of_no_examples():
    a, b = gt.random.Generator(7), gt.random.Generator(7)
    close(gt.vmap(noisy(a), chunk_size=3)(ROWS), loop(noisy(b), ROWS))
    before = a.state
    gt.vmap(noisy(a))(ROWS[:0])
    assert a.state == before


def test_random_numbers_in_gradients():
    a, b = gt.random.Generator(7), gt.random.Generator(7)

    def slope(generator):
        return gt.grad(lambda x: gt.sum(x * x * generator.normal((3,))))

    close(gt.vmap(slope(a))(ROWS), loop(slope(b), ROWS))


def test_random_numbers_inside_have_no_value():
    generator = gt.random.Generator(0)
    with pytest.raises(NoValueError):
        gt.vmap(lambda x: x if float(generator.uniform()) > 0.5 else -x)(ROWS)


def test_permutations_and_truncated_numbers():
    a, b = gt.random.Generator(7), gt.random.Generator(7)

    def f(generator):
        def drawn(x):
            return generator.permutation(x), generator.truncated_normal((2,), upper=gt.exp(x[0]))

        return drawn

    close(gt.vmap(f(a))(ROWS), loop(f(b), ROWS))
