"""Names that code reads, found once in its bytecode; and which objects are never replayed.

Two equal runs prove nothing about a function that draws random numbers of others, moves iterators
on, reads clocks or files, or prints: it may draw another number, or take a branch that is rare. So
a function that names one of these runs in Python.
"""

from __future__ import annotations

import datetime
import dis
import importlib.util
import sys
import types
import weakref
from collections.abc import Iterator, Set
from types import CodeType
from typing import Any, NamedTuple

from gradtape.caches import remembered

_GLOBAL = frozenset(
    (
        "LOAD_GLOBAL",
        "LOAD_NAME",
        "STORE_GLOBAL",
        "DELETE_GLOBAL",
        "LOAD_FROM_DICT_OR_GLOBALS",
    )
)
_ATTRIBUTE = frozenset(
    (
        "LOAD_ATTR",
        "LOAD_METHOD",
        "LOAD_SUPER_ATTR",
        "STORE_ATTR",
        "DELETE_ATTR",
        "IMPORT_FROM",
    )
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

NameChain = tuple[str, ...]


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
    chains: frozenset[NameChain]
    imports: tuple[Import, ...]
    # The module that a local name stands for after an import inside the function.
    aliases: dict[str, Import]
    # Whether it may read all attributes of an object.
    all_attributes: bool


@remembered(4096)
def names_of(code: CodeType) -> CodeNames:
    """The names that a code object reads."""
    global_names, attributes = set[str](), set[str]()
    chains: set[NameChain] = set()
    chain: NameChain = ()
    imports: list[Import] = []
    aliases: dict[str, Import] = {}
    # The latest two constants: the level and the names of an import.
    constants: list[Any] = []
    latest: Import | None = None
    for operation, argument, name in instructions(code):
        if operation in _ATTRIBUTE:
            attributes.add(name)
            chain = (*chain, name) if chain else ()
            continue
        chains.add(chain)
        chain = ()
        if operation in _GLOBAL:
            global_names.add(name)
            chain = (name,)
        elif operation == "LOAD_FAST" and argument < len(code.co_varnames):
            chain = (code.co_varnames[argument],)
        elif operation == "MATCH_CLASS":
            # `case Rate(number=1.0)` has its names among the constants.
            attributes.update(_texts_of_tuples(code))
        elif operation in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constant = code.co_consts[argument] if operation == "LOAD_CONST" else argument
            constants = [*constants[-1:], constant]
        elif operation == "IMPORT_NAME":
            level, names = constants if len(constants) == 2 else (0, None)
            latest = Import(name, level if isinstance(level, int) else 0, tuple(names or ()))
            imports.append(latest)
        elif operation == "STORE_FAST" and latest is not None:
            if argument < len(code.co_varnames):
                aliases[code.co_varnames[argument]] = latest
            latest = None
    chains.add(chain)
    read = global_names | attributes
    if not _BY_TEXT.isdisjoint(read):
        attributes.update(_texts(code))
    return CodeNames(
        frozenset(global_names),
        frozenset(attributes),
        frozenset(filter(None, chains)),
        tuple(imports),
        aliases,
        _ALL in read or not _ALL_BY_FUNCTIONS.isdisjoint(global_names),
    )


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
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    read = set(code.co_cellvars)
    for operation, argument, _ in instructions(code):
        if "LOAD_FAST" in operation:
            # Some instructions read two local variables.
            pair = (argument >> 4, argument & 15)
            numbers = pair if operation.count("_FAST") > 1 else (argument,)
            read |= {code.co_varnames[each] for each in numbers if each < len(code.co_varnames)}
    return frozenset(parameters) - read


def line_of(code: CodeType, name: str) -> int | None:
    """The first line in which a code object mentions a name."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.positions is not None:
            return instruction.positions.lineno
    return None


# Effects that a replay cannot repeat.

# Modules whose functions draw random numbers, read clocks, or write logs.
_MODULES = {
    "random": "draws random numbers of Python",
    "_random": "draws random numbers of Python",
    "secrets": "draws random numbers of the system",
    "uuid": "draws random numbers of the system",
    "numpy.random": "draws random numbers of NumPy",
    "scipy.stats._qmc": "draws random numbers of SciPy",
    "time": "reads a clock",
    "logging": "writes a log",
    "warnings": "issues a warning",
    "_warnings": "issues a warning",
    "tempfile": "makes files",
    "glob": "reads the file system",
    "shutil": "changes files",
    "subprocess": "runs another program",
    "socket": "uses the network",
}
_BUILTINS = {
    "print": "prints",
    "open": "opens a file",
    "input": "reads from the terminal",
    "breakpoint": "stops in a debugger",
    "id": "depends on where objects lie in memory",
}
# Classes whose objects are never used in a replay, by name: none of them has to be imported.
_CLASSES = {
    "random.Random": "draws random numbers of Python",
    "_random.Random": "draws random numbers of Python",
    "logging.Logger": "writes a log",
    "logging.LoggerAdapter": "writes a log",
    "_io._IOBase": "reads or writes a file",
    "queue.Queue": "uses a queue",
    "_queue.SimpleQueue": "uses a queue",
    "multiprocessing.queues.Queue": "uses a queue",
    "os._Environ": "reads the environment of the process",
    "_contextvars.ContextVar": "reads a context variable",
}
_CLOCK_METHODS = frozenset(("now", "utcnow", "today"))
_PURE_OF_OS = frozenset(("fspath", "fsencode", "fsdecode", "cpu_count", "getpid"))
_FILES_OF_NUMPY = frozenset(
    (
        "fromfile",
        "load",
        "loadtxt",
        "genfromtxt",
        "save",
        "savez",
        "savetxt",
        "memmap",
    )
)
_PATH_METHODS = frozenset(
    (
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "open",
        "exists",
        "stat",
        "iterdir",
        "glob",
        "rglob",
        "is_file",
        "is_dir",
        "mkdir",
        "unlink",
        "touch",
    )
)

REMEDY = "Pass what it gives as an argument, or do it outside of the function"
REMEDIES = {
    "draws": "Use gt.random, or draw outside and pass the numbers as an argument",
    "prints": "Use gt.print, or print outside of the function",
}


def module_of(kind: type) -> str:
    """The name of the module of a class; some classes of C have none."""
    found: object = kind.__module__
    return found if isinstance(found, str) else ""


def remedy_for(reason: str) -> str:
    """The remedy for a reason of `why_never`."""
    return REMEDIES.get(reason.partition(" ")[0], REMEDY)


def why_never(value: Any, names: Set[str] = frozenset()) -> str | None:
    """Why a call that uses this cannot be replayed; None if it can.

    `names` are attributes that the code reads.
    """
    if isinstance(value, types.BuiltinFunctionType):
        return _why_builtin(value)
    if isinstance(value, types.FunctionType):
        return _of_module(value.__globals__.get("__name__"), value.__name__)
    if isinstance(value, types.MethodType):
        return why_never(value.__self__, names) or why_never(value.__func__, names)
    if isinstance(value, type):
        if module_of(value) in ("pathlib", "pathlib._local"):
            return None if _PATH_METHODS.isdisjoint(names) else "reads or writes a file"
        return _of_module(getattr(value, "__module__", None), value.__name__)
    if isinstance(value, types.ModuleType):
        return None
    if type(value).__name__ in ("cython_function_or_method", "fused_cython_function"):
        owner = getattr(value, "__self__", None)
        found = _of_module(value.__module__, value.__name__)
        return found if owner is None else found or _why_object(owner, names)
    return _why_object(value, names)


def _why_builtin(function: Any) -> str | None:
    owner = function.__self__
    name = function.__name__
    if isinstance(owner, types.ModuleType):
        if owner.__name__ in ("builtins", "io", "_io"):
            return _BUILTINS.get(name)
        return _of_module(owner.__name__, name)
    if isinstance(owner, type):
        is_clock = name in _CLOCK_METHODS and issubclass(owner, datetime.date)
        return "reads a clock" if is_clock else None
    if owner is None:
        return _of_module(function.__module__, name)
    return _why_object(owner, frozenset())


def _of_module(module: Any, name: str) -> str | None:
    if not isinstance(module, str):
        return None
    if module in ("os", "posix", "nt", "posixpath", "genericpath"):
        reads_files = "path" not in module or name.startswith(("exists", "is", "get", "lexists"))
        return "reads the system" if reads_files and name not in _PURE_OF_OS else None
    if module.startswith("numpy") and name in _FILES_OF_NUMPY:
        return "reads or writes a file"
    while module:
        found = _MODULES.get(module)
        if found is not None:
            return found
        module = module.rpartition(".")[0]
    return None


_kinds: weakref.WeakKeyDictionary[type, tuple[str | None, bool]] = weakref.WeakKeyDictionary()


def _why_object(value: Any, names: Set[str]) -> str | None:
    found = _kinds.get(type(value))
    if found is None:
        found = _kinds[type(value)] = _why_kind(type(value))
    reason, is_path = found
    if is_path:
        return None if _PATH_METHODS.isdisjoint(names) else "reads or writes a file"
    return reason


def _why_kind(kind: type) -> tuple[str | None, bool]:
    """Why objects of a class are never used in a replay; and whether they are paths of files."""
    for each in kind.__mro__:
        module = module_of(each)
        found = _CLASSES.get(f"{module}.{each.__name__}")
        if found is not None:
            return found, False
        if module.startswith("numpy.random"):
            return "draws random numbers of NumPy", False
        if module.startswith("pathlib"):
            return None, True
    return ("moves an iterator on" if hasattr(kind, "__next__") else None), False


def states_of_global_generators() -> tuple[Any, ...]:
    """The states of the generators behind `random` and `np.random`: a run may draw from them."""
    numpy_random = sys.modules.get("numpy.random")
    python_random = sys.modules.get("random")
    ours = None if python_random is None else python_random.getstate()
    if numpy_random is None:
        return (ours,)
    name, keys, *rest = numpy_random.get_state()
    return ours, name, keys.tobytes(), rest
