"""Timed plans, as IR: `run_plan` that reads the processor's counter after each instruction.

While a word of memory has its address, `run_plan` calls `run_timed_plan`. It adds the
cycles of each instruction to a word of that instruction, and counts runs in words before the first
one; so a run of an hour takes as much memory as one of a second. Additions are atomic: threads may
run one plan at once. Of the runs of a plan with parallel instructions, one in
`TIMED_RUNS_PER_SERIAL_RUN` takes no workers and is added apart: the difference is the gain.

The first runs are also written into a log, if there is one: a row of plan, begin, end and thread.
"""

from __future__ import annotations

from gradtape.compiler.emit.plans.instructions import HEADER_WORDS, WORDS
from gradtape.compiler.emit.plans.interrupts import LOG, PLACE
from gradtape.compiler.emit.plans.runner import write_instructions
from gradtape.compiler.emit.writer import Routine, Word, module
from gradtape.config import TIMED_RUNS_PER_SERIAL_RUN

# The log: how many rows it has room for, how many runs would have written one, then the rows.
LOG_HEADER, LOG_ROW = 2, 4

# The instructions that read the processor's counter; its rate is constant on all that are listed.
_COUNTERS = {
    "x86_64": "call i64 @llvm.readcyclecounter()",
    "AMD64": "call i64 @llvm.readcyclecounter()",
    "aarch64": 'call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "arm64": 'call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}


def has_counter(machine: str) -> bool:
    """Whether instructions can be timed on this kind of processor."""
    return machine in _COUNTERS


def timing_ir(machine: str) -> str:
    """The module of `cycles` and of `run_timed_plan`. It needs the symbols of the runner."""
    counter = Routine("i64 @cycles()")
    counter.give(counter.let(_COUNTERS[machine]) if machine in _COUNTERS else 0)
    declared = "declare i64 @llvm.readcyclecounter()"
    return module(f"{PLACE} = external global i64", declared, counter, _run_timed_plan())


def _run_timed_plan() -> Routine:
    parameters = "ptr %team, ptr %instructions, i64 %count, ptr %slots"
    r = Routine(f"i64 @run_timed_plan({parameters})")
    header = r.at("%instructions", -8 * HEADER_WORDS)
    turn = r.op("and", _add(r, header, 0, 1), TIMED_RUNS_PER_SERIAL_RUN - 1)
    alone = r.equal("%team", "null")
    serial = r.both(r.equal(turn, TIMED_RUNS_PER_SERIAL_RUN - 1), r.negated(alone))
    # The word of serial runs follows that of the others.
    shift = r.select(serial, 8, 0)
    last = r.alloca()
    begin = r.call("i64", "@cycles")
    r.put(last, 0, begin)

    def ran(row: str) -> None:
        now = r.call("i64", "@cycles")
        _add(r, r.pointer(row, 8 * (WORDS - 1)), shift, r.subtract(now, r.word(last)))
        r.put(last, 0, now)

    stopped = write_instructions(r, r.either(alone, serial), ran)
    spent = r.subtract(r.word(last), begin)
    _add(r, header, 8, spent)
    with r.when(serial):
        _add(r, header, 16, 1)
        _add(r, header, 24, spent)
    _log(r, begin, r.word(last))
    r.give(stopped)
    return r


def _log(r: Routine, begin: str, end: str) -> None:
    """Write a row into the log, if there is one and it has room."""
    log = r.load_shared(r.at(PLACE, LOG), "ptr")
    with r.when(r.unequal(log, "null")):
        number = _add(r, log, 8, 1)
        with r.when(r.compare("ult", number, r.word(log))):
            row = r.at(r.row(log, number, LOG_ROW), 8 * LOG_HEADER)
            plan = r.cast("ptrtoint", "%instructions", "i64")
            thread = r.call("i64", "@PyThread_get_thread_ident")
            for position, word in enumerate((plan, begin, end, thread)):
                r.put(row, 8 * position, word)


def _add(r: Routine, base: str, offset: Word, value: Word) -> str:
    """Add to a word that threads share; the word as it was before."""
    return r.exchanged("add", r.at(base, offset), value)
