"""Compiling in the background: no call compiles, results agree, and modes that wait do."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen import compiler_thread
from gradtape.codegen.cpython.objects import unsupported
from gradtape.process import give_way
from gradtape.recording.value import Value
from gradtape.runtime import compiled_plan, tiers
from gradtape.runtime.plan_cache import plan_for


@pytest.fixture(autouse=True)
def auto(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "auto")
    monkeypatch.setattr(compiler_thread._Choice, "meanwhile", True)
    monkeypatch.setitem(tiers._speculations, "wasted", 0)
    # Kernels that are on disk are not compiled.
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", "off")
    gt.clear_plans()
    yield
    assert gt.wait_for_compiler(60)


class Gate(compiler_thread.Job):
    """Keeps the compiler thread busy until it is opened."""

    def __init__(self):
        super().__init__()
        self.begun, self.open = threading.Event(), threading.Event()

    def work(self):
        self.begun.set()
        self.open.wait(60)

    def urgency(self):
        return float("inf")


@pytest.fixture
def gate():
    assert gt.wait_for_compiler(60)
    found = Gate()
    compiler_thread.submit(found)
    assert found.begun.wait(30)
    yield found
    found.open.set()


def compiled_in_calls(call, times=6):
    """Modules compiled while calls waited, in all of some calls with the compiler between them."""
    before = gt.counters().compiled_in_calls
    results = []
    for _ in range(times):
        results.append(call())
        gt.wait_for_compiler()
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-12)
    return gt.counters().compiled_in_calls - before


def x_of(size, shift=0.0):
    return gt.asarray(np.linspace(0.1, 0.9, size) + shift)


def test_tapes():
    x = x_of(37)

    def call():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sum(gt.tanh(x) * gt.cos(x * 1.25))
        return tape.gradient(y, x).numpy()

    before = gt.counters()
    assert compiled_in_calls(call) == 0
    assert gt.counters().kernels_compiled > before.kernels_compiled


def test_functions_and_native_calls():
    f = gt.function(lambda x: gt.tanh(x) * 1.75 + gt.sin(x))
    x = x_of(41)
    assert compiled_in_calls(lambda: f(x).numpy(), 100) == 0
    if f.captured[0].native_call is None:
        pytest.skip("no native calls in this interpreter")
    assert f.captured[0].native_call.calls > 0


def test_jacobians_and_hessians():
    def f(x):
        return gt.sin(x) * gt.sum(x * x)

    x = x_of(9)
    assert compiled_in_calls(lambda: gt.jacobian(f)(x).numpy()) == 0
    assert compiled_in_calls(lambda: gt.hessian(lambda x: gt.sum(f(x)))(x).numpy()) == 0


def test_sparse_jacobians():
    def f(x):
        return x[1:] * x[:-1] - gt.cos(x[1:])

    x = x_of(50)
    assert compiled_in_calls(lambda: gt.jacobian(f, sparse=True)(x).toarray()) == 0


def test_loops():
    def f(x):
        def body(carry, t):
            return gt.tanh(carry * 0.75 + t), carry

        last, _ = gt.scan(body, x, gt.asarray(np.linspace(0, 1, 20)))
        return gt.sum(gt.while_loop(lambda v: gt.sum(v) < 50.0, lambda v: v * 1.5 + 0.5, last))

    assert compiled_in_calls(lambda: f(x_of(7)).numpy()) == 0
    assert compiled_in_calls(lambda: gt.grad(lambda x: gt.sum(gt.scan(
        lambda c, t: (gt.sin(c + t), c), x, gt.asarray(np.linspace(0, 1, 20)))[0]))(x_of(7)).numpy()
    ) == 0  # fmt: skip


def test_products_and_linear_algebra():
    a = gt.asarray(np.eye(6) * 3.0 + 0.1)

    def call():
        return gt.grad(lambda a: gt.sum(gt.linalg.solve(a @ a, gt.exp(a))))(a).numpy()

    assert compiled_in_calls(call) == 0


def test_new_shapes():
    before = gt.counters().compiled_in_calls
    for rows in range(1, 30):
        for columns in (1, 2, 7, 40):
            x = np.linspace(0, 1, rows * columns).reshape(rows, columns)
            found = gt.asarray(x)
            found = gt.sum(gt.exp(-found) * found, axis=0).numpy()
            np.testing.assert_allclose(found, (np.exp(-x) * x).sum(0))
            gt.wait_for_compiler()
    assert gt.counters().compiled_in_calls == before


@pytest.mark.slow
def test_the_native_recorder():
    code = """
        import numpy as np, gradtape as gt
        x = gt.asarray(np.linspace(0.0, 1.0, 10))
        for _ in range(200):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(20):
                    y = y * x + x
            tape.gradient(y, x).numpy()
            gt.wait_for_compiler()
        print(gt.counters().compiled_in_calls, "native" in gt.show_config())
        """
    assert in_process(code).split()[0] == "0"
    if unsupported() is None:
        assert in_process(code).split()[1] == "True"


def in_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "GRADTAPE_JIT": "auto", **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_calls_go_on_in_numpy_while_the_thread_is_busy(gate):
    f = gt.function(lambda x: gt.sinh(x) * 1.375)
    x = x_of(33)
    before = gt.counters()
    for _ in range(50):
        np.testing.assert_allclose(f(x).numpy(), np.sinh(x.numpy()) * 1.375)
    now = gt.counters()
    assert now.kernels_compiled == before.kernels_compiled
    assert now.plans_run - before.plans_run == 50
    # One request, however often it runs.
    assert compiler_thread.waiting_jobs() <= 3
    gate.open.set()
    assert gt.wait_for_compiler(60)
    assert gt.counters().kernels_compiled == before.kernels_compiled + 1
    np.testing.assert_allclose(f(x).numpy(), np.sinh(x.numpy()) * 1.375)


def program_and_inputs(factor):
    x = x_of(13)
    return gt.program_of(gt.cosh(x) * gt.asarray(np.full(13, factor))), [
        x.numpy(),
        np.full(13, factor),
    ]


def test_a_plan_that_nobody_holds_is_not_compiled(gate):
    plan = tiers.TieredPlan(program_and_inputs(1.5)[0])
    inputs = program_and_inputs(1.5)[1]
    plan.run(inputs)
    plan.run(inputs)
    before = gt.counters().kernels_compiled
    reference = weakref.ref(plan)
    del plan
    gc.collect()
    assert reference() is None
    gate.open.set()
    assert gt.wait_for_compiler(60)
    assert gt.counters().kernels_compiled == before


def test_plans_forgotten_while_they_are_compiled(gate):
    program, inputs = program_and_inputs(2.5)
    plan_for(program).run(inputs)
    plan = plan_for(program)
    plan.run(inputs)
    gt.clear_plans()
    gate.open.set()
    assert gt.wait_for_compiler(60)
    np.testing.assert_allclose(np.asarray(tiers_result(plan, inputs)), np.cosh(inputs[0]) * 2.5)


def tiers_result(plan, inputs):
    (content,) = plan.run(inputs)
    return Value(content, plan.program.outputs[0].spec).array


def test_a_failure_is_told_once_and_counted(monkeypatch):
    def fail(*_):
        raise RuntimeError("the compiler has a bug")

    monkeypatch.setattr(compiled_plan, "compiled_plan", fail)
    monkeypatch.setitem(tiers._failures, "told", False)
    before = gt.counters().compile_failures
    plans = [tiers.TieredPlan(program_and_inputs(3.5)[0]) for _ in range(2)]
    inputs = program_and_inputs(3.5)[1]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(5):
            for plan in plans:
                np.testing.assert_allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 3.5)
            assert gt.wait_for_compiler(60)
    assert gt.counters().compile_failures - before == 2
    (warning,) = found
    assert "the compiler has a bug" in str(warning.message)


def test_the_deterministic_mode_waits(gate):
    gate.open.set()
    assert gt.wait_for_compiler(60)
    f = gt.function(lambda x: gt.atan(x) * gt.expm1(x) - gt.sinh(x))
    x = x_of(29)
    with gt.deterministic():
        before = gt.counters()
        f(x).numpy()
        assert gt.counters().kernels_compiled == before.kernels_compiled + 1
    assert gt.counters().compiled_in_calls > before.compiled_in_calls


@pytest.mark.slow
def test_the_deterministic_mode_gives_the_same_bits_whatever_the_thread_does():
    """The tier of a call does not depend on time."""
    code = """
        import numpy as np, gradtape as gt, sys, time
        f = gt.function(lambda x: gt.tanh(x) * gt.exp(x) + gt.sin(x * 3.0))
        x = gt.asarray(np.linspace(-3.0, 3.0, 1000))
        f(x).numpy(), f(x).numpy()
        if sys.argv[1:] == ["slowly"]:
            gt.wait_for_compiler()
        with gt.deterministic():
            for size in (1000, 1000, 77, 77, 77):
                part = gt.asarray(x.numpy()[:size])
                print(f(part).numpy().tobytes().hex()[:4000])
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {**os.environ, "GRADTAPE_JIT": "auto"}
    outputs = {
        subprocess.run([*command, *more], env=environment, capture_output=True, check=True).stdout
        for more in ((), ("slowly",), (), ("slowly",))
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("mode", ["wait", "always"])
def test_modes_that_wait(mode, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    # Each mode has kernels of its own.
    other = gt.cos if mode == "wait" else gt.expm1
    f = gt.function(lambda x: gt.sinh(x) * other(x))
    x = x_of(31)
    before = gt.counters()
    f(x).numpy()
    assert (gt.counters().kernels_compiled > before.kernels_compiled) == (mode == "always")
    f(x).numpy()
    assert gt.counters().kernels_compiled == before.kernels_compiled + 1
    assert gt.counters().compiled_in_calls > before.compiled_in_calls


def test_an_unknown_mode_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import gradtape"], env={**os.environ, "GRADTAPE_JIT": "sometimes"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Use off, auto, wait or always." in done.stderr


def test_a_call_after_a_failed_one_does_not_wait(gate, monkeypatch):
    program, inputs = program_and_inputs(4.625)
    plan = tiers.TieredPlan(program)
    with monkeypatch.context() as broken:
        broken.setattr(tiers.NumpyPlan, "run", lambda plain, given: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            plan.run(inputs)
    # The gate is shut: a wait would last a minute, and then find the plan compiled.
    np.testing.assert_allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 4.625)
    assert plan.compiled is None


@pytest.mark.parametrize(
    ("seconds", "elements", "first"),
    [(1.0, 0, True), (1e-5, 0, False), (1.0, tiers.LONG_OP, False)],
    ids=["many ops", "a short run", "long ops"],
)
def test_runs_of_many_ops_go_first(gate, monkeypatch, seconds, elements, first):
    program, inputs = program_and_inputs(4.75)
    plan = tiers.TieredPlan(program)
    plan.run(inputs)
    plan._least, plan._work = seconds, elements * len(program.nodes)
    monkeypatch.setattr(tiers, "WAITS", 0.0)
    seen = []
    run = plan.in_numpy.run
    monkeypatch.setattr(
        tiers.NumpyPlan, "run",
        lambda plain, given: seen.append(bool(give_way._first.threads)) or run(given),
    )  # fmt: skip
    np.testing.assert_allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 4.75)
    assert seen == [first]
    assert not give_way._first.threads


def test_runs_do_not_go_first_while_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "off")
    program, inputs = program_and_inputs(4.875)
    plan = tiers.TieredPlan(program)
    plan.run(inputs)
    plan._least = 1.0
    monkeypatch.setattr(tiers, "going_first", None)
    np.testing.assert_allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 4.875)


