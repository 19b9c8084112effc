"""Chains: loops that run for some rows at a time give the same numbers, and which loops may."""

from __future__ import annotations

import dataclasses
import gc

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler import thread_team as threads
from gradtape.compiler.emit.plans.instructions import INSTRUCTION, WORDS
from gradtape.compiler.lower import kernel_chains
from gradtape.compiler.lower.kernel_chains import LoopRows, Touched
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.flush import clear_plans

RNG = np.random.default_rng(0)
TALL = RNG.standard_normal((3001, 130)).astype("float32")
WIDE = RNG.standard_normal((70, 10_003))
DEEP = RNG.standard_normal((40, 70, 130)).astype("float32")


@pytest.fixture(autouse=True)
def compiled_tier(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


@pytest.fixture(autouse=True, params=[1, 3])
def some_threads(request):
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield
    threads.set_num_threads(before)


@pytest.fixture
def chains(monkeypatch):
    """The chains that are found, as the number of loops in each."""
    clear_plans()  # plans of earlier tests would be used again
    found = []
    original = kernel_chains.chain_of

    def noted(loops):
        chain = original(loops)
        if chain is not None:
            found.append(len(chain.scales))
        return chain

    monkeypatch.setattr(kernel_chains, "chain_of", noted)
    return found


def softmax(n, x):
    shifted = n.exp(x - n.max(x, axis=-1, keepdims=True))
    return shifted / n.sum(shifted, axis=-1, keepdims=True)


def normalised(n, x):
    deviation = x - n.mean(x, axis=-1, keepdims=True)
    return deviation / n.sqrt(n.mean(deviation * deviation, axis=-1, keepdims=True) + 1e-5)


def flat_then_rows(n, x):
    """The loops over all elements have one axis, those over rows have two."""
    grown = n.sin(x) * 2.0
    return grown, n.sum(grown, axis=-1), n.cos(grown - n.max(grown, axis=-1, keepdims=True))


FORMULAS = {
    "variance": lambda n, x: n.var(x, axis=-1),
    "softmax": softmax,
    "normalised": normalised,
    "flat then rows": flat_then_rows,
    "twice": lambda n, x: normalised(n, softmax(n, x)),
}


def computed(formula, x):
    """The results, as NumPy arrays, of a call that is replayed."""
    found = gt.function(lambda x: formula(gt, x))
    for _ in range(3):
        results = found(gt.asarray(x))
    return [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("x", [TALL, WIDE, DEEP], ids=["tall", "wide", "deep"])
def test_numbers(name, x, chains):
    found = computed(FORMULAS[name], x)
    expected = FORMULAS[name](np, x.astype("float64"))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert chains
    tolerance = 2e-5 if x.dtype == np.float32 else 1e-12
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_derivatives(chains):
    """The derivative of a softmax reads results of its loops again, in memory that is reused."""
    weights = RNG.standard_normal(TALL.shape).astype("float32")
    slope = gt.function(gt.grad(lambda x: gt.sum(softmax(gt, x) * weights)))
    for _ in range(3):
        found = slope(gt.asarray(TALL)).numpy()
    y = softmax(np, TALL.astype("float64"))
    expected = y * (weights - np.sum(y * weights, axis=-1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    assert chains


def test_small_arrays_are_no_chains(chains):
    computed(softmax, TALL[:50])
    assert not chains


def test_rows_larger_than_the_cache_are_no_chains(chains):
    computed(softmax, WIDE.reshape(7, -1))
    assert not chains


@pytest.mark.slow
def test_a_timed_run_gives_the_same():
    """A profile runs the loops of a chain one by one, and the time of each is known."""
    function = gt.function(lambda x: softmax(gt, x))
    for _ in range(3):
        plain = function(gt.asarray(TALL)).numpy()
    with gt.profile() as profile:
        timed = function(gt.asarray(TALL)).numpy()
    np.testing.assert_array_equal(timed, plain)
    assert sum(group["seconds"] > 0 for group in profile.data["groups"]) >= 3


def test_the_first_of_a_chain_runs_all_of_it():
    function = gt.function(lambda x: gt.var(x, axis=-1))
    for _ in range(3):
        function(gt.asarray(TALL)).numpy()
    gc.collect()
    streams = [
        plan.stretch.instructions for plan in gc.get_objects() if isinstance(plan, CompiledPlan)
    ]
    runs = INSTRUCTION.index("joint_function")
    words = [[each._words[4 + WORDS * i + runs] for i in range(each.count)] for each in streams]
    assert any(row[0] and row[1:] and not any(row[1:]) for row in words)


# What may be a chain: accesses of 10 rows, as slot, start, length, step and whether it is written;
# the bytes of each are in one run.


def may_follow(first, second, rows=10):
    def access(slot, start, length, step, written):
        return Touched(slot, start, length, step, length, written)

    pair = [[access(*each) for each in accesses] for accesses in (first, second)]
    return kernel_chains._may_follow(pair, rows)


def test_rows_of_the_same_array():
    assert may_follow([(0, 0, 8, 8, True)], [(0, 0, 8, 8, False)])
    assert may_follow([(0, 0, 8, 8, False)], [(0, 0, 8, 8, True)])
    # Halves of rows.
    assert may_follow([(0, 0, 4, 8, True)], [(0, 4, 4, 8, True), (0, 0, 4, 8, False)])


def test_other_rows_are_read():
    # One row before, all rows, rows of another length.
    assert not may_follow([(0, 8, 8, 8, True)], [(0, 0, 8, 8, False)])
    assert not may_follow([(0, 0, 8, 8, True)], [(0, 0, 80, 0, False)])
    assert not may_follow([(0, 0, 8, 8, True)], [(0, 0, 4, 4, False)])
    # Windows that overlap.
    assert not may_follow([(0, 0, 8, 8, True)], [(0, 0, 16, 8, False)])


def test_memory_that_is_used_again():
    """A result in the space of an array that the loop before has read last."""
    read, shared = (0, 0, 8, 8, False), (1, 0, 8, 8, False)
    assert may_follow([read, shared], [shared, (0, 0, 8, 8, True)])
    assert not may_follow([read, shared], [shared, (0, 16, 4, 4, True)])
    assert may_follow([read, shared], [shared, (0, 80, 4, 4, True)])


def test_loops_with_nothing_in_common():
    assert not may_follow([(0, 0, 8, 8, True)], [(1, 0, 8, 8, True)])
    assert may_follow([(0, 0, 8, 8, False)], [(0, 0, 8, 8, False), (1, 0, 8, 8, True)])


def test_rows_of_several_numbers():
    flat = LoopRows(30, [Touched(0, 0, 4, 4, 4, True), Touched(0, 0, 4, 0, 4, False)])
    assert flat.scaled(10) == [
        Touched(0, 0, 12, 12, 12, True),
        Touched(0, 0, 4, 0, 4, False),
    ]


def narrow_columns(monkeypatch):
    """Chains of a few columns."""
    monkeypatch.setattr(kernel_chains, "third_cache", lambda: 1 << 13)
    monkeypatch.setattr(kernel_chains, "LEAST_CHAIN_COLUMNS", 3)
    monkeypatch.setattr(kernel_chains, "CHAIN_COLUMNS_STEP", 3)


def mean_distance(n, x, axis):
    """The mean distance from the mean: two passes over the operand."""
    return n.mean(n.abs(x - n.mean(x, axis=axis, keepdims=True)), axis=axis)


@pytest.mark.parametrize("shape", [(30, 137), (7, 90, 50)])
def test_along_columns(shape, chains, monkeypatch):
    narrow_columns(monkeypatch)
    x = RNG.standard_normal(shape)
    (found,) = computed(lambda n, x: mean_distance(n, x, 0), x)
    np.testing.assert_allclose(found, mean_distance(np, x, 0), rtol=1e-12)
    assert chains


def test_columns_of_several_stacks_are_no_chains(chains, monkeypatch):
    """Threads divide the stacks, whose bytes are in one run each."""
    narrow_columns(monkeypatch)
    x = RNG.standard_normal((20, 30, 40))
    (found,) = computed(lambda n, x: mean_distance(n, x, 1), x)
    np.testing.assert_allclose(found, mean_distance(np, x, 1), rtol=1e-12)
    assert not chains


def test_columns_that_are_written_elsewhere():
    a = Touched(0, 0, 804, 4, 8, False, True)
    assert kernel_chains._may_follow([[a], [a]], 10)
    written = dataclasses.replace(a, written=True)
    assert kernel_chains._may_follow([[a], [written]], 10)
    assert not kernel_chains._may_follow([[a], [dataclasses.replace(written, start=4)]], 10)
    assert not kernel_chains._may_follow([[a], [Touched(0, 0, 4, 4, 4, True)]], 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed, monkeypatch):
    """Rows and flat loops in any order, on little memory, with chains wherever they are right."""
    monkeypatch.setattr(kernel_chains, "LEAST_CHAIN_SHARED_BYTES", 1)
    monkeypatch.setattr(kernel_chains, "CHAIN_ROWS_BYTES", 1 << 11)
    narrow_columns(monkeypatch)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((int(rng.integers(2, 40)), int(rng.integers(1, 40))))
    choices = rng.integers(0, 8, 14)

    def formula(n, x):
        values = [x]
        for choice in choices:
            a, b = values[-1], values[(7 * int(choice) + 3) % len(values)]
            values.append(
                (
                    lambda a=a, b=b: n.sin(a) + b,
                    lambda a=a: a - n.max(a, axis=1, keepdims=True),
                    lambda a=a: (a - n.mean(a, axis=0, keepdims=True)) * n.var(a, axis=0),
                    lambda a=a, b=b: a[::-1] + b,
                    lambda a=a, b=b: a + n.sum(b, axis=1, keepdims=True) * 0.1,
                    lambda a=a: n.concat([a[1:], a[:1]]) if n is gt else np.roll(a, -1, 0),
                    lambda a=a, b=b: n.exp(-a * a) - b[:, ::-1],
                    lambda a=a: a * n.sum(a * a) ** -0.5,
                )[int(choice)]()
            )
        return tuple(values[-3:])

    found, expected = computed(formula, x), formula(np, x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
