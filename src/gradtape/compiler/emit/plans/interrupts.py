"""Interrupts of native code, as IR: how a plan notices a signal, and how it stops.

A signal handler in Python runs in the main thread, when that thread checks for pending signals.
Plans and loops check every few milliseconds (`poll`). If the handler raises, the exception stays
set in the thread and `STOP` is set: each loop ends, each plan skips its remaining instructions but
those that tidy up, and the call from Python raises. One word is
enough: only the main thread has handlers.
"""

from __future__ import annotations

from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.config import SIGNAL_POLL_MILLISECONDS

# Offsets of the words in memory: whether the main thread stops, the time in milliseconds at which
# signals are next checked, and the number of the main thread.
STOP, DUE, MAIN = 0, 8, 16
# Two more words, of `timing`: the address of `run_timed_plan` while plans are timed, and that of
# the log of runs; or 0.
TIMED, LOG = 24, 32
WORDS = 5


# The words of this process, as a symbol, so that the machine code serves other processes as well.
PLACE = Typed("@gradtape_interrupts", "ptr")

# Functions that modules of other native code call, too.
POLL, IS_STOPPED = "@gradtape_poll", "@gradtape_is_stopped"


def interrupts(system: str) -> list[Routine | str]:
    """The parts of a module: `POLL`, `IS_STOPPED`, and `run_plan` as Python calls it."""
    called = (_called(name) for name in ("plan_with_gil", "plan_without_gil"))
    return [f"{PLACE} = external global i64", _clock(system), _is_stopped(), _poll(), *called]


def _clock(system: str) -> Routine:
    r = Routine("internal i64 @milliseconds()")
    if system == "win32":
        r.give(r.call("i64", "@GetTickCount64"))
        return r
    found = r.alloca(count=2)
    monotonic = 6 if system == "darwin" else 1
    r.call("i32", "@clock_gettime", f"i32 {monotonic}", found)
    rest = r.op("sdiv", r.word(found, 8), 1000000)
    r.give(r.add(r.multiply(r.word(found), 1000), rest))
    return r


def _is_main(r: Routine) -> str:
    return r.equal(r.call("i64", "@PyThread_get_thread_ident"), r.word(PLACE, MAIN))


def _is_stopped() -> Routine:
    """Whether the running thread has to stop."""
    r = Routine(f"i64 {IS_STOPPED}()")
    with r.when(r.unequal(r.load_shared(r.at(PLACE, STOP)), 0)):
        r.give(r.cast("zext", _is_main(r), "i64"))
    r.give(0)
    return r


def _poll() -> Routine:
    """Call the handlers of pending signals if it is time; whether one of them has raised."""
    r = Routine(f"i64 {POLL}()")
    now = r.call("i64", "@milliseconds")
    r.go_if(r.compare("slt", now, r.load_shared(r.at(PLACE, DUE))), "no")
    r.go_if(r.negated(_is_main(r)), "no")
    r.store_shared(r.add(now, SIGNAL_POLL_MILLISECONDS), r.at(PLACE, DUE))
    held = r.call("i32", "@PyGILState_Ensure")
    raised = r.call("i32", "@PyErr_CheckSignals")
    r.do("@PyGILState_Release", held)
    with r.when(r.unequal(raised, 0)):
        r.store_shared(1, r.at(PLACE, STOP))
        r.give(1)
    r.block("no")
    r.give(0)
    return r


def _called(name: str) -> Routine:
    """`run_plan` for calls that hold the GIL: 1 if the plan was stopped, else 0.

    An interrupt, or Python code that the plan calls, leaves its exception set. Without one a kernel
    has failed.
    """
    r = Routine(f"i64 @{name}(ptr %team, ptr %instructions, i64 %count, ptr %slots)")
    thread = r.call("ptr", "@PyEval_SaveThread") if name == "plan_without_gil" else None
    stopped = r.call("i64", "@run_plan", "%team", "%instructions", "%count", "%slots")
    if thread is not None:
        r.do("@PyEval_RestoreThread", thread)
    with r.when(r.unequal(stopped, 0)), r.when(r.unequal(r.call("i64", IS_STOPPED), 0)):
        r.store_shared(0, r.at(PLACE, STOP))
    r.give(stopped)
    return r
