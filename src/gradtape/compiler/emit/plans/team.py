"""The thread team as IR, and the memory that it shares with Python and with the plan interpreter.

A parallel instruction of a plan (`runner`) is shared by the team. Each worker has one word of
state, alone on its cache lines:

    idle -> posted -> claimed -> idle      the caller posts work, the worker claims it
    posted -> idle                         the caller takes back work that nobody has claimed yet
    idle -> asleep                         the worker has spun long enough and waits in the kernel
    claimed -> awaited                     the caller has, too
    any -> leaving                         the team is retired

Because unclaimed work is taken back, a worker which sleeps or is not scheduled never holds up a
short instruction: the caller does that part itself. Every transition is one atomic operation on
the word, and whoever replaces `asleep` or `awaited` wakes the sleeper, so no wake-up is lost.

A worker spins before it sleeps because waking it through the kernel takes longer than most parallel
instructions; it sleeps in the end because a spinning worker takes a processor from others.

On a busy machine Linux tends to wake a worker on the caller's own processor, where it would push
the caller aside. A worker that finds itself there excludes that processor from its affinity.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from gradtape.compiler.emit.plans.runner import POINTERS, run_kernel
from gradtape.compiler.emit.writer import Routine, Word

# How a thread waits and which processor it runs on, as IR for each platform. The text defines
# `pause`, between two looks at a word; `wait_while`, to sleep while a word has a value; `wake`, to
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
_X86, _ARM = ("@llvm.x86.sse2.pause", ""), ("@llvm.aarch64.isb", "i32 15")
_PAUSE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}


def waiting_ir(machine: str, system: str) -> str:
    """The text of these functions for one platform."""
    if system.startswith("linux") and machine in _FUTEX:
        parts = [_pause(machine), _futex(_FUTEX[machine]), _processor(), _avoid()]
    else:
        parts = [_pause(machine), _nap(system), _any_processor()]
    return "\n".join(parts)


def _ended(r: Routine) -> str:
    r.end("ret void")
    return r.text()


def _pause(machine: str) -> str:
    r = Routine("internal void @pause() alwaysinline")
    if machine not in _PAUSE:
        return _ended(r)
    name, argument = _PAUSE[machine]
    r.do(name, *argument.split(", ")[: bool(argument)])
    return f"declare void {name}({argument.split(' ')[0]})\n{_ended(r)}"


def _futex(number: int) -> str:
    """Sleep and wake by system calls. A wait may end early: callers look at the word again."""

    def called(head: str, operation: int, value: str) -> str:
        r = Routine(f"internal void {head} noinline")
        words = (f"i64 {number}", "ptr %word", f"i32 {operation}", f"i32 {value}")
        r.call("i64 (i64, ...)", "@syscall", *words, "ptr null", "ptr null", "i32 0")
        return _ended(r)

    wait = called("@wait_while(ptr %word, i32 %value)", _WAIT, "%value")
    return "\n".join(
        ["declare i64 @syscall(i64, ...)", wait, called("@wake(ptr %word)", _WAKE, "1")]
    )


def _processor() -> str:
    r = Routine("internal i64 @processor()")
    number = r.call("i32", "@sched_getcpu")
    r.end(f"ret i64 {r.let(f'sext i32 {number} to i64')}")
    return f"declare i32 @sched_getcpu()\n{r.text()}"


def _avoid() -> str:
    """Exclude a processor from the affinity of this thread, and allow the one excluded before.

    The affinity is read first, so that changes that others have made to it are kept.
    """
    r = Routine("internal void @avoid(i64 %number, ptr %avoided, ptr %mask) noinline")
    mask = ("i32 0", f"i64 {_MASK_BYTES}", "ptr %mask")

    def bit(number: str) -> tuple[str, str]:
        """The word of the mask with the bit of a processor, and this bit."""
        place = r.at("%mask", r.scaled(r.let(f"lshr i64 {number}, 6")))
        return place, r.let(f"shl i64 1, {r.let(f'and i64 {number}, 63')}")

    r.do("@llvm.memset.p0.i64", "ptr %mask", "i8 0", f"i64 {_MASK_BYTES}", "i1 false")
    failed = r.call("i32", "@sched_getaffinity", *mask)
    with r.when(r.compare("eq", failed, 0, "i32")):
        old = r.word("%avoided")
        place, flag = bit(r.select(r.compare("sge", old, 0), old, "%number"))
        r.put(place, 0, r.let(f"or i64 {r.word(place)}, {flag}"))
        place, flag = bit("%number")
        others = r.let(f"xor i64 {flag}, -1")
        r.put(place, 0, r.let(f"and i64 {r.word(place)}, {others}"))
        refused = r.call("i32", "@sched_setaffinity", *mask)
        with r.when(r.compare("eq", refused, 0, "i32")):
            r.put("%avoided", 0, "%number")
    declarations = """
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
    return declarations + _ended(r)


def _any_processor() -> str:
    unknown = Routine("internal i64 @processor() alwaysinline")
    unknown.end("ret i64 -1")
    avoid = Routine("internal void @avoid(i64 %number, ptr %avoided, ptr %mask) alwaysinline")
    return unknown.text() + _ended(avoid)


