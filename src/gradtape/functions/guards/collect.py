"""Collect: find what a function names outside itself, and make guards of it.

The search starts from the function and its static arguments. It follows functions of the user by
the globals, closure cells, defaults and attributes that their code names; other installed packages
are trusted. Names do not tell which object an attribute is read from, so a name is looked up on
every object that was found. The search is bounded: a guard that is missing is no error, because
replays are checked by running the function again.
"""

from __future__ import annotations

import abc
import builtins
import collections
import functools
import itertools
import operator
import os
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from types import CodeType
from typing import Any

import numpy as np

from gradtape.functions.guards.guards import PLAIN, Absent, ArrayContent, Guards, Row, dictionary_of
from gradtape.functions.guards.names import Chain, attributes_of, names_of
from gradtape.functions.guards.never_replayed import module_of, why_never
from gradtape.graph.op import Op
from gradtape.process.interrupts import is_interrupt
from gradtape.pytree import registered
from gradtape.recording.tells_changes import TellsChanges
from gradtape.tensor.generator import Generator
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# So many objects are looked at, and so many entries of one container are compared.
MOST_OBJECTS = 600
MOST_ENTRIES = 1000

_MISSING = object()
# The flag of classes that are made while the program runs.
_HEAP_TYPE = 1 << 9
_SINGLE = (type(None), bool, type(...), type(NotImplemented), *PLAIN)
_FUNCTION_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
_PARTS = {name: operator.attrgetter(name) for name in _FUNCTION_PARTS}
_NO_ENTRIES = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__"))
# Methods of arrays that write files.
_FILE_METHODS = frozenset(("tofile",))
_FUNCTION_TEXTS = frozenset(("__name__", "__qualname__", "__doc__", "__module__"))
# Special methods that run while objects are made, copied or deleted.
_MAKERS = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__del__",
           "__reduce__", "__getstate__", "__setstate__")  # fmt: skip
# Attributes of wrappers that hold what they wrap.
_WRAPPERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (functools.partial, ("func", "args", "keywords")),
    (functools.partialmethod, ("func", "args", "keywords")),
    (functools.cached_property, ("func",)),
    (property, ("fget", "fset", "fdel")),
    (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)),
)
# Packages of the library whose code reads attributes of the user's objects: layers, optimisers.
_FOLLOWED_PACKAGES = ("gradtape.nn", "gradtape.optimizers", "gradtape.tf.keras")
_INSTALLED = tuple(
    os.path.realpath(path) + os.sep
    for key, path in sysconfig.get_paths().items()
    if key in ("stdlib", "platstdlib", "purelib", "platlib")
)


class Found:
    """The guards of a function, and what else the search has met."""

    def __init__(self) -> None:
        self.guards = Guards()
        # Why calls are never replayed: the reason, what is named, and where.
        self.never: tuple[str, str, str] | None = None
        # Whether the user's code asks for the type of something: numbers are plain then.
        self.asks_for_types = False
        # Tensors that the function can reach, and the ids of lists and dicts that are outside.
        self.tensors: list[weakref.ref[Tensor]] = []
        self.containers: set[int] = set()


def collect(
    function: Callable[..., Any],
    arguments: Iterable[tuple[str, Any]],
    callbacks: Collection[CodeType] = (),
) -> Found:
    """What a function reads by name besides its inputs; `arguments` are the static ones.

    The code of `callbacks` is not followed: replays run it.
    """
    search = _Search(function, callbacks)
    search.enter(function, getattr(function, "__qualname__", "the function"))
    for label, argument in arguments:
        search.enter(argument, label)
    search.run()
    return search.found


@functools.lru_cache(maxsize=4096)
def _is_installed(top: str) -> bool:
    """Whether a package is one of Python or an installed one, whose insides are trusted."""
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return top != "__main__"
    found = sys.modules.get(top)
    # Not by getattr, which may run code of the module.
    path = None if found is None else vars(found).get("__file__")
    if not isinstance(path, str):
        return False
    return os.path.realpath(path).startswith(_INSTALLED)


class _Names(set[str]):
    """The attributes that code reads, as far as it was followed; or any."""

    is_all = False

    def __contains__(self, name: object) -> bool:
        return self.is_all or set.__contains__(self, name)