def test_a_plan_is_asked_for_after_a_long_first_run(gate, monkeypatch):
    monkeypatch.setattr(tiers, "LONG_RUN", 0.0)
    program, inputs = program_and_inputs(5.5)
    plan = tiers.TieredPlan(program)
    waiting = compiler_thread.waiting_jobs()
    plan.run(inputs)
    assert compiler_thread.waiting_jobs() == waiting + 1
    # Programs that never run again are not guessed for ever.
    monkeypatch.setitem(tiers._speculations, "wasted", tiers.SPECULATIONS)
    other = tiers.TieredPlan(program)
    other.run(inputs)
    assert compiler_thread.waiting_jobs() == waiting + 1


def test_many_threads_ask_for_one_plan():
    program, inputs = program_and_inputs(6.5)
    plan = tiers.TieredPlan(program)
    before = gt.counters().kernels_compiled
    failures = []

    def work():
        try:
            for _ in range(50):
                np.testing.assert_allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 6.5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gt.wait_for_compiler(60)
    assert failures == []
    assert gt.counters().kernels_compiled <= before + 1
    assert plan.layout is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_compiles_what_its_parent_had_asked_for(gate):
    program, inputs = program_and_inputs(7.5)
    plan = tiers.TieredPlan(program)
    plan.run(inputs)
    plan.run(inputs)
    child = os.fork()
    if not child:
        code = 1
        try:
            gate.open.set()
            done = gt.wait_for_compiler(60)
            right = np.allclose(tiers_result(plan, inputs), np.cosh(inputs[0]) * 7.5)
            code = 0 if done and right and plan.layout is not None else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert plan.layout is None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_while_the_compiler_is_loaded_and_runs():
    out = in_process("""
        import os, time
        import numpy as np, gradtape as gt
        x = gt.asarray(np.linspace(0.0, 1.0, 100))
        def call(k):
            y = x
            for _ in range(k):
                y = gt.tanh(y) * x + gt.sin(y)
            return y.numpy()
        call(40), call(40)
        right = call(40)
        codes = []
        for number in range(6):
            time.sleep(0.03 * number)
            child = os.fork()
            if not child:
                for _ in range(3):
                    good = np.allclose(call(40), right) and np.all(np.isfinite(call(41)))
                good = good and gt.wait_for_compiler(60) and np.allclose(call(40), right)
                os._exit(0 if good else 1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(codes)
        """)
    assert out == "[0, 0, 0, 0, 0, 0]\n"


