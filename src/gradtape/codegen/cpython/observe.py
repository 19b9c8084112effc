"""Observe: the profile function of the observer of captured runs, as IR; and its pauses.

Most events of a run are of code that the observer passes over, and each costs a call of Python.
This profile function calls the observer for the others only: it decides nothing of its own.

While it is set, CPython interprets all code slowly. So it is paused while a closure of the native
recorder applies an op of the library to operands that have no code of the user's.
"""

from __future__ import annotations

import sys

from gradtape.codegen.cpython.call_context import known_object
from gradtape.codegen.routine import Routine

FUNCTIONS = (
    "PyDict_GetItemWithError", "PyEval_SetProfile", "PyFrame_GetCode", "PyLong_FromSsize_t",
    "PyObject_CallFunctionObjArgs", "PyThreadState_Get", "Py_DecRef",
)  # fmt: skip
# PyTrace_C_CALL. Events of larger numbers tell that a function of C has ended.
_LAST_EVENT = 4
# Code that was found in the dict is remembered at a place by its address: nothing leaves the dict.
_PLACES = 1024
# From 3.12 on, setting a profile function rewrites the code of all frames.
PAUSES = sys.version_info < (3, 12)
# Classes whose objects, and no others, bring no code of the user's.
_OPERANDS = ("Tensor", "float", "int")
# The observer of a thread, and its state. If several threads are observed, one of them has pauses.
_GLOBALS = f"""
@seen = internal global [{_PLACES} x ptr] zeroinitializer
@observer = internal global ptr null
@observed = internal global ptr null
"""


def observe_ir() -> str:
    """The parts of a module."""
    return "\n".join([_GLOBALS, _observe(), _begin(), _ask()])


def _observe() -> str:
    """`observe`, for PyEval_SetProfile."""
    r = Routine("i32 @observe(ptr %observer, ptr %frame, i32 %event, ptr %about)")
    r.go_if(r.compare("sgt", "%event", _LAST_EVENT, "i32"), "pass")
    code = r.call("ptr", "@PyFrame_GetCode", "ptr %frame")
    r.do("@Py_DecRef", f"ptr {code}")  # the frame holds it
    address = r.let(f"ptrtoint ptr {code} to i64")
    place = r.scaled(r.let(f"and i64 {r.let(f'lshr i64 {address}, 6')}, {_PLACES - 1}"))
    r.go_if(r.same(r.pointer("@seen", place), code), "pass")
    key = r.call("ptr", "@PyLong_FromSsize_t", f"i64 {address}")
    r.go_if_null(key, "fail")
    passed = known_object("passed_over")
    found = r.call("ptr", "@PyDict_GetItemWithError", f"ptr {passed}", f"ptr {key}")
    r.do("@Py_DecRef", f"ptr {key}")
    with r.when(r.differ(found, "null")):
        r.put_pointer("@seen", place, code)
        r.go("pass")
    number = r.call("ptr", "@PyLong_FromSsize_t", f"i64 {r.let('sext i32 %event to i64')}")
    r.go_if_null(number, "fail")
    # After an error there is nothing that a function returns, and the list of arguments ends there.
    arguments = ("ptr %observer", "ptr %frame", f"ptr {number}", "ptr %about", "ptr null")
    answer = r.call("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs", *arguments)
    r.do("@Py_DecRef", f"ptr {number}")
    r.go_if_null(answer, "fail")
    r.do("@Py_DecRef", f"ptr {answer}")
    r.block("pass")
    r.give("0", "i32")
    r.block("fail")
    r.give("-1", "i32")
    return r.text()


def _begin() -> str:
    """Observe this thread, or with a null end that; the caller holds the observer."""
    r = Routine("void @observe_with(ptr %new)")
    function = r.select(r.same("%new", "null"), "null", "@observe", "ptr")
    r.do("@PyEval_SetProfile", f"ptr {function}", "ptr %new")
    r.put_pointer("@observed", 0, r.call("ptr", "@PyThreadState_Get"))
    r.put_pointer("@observer", 0, "%new")
    r.end("ret void")
    return r.text()


def _ask() -> str:
    """Call a closure of the recorder with one operand or two; the second may be a null."""
    r = Routine("internal ptr @ask(ptr %function, ptr %x, ptr %y)")
    arguments = ("ptr %function", "ptr %x", "ptr %y", "ptr null")
    if PAUSES:
        observer = r.pointer("@observer")
        r.go_if_null(observer, "plain")
        thread = r.call("ptr", "@PyThreadState_Get")
        r.go_if(r.differ(thread, r.pointer("@observed")), "plain")
        tensor, *numbers = map(known_object, _OPERANDS)
        r.go_if(r.differ(r.pointer("%x", 8), tensor), "plain")
        r.go_if_null("%y", "pause")
        kind = r.pointer("%y", 8)
        for known in (tensor, *numbers):
            r.go_if(r.same(kind, known), "pause")
        r.go("plain")
        r.block("pause")
        r.do("@observe_with", "ptr null")
        answer = r.call("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs", *arguments)
        r.do("@observe_with", f"ptr {observer}")
        r.give(answer)
        r.block("plain")
    r.give(r.call("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs", *arguments))
    return r.text()
