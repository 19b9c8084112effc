"""Names outside: globals, cells, modules, built-ins."""

from __future__ import annotations

import sys
import types

from tests.jit.outside.scenarios import Place, place

GLOBAL = 1.0


@place
def global_name() -> Place:
    def write(number):
        global GLOBAL
        GLOBAL = number

    write(1.0)
    return lambda: GLOBAL, write


@place
def closure_cell() -> Place:
    number = 1.0

    def write(new):
        nonlocal number
        number = new

    return lambda: number, write


@place
def module_attribute() -> Place:
    module = types.ModuleType("settings_of_a_test")
    module.number = 1.0
    return lambda: module.number, lambda number: setattr(module, "number", number)


@place
def imported_inside() -> Place:
    module = types.ModuleType("settings_imported_inside")
    module.number = 1.0
    sys.modules[module.__name__] = module

    def read():
        import settings_imported_inside

        return settings_imported_inside.number

    return read, lambda number: setattr(module, "number", number)


@place
def name_imported_inside() -> Place:
    module = types.ModuleType("settings_named_inside")
    module.number = 1.0
    sys.modules[module.__name__] = module

    def read():
        from settings_named_inside import number

        return number

    return read, lambda number: setattr(module, "number", number)


@place
def built_in_hidden() -> Place:
    space = {}
    exec("def read(): return float(abs(-1.0))", space)
    return space["read"], lambda number: space.__setitem__("abs", lambda _: number)


@place
def new_global() -> Place:
    space = {}
    exec(
        "def read():\n    try:\n        return late\n    except NameError:\n        return 1.0",
        space,
    )
    return space["read"], lambda number: space.__setitem__("late", number)


@place
def name_with_here() -> Place:
    space = {"where_here_there": 1.0}
    exec("def read(): return where_here_there", space)
    return space["read"], lambda number: space.__setitem__("where_here_there", number)
