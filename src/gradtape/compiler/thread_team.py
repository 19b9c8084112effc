"""The thread team: workers parked in native code, shared by every plan of the process.

Workers are daemon threads that call `worker` once, without the GIL, and stay there. After their
last work they spin for `WORKER_SPIN_SECONDS`, so that a plan with many short parallel instructions
finds them awake, and then wait in the kernel (a futex on Linux), so that an idle process takes no
processor time. Nothing is started before the first parallel plan.

A fork copies only the forking thread, so a child has no workers: it forgets the parent's team and
starts its own when it first needs one. At interpreter exit the workers are left where they are:
they own no lock, and the memory that they read is never freed. A changed number of threads
retires the whole team, and the next parallel plan starts another.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import threading
import time
from collections.abc import Callable
from functools import lru_cache

from gradtape.compiler.cpython.objects import add_functions
from gradtape.compiler.emit.plans.instructions import Instructions
from gradtape.compiler.emit.plans.interrupts import (
    IS_STOPPED,
    LOG,
    PLACE,
    POLL,
    TIMED,
    WORDS,
)
from gradtape.compiler.emit.plans.runner import SHARE, runner_ir
from gradtape.compiler.emit.plans.team import (
    LINE,
    READY,
    SHARED,
    SPINS,
    TAKEN_BACK,
    team_bytes,
    team_ir,
)
from gradtape.compiler.emit.plans.timing import timing_ir
from gradtape.compiler.machine_limits import default_thread_count
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.objects.llvm import (
    Compiled,
    NativeModule,
    add_symbol,
    callable_at,
    compile_ir,
)
from gradtape.config import WORKER_ARRIVAL_SECONDS, WORKER_SPIN_SECONDS
from gradtape.records import dataclass

# `run_plan(team, instructions, count, slots)`: not zero if a kernel has failed.
PlanRunner = Callable[[int, int, int, int], int]


@dataclass(frozen=True)
class TeamCounts:
    """Counts of the present team since it was started."""

    workers: int = 0
    # Instructions cut into parts, and parts that the caller took back from a worker still asleep.
    shared: int = 0
    taken_back: int = 0


class _State:
    """The team of this process; replaced in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # None: not started yet. Zero: a team of one thread has no memory.
        self.address: int | None = None
        self.workers = 0


_state = _State()
_size: int | None = None
# The word that holds the address of the present team, for native loops; 0 while there is none.
_word = ctypes.c_int64(0)
# See `compiler.emit.plans.interrupts`.
_interrupts = (ctypes.c_int64 * WORDS)(0, 0, threading.main_thread().ident or 0, 0, 0)


def set_num_threads(n: int) -> None:
    """Set how many threads compiled code runs on, the calling one included.

    >>> before = gt.get_num_threads()
    >>> gt.set_num_threads(1)
    >>> gt.get_num_threads()
    1
    >>> gt.set_num_threads(before)
    """
    global _size
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"set_num_threads: {n!r} is not an integer. Pass a count of 1 or more.")
    if n.__index__() < 1:
        raise ValueError(f"set_num_threads: {n} is less than 1. Pass 1 for no worker threads.")
    with _state.lock:
        if n.__index__() != _size:
            _size = n.__index__()
            _retire()


def get_num_threads() -> int:
    """The number of threads of compiled code, including the calling one.

    The default is the number of processors this process may use, by affinity and by the quota of
    its container; `GRADTAPE_NUM_THREADS`, and else `OMP_NUM_THREADS`, overrides it.

    >>> gt.get_num_threads() >= 1
    True
    """
    global _size
    if _size is None:
        _size = default_thread_count()
    return _size


def team() -> int:
    """The address of the team for `run_plan`, started at the first call; 0 without workers."""
    address = _state.address
    return _start() if address is None else address


def team_word() -> int:
    """The address of a word that holds the address of the team, once `team` has been called."""
    return ctypes.addressof(_word)


def run(instructions: Instructions, slots: int) -> int:
    """Run a plan on the buffers whose addresses are at `slots`, without the GIL."""
    return _runner().run_plan(
        team() if instructions.parallel else 0, instructions.address, instructions.count, slots
    )


def plan_runner(*, keep_gil: bool = False) -> PlanRunner:
    """`run_plan(team, instructions, count, slots)` as a Python callable.

    With `keep_gil` other Python threads wait meanwhile; that is for plans of a few microseconds.
    """
    native = _runner()
    return native.run_plan_with_gil if keep_gil else native.run_plan


def plan_address() -> int:
    """The address of `run_body`, for native code that runs bodies and has no GIL."""
    return _runner().body


