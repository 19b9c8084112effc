"""The team: every element once, whoever runs it; and no hang at fork, spawn or exit."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.slots import Slots

from gradtape.compiler import thread_team as threads
from gradtape.compiler.emit.plans.instructions import Instruction, Instructions
from gradtape.compiler.objects.llvm import compile_ir
from gradtape.config import WORKER_SPIN_SECONDS

# Adds one to each element, slowly enough for workers to arrive; notes the part that did it.
COUNTER = """
define void @counter(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
  %values.at = getelementptr ptr, ptr %slots, i64 3
  %values = load ptr, ptr %values.at
  %parts.at = getelementptr ptr, ptr %slots, i64 4
  %parts = load ptr, ptr %parts.at
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %loop, label %done
loop:
  %index = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %values, i64 %index
  %old = load volatile i64, ptr %at
  %new = add i64 %old, 1
  store volatile i64 %new, ptr %at
  %part.at = getelementptr i64, ptr %parts, i64 %index
  store volatile i64 %part, ptr %part.at
  %next = add i64 %index, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def counter():
    return compile_ir(COUNTER).address("counter")


@pytest.fixture(autouse=True)
def same_size_after():
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


class Work:
    """Arrays of counts and of part numbers, with a plan over them."""

    def __init__(self, counter, size, grain=1, repeats=1):
        self.values = np.zeros(max(size, 1), np.int64)
        self.parts = np.full(max(size, 1), -1, np.int64)
        self.slots = Slots(self.values, self.parts)
        self.plan = Instructions([Instruction(counter, (0,), size, grain, True)] * repeats)

    def run(self):
        threads.run(self.plan, self.slots.address)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000, 50_001])
@pytest.mark.parametrize("grain", [1, 16])
def test_every_element_once_cut_at_grains(counter, count, size, grain):
    threads.set_num_threads(count)
    work = Work(counter, size, grain)
    for _ in range(20):
        work.run()
    assert np.all(work.values[:size] == 20)
    # Parts are contiguous, begin at multiples of the grain, and differ by one grain at most.
    numbers, starts = np.unique(work.parts[:size], return_index=True)
    expected = min(count, math.ceil(size / grain))
    assert numbers.tolist() == list(range(expected))
    assert np.all(starts % grain == 0)
    lengths = np.diff([*starts, math.ceil(size / grain) * grain])
    assert lengths.size == 0 or lengths.max() - lengths.min() <= grain


def test_counts_tell_what_was_shared(counter):
    threads.set_num_threads(1)  # a new team counts from zero
    threads.set_num_threads(2)
    work = Work(counter, 1000, repeats=10)
    work.run()
    first = threads.team_counts()
    assert first.workers == 1
    assert first.shared == 10
    assert 0 <= first.taken_back <= 10
    work.run()
    assert threads.team_counts().shared == 20


def workers():
    return [each for each in threading.enumerate() if each.name.startswith("gradtape")]


def test_one_thread_starts_no_worker(counter):
    threads.set_num_threads(1)
    for each in workers():
        each.join(timeout=30)
    work = Work(counter, 1000)
    work.run()
    assert threads.team() == 0
    assert threads.team_counts() == threads.TeamCounts()
    assert not workers()


def test_plan_without_parallel_instructions_starts_no_team(counter):
    threads.set_num_threads(2)
    threads.set_num_threads(3)
    work = Work(counter, 100)
    work.plan = Instructions([Instruction(counter, (0,), 100)])
    work.run()
    assert np.all(work.values == 1)
    assert threads.team_counts().workers == 0


def test_workers_leave_when_the_size_changes(counter):
    threads.set_num_threads(4)
    Work(counter, 1000).run()
    found = workers()
    assert len(found) >= 3
    threads.set_num_threads(1)
    for each in found:
        each.join(timeout=30)
        assert not each.is_alive()


def test_retired_team_still_computes(counter):
    threads.set_num_threads(2)
    old = threads.team()
    threads.set_num_threads(3)
    work = Work(counter, 1000)
    run = threads.plan_runner()
    run(old, work.plan.address, work.plan.count, work.slots.address)
    assert np.all(work.values == 1)
    assert np.all(work.parts == 0)


def test_sleeping_workers_are_woken_or_replaced(counter):
    threads.set_num_threads(2)
    work = Work(counter, 100_000)
    pause = threading.Event()
    for _ in range(20):
        pause.wait(20 * WORKER_SPIN_SECONDS)
        work.run()
    assert np.all(work.values == 20)


