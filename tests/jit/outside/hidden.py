"""State that is hidden in C, in the process, in files and in modules."""

from __future__ import annotations

import array
import atexit
import contextvars
import ctypes
import decimal
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import types
import weakref

import numpy as np
from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place


@place
def decimal_context() -> Place:
    one, three = decimal.Decimal(1), decimal.Decimal(3)

    def write(number):
        decimal.getcontext().prec = int(3 * number)

    write(9)
    return lambda: float(one / three), write


@place
def environment() -> Place:
    os.environ["NUMBER_OF_A_TEST"] = "1.0"
    return (
        lambda: float(os.environ["NUMBER_OF_A_TEST"]),
        lambda number: os.environ.__setitem__("NUMBER_OF_A_TEST", str(number)),
    )


@place
def environment_by_function() -> Place:
    os.environ.pop("LATE_NUMBER_OF_A_TEST", None)
    return (
        lambda: float(os.getenv("LATE_NUMBER_OF_A_TEST", "1.0")),
        lambda number: os.environ.__setitem__("LATE_NUMBER_OF_A_TEST", str(number)),
    )


def _file():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = pathlib.Path(folder) / "number"
    path.write_text("1.0")

    def write(number):
        path.write_text(str(number) * int(number))

    return path, write


@place
def size_of_file() -> Place:
    path, write = _file()
    name = str(path)
    return lambda: float(os.path.getsize(name)), write


@place
def existence_of_file() -> Place:
    path, write = _file()
    name = str(path)

    def change(number):
        path.unlink() if number == 2.0 else write(number)

    return lambda: 2.0 if os.path.exists(name) else 1.0, change


@place
def content_of_file() -> Place:
    path, write = _file()

    def read():
        with open(path) as file:
            return float(len(file.read()))

    return read, write


@place
def content_of_path() -> Place:
    path, write = _file()
    return lambda: float(len(path.read_text())), write


def _module(name):
    module = types.ModuleType(name)
    module.number = 1.0
    sys.modules[name] = module
    return module, lambda number: setattr(module, "number", number)


@place
def module_by_importlib() -> Place:
    _, write = _module("settings_by_importlib")
    return lambda: importlib.import_module("settings_by_importlib").number, write


@place
def module_by_import() -> Place:
    _, write = _module("settings_by_import")
    return lambda: __import__("settings_by_import").number, write


@place
def module_in_table() -> Place:
    _, write = _module("settings_in_table")
    return lambda: sys.modules["settings_in_table"].number, write


@place
def module_exchanged() -> Place:
    _module("settings_exchanged")

    def read():
        import settings_exchanged

        return settings_exchanged.number

    def write(number):
        _module("settings_exchanged")[1](number)

    return read, write


@place
def module_by_computed_name() -> Place:
    module, write = _module("settings_by_computed_name")
    return lambda: getattr(module, "num" + "ber"), write


@place
def variables_of_module() -> Place:
    module, write = _module("settings_with_variables")
    return lambda: vars(module)["number"], write


@place
def dictionary_of_module() -> Place:
    module, write = _module("settings_with_dictionary")
    return lambda: module.__dict__["number"], write


@place
def late_name_of_module() -> Place:
    module, _ = _module("settings_with_late_name")

    def read():
        try:
            return module.late
        except AttributeError:
            return 1.0

    return read, lambda number: setattr(module, "late", number)


@place
def module_has_name() -> Place:
    module, _ = _module("settings_that_has")
    return (
        lambda: 2.0 if hasattr(module, "late") else 1.0,
        lambda number: setattr(module, "late", number),
    )


@place
def fallback_of_module() -> Place:
    module, _ = _module("settings_with_fallback")
    store = {"late": 1.0}
    module.__getattr__ = store.__getitem__
    return lambda: module.late, lambda number: store.__setitem__("late", number)


@place
def submodule() -> Place:
    module, _ = _module("settings_with_submodule")
    module.inner, write = _module("settings_with_submodule.inner")
    return lambda: module.inner.number, write


@place
def local_of_thread() -> Place:
    own = threading.local()
    own.number = 1.0
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def context_variable() -> Place:
    own = contextvars.ContextVar("own", default=1.0)
    return lambda: own.get(), lambda number: own.set(number)


@place
def weak_reference() -> Place:
    held = [Holder(1.0)]
    own = weakref.ref(held[0])

    def write(number):
        if number == 2.0:
            held.clear()

    return lambda: 1.0 if own() is not None else 2.0, write


@place
def weak_proxy() -> Place:
    held = Holder(1.0)
    own = weakref.proxy(held)
    return lambda: own.number, lambda number: setattr(held, "number", number)


@place
def weak_dictionary() -> Place:
    held = [Holder(1.0), Holder(2.0)]
    own = weakref.WeakValueDictionary({str(i): each for i, each in enumerate(held)})
    return lambda: len(own) * 1.0, lambda number: held.pop() if number == 2.0 else None


@place
def array_of_c() -> Place:
    own = array.array("d", [1.0])
    return lambda: own[0], lambda number: own.__setitem__(0, number)


@place
def view_of_memory() -> Place:
    own = memoryview(bytearray(b"\x01"))
    return lambda: own[0] * 1.0, lambda number: own.__setitem__(0, int(number))


@place
def memory_by_address() -> Place:
    held = ctypes.c_double(1.0)
    address = ctypes.addressof(held)
    return (
        lambda: ctypes.c_double.from_address(address).value,
        lambda number: setattr(held, "value", number),
    )


@place
def number_of_ctypes() -> Place:
    own = ctypes.c_double(1.0)
    return lambda: own.value, lambda number: setattr(own, "value", number)


@place
def structure_of_ctypes() -> Place:
    class Own(ctypes.Structure):
        _fields_ = [("number", ctypes.c_double)]

    own = Own(1.0)
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def mapping_proxy() -> Place:
    held = {"number": 1.0}
    own = types.MappingProxyType(held)
    return lambda: own["number"], lambda number: held.__setitem__("number", number)


@place
def read_only_array_changed() -> Place:
    own = np.ones(2)
    own.flags.writeable = False

    def write(number):
        own.flags.writeable = True
        own[0] = number
        own.flags.writeable = False

    return lambda: float(own[0]), write


@place
def print_options() -> Place:
    own = np.array([1 / 3])

    def write(number):
        np.set_printoptions(precision=int(number))

    write(8)
    return lambda: float(len(str(own))), write


@place
def limit_of_recursion() -> Place:
    base = sys.getrecursionlimit()
    return (
        lambda: float(sys.getrecursionlimit() - base),
        lambda number: sys.setrecursionlimit(base + int(number) - 1),
    )
