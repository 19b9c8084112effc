"""Dense Jacobians in chunks: the same numbers, in bounded memory, by one plan."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.autodiff import chunks
from gradtape.runtime import tiers

WEIGHTS = np.random.default_rng(0).normal(size=(30, 40)) / 5
MATRIX = np.random.default_rng(1).normal(size=(25, 30)) / 5


def layers(x):
    return gt.tanh(MATRIX @ gt.tanh(WEIGHTS @ x))


def point(count=40):
    return np.linspace(-1.0, 1.0, count)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("size", [1, 7, 24, 25, 40, 1000])
def test_the_same_numbers(mode, size):
    expected = gt.jacobian(layers, mode=mode)(point()).numpy()
    found = gt.jacobian(layers, mode=mode, chunk_size=size)(point())
    assert found.shape == (25, 40)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_shapes_of_several_axes():
    def f(x):
        return gt.cumulative_sum(x, axis=0) @ np.ones((3, 2)) * gt.sum(x)

    x = np.random.default_rng(2).normal(size=(4, 3))
    for mode in ("forward", "reverse"):
        found = gt.jacobian(f, mode=mode, chunk_size=5)(x)
        assert found.shape == (4, 2, 4, 3)
        np.testing.assert_allclose(found.numpy(), gt.jacobian(f)(x).numpy(), rtol=1e-12)


def test_complex():
    z = np.array([0.3 + 0.4j, -0.5 + 0.2j, 0.1j])
    for f in (gt.exp, lambda z: gt.real(z * gt.conj(z)) * 2.0):
        for mode in ("forward", "reverse"):
            found = gt.jacobian(f, mode=mode, chunk_size=2)(z).numpy()
            np.testing.assert_allclose(found, gt.jacobian(f)(z).numpy(), rtol=1e-12)


def test_hessians():
    x = gt.asarray(point())
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.sum(layers(x) ** 2)
    found = tape.hessian(y, x, chunk_size=9)
    np.testing.assert_allclose(found.numpy(), tape.hessian(y, x).numpy(), rtol=1e-10, atol=1e-12)


def test_one_plan_serves_all_chunks_and_all_calls():
    f = gt.jacobian(layers, chunk_size=4)
    for _ in range(3):
        f(point())
    before = gt.counters()
    f(point() + 0.5).numpy()
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.derivatives_built == before.derivatives_built
    assert after.kernels_compiled == before.kernels_compiled
    # The forward pass once, and seven chunks of 25 rows.
    assert after.plans_run - before.plans_run == 8


def test_values_looked_at_before_are_used():
    x = gt.asarray(point())
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = layers(x)
    y.numpy()
    for _ in range(2):
        found = tape.jacobian(y, x, chunk_size=6).numpy()
        np.testing.assert_allclose(found, gt.jacobian(layers)(point()).numpy(), rtol=1e-12)


def test_an_outer_tape_can_still_differentiate():
    def loss(x):
        return gt.sum(gt.jacobian(layers, chunk_size=3)(x) ** 2)

    def whole(x):
        return gt.sum(gt.jacobian(layers)(x) ** 2)

    np.testing.assert_allclose(gt.grad(loss)(point()).numpy(), gt.grad(whole)(point()).numpy())
    np.testing.assert_allclose(
        gt.vmap(gt.jacobian(layers, chunk_size=3))(np.stack([point(), -point()])).numpy()[1],
        gt.jacobian(layers)(-point()).numpy(),
        rtol=1e-12,
    )


def test_inside_a_function():
    f = gt.function(gt.jacobian(layers, chunk_size=3))
    for shift in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(
            f(point() + shift).numpy(), gt.jacobian(layers)(point() + shift).numpy(), rtol=1e-12
        )


def test_custom_gradients():
    @gt.custom_gradient
    def doubled(x):
        return gt.sin(x), lambda g: g * 2.0 * gt.cos(x)

    for shift in (0.0, 0.5):
        x = point() + shift
        found = gt.jacobian(lambda x: doubled(layers(x)), chunk_size=4)(x).numpy()
        expected = gt.jacobian(lambda x: doubled(layers(x)))(x).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


SIZE = 400


def deep(x):
    """Many intermediates as large as the result: a recurrence that mixes everything."""
    y = x
    for _ in range(6):
        y = gt.sort(gt.cumulative_sum(gt.sin(y)) * 0.01 + y)
        y = gt.fft.irfft(gt.fft.rfft(y) * (1.0 + 0.1j), n=SIZE)
    return y


@pytest.mark.slow
@pytest.mark.parametrize("budget", [400_000, 2_000_000])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_memory_stays_within_twice_the_result_and_the_budget(budget, mode, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    x = np.linspace(0.0, 1.0, SIZE)
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(SIZE, SIZE)) / 20, rng.normal(size=(SIZE, 3 * SIZE)) / 20

    def f(x):
        wide = gt.tanh(first.T @ x)
        for _ in range(3):
            wide = gt.tanh(second @ gt.tanh(second.T @ wide))
        return wide

    ask = gt.jacobian(f, mode=mode, memory_budget=budget)
    result = 8 * SIZE * SIZE
    expected = gt.jacobian(f, mode=mode, memory_budget="4G")(x).numpy()
    ask(x)
    gt.empty_cache()
    before = gt.counters().bytes_allocated
    found = ask(x).numpy()
    taken = gt.counters().bytes_allocated - before
    assert taken <= 2 * result + budget
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # Without a budget it takes more.
    gt.empty_cache()
    before = gt.counters().bytes_allocated
    gt.jacobian(f, mode=mode, memory_budget="4G")(x).numpy()
    assert gt.counters().bytes_allocated - before > result + budget


def test_library_calls_count():
    x = np.linspace(0.0, 1.0, SIZE)
    whole = gt.jacobian(deep, memory_budget="4G")(x).numpy()
    found = gt.jacobian(deep, memory_budget="1M")(x).numpy()
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-12)


def test_a_small_jacobian_is_not_chunked():
    found = gt.jacobian(layers, memory_budget="1G")(point())
    assert found.computed is None
    found = gt.jacobian(layers, memory_budget=1000)(point())
    assert found.computed is not None


@pytest.fixture
def fresh_budget():
    gt.clear_plans()  # and with them the answers that were found for another budget
    chunks.default_budget.cache_clear()
    yield
    chunks.default_budget.cache_clear()


@pytest.mark.usefixtures("fresh_budget")
class TestEnvironment:
    def test_the_budget_is_taken_from_there(self, monkeypatch):
        monkeypatch.setenv("GRADTAPE_JACOBIAN_BUDGET", "1K")
        assert chunks.default_budget() == 1024
        assert gt.jacobian(layers)(point()).computed is not None

    def test_what_is_no_number(self, monkeypatch):
        monkeypatch.setenv("GRADTAPE_JACOBIAN_BUDGET", "much")
        with pytest.raises(ValueError, match="GRADTAPE_JACOBIAN_BUDGET='much' is not a number of"):
            gt.jacobian(layers)(point())

    def test_without_it(self, monkeypatch):
        monkeypatch.delenv("GRADTAPE_JACOBIAN_BUDGET", raising=False)
        assert chunks.default_budget() > 1 << 26


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "many"])
def test_wrong_chunk_sizes(wrong):
    with pytest.raises(ValueError, match=r"jacobian: chunk_size=.* is not a number of seeds"):
        gt.jacobian(layers, chunk_size=wrong)(point())


def test_wrong_budgets():
    with pytest.raises(ValueError, match="memory_budget='lots' is not a number of bytes"):
        gt.jacobian(layers, memory_budget="lots")(point())
    with pytest.raises(ValueError, match="memory_budget=-1 is less than nothing"):
        gt.jacobian(layers, memory_budget=-1)(point())


MEASURED = """
import sys
from pathlib import Path

