"""Names that a code object reads: globals, attributes and imports, found once in its bytecode."""

from __future__ import annotations

import dis
import importlib.util
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from gradtape.caches import remembered

_GLOBAL = frozenset(
    ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
)
_ATTRIBUTE = frozenset(
    ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM")
)
# Names with which code reads attributes that it writes down as text, or all of them.
_BY_TEXT = frozenset(
    (
        "getattr",
        "hasattr",
        "setattr",
        "delattr",
        "attrgetter",
        "methodcaller",
        "format",
        "format_map",
    )
)
# The same as functions, and as an attribute.
_ALL_BY_FUNCTIONS = frozenset(("vars", "dir", "asdict", "astuple", "fields", "replace"))
_ALL = "__dict__"
_SKIPPED = frozenset(("CACHE", "NOP", "RESUME", "PUSH_NULL", "PRECALL"))
# Bits of an argument below the number of the name.
_FLAG_BITS = {
    "LOAD_GLOBAL": 1,
    "LOAD_ATTR": int("LOAD_METHOD" not in dis.opmap),
    "LOAD_SUPER_ATTR": 2,
}
_NAMED = {
    number: _FLAG_BITS.get(name, 0) for name, number in dis.opmap.items() if number in dis.hasname
}

Chain = tuple[str, ...]


class Import(NamedTuple):
    """An import statement inside a function."""

    module: str
    level: int
    names: tuple[str, ...]

    def modules(self, package: str | None) -> Iterator[str]:
        """The full names of the modules that it may give."""
        name = "." * self.level + self.module
        try:
            found = importlib.util.resolve_name(name, package) if self.level else name
        except (ImportError, ValueError):
            return
        yield found
        for each in self.names:
            yield f"{found}.{each}"


class CodeNames(NamedTuple):
    """Names that one code object reads, on any path."""

    globals: frozenset[str]
    attributes: frozenset[str]
    # Attributes read straight from a global or an imported module, such as `np.random.normal`.
    chains: frozenset[Chain]
    imports: tuple[Import, ...]
    # The module that a local name stands for after an import inside the function.
    aliases: dict[str, Import]
    # Whether it may read all attributes of an object.
    all_attributes: bool


@remembered(4096)
def names_of(code: CodeType) -> CodeNames:
    """The names that a code object reads."""
    found: dict[str, set[str]] = {"globals": set(), "attributes": set()}
    chains: set[Chain] = set()
    chain: Chain = ()
    for operation, argument, name in instructions(code):
        if operation in _ATTRIBUTE:
            found["attributes"].add(name)
            chain = (*chain, name) if chain else ()
            continue
        chains.add(chain)
        chain = ()
        if operation in _GLOBAL:
            found["globals"].add(name)
            chain = (name,)
        elif operation == "LOAD_FAST" and argument < len(code.co_varnames):
            chain = (code.co_varnames[argument],)
        elif operation == "MATCH_CLASS":
            # `case Rate(number=1.0)` has its names among the constants.
            found["attributes"].update(_texts_of_tuples(code))
    chains.add(chain)
    read = found["globals"] | found["attributes"]
    if not _BY_TEXT.isdisjoint(read):
        found["attributes"].update(_texts(code))
    imports, aliases = _imports(code)
    return CodeNames(
        frozenset(found["globals"]),
        frozenset(found["attributes"]),
        frozenset(filter(None, chains)),
        imports,
        aliases,
        _ALL in read or not _ALL_BY_FUNCTIONS.isdisjoint(found["globals"]),
    )


def _imports(code: CodeType) -> tuple[tuple[Import, ...], dict[str, Import]]:
    """The imports inside a function, and the local names that stand for what they give."""
    imports: list[Import] = []
    aliases: dict[str, Import] = {}
    # The latest two constants: the level and the names of an import.
    constants: list[Any] = []
    latest: Import | None = None
    for operation, argument, name in instructions(code):
        if operation == "LOAD_CONST":
            constants = [*constants[-1:], code.co_consts[argument]]
        elif operation == "LOAD_SMALL_INT":
            constants = [*constants[-1:], argument]
        elif operation == "IMPORT_NAME":
            level, names = constants if len(constants) == 2 else (0, None)
            latest = Import(name, level if isinstance(level, int) else 0, tuple(names or ()))
            imports.append(latest)
        elif operation == "STORE_FAST" and latest is not None:
            if argument < len(code.co_varnames):
                aliases[code.co_varnames[argument]] = latest
            latest = None
    return tuple(imports), aliases


def _texts_of_tuples(code: CodeType) -> Iterator[str]:
    for each in code.co_consts:
        if isinstance(each, tuple):
            yield from (name for name in each if isinstance(name, str))


@remembered(1024)
def attributes_of(code: CodeType) -> CodeNames:
    """At least the attributes that a code object reads, without a scan of its bytecode."""
    attributes = set(code.co_names)
    if not _BY_TEXT.isdisjoint(attributes):
        attributes |= set(_texts(code))
    none = frozenset[Any]()
    all_of_them = _ALL in attributes or not _ALL_BY_FUNCTIONS.isdisjoint(attributes)
    return CodeNames(none, frozenset(attributes), none, (), {}, all_of_them)


def _texts(code: CodeType) -> Iterator[str]:
    for each in code.co_consts:
        if isinstance(each, str):
            yield from (part for part in each.replace("}", "{").split(".") if part.isidentifier())


def instructions(code: CodeType) -> Iterator[tuple[str, int, str]]:
    """The instructions of a code object: operation, argument, and the name that it stands for.

    `dis` also computes lines, jumps and texts of arguments, which takes ten times as long.
    """
    units, names, extended = code.co_code, code.co_names, 0
    for operation, low in zip(units[::2], units[1::2], strict=True):
        argument, extended = extended | low, 0
        if operation == dis.EXTENDED_ARG:
            extended = argument << 8
        elif (bits := _NAMED.get(operation)) is not None:
            yield dis.opname[operation], argument, names[argument >> bits]
        elif dis.opname[operation] not in _SKIPPED:
            yield dis.opname[operation], argument, ""


@remembered(256)
def unread_parameters(code: CodeType) -> frozenset[str]:
    """The parameters that code never reads."""
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = code.co_varnames[:count]
    read = {name for name in parameters if name in code.co_cellvars}
    for operation, argument, _ in instructions(code):
        if operation.startswith("LOAD_FAST") or "LOAD_FAST" in operation:
            read |= {code.co_varnames[n] for n in _locals_of(operation, argument, code)}
    return frozenset(parameters) - read


def _locals_of(operation: str, argument: int, code: CodeType) -> Iterator[int]:
    """The numbers of the local variables that an instruction reads; two in some instructions."""
    numbers = (argument >> 4, argument & 15) if operation.count("_FAST") > 1 else (argument,)
    return (number for number in numbers if number < len(code.co_varnames))


def line_of(code: CodeType, name: str) -> int | None:
    """The first line in which a code object mentions a name."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.positions is not None:
            return instruction.positions.lineno
    return None
