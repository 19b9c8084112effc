"""Collect: find what a function names outside itself, and make guards of it.

The search starts from the function and its static arguments. It follows functions of the user by
the globals, closure cells, defaults and attributes that their code names; other installed packages
are trusted. Names alone do not identify the object of an attribute, so a name is looked up on every
object that was found. The search is bounded: a guard that is missing is no error, because replays
are checked by running the function again.
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
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from types import CodeType
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.concurrency import is_interrupt
from gradtape.config import MOST_GUARDED_ENTRIES, MOST_GUARDED_OBJECTS
from gradtape.ir.op import Op
from gradtape.ir.origin import shown_line
from gradtape.jit.guards.guards import (
    FUNCTION_PARTS,
    SINGLE,
    Absent,
    ArrayContent,
    GuardRow,
    Guards,
    dictionary_of,
    is_special,
)
from gradtape.jit.guards.names import NameChain, attributes_of, module_of, names_of, why_never
from gradtape.pytree import registered
from gradtape.tensor.generator import Generator
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.change_counter import TellsChanges

MISSING = object()
# Packages of the library whose code reads attributes of the user's objects: layers, optimisers.
_FOLLOWED_PACKAGES = ("gradtape.nn", "gradtape.optimizers", "gradtape.tf.keras")
# Folders of installed packages: also those of the system that a virtual environment uses.
_INSTALLED = frozenset(("site-packages", "dist-packages"))


class Outside:
    """The guards of a function, and what else the search has met."""

    def __init__(self) -> None:
        self.guards = Guards()
        # Why calls are never replayed: the reason, what is named, and where.
        self.never: tuple[str, str, str] | None = None
        # Whether the user's code reads the type of something: numbers are plain then.
        self.reads_types = False
        # Tensors that the function can reach, and the ids of lists and dicts that are outside.
        self.tensors: list[weakref.ref[Tensor]] = []
        self.containers: set[int] = set()


@remembered(4096)
def is_installed(top: str) -> bool:
    """Whether a package is one of Python or an installed one, whose insides are trusted."""
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return top != "__main__"
    found = sys.modules.get(top)
    # Not by getattr, which may run code of the module.
    path = None if found is None else vars(found).get("__file__")
    if not isinstance(path, str):
        return False
    return not _INSTALLED.isdisjoint(os.path.realpath(path).split(os.sep))


class _ReadNames(set[str]):
    """The attributes that code reads, as far as it was followed; or any."""

    is_all = False

    def __contains__(self, name: object) -> bool:
        return self.is_all or set.__contains__(self, name)


class GuardSearch:
    """One search from a function and its static arguments."""

    def __init__(self, function: Any, callbacks: Collection[CodeType]) -> None:
        self.callbacks = callbacks
        self.found = Outside()
        self.guards = self.found.guards
        module = getattr(function, "__module__", None)
        # The package of the function itself is the user's, wherever it lies.
        self.own_package = module.partition(".")[0] if isinstance(module, str) else ""
        self.names = _ReadNames(("__class__",))
        self._fresh: set[str] = set()
        # Names whose values are compared and not searched; and whether these are read now.
        self.compared_only: set[str] = set()
        self._only_compares = False
        self.all = self.all_own = False
        self._pending: collections.deque[tuple[Any, str]] = collections.deque()
        # What was met, by id, kept so that no id is used twice; and how it is searched again when
        # new names come up.
        self._met: dict[int, Any] = {}
        self._again: list[Callable[[set[str]], None]] = []
        self.classes: set[type] = set()
        self.registrations = False

    def is_users(self, module: Any) -> bool:
        """Whether code of a module is searched."""
        if not isinstance(module, str):
            return True
        top = module.partition(".")[0]
        if top == "gradtape":
            return module.startswith(_FOLLOWED_PACKAGES)
        return top == self.own_package or not is_installed(top)

    def is_foreign(self, module: Any) -> bool:
        """Whether a module is neither the user's nor the library's."""
        return not self.is_users(module) and module.partition(".")[0] != "gradtape"

    def users_classes(self, kind: type) -> list[type]:
        """A class and its bases, as far as their code is searched."""
        return [
            each for each in kind.__mro__ if each is not object and self.is_users(module_of(each))
        ]

    def enter(self, value: Any, label: str) -> None:
        """Search a value later."""
        if self._only_compares or value is vars(builtins):
            return
        if type(value) not in SINGLE and not isinstance(value, (np.dtype, np.ufunc)):
            self._pending.append((value, label))

    def run(self, visit: Callable[[GuardSearch, Any, str], None]) -> None:
        """Search everything that was found."""
        while True:
            while self._pending and len(self._met) < MOST_GUARDED_OBJECTS:
                value, label = self._pending.popleft()
                if id(value) not in self._met:
                    self._met[id(value)] = value
                    try:
                        visit(self, value, label)
                    except Exception as error:
                        # An attribute of the user's may raise: other objects have their guards.
                        if is_interrupt(error):
                            raise
            if not self._fresh:
                break
            fresh, self._fresh = self._fresh, set()
            for search_names in list(self._again):
                search_names(fresh)
        self._only_compares = True
        others = self.compared_only - set(self.names)
        for search_names in list(self._again) if others else ():
            search_names(others)
        # The functions that search again hold their objects, and this search.
        self._again, self._met = [], {}

    def add(
        self,
        read: Callable[[Any], Any],
        holder: Any,
        labels: list[str] | str,
        announced: bool = False,
        names: Sequence[str] = (),
    ) -> list[Any]:
        """Compare what is read of a holder from now on; returns what is there."""
        try:
            values = [*read(holder)]
        except Exception:
            return []  # a guard that cannot be made is none
        if len(values) > MOST_GUARDED_ENTRIES:
            return []
        row = GuardRow(read, holder, values, labels, self.guards.holders, names)
        if announced:
            self.guards.announced.append(row)
        else:
            self.guards.rows.append(row)
        return values

    def add_absent(
        self, read: Callable[[Any], Any], holder: Any, names: Set[str], label: str
    ) -> None:
        """Notice when one of these names comes to a dictionary that does not have it."""
        self.guards.rows.append(Absent(read, holder, names, label, self.guards.holders))

    def add_attributes(
        self, holder: Any, names: Sequence[str], labels: list[str], announced: bool = False
    ) -> list[tuple[str, Any]]:
        """Compare attributes of an object; returns them with their labels."""
        read = operator.attrgetter(*names, *names[: len(names) == 1])
        return [*zip(labels, self.add(read, holder, labels, announced, names), strict=False)]

    def enter_attributes(
        self, holder: Any, names: Sequence[str], label: str, announced: bool = False
    ) -> None:
        """Compare attributes of an object, and search them."""
        labels = [f"{label}.{name}" for name in names]
        for name, part in self.add_attributes(holder, names, labels, announced) if names else ():
            if type(part) not in SINGLE and not name.endswith(".__class__"):
                self.never(part, name)
                self.enter(part, name)

    def add_items(self, held: Any, names: list[str], label: str) -> None:
        """Compare entries of a dictionary, and search them."""
        if names:
            read = operator.itemgetter(*names, *names[: len(names) == 1])
            labels = [f"{label}{name}" for name in names]
            seen = self.add(read, held, labels, names=names)
            for name, value in zip(labels, seen, strict=False):
                self.enter(value, name)

    def never(self, value: Any, label: str, code: CodeType | None = None) -> None:
        """Note why calls are never replayed, if they are not with this value."""
        if self.found.never is None and not self._only_compares:
            reason = why_never(value, self.names)
            if reason is not None:
                self.refuse(reason, label, code)

    def refuse(self, reason: str, label: str, code: CodeType | None) -> None:
        """Calls are never replayed, for this reason."""
        if self.found.never is None:
            where = self.guards.line(label)
            if not where and code is not None:
                where = shown_line(code)
            self.found.never = (reason, label, where)

    def search_names(self, read: Callable[[set[str]], None]) -> None:
        """Search an object for the names known so far, and for later ones when they come up."""
        done: set[str] = set()

        def once(names: set[str]) -> None:
            new = names - done
            done.update(new)
            read(new)

        self._again.append(once)
        once(set(self.names))

    def read_dict(self, held: Any, names: set[str], label: str) -> None:
        found = [*held] if self.all else sorted(names.intersection(held))
        self.add_items(held, [name for name in found if isinstance(name, str)], label)

    def note_all_names(self, is_own: bool) -> None:
        """Code was found that may read any attribute; the library's own only of its objects."""
        is_new = not (self.all_own if is_own else self.all)
        self.all_own = True
        self.all |= not is_own
        self.names.is_all = self.all
        for search_names in list(self._again) if is_new else ():
            search_names(set())

    def note_names(self, names: Set[str]) -> None:
        """Search everything that was found and will be found for these names."""
        new = set(names) - set(self.names)
        self.names |= new
        self._fresh |= new


