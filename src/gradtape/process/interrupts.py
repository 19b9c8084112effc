"""Interrupts: which errors a signal handler raised, and code in which no handler runs.

A signal handler in Python, such as that of Ctrl-C, is called between two steps of Python code in
the main thread, wherever that is, and may raise there.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import signal
import threading
from collections.abc import Callable
from types import CodeType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# A C function as a method: PyInstanceMethod_New makes any callable bind like a Python function.
# Used for `__del__`: Python code in a finaliser is where a signal handler may be called, and what
# the handler raises there is printed and forgotten.
method_in_c: Callable[[object], object] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
    ("PyInstanceMethod_New", ctypes.pythonapi)
)


def uninterrupted(work: Callable[P, R]) -> Callable[P, R]:
    """A function whose work no signal handler interrupts.

    Handlers run in the main thread only, so another thread does the work, and the main thread waits
    for it. What a handler raises ends the wait, and the work goes on to its end: it must leave its
    result where a later call finds it, or be quick. This is for calls of C that take long.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread() is not threading.main_thread():
            return work(*args, **kwargs)
        found: list[R] = []
        errors: list[BaseException] = []
        working = threading.Lock()

        def run() -> None:
            try:
                found.append(work(*args, **kwargs))
            except BaseException as error:
                errors.append(error)
            finally:
                working.release()

        working.acquire()
        try:
            _thread.start_new_thread(run, ())
            working.acquire()
        except BaseException as error:
            if isinstance(error, RuntimeError) and not is_interrupt(error):
                # There can be no more threads, or the interpreter is ending.
                return work(*args, **kwargs)
            raise
        if errors:
            raise errors[0]
        return found[0]

    return call


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
