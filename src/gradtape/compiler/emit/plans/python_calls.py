"""Calls of Python from a plan, as IR: the kernel of an op that has no native code.

Its one argument is the address of a Python function of the slots. If the function raises, the
exception stays set in the thread, the status of the run is set, and the plan stops.
"""

from __future__ import annotations

from gradtape.compiler.cpython.python_api import declarations
from gradtape.compiler.emit.plans.instructions import kernel_routine, write_failure

NAME = "call_python"
FUNCTIONS = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyLong_FromSsize_t",
    "PyObject_CallOneArg",
    "Py_DecRef",
)


def python_calls_ir() -> str:
    """The module of `call_python`."""
    r = kernel_routine(NAME)
    held = r.call("i32", "@PyGILState_Ensure")
    address = r.let("ptrtoint ptr %slots to i64")
    slots = r.call("ptr", "@PyLong_FromSsize_t", f"i64 {address}")
    r.go_if_null(slots, "raised")
    result = r.call("ptr", "@PyObject_CallOneArg", f"ptr {r.pointer('%args')}", f"ptr {slots}")
    r.do("@Py_DecRef", f"ptr {slots}")
    r.go_if_null(result, "raised")
    r.do("@Py_DecRef", f"ptr {result}")
    r.go("over")
    r.block("raised")
    write_failure(r)
    r.block("over")
    r.do("@PyGILState_Release", f"i32 {held}")
    r.end("ret void")
    return "\n".join([declarations(FUNCTIONS), r.text()])
