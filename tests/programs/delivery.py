"""Signals at each point where CPython may call a handler, one after another.

A trace function in machine code counts the instructions that Python runs, and trips SIGINT before
the n-th. The interpreter then calls the handler where it would call it for a signal from outside:
after a call of a C function, where a function begins, and at a jump backwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import lru_cache

from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects.llvm import compile_ir

# The events of a trace function.
CALL, EXCEPTION, OPCODE = 0, 1, 7
# Instructions so far, the one before which the signal is tripped, and the first exception after.
words = (ctypes.c_int64 * 3)()
COUNT, TARGET, RAISED = 0, 8, 16
_attribute = ctypes.create_string_buffer(b"f_trace_opcodes")
_set_trace = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)(
    ("PyEval_SetTrace", ctypes.pythonapi)
)


def _pointer(address: int | None) -> str:
    return f"inttoptr (i64 {address} to ptr)"


def _function(name: str) -> str:
    return _pointer(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)


@lru_cache(maxsize=1)
def _trace() -> int:
    """The address of the trace function."""
    r = Routine("i32 @trace(ptr %object, ptr %frame, i32 %event, ptr %argument)")
    place = _pointer(ctypes.addressof(words))
    with r.when(r.compare("eq", "%event", CALL, "i32")):
        # From now on there is an event before each instruction of the frame.
        name, yes = _pointer(ctypes.addressof(_attribute)), _pointer(id(True))
        arguments = ("ptr %frame", f"ptr {name}", f"ptr {yes}")
        r.end(f"ret i32 {r.call('i32', _function('PyObject_SetAttrString'), *arguments)}")
    with r.when(r.compare("eq", "%event", OPCODE, "i32")):
        r.add_to(place, COUNT, 1)
        with r.when(r.equal(r.word(place, COUNT), r.word(place, TARGET))):
            r.do(_function("PyErr_SetInterrupt"))
    with r.when(r.compare("eq", "%event", EXCEPTION, "i32")):
        tripped = r.compare("sge", r.word(place, COUNT), r.word(place, TARGET))
        with r.when(r.both(tripped, r.equal(r.word(place, RAISED), 0))):
            r.put(place, RAISED, r.word(place, COUNT))
    r.end("ret i32 0")
    return compile_ir(r.text()).address("trace")


def interrupted_at(number: int, call: Callable[[], object]) -> bool:
    """Trip SIGINT before the n-th instruction of a call; whether it raised KeyboardInterrupt."""
    trace = _trace()
    words[:] = [0, number, 0]
    try:
        _set_trace(trace, None)
        try:
            call()
        finally:
            _set_trace(None, None)
    except KeyboardInterrupt:
        return True
    return False


def instructions(call: Callable[[], object]) -> int:
    """How many instructions a call takes."""
    interrupted_at(-1, call)
    return words[0]


def interrupts(
    call: Callable[[], object], begin: Callable[[], object], stride: int = 1, first: int = 1
) -> Iterator[int]:
    """Interrupt a call everywhere: gives the number of the instruction after each interrupt.

    `begin` is called before each. All instructions up to the next point where a handler may be
    called are one case. With a stride so many instructions are left out between two cases.
    """
    number = first
    while True:
        begin()
        if not interrupted_at(number, call):
            return
        yield number
        number = max(number, words[2]) + stride
