"""Variable updates: the new values of all variables that a replayed step assigns, all or none.

The assignment is written out as one function without a loop. CPython checks for signals where a
function begins, at calls and at jumps backwards, and there is none of these between the first
variable and the last: an interrupt finds either all of them updated or none. The old values are
held until all new ones are in place, because the end of a value may run Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.runtime.source_text import written_out
from gradtape.tensor.variable import Variable
from gradtape.trace.recording import state


def written_assignment(variables: Sequence[Variable]) -> Callable[..., None]:
    """A function that lets each variable hold the handle at its position.

    The handles are tensors with values that nothing else holds, `Tensor(None, None, value)`. The
    caller has the locks. Replays in Python and in native code call it.
    """
    for variable in variables:
        variable._assigned = True  # from now on, so no call has to say it again
    named = {f"variable{n}": variable for n, variable in enumerate(variables)}
    handles = [f"handle{n}" for n in range(len(named))]
    # On one line, so that a debugger that raises between lines finds all of them or none as well.
    stores = [
        f"{name}._handle = {handle}; {name}._epoch = epoch; {name}._steady = False"
        for name, handle in zip(named, handles, strict=True)
    ]
    lines = [
        f"def assign({', '.join(handles)}):",
        f"    before = ({''.join(f'{name}._handle, ' for name in named)})",
        "    epoch, unassigned = state.epoch, state.recording.unassigned",
        f"    {'; '.join(stores)}",
        "    if unassigned:",
        "        unassigned.difference_update(variables)",
    ]
    return written_out("assign", lines, state=state, variables=tuple(variables), **named)