def _nap(system: str) -> str:
    """Without futexes a sleeper looks at the word from time to time, and need not be woken."""
    r = Routine("internal void @wait_while(ptr %word, i32 %value) noinline")
    if system == "win32":
        declaration = "declare void @Sleep(i32)\n"
        r.do("@Sleep", "i32 1")  # milliseconds
    else:
        declaration = "declare i32 @usleep(i32)\n"
        r.call("i32", "@usleep", "i32 100")  # microseconds
    return declaration + _ended(r) + _ended(Routine("internal void @wake(ptr %word)"))


# Offsets in the shared memory, in bytes. The first word is the lock of the team, the second (SHARE)
# the address of `share`. Parts that different threads write are two cache lines apart: processors
# fetch lines in pairs.
LINE = 128
READY = 1 * LINE  # workers that have arrived
SPINS = READY + 8  # looks before a sleep
JOB = 2 * LINE  # the shared instruction: see `_JOB`
SHARED = JOB + 48  # instructions shared so far
TAKEN_BACK = JOB + 56  # parts taken back so far
PROCESSOR = JOB + 64  # where the caller runs
STATES = 3 * LINE

_JOB = ("function", "slots", "args", "total", "grain", "parts")

_IDLE, _POSTED, _CLAIMED, _ASLEEP, _AWAITED, _LEAVING = range(6)


def team_bytes(workers: int) -> int:
    """The size of the memory that a team of so many workers shares."""
    return STATES + max(workers, 1) * LINE


def team_ir(machine: str | None = None, system: str | None = None) -> str:
    """The module that holds `share`, `worker`, `retire` and `spin`."""
    waiting = waiting_ir(machine or platform.machine(), system or sys.platform)
    written = (_state_of, _run_part, _post, _await, _share, _worker, _retire, _spin)
    return "\n".join([waiting, *(routine() for routine in written)])


def _state(r: Routine, part: str) -> str:
    return r.call("ptr", "@state_of", "ptr %team", f"i64 {part}")


def _look(r: Routine, state: str) -> str:
    return r.let(f"load atomic i32, ptr {state} acquire, align 4")


def _replaced(r: Routine, state: str, old: int, new: int) -> str:
    return r.replaced(state, old, new, "acq_rel acquire")


def _wake_if(r: Routine, state: str, value: Word, sleeping: int) -> None:
    """Set the state, and wake the thread that sleeps on it if there is one."""
    old = r.let(f"atomicrmw xchg ptr {state}, i32 {value} acq_rel")
    with r.when(r.compare("eq", old, sleeping, "i32")):
        r.do("@wake", f"ptr {state}")


def _spin_then_sleep(
    r: Routine,
    state: str,
    spins: str,
    leave: Callable[[str], None],
    going: tuple[int, int],
    awake: str,
) -> None:
    """Look at a state `spins` times, then replace the first of `going` by the second and sleep.

    `leave` goes elsewhere for the values that end the waiting. The block `awake` follows a sleep,
    and a state that changed before the thread could sleep.
    """
    working, sleeping = going
    before = r.here
    r.block("look")
    r.line(f"%left = phi i64 [ {spins}, %{before} ], [ %less, %again ]")
    leave(_look(r, state))
    r.do("@pause")
    r.line("%less = sub i64 %left, 1")
    r.go_if(r.compare("sle", "%less", 0), "doze")
    r.block("again")
    r.go("look")
    r.block("doze")
    swapped = _replaced(r, state, working, sleeping)
    r.end(f"br i1 {swapped}, label %sleep, label %{awake}")
    # The kernel may end a wait for no reason, so the state is looked at again.
    r.block("sleep")
    r.do("@wait_while", f"ptr {state}", f"i32 {sleeping}")
    still = r.compare("eq", _look(r, state), sleeping, "i32")
    r.end(f"br i1 {still}, label %sleep, label %{awake}")


def _units(r: Routine, total: str, grain: str) -> str:
    """How many grains a range has."""
    return r.let(f"udiv i64 {r.subtract(r.add(total, grain), 1)}, {grain}")


def _state_of() -> str:
    r = Routine("internal ptr @state_of(ptr %team, i64 %part) alwaysinline")
    offset = r.add(r.multiply(r.subtract("%part", 1), LINE), STATES)
    r.end(f"ret ptr {r.at('%team', offset)}")
    return r.text()


def _run_part() -> str:
    r = Routine("internal void @run_part(ptr %team, i64 %part) noinline")
    job = r.words(r.at("%team", JOB), _JOB, POINTERS)
    units = _units(r, job["total"], job["grain"])

    def start_of(part: str) -> str:
        unit = r.let(f"udiv i64 {r.multiply(units, part)}, {job['parts']}")
        return r.multiply(unit, job["grain"])

    lo, rounded = start_of("%part"), start_of(r.add("%part", 1))
    hi = r.select(r.compare("ult", rounded, job["total"]), rounded, job["total"])
    run_kernel(r, job, lo, hi, "%part")
    r.end("ret void")
    return r.text()


