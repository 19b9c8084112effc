"""The thread team: workers parked in native code, shared by every plan of the process.

Workers are daemon threads that call `worker` once, without the GIL, and stay there: they spin for
`IDLE_SECONDS` after their last work and then wait in the kernel. Nothing is started before the
first parallel plan; a forked child has no workers and starts its own when it first needs them.
At interpreter exit the workers are left where they are: they own no lock, and the memory that
they look at is never freed.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradtape.codegen.llvm import Compiled, callable_at, compile_ir
from gradtape.codegen.plans.instructions import Instructions
from gradtape.codegen.plans.team import READY, SHARED, SPINS, TAKEN_BACK, team_bytes, team_ir

__all__ = ["get_num_threads", "set_num_threads"]

# How long a worker without work spins, and a caller that waits for a worker. Waking a sleeper
# takes about as long, so spinning longer costs others more than it can save.
IDLE_SECONDS = 100e-6

# How long the first parallel plan waits for its workers to arrive; late ones join when they come.
ARRIVAL_SECONDS = 1.0


@dataclass(frozen=True)
class TeamCounts:
    """What the team of now has done since it was started."""

    workers: int = 0
    # Instructions cut into parts, and parts that the caller took back from a worker still asleep.
    shared: int = 0
    taken_back: int = 0


class _State:
    """The team of this process; replaced in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # None: not started yet. Zero: one thread, no workers.
        self.address: int | None = None
        self.workers = 0


_state = _State()
_size: int | None = None
# Where loops in native code find the team of now; 0 while there is none.
_word = ctypes.c_int64(0)


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
    """How many threads compiled code runs on, the calling one included.

    The default is the number of processors this process may use, by affinity and by the quota of
    its container; `GRADTAPE_NUM_THREADS`, and else `OMP_NUM_THREADS`, overrides it.

    >>> gt.get_num_threads() >= 1
    True
    """
    global _size
    if _size is None:
        _size = _default_size()
    return _size


def team() -> int:
    """The address of the team for `run_plan`, started at the first call; 0 without workers."""
    address = _state.address
    return _start() if address is None else address


def team_word() -> int:
    """The address of a word that holds the address of the team, once `team` has been called."""
    return ctypes.addressof(_word)


def run(instructions: Instructions, slots: int) -> None:
    """Run a plan on the buffers whose addresses are at `slots`, without the GIL."""
    _native().run_plan(
        team() if instructions.parallel else 0, instructions.address, instructions.count, slots
    )


def plan_runner(*, keep_gil: bool = False) -> Callable[[int, int, int, int], None]:
    """`run_plan(team, instructions, count, slots)` as a Python callable.

    With `keep_gil` other Python threads stand still meanwhile; for plans of a few microseconds.
    """
    native = _native()
    return native.run_plan_with_gil if keep_gil else native.run_plan


def plan_address() -> int:
    """The address of `run_plan`, for native code that runs plans."""
    return _native().plan


def team_counts() -> TeamCounts:
    """What the team has done; read by tests and reports."""
    address = _state.address
    if not address:
        return TeamCounts()
    read = ctypes.c_int64.from_address
    return TeamCounts(
        read(address + READY).value, read(address + SHARED).value, read(address + TAKEN_BACK).value
    )


class _Native:
    """The compiled team: its functions, and how many looks a worker takes before it sleeps."""

    def __init__(self) -> None:
        compiled: Compiled = compile_ir(team_ir(), level=0)
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        arguments = (pointer, pointer, integer, pointer)
        plan = self.plan = compiled.address("run_plan")
        self.run_plan = callable_at(plan, *arguments)
        self.run_plan_with_gil = callable_at(plan, *arguments, keep_gil=True)
        self.worker = callable_at(compiled.address("worker"), pointer)
        self.retire = callable_at(compiled.address("retire"), pointer, integer)
        self.spins = _looks(callable_at(compiled.address("spin"), pointer, integer), IDLE_SECONDS)


@lru_cache(maxsize=1)
def _native() -> _Native:
    return _Native()


def _looks(spin: Any, seconds: float) -> int:
    """How many looks fill so many seconds; a pause lasts 4 to 140 cycles, by processor."""
    word, count = ctypes.c_int32(0), 2000
    best = math.inf
    for _ in range(5):
        begin = time.perf_counter()
        spin(ctypes.addressof(word), count)
        best = min(best, time.perf_counter() - begin)
    return max(1, round(count * seconds / best))


def _start() -> int:
    native = _native()
    with _state.lock:
        if _state.address is not None:
            return _state.address
        wanted = get_num_threads() - 1
        address = _memory(team_bytes(wanted)) if wanted else 0
        if wanted:
            ctypes.c_int64.from_address(address + SPINS).value = native.spins
            _state.workers = _start_workers(native, address, wanted)
        _state.address = _word.value = address
        return address


def _start_workers(native: _Native, address: int, wanted: int) -> int:
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
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while ready.value < started and time.monotonic() < deadline:
        time.sleep(20e-6)
    return started


def _memory(nbytes: int) -> int:
    """Zeroed memory that is never freed: parked workers look at it until the process ends."""
    allocate = ctypes.pythonapi.PyMem_RawCalloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    found = allocate(1, nbytes + 128)
    if not found:
        raise MemoryError(f"threads: no memory for a team ({nbytes} bytes).")
    return -(-found // 128) * 128


def _retire() -> None:
    """Send the workers home; the next parallel plan starts a new team. Needs the lock."""
    if _state.address:
        _native().retire(_state.address, _state.workers)
    _state.address, _state.workers = None, 0
    _word.value = 0


def _forget() -> None:
    # Only the forking thread lives on in the child: no workers, and a lock that may be taken.
    global _state
    _state = _State()
    _word.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _default_size() -> int:
    for name in ("GRADTAPE_NUM_THREADS", "OMP_NUM_THREADS"):
        # OpenMP allows one count per nesting level, separated by commas.
        text = os.environ.get(name, "").split(",")[0].strip()
        if not text:
            continue
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        if name == "GRADTAPE_NUM_THREADS":
            raise ValueError(f"{name}={text!r} is not a positive integer. Set it to 1 or more.")
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return max(1, math.ceil(min(available, cpu_quota())))


def cpu_quota(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float:
    """The processors that this process's control groups allow it; infinite without a quota."""
    try:
        lines = membership.read_text("utf-8").splitlines()
    except OSError:
        return math.inf
    quota = math.inf
    for line in lines:
        _, controllers, path = (line + "::").split(":")[:3]
        if not controllers:
            quota = min(quota, _smallest(mount, path, _quota_of_version_2))
        elif "cpu" in controllers.split(","):
            for folder in (controllers, "cpu"):
                quota = min(quota, _smallest(mount / folder, path, _quota_of_version_1))
    return quota


def _smallest(root: Path, path: str, read: Callable[[Path], float]) -> float:
    """The smallest quota from a group up to the root. A container sees its own group as root."""
    group = root / path.strip("/")
    groups = [group, *(parent for parent in group.parents if parent.is_relative_to(root))]
    return min(read(each) for each in groups)


def _quota_of_version_2(group: Path) -> float:
    try:
        limit, period = (group / "cpu.max").read_text("utf-8").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return math.inf


def _quota_of_version_1(group: Path) -> float:
    try:
        limit = int((group / "cpu.cfs_quota_us").read_text("utf-8"))
        period = int((group / "cpu.cfs_period_us").read_text("utf-8"))
    except (OSError, ValueError):
        return math.inf
    return limit / period if limit > 0 and period > 0 else math.inf
