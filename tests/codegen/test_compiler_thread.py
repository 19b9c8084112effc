"""The compiler thread by itself: jobs, their order, failures, forks, and the end of the process."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from gradtape.codegen import compiler_thread
from gradtape.process.give_way import SLICE, give_way, is_in_background


class Doing(compiler_thread.Job):
    """A job that calls a function."""

    def __init__(self, function, urgency=0.0):
        super().__init__()
        self._function = function
        self._urgency = urgency

    def work(self):
        self._function()

    def urgency(self):
        return self._urgency


class Held:
    """Keeps the thread busy until it is released."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()
        compiler_thread.submit(Doing(self._hold))
        assert self.begun.wait(30)

    def _hold(self):
        self.begun.set()
        assert self.go_on.wait(30)


@pytest.fixture
def held():
    assert compiler_thread.wait(30)
    found = Held()
    yield found
    found.go_on.set()
    assert compiler_thread.wait(30)


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads")
def test_calls_have_the_cores_first():
    def priority():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, found = priority(), []
    job = Doing(lambda: found.append(priority()))
    assert compiler_thread.submit(job)
    assert compiler_thread.wait_for(job, 30)
    assert found == [min(before + compiler_thread.NICER, 19)]
    assert priority() == before


def test_a_job_is_done_in_another_thread():
    where = []
    job = Doing(lambda: where.append((threading.current_thread(), is_in_background())))
    assert compiler_thread.submit(job)
    assert compiler_thread.wait_for(job, 30)
    ((thread, background),) = where
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert background
    assert not is_in_background()


def test_nothing_is_left_running():
    compiler_thread.submit(Doing(lambda: None))
    assert compiler_thread.wait(30)
    for thread in threading.enumerate():
        if thread.name == "gradtape-compiler":
            thread.join(30)
            assert not thread.is_alive()


def test_the_most_urgent_job_comes_first(held):
    order = []
    for urgency in (1.0, 3.0, -1.0, 2.0):
        compiler_thread.submit(Doing(lambda u=urgency: order.append(u), urgency))
    assert order == []
    held.go_on.set()
    assert compiler_thread.wait(30)
    assert order == [3.0, 2.0, 1.0, -1.0]


def test_the_queue_is_bounded(held):
    accepted = 0
    while accepted < 10 * compiler_thread.MOST_JOBS:
        if not compiler_thread.submit(Doing(lambda: None)):
            break
        accepted += 1
    assert accepted == compiler_thread.MOST_JOBS


def test_who_waits_for_a_busy_thread_is_told_that_time_is_up(held):
    job = Doing(lambda: None)
    compiler_thread.submit(job)
    assert not compiler_thread.wait_for(job, 0.01)
    assert not compiler_thread.wait(0.01)
    held.go_on.set()
    assert compiler_thread.wait_for(job, 30)


def test_a_failure_is_kept_and_the_thread_goes_on():
    before = compiler_thread.Counts.failures

    def fail():
        raise ValueError("no")

    failing, fine = Doing(fail), Doing(lambda: None)
    compiler_thread.submit(failing)
    compiler_thread.submit(fine)
    assert compiler_thread.wait(30)
    assert isinstance(failing.error, ValueError)
    assert fine.finished
    assert fine.error is None
    assert compiler_thread.Counts.failures - before == 1


def test_the_thread_does_not_wait_for_itself():
    answers = []
    compiler_thread.submit(Doing(lambda: answers.append(compiler_thread.wait(30))))
    assert compiler_thread.wait(30)
    assert answers == [False]


def test_a_job_of_a_signal_handler_in_the_middle_of_another(held):
    # A signal handler runs in the thread that holds the lock.
    with compiler_thread._state.changed:
        assert compiler_thread.submit(Doing(lambda: None))


class Clock:
    """Time that passes only when a test says so; it counts sleeps."""

    def __init__(self):
        self.now, self.sleeps = 0.0, 0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.sleeps += 1


def test_long_python_work_lets_others_have_the_gil(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sys.modules[give_way.__module__], "time", clock)

    def work():
        for _ in range(100):
            clock.now += 0.6 * SLICE
            give_way()

    compiler_thread.submit(Doing(work))
    assert compiler_thread.wait(30)
    # Every second turn is over the time that work may keep the GIL.
    assert clock.sleeps == 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_the_waiting_jobs_and_a_thread_of_its_own(held):
    done = []
    compiler_thread.submit(Doing(lambda: done.append(os.getpid())))
    child = os.fork()
    if not child:
        # The job that the parent's thread is in the middle of is begun again.
        held.go_on.set()
        os._exit(0 if compiler_thread.wait(30) and done == [os.getpid()] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held.go_on.set()
    assert compiler_thread.wait(30)
    assert done == [os.getpid()]


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "GRADTAPE_JIT": "auto", **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ops", [3, 300])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.2, 0.5])
def test_the_process_ends_while_llvm_compiles(ops, delay):
    done = run(f"""
        import time
        import numpy as np, gradtape as gt
        x = gt.asarray(np.linspace(0.0, 1.0, 100))
        for _ in range(2):
            y = x
            for number in range({ops}):
                y = gt.tanh(y) * x + gt.sin(y)
            y.numpy()
        time.sleep({delay})
        print("end", flush=True)
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_jobs_after_the_end_are_refused():
    done = run("""
        import atexit
        from gradtape.codegen import compiler_thread

        def late():
            print(compiler_thread.submit(compiler_thread.Job()), compiler_thread.wait(1))

        compiler_thread._close()
        late()
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False True\n", "")
