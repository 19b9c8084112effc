"""Tracebacks end at the user's line: what Python prints leaves out the frames inside gradtape.

The exception keeps its frames, for debuggers and handlers. `GRADTAPE_TRACEBACK=full` prints all,
and so does an error that is not one of gradtape's own, because a report of it needs them.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from gradtape.config import variable
from gradtape.ir.origin import is_library
from gradtape.suggestions import refused_call

_LIBRARY = __name__.partition(".")[0]
_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_Error = BaseException | None
# An error with what `_short` changes of it.
_Chained = tuple[BaseException, TracebackType | None, _Error, _Error, bool]


def shortened(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of gradtape, and of libraries that gradtape called.

    It is None if there are no others.
    """
    kept, is_inside = [], False
    while traceback is not None:
        frame = traceback.tb_frame
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_inside = module == _LIBRARY or (is_inside and is_library(frame))
        if not is_inside:
            kept.append(traceback)
        traceback = traceback.tb_next
    found = None
    for step in reversed(kept):
        found = TracebackType(found, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return found


@contextlib.contextmanager
def _short(error: BaseException) -> Iterator[None]:
    """Shorten the traceback of an error and of the errors before it, for a while."""
    before: list[_Chained] = []
    each: BaseException | None = error
    while each is not None and not any(each is one[0] for one in before):
        cause, context, alone = each.__cause__, each.__context__, each.__suppress_context__
        before.append((each, each.__traceback__, cause, context, alone))
        each = cause or (None if alone else context)
    try:
        for one, traceback, cause, context, alone in before:
            first = cause or (None if alone else context)
            if first is not None and shortened(first.__traceback__) is None:
                one.__cause__ = one.__context__ = None
            one.__traceback__ = shortened(traceback) or traceback
            one.__suppress_context__ = alone
        yield
    finally:
        for one, traceback, cause, context, alone in before:
            one.__traceback__, one.__cause__, one.__context__ = traceback, cause, context
            one.__suppress_context__ = alone


def _is_ours(error: BaseException) -> bool:
    """Whether gradtape raised an error on purpose, or the user's code did."""
    return not any("please report" in note for note in getattr(error, "__notes__", ()))


def _explain(error: BaseException) -> None:
    """Add a note to Python's error for a keyword that a function of ours does not have.

    Functions that record have no wrapper that could raise another error, because of its time.
    """
    found = _KEYWORD.match(str(error)) if isinstance(error, TypeError) else None
    function = getattr(sys.modules[_LIBRARY], found[1], None) if found is not None else None
    if found is not None and hasattr(function, "op") and not hasattr(error, "__notes__"):
        names = list(inspect.signature(function).parameters)  # type: ignore[arg-type]
        error.add_note(str(refused_call(found[1], names, len(names), 0, [found[2]])))


def install() -> None:
    """Let Python, and IPython if it runs, print short tracebacks."""
    if variable("TRACEBACK", "short", ("short", "full")) == "full":
        return
    previous: Callable[..., Any] = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        _explain(error)
        with _short(error) if _is_ours(error) else contextlib.nullcontext():
            previous(kind, error, error.__traceback__)

    sys.excepthook = show
    interactive = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if interactive is not None:

        def show_in_notebook(
            shell: Any, kind: Any, error: Any, traceback: Any, tb_offset: Any = None
        ) -> None:
            _explain(error)
            with _short(error) if _is_ours(error) else contextlib.nullcontext():
                shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)

        interactive.set_custom_exc((Exception,), show_in_notebook)
