"""The compiler thread: it compiles while calls go on in the slower way.

A caller hands in a `Job` and looks later whether its result is there; nobody waits. The thread is
started with the first job and ends when no job is left, so an idle process has none. Of several
jobs the most urgent is done first.

A fork waits until LLVM is left (`codegen.llvm`); the child has the jobs that were waiting, and a
thread of its own when somebody next asks for one. At the end of the process no job is begun any
more, and the exit waits for the step of LLVM that is running: its code must not run while the
process frees its data.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from typing import Any

from gradtape.messages import Log
from gradtape.process.give_way import StoppedError, is_in_background, work_in_background

_log = Log("codegen")

# So many jobs wait at most. Who hands in one more asks again later.
MOST_JOBS = 256
# How much nicer than its process the thread is. With more threads than cores, a product of NumPy
# waits at each of its barriers for the thread that has no core. A larger number would starve the
# compiler on a machine that is busy with other work.
NICER = 5


class Job:
    """Something to compile. `work` is called once, in the compiler thread."""

    def __init__(self) -> None:
        self.finished = False
        self.error: Exception | None = None

    def work(self) -> None:
        """Compile, and leave the result where callers look for it."""
        raise NotImplementedError

    def urgency(self) -> float:
        """Seconds that calls have lost so far because the result is not there; negative: none."""
        return 0.0


class _Choice:
    meanwhile = True


def compile_shortcuts_meanwhile(on: bool) -> None:
    """Choose where shortcuts such as the native recorder are compiled: here, or in their calls."""
    _Choice.meanwhile = on


def shortcuts_come_later() -> bool:
    """Whether shortcuts are compiled here, while calls go on without them."""
    return _Choice.meanwhile


class Counts:
    """What the thread has done in this process."""

    jobs = 0
    failures = 0
    seconds = 0.0


class _State:
    """The jobs and the thread of this process; a forked child begins with the waiting jobs."""

    def __init__(self, waiting: list[Job]) -> None:
        # Reentrant: a signal handler, or a finaliser, may hand in a job at any point.
        self.changed = threading.Condition(threading.RLock())
        self.waiting = waiting
        self.current: Job | None = None
        self.thread: threading.Thread | None = None
        self.closed = False


_state = _State([])


def submit(job: Job) -> bool:
    """Have a job done; False if that cannot be now: too many wait, or the process ends."""
    state = _state
    with state.changed:
        if state.closed or len(state.waiting) >= MOST_JOBS:
            return False
        state.waiting.append(job)
        _ensure_thread(state)
        return True


def resume() -> None:
    """Start the thread if jobs wait and there is none, as after a fork."""
    state = _state
    if state.waiting and state.thread is None and not state.closed:
        with state.changed:
            _ensure_thread(state)


def wait(timeout: float | None = None) -> bool:
    """Wait until no job is left; False if that took longer than so many seconds."""
    return _wait_until(lambda state: not state.waiting and state.current is None, timeout)


def wait_for(job: Job, timeout: float | None = None) -> bool:
    """Wait until a job that was handed in is finished; False after so many seconds."""
    return _wait_until(lambda state: job.finished, timeout)


def waiting_jobs() -> int:
    """How many jobs are waiting or being done."""
    return len(_state.waiting) + (_state.current is not None)


def _wait_until(holds: Any, timeout: float | None) -> bool:
    if is_in_background():
        return False
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        state = _state
        resume()
        with state.changed:
            if holds(state):
                return True
            if state.closed or state.thread is None:
                return False
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # Short turns: the main thread sees signals in between.
            state.changed.wait(0.05 if left is None else min(left, 0.05))


def _ensure_thread(state: _State) -> None:
    """Start the thread if there is none. Needs the lock."""
    if state.thread is None:
        state.thread = threading.Thread(
            target=_run, args=(state,), name="gradtape-compiler", daemon=True
        )
        try:
            state.thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            state.thread = None


def _lower_priority() -> None:
    """Let calls have the cores first. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)


def _run(state: _State) -> None:
    _lower_priority()
    work_in_background(lambda: state.closed)
    while True:
        with state.changed:
            job = _next(state)
            state.current = job
            if job is None:
                state.thread = None
                state.changed.notify_all()
                return
        begin = time.perf_counter()
        try:
            job.work()
        except StoppedError:
            pass
        except Exception as error:
            Counts.failures += 1
            job.error = error.with_traceback(None)
            _log.info("compiling failed, calls go on without it: %s", repr(error))
        finally:
            job.finished = True
            Counts.jobs += 1
            Counts.seconds += time.perf_counter() - begin
            with state.changed:
                state.current = None
                state.changed.notify_all()
            # The job may be all that holds a plan which nobody wants any more.
            del job


def _next(state: _State) -> Job | None:
    if state.closed or not state.waiting:
        return None
    place = max(range(len(state.waiting)), key=lambda at: state.waiting[at].urgency())
    return state.waiting.pop(place)


def _close() -> None:
    state = _state
    with state.changed:
        state.closed = True
        state.waiting.clear()
        while state.current is not None and not is_in_background():
            state.changed.wait(0.05)


def _begin_again() -> None:
    global _state
    lost = [] if _state.current is None else [_state.current]
    _state = _State([*lost, *_state.waiting])


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
