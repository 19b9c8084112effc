"""Call slot: native code in the place of `Function.__call__`, compiled with the first native call.

`compiler.cpython.caller` writes the code. Here it gets the offsets of slots and the addresses of
objects that it uses, is put into the class, and is taken out again when the user asks for Python.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import warnings
from functools import partial

from gradtape.compiler import thread_team as threads
from gradtape.compiler.counts import NATIVE
from gradtape.compiler.cpython import native_recorder as native, switch
from gradtape.compiler.cpython.objects import (
    add_functions,
    slot_offset,
    slot_offsets,
    slot_wrapper,
    supported,
    word,
)
from gradtape.concurrency import is_interrupt, new_lock
from gradtape.config import CALLS_THAT_PAY_FOR_NATIVE, MOST_NATIVE_SIGNATURES
from gradtape.dtypes import World
from gradtape.jit.guards.guards import Guards
from gradtape.jit.native.guard_table import GuardTable
from gradtape.runtime import buffer_pool as buffers, tiers
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.recording import Recording
from gradtape.trace.value import Value


def offsets(function: type) -> dict[str, int] | None:
    """Where objects keep what the native code reads and writes; None if a check fails."""
    known = native.offsets()
    if known is None:
        return None
    buffer, variable = buffers.allocate(8), Variable(0.0)
    value, recording = Value(buffer, variable.current().spec), Recording()
    reads: list[tuple[object, type, str]] = [
        *[(value, Value, name) for name in ("_address", "content", "entry", "spec")],
        *[(variable, Variable, name) for name in ("_handle",)],
        *[(recording, Recording, name) for name in ("active",)],
    ]
    found = slot_offsets(reads)
    if found is None:
        return None
    found["Function_native_contexts"] = slot_offset(function, "native_contexts")
    some, number, content = [value, buffer], 1.5, b"12345678"
    (bits,) = struct.unpack("=q", struct.pack("=d", number))
    checks = [
        word(word(id(some) + 24) + 8) == id(buffer),
        word(id(number) + 16) == bits,
        word(id(content) + 16) == len(content),
        word(id((some, number)) + 16) == 2,
        Value(buffer, value.spec).entry is value.entry,
        recording.active == 0 and id(recording.active) == id(0),
    ]
    return {**known, **found, "list_items": 24, "float_content": 16} if all(checks) else None


class _Slot:
    """The compiled slot, and the method that it stands in for. Neither is ever freed."""

    def __init__(self, function: type, layout: dict[str, int]) -> None:
        # Late: the compiler, and the writer of what it compiles.
        from gradtape.compiler.cpython import caller
        from gradtape.compiler.objects import llvm

        self.in_python = function.__dict__["__call__"]
        value = Value(buffers.allocate(8), Variable(0.0).current().spec)
        objects = {
            "recording_name": sys.intern("recording"),
            "tapes_name": sys.intern("tapes"),
            "address_name": sys.intern("address"),
            "local_dictionary": native.local_dictionary,
            "zero": 0,
            "None": None,
            "False": False,
            "unentered": value.entry,
            "allocate": buffers.allocate,
            "team": threads.team,
            "in_python": self.in_python,
        }
        types = (Exception, Recording, Tensor, Value, float, list, tuple)
        facts = {
            **layout,
            **{name: id(thing) for name, thing in objects.items()},
            **{kind.__name__: id(kind) for kind in types},
            "world": World.number.buffer_info()[0],
            "pool_counts": buffers.counts().buffer_info()[0],
            "count_recycled": 8 * buffers.RECYCLED,
            "run_counts": NATIVE.buffer_info()[0],
            **dict(
                zip(("plan_with_gil", "plan_without_gil"), threads.call_addresses(), strict=True)
            ),
            "most_contexts": MOST_NATIVE_SIGNATURES,
        }
        text = caller.caller_ir(facts)
        add_functions(text)
        compiled = llvm.compile_ir(text, level=0, has_addresses=True)
        self.wrapper = slot_wrapper(function, "__call__", partial, compiled.address("call"))
        check = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self.guards_hold = check(compiled.address("guards_hold"))
        # The code points to these, and may run when modules are gone at the end of the process.
        kept = (objects, types, self.wrapper, World.number, NATIVE, buffers.counts())
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class _Slots:
    """The slot of this process, once it is compiled."""

    def __init__(self) -> None:
        self._lock = new_lock()
        # Calls in Python that the slot would have taken.
        self.calls = 0
        self.is_made = False
        self.slot: _Slot | None = None

    def get(self, function: type) -> _Slot | None:
        """The slot; None where it cannot be, or does not pay yet."""
        if self.is_made or not self._pays():
            return self.slot
        try:
            with self._lock:
                if not self.is_made:
                    layout = offsets(function) if supported() else None
                    self.slot = None if layout is None else _Slot(function, layout)
                    self.is_made = True
        except Exception as error:
            if is_interrupt(error):
                raise
            self.is_made = True
            # A shortcut that cannot be taken is no reason to stop.
            warnings.warn(
                f"native calls could not be compiled: {error!r}. Functions are called in Python; "
                "gt.set_recorder('python') does not try.",
                stacklevel=2,
            )
        return self.slot

    def _pays(self) -> bool:
        return (
            self.calls >= CALLS_THAT_PAY_FOR_NATIVE
            or switch.MODE == "native"
            or tiers.MODE != "auto"
        )


_slots = _Slots()


def is_coming() -> bool:
    """Whether the slot does not pay yet, so that one should look again soon."""
    return not _slots.is_made


def note_calls(count: int) -> None:
    """Note calls of a function in Python whose plan is compiled."""
    _slots.calls += count


def compile_guards(guards: Guards) -> GuardTable | None:
    """The words of guards for native code; None where there is none."""
    if _slots.slot is None or switch.MODE == "python":
        return None
    if guards.table is None:
        guards.table = GuardTable(guards, _slots.slot.guards_hold)
    return guards.table  # type: ignore[return-value]


def install(function: type) -> bool:
    """Let calls of functions go through the slot; False where they cannot, or cannot yet."""
    slot = _slots.get(function)
    if slot is not None and function.__dict__["__call__"] is not slot.wrapper:
        function.__call__ = slot.wrapper  # type: ignore[method-assign]
    return slot is not None


def follow_switch(function: type) -> None:
    """Take the slot out of use if Python was asked for, or put it back if it was compiled."""
    slot = _slots.slot
    if slot is None:
        return
    wanted = slot.in_python if switch.MODE == "python" else slot.wrapper
    if function.__dict__["__call__"] is not wanted:
        function.__call__ = wanted  # type: ignore[method-assign]