def class_entry(kind: type, name: str) -> Any:
    """The attribute of a class or one of its bases."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), MISSING)


# The flag of classes that are made while the program runs.
_HEAP_TYPE = 1 << 9
_NO_ENTRIES = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__"))
# Special methods that run while objects are made, copied or deleted.
_MAKERS = (
    "__init__",
    "__new__",
    "__post_init__",
    "__init_subclass__",
    "__set_name__",
    "__del__",
    "__reduce__",
    "__getstate__",
    "__setstate__",
)
# Attributes of wrappers that hold what they wrap.
_WRAPPERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (functools.partial, ("func", "args", "keywords")),
    (functools.partialmethod, ("func", "args", "keywords")),
    (functools.cached_property, ("func",)),
    (property, ("fget", "fset", "fdel")),
    (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)),
)
# Methods of arrays that write files.
_FILE_METHODS = frozenset(("tofile",))
_FUNCTION_TEXTS = frozenset(("__name__", "__qualname__", "__doc__", "__module__"))


def collect(
    function: Callable[..., Any],
    arguments: Iterable[tuple[str, Any]],
    callbacks: Collection[CodeType] = (),
) -> Outside:
    """Objects that a function reads by name besides its inputs; `arguments` are the static ones.

    The code of `callbacks` is not followed: replays run it.
    """
    search = GuardSearch(function, callbacks)
    search.enter(function, getattr(function, "__qualname__", "the function"))
    for label, argument in arguments:
        search.enter(argument, label)
    search.run(_visit)
    return search.found


def _visit(search: GuardSearch, value: Any, label: str) -> None:
    search.never(value, label)
    if isinstance(value, types.FunctionType):
        _visit_function(search, value, label)
    elif isinstance(value, types.ModuleType):
        _visit_module(search, value, label)
    elif isinstance(value, type):
        _visit_class(search, value)
        # Functions that may run when a class that code names makes an instance.
        for each in search.users_classes(value):
            made = [name for name in _MAKERS if name in vars(each)]
            search.add_items(vars(each), made, f"{each.__qualname__}.")
    elif isinstance(value, (types.MethodType, types.MethodWrapperType)):
        search.enter(getattr(value, "__func__", None), label)
        search.enter(value.__self__, label)
    elif isinstance(value, types.BuiltinFunctionType):
        if not isinstance(value.__self__, (types.ModuleType, type)):
            search.enter(value.__self__, label)
    elif isinstance(value, Tensor):
        search.found.tensors.append(weakref.ref(value))
    elif isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            search.guards.arrays[id(value)] = ArrayContent(value, label)
        else:
            search.enter(value.tolist(), label)
    elif isinstance(value, types.CellType):
        for name, content in search.add_attributes(value, ["cell_contents"], [label]):
            search.never(content, name)
            search.enter(content, name)
    elif isinstance(value, weakref.ref):
        # The guards are dropped when the object is gone.
        target = value()
        search.guards.holders.hold(target)
        search.enter(target, label)
    elif not isinstance(value, (Generator, CodeType)):
        _visit_instance(search, value, label)


# Functions and modules: parts, closures, and what their code names.


def _visit_function(search: GuardSearch, function: Any, label: str) -> None:
    code, scope = function.__code__, function.__globals__
    module = scope.get("__name__")
    search.enter(function.__dict__.get("__wrapped__"), label)
    # The checks of arguments belong to the function that they wrap.
    if code in search.callbacks or module == "gradtape.argument_checks":
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        search.enter(cell, name)
    for part in (function.__defaults__, function.__kwdefaults__):
        search.enter(part, f"a default of {label}")
    if not search.is_users(module):
        return
    is_own = str(module).startswith("gradtape.")
    if not is_own:
        search.add(FUNCTION_PARTS, function, [label] * 3)

        def read(names: set[str]) -> None:
            search.read_dict(function.__dict__, names, f"{label}.")
            for name in sorted(names & _FUNCTION_TEXTS):
                search.add_attributes(function, [name], [f"{label}.{name}"])

        search.search_names(read)
    _follow(search, code, scope, is_own)


def _follow(search: GuardSearch, code: CodeType, scope: dict[str, Any], is_own: bool) -> None:
    """Search what code names."""
    if code in search.guards.codes:
        return
    search.guards.codes[code] = None
    for part in code.co_consts:
        if isinstance(part, CodeType) and part not in search.callbacks:
            _follow(search, part, scope, is_own)
    names = attributes_of(code) if is_own else names_of(code)
    if code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__"):
        # The methods of a dataclass name all fields, and call none of them.
        search.compared_only |= names.attributes
        return
    search.note_names(names.attributes)
    if names.all_attributes:
        search.note_all_names(is_own)
    if is_own:
        return  # the globals of the library's modules are not assigned to
    if "type" in names.globals:
        search.found.reads_types = True
    written = sorted(names.attributes & _FILE_METHODS)
    if written:
        search.refuse("reads or writes a file", written[0], code)
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
        search.add_absent(lambda scope: scope, scope, frozenset(others), "")
    if "globals" in names:
        search.enter(scope, "globals()")


def _resolve(search: GuardSearch, value: Any, chain: NameChain, code: CodeType) -> None:
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


def _visit_module(search: GuardSearch, module: Any, label: str) -> None:
    if search.is_users(module.__name__):
        held = vars(module)
        search.search_names(lambda names: search.read_dict(held, names, f"{label}."))
        search.read_dict(held, {"__getattr__"}, f"{label}.")
        search.add_absent(vars, module, search.names, label)


# Objects, containers and classes: what they hold under the names read.


def _visit_instance(search: GuardSearch, value: Any, label: str) -> None:
    """An object of another class: what it holds, and attributes by the names read."""
    kind = type(value)
    _visit_contents(search, value, label)
    for wrapper, parts in _WRAPPERS:
        if isinstance(value, wrapper) and _is_of_library(value):
            for part in parts:
                search.enter(getattr(value, part), label)
        elif isinstance(value, wrapper):
            search.enter_attributes(value, parts, label)
    if isinstance(value, functools._lru_cache_wrapper):
        search.enter(value.__wrapped__, label)
    held = dictionary_of(value)
    if isinstance(value, Variable):
        # The capture follows what a variable holds; whether it is trained is an attribute.
        def read(names: set[str]) -> None:
            if "trainable" in names:
                search.add_attributes(value, ["trainable"], [f"{label}.trainable"], announced=True)
            search.read_dict(held or {}, names, f"{label}.")

        search.search_names(read)
    elif not isinstance(value, Op):
        module = module_of(kind)
        if module.startswith("gradtape.") and not search.is_users(module):
            _visit_held(search, value, label)
        _visit_attributes(search, value, held, label)
        _visit_class(search, kind)


def _visit_contents(search: GuardSearch, value: Any, label: str) -> None:
    """Lists, dicts, sets and their subclasses: what they hold, in its order."""
    if isinstance(value, tuple):
        for number, item in enumerate(
            itertools.islice(tuple.__iter__(value), MOST_GUARDED_ENTRIES)
        ):
            search.enter(item, f"{label}[{number}]")
        return
    if isinstance(value, (dict, list)):
        search.found.containers.add(id(value))
    for kind, reads in _CONTAINERS:
        for read in reads if isinstance(value, kind) else ():
            for number, item in enumerate(search.add(read, value, label)):
                search.enter(item, f"{label}[{number}]")
    if any(module_of(each) in ("array", "_ctypes") for each in type(value).__mro__):
        search.add(_bytes_of, value, label)


def _visit_attributes(
    search: GuardSearch, value: Any, held: dict[str, Any] | None, label: str
) -> None:
    """Attributes of an instance by the names that code reads."""
    kind = type(value)
    if isinstance(kind.__getattribute__, types.FunctionType):
        # Reading an attribute would run the user's code.
        if held is not None:
            search.search_names(lambda names: search.read_dict(held, names, f"{label}."))
        return
    # A class of the user may write to the `__dict__`, past the announcement.
    announces = isinstance(value, TellsChanges) and (
        module_of(kind).startswith("gradtape.") or kind.__setattr__ is TellsChanges.__setattr__
    )
    # Code of the standard library and of installed packages is not searched.
    is_foreign = any(map(search.is_foreign, {*map(module_of, kind.__mro__)} - {"builtins"}))
    entries = frozenset().union(*map(vars, kind.__mro__))
    if not kind.__flags__ & _HEAP_TYPE:
        # Objects of built-in classes keep their class; their methods do not change.
        entries = frozenset()
        if held is None:
            return

    def read(names: set[str]) -> None:
        held = dictionary_of(value) or {}
        whole = search.all or (search.all_own and isinstance(value, TellsChanges))
        found = names & entries
        found |= held.keys() if whole or is_foreign else names & held.keys()
        plain = []
        for name in sorted(name for name in found if isinstance(name, str)):
            is_slot = isinstance(class_entry(kind, name), types.MemberDescriptorType)
            if _is_plain(kind, name, held) or (is_slot and _has(value, name)):
                plain.append(name)
            elif is_slot:
                # Compare a slot that is empty now.
                search.add(_optional(name), value, [f"{label}.{name}"])
        search.enter_attributes(value, plain, label, announces)

    search.search_names(read)
    if not announces and held is not None:
        search.add_absent(dictionary_of, value, search.names, label)


def _is_plain(kind: type, name: str, held: dict[str, Any]) -> bool:
    """Whether reading an attribute runs no code: it lies in the instance, or is data of a class."""
    entry = class_entry(kind, name)
    if name == "__class__" or entry is MISSING or not hasattr(type(entry), "__get__"):
        return True
    return name in held and not hasattr(type(entry), "__set__")


def _visit_held(search: GuardSearch, holder: Any, label: str) -> None:
    """The functions and objects of the user's that an object of the library holds."""
    wrapped = getattr(holder, "python_function", None)
    parts = [wrapped] if wrapped is not None else [*(dictionary_of(holder) or {}).values()]
    for kind in type(holder).__mro__ if wrapped is None else ():
        for name, entry in kind.__dict__.items():
            if isinstance(entry, types.MemberDescriptorType):
                parts.append(getattr(holder, name, None))
    for part in parts:
        if callable(part) or isinstance(part, (list, tuple, dict)):
            search.enter(part, label)


