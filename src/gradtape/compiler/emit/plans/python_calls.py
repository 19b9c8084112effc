"""Calls of Python from a plan, as IR: the kernel of an op that has no native code.

Its one argument is the address of a Python function of the slots. If the function raises, the
exception stays set in the thread, the status of the run is set, and the plan stops.
"""

from __future__ import annotations

from gradtape.compiler.emit.plans.instructions import kernel_routine, write_failure
from gradtape.compiler.emit.writer import module

NAME = "call_python"


def python_calls_ir() -> str:
    """The module of `call_python`."""
    r = kernel_routine(NAME)
    held = r.call("i32", "@PyGILState_Ensure")
    slots = r.call("ptr", "@PyLong_FromSsize_t", r.cast("ptrtoint", "%slots", "i64"))
    r.go_if_null(slots, "raised")
    result = r.call("ptr", "@PyObject_CallOneArg", r.pointer("%args"), slots)
    r.do("@Py_DecRef", slots)
    r.go_if_null(result, "raised")
    r.do("@Py_DecRef", result)
    r.go("over")
    r.block("raised")
    write_failure(r)
    r.block("over")
    r.do("@PyGILState_Release", held)
    return module(r)
