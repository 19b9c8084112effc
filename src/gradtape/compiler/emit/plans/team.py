"""The thread team as IR, and the memory that it shares with Python and with the plan interpreter.

A parallel instruction of a plan (`runner`) is shared by the team. Each worker has one word of
state, alone on its cache lines:

    idle -> posted -> claimed -> idle      the caller posts work, the worker claims it
    posted -> idle                         the caller takes back work that is not claimed yet
    idle -> asleep                         the worker has spun long enough and waits in the kernel
    claimed -> awaited                     the caller has, too
    any -> leaving                         the team is retired

Because unclaimed work is taken back, a worker which sleeps or is not scheduled never holds up a
short instruction: the caller does that part itself. Every transition is one atomic operation on
the word, and the thread that replaces `asleep` or `awaited` wakes the sleeper: no wake-up is lost.

A worker spins before it sleeps because waking it through the kernel takes longer than most parallel
instructions; it sleeps in the end because a spinning worker takes a processor from others.

On a busy machine Linux tends to wake a worker on the caller's own processor, where it would push
the caller aside. A worker that finds itself there excludes that processor from its affinity.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from gradtape.compiler.emit.plans.runner import POINTERS, SHARED_WORDS, run_kernel
from gradtape.compiler.emit.writer import Routine, Typed, module

# How a thread waits and which processor it runs on, as IR for each platform: the functions
# `pause`, between two reads of a word; `wait_while`, to sleep while a word has a value; `wake`, to
# end the sleep; `processor`, the number of the processor that the thread runs on (negative:
# unknown); and `avoid`, to keep the thread away from a processor.
# The number of the futex system call.
_FUTEX = {"x86_64": 202, "aarch64": 98}
# Its operations that wait and wake within this process.
_WAIT, _WAKE = 128, 129
# Bytes of a processor mask: 8192 processors.
_MASK_BYTES = 1024

# The instruction of a pause. On ARM an instruction barrier waits about as long as x86's pause;
# `yield` hardly waits at all.
_X86, _ARM = ("@llvm.x86.sse2.pause",), ("@llvm.aarch64.isb", "i32 15")
_PAUSE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}


def _waiting(machine: str, system: str) -> list[Routine]:
    """These functions for one platform."""
    if system.startswith("linux") and machine in _FUTEX:
        return [_pause(machine), *_futex(_FUTEX[machine]), _processor(), _avoid()]
    return [_pause(machine), *_nap(system), *_any_processor()]


def _pause(machine: str) -> Routine:
    r = Routine("internal void @pause() alwaysinline")
    if machine in _PAUSE:
        r.do(*_PAUSE[machine])
    return r


def _futex(number: int) -> list[Routine]:
    """Sleep and wake by system calls. A wait may end early: callers read the word again."""
    wait = Routine("internal void @wait_while(ptr %word, i32 %value) noinline")
    wake = Routine("internal void @wake(ptr %word) noinline")
    for r, operation, value in ((wait, _WAIT, "%value"), (wake, _WAKE, "i32 1")):
        words = (number, "%word", f"i32 {operation}", value, "null", "null", "i32 0")
        r.call("i64 (i64, ...)", "@syscall", *words)
    return [wait, wake]


def _processor() -> Routine:
    r = Routine("internal i64 @processor()")
    r.give(r.cast("sext", r.call("i32", "@sched_getcpu"), "i64"))
    return r


def _avoid() -> Routine:
    """Exclude a processor from the affinity of this thread, and allow the one excluded before.

    The affinity is read first, so that changes that others have made to it are kept.
    """
    r = Routine("internal void @avoid(i64 %number, ptr %avoided, ptr %mask) noinline")
    mask = ("i32 0", _MASK_BYTES, "%mask")

    def bit(number: str) -> tuple[str, str]:
        """The word of the mask with the bit of a processor, and this bit."""
        place = r.at("%mask", r.scaled(r.op("lshr", number, 6)))
        return place, r.op("shl", 1, r.op("and", number, 63))

    r.fill("%mask", _MASK_BYTES)
    failed = r.call("i32", "@sched_getaffinity", *mask)
    with r.when(r.equal(failed, 0)):
        old = r.word("%avoided")
        place, flag = bit(r.select(r.compare("sge", old, 0), old, "%number"))
        r.store(r.op("or", r.word(place), flag), place)
        place, flag = bit("%number")
        r.store(r.op("and", r.word(place), r.op("xor", flag, -1)), place)
        refused = r.call("i32", "@sched_setaffinity", *mask)
        with r.when(r.equal(refused, 0)):
            r.put("%avoided", 0, "%number")
    return r


def _any_processor() -> list[Routine]:
    unknown = Routine("internal i64 @processor() alwaysinline")
    unknown.give(-1)
    avoid = Routine("internal void @avoid(i64 %number, ptr %avoided, ptr %mask) alwaysinline")
    return [unknown, avoid]


def _nap(system: str) -> list[Routine]:
    """Without futexes a sleeper reads the word from time to time, and need not be woken."""
    r = Routine("internal void @wait_while(ptr %word, i32 %value) noinline")
    if system == "win32":
        r.do("@Sleep", "i32 1")  # milliseconds
    else:
        r.call("i32", "@usleep", "i32 100")  # microseconds
    return [r, Routine("internal void @wake(ptr %word)")]


# Offsets in the shared memory, in bytes. The first word is the lock of the team, the second (SHARE)
# the address of `share`. Parts that different threads write are two cache lines apart: processors
# fetch lines in pairs.
LINE = 128
READY = 1 * LINE  # workers that have arrived
SPINS = READY + 8  # reads before a sleep
JOB = 2 * LINE  # the shared instruction: see `_JOB`
SHARED = JOB + 48  # instructions shared so far
TAKEN_BACK = JOB + 56  # parts taken back so far
PROCESSOR = JOB + 64  # where the caller runs
STATES = 3 * LINE

_JOB = (*SHARED_WORDS, "parts")

_IDLE, _POSTED, _CLAIMED, _ASLEEP, _AWAITED, _LEAVING = range(6)


def team_bytes(workers: int) -> int:
    """The size of the memory that a team of workers shares."""
    return STATES + max(workers, 1) * LINE


def team_ir(machine: str | None = None, system: str | None = None) -> str:
    """The module that holds `share`, `worker`, `retire` and `spin`."""
    waiting = _waiting(machine or platform.machine(), system or sys.platform)
    written = (_state_of, _run_part, _post, _await, _share, _worker, _retire, _spin)
    return module(*waiting, *(routine() for routine in written))


def _state(r: Routine, part: str) -> str:
    return r.call("ptr", "@state_of", "%team", part)


def _look(r: Routine, state: str) -> str:
    return r.load_shared(state, "i32", "acquire")


def _replaced(r: Routine, state: str, old: int, new: int) -> str:
    return r.replaced(state, old, new, "acq_rel acquire")


def _wake_if(r: Routine, state: str, value: str, sleeping: int) -> None:
    """Set the state, and wake the thread that sleeps on it if there is one."""
    old = r.exchanged("xchg", state, value, "acq_rel")
    with r.when(r.equal(old, sleeping)):
        r.do("@wake", state)


def _spin_then_sleep(
    r: Routine,
    state: str,
    spins: str,
    leave: Callable[[str], None],
    going: tuple[int, int],
    awake: str,
) -> None:
    """Read a state `spins` times, then replace the first of `going` by the second and sleep.

    `leave` goes elsewhere for the values that end the waiting. The block `awake` follows a sleep,
    and a state that changed before the thread could sleep.
    """
    working, sleeping = going
    before = r.here
    r.block("read")
    left = r.phi("i64", (spins, before), ("%less", "again"))
    leave(_look(r, state))
    r.do("@pause")
    r.line(f"%less = sub i64 {left}, 1")
    r.go_if(r.compare("sle", "%less", 0), "doze")
    r.block("again")
    r.go("read")
    r.block("doze")
    swapped = _replaced(r, state, working, sleeping)
    r.branch(swapped, "sleep", awake)
    # The kernel may end a wait for no reason, so the state is read again.
    r.block("sleep")
    r.do("@wait_while", state, f"i32 {sleeping}")
    r.branch(r.equal(_look(r, state), sleeping), "sleep", awake)


def _state_of() -> Routine:
    r = Routine("internal ptr @state_of(ptr %team, i64 %part) alwaysinline")
    offset = r.add(r.multiply(r.subtract("%part", 1), LINE), STATES)
    r.give(r.at("%team", offset))
    return r


def _run_part() -> Routine:
    r = Routine("internal void @run_part(ptr %team, i64 %part) noinline")
    job = r.words(r.at("%team", JOB), _JOB, POINTERS)
    units = r.blocks(job["total"], job["grain"])

    def start_of(part: str) -> str:
        return r.multiply(r.divided(r.multiply(units, part), job["parts"]), job["grain"])

    lo, rounded = start_of("%part"), start_of(r.add("%part", 1))
    hi = r.select(r.compare("ult", rounded, job["total"]), rounded, job["total"])
    run_kernel(r, job, lo, hi, "%part")
    return r


def _post() -> Routine:
    r = Routine("internal void @post(ptr %state, i32 %value)")
    _wake_if(r, "%state", Typed("%value", "i32"), _ASLEEP)
    return r


def _await() -> Routine:
    r = Routine("internal void @await(ptr %state, i64 %spins)")

    def leave(value: str) -> None:
        r.go_if(r.unequal(value, _CLAIMED), "done")

    _spin_then_sleep(r, "%state", "%spins", leave, (_CLAIMED, _AWAITED), "done")
    r.block("done")
    return r


def _share() -> Routine:
    """Cut an instruction into parts, run the first, take back unclaimed parts, and wait."""
    r = Routine(
        "void @share(ptr %team, ptr %function, ptr %slots, ptr %args, i64 %total, i64 %grain)"
    )
    given = {name: f"%{name}" for name in SHARED_WORDS}
    ready = r.load_shared(r.at("%team", READY), order="acquire")
    threads, units = r.add(ready, 1), r.blocks("%total", "%grain")
    parts = r.select(r.compare("ult", units, threads), units, threads)
    with r.when(r.compare("ult", parts, 2)):
        run_kernel(r, given, 0, "%total", 0)
        r.end("ret void")
    for number, (name, value) in enumerate({**given, "parts": parts}.items()):
        (r.put_pointer if name in POINTERS else r.put)("%team", JOB + 8 * number, value)
    r.add_to("%team", SHARED, 1)
    r.store_shared(r.call("i64", "@processor"), r.at("%team", PROCESSOR))
    spins = r.word("%team", SPINS)
    with r.loop(parts, 1) as part:
        r.do("@post", _state(r, part), f"i32 {_POSTED}")
    r.do("@run_part", "%team", 0)
    with r.loop(parts, 1) as part, r.when(_replaced(r, _state(r, part), _POSTED, _IDLE)):
        r.add_to("%team", TAKEN_BACK, 1)
        r.do("@run_part", "%team", part)
    with r.loop(parts, 1) as part:
        r.do("@await", _state(r, part), spins)
    return r


def _worker() -> Routine:
    r = Routine("void @worker(ptr %team)")
    avoided, mask = r.alloca(), r.alloca(f"[{_MASK_BYTES // 8} x i64]")
    r.put(avoided, 0, -1)
    spins = r.word("%team", SPINS)
    part = r.add(r.exchanged("add", r.at("%team", READY), 1, "acq_rel"), 1)
    state = _state(r, part)
    r.block("fresh")

    def leave(value: str) -> None:
        r.go_if(r.equal(value, _POSTED), "posted")
        r.go_if(r.equal(value, _LEAVING), "leave")

    _spin_then_sleep(r, state, spins, leave, (_IDLE, _ASLEEP), "fresh")
    r.block("posted")
    here = r.call("i64", "@processor")
    caller = r.load_shared(r.at("%team", PROCESSOR))
    beside = r.both(r.compare("sge", here, 0), r.equal(here, caller))
    # If the worker still runs on a processor that it avoids, the number means nothing here.
    untried = r.unequal(here, r.word(avoided))
    with r.when(r.both(beside, untried)):
        r.do("@avoid", here, avoided, mask)
    r.branch(_replaced(r, state, _POSTED, _CLAIMED), "work", "fresh")
    r.block("work")
    r.do("@run_part", "%team", part)
    _wake_if(r, state, Typed(str(_IDLE), "i32"), _AWAITED)
    r.go("fresh")
    r.block("leave")
    return r


def _retire() -> Routine:
    """Make all workers leave, once no plan has the team.

    The lock stays taken: a thread that still holds the address of this team runs serially.
    """
    r = Routine("void @retire(ptr %team, i64 %workers)")
    r.block("ask")
    r.go_if(r.replaced("%team", 0, 1, "acquire monotonic"), "begin")
    r.do("@pause")
    r.go("ask")
    r.block("begin")
    with r.loop(r.add("%workers", 1), 1) as part:
        r.do("@post", _state(r, part), f"i32 {_LEAVING}")
    return r


def _spin() -> Routine:
    """As many reads as a worker makes, to find out how long one lasts on this processor."""
    r = Routine("void @spin(ptr %word, i64 %count)")
    with r.loop("%count"):
        _look(r, "%word")
        r.do("@pause")
    return r
