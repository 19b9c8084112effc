"""Which code is known: modules whose Python is not looked into, and C functions without effects.

A captured run may be replayed only if everything that it read is known. Code of gradtape, of NumPy
and of the pure parts of the standard library depends on its arguments alone, or tells the capture
what else it reads (variables, random generators, modes). Everything else counts as the user's.
"""

from __future__ import annotations

import functools
import types
from typing import Any

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
    "numpy.lib._npyio_impl": False,
    "numpy.lib.npyio": False,
    "scipy": True,
    "scipy.io": False,
    "scipy.stats": False,
    "llvmlite": True,
    **dict.fromkeys(
        (
            "abc", "_abc", "_collections_abc", "_weakrefset", "bisect", "cmath", "collections",
            "contextlib", "copy", "copyreg", "dataclasses", "decimal", "enum", "fractions",
            "functools", "genericpath", "heapq", "importlib", "itertools", "keyword", "math",
            "numbers", "operator", "posixpath", "re", "reprlib", "statistics", "string", "textwrap",
            "threading.local", "types", "typing", "warnings", "weakref", "zipimport", "sre_compile",
            "sre_parse", "_py_abc", "_operator", "_functools", "_collections", "_bisect", "_heapq",
            "_decimal", "_weakref", "_string", "_struct", "struct", "_sre", "_typing", "_warnings",
            "__future__", "ctypes", "_ctypes", "linecache", "tokenize", "traceback",
        ),
        True,
    ),
    "importlib.resources": False,
}  # fmt: skip

# Built-ins that read what their arguments do not tell, or have effects.
_IMPURE_BUILTINS = frozenset(
    ("print", "input", "open", "exec", "eval", "compile", "breakpoint", "globals",
     "help", "exit", "quit", "memoryview")
)  # fmt: skip
# Built-ins that read or write attributes by names that are not written down in the code.
DYNAMIC_BUILTINS = frozenset(("getattr", "hasattr", "setattr", "delattr", "vars", "dir"))

# The flag of classes that are made while the program runs, in Python or in C.
_HEAP_TYPE = 1 << 9

# Classes of C whose objects have no state besides what they show: containers, numbers, text.
_PLAIN_CLASSES = (
    bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range,
    slice, type(None), types.MappingProxyType, types.GenericAlias, types.SimpleNamespace,
    types.CellType, object, type, property, super,
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def is_trusted_module(name: str) -> bool:
    """Whether the Python functions of a module need not be looked into."""
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
    module = kind.__module__
    return module.partition(".")[0] == "gradtape" and is_trusted_module(module)


def what_it_may_do(name: str) -> str:
    """What is to be said of something of C that is not known to be pure."""
    if "random" in name.lower():
        return "which draws random numbers of Python or NumPy"
    return "which may give or do something else"


def tells_changes(value: Any) -> bool:
    """Whether an object announces all its changes.

    Classes of the user may write to the `__dict__` of an object, past the announcement.
    """
    module = type(value).__module__
    return isinstance(value, TellsChanges) and module.partition(".")[0] == "gradtape"


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
    if owner is None or isinstance(owner, types.ModuleType):
        module = getattr(function, "__module__", None) or getattr(owner, "__name__", None) or ""
        if module == "builtins":
            return function.__name__ not in _IMPURE_BUILTINS
        return is_trusted_module(module)
    kind = owner if isinstance(owner, type) else type(owner)
    return _is_plain(kind)


def _is_plain(kind: type) -> bool:
    """Whether the C part of a class has no hidden state."""
    base = c_base(kind)
    return base in _PLAIN_CLASSES or is_trusted_module(base.__module__)


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
