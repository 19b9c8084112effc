"""Functions and modules that the search meets: parts, closures, and what their code names."""

from __future__ import annotations

import builtins
import operator
import sys
import types
from types import CodeType
from typing import Any

from gradtape.jit.guards.names import Chain, attributes_of, names_of
from gradtape.jit.guards.search import MISSING, PARTS_OF_ONE, GuardSearch, class_entry

# Methods of arrays that write files.
_FILE_METHODS = frozenset(("tofile",))
_FUNCTION_TEXTS = frozenset(("__name__", "__qualname__", "__doc__", "__module__"))


def visit_function(search: GuardSearch, function: Any, label: str) -> None:
    scope = function.__globals__
    module = scope.get("__name__")
    search.enter(function.__dict__.get("__wrapped__"), label)
    if function.__code__ in search.callbacks:
        return
    if module == "gradtape.argument_checks":
        return  # it checks the arguments of the function that it wraps
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        search.enter(cell, name)
    for part in (function.__defaults__, function.__kwdefaults__):
        search.enter(part, f"a default of {label}")
    if not search.is_users(module):
        return
    is_own = str(module).startswith("gradtape.")
    if not is_own:
        if function.__closure__ is None:
            search.functions.append((function, label))
        else:
            read = PARTS_OF_ONE
            search.add(read, function, [label] * 3, how="function")
        search.look_again(lambda names: search.read_dict(function.__dict__, names, f"{label}."))
        search.look_again(lambda names: _read_texts(search, function, names, label))
    follow(search, function.__code__, scope, is_own)


def follow(search: GuardSearch, code: CodeType, scope: dict[str, Any], is_own: bool) -> None:
    """Look at what code names."""
    if code in search.guards.codes:
        return
    search.guards.codes[code] = None
    for each in code.co_consts:
        if isinstance(each, CodeType) and each not in search.callbacks:
            follow(search, each, scope, is_own)
    names = attributes_of(code) if is_own else names_of(code)
    if code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__"):
        # The methods of a dataclass name all fields, and call none of them.
        search.compared_only |= names.attributes
        return
    search.note_names(names.attributes)
    if names.all_attributes:
        search.note_all_names(is_own)
    if is_own:
        return  # nobody assigns to globals of the library's modules
    if "type" in names.globals:
        search.found.asks_for_types = True
    written = sorted(names.attributes & _FILE_METHODS)
    if written and search.found.never is None:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        search.found.never = ("reads or writes a file", written[0], where)
    _read_globals(search, scope, names.globals)
    package = scope.get("__package__")
    for each in names.imports:
        for name in each.modules(package):
            _import(search, name)
    starts = {name: scope[name] for name in names.globals if name in scope}
    for local, each in names.aliases.items():
        starts[local] = sys.modules.get(next(each.modules(package), ""))
    for chain in names.chains:
        if chain[0] in starts:
            _resolve(search, starts[chain[0]], chain, code)


def _import(search: GuardSearch, name: str) -> None:
    found = sys.modules.get(name)
    if found is not None:
        search.add_items(sys.modules, [name], "")
        search.enter(found, name)
        return
    module, _, attribute = name.rpartition(".")
    holder = sys.modules.get(module)
    if holder is not None and attribute in vars(holder):
        search.never(vars(holder)[attribute], name)
        if search.is_users(module):
            search.add_items(vars(holder), [attribute], f"{module}.")


def _read_globals(search: GuardSearch, scope: dict[str, Any], names: frozenset[str]) -> None:
    # No source has names with an @: they are those of rewritten assertions.
    known = [name for name in sorted(names) if name in scope and name[0] != "@"]
    search.add_items(scope, known, "")
    builtin = scope.get("__builtins__", builtins)
    held = builtin if isinstance(builtin, dict) else vars(builtin)
    others = [name for name in sorted(names) if name not in scope]
    search.add_items(held, [name for name in others if name in held], "")
    if others:
        search.add_absent(_same, scope, frozenset(others), "")
    if "globals" in names:
        search.enter(scope, "globals()")


def _resolve(search: GuardSearch, value: Any, chain: Chain, code: CodeType) -> None:
    for position, name in enumerate(chain[1:], start=2):
        # Not by getattr, which may run code of the user's.
        if isinstance(value, types.ModuleType):
            value = vars(value).get(name, MISSING)
        elif isinstance(value, type):
            entry = class_entry(value, name)
            bound = isinstance(entry, (classmethod, types.ClassMethodDescriptorType))
            value = entry.__get__(None, value) if bound else entry
        else:
            return
        if value is not MISSING:
            search.never(value, ".".join(chain[:position]), code)


def _read_texts(search: GuardSearch, function: Any, names: set[str], label: str) -> None:
    """The name of a function, and other texts that code may read of it."""
    for name in sorted(names & _FUNCTION_TEXTS):
        search.add(operator.attrgetter(name, name), function, [f"{label}.{name}"])


def visit_module(search: GuardSearch, module: Any, label: str) -> None:
    if search.is_users(module.__name__):
        held = vars(module)
        search.look_again(lambda names: search.read_dict(held, names, f"{label}."))
        search.read_dict(held, {"__getattr__"}, f"{label}.")
        search.add_absent(vars, module, search.names, label)


def visit_cell(search: GuardSearch, cell: types.CellType, label: str) -> None:
    try:
        content = cell.cell_contents
    except ValueError:
        return
    search.add(operator.attrgetter("cell_contents", "cell_contents"), cell, [label], how="cell")
    search.never(content, label)
    search.enter(content, label)


def _same(scope: Any) -> Any:
    return scope
