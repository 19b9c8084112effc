"""Nothing grows without bound; `growth.py` makes as many of everything as one likes.

Here caches hold a few things only, so that they are full soon.
"""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.growth import least_growth
from tests.programs.growth import KINDS, X, chained

import gradtape as gt
from gradtape.compiler.cpython import switch
from gradtape.compiler.objects import llvm
from gradtape.ir import node
from gradtape.jit import function as functions
from gradtape.runtime import plan_cache, tiers

FEW = 8
# Kinds whose items compile kernels take longest.
SLOW = ("training", "functions", "loops", "jacobians")
# Kinds that also fill caches of thousands of small entries, such as parsed keys.
WIDE = ("sources", "index_patterns")


@pytest.fixture
def small_caches(monkeypatch):
    gt.clear_plans()
    monkeypatch.setattr(node, "MOST_PROGRAMS_OF_A_TABLE", FEW)
    monkeypatch.setattr(node, "REMEMBERED_SPECS", FEW)
    monkeypatch.setattr(plan_cache, "MOST_CACHED_PLANS", FEW)
    monkeypatch.setattr(functions, "MOST_FUNCTION_SIGNATURES", 2 * FEW)
    yield
    gt.clear_plans()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WIDE])
def test_nothing_is_left_of_things_that_are_dropped(small_caches, kind):
    make, numbers = KINDS[kind](), iter(range(10_000))
    times = 2 * FEW if kind in SLOW else 6 * FEW

    def grown():
        return least_growth(lambda: make(next(numbers)), times, enough=times // 2)

    # What one item holds while caches keep it; a leak leaves several objects of every item.
    assert in_new_thread(grown) <= times // 2


def in_new_thread(function):
    """Call a function where no earlier test has left a recording that keeps its table."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


def test_functions_that_callbacks_call_are_freed(monkeypatch):
    # The limit grows while a program holds many functions, as those of other tests may.
    monkeypatch.setattr(node.UserFunctions, "limit", node.UserFunctions.LEAST_FUNCTIONS)
    in_new_thread(_call_and_free)


def _call_and_free():
    references = []
    for number in range(120):
        made = [(lambda k: lambda a: a * k)(number) for _ in range(3)]
        x = gt.asarray(X)
        gt.pure_callback(made[0], x, x).numpy()
        gt.numpy_function(made[1], [x], ((12,), gt.float64)).numpy()
        gt.scan(lambda c, a, f=made[2]: (c + gt.pure_callback(f, a, a), a), 0.0, x)[0].numpy()
        references += map(weakref.ref, made)
        del made
    gc.collect()
    # The functions of one table for each depth of tracing, and those of the plans of a cache.
    assert sum(each() is not None for each in references) <= 150
    gt.clear_plans()
    gc.collect()
    gt.clear_plans()  # keys of bodies that the collection freed
    assert not any(each() is not None for each in references)


def test_a_program_may_call_many_functions_again_and_again(monkeypatch):
    gt.clear_plans()
    monkeypatch.setattr(node.UserFunctions, "limit", 32)
    functions = [(lambda k: lambda a: a + k)(number) for number in range(100)]
    x = gt.asarray(X)

    def round_of_calls():
        before = gt.counters().plans_built
        for each in functions:
            gt.pure_callback(each, x, x).numpy()
        return gt.counters().plans_built - before

    built = [round_of_calls() for _ in range(12)]
    assert built[0] == 100
    assert built[-1] == 0


@pytest.mark.filterwarnings("ignore")
def test_a_call_that_is_repeated_stays_captured(small_caches):
    f = gt.function(lambda x, name: x * float(len(name)), static_argnames="name")
    x = gt.asarray(X)
    for number in range(20 * FEW):
        f(x, str(number))
        f(x, "often")
    assert f.captures <= 2 * FEW
    before = f.captures
    f(x, "often")
    assert f.captures == before
    gt.clear_plans()
    assert f.captures == 0
    np.testing.assert_array_equal(f(x, "often"), 5 * X)


@pytest.fixture
def recorder_in_python():
    """The native recorder is compiled after some recordings, and its code stays."""
    before = switch.MODE
    gt.set_recorder("python")
    yield
    gt.set_recorder(before)


@pytest.mark.usefixtures("recorder_in_python")
def test_clearing_frees_machine_code(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    gc.collect()
    llvm.free_code()
    before = llvm.loaded_modules()
    x = gt.asarray(X)
    # Numbers that no other test uses: kernels of other tests may be loaded still.
    numbers = range(9990, 9995)

    def values():
        return [chained(number, x).numpy() for number in numbers]

    expected = in_new_thread(values)
    assert llvm.loaded_modules() > before
    gt.clear_plans()
    gc.collect()
    llvm.free_code()
    assert llvm.loaded_modules() <= before
    np.testing.assert_array_equal(values(), expected)


@pytest.mark.slow
def test_code_is_not_freed_while_it_runs(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    big = gt.asarray(np.linspace(0.0, 1.0, 400_000))
    expected = np.sin(np.exp(np.linspace(0.0, 1.0, 400_000)))
    stop, wrong = threading.Event(), []
    f = gt.function(lambda x: gt.sin(gt.exp(x)))

    def compute():
        while not stop.is_set():
            for found in (gt.sin(gt.exp(big)), f(big)):
                if not np.allclose(found.numpy(), expected):
                    wrong.append(found)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for each in threads:
        each.start()
    for number in range(30):
        chained(number, gt.asarray(X)).numpy()
        gt.clear_plans()
    stop.set()
    for each in threads:
        each.join()
    assert not wrong
