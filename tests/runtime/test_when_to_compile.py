"""When a program is compiled: rent that NumPy costs against the price, on a clock that counts."""

import os
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.llvm_effort import Effort
from gradtape.compiler.objects import known_programs
from gradtape.runtime import compiled_plan, tiers, when_to_compile
from gradtape.runtime.when_to_compile import CompilePolicy
from gradtape.trace.value import Value


class Clock:
    """Every run in NumPy takes `step` seconds on it: it goes on by that between two looks."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "auto")
    for name, value in (("scale", 1.0), ("repeated", 0.0), ("loaded", True)):
        monkeypatch.setattr(CompilePolicy, name, value)
    monkeypatch.setattr(when_to_compile, "calibrate", lambda *_: None)
    monkeypatch.setattr(when_to_compile, "_compiled", set())
    found = Clock(1e-3)
    monkeypatch.setattr(CompilePolicy, "clock", found)
    gt.clear_plans()
    return found


def program_and_inputs(factor, count=50):
    x = gt.asarray(np.linspace(0.0, 1.0, count))
    program = gt.program_of(gt.cosh(x) * factor)
    inputs = {True: factor, False: x.numpy()}
    return program, [inputs[node.spec.ndim == 0] for node in program.inputs]


def plan_of(factor):
    program, inputs = program_and_inputs(factor)
    return tiers.TieredPlan(program), inputs


def result(plan, inputs):
    (content,) = plan.run(inputs)
    return Value(content, plan.program.outputs[0].spec).array


def runs_in_numpy(plan, inputs, most=10_000):
    """Runs until the plan is compiled, that one not counted."""
    for count in range(most):
        plan.run(inputs)
        if plan.compiled is not None:
            return count
    return most


def price(plan):
    """The rent after which a plan is compiled."""
    return plan._cost() * when_to_compile.COMPILE_RENT


@pytest.mark.parametrize("step", [1e-5, 1e-4, 1e-3])
def test_a_program_is_compiled_when_numpy_has_cost_as_much(clock, step):
    clock.step = step
    plan, inputs = plan_of(1.5)
    expected = price(plan)
    count = runs_in_numpy(plan, inputs)
    assert (count - 1) * step <= expected <= (count + 1) * step


def test_at_once_if_one_run_is_expected_to_cost_more(clock):
    x = gt.asarray(np.zeros(20_000_000))
    plan = tiers.TieredPlan(gt.program_of(gt.cosh(x) * 2.5))
    assert plan._should_compile()
    assert not plan_of(2.5)[0]._should_compile()


def test_the_price_of_loading_the_compiler_is_paid_by_all_repeated_programs(clock, monkeypatch):
    monkeypatch.setattr(CompilePolicy, "loaded", False)
    alone, inputs = plan_of(3.5)
    expected = price(alone) + when_to_compile.FIRST_PLAN_COST * when_to_compile.COMPILE_RENT
    count = runs_in_numpy(alone, inputs)
    assert (count - 1) * clock.step <= expected <= (count + 1) * clock.step
    monkeypatch.setattr(CompilePolicy, "loaded", False)
    # Others have paid for it.
    monkeypatch.setattr(CompilePolicy, "repeated", 1.0)
    monkeypatch.setattr(when_to_compile, "_compiled", set())
    second, inputs = plan_of(3.5)
    assert runs_in_numpy(second, inputs) < count


def test_programs_that_run_once_do_not_pay_for_the_compiler(clock, monkeypatch):
    monkeypatch.setattr(CompilePolicy, "loaded", False)
    for factor in range(100):
        x = gt.asarray(np.linspace(0.0, 1.0, 10))
        y = x
        for _ in range(factor + 1):
            y = y * 2.0
        y.numpy()
    assert CompilePolicy.repeated == 0.0
    assert not CompilePolicy.loaded


def test_rent_is_counted_for_all_sizes_of_an_outline(clock):
    """Many lengths, each of which is new: few are computed in NumPy, and none later."""
    clock.step = 1e-3
    w = gt.asarray(np.linspace(-1.0, 1.0, 5))
    before = gt.counters()
    in_numpy = 0
    for length in range(60, 160):
        x = gt.asarray(np.linspace(0.0, 1.0, 5 * length).reshape(length, 5))
        begun = clock.now
        (gt.tanh(x * w) * gt.exp(-x)).numpy()
        in_numpy += clock.now > begun
    after = gt.counters()
    assert after.kernels_compiled == before.kernels_compiled + 1
    assert in_numpy < 30


def test_loops_of_unknown_length_are_compiled_at_once(clock):
    x, before = gt.asarray(0.0), clock.now
    _, found = gt.while_loop(lambda c: c[0] < 50.0, lambda c: (c[0] + 1.0, c[1] * 1.01), (x, x))
    found.numpy()
    assert clock.now == before


def test_long_scans_are_compiled_at_once(clock):
    def scan(length):
        xs = gt.asarray(np.linspace(0.0, 1.0, length))
        return gt.scan(lambda c, x: (gt.tanh(c + x), c), gt.asarray(0.0), xs)[0].numpy()

    before = clock.now
    scan(100_000)
    assert clock.now == before
    scan(3)
    assert clock.now > before


def test_kernels_that_exist_cost_nothing(clock):
    first, inputs = plan_of(4.5)
    dear = price(first)
    runs_in_numpy(first, inputs)
    second, _ = plan_of(4.5)
    assert (
        price(second)
        <= dear - when_to_compile.KERNEL_COSTS[Effort.QUICK] * when_to_compile.COMPILE_RENT * 0.99
    )


def test_a_thread_that_finds_the_compiler_busy_goes_on_in_numpy(clock):
    plan, inputs = plan_of(5.5)
    price(plan)
    clock.step = 1.0
    plan.run(inputs)
    begun, end = threading.Event(), threading.Event()

    def compile_for_long():
        with tiers._lock:
            begun.set()
            end.wait(60)

    busy = threading.Thread(target=compile_for_long)
    busy.start()
    assert begun.wait(60)
    try:
        for _ in range(3):
            np.testing.assert_allclose(result(plan, inputs), np.cosh(inputs[0]) * 5.5)
        assert plan.compiled is None
    finally:
        end.set()
        busy.join()
    plan.run(inputs)
    assert plan.compiled is not None


def test_many_threads_compile_a_plan_once(clock):
    clock.step = 1.0
    plan, inputs = plan_of(6.5)
    before = gt.counters().kernels_compiled
    failures = []

    def work():
        try:
            for _ in range(50):
                np.testing.assert_allclose(result(plan, inputs), np.cosh(inputs[0]) * 6.5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert gt.counters().kernels_compiled <= before + 1
    assert plan.layout is not None


def test_a_failure_warns_once_and_is_counted(clock, monkeypatch):
    def fail(*_):
        raise RuntimeError("the compiler has a bug")

    clock.step = 1.0
    monkeypatch.setattr(compiled_plan, "compiled_plan", fail)
    monkeypatch.setattr(tiers.COUNTS, "compile_failures", 0)
    plans = [plan_of(3.5) for _ in range(2)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(5):
            for plan, inputs in plans:
                np.testing.assert_allclose(result(plan, inputs), np.cosh(inputs[0]) * 3.5)
    assert gt.counters().compile_failures == 2
    (warning,) = found
    assert "the compiler has a bug" in str(warning.message)


def test_an_interrupt_of_the_compiler_reaches_the_user(clock, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    clock.step = 1.0
    plan, inputs = plan_of(7.5)
    plan.run(inputs)
    with monkeypatch.context() as broken:
        broken.setattr(compiled_plan, "compiled_plan", interrupt)
        with pytest.raises(KeyboardInterrupt):
            plan.run(inputs)
    np.testing.assert_allclose(result(plan, inputs), np.cosh(inputs[0]) * 7.5)
    assert plan.compiled is not None


def test_the_deterministic_mode_compiles_at_the_first_run(clock):
    f = gt.function(lambda x: gt.atan(x) * gt.expm1(x) - gt.sinh(x))
    with gt.deterministic():
        before = gt.counters()
        f(gt.asarray(np.linspace(0.0, 1.0, 29))).numpy()
        assert gt.counters().kernels_compiled == before.kernels_compiled + 1


@pytest.mark.parametrize(("mode", "first"), [("wait", False), ("always", True)])
def test_modes_that_do_not_depend_on_time(mode, first, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    # Each mode has kernels of its own.
    other = gt.cos if mode == "wait" else gt.expm1
    f = gt.function(lambda x: gt.sinh(x) * other(x))
    x = gt.asarray(np.linspace(0.0, 1.0, 31))
    before = gt.counters()
    f(x).numpy()
    assert (gt.counters().kernels_compiled > before.kernels_compiled) == first
    f(x).numpy()
    assert gt.counters().kernels_compiled == before.kernels_compiled + 1
    assert gt.counters().compiled_in_calls > before.compiled_in_calls


def in_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "GRADTAPE_JIT": "auto", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stderr == ""
    return done.stdout


def test_an_unknown_mode_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import gradtape"],
        env={**os.environ, "GRADTAPE_JIT": "sometimes"},
        capture_output=True,
        text=True,
    )
    assert "GRADTAPE_JIT='sometimes' is unknown. Use off, auto, wait or always." in done.stderr


def test_no_thread_but_the_team_lives_between_calls():
    out = in_process("""
        import threading, numpy as np, gradtape as gt
        from gradtape.runtime.when_to_compile import CompilePolicy
        gt.set_num_threads(1)
        f = gt.function(lambda x: gt.tanh(x) * gt.exp(x))
        x = gt.asarray(np.linspace(0.0, 1.0, 1000))
        while not gt.counters().kernels_compiled:
            f(x).numpy()
            CompilePolicy.repeated += 0.01
            assert threading.active_count() == 1, threading.enumerate()
        f(x).numpy()
        print(threading.active_count(), gt.wait_for_compiler())
        """)
    assert out == "1 True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_compile_for_themselves():
    out = in_process("""
        import os
        import numpy as np, gradtape as gt
        from gradtape.runtime.when_to_compile import CompilePolicy
        x = gt.asarray(np.linspace(0.0, 1.0, 100))
        def call(k):
            y = x
            for _ in range(k):
                y = gt.tanh(y) * x + gt.sin(y)
            return y.numpy()
        right = call(40)
        codes = []
        for number in range(4):
            CompilePolicy.repeated += number
            for _ in range(20 * number):
                call(40)
            child = os.fork()
            if not child:
                good = all(np.allclose(call(40), right) for _ in range(200))
                good = good and bool(np.all(np.isfinite(call(41))))
                os._exit(0 if good else 1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(codes)
        """)
    assert out == "[0, 0, 0, 0]\n"


def shapes_step(x, w):
    with gt.GradientTape() as tape:
        tape.watch(w)
        y = gt.sum(gt.tanh(x @ w) * gt.exp(-x[:, :1]))
    return tape.gradient(y, w)


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


def test_small_programs_run_in_numpy_as_they_are(clock, monkeypatch):
    """The passes take longer than NumPy does for a few elements: they run with the compiler."""
    passed = []
    optimize = tiers.optimize
    monkeypatch.setattr(tiers, "optimize", lambda *args: passed.append(args) or optimize(*args))
    plan, inputs = plan_of(8.5)
    plan.run(inputs)
    assert passed == []
    clock.step = 1.0
    plan.run(inputs)
    plan.run(inputs)
    assert plan.compiled is not None
    assert len(passed) == 1
    large = gt.asarray(np.linspace(0, 1, 10_000))
    tiers.TieredPlan(gt.program_of(gt.cosh(large) * large)).run([large.numpy()])
    assert len(passed) == 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", str(tmp_path / "kernels"))
    known_programs._numbers.cache_clear()
    yield tmp_path / "kernels"
    known_programs._numbers.cache_clear()


def runs_of(program, clock, most=1000):
    """Runs in NumPy of a program that the cache of plans does not know."""
    gt.clear_plans()
    known_programs._numbers.cache_clear()
    when_to_compile._compiled.clear()
    for count in range(most):
        before = clock.now
        program().numpy()
        if clock.now == before:
            return count
    return most


def test_a_program_that_an_earlier_process_compiled_is_loaded_soon(clock, folder, monkeypatch):
    clock.step = 1e-4
    monkeypatch.setattr(CompilePolicy, "loaded", False)

    def program():
        return gt.tan(gt.asarray(np.linspace(0.0, 1.0, 40))) ** 7

    first = runs_of(program, clock)
    monkeypatch.setattr(CompilePolicy, "loaded", False)
    monkeypatch.setattr(CompilePolicy, "repeated", 0.0)
    second = runs_of(program, clock)
    assert second < first / 10
    assert (folder / known_programs.NAME).exists()


def test_other_programs_do_not_profit(clock, folder, monkeypatch):
    clock.step = 1e-4
    runs = []
    for power in (8, 9):
        monkeypatch.setattr(CompilePolicy, "loaded", False)
        monkeypatch.setattr(CompilePolicy, "repeated", 0.0)
        x = gt.asarray(np.arange(40.0))
        runs.append(runs_of(lambda x=x, power=power: gt.tan(x) ** power, clock))
    assert min(runs) > 100


def test_known_programs_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(known_programs, "KNOWN_PROGRAMS", 10)
    for number in range(25):
        known_programs.note(number)
    known_programs._numbers.cache_clear()
    assert known_programs.is_known(24)
    assert not known_programs.is_known(0)
    assert (folder / known_programs.NAME).stat().st_size <= 10 * 8


def test_without_a_folder_nothing_is_known(monkeypatch):
    monkeypatch.setenv("GRADTAPE_KERNEL_CACHE", "off")
    known_programs.note(7)
    assert not known_programs.has_any()
    assert not known_programs.is_known(7)


def test_the_price_follows_the_speed_of_the_machine(monkeypatch):
    monkeypatch.setattr(CompilePolicy, "scale", None)
    monkeypatch.setattr(CompilePolicy, "clock", Clock(2 * when_to_compile.FIXED_WORK_TIME))
    assert when_to_compile.scale() == pytest.approx(2.0)
    # However far from usual the measurement is, the price stays within bounds.
    monkeypatch.setattr(CompilePolicy, "scale", None)
    monkeypatch.setattr(CompilePolicy, "clock", Clock(1e6))
    assert when_to_compile.scale() == when_to_compile.MOST_MACHINE_SCALE


def test_the_price_of_a_routine_is_that_of_its_steps(clock):
    def plan(rounds):
        a = gt.asarray([1.0, 2.0, 3.0])
        for _ in range(rounds):
            a = a / (1.0 + gt.sum(a * a))
        program = gt.program_of(a)
        values = {(3,): np.array([1.0, 2.0, 3.0]), (): 1.0}
        return tiers.TieredPlan(program), [values[node.spec.shape] for node in program.inputs]

    short, long = plan(20)[0]._cost(), plan(200)[0]._cost()
    assert 4 < (long - when_to_compile.PLAN_COST) / (short - when_to_compile.PLAN_COST) < 10
    made, inputs = plan(20)
    made._cost()
    made.compile()
    made.run(inputs)
    # Its code is known now.
    again = plan(20)[0]
    assert again._cost() < short
