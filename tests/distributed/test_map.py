"""distributed.map and blocks of derivatives on a local cluster of Ray."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape import distributed

pytestmark = pytest.mark.slow


def killer(marker):
    """A function that ends its process by SIGKILL, the first time it is called anywhere."""

    # Nested, and so pickled by value: workers cannot import this module.
    def die_once():
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return die_once


def anonymous_megabytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    pytest.skip("this system does not tell the memory of a process")


def test_sweep_equals_the_loop_for_any_number_of_workers(ray):
    def final(parameters):
        w = gt.Variable(gt.random.normal((3,)).numpy())
        optimizer = gt.optimizers.SGD(parameters["rate"], momentum=parameters["momentum"])
        for _ in range(5):
            optimizer.minimize(lambda: gt.sum((w - 1.0) ** 2), [w])
        return w.numpy()

    sweep = [{"rate": r, "momentum": m} for r in (0.1, 0.2) for m in (0.0, 0.9)]
    one = list(distributed.map(final, sweep, seed=2, workers=1))
    many = list(distributed.map(final, sweep, seed=2, workers=3, chunk=2))
    assert [w.tolist() for w in one] == [w.tolist() for w in many]
    for number, parameters in enumerate(sweep):
        gt.random.set_state(distributed.mapping.random_streams.stream(2, number))
        np.testing.assert_allclose(final(parameters), one[number], rtol=1e-12)


def test_programs_travel_and_workers_trace_and_compile_nothing(ray):
    calls = []

    @gt.function
    def f(x):
        calls.append(1)
        return gt.sum(gt.sin(x) * gt.exp(-x / 7.5))

    xs = [np.linspace(0.0, n, 50) for n in range(6)]
    results = distributed.map(f, xs)
    found = list(results)
    np.testing.assert_allclose(found, [np.sum(np.sin(x) * np.exp(-x / 7.5)) for x in xs])
    assert len(calls) == 1, "the driver traces it once"
    report = results.report
    assert (report.traced, report.kernels_compiled, report.not_a_program) == (0, 0, "")
    assert report.kernels_loaded > 0
    assert report.bytes_sent > sum(x.nbytes for x in xs)


def test_batches_are_vmapped(ray):
    x = np.arange(22.0).reshape(11, 2)
    parts = distributed.map(lambda row: gt.sum(row**2), x, batch=4)
    assert parts.total == 3
    np.testing.assert_allclose(np.concatenate(list(parts)), np.sum(x**2, axis=1))


def test_multi_start(ray):
    def lowest(start):
        found = gt.minimize(lambda x: gt.sum((x**2 - 1.0) ** 2 + 0.1 * x), start)
        return found

    starts = [np.array([-2.0]), np.array([0.5]), np.array([2.0])]
    found = np.concatenate(list(distributed.map(lowest, starts)))
    expected = np.concatenate([lowest(start).numpy() for start in starts])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_worker_killed_in_a_sweep_is_replaced(ray, tmp_path):
    die = killer(str(tmp_path / "killed"))

    def f(x):
        if x == 3:
            die()
        return x * x

    results = distributed.map(f, range(8), chunk=2)
    assert list(results) == [n * n for n in range(8)]
    assert results.report.retries >= 1
    assert results.report.tasks == 4, "the result of a task counts once"


def test_a_worker_killed_in_a_jacobian_is_replaced(ray, tmp_path):
    marker, driver = str(tmp_path / "killed"), os.getpid()
    die = killer(marker)

    def f(x):
        if os.getpid() != driver:
            die()
        # A random number that changes nothing keeps f from travelling as a program.
        return gt.sin(x[1:]) * x[:-1] * (1.0 + 0.0 * gt.random.normal(()))

    x = np.linspace(0.0, 1.0, 9)
    blocks = distributed.jacobian(f, x, block=2, out="refs")
    expected = np.zeros((8, 9))
    expected[np.arange(8), np.arange(8)] = np.sin(x[1:])
    expected[np.arange(8), np.arange(1, 9)] = np.cos(x[1:]) * x[:-1]
    np.testing.assert_allclose(blocks.assemble(), expected, rtol=1e-12)
    assert os.path.exists(marker)
    assert "random" in blocks.report.not_a_program


def test_blocks_in_files_and_in_the_object_store(ray, tmp_path):
    def f(x):
        return gt.sin(x[1:]) * x[:-1] ** 2

    x = np.linspace(0.0, 1.0, 21)
    expected = gt.jacobian(f)(x).numpy()
    found = distributed.jacobian(f, x, block=5, out=tmp_path / "dense.npy")
    assert isinstance(found, np.memmap)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = distributed.jacobian(f, x, sparse=True, block=1, out=tmp_path / "sparse")
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)
    assert np.load(tmp_path / "sparse" / "data.npy").shape == (40,)
    blocks = distributed.jacobian(f, x, sparse=True, block=1, out="refs")
    assert len(blocks.refs) == 2
    np.testing.assert_allclose(blocks.assemble().toarray(), expected, rtol=1e-12)
    assert blocks.report.traced == 0


def test_hessian_by_blocks(ray):
    def f(x):
        return gt.sum(gt.sin(x[1:]) * x[:-1] ** 2)

    x = np.linspace(0.0, 1.0, 12)
    expected = gt.hessian(f)(x).numpy()
    np.testing.assert_allclose(distributed.hessian(f, x, block=5), expected, atol=1e-12)
    found = distributed.hessian(f, x, sparse=True, block=1)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)


def test_the_memory_of_the_driver_is_bounded(ray):
    # 40 results of 4 MB, more than it may hold at once.
    before = anonymous_megabytes()
    most = 0.0
    for result in distributed.map(lambda n: np.full(1 << 19, float(n)), range(40), workers=2):
        assert result[-1] == result[0]
        most = max(most, anonymous_megabytes() - before)
    assert most < 60


def test_variables_are_copies_that_may_only_be_read(ray):
    scale = gt.Variable(3.0)
    assert list(distributed.map(lambda x: float(x * scale), [1.0, 2.0], copy_variables=True)) == [
        3.0, 6.0,
    ]  # fmt: skip

    def count(x):
        scale.assign_add(1.0)
        return x

    with pytest.raises(RuntimeError, match="assigned scale"):
        list(distributed.map(count, [1.0], copy_variables=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_joblib_on_ray(ray):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    from ray.util.joblib import register_ray

    register_ray()
    slope = gt.function(gt.grad(lambda x: gt.sum(x**3)))
    with joblib.parallel_config(backend="ray", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(slope)(np.array([n])) for n in (1.0, 2.0))
    assert [x.tolist() for x in found] == [[3.0], [12.0]]
