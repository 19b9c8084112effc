"""What a replay cannot repeat: random generators of others, iterators, clocks, files, printing.

Two equal runs prove nothing about a function that uses one of these: it may draw another number, or
take a branch that is rare. So a function that names one of these runs in Python.
"""

from __future__ import annotations

import datetime
import sys
import types
import weakref
from collections.abc import Set
from typing import Any

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
    ("fromfile", "load", "loadtxt", "genfromtxt", "save", "savez", "savetxt", "memmap")
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
    """What the user can do about a reason of `why_never`."""
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