def _visit_class(search: GuardSearch, kind: type) -> None:
    """Attributes and methods of a class and its bases, by the names that code reads."""
    for each in search.users_classes(kind):
        if each not in search.classes:
            search.classes.add(each)
            _visit_own(search, each)
    for part in registered(kind) or ():
        search.enter(part, f"flatten of {kind.__qualname__}")
    if isinstance(kind, abc.ABCMeta) and not search.registrations:
        # Abstract classes may take others for their subclasses: Python counts when they do.
        search.registrations = True
        search.add(
            lambda module: (module.get_cache_token(),), abc, ["subclasses of abstract classes"]
        )
    if type(kind) is not type and type(kind) is not abc.ABCMeta:
        search.enter(type(kind), type(kind).__qualname__)


def _visit_own(search: GuardSearch, kind: type) -> None:
    label, held = kind.__qualname__, vars(kind)
    is_own = module_of(kind).startswith("gradtape.")

    def read(names: set[str]) -> None:
        found = [
            name
            for name, entry in list(held.items())
            if name not in (*_NO_ENTRIES, *_MAKERS)
            and (name in names or search.all or (is_special(name) and _is_code(entry)))
        ]
        if is_own:
            # A class of the library is not changed; its code reads the user's objects.
            for name in found:
                if _is_code(held[name]):
                    search.enter(held[name], f"{label}.{name}")
        else:
            search.add_items(held, found, f"{label}.")

    search.search_names(read)
    if not is_own:
        search.add_absent(vars, kind, search.names, label)


def _is_of_library(value: Any) -> bool:
    """Whether a property or method of a class of the library, which does not change."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", None)
    scope = getattr(function, "__globals__", {})
    return str(scope.get("__name__", "")).startswith("gradtape.")


def _optional(name: str) -> Callable[[Any], Any]:
    return lambda value: (getattr(value, name, MISSING),)


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_code(entry: Any) -> bool:
    return isinstance(
        entry, (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
    )


def _bytes_of(value: Any) -> tuple[bytes]:
    return (bytes(value),)


# Readers of the contents of containers, past the methods of subclasses.
_CONTAINERS: tuple[tuple[Any, tuple[Callable[[Any], Any], ...]], ...] = (
    (dict, (dict.keys, dict.values)),
    (list, (list.copy,)),
    (set, (lambda value: [*set.__iter__(value)],)),
    (frozenset, (lambda value: [*frozenset.__iter__(value)],)),
    (collections.deque, (collections.deque.copy,)),
    ((bytearray, memoryview), (_bytes_of,)),
    (types.MappingProxyType, (lambda value: [*value.keys(), *value.values()],)),
)
