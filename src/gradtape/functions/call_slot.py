"""Call slot: native code in the place of `Function.__call__`, compiled when the first context is.

`codegen.caller` says what it does, and `direct` what contexts are.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import lru_cache, partial
from typing import Any

from gradtape.codegen.cpython import caller
from gradtape.codegen.cpython import native_recorder as native
from gradtape.codegen.cpython.objects import (
    add_functions,
    slot_offset,
    slot_offsets,
    slot_wrapper,
    supported,
    word,
)
from gradtape.dtypes import World
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value
from gradtape.runtime import buffer_pool as buffers
from gradtape.runtime import thread_team as threads
from gradtape.runtime.counters import NATIVE
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable


def offsets(function: type) -> dict[str, int] | None:
    """Where objects keep what the native code reads and writes; None if a check fails."""
    known = native.offsets()
    if known is None:
        return None
    buffer, variable = buffers.allocate(8), Variable(0.0)
    value, recording = Value(buffer, variable.current().spec), Recording()
    reads: list[tuple[Any, type, str]] = [
        *[(buffer, buffers.Buffer, name) for name in ("address", "capacity", "nbytes")],
        *[(value, Value, name) for name in ("_address", "content", "entry", "spec")],
        *[(variable, Variable, name) for name in ("_assigned", "_epoch", "_handle", "_steady")],
        *[(recording, Recording, name) for name in ("active", "unassigned")],
    ]
    found = slot_offsets(reads)
    if found is None:
        return None
    found["Function_direct"] = slot_offset(function, "direct")
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


@lru_cache(maxsize=1)
def install(function: type) -> bool:
    """Let calls of functions go through the slot; False where they cannot."""
    layout = offsets(function) if supported() else None
    if layout is None:
        return False
    from gradtape.codegen import llvm

    in_python = function.__dict__["__call__"]
    value = Value(buffers.allocate(8), Variable(0.0).current().spec)
    objects = {
        "recording_name": sys.intern("recording"), "tapes_name": sys.intern("tapes"),
        "epoch_name": sys.intern("epoch"), "address_name": sys.intern("address"),
        "local_dictionary": native.local_dictionary, "zero": 0, "None": None, "True": True,
        "False": False, "unentered": value.entry, "allocate": buffers.allocate,
        "team": threads.team, "in_python": in_python,
    }  # fmt: skip
    types = (Recording, Value, buffers.Buffer, float, list, Tensor)
    facts = {
        **layout,
        **{name: id(thing) for name, thing in objects.items()},
        **{kind.__name__: id(kind) for kind in types},
        "world": World.number.buffer_info()[0],
        "pool_counts": buffers.counts().buffer_info()[0],
        "count_recycled": 8 * buffers.RECYCLED,
        "count_held": 8 * buffers.HELD,
        "run_counts": NATIVE.buffer_info()[0],
        "run_plan": threads.plan_address(),
    }
    add_functions(caller.FUNCTIONS)
    compiled = llvm.compile_ir(caller.caller_ir(facts), level=0)
    wrapper = slot_wrapper(function, "__call__", partial, compiled.address("call"))
    # Everything that the code points to lives as long as the process, and longer than modules.
    kept = (objects, types, wrapper, World.number, NATIVE, buffers.counts())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    function.__call__ = wrapper  # type: ignore[method-assign]
    return True
