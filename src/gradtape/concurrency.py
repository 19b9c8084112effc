"""Concurrency: locks that survive a fork, tables of weak references, errors of signal handlers.

A signal handler in Python, such as that of Ctrl-C, is called between two steps of Python code in
the main thread, wherever that is, and may raise there. So nothing here runs Python code in a
finaliser or in the callback of a weak reference, where such an error would be printed and lost.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import signal
import threading
import weakref

# As in WeakValueDictionary: it removes a key if the reference there is dead, in one step.
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Hashable
from types import CodeType
from typing import Generic, ParamSpec, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")


class _Reference(weakref.ref[V]):
    __slots__ = ("key",)

    key: Hashable


class WeakTable(Generic[K, V]):
    """Values by key, held weakly: a `weakref.WeakValueDictionary` without callbacks in Python.

    A dead reference goes on a list, and the next insertion clears it.
    """

    def __init__(self) -> None:
        self._references: dict[K, _Reference[V]] = {}
        self._dead: list[weakref.ref[V]] = []

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        found = self._references.get(key)
        return None if found is None else found()

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key, which is this one if it had none."""
        references = self._references
        self.drop_dead()
        new = _Reference(value, self._dead.append)
        new.key = key
        # Two threads that race here must end with the same object.
        while (found := references.setdefault(key, new)()) is None:
            _remove_dead_weakref(references, key)
        return found

    def drop_dead(self) -> None:
        """Let go of the keys of values that have died."""
        while self._dead:
            try:
                dead = self._dead.pop()
            except IndexError:  # another thread was faster
                break
            _remove_dead_weakref(self._references, dead.key)  # type: ignore[attr-defined]

    def values(self) -> list[V]:
        """All values that are alive."""
        return [found for each in list(self._references.values()) if (found := each()) is not None]

    def __len__(self) -> int:
        return len(self.values())


_locks: WeakTable[int, threading.RLock] = WeakTable()


class Process:
    """This process among its ancestors."""

    # The number of forks between the first process and this one.
    forks = 0


def new_lock() -> threading.RLock:
    """A reentrant lock that is open in a forked child, where the thread that held it is gone.

    The data it guards must be consistent after every bytecode instruction.

    >>> with gt.libraries.new_lock():
    ...     pass
    """
    lock = threading.RLock()
    _locks.setdefault(id(lock), lock)
    return lock


def _reopen() -> None:
    Process.forks += 1
    for lock in _locks.values():
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen)


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
