"""Processes that are forked or spawned in the middle of things go on computing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape as gt

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PREAMBLE = """
import multiprocessing, os, sys, threading
import numpy as np
import gradtape as gt

w = gt.Variable(np.linspace(0.1, 0.5, 12).reshape(4, 3))

def work(seed=0):
    # Structures of its own, so that something is compiled, and one that is known already.
    x = gt.asarray(np.random.default_rng(seed).standard_normal((50, 4)))
    for rounds in (2, 3 + seed % 5):
        for _ in range(3):
            with gt.GradientTape() as tape:
                y = x @ w
                for _ in range(rounds):
                    y = gt.sin(y) * float(seed + 1) + gt.exp(-y * y)
                loss = gt.mean(y**2)
            found = tape.gradient(loss, w).numpy()
            assert np.isfinite(found).all()
    total = gt.sum(gt.asarray(np.ones(300_000, np.float32)) * 2.0)
    assert float(total) == 600_000.0
    w.assign_add(np.zeros((4, 3)))
    gt.random.uniform((3,)).numpy()
    return float(gt.sum(w).numpy())

def in_child(action):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def run_script(tmp_path, body, timeout=240):
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + body, encoding="utf-8")
    source = str(Path(gt.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=timeout,
        # Newer Pythons warn when a process with threads forks: that is what is tested.
        env={**os.environ, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@needs_fork
def test_a_child_goes_on_with_what_was_compiled(tmp_path):
    run_script(tmp_path, 'expected = work()\nin_child(work)\nin_child(work)\nwork()\nprint("done")')


@pytest.mark.slow
@needs_fork
def test_a_child_compiles_what_its_parent_did_not(tmp_path):
    run_script(tmp_path, 'work(0)\nin_child(lambda: work(3))\nwork(4)\nprint("done")')


@pytest.mark.slow
@needs_fork
def test_a_child_forked_before_anything_was_compiled(tmp_path):
    run_script(tmp_path, 'in_child(work)\nwork()\nprint("done")')


@needs_fork
def test_a_pending_recording_is_computed_on_both_sides(tmp_path):
    body = """
x = gt.asarray(np.arange(5.0))
with gt.GradientTape() as tape:
    tape.watch(x)
    y = gt.sum(x * x)
def finish():
    assert float(y) == 30.0
    assert tape.gradient(y, x).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
in_child(finish)
finish()
print("done")
"""
    run_script(tmp_path, body)


@pytest.mark.slow
@needs_fork
def test_forks_while_other_threads_compile(tmp_path):
    body = """
stop = threading.Event()
def compile_on(number):
    # Every round has a structure that nobody has seen.
    rounds = 1
    while not stop.is_set():
        x = gt.asarray(np.ones(4 + number))
        for _ in range(2):
            y = x
            for step in range(rounds % 40 + 1):
                y = gt.sin(y) + x if (rounds >> step % 6) & 1 else gt.tanh(y) * x
            y.numpy()
        rounds += 1
before = gt.counters().kernels_compiled
threads = [threading.Thread(target=compile_on, args=(n,)) for n in range(2)]
for each in threads: each.start()
while gt.counters().kernels_compiled == before: pass
for number in range(8): in_child(lambda: work(number))
stop.set()
for each in threads: each.join()
work(9)
print("done")
"""
    run_script(tmp_path, body)


@pytest.mark.slow
@needs_fork
def test_locks_that_other_threads_hold_are_open_in_the_child(tmp_path):
    body = """
from gradtape import random
from gradtape.compiler.cpython import native_recorder
from gradtape.compiler.emit import kernels as compile
from gradtape.trace.recording import state
from gradtape.runtime import plan_cache as cache
from gradtape.compiler import thread_team as threads
from gradtape.runtime import tiers
work()
gt.wait_for_compiler()  # its thread takes these locks, too, in another order
generator = gt.random.Generator(3)
pending = gt.asarray(np.arange(3.0)) + 1.0
random._generator(None)
locks = [w._lock, generator._lock, random._lock, random._generator(None)._lock, compile._lock,
         cache._lock, tiers._lock, threads._state.lock, state.recording.lock,
         native_recorder.lock, native_recorder._kinds_lock]
ready, leave = threading.Event(), threading.Event()
def hold():
    for lock in locks: lock.acquire()
    ready.set()
    leave.wait()
    for lock in reversed(locks): lock.release()
holder = threading.Thread(target=hold)
holder.start()
ready.wait()
def use():
    assert pending.tolist() == [1.0, 2.0, 3.0]
    generator.uniform((3,)).numpy()
    work(3)
    threads.set_num_threads(2)
    native_recorder.install()
in_child(use)
leave.set()
holder.join()
work(4)
print("done")
"""
    run_script(tmp_path, body)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(tmp_path, method):
    body = f"""
if __name__ == "__main__":
    assert {method!r} in multiprocessing.get_all_start_methods()
    expected = work()
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        found = pool.map(work, range(4))
    assert np.allclose(found, expected), (found, expected)
    print("done")
"""
    run_script(tmp_path, body)