def _post() -> str:
    r = Routine("internal void @post(ptr %state, i32 %value)")
    _wake_if(r, "%state", "%value", _ASLEEP)
    r.end("ret void")
    return r.text()


def _await() -> str:
    r = Routine("internal void @await(ptr %state, i64 %spins)")

    def leave(value: str) -> None:
        r.go_if(r.compare("ne", value, _CLAIMED, "i32"), "done")

    _spin_then_sleep(r, "%state", "%spins", leave, (_CLAIMED, _AWAITED), "done")
    r.block("done")
    r.end("ret void")
    return r.text()


def _share() -> str:
    """Cut an instruction into parts, run the first, take back unclaimed parts, and wait."""
    r = Routine(
        "void @share(ptr %team, ptr %function, ptr %slots, ptr %args, i64 %total, i64 %grain)"
    )
    given = {name: f"%{name}" for name in ("function", "slots", "args", "total", "grain")}
    ready = r.let(f"load atomic i64, ptr {r.at('%team', READY)} acquire, align 8")
    threads, units = r.add(ready, 1), _units(r, "%total", "%grain")
    parts = r.select(r.compare("ult", units, threads), units, threads)
    with r.when(r.compare("ult", parts, 2)):
        run_kernel(r, given, "0", "%total", "0")
        r.end("ret void")
    for number, (name, value) in enumerate({**given, "parts": parts}.items()):
        (r.put_pointer if name in POINTERS else r.put)("%team", JOB + 8 * number, value)
    r.add_to("%team", SHARED, 1)
    here = r.call("i64", "@processor")
    r.line(f"store atomic i64 {here}, ptr {r.at('%team', PROCESSOR)} monotonic, align 8")
    spins = r.word("%team", SPINS)
    with r.loop(parts, 1) as part:
        r.do("@post", f"ptr {_state(r, part)}", f"i32 {_POSTED}")
    r.do("@run_part", "ptr %team", "i64 0")
    with r.loop(parts, 1) as part, r.when(_replaced(r, _state(r, part), _POSTED, _IDLE)):
        r.add_to("%team", TAKEN_BACK, 1)
        r.do("@run_part", "ptr %team", f"i64 {part}")
    with r.loop(parts, 1) as part:
        r.do("@await", f"ptr {_state(r, part)}", f"i64 {spins}")
    r.end("ret void")
    return r.text()


def _worker() -> str:
    r = Routine("void @worker(ptr %team)")
    r.line("%avoided = alloca i64")
    r.put("%avoided", 0, -1)
    r.line("%mask = alloca [128 x i64]")
    spins = r.word("%team", SPINS)
    before = r.let(f"atomicrmw add ptr {r.at('%team', READY)}, i64 1 acq_rel")
    part = r.add(before, 1)
    state = _state(r, part)
    r.block("fresh")

    def leave(value: str) -> None:
        r.go_if(r.compare("eq", value, _POSTED, "i32"), "posted")
        r.go_if(r.compare("eq", value, _LEAVING, "i32"), "leave")

    _spin_then_sleep(r, state, spins, leave, (_IDLE, _ASLEEP), "fresh")
    r.block("posted")
    here = r.call("i64", "@processor")
    caller = r.let(f"load atomic i64, ptr {r.at('%team', PROCESSOR)} monotonic, align 8")
    beside = r.both(r.compare("sge", here, 0), r.equal(here, caller))
    # If the worker still runs on a processor that it avoids, the number means nothing here.
    untried = r.unequal(here, r.word("%avoided"))
    with r.when(r.both(beside, untried)):
        r.do("@avoid", f"i64 {here}", "ptr %avoided", "ptr %mask")
    claimed = _replaced(r, state, _POSTED, _CLAIMED)
    r.end(f"br i1 {claimed}, label %work, label %fresh")
    r.block("work")
    r.do("@run_part", "ptr %team", f"i64 {part}")
    _wake_if(r, state, _IDLE, _AWAITED)
    r.go("fresh")
    r.block("leave")
    r.end("ret void")
    return r.text()


def _retire() -> str:
    """Tell all workers to leave, once no plan has the team.

    The lock stays taken: a thread that still holds the address of this team runs serially.
    """
    r = Routine("void @retire(ptr %team, i64 %workers)")
    r.block("ask")
    r.go_if(r.replaced("%team", 0, 1, "acquire monotonic"), "begin")
    r.do("@pause")
    r.go("ask")
    r.block("begin")
    with r.loop(r.add("%workers", 1), 1) as part:
        r.do("@post", f"ptr {_state(r, part)}", f"i32 {_LEAVING}")
    r.end("ret void")
    return r.text()


def _spin() -> str:
    """As many looks as a worker takes, to find out how long one lasts on this processor."""
    r = Routine("void @spin(ptr %word, i64 %count)")
    with r.loop("%count"):
        _look(r, "%word")
        r.do("@pause")
    r.end("ret void")
    return r.text()
