"""CPython: the layout of the interpreter's objects for native code, and how it becomes callable.

All of it relies on the layout of CPython's objects, so it is used only where that layout was
checked: CPython 3.11 to 3.13 with a GIL, 64 bits.
"""

from __future__ import annotations

import ctypes
import re
import sys
import sysconfig
from collections.abc import Iterable
from types import WrapperDescriptorType
from typing import Any

# The latest CPython that the tests of native code were run on.
LATEST = (3, 13)


class MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def prototype(name: str, *kinds: Any) -> Any:
    """A function of the C API that returns an object.

    Not an attribute of `ctypes.pythonapi`: all libraries of the process share those.
    """
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)((name, ctypes.pythonapi))


def word(address: int) -> int:
    """The pointer-sized integer at an address."""
    return ctypes.c_size_t.from_address(address).value


LAYOUT_DIFFERS = "a check of the layout of CPython's objects failed"


def unsupported() -> str | None:
    """Why this interpreter is not one that the native code was written for; None if it is."""
    version = sys.version_info[:2]
    if sys.implementation.name != "cpython":
        return f"it needs CPython, and this is {sys.implementation.name}"
    if not (3, 11) <= version <= LATEST:
        known = f"3.11 to {LATEST[0]}.{LATEST[1]}"
        return f"it was written for CPython {known}, and this is {version[0]}.{version[1]}"
    if sys.maxsize != 2**63 - 1:
        return "it needs pointers of 64 bits"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this CPython is free-threaded, and it needs the GIL"
    if sysconfig.get_config_var("Py_TRACE_REFS"):
        return "this CPython traces references, which changes the layout of objects"
    return None


def supported() -> bool:
    """Whether this interpreter is one that the native code was written for."""
    return unsupported() is None


def slot_offset(kind: type, name: str) -> int:
    """The offset of a slot in instances, from the member descriptor of the class."""
    definition = word(id(kind.__dict__[name]) + 40)
    return word(definition + 16)


def slot_wrapper(kind: type, special: str, lender: type, function: int) -> Any:
    """A special method that fills its slot of the type directly, as those of C classes do."""
    # The lender's wrapper points to CPython's own record of the method's name and slot.
    lent = lender.__dict__[special]
    base = word(id(lent) + 40) if type(lent) is WrapperDescriptorType else 0
    if not base or ctypes.string_at(word(base)) != special.encode():
        raise RuntimeError(f"CPython's record of {lender.__name__}.{special} was not found")
    make = prototype("PyDescr_NewWrapper", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    return make(kind, base, function)


def slot_offsets(reads: Iterable[tuple[object, type, str]]) -> dict[str, int] | None:
    """The offsets of slots, by class and name; None if an instance differs."""
    found = {}
    for instance, kind, name in reads:
        offset = slot_offset(kind, name)
        inside = 16 <= offset < kind.__basicsize__
        if not inside or word(id(instance) + offset) != id(getattr(instance, name)):
            return None
        found[f"{kind.__name__}_{name}"] = offset
    return found


def add_functions(text: str) -> None:
    """Make the functions of the C API that a module declares callable by name."""
    from gradtape.compiler.objects import llvm  # loads the compiler

    for name in re.findall(r"^declare .*@(Py\w+|memcmp)\(", text, re.MULTILINE):
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        if address is None:
            raise RuntimeError(f"CPython does not export {name}")
        llvm.add_symbol(name, address)
