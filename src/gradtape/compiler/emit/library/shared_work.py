"""Work that a routine shares with the thread team while it runs, such as the update after a panel.

An instruction with one long item runs on one thread. Its routine finds the team by a word of its
arguments, as loops over bodies do, and takes it for parts of its work.
"""

from __future__ import annotations

from gradtape.compiler.emit.plans.runner import SHARE, run_kernel
from gradtape.compiler.emit.writer import Routine, Word


def write_shared(
    r: Routine, team_word: str, function: str, context: str, total: Word, grain: Word
) -> None:
    """Call a kernel for a range, cut for the threads of the team, which has to be free.

    The kernel gets the address `context` in the place of the slots and of the arguments.
    """
    number = r.fresh()
    team = r.let(f"load atomic ptr, ptr {team_word} monotonic, align 8")
    r.go_if_null(team, f"alone{number}")
    owner = r.let(f"load atomic i32, ptr {team} monotonic, align 4")
    r.go_if(r.compare("ne", owner, 0, "i32"), f"alone{number}")
    mine = r.replaced(team, 0, 1, "acquire monotonic")
    r.end(f"br i1 {mine}, label %together{number}, label %alone{number}")
    r.block(f"together{number}")
    pointers = [f"ptr {each}" for each in (team, function, context, context)]
    r.do(r.pointer(team, SHARE), *pointers, f"i64 {total}", f"i64 {grain}")
    r.line(f"store atomic i32 0, ptr {team} release, align 4")
    r.go(f"shared{number}")
    r.block(f"alone{number}")
    words = {"function": function, "slots": context, "args": context}
    run_kernel(r, words, "0", str(total), "0")
    r.block(f"shared{number}")