def shapes_step(x, w):
    with gt.GradientTape() as tape:
        tape.watch(w)
        y = gt.sum(gt.tanh(x @ w) * gt.exp(-x[:, :1]))
    return tape.gradient(y, w)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "wait"])
@pytest.mark.parametrize("decorated", [False, True])
def test_shapes_that_were_seen_build_no_plan(mode, decorated, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    w = gt.asarray(np.linspace(-1, 1, 20).reshape(4, 5))
    inputs = [gt.asarray(np.linspace(0, 1, 4 * n).reshape(n, 4)) for n in range(1, 101)]
    step = gt.function(shapes_step) if decorated else shapes_step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a function that is captured for many shapes
        first = [step(x, w).numpy() for x in inputs]
    before = gt.counters()
    for _ in range(3):
        for x, expected in zip(inputs, first, strict=True):
            np.testing.assert_allclose(step(x, w).numpy(), expected, rtol=1e-12)
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.derivatives_built == before.derivatives_built


def test_small_programs_run_in_numpy_as_they_are(monkeypatch):
    """The passes take longer than NumPy does for a few elements: they run with the compiler."""
    passed = []
    optimize = tiers.optimize
    monkeypatch.setattr(tiers, "optimize", lambda *args: passed.append(args) or optimize(*args))
    program, inputs = program_and_inputs(8.5)
    plan = tiers.TieredPlan(program)
    plan.run(inputs)
    assert passed == []
    plan.run(inputs)
    assert gt.wait_for_compiler(60)
    assert len(passed) == 1
    large = gt.asarray(np.linspace(0, 1, 10_000))
    tiers.TieredPlan(gt.program_of(gt.cosh(large) * large)).run([large.numpy()])
    assert len(passed) == 2
