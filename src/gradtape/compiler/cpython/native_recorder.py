"""Native recorder: recording a known application in machine code instead of a Python closure.

It is a shortcut through the closures of `ops.families` and nothing else; `recorder` says how it
works, and `switch` when it is installed.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any

import numpy as np

from gradtape.compiler.cpython.objects import (
    LAYOUT_DIFFERS,
    MethodDefinition,
    add_functions,
    prototype,
    slot_offsets,
    slot_wrapper,
    unsupported,
    word,
)
from gradtape.concurrency import new_lock
from gradtape.config import APPLICATION_CACHE_SETS, TENSOR_CLASSES
from gradtape.ir.node import Node, Table
from gradtape.ir.operators import OPERATORS
from gradtape.ir.spec import Spec
from gradtape.ops.elementwise.arithmetic import equal, not_equal
from gradtape.ops.elementwise.unary import square
from gradtape.trace.record import RECORDERS, binary_function, op_of, unary_function
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Handle, Value

METH_O, METH_FASTCALL = 0x0008, 0x0080

_ORDERED = ("less", "less_equal", "greater", "greater_equal")
# In the order in which Python numbers them.
_COMPARISONS = (*_ORDERED[:2], "equal", "not_equal", *_ORDERED[2:])
# Slot, its special methods, and those of NumPy's array that lend their wrappers.
_SLOTS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "pow": ("__pow__", "__rpow__"),
    "negative": ("__neg__",),
    "compare": ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"),
}
# The method of each slot and comparison for the left operand.
_METHODS = {slot: specials[0] for slot, specials in _SLOTS.items()}
_METHODS |= dict(zip(_COMPARISONS, _SLOTS["compare"], strict=True))

# A thread may hold them while another thread forks.
lock = new_lock()
_kinds_lock = new_lock()


def offsets() -> dict[str, int] | None:
    """Offsets of the fields that the native code reads; None if a check on real objects fails."""
    recording, table = Recording(), Table()
    value = Value(np.zeros(()), Spec((), np.dtype(float)))
    node = Node(OPERATORS.negative, (), (), value.spec)
    handle = Handle(node, recording, value)
    table.cache = bytes(range(8))
    reads: list[tuple[object, type, str]] = [
        *[(handle, Handle, name) for name in ("node", "recording", "computed")],
        *[(value, Value, name) for name in ("entry", "spec")],
        *[(node, Node, name) for name in ("spec", "stamp")],
        *[(value.spec, Spec, name) for name in ("inexact", "scalars")],
        *[(table, Table, name) for name in ("cache", "nodes")],
        *[(recording, Recording, name) for name in ("handles", "leaves", "log", "stamp", "table")],
    ]
    found = slot_offsets(reads)
    if found is None:
        return None
    found |= {"tuple_items": tuple.__basicsize__, "list_size": 16}
    found["bytes_content"] = bytes.__basicsize__ - 1
    pair, triple = (node, value), [node, value, handle]
    checks = [
        word(id(node) + 8) == id(Node),
        word(id(pair) + found["tuple_items"]) == id(node),
        word(id(pair) + found["tuple_items"] + 8) == id(value),
        word(id(triple) + found["list_size"]) == 3,
        word(id(table.cache) + found["bytes_content"]) == 0x0706050403020100,
    ]
    return found if all(checks) else None


class TensorClass:
    """The class whose operators the native code takes the place of: Tensor, given by `switch`."""

    kind: type[Handle]


class Native:
    """The compiled recorder. Everything it points to lives as long as the process."""

    def __init__(self, layout: dict[str, int]) -> None:
        # Late: the compiler, and the writer of what it compiles.
        from gradtape.compiler.cpython import lookup, recorder
        from gradtape.compiler.objects import llvm

        self.kinds = (ctypes.c_void_p * (2 * TENSOR_CLASSES + 1))()
        self.known: list[type] = []
        self.unsupported: weakref.WeakSet[type] = weakref.WeakSet()
        self.kept: list[Any] = []
        self.contexts = self._contexts(recorder.EXPONENTS)
        tensor: Any = TensorClass.kind
        self.learn_kind(tensor)
        named = {
            "recording_name": sys.intern("recording"),
            "local_dictionary": local_dictionary,
            "learn_kind": self.keep(self.learn_kind),
            "Tensor": tensor,
            "None": None,
            "True": True,
        }
        types = (Node, Recording, Spec, Value, bytes, float, int, list)
        facts = {
            **layout,
            **{name: id(thing) for name, thing in named.items()},
            **{kind.__name__: id(kind) for kind in types},
            "kinds": ctypes.addressof(self.kinds),
            "cache_bytes": lookup.CACHE_BYTES,
            "set_shift": 64 - APPLICATION_CACHE_SETS.bit_length() + 1,
            "least_exponent": recorder.EXPONENTS[0],
            "exponents": len(recorder.EXPONENTS),
        }
        facts |= {f"context_{name}": id(context) for name, context in self.contexts.items()}
        text = recorder.recorder_ir(facts)
        add_functions(text)
        self.compiled = llvm.compile_ir(text, level=0, has_addresses=True)
        self.functions = [self._function(function) for function in RECORDERS]
        slot_at = self.compiled.address
        self.wrappers = {
            special: slot_wrapper(tensor, special, np.ndarray, slot_at(f"slot_{slot}"))
            for slot, specials in _SLOTS.items()
            for special in specials
        }

    def keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def _contexts(self, exponents: range) -> dict[str, Any]:
        """The constants of each slot: op, closure, closure of the reflected operator, params."""
        tensor: Any = TensorClass.kind
        found: dict[str, Any] = {}
        for name in ("add", "subtract", "multiply", "divide", "matmul", *_ORDERED):
            special = getattr(tensor, _METHODS[name])
            closure: Any = binary_function(getattr(OPERATORS, name), special.otherwise)
            found[name] = (closure.op, closure, closure.reflected, None)
        # Python compares the others.
        found["equal"] = (op_of(equal), tensor.__eq__, None, None)
        found["not_equal"] = (op_of(not_equal), tensor.__ne__, None, None)
        compare = tuple(found.pop(name) for name in _COMPARISONS)
        negative = OPERATORS.negative
        found["negative"] = (negative, unary_function(negative), None, None)
        powers = tuple(self._power(exponent) for exponent in exponents)
        power: Any = binary_function(OPERATORS.pow)
        found["pow"] = (power.op, tensor.__pow__, power.reflected, powers)
        return {**found, "compare": compare}

    def _power(self, exponent: int) -> Any:
        if exponent == 2:
            return op_of(square), unary_function(op_of(square)), None, None
        tensor: Any = TensorClass.kind
        power = tensor.__pow__
        return OPERATORS.integer_power, lambda x: power(x, exponent), None, (exponent,)

    def learn_kind(self, kind: type) -> None:
        """Enter a class of tensors whose instances have our layout, with the class of results."""
        if kind in self.unsupported:
            return
        result: Any = getattr(kind, "result_class", None)
        slots = ("node", "recording", "computed")
        with _kinds_lock:
            if kind in self.known:
                return
            if (
                len(self.known) < TENSOR_CLASSES
                and all(getattr(kind, name, None) is Handle.__dict__[name] for name in slots)
                and isinstance(result, type)
                and issubclass(result, Handle)
                and result.__basicsize__ == Handle.__basicsize__
                and not result.__dictoffset__
            ):
                place = 2 * len(self.known)
                self.known.append(self.keep(kind))
                # The class goes in last: from then on it is found.
                self.kinds[place + 1] = id(self.keep(result))
                self.kinds[place] = id(kind)
            else:
                self.unsupported.add(kind)

    def _function(self, function: Any) -> Any:
        """A built-in function that records one op."""
        unary = not hasattr(function, "reflected")
        op = function.op
        closure: Any = unary_function(op) if unary else binary_function(op, function.otherwise)
        reflected = None if unary else closure.reflected
        context = self.keep((function.op, closure, reflected, None))
        name, flags = ("unary_function", METH_O) if unary else ("binary_function", METH_FASTCALL)
        definition = MethodDefinition(
            function.op.name.encode(), self.compiled.address(name), flags, None
        )
        self.keep(definition)
        make = prototype("PyCFunction_NewEx", ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        return make(ctypes.addressof(definition), context, None)


def local_dictionary() -> Any:
    """The running thread's own part of the state."""
    return state.__dict__


# The compiled recorder, and the same while it is in place.
_compiled: list[Native] = []
_installed: list[Native] = []


def prepare() -> str | None:
    """Compile the native recorder; returns the reason if it cannot be."""
    with lock:
        if not _compiled:
            reason = unsupported()
            if reason is not None:
                return reason
            layout = offsets()
            if layout is None:
                return LAYOUT_DIFFERS
            _compiled.append(Native(layout))
        return None


def install() -> str | None:
    """Put the native recorder in place; returns the reason if it cannot be."""
    with lock:
        if _installed:
            return None
        reason = prepare()
        if reason is not None:
            return reason
        native = _compiled[0]
        for function, found in zip(RECORDERS, native.functions, strict=True):
            function.use(found)
        for special, wrapper in native.wrappers.items():
            setattr(TensorClass.kind, special, wrapper)
        _installed.append(native)
        return None


def installed() -> bool:
    """Whether the native recorder is in place."""
    return bool(_installed)


def uninstall() -> None:
    """Go back to recording in Python."""
    with lock:
        if _installed:
            native = _installed.pop()
            for function in RECORDERS:
                function.use(None)
            for special in native.wrappers:
                delattr(TensorClass.kind, special)
