"""Judge: what came of a call with a bad argument.

An error is ours if it tells the caller what is wrong. That is so if
- the innermost frame of its traceback is in the library and executes a `raise` statement there, and
  its text is a sentence of three words or more; or
- Python refuses the call itself, because arguments are missing, unknown or too many: its text names
  the function; or
- memory is short, and the text says for what; or
- a function for tests says that an assertion does not hold.

It is the user's if the user's own code raised it: the object that was passed, a function in the
example or what that called, or the operator of another class that was asked first.

It is `noted` if no line was written to check the argument, and the error has a note that lists the
arguments and asks for a report. A few are: the face cannot prove that an argument is to blame.

Every other error is internal: a line of the library, of NumPy or of SciPy failed that nobody wrote
to check arguments ("'int' object is not iterable"), or an `assert` did, or the stack overflowed.

A call is silently accepted if it gives a result though the value belongs to a kind that the
parameter never means (`bad_values.SILENT`): a bool for an axis, a text for a flag, an array with
masked entries for a tensor. `parameter_kinds` says which kind a parameter is of.
"""

from __future__ import annotations

import dis
import re
import types
from pathlib import Path

from tests.contract.bad_input import bad_values
from tests.contract.bad_input.bad_values import Broken
from tests.contract.bad_input.call_sites import FILE
from tests.contract.bad_input.parameter_kinds import TESTING

import gradtape as gt

LIBRARY = str(Path(gt.__file__).parent)
BINDING = re.compile(
    r"([\w<][\w.<>]*)\(\) (takes|missing|got an unexpected|got multiple|got some positional|"
    r"does not take|requires|argument)"
)
# Functions that examples decorate.
OF_EXAMPLES = {"step", "root", "total", "f", "double", "<lambda>"}


def _innermost(error: BaseException) -> types.TracebackType:
    found = error.__traceback__
    assert found is not None
    while found.tb_next is not None:
        found = found.tb_next
    return found


def _in_the_users_function(error: BaseException) -> bool:
    """Whether the library called a function of the example, and an error came from what it did."""
    found, inner, inside = error.__traceback__, False, False
    while found is not None:
        file = found.tb_frame.f_code.co_filename
        inside = inside or file.startswith(LIBRARY)
        # What other libraries do counts as the user's or ours, by who called them.
        if file == FILE or file.startswith(LIBRARY):
            inner = inside and file == FILE
        found = found.tb_next
    return inner


def _executes_raise(step: types.TracebackType) -> bool:
    code = step.tb_frame.f_code.co_code
    # A bare `raise` has the argument 0: it passes on what another line raised.
    return dis.opname[code[step.tb_lasti]] == "RAISE_VARARGS" and code[step.tb_lasti + 1] > 0


def verdict(error: BaseException, callee: str) -> str:
    """`ours`, `user's`, `noted` or `internal`."""
    text = str(error)
    if Broken.TEXT in text:
        return "user's"
    if _in_the_users_function(error):
        return "user's"
    step = _innermost(error)
    file = step.tb_frame.f_code.co_filename
    if file == FILE or file == bad_values.__file__:
        return "user's"
    if callee.startswith("operator.") and not file.startswith(LIBRARY):
        # The other operand's class was asked first, and refuses.
        return "user's"
    if isinstance(error, MemoryError) and text:
        return "ours"
    if isinstance(error, OSError) and error.filename is not None:
        return "ours"  # the system's sentence names the file
    if isinstance(error, AssertionError) and text and callee.startswith(TESTING):
        return "ours"
    if isinstance(error, (AssertionError, RecursionError)) and not _by_design(error):
        return _noted(error)
    if file.startswith(LIBRARY) and _executes_raise(step) and len(text.split()) >= 3:
        return "ours"
    bound = BINDING.search(text)
    if isinstance(error, TypeError) and bound and bound[1].rpartition(".")[2] in _names(callee):
        return "ours"
    return _noted(error)


def _noted(error: BaseException) -> str:
    """What an accident is: `noted` if it says which arguments it had and asks for a report."""
    notes = getattr(error, "__notes__", ())
    return "noted" if any("an argument of" in each for each in notes) else "internal"


def _by_design(error: BaseException) -> bool:
    return type(error).__module__.startswith("gradtape")


def _names(callee: str) -> set[str]:
    """Names by which Python may call a callable: its own, its class's, and those of wrappers."""
    parts = callee.split(".")
    found = {*parts[-2:], "__init__", "__new__", "call", "update_state"}
    # A gt.function is called as the user's function is, and map_leaves calls it: Python names it.
    of_users = parts[-2:-1] == ["Function"] or parts[-1] in ("map_leaves", "shares")
    return found | OF_EXAMPLES if of_users else found
