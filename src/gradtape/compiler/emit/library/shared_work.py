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
    team = r.load_shared(team_word, "ptr")
    r.go_if_null(team, f"alone{number}")
    r.go_if(r.unequal(r.load_shared(team, "i32"), 0), f"alone{number}")
    mine = r.replaced(team, 0, 1, "acquire monotonic")
    r.branch(mine, f"together{number}", f"alone{number}")
    r.block(f"together{number}")
    r.do(r.pointer(team, SHARE), team, function, context, context, total, grain)
    r.store_shared(0, team, "i32", "release")
    r.go(f"shared{number}")
    r.block(f"alone{number}")
    words = {"function": function, "slots": context, "args": context}
    run_kernel(r, words, 0, total, 0)
    r.block(f"shared{number}")