class _Search:
    def __init__(self, function: Any, callbacks: Collection[CodeType]) -> None:
        self._callbacks = callbacks
        self.found = Found()
        self._guards = self.found.guards
        module = getattr(function, "__module__", None)
        # The package of the function itself is the user's, wherever it lies.
        self._own_package = module.partition(".")[0] if isinstance(module, str) else ""
        self._names = _Names(("__class__",))
        self._fresh: set[str] = set()
        self._all = self._all_own = False
        self._pending: collections.deque[tuple[Any, str]] = collections.deque()
        # What was met, by id, kept so that no id is used twice; and how it is looked at again when
        # new names come up.
        self._met: dict[int, Any] = {}
        self._again: list[Callable[[set[str]], None]] = []
        self._classes: set[type] = set()
        # Functions without a closure: one row compares all of them.
        self._functions: list[tuple[Any, str]] = []
        self._registrations = False

    def is_users(self, module: Any) -> bool:
        """Whether code of a module is looked through."""
        if not isinstance(module, str):
            return True
        top = module.partition(".")[0]
        if top == "gradtape":
            return module.startswith(_FOLLOWED_PACKAGES)
        return top == self._own_package or not _is_installed(top)

    def is_foreign(self, module: Any) -> bool:
        """Whether a module is neither the user's nor the library's."""
        own = isinstance(module, str) and module.partition(".")[0] == "gradtape"
        return not own and not self.is_users(module)

    def enter(self, value: Any, label: str) -> None:
        """Look at a value later."""
        if value is vars(builtins):
            return
        if type(value) not in _SINGLE and not isinstance(value, (np.dtype, np.ufunc)):
            self._pending.append((value, label))

    def run(self) -> None:
        """Look at everything that was found."""
        while True:
            while self._pending and len(self._met) < MOST_OBJECTS:
                value, label = self._pending.popleft()
                if id(value) not in self._met:
                    self._met[id(value)] = value
                    try:
                        self._visit(value, label)
                    except Exception as error:
                        # An object may refuse to be looked at: the others have their guards.
                        if is_interrupt(error):
                            raise
            if not self._fresh:
                break
            fresh, self._fresh = self._fresh, set()
            for look in list(self._again):
                look(fresh)
        if self._functions:
            functions, labels = zip(*self._functions, strict=True)
            parts = [*labels] * len(_FUNCTION_PARTS)
            self._add(_parts_of_all, functions, parts, how="functions")
        # The functions that look again hold what they look at, and this search.
        self._again, self._met = [], {}

    # Guards.

    def _add(
        self,
        read: Callable[[Any], Any],
        holder: Any,
        labels: list[str] | str,
        announced: bool = False,
        how: str = "",
        names: Sequence[str] = (),
    ) -> list[Any]:
        """Compare what is read of a holder from now on; returns what is there."""
        try:
            values = [*read(holder)]
        except Exception:
            return []  # a guard that cannot be made is none
        row = Row(read, holder, values, labels, self._guards.holders, how, names)
        (self._guards.announced if announced else self._guards.rows).append(row)
        return values

    def _add_absent(
        self, read: Callable[[Any], Any], holder: Any, names: Set[str], label: str
    ) -> None:
        """Notice when one of these names comes to a dictionary that does not have it."""
        self._guards.absent.append(Absent(read, holder, names, label, self._guards.holders))

    def _add_items(self, held: Any, names: list[str], label: str) -> None:
        """Compare entries of a dictionary, and look at them."""
        if names:
            read = operator.itemgetter(*names, *names[: len(names) == 1])
            labels = [f"{label}{name}" for name in names]
            seen = self._add(read, held, labels, how="entries", names=names)
            for name, value in zip(labels, seen, strict=False):
                self.enter(value, name)

    def _never(self, value: Any, label: str, code: CodeType | None = None) -> None:
        if self.found.never is None:
            reason = why_never(value, self._names)
            if reason is not None:
                where = self._guards.line(label)
                if not where and code is not None:
                    where = f"{code.co_filename}:{code.co_firstlineno}"
                self.found.never = (reason, label, where)

    # What was found.

    def _visit(self, value: Any, label: str) -> None:
        kind = type(value)
        self._never(value, label)
        if isinstance(value, types.FunctionType):
            self._visit_function(value, label)
        elif isinstance(value, types.ModuleType):
            self._visit_module(value, label)
        elif isinstance(value, type):
            self._visit_class(value)
            self._visit_makers(value)
        elif isinstance(value, (types.MethodType, types.MethodWrapperType)):
            self.enter(getattr(value, "__func__", None), label)
            self.enter(value.__self__, label)
        elif isinstance(value, types.BuiltinFunctionType):
            if not isinstance(value.__self__, (types.ModuleType, type)):
                self.enter(value.__self__, label)
        elif isinstance(value, (Tensor, Generator)):
            if isinstance(value, Tensor):
                self.found.tensors.append(weakref.ref(value))
        elif isinstance(value, np.ndarray):
            if value.dtype.kind != "O":
                self._guards.arrays[id(value)] = ArrayContent(value, label)
            else:
                self.enter(value.tolist(), label)
        elif isinstance(value, types.CellType):
            self._visit_cell(value, label)
        elif isinstance(value, weakref.ref):
            # The guards are dropped when the object is gone.
            target = value()
            self._guards.holders.hold(target)
            self.enter(target, label)
        elif isinstance(value, types.CodeType):
            pass
        else:
            self._visit_contents(value, label)
            for wrapper, parts in _WRAPPERS:
                if isinstance(value, wrapper) and not _is_of_library(value):
                    self._add_attributes(value, parts, label)
            if isinstance(value, functools._lru_cache_wrapper):
                self.enter(value.__wrapped__, label)
            module = module_of(kind)
            if isinstance(value, Variable) or (
                isinstance(module, str)
                and module.partition(".")[0] == "gradtape"
                and not self.is_users(module)
            ):
                self._visit_held(value, label)
            if isinstance(value, (Op, Variable)):
                held = dictionary_of(value)
                if held is not None and isinstance(value, Variable):
                    self._look_again(lambda names: self._read_dict(held, names, f"{label}."))
                return
            self._visit_attributes(value, label)
            self._visit_class(kind)

    def _add_attributes(self, value: Any, names: tuple[str, ...], label: str) -> None:
        labels = [f"{label}.{name}" for name in names]
        read = operator.attrgetter(*names, *names[: len(names) == 1])
        for name, part in zip(labels, self._add(read, value, labels), strict=False):
            self.enter(part, name)

    def _visit_function(self, function: Any, label: str) -> None:
        scope = function.__globals__
        module = scope.get("__name__")
        self.enter(function.__dict__.get("__wrapped__"), label)
        if function.__code__ in self._callbacks:
            return
        if module == "gradtape.graph.public_face":
            return  # it checks the arguments of the function that it wraps
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            self.enter(cell, name)
        for part in (function.__defaults__, function.__kwdefaults__):
            self.enter(part, f"a default of {label}")
        if not self.is_users(module):
            return
        is_own = str(module).startswith("gradtape.")
        if not is_own:
            if function.__closure__ is None:
                self._functions.append((function, label))
            else:
                read = operator.attrgetter(*_FUNCTION_PARTS)
                self._add(read, function, [label] * 3, how="function")
            self._look_again(lambda names: self._read_dict(function.__dict__, names, f"{label}."))
            self._look_again(lambda names: self._read_texts(function, names, label))
        self._follow(function.__code__, scope, is_own)

    def _follow(self, code: CodeType, scope: dict[str, Any], is_own: bool) -> None:
        """Look at what code names."""
        if code in self._guards.codes:
            return
        self._guards.codes[code] = None
        for each in code.co_consts:
            if isinstance(each, CodeType) and each not in self._callbacks:
                self._follow(each, scope, is_own)
        names = attributes_of(code) if is_own else names_of(code)
        new = names.attributes - self._names
        self._names |= new
        self._fresh |= new
        # The library's own code reads all attributes of its own objects only.
        is_first = names.all_attributes and not (self._all_own if is_own else self._all)
        self._all_own |= names.all_attributes
        self._all |= names.all_attributes and not is_own
        self._names.is_all = self._all
        if "type" in names.globals and not is_own:
            self.found.asks_for_types = True
        written = names.attributes & _FILE_METHODS
        if written and self.found.never is None and not is_own:
            where = f"{code.co_filename}:{code.co_firstlineno}"
            self.found.never = ("reads or writes a file", sorted(written)[0], where)
        if is_first:
            for look in list(self._again):
                look(set())
        if not is_own:
            self._read_globals(scope, names.globals)
            for chain in names.chains:
                self._read_chain(scope, chain, code)
            package = scope.get("__package__")
            modules = [each for one in names.imports for each in one.modules(package)]
            aliases = {
                local: next(one.modules(package), "") for local, one in names.aliases.items()
            }
            for name in modules:
                self._import(name)
            for chain in names.chains:
                if chain[0] in aliases:
                    self._resolve(sys.modules.get(aliases[chain[0]]), chain, code)

    def _import(self, name: str) -> None:
        found = sys.modules.get(name)
        if found is not None:
            self._add_items(sys.modules, [name], "")
            self.enter(found, name)
            return
        module, _, attribute = name.rpartition(".")
        holder = sys.modules.get(module)
        if holder is not None and attribute in vars(holder):
            self._never(vars(holder)[attribute], name)
            if self.is_users(module):
                self._add_items(vars(holder), [attribute], f"{module}.")

    def _read_globals(self, scope: dict[str, Any], names: frozenset[str]) -> None:
        # No source has names with an @: they are those of rewritten assertions.
        known = [name for name in sorted(names) if name in scope and name[0] != "@"]
        self._add_items(scope, known, "")
        builtin = scope.get("__builtins__", builtins)
        held = builtin if isinstance(builtin, dict) else vars(builtin)
        others = [name for name in sorted(names) if name not in scope]
        self._add_items(held, [name for name in others if name in held], "")
        if others:
            self._add_absent(_same, scope, frozenset(others), "")
        if "globals" in names:
            self.enter(scope, "globals()")

    def _read_chain(self, scope: dict[str, Any], chain: Chain, code: CodeType) -> None:
        """Find clocks, generators and files behind attributes of modules."""
        start = scope.get(chain[0], _MISSING)
        if start is not _MISSING:
            self._resolve(start, chain, code)

    def _resolve(self, value: Any, chain: Chain, code: CodeType) -> None:
        for position, name in enumerate(chain[1:], start=2):
            # Not by getattr, which may run code of the user's.
            if isinstance(value, types.ModuleType):
                value = vars(value).get(name, _MISSING)
            elif isinstance(value, type):
                entry = _class_entry(value, name)
                bound = isinstance(entry, (classmethod, types.ClassMethodDescriptorType))
                value = entry.__get__(None, value) if bound else entry
            else:
                return
            if value is not _MISSING:
                self._never(value, ".".join(chain[:position]), code)

    def _look_again(self, look: Callable[[set[str]], None]) -> None:
        """Look at an object for the names known so far, and for later ones when they come up."""
        done: set[str] = set()

        def once(names: set[str]) -> None:
            new = names - done
            done.update(new)
            look(new)

        self._again.append(once)
        once(set(self._names))

    def _read_dict(self, held: Any, names: set[str], label: str) -> None:
        found = [*held] if self._all else sorted(names.intersection(held))
        self._add_items(held, [name for name in found if isinstance(name, str)], label)

    def _read_texts(self, function: Any, names: set[str], label: str) -> None:
        """The name of a function, and other texts that code may read of it."""
        for name in sorted(names & _FUNCTION_TEXTS):
            self._add(operator.attrgetter(name, name), function, [f"{label}.{name}"])

    def _visit_module(self, module: Any, label: str) -> None:
        if self.is_users(module.__name__):
            held = vars(module)
            self._look_again(lambda names: self._read_dict(held, names, f"{label}."))
            self._read_dict(held, {"__getattr__"}, f"{label}.")
            self._add_absent(vars, module, self._names, label)

    def _visit_cell(self, cell: types.CellType, label: str) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            return
        self._add(operator.attrgetter("cell_contents", "cell_contents"), cell, [label], how="cell")
        self._never(content, label)
        self.enter(content, label)

    def _visit_contents(self, value: Any, label: str) -> None:
        """Lists, dicts, sets and their subclasses: what they hold, in its order."""
        reads: tuple[Callable[[Any], Any], ...]
        if isinstance(value, dict):
            self.found.containers.add(id(value))
            reads = (dict.keys, dict.values)
            size = dict.__len__(value)
        elif isinstance(value, list):
            self.found.containers.add(id(value))
            reads, size = (list.copy,), list.__len__(value)
        elif isinstance(value, tuple):
            for number, item in enumerate(itertools.islice(tuple.__iter__(value), MOST_ENTRIES)):
                self.enter(item, f"{label}[{number}]")
            return
        elif isinstance(value, (set, frozenset)):
            reads, size = (_elements,), len(_elements(value))
        elif isinstance(value, collections.deque):
            reads, size = (collections.deque.copy,), collections.deque.__len__(value)
        elif isinstance(value, (bytearray, memoryview)) or _is_memory(type(value)):
            reads, size = (_bytes_of,), 1
        elif isinstance(value, types.MappingProxyType):
            reads, size = (_entries,), len(_entries(value))
        else:
            return
        if size > MOST_ENTRIES:
            return
        for read in reads:
            how = _WAYS.get(read, "")
            for number, item in enumerate(self._add(read, value, label, how=how)):
                self.enter(item, f"{label}[{number}]")

    def _visit_attributes(self, value: Any, label: str) -> None:
        """Attributes of an instance by the names that code reads."""
        kind = type(value)
        if isinstance(kind.__getattribute__, types.FunctionType):
            # Reading an attribute would run the user's code.
            held = dictionary_of(value)
            if held is not None:
                self._look_again(lambda names: self._read_dict(held, names, f"{label}."))
            return
        told = isinstance(value, (TellsChanges, Variable)) and module_of(kind).startswith(
            "gradtape."
        )
        if isinstance(value, TellsChanges) and not told:
            # A class of the user may write to the `__dict__`, past the announcement.
            told = kind.__setattr__ is TellsChanges.__setattr__

        # Code of the standard library and of installed packages is not looked through.
        is_foreign = any(
            each is not object
            and module_of(each) != "builtins"
            and self.is_foreign(module_of(each))
            for each in kind.__mro__
        )

        entries = frozenset().union(*[vars(each) for each in kind.__mro__])
        if not kind.__flags__ & _HEAP_TYPE:
            # Objects of built-in classes keep their class; their methods do not change.
            entries = frozenset()
            if dictionary_of(value) is None:
                return

        def look(names: set[str]) -> None:
            held = dictionary_of(value) or {}
            whole = self._all or (self._all_own and isinstance(value, TellsChanges))
            of_class = names & entries
            found = of_class.union(held) if whole or is_foreign else of_class | names & held.keys()
            plain = []
            for name in sorted(each for each in found if isinstance(each, str)):
                entry = _class_entry(kind, name) if name in entries else _MISSING
                if name == "__class__" or entry is _MISSING:
                    plain.append(name)
                elif isinstance(entry, types.MemberDescriptorType):
                    if _has(value, name):
                        plain.append(name)
                    else:
                        self._add(_optional(name), value, [f"{label}.{name}"])
                elif hasattr(type(entry), "__get__"):
                    if name in held and not hasattr(type(entry), "__set__"):
                        plain.append(name)
                else:
                    plain.append(name)
            if plain:
                read = operator.attrgetter(*plain, *plain[: len(plain) == 1])
                labels = [f"{label}.{name}" for name in plain]
                seen = self._add(read, value, labels, told, "attributes", plain)
                for name, part in zip(labels, seen, strict=False):
                    if type(part) not in _SINGLE and not name.endswith(".__class__"):
                        self._never(part, name)
                        self.enter(part, name)

        self._look_again(look)
        if not told and dictionary_of(value) is not None:
            self._add_absent(dictionary_of, value, self._names, label)

    def _visit_held(self, holder: Any, label: str) -> None:
        """What an object of the library holds: functions and objects of the user's."""
        if isinstance(holder, (Variable, Op)):
            return
        wrapped = getattr(holder, "python_function", None)
        parts = [wrapped] if wrapped is not None else _held_by(holder)
        for part in parts:
            if callable(part) or isinstance(part, (list, tuple, dict)):
                self.enter(part, label)

    def _visit_class(self, kind: type) -> None:
        """Attributes and methods of a class and its bases, by the names that code reads."""
        for each in kind.__mro__:
            if each is object or not self.is_users(module_of(each)):
                continue
            self._visit_own(each)
        for part in registered(kind) or ():
            self.enter(part, f"flatten of {kind.__qualname__}")
        if isinstance(kind, abc.ABCMeta) and not self._registrations:
            # Abstract classes may take others for their subclasses: Python counts when they do.
            self._registrations = True
            self._add(_count_of_registrations, abc, ["subclasses of abstract classes"])
        if type(kind) is not type and type(kind) is not abc.ABCMeta:
            self.enter(type(kind), type(kind).__qualname__)

    def _visit_makers(self, kind: type) -> None:
        """What a class that code names may run to make an instance."""
        for each in kind.__mro__:
            if each is not object and self.is_users(module_of(each)):
                held = vars(each)
                made = [name for name in _MAKERS if name in held]
                self._add_items(held, made, f"{each.__qualname__}.")

    def _visit_own(self, kind: type) -> None:
        if kind in self._classes:
            return
        self._classes.add(kind)
        label, held = kind.__qualname__, vars(kind)
        is_own = module_of(kind).startswith("gradtape.")

        def look(names: set[str]) -> None:
            found = [
                name
                for name, entry in list(held.items())
                if name not in _NO_ENTRIES
                and (name in names or self._all or (_is_called(name) and _is_code(entry)))
            ]
            if is_own:
                # A class of the library is not changed; its code reads the user's objects.
                for name in found:
                    if _is_code(held[name]):
                        self.enter(held[name], f"{label}.{name}")
            else:
                self._add_items(held, found, f"{label}.")

        self._look_again(look)
        if not is_own:
            self._add_absent(vars, kind, self._names, label)


