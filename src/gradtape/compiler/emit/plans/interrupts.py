"""Interrupts of native code, as IR: how a plan notices a signal, and how it stops.

A signal handler in Python runs in the main thread, when that thread asks for pending signals. Plans
and loops ask every few milliseconds (`poll`). If the handler raises, the exception stays set in the
thread and `STOP` is set: each loop ends, each plan skips its remaining instructions but those that
tidy up, and the call from Python raises. One word is enough: only the main thread has handlers.
"""

from __future__ import annotations

from gradtape.compiler.cpython.python_api import declarations
from gradtape.compiler.emit.writer import Routine

# Offsets of the words in memory: whether the main thread stops, the time in milliseconds at which
# signals are next asked for, and the number of the main thread.
STOP, DUE, MAIN = 0, 8, 16
# Two more words, of `timing`: the address of `run_timed_plan` while plans are timed, and that of
# the log of runs; or 0.
TIMED, LOG = 24, 32
WORDS = 5
# Milliseconds between two questions. Each takes the GIL, which other threads may hold for some ms.
PERIOD = 10
# Work, in operand loads, after which a plan or a loop looks at the clock.
POLL_WORK = 1 << 16

FUNCTIONS = (
    "PyErr_CheckSignals",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyThread_get_thread_ident",
)


# The words of this process, as a symbol, so that the machine code serves other processes as well.
PLACE = "@gradtape_interrupts"


# Functions that modules of other native code call, too.
POLL, IS_STOPPED = "@gradtape_poll", "@gradtape_is_stopped"


def interrupts_ir(system: str) -> str:
    """The text of `POLL`, `IS_STOPPED`, and `run_plan` as Python calls it."""
    parts = [f"{PLACE} = external global i64", declarations(FUNCTIONS), _clock(system)]
    parts += [_is_stopped(PLACE), _poll(PLACE)]
    return "\n".join([*parts, _called(PLACE, "plan_with_gil"), _called(PLACE, "plan_without_gil")])


def _clock(system: str) -> str:
    r = Routine("internal i64 @milliseconds()")
    if system == "win32":
        r.end(f"ret i64 {r.call('i64', '@GetTickCount64')}")
        return f"declare i64 @GetTickCount64()\n{r.text()}"
    found = r.let("alloca [2 x i64]")
    monotonic = 6 if system == "darwin" else 1
    r.call("i32", "@clock_gettime", f"i32 {monotonic}", f"ptr {found}")
    rest = r.let(f"sdiv i64 {r.word(found, 8)}, 1000000")
    r.end(f"ret i64 {r.add(r.multiply(r.word(found), 1000), rest)}")
    return f"declare i32 @clock_gettime(i32, ptr)\n{r.text()}"


def _is_main(r: Routine, place: str) -> str:
    return r.equal(r.call("i64", "@PyThread_get_thread_ident"), r.word(place, MAIN))


def _is_stopped(place: str) -> str:
    """Whether the running thread has to stop."""
    r = Routine(f"i64 {IS_STOPPED}()")
    with r.when(r.unequal(_shared(r, place, STOP), 0)):
        r.end(f"ret i64 {r.let(f'zext i1 {_is_main(r, place)} to i64')}")
    r.end("ret i64 0")
    return r.text()


def _shared(r: Routine, place: str, offset: int) -> str:
    return r.let(f"load atomic i64, ptr {r.at(place, offset)} monotonic, align 8")


def _poll(place: str) -> str:
    """Call the handlers of pending signals if it is time; whether one of them has raised."""
    r = Routine(f"i64 {POLL}()")
    now = r.call("i64", "@milliseconds")
    r.go_if(r.compare("slt", now, _shared(r, place, DUE)), "no")
    r.go_if(r.let(f"xor i1 {_is_main(r, place)}, true"), "no")
    due = r.add(now, PERIOD)
    r.line(f"store atomic i64 {due}, ptr {r.at(place, DUE)} monotonic, align 8")
    held = r.call("i32", "@PyGILState_Ensure")
    raised = r.call("i32", "@PyErr_CheckSignals")
    r.do("@PyGILState_Release", f"i32 {held}")
    with r.when(r.compare("ne", raised, 0, "i32")):
        r.line(f"store atomic i64 1, ptr {r.at(place, STOP)} monotonic, align 8")
        r.end("ret i64 1")
    r.block("no")
    r.end("ret i64 0")
    return r.text()


def _called(place: str, name: str) -> str:
    """`run_plan` for calls that hold the GIL: 1 if the plan was stopped, else 0.

    An interrupt, or Python code that the plan calls, leaves its exception set. Without one a kernel
    has failed.
    """
    r = Routine(f"i64 @{name}(ptr %team, ptr %instructions, i64 %count, ptr %slots)")
    thread = r.call("ptr", "@PyEval_SaveThread") if name == "plan_without_gil" else None
    arguments = ("ptr %team", "ptr %instructions", "i64 %count", "ptr %slots")
    stopped = r.call("i64", "@run_plan", *arguments)
    if thread is not None:
        r.do("@PyEval_RestoreThread", f"ptr {thread}")
    with r.when(r.unequal(stopped, 0)), r.when(r.unequal(r.call("i64", IS_STOPPED), 0)):
        r.line(f"store atomic i64 0, ptr {r.at(place, STOP)} monotonic, align 8")
    r.end(f"ret i64 {stopped}")
    return r.text()
