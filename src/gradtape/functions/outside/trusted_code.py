"""Which code is known: modules whose Python is not looked into, and C functions without effects.

A captured run may be replayed only if everything that it read is known. Code of gradtape, of NumPy
and of the pure parts of the standard library depends on its arguments alone, or tells the capture
what else it reads (variables, random generators, modes). Everything else counts as the user's.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
import types
from typing import Any

import numpy as np

from gradtape.recording.tells_changes import TellsChanges

# Modules, with what is below them, whose functions depend on their arguments alone. A longer name
# decides before a shorter one.
_MODULES: dict[str, bool] = {
    "gradtape": True,
    # Tensor code that reads attributes of the user's layers and optimisers: the user's, as it were.
    "gradtape.nn": False,
    "gradtape.optimizers": False,
    "gradtape.tf.keras": False,
    "numpy": True,
    "numpy.random": False,
    # What an array looks like as text depends on options of the process.
    "numpy._core.arrayprint": False,
    "numpy.core.arrayprint": False,
    "numpy.lib._npyio_impl": False,
    "numpy.lib.npyio": False,
    "scipy": True,
    "scipy.io": False,
    "scipy.stats": False,
    "llvmlite": True,
    **dict.fromkeys(
        (
            "abc", "_abc", "_collections_abc", "_weakrefset", "bisect", "cmath", "collections",
            "contextlib", "copy", "copyreg", "dataclasses", "enum", "fractions", "functools",
            "heapq", "itertools", "keyword", "math", "numbers", "operator", "re", "reprlib",
            "statistics", "textwrap", "types", "typing", "weakref", "sre_compile", "sre_parse",
            "_py_abc", "_operator", "_functools", "_collections", "_bisect", "_heapq", "_string",
            "_struct", "struct", "_sre", "_typing", "__future__",
        ),
        True,
    ),
}  # fmt: skip

# Built-ins that read what their arguments do not tell, or have effects.
_IMPURE_BUILTINS = frozenset(
    ("print", "input", "open", "exec", "eval", "compile", "breakpoint", "globals", "id",
     "help", "exit", "quit", "memoryview", "__import__")
)  # fmt: skip
# Built-ins that read or write attributes by names that are not written down in the code.
DYNAMIC_BUILTINS = frozenset(("getattr", "hasattr", "setattr", "delattr", "vars", "dir"))

# Methods of arrays that write files.
_FILE_METHODS = frozenset(("tofile", "dump"))
# Classes of C whose objects read attributes of others, by names that no code writes down.
_READERS = (operator.attrgetter, operator.methodcaller)

# The flag of classes that are made while the program runs, in Python or in C.
_HEAP_TYPE = 1 << 9


@functools.lru_cache(maxsize=4096)
def is_trusted_module(name: object) -> bool:
    """Whether the Python functions of a module need not be looked into."""
    if not isinstance(name, str):
        return False  # `__module__` of a class may be anything
    if name.startswith("namedtuple_"):
        return True  # the constructor of a named tuple
    while name:
        found = _MODULES.get(name)
        if found is not None:
            return found
        name = name.rpartition(".")[0]
    return False


def is_trusted_function(function: Any) -> bool:
    """Whether a Python function is one that need not be looked into.

    Its globals tell where it was written; `__module__` is copied by `functools.wraps`.
    """
    name = function.__globals__.get("__name__")
    return isinstance(name, str) and is_trusted_module(name)


def is_compiled(value: Any) -> bool:
    """Whether this is a function that Cython has compiled, in a module that is trusted."""
    return type(value).__name__ == "cython_function_or_method" and is_trusted_module(
        value.__module__ or ""
    )


def is_library_class(kind: type) -> bool:
    """Whether a class is one of gradtape's that tell a capture what they read."""
    return is_own_class(kind) and is_trusted_module(kind.__module__)


def what_it_may_do(name: str) -> str:
    """What is to be said of something of C that is not known to be pure."""
    if "random" in name.lower():
        return "which draws random numbers of Python or NumPy"
    return "which may give or do something else"


def tells_changes(value: Any) -> bool:
    """Whether an object announces all its changes.

    Classes of the user may write to the `__dict__` of an object, past the announcement.
    """
    return isinstance(value, TellsChanges) and is_own_class(type(value))


def is_own_class(kind: type) -> bool:
    """Whether a class is one of gradtape's, trusted or not."""
    module: object = kind.__module__
    return str(module).partition(".")[0] == "gradtape"


def is_pure_class(kind: type) -> bool:
    """Whether the C part of a class, which no observer sees running, has no hidden state."""
    base = c_base(kind)
    return base not in _READERS and (base.__module__ == "builtins" or _is_plain(base))


def reads_whole_objects(kind: type) -> bool:
    """Whether code that is not looked into reads attributes of such objects, whatever their names.

    The standard library does so where it has written a base, and where it or the library itself
    takes apart data classes.
    """
    if dataclasses.is_dataclass(kind) or c_base(kind) is not object:
        return True
    return any(
        is_trusted_module(each.__module__) and not is_library_class(each)
        for each in kind.__mro__
        if each is not object
    )


def is_standard(scope: dict[str, Any]) -> bool:
    """Whether these are the globals of a module of the standard library."""
    name = scope.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in sys.stdlib_module_names


def is_own_scope(scope: dict[str, Any]) -> bool:
    """Whether these are the globals of a module of gradtape, trusted or not."""
    name = scope.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "gradtape"


def is_impure_name(name: str) -> bool:
    """Whether a built-in of this name reads what its arguments do not tell, or has effects."""
    return name in _IMPURE_BUILTINS


def is_pure_builtin(function: Any) -> bool:
    """Whether a function of C depends on its arguments alone and leaves everything as it is.

    Methods that change a container count as pure: what is changed outside is found by looking.
    """
    owner = getattr(function, "__self__", None)
    if function is np.fromfile or (
        isinstance(owner, np.ndarray) and function.__name__ in _FILE_METHODS
    ):
        return False
    if owner is None or isinstance(owner, types.ModuleType):
        module = getattr(function, "__module__", None) or getattr(owner, "__name__", None) or ""
        if module == "builtins":
            return function.__name__ not in _IMPURE_BUILTINS
        return is_trusted_module(module)
    kind = owner if isinstance(owner, type) else type(owner)
    return _is_plain(kind)


def _is_plain(kind: type) -> bool:
    """Whether methods of a class of C change nothing but its objects.

    An object that was there before the run is found by looking; others are the run's own.
    """
    base = c_base(kind)
    return base.__module__ == "builtins" or is_trusted_module(base.__module__)


def c_base(kind: type) -> type:
    """The class of C that gives instances of a class their memory: `object` for most."""
    for each in kind.__mro__:
        if not _is_python_class(each):
            return each
    return object


def _is_python_class(kind: type) -> bool:
    """Whether a class was made by a `class` statement, as far as that can be told.

    Such a class has an entry for weak references or slots, or a base that has. A class of C that
    is taken for one would be a hidden state that is not seen, so the doubtful count as C.
    """
    if kind is object or not kind.__flags__ & _HEAP_TYPE:
        return False
    own = kind.__dict__
    if "__weakref__" in own or "__slots__" in own:
        return True
    made = (types.FunctionType, property, classmethod, staticmethod)
    return any(isinstance(entry, made) for entry in own.values()) or any(
        map(_is_python_class, kind.__bases__)
    )
