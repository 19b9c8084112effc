"""How a thread waits and which processor it runs on, as IR for each platform.

The text defines `pause`, between two looks at a word; `wait_while`, to sleep while a word has a
value; `wake`, to end the sleep; `processor`, the number of the processor that the thread runs on
(negative: unknown); and `avoid`, to keep the thread away from a processor.
"""

from __future__ import annotations

from gradtape.codegen.routine import Routine

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
    r.do(name, argument)
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
