"""Interrupts: which errors a signal handler raised, and finalisers in which no handler runs.

A signal handler in Python, such as that of Ctrl-C, is called between two steps of Python code in
the main thread, wherever that is, and may raise there.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable, Iterator
from types import CodeType

# A C function as a method: PyInstanceMethod_New makes any callable bind like a Python function.
# Used for `__del__`: Python code in a finaliser is where a signal handler may be called, and what
# the handler raises there is printed and forgotten.
method_in_c: Callable[[object], object] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
    ("PyInstanceMethod_New", ctypes.pythonapi)
)


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Raise after this context what signal handlers raise in finalisers of other packages in it.

    llvmlite's objects have finalisers in Python, which run while modules are compiled.
    """
    kept: list[BaseException] = []
    before = sys.unraisablehook

    def keep(found: sys.UnraisableHookArgs) -> None:
        if found.exc_value is not None and is_interrupt(found.exc_value):
            kept.append(found.exc_value)
        elif not kept:  # else an object that was interrupted in its finaliser is freed once more
            before(found)

    try:
        sys.unraisablehook = keep
        yield
    finally:
        sys.unraisablehook = before
    if kept:
        raise kept[0]


def is_interrupt(error: BaseException) -> bool:
    """Whether an error stops the program from outside, so that nothing may be tried instead.

    That is what is not an Exception, such as KeyboardInterrupt, and all that a signal handler of
    the user raised.
    """
    if not isinstance(error, Exception):
        return True
    handlers: set[CodeType] | None = None
    found = error.__traceback__
    while found is not None:
        handlers = _handlers() if handlers is None else handlers
        if found.tb_frame.f_code in handlers:
            return True
        found = found.tb_next
    return False


def _handlers() -> set[CodeType]:
    known = (signal.getsignal(number) for number in signal.valid_signals())
    functions = (getattr(each, "__func__", each) for each in known)
    codes = (
        getattr(each, "__code__", None) or getattr(type(each).__call__, "__code__", None)
        for each in functions
        if callable(each)
    )
    return {code for code in codes if code is not None}
