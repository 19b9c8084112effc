"""The plan interpreter as IR: `run_plan` runs the instructions of a plan in one native call.

The code of threads and that of the profiler are modules of their own, compiled when they are first
used: most plans are too small for several threads. `run_plan` finds them by address, that of
`share` in the memory of the team, and that of `run_timed_plan` in a word beside the interrupts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from gradtape.compiler.emit.plans.instructions import INSTRUCTION, STATUS, WORDS
from gradtape.compiler.emit.plans.interrupts import (
    IS_STOPPED,
    PLACE,
    POLL,
    POLL_WORK,
    TIMED,
    interrupts_ir,
)
from gradtape.compiler.emit.writer import Routine

# The offset of the address of `share` in the memory of the team.
SHARE = 8
# The words of instructions and jobs that are pointers.
POINTERS = {"function", "slots", "args", "joint_function", "joint_args"}
_WHAT_RUNS = ("function", "args", "total", "grain")
_PARAMETERS = ("ptr %team", "ptr %instructions", "i64 %count", "ptr %slots")


def runner_ir(system: str | None = None) -> str:
    """The module of `run_plan`, `run_body` and the interrupts. It needs the symbol `PLACE`."""
    return "\n".join([interrupts_ir(system or sys.platform), _run_body(), _run_plan()])


def run_kernel(r: Routine, words: Mapping[str, str], lo: str, hi: str, part: str) -> None:
    """Call the function of an instruction on a part of its range."""
    pointers = (f"ptr {words['slots']}", f"ptr {words['args']}")
    r.do(words["function"], *pointers, f"i64 {lo}", f"i64 {hi}", f"i64 {part}")


def _run_plan() -> str:
    """Run all instructions; gives 1 if an interrupt or a failure has stopped the plan, else 0."""
    r = Routine(f"i64 @run_plan({', '.join(_PARAMETERS)})")
    place = r.let(f"load atomic i64, ptr {r.at(PLACE, TIMED)} monotonic, align 8")
    with r.when(r.unequal(place, 0)):
        timed = r.let(f"inttoptr i64 {place} to ptr")
        r.end(f"ret i64 {r.call('i64', timed, *_PARAMETERS)}")
    r.end(f"ret i64 {r.call('i64', '@run_body', *_PARAMETERS)}")
    return r.text()


def _run_body() -> str:
    """`run_plan` for the bodies of loops, which are not timed one by one."""
    r = Routine(f"i64 @run_body({', '.join(_PARAMETERS)})")
    r.end(f"ret i64 {write_instructions(r, r.same('%team', 'null'))}")
    return r.text()


def write_instructions(r: Routine, no_team: str, ran: Callable[[str], None] | None = None) -> str:
    """Run all instructions; whether an interrupt or a failure has stopped the plan.

    `ran` writes what follows each instruction, given its row.
    """
    stopped, work = r.let("alloca i64"), r.let("alloca i64")
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
        # Looking first keeps the cache line shared while another thread has the team.
        owner = r.let("load atomic i32, ptr %team monotonic, align 4")
        r.go_if(r.compare("ne", owner, 0, "i32"), "serial")
        mine = r.replaced("%team", 0, 1, "acquire monotonic")
        r.end(f"br i1 {mine}, label %together, label %serial")
        r.block("together")
        arguments = [
            f"{'ptr' if name in POINTERS else 'i64'} {words[name]}"
            for name in ("function", "slots", "args", "total", "grain")
        ]
        r.do(r.pointer("%team", SHARE), "ptr %team", *arguments)
        r.line("store atomic i32 0, ptr %team release, align 4")
        r.go("ran")
        r.block("serial")
        run_kernel(r, words, "0", words["total"], "0")
        r.block("ran")
        if ran is not None:
            ran(row)
        r.add_to(work, 0, words["work"])
        with r.when(r.compare("sgt", r.word(work), POLL_WORK)):
            r.put(work, 0, 0)
            r.call("i64", POLL)
        failed = r.let(f"load atomic i64, ptr {status} monotonic, align 8")
        with r.when(r.unequal(r.let(f"or i64 {failed}, {r.call('i64', IS_STOPPED)}"), 0)):
            r.put(stopped, 0, 1)
        r.block("over")
    return r.word(stopped)
