"""Plan caches and counters: hits, bounds, and sixteen threads at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.node import apply, leaf
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime import plan_cache as cache
from gradtape.runtime.flush import clear_plans
from gradtape.runtime.plan_cache import plan_for
from gradtape.trace.value import Value

FLOAT = spec((3,), np.dtype("float64"))
THREADS = 16


def chain(length, ordinal=0):
    node = leaf(ordinal, FLOAT)
    for _ in range(length):
        node = apply(REGISTRY["sin"], (node,))
    return program([node])


def first_result(plan, array):
    """What a plan of either tier gives for its first output."""
    return Value(plan.run([Value(array, FLOAT)])[0], FLOAT).array


@pytest.fixture
def bound(monkeypatch):
    """A plan cache of four."""
    clear_plans()
    monkeypatch.setattr(cache, "MOST_CACHED_PLANS", 4)
    yield 4
    clear_plans()


def difference(before):
    after = gt.counters()
    return {
        name: getattr(after, name) - getattr(before, name)
        for name in vars(before)
        if getattr(after, name) != getattr(before, name) and name != "nodes_visited"
    }


def test_same_structure_is_the_same_plan():
    clear_plans()
    assert plan_for(chain(3, ordinal=0)) is plan_for(chain(3, ordinal=1))
    assert plan_for(chain(3)) is not plan_for(chain(4))


def test_cache_is_bounded(bound):
    for length in range(1, 20):
        plan_for(chain(length))
    assert len(cache._plans) == bound


def test_the_plan_unused_for_longest_goes_first(bound):
    plans = [plan_for(chain(length)) for length in range(1, bound + 1)]
    assert plan_for(chain(1)) is plans[0]
    plan_for(chain(bound + 1))
    assert plan_for(chain(1)) is plans[0]
    assert plan_for(chain(2)) is not plans[1]


def test_clearing_forgets(bound):
    first = plan_for(chain(2))
    clear_plans()
    assert not cache._plans
    assert plan_for(chain(2)) is not first


def test_counters_of_plans():
    clear_plans()
    before = gt.counters()
    plan_for(chain(7))
    assert difference(before) == {"plans_built": 1}
    plan_for(chain(7))
    assert difference(before) == {"plans_built": 1, "plan_hits": 1}
    plan_for(chain(7)).run([np.zeros(3)])
    after = difference(before)
    after = {name: n for name, n in after.items() if name.startswith(("plan", "ops"))}
    assert after == {"plans_built": 1, "plan_hits": 2, "plans_run": 1, "ops_run": 7}


def test_counters_are_a_snapshot():
    snapshot = gt.counters()
    runs = snapshot.plans_run
    (gt.asarray([1.0]) + 1.0).numpy()
    assert snapshot.plans_run == runs
    assert gt.counters().plans_run == runs + 1


def test_observing_twice_runs_once():
    y = gt.sin(gt.asarray([1.0]))
    before = gt.counters()
    y.numpy()
    y.numpy()
    assert difference(before)["plans_run"] == 1


def test_a_repeated_step_builds_nothing():
    def step(value):
        x = gt.asarray(np.full(3, value))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sum(gt.sin(x) * x * value)
        return tape.gradient(y, x).tolist()

    step(1.0)
    step(2.0)
    before = gt.counters()
    for value in (3.0, 4.0, 5.0):
        step(value)
    found = difference(before)
    assert "plans_built" not in found
    assert "derivatives_built" not in found
    assert found["derivative_hits"] == 3
    assert found["plans_run"] == 3


def in_threads(work):
    """Run `work(number)` in all threads at once; give the results, raise what any raised."""
    barrier = Barrier(THREADS)

    def begin(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_threads_share_plans_of_the_same_structure():
    clear_plans()
    plans = in_threads(lambda number: [plan_for(chain(length)) for length in range(1, 30)])
    # Threads that race may each build a plan; all of them compute the same.
    for column in zip(*plans, strict=True):
        results = [first_result(plan, np.ones(3)) for plan in column]
        np.testing.assert_allclose(results, results[:1] * len(results), rtol=1e-13)
    assert len({id(plan_for(chain(5))) for _ in range(3)}) == 1


def test_threads_evict_and_clear_while_others_look_up(bound):
    def work(number):
        for round_ in range(60):
            length = 1 + (number * 7 + round_) % 12
            found = first_result(plan_for(chain(length)), np.ones(3))
            expected = np.ones(3)
            for _ in range(length):
                expected = np.sin(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-13)
            if round_ % 20 == 19:
                clear_plans()
        return True

    assert all(in_threads(work))
    assert len(cache._plans) <= bound


def test_threads_take_gradients_of_their_own():
    shared = gt.asarray([1.0, 2.0, 3.0])

    def work(number):
        for round_ in range(30):
            scale = float(number + round_)
            with gt.GradientTape() as tape:
                tape.watch(shared)
                y = gt.sum(shared * shared * scale)
            assert tape.gradient(y, shared).tolist() == [2 * scale, 4 * scale, 6 * scale]
        return True

    assert all(in_threads(work))


def test_threads_observe_one_pending_tensor():
    for _ in range(20):
        x = gt.asarray(np.linspace(0.0, 1.0, 50))
        y = gt.sin(x) * 2.0 + x
        expected = np.sin(np.linspace(0.0, 1.0, 50)) * 2.0 + np.linspace(0.0, 1.0, 50)
        for found in in_threads(lambda number, y=y: (y * 1.0).numpy()):
            np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(y.numpy(), expected)


def test_counters_survive_a_thread():
    before = gt.counters().plans_run
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: (gt.asarray([1.0]) + 1.0).numpy()).result()
    assert gt.counters().plans_run == before + 1