def test_many_python_threads_run_plans_at_once(counter):
    threads.set_num_threads(3)
    works = [Work(counter, 3000, repeats=20) for _ in range(64)]
    begin = threading.Barrier(len(works))

    def run(work):
        begin.wait()
        for _ in range(5):
            work.run()

    callers = [threading.Thread(target=run, args=(work,)) for work in works]
    for each in callers:
        each.start()
    for each in callers:
        each.join(timeout=120)
        assert not each.is_alive()
    assert all(np.all(work.values == 100) for work in works)


def test_size_changes_while_plans_run(counter):
    works = [Work(counter, 3000, repeats=5) for _ in range(4)]
    stop = threading.Event()
    runs = [0] * len(works)

    def run(index):
        while not stop.is_set():
            works[index].run()
            runs[index] += 1

    callers = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for each in callers:
        each.start()
    for count in (1, 2, 4, 2, 3, 1, 2):
        threads.set_num_threads(count)
    stop.set()
    for each in callers:
        each.join(timeout=60)
        assert not each.is_alive()
    for work, count in zip(works, runs, strict=True):
        assert np.all(work.values == 5 * count)


@pytest.mark.parametrize("keep_gil", [False, True])
def test_runner_with_and_without_the_gil(counter, keep_gil):
    threads.set_num_threads(2)
    work = Work(counter, 10_000)
    run = threads.plan_runner(keep_gil=keep_gil)
    for _ in range(10):
        run(threads.team(), work.plan.address, work.plan.count, work.slots.address)
    assert np.all(work.values == 10)


@pytest.mark.parametrize("wrong", [0, -1])
def test_count_below_one(wrong):
    with pytest.raises(ValueError, match="less than 1"):
        threads.set_num_threads(wrong)


@pytest.mark.parametrize("wrong", [1.5, "2", None, True])
def test_count_that_is_no_integer(wrong):
    with pytest.raises(TypeError, match="not an integer"):
        threads.set_num_threads(wrong)


PREAMBLE = f"""
import ctypes, multiprocessing, os, sys, threading, time
import numpy as np
from gradtape.compiler.objects.llvm import compile_ir
from gradtape.compiler.emit.plans.instructions import Instruction, Instructions
from gradtape.compiler import thread_team as threads
threads.set_num_threads(3)
counter = compile_ir('''{COUNTER}''').address("counter")
def check(rounds=50, alone=True):
    values, parts = np.zeros(5000, np.int64), np.zeros(5000, np.int64)
    status = ctypes.c_int64(0)
    slots = (ctypes.c_void_p * 5)(
        0, 0, ctypes.addressof(status), values.ctypes.data, parts.ctypes.data
    )
    plan = Instructions([Instruction(counter, (0,), 5000, 1, True)] * 3)
    for _ in range(rounds):
        threads.run(plan, ctypes.addressof(slots))
    assert np.all(values == 3 * rounds), values
    # Callers that find the team taken run serially.
    assert parts.max() == 2 or not alone
"""


def run_script(body, **environment):
    source = str(Path(threads.__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + body],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": source, **environment},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["", "sys.exit(0)", "time.sleep(0.02)", "threads.set_num_threads(1)"]
)
def test_exit_does_not_hang(ending):
    done = run_script(f"check()\n{ending}\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_plans_at_exit_still_run():
    # Newer Pythons start no threads at that point, so the caller may be alone.
    done = run_script("import atexit\natexit.register(check, alone=False)\n")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_one_processor_for_three_threads():
    body = """
allowed = os.sched_getaffinity(0)
one = {min(allowed)}
os.sched_setaffinity(0, one)
check()
assert os.sched_getaffinity(0) == one
"""
    done = run_script(body)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs affinity")
def test_callers_keep_their_affinity(counter):
    before = os.sched_getaffinity(0)
    threads.set_num_threads(3)
    work = Work(counter, 5000, repeats=100)
    work.run()
    assert os.sched_getaffinity(0) == before


FORK = """
check()
# Other threads are inside plans at the moment of the fork.
stop = threading.Event()
def busy():
    while not stop.is_set():
        check(1, alone=False)
callers = [threading.Thread(target=busy) for _ in range(3)]
for each in callers: each.start()
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        fine = 1
        try:
            assert threads.team_counts().workers == 0
            check()
            assert threads.team_counts().workers == 2
            fine = 0
        finally:
            os._exit(fine)
    children.append(child)
for child in children:
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
stop.set()
for each in callers: each.join()
check()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_starts_its_own_workers():
    # Newer Pythons warn when a process with threads forks: that is what is tested.
    done = run_script(FORK, PYTHONWARNINGS="ignore")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.slow
def test_spawned_child_starts_its_own_workers(tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(
        PREAMBLE
        + """
if __name__ == "__main__":
    check()
    child = multiprocessing.get_context("spawn").Process(target=check)
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.exitcode
""",
        encoding="utf-8",
    )
    source = str(Path(threads.__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert (done.returncode, done.stderr) == (0, "")
