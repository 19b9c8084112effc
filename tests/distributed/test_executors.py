"""Without Ray: executors of concurrent.futures, and gradtape functions under joblib."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as gt
from gradtape import distributed


def rosenbrock(x):
    return gt.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


def test_threads_in_order_and_as_completed():
    with ThreadPoolExecutor(3) as threads:
        assert list(distributed.map(lambda x: x + 1, range(7), executor=threads)) == [*range(1, 8)]
        pairs = distributed.map(lambda x: x + 1, range(7), executor=threads, ordered=False, chunk=2)
        assert sorted(pairs) == [(n, n + 1) for n in range(7)]


@pytest.mark.slow
def test_processes_get_functions_and_programs(processes):
    pytest.importorskip("cloudpickle")
    xs = [np.linspace(0.0, n, 4) for n in range(4)]
    expected = [gt.grad(rosenbrock)(x).numpy() for x in xs]
    for f in (lambda x: gt.grad(rosenbrock)(x), gt.function(lambda x: gt.grad(rosenbrock)(x))):
        results = distributed.map(f, xs, executor=processes)
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert results.report.traced == 0
    assert results.report.not_a_program == ""


def test_random_numbers_are_those_of_the_item(processes):
    pytest.importorskip("cloudpickle")

    def draw(n, generator):
        return generator.normal((n,))

    with ThreadPoolExecutor(2) as threads:
        by_threads = list(distributed.map(draw, [1, 2, 3], seed=5, executor=threads))
    by_processes = list(distributed.map(draw, [1, 2, 3], seed=5, executor=processes, chunk=2))
    shared = list(
        distributed.map(lambda n: gt.random.normal((n,)), [1, 2, 3], seed=5, executor=processes)
    )
    for a, b, c in zip(by_threads, by_processes, shared, strict=True):
        assert a.tolist() == b.tolist() == c.tolist()


def test_an_error_names_the_item_and_keeps_its_class():
    def f(x):
        return 1 // x

    with ThreadPoolExecutor(2) as threads:
        results = distributed.map(f, [1, 2, 0, 4], executor=threads)
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError) as caught:
            list(results)
    assert "item 2 of map" in caught.value.__notes__[0]


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="executor is a int"):
        distributed.map(abs, [1], executor=3)
    with pytest.raises(ValueError, match="refs=True"), ThreadPoolExecutor(1) as threads:
        distributed.map(abs, [1], executor=threads, refs=True)
    with pytest.raises(ValueError, match="same number of rows"), ThreadPoolExecutor(1) as threads:
        distributed.map(abs, (np.ones(3), np.ones(4)), batch=2, executor=threads)


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for n in range(100):
            taken.append(n)
            yield n

    with ThreadPoolExecutor(2) as threads:
        results = distributed.map(abs, items(), executor=threads)
        next(results)
        assert len(taken) <= 5
        results.close()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobian_by_blocks(sparse, mode):
    def f(x):
        return gt.sin(x[1:]) * x[:-1] ** 2

    x = np.linspace(0.0, 1.0, 13)
    with ThreadPoolExecutor(2) as threads:
        found = distributed.jacobian(f, x, sparse=sparse, mode=mode, block=2, executor=threads)
    dense = found.toarray() if sparse else found
    np.testing.assert_allclose(dense, gt.jacobian(f)(x).numpy(), rtol=1e-12)


def test_progress_shows_what_is_done(capsys):
    with ThreadPoolExecutor(1) as threads:
        list(distributed.map(abs, [1, 2, 3], executor=threads, progress=True))
    assert "map" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_backends(backend):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    slope = gt.function(gt.grad(rosenbrock))
    starts = [np.linspace(-1.0, 1.0 + n, 4) for n in range(4)]
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(slope)(x) for x in starts)
    for ours, x in zip(found, starts, strict=True):
        np.testing.assert_allclose(ours.numpy(), gt.grad(rosenbrock)(x).numpy(), rtol=1e-12)
