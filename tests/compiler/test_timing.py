"""Timed plans: native code counts runs and cycles, apart for serial runs, and logs the first."""

import ctypes

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler import thread_team
from gradtape.compiler.emit.plans.timing import LOG_HEADER, LOG_ROW, has_counter
from gradtape.config import TIMED_RUNS_PER_SERIAL_RUN
from gradtape.runtime import tiers
from gradtape.runtime.profiler_sink import compiled_plans

pytestmark = pytest.mark.skipif(tiers.MODE == "off", reason="GRADTAPE_JIT=off: nothing is compiled")


@pytest.fixture
def plan():
    """A function with one plan, and the instructions of that plan."""
    gt.clear_plans()
    known = {id(each) for each in compiled_plans()}
    x = gt.asarray(np.linspace(0.0, 1.0, 100_003))
    f = gt.function(lambda x: gt.sum(gt.sin(x) * x))
    for _ in range(3):
        f(x).numpy()
    (made,) = [each for each in compiled_plans() if id(each) not in known]
    stream = made.stretch.instructions
    yield (lambda: f(x).numpy()), stream
    thread_team.set_timing(False)


def test_nothing_is_counted_while_it_is_off(plan):
    run, stream = plan
    run()
    assert stream.counted() == (0, 0, 0, 0)
    assert set(stream.times()) == {(0, 0)}


def test_runs_and_cycles_are_counted(plan):
    run, stream = plan
    thread_team.set_timing(True)
    for _ in range(10):
        run()
    thread_team.set_timing(False)
    run()
    runs, cycles, _, _ = stream.counted()
    assert runs == 10
    inside = sum(shared + serial for shared, serial in stream.times())
    assert 0 < inside <= cycles


def test_some_runs_of_a_parallel_plan_are_serial(plan):
    run, stream = plan
    if not stream.parallel or thread_team.get_num_threads() == 1:
        pytest.skip("this plan has one thread here")
    thread_team.set_timing(True)
    for _ in range(2 * TIMED_RUNS_PER_SERIAL_RUN):
        run()
    thread_team.set_timing(False)
    runs, cycles, serial, spent = stream.counted()
    assert (runs, serial) == (2 * TIMED_RUNS_PER_SERIAL_RUN, 2)
    assert 0 < spent < cycles


def test_runs_are_logged_until_the_log_is_full(plan):
    run, stream = plan
    log = (ctypes.c_int64 * (LOG_HEADER + 3 * LOG_ROW))()
    log[0] = 3
    thread_team.set_timing(True, ctypes.addressof(log))
    for _ in range(5):
        run()
    thread_team.set_timing(False)
    assert log[1] == 5
    rows = [log[at : at + LOG_ROW] for at in range(LOG_HEADER, len(log), LOG_ROW)]
    assert [row[0] for row in rows] == [stream.address] * 3
    times = [time for row in rows for time in row[1:3]]
    assert times == sorted(times)


def test_the_counter_goes_on():
    import platform

    if not has_counter(platform.machine()):
        pytest.skip("the counter of this processor is not read")
    first = thread_team.cycles()
    assert thread_team.cycles() >= first > 0