def set_timing(timed: bool, log: int = 0) -> None:
    """Time every plan from now on, and write its runs into the log at an address; or stop."""
    _interrupts[LOG // 8] = log
    _interrupts[TIMED // 8] = _timing()[0] if timed else 0


def cycles() -> int:
    """The processor's counter, which timed plans read."""
    return _timing()[1]()


def call_addresses() -> tuple[int, int]:
    """Addresses of `run_plan` for code that holds the GIL: one keeps it, the other gives it up.

    After an interrupt they return with its exception set, after a failure with 1.
    """
    native = _runner()
    return native.with_gil, native.without_gil


def poll_address() -> int:
    """The address of `poll`, by which loops check for signals."""
    return _runner().poll


def team_counts() -> TeamCounts:
    """The counts of the present team, for tests and reports."""
    address = _state.address
    if not address:
        return TeamCounts()
    read = ctypes.c_int64.from_address
    return TeamCounts(
        read(address + READY).value, read(address + SHARED).value, read(address + TAKEN_BACK).value
    )


class _Runner:
    """The compiled plan interpreter: its functions, and their addresses."""

    def __init__(self) -> None:
        compiled = runner_module()
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        arguments = (pointer, pointer, integer, pointer)
        self.body = compiled.address("run_body")
        for name in (POLL, IS_STOPPED):
            add_symbol(name.removeprefix("@"), compiled.address(name.removeprefix("@")))
        self.poll = compiled.address(POLL.removeprefix("@"))
        self.with_gil, self.without_gil = map(
            compiled.address, ("plan_with_gil", "plan_without_gil")
        )
        # Both are called with the GIL, because only such a call raises an exception that is set.
        self.run_plan: PlanRunner = callable_at(
            self.without_gil, *arguments, keep_gil=True, returns=integer
        )
        self.run_plan_with_gil: PlanRunner = callable_at(
            self.with_gil, *arguments, keep_gil=True, returns=integer
        )


class _Team:
    """The compiled team: its functions, and how many reads a worker makes before it sleeps."""

    def __init__(self) -> None:
        compiled: Compiled = compile_ir(team_ir(), level=0)
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        self.share = compiled.address("share")
        self.worker: Callable[[int], None] = callable_at(compiled.address("worker"), pointer)
        retire = compiled.address("retire")
        self.retire: Callable[[int, int], None] = callable_at(retire, pointer, integer)
        self.spins = _reads(
            callable_at(compiled.address("spin"), pointer, integer), WORKER_SPIN_SECONDS
        )


@lru_cache(maxsize=1)
def runner_module() -> NativeModule:
    """The module of the plan interpreter."""
    text = runner_ir()
    add_functions(text)
    add_symbol(PLACE.removeprefix("@"), ctypes.addressof(_interrupts))
    return NativeModule(Source(text, level=0))


@lru_cache(maxsize=1)
def _runner() -> _Runner:
    return _Runner()


@lru_cache(maxsize=1)
def _team() -> _Team:
    return _Team()


@lru_cache(maxsize=1)
def _timing() -> tuple[int, Callable[[], int]]:
    """The address of `run_timed_plan`, and `cycles`."""
    _runner()  # its symbols are called
    compiled = compile_ir(timing_ir(platform.machine()), level=0)
    counter = callable_at(compiled.address("cycles"), returns=ctypes.c_int64, keep_gil=True)
    return compiled.address("run_timed_plan"), counter


def _reads(spin: Callable[[int, int], None], seconds: float) -> int:
    """The number of reads that take `seconds`; a pause lasts 4 to 140 cycles, by processor."""
    word, count = ctypes.c_int32(0), 2000
    best = math.inf
    for _ in range(5):
        begin = time.perf_counter()
        spin(ctypes.addressof(word), count)
        best = min(best, time.perf_counter() - begin)
    return max(1, round(count * seconds / best))


def _start() -> int:
    # Compiled before the lock is taken.
    native = _team() if get_num_threads() > 1 else None
    with _state.lock:
        if _state.address is not None:
            return _state.address
        wanted = get_num_threads() - 1
        address = _memory(team_bytes(wanted)) if wanted else 0
        if wanted:
            native = native or _team()
            ctypes.c_int64.from_address(address + SHARE).value = native.share
            ctypes.c_int64.from_address(address + SPINS).value = native.spins
            _state.workers = _start_workers(native, address, wanted)
        _state.address = _word.value = address
        return address


def _start_workers(native: _Team, address: int, wanted: int) -> int:
    started = 0
    for number in range(1, wanted + 1):
        name = f"gradtape-{number}"
        try:
            threading.Thread(target=native.worker, args=(address,), name=name, daemon=True).start()
        except RuntimeError:
            # No more threads, or the interpreter is ending: the team is as large as it got.
            break
        started += 1
    ready = ctypes.c_int64.from_address(address + READY)
    deadline = time.monotonic() + WORKER_ARRIVAL_SECONDS
    while ready.value < started and time.monotonic() < deadline:
        time.sleep(20e-6)
    return started


def _memory(nbytes: int) -> int:
    """Zeroed memory that is never freed: parked workers read it until the process ends."""
    allocate = ctypes.pythonapi.PyMem_RawCalloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    found: int | None = allocate(1, nbytes + LINE)
    if not found:
        raise MemoryError(f"threads: no memory for a team ({nbytes} bytes).")
    return -(-found // LINE) * LINE


def _retire() -> None:
    """Let the workers leave; the next parallel plan starts a new team. Needs the lock."""
    if _state.address:
        _team().retire(_state.address, _state.workers)
    _state.address, _state.workers = None, 0
    _word.value = 0


def _forget() -> None:
    # Only the forking thread lives on in the child: no workers, and another thread of the parent
    # may hold the lock for ever.
    global _state
    _state = _State()
    _word.value = 0
    # The thread that has forked is the main thread of the child.
    _interrupts[:] = [0, 0, threading.get_ident(), _interrupts[TIMED // 8], 0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
