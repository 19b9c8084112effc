"""The plan interpreter as IR: `run_plan` runs the instructions of a plan in one native call.

The code of threads and that of the profiler are modules of their own, compiled when they are first
used: most plans are too small for several threads. `run_plan` finds them by address, that of
`share` in the memory of the team, and that of `run_timed_plan` in a word beside the interrupts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from gradtape.compiler.emit.plans.instructions import INSTRUCTION, STATUS, WORDS
from gradtape.compiler.emit.plans.interrupts import IS_STOPPED, PLACE, POLL, TIMED, interrupts
from gradtape.compiler.emit.writer import Routine, Word, module
from gradtape.config import WORK_BETWEEN_POLLS

# The offset of the address of `share` in the memory of the team.
SHARE = 8
# The words of instructions and jobs that are pointers.
POINTERS = {"function", "slots", "args", "joint_function", "joint_args"}
_WHAT_RUNS = ("function", "args", "total", "grain")
# The fields of an instruction that the team gets.
SHARED_WORDS = ("function", "slots", "args", "total", "grain")
_ARGUMENTS = ("%team", "%instructions", "%count", "%slots")
_PARAMETERS = "(ptr %team, ptr %instructions, i64 %count, ptr %slots)"


def runner_ir(system: str | None = None) -> str:
    """The module of `run_plan`, `run_body` and the interrupts. It needs the symbol `PLACE`."""
    return module(*interrupts(system or sys.platform), _run_body(), _run_plan())


def run_kernel(r: Routine, words: Mapping[str, str], lo: Word, hi: Word, part: Word) -> None:
    """Call the function of an instruction on a part of its range."""
    r.do(words["function"], words["slots"], words["args"], lo, hi, part)


def _run_plan() -> Routine:
    """Run all instructions; gives 1 if an interrupt or a failure has stopped the plan, else 0."""
    r = Routine(f"i64 @run_plan{_PARAMETERS}")
    place = r.load_shared(r.at(PLACE, TIMED))
    with r.when(r.unequal(place, 0)):
        r.give(r.call("i64", r.cast("inttoptr", place, "ptr"), *_ARGUMENTS))
    r.give(r.call("i64", "@run_body", *_ARGUMENTS))
    return r


def _run_body() -> Routine:
    """`run_plan` for the bodies of loops, which are not timed one by one."""
    r = Routine(f"i64 @run_body{_PARAMETERS}")
    r.give(write_instructions(r, r.equal("%team", "null")))
    return r


def write_instructions(r: Routine, no_team: str, ran: Callable[[str], None] | None = None) -> str:
    """Run all instructions; whether an interrupt or a failure has stopped the plan.

    `ran` writes what follows each instruction, given its row.
    """
    stopped, work = r.alloca(), r.alloca()
    status = r.pointer("%slots", 8 * STATUS)
    r.put(stopped, 0, 0)
    r.put(work, 0, 0)
    with r.loop("%count") as index:
        row = r.row("%instructions", index, WORDS)
        words = {**r.words(row, INSTRUCTION, POINTERS), "slots": "%slots"}
        r.go_if(r.both(r.unequal(r.word(stopped), 0), r.equal(words["always"], 0)), "over")
        if ran is None:
            # Timed instructions run one by one; else the first of a chain runs all of it.
            words |= {name: words[f"joint_{name}"] for name in _WHAT_RUNS}
            r.go_if_null(words["function"], "ran")
        r.go_if(r.either(r.equal(words["parallel"], 0), no_team), "serial")
        # Reading first keeps the cache line shared while another thread has the team.
        r.go_if(r.unequal(r.load_shared("%team", "i32"), 0), "serial")
        mine = r.replaced("%team", 0, 1, "acquire monotonic")
        r.branch(mine, "together", "serial")
        r.block("together")
        r.do(r.pointer("%team", SHARE), "%team", *(words[name] for name in SHARED_WORDS))
        r.store_shared(0, "%team", "i32", "release")
        r.go("ran")
        r.block("serial")
        run_kernel(r, words, 0, words["total"], 0)
        r.block("ran")
        if ran is not None:
            ran(row)
        r.add_to(work, 0, words["work"])
        with r.when(r.compare("sgt", r.word(work), WORK_BETWEEN_POLLS)):
            r.put(work, 0, 0)
            r.call("i64", POLL)
        failed = r.op("or", r.load_shared(status), r.call("i64", IS_STOPPED))
        with r.when(r.unequal(failed, 0)):
            r.put(stopped, 0, 1)
        r.block("over")
    return r.word(stopped)
