"""The sampler: the stack that Python runs, read at every tick of a timer, and memory over time.

The timer counts processor time (`SIGPROF`), and CPython calls the handler in the main thread
between two instructions of Python, so a sample costs a few microseconds. A sample during native
code is taken when that returns. Phases do not use it: the counters of the plan have the exact time.
Where the profile begins in another thread, or on a system without the timer, there are no samples,
and the time of Python is not divided.

A stack counts for the processor time of the thread since the previous sample: so the stack of a
native call, which is sampled when the call returns, has the time of that call.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from gradtape.config import (
    LARGEST_MEMORY_SAMPLES,
    LISTED_STACKS,
    MEMORY_SAMPLE_PERIOD,
    SAMPLE_PERIOD,
    SAMPLED_CALLERS,
    SAMPLED_FRAMES,
)
from gradtape.ir.origin import SourcePlace, current_line, is_library, place_of
from gradtape.runtime.buffer_pool import pool_counts

COMPILING = ("gradtape.compiler.", "gradtape.runtime.compiled_plan", "gradtape.runtime.plan_cache")
# What the library does in a package or module; the first that the stack passes through counts.
PHASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("compiling", (*COMPILING, "llvmlite.")),
    ("differentiating", ("gradtape.autodiff.",)),
    ("running", ("gradtape.runtime.",)),
    ("calling functions", ("gradtape.jit.",)),
    ("recording", ("gradtape.",)),
)
NAMES = [phase for phase, _ in PHASES]
# Functions of the module of compiled plans that run one, and call NumPy and SciPy in between.
RUNS = ("run", "_run")
PYTHON = "Python"
OURS = "gradtape.tools.profiler."
# A phase, and the program's own lines that led to it, the outermost first.
Stack = tuple[str, tuple[SourcePlace, ...]]


class Sampler:
    """Samples, by phase and line, and notes of memory."""

    def __init__(self) -> None:
        self.samples: Counter[tuple[str, SourcePlace | None]] = Counter()
        # Seconds of processor time by stack, up to the latest sample.
        self.stacks: dict[Stack, float] = {}
        self._counted = 0.0
        # The number of the user's frames around the profile, which are in no stack.
        self._around = 0
        # Seconds since the profile began, resident memory, the pool's in use and idle, and what
        # tapes keep.
        self.memory: list[tuple[float, int, int, int, int]] = []
        self.kept = 0
        self._period = MEMORY_SAMPLE_PERIOD
        self._due = 0.0
        self._began = 0.0
        self._before: Any = None
        # By the id of the code, which is kept.
        self._ranks: dict[int, tuple[CodeType, int]] = {}
        self._status: int | None = None
        self._page = 4096
        self.is_sampling = False

    def start(self) -> None:
        """Begin to sample, if this is the main thread and the system has the timer."""
        self._began, self._counted = time.perf_counter(), time.thread_time()
        self._around = _frames_around()
        try:
            self._status = os.open("/proc/self/statm", os.O_RDONLY)
            self._page = os.sysconf("SC_PAGE_SIZE")
        except (OSError, AttributeError):
            self._status = None
        self.note_memory()
        main = threading.current_thread() is threading.main_thread()
        if not main or not hasattr(signal, "setitimer"):
            return
        if signal.getsignal(signal.SIGPROF) not in (signal.SIG_DFL, signal.SIG_IGN, None):
            return  # another profiler uses this signal
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_PERIOD, SAMPLE_PERIOD)
        self.is_sampling = True

    def stop(self) -> None:
        """Stop sampling."""
        if self.is_sampling:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, self._before)
            self.is_sampling = False
        self.note_memory()
        if self._status is not None:
            os.close(self._status)
            self._status = None

    def by_phase(self) -> Counter[str]:
        """The number of samples by phase."""
        found: Counter[str] = Counter()
        for (phase, _), count in self.samples.items():
            found[phase] += count
        return found

    def _sample(self, _: int, frame: FrameType | None) -> None:
        phase, place, caller = self._classified(frame)
        self.samples[phase, place] += 1
        now = time.thread_time()
        spent, self._counted = now - self._counted, now
        stack = () if place is None else (*_callers(caller)[self._around :], place)
        if (phase, stack) not in self.stacks and len(self.stacks) >= LISTED_STACKS:
            stack = stack[:1]
        self.stacks[phase, stack] = self.stacks.get((phase, stack), 0.0) + spent
        if time.perf_counter() >= self._due:
            self.note_memory()

    def _classified(
        self, frame: FrameType | None
    ) -> tuple[str, SourcePlace | None, FrameType | None]:
        """The phase, the innermost line of the user's, and the frame that called that."""
        ranks = [len(PHASES)]
        place = None
        for _ in range(SAMPLED_FRAMES):
            if frame is None:
                break
            code = frame.f_code
            if not is_library(frame):
                place = place_of(code, current_line(frame))
                frame = frame.f_back
                break
            if id(code) not in self._ranks:
                name = frame.f_globals.get("__name__", "")
                self._ranks[id(code)] = code, _rank(name, code.co_name)
            ranks.append(self._ranks[id(code)][1])
            frame = frame.f_back
        return [*NAMES, PYTHON][min(ranks)], place, frame

    def note_memory(self) -> None:
        """Note the memory in use, and how much of it tapes keep."""
        now = time.perf_counter()
        pool = pool_counts()
        used = pool.bytes_allocated - pool.bytes_returned - pool.bytes_held
        resident = self._resident()
        self.memory.append((now - self._began, resident, used, pool.bytes_held, self.kept))
        if len(self.memory) > LARGEST_MEMORY_SAMPLES:
            # Of two neighbours the larger stays: peaks are what a reader searches for.
            pairs = zip(self.memory[::2], self.memory[1::2], strict=False)
            self.memory = [max(pair, key=lambda note: note[1:]) for pair in pairs]
            self._period *= 2
        self._due = now + self._period

    def _resident(self) -> int:
        if self._status is None:
            return 0
        return int(os.pread(self._status, 128, 0).split()[1]) * self._page


def _callers(frame: FrameType | None) -> list[SourcePlace]:
    """The user's lines from a frame outwards, the outermost first."""
    found = []
    for _ in range(SAMPLED_CALLERS):
        if frame is None:
            break
        if not is_library(frame):
            found.append(place_of(frame.f_code, current_line(frame)))
        frame = frame.f_back
    return found[::-1]


def _frames_around() -> int:
    """The number of the user's frames around the profile: the one that begins it counts as inside.

    `gradtape profile` begins one for a script that it runs, so all are around that.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame = frame.f_back
    inside = frame is not None and not is_library(frame)
    return max(0, len(_callers(frame)) - inside)


def _rank(module: str, function: str) -> int:
    if module == "gradtape.runtime.compiled_plan" and function in RUNS:
        return NAMES.index("running")
    for number, (_, prefixes) in enumerate(PHASES):
        if module.startswith(prefixes):
            return number
    return len(PHASES)