import numpy as np
import gradtape as gt

mode, budget = sys.argv[1:]
N = 1200
numbers = np.random.default_rng(0)
first, second = (gt.asarray(numbers.normal(size=(N, N)) / 40) for _ in range(2))


def f(x):
    y = gt.tanh(first @ x)
    for _ in range(3):
        y = gt.sort(gt.cumulative_sum(gt.sin(y)) * 0.01 + y)
        y = gt.tanh(second @ y)
    return y


def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


x = np.linspace(0.0, 1.0, N)
ask = gt.jacobian(f, mode=mode, memory_budget=budget)
# What compiling takes, and what the compiler keeps, is no matter of the Jacobian.
for _ in range(2):
    ask(x).numpy()
gt.empty_cache()
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
found = ask(x).numpy()
print(status("VmHWM") - before, found.nbytes)
"""


def grown(mode, budget):
    """How much the process grew at most while it computed a Jacobian, and the result's bytes."""
    environment = {**os.environ, "PYTHONPATH": str(Path(gt.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, mode, budget],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return map(int, run.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak to forget")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_process_grows_by_no_more_than_twice_the_result_and_the_budget(mode):
    peak, result = grown(mode, "6M")
    assert result < peak < 2 * result + (6 << 20)
    # The same measure finds what it takes without chunks: four matrices at once, and more.
    peak, result = grown(mode, "4G")
    assert peak > 2 * result + (6 << 20)


@pytest.mark.slow
def test_chunks_where_nothing_was_compiled_yet():
    script = (
        "import numpy as np, gradtape as gt; "
        "print(gt.jacobian(lambda x: gt.cumulative_sum(x), chunk_size=2)(np.ones(3)).tolist())"
    )
    source = str(Path(gt.__file__).parents[1])
    for jit in ("off", "auto"):
        environment = {**os.environ, "PYTHONPATH": source, "GRADTAPE_JIT": jit}
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment,
            check=False,
        )  # fmt: skip
        assert run.stdout.strip() == "[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]", (
            run.stderr
        )