def _parts_of_all(functions: Any) -> list[Any]:
    return [part for name in _FUNCTION_PARTS for part in map(_PARTS[name], functions)]


def _is_of_library(value: Any) -> bool:
    """Whether a property or method of a class of the library, which does not change."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", None)
    scope = getattr(function, "__globals__", {})
    return str(scope.get("__name__", "")).startswith("gradtape.")


def _optional(name: str) -> Callable[[Any], Any]:
    return lambda value: (getattr(value, name, _MISSING),)


def _bytes_of(value: Any) -> tuple[bytes]:
    return (bytes(value),)


def _same(scope: Any) -> Any:
    return scope


def _class_entry(kind: type, name: str) -> Any:
    for each in kind.__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return _MISSING


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_called(name: str) -> bool:
    """Whether Python calls a method of this name on objects that exist."""
    return name[:2] == "__" == name[-2:] and name not in _MAKERS


def _is_code(entry: Any) -> bool:
    return isinstance(
        entry, (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
    )


def _count_of_registrations(module: Any) -> tuple[int]:
    return (module.get_cache_token(),)


def _is_memory(kind: type) -> bool:
    """Whether objects of a class are memory that can be written to: `array`, `ctypes`."""
    return any(module_of(each) in ("array", "_ctypes") for each in kind.__mro__)


def _elements(value: Any) -> list[Any]:
    base = set if isinstance(value, set) else frozenset
    return [*base.__iter__(value)]


def _entries(value: Any) -> list[Any]:
    return [*value.keys(), *value.values()]


def _held_by(holder: Any) -> Iterator[Any]:
    """What the slots and the dictionary of an object of the library hold."""
    yield from (dictionary_of(holder) or {}).values()
    for kind in type(holder).__mro__:
        for name, entry in kind.__dict__.items():
            if isinstance(entry, types.MemberDescriptorType):
                yield getattr(holder, name, None)


# How native code compares containers: see `functions.native.guard_table`.
_WAYS: dict[Any, str] = {
    list.copy: "list",
    dict.keys: "keys",
    dict.values: "values",
    _elements: "elements",
}
