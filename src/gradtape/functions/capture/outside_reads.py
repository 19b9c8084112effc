"""Outside reads: everything that a captured run read in Python besides its inputs, as guards.

A walk starts at the function, at the arguments that are no inputs, and at the globals of all code
that ran. It follows attributes by the names that this code reads, and containers through all they
hold, and writes down one comparison for each value on the way. Names do not tell which object an
attribute is read from, so a name is followed on every object that can be reached: that is more than
was read, never less. What the walk does not understand, such as an object whose state is hidden
in C, is named in `unknown`, and such a run is not replayed.

`differs()` makes all comparisons, written out as one Python function; it is called in every replay.
"""

from __future__ import annotations

import enum
import functools
import operator
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from gradtape.functions.capture.code_reads import CodeReads, nested_code, reads_of
from gradtape.functions.capture.run_observer import Observation
from gradtape.functions.capture.trusted_code import (
    c_base,
    is_pure_builtin,
    is_trusted_function,
    is_trusted_module,
)
from gradtape.random import Generator
from gradtape.runtime.source_text import SourceText
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# A function that reads more outside than this is not replayed: comparing would take longer.
MOST_GUARDS = 20_000

_Pair = namedtuple("_Pair", "first")  # noqa: PYI024 -- only its descriptor is wanted
_PLAIN = (int, float, complex, str, bytes)
_SINGLE = (type(None), bool, type(Ellipsis), type(NotImplemented))
_SEQUENCES = (list, deque)
_MAPPINGS = (dict, OrderedDict, defaultdict)
_SETS = (set, frozenset)
_BUILTINS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType,
)  # fmt: skip
# Classes of C and of the library whose objects never change.
_FIXED = (
    range, slice, np.dtype, np.ufunc, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.CodeType, type(_Pair.first), types.GenericAlias, types.UnionType, enum.Enum, bytes,
)  # fmt: skip
_FIXED_MODULES = ("decimal", "fractions", "datetime", "re", "typing", "pathlib", "uuid")
# State of these objects is followed by the capture itself; who they are is compared.
_FOLLOWED = (Tensor, Variable, Generator)

_MISSING = object()


class OutsideReads:
    """What is outside of a function and is read by it, with the values of now.

    `observation` tells what an earlier run executed. Without one, every function of the user that
    can be reached by name counts as executed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[tuple[str, Any]],
        observation: Observation | None,
    ) -> None:
        walk = _Walk(observation)
        roots = list(arguments)
        walk.run(function, roots)
        while observation is None and walk.grew:
            # Code that was found reads more names: once more with those.
            known = walk.executed
            walk = _Walk(None, known)
            walk.run(function, roots)
        self._guards = walk.guards
        self.paths = frozenset(walk.guards.labels)
        # Why a run cannot be replayed, as far as the walk can tell.
        self.unknown: list[str] = walk.unknown
        self.compares_identity = any(
            reads_of(code).compares_identity for code in walk.executed
        )

    @functools.cached_property
    def differs(self) -> Callable[[], bool] | None:
        """What tells whether anything has changed since; None if nothing can."""
        return self._guards.compiled() if self._guards.labels else None

    def difference(self) -> tuple[str, str, str] | None:
        """The first thing that has changed, what it was, and what it is."""
        return self._guards.difference()


class _Guards:
    """Comparisons in the order they are made, as lines over local names."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, int]] = []
        self._things: list[tuple[Any, str]] = []
        self._temporaries = 0
        self.labels: dict[str, None] = {}
        self._words: list[tuple[str, str]] = []
        self._current = 0

    def begin(self, label: str, value: Any) -> None:
        """The comparisons that follow belong to this place."""
        self.labels[label] = None
        self._current = len(self._words)
        self._words.append((label, in_words(value)))

    def thing(self, thing: Any) -> str:
        """A name for an object in the text."""
        self._things.append((thing, "o"))
        return f"o{len(self._things) - 1}"

    def local(self, expression: str) -> str:
        """A local name for the value of an expression."""
        name = f"t{self._temporaries}"
        self._temporaries += 1
        self._lines.append((f"{name} = {expression}", self._current))
        return name

    def check(self, condition: str) -> None:
        """Something has changed if this holds."""
        self._lines.append((f"if {condition}: return ", self._current))

    def _text(self, numbered: bool) -> SourceText:
        text = SourceText()
        for number, (thing, _) in enumerate(self._things):
            name = text.name(thing, f"o{number}")
            assert name == f"o{number}"
        text.line("def differs():")
        with text.block():
            text.line("at = 0")
            text.line("try:")
            with text.block():
                for line, number in self._lines:
                    if numbered:
                        text.line(f"at = {number}")
                    answer = "at" if numbered else "True"
                    text.line(line + answer if line.endswith("return ") else line)
            # Whatever cannot be read any more has changed.
            text.line("except Exception:")
            with text.block():
                text.line("return at" if numbered else "return True")
            text.line("return None" if numbered else "return False")
        return text

    def compiled(self) -> Callable[[], bool]:
        return self._text(numbered=False).compiled("differs")

    def difference(self) -> tuple[str, str, str] | None:
        found = self._text(numbered=True).compiled("differs")()
        return None if found is None else (*self._words[found], "something else")


class _Walk:
    """One walk over what can be reached."""

    def __init__(
        self, observation: Observation | None, known: dict[CodeType, Any] | None = None
    ) -> None:
        self._observed = observation is not None
        self.executed: dict[CodeType, Any] = dict(known or {})
        if observation is not None:
            self.executed.update(observation.executed)
        reads = [reads_of(code) for code in self.executed]
        self._names = frozenset().union(*[each.attributes for each in reads])
        self._any = any(each.any_attribute for each in reads) or (
            observation is not None and observation.any_attribute
        )
        self._handles = any(each.handles_errors for each in reads)
        self._chains = _chains(reads)
        # Special methods that ran: Python looks them up in the class, by no name in the code.
        self._special = {code.co_name for code in self.executed if _is_special(code.co_name)}
        self.guards = _Guards()
        self.unknown: list[str] = []
        self.grew = False
        # Objects that were met, by id, with the local name; kept so that no id is used twice.
        self._met: dict[int, tuple[str, Any]] = {}
        self._classes: dict[int, Any] = {}
        self._scopes: dict[tuple[int, str], None] = {}
        self._found: set[CodeType] = set()
        self._pending: list[tuple[Any, str, str, frozenset[tuple[str, ...]] | None]] = []

    # The run.

    def run(self, function: Any, arguments: Iterable[tuple[str, Any]]) -> None:
        self._enter_root(getattr(function, "__qualname__", "the function"), function)
        for label, argument in arguments:
            self._enter_root(label, argument)
        for code, scope in list(self.executed.items()):
            self._enter_globals(code, scope)
        while self._pending:
            value, expression, label, chains = self._pending.pop()
            if len(self.guards.labels) > MOST_GUARDS:
                self.unknown.append(f"it reads more than {MOST_GUARDS} things from outside")
                return
            self._visit(value, expression, label, chains)
        if self._observed:
            self._check_executed()

    def _check_executed(self) -> None:
        """All code that ran must have been found: else nobody knows where it was read from."""
        inside = {inner for code in self._found for inner in nested_code(code)}
        for code in self.executed:
            if code not in self._found and code not in inside and code.co_name != "<module>":
                self.unknown.append(
                    f"it calls {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}), "
                    "which cannot be found from the names that it reads"
                )
                return

    def _enter_root(self, label: str, thing: Any) -> None:
        try:
            reference: Callable[[], Any] = weakref.ref(thing)
        except TypeError:
            self._later(thing, self.guards.thing(thing), label)
        else:
            self._later(thing, f"{self.guards.thing(reference)}()", label)

    def _enter_globals(self, code: CodeType, scope: dict[str, Any]) -> None:
        """The globals that a code object reads."""
        reads = reads_of(code)
        module = scope.get("__name__", "")
        place = ""
        for name in sorted(reads.globals):
            if (id(scope), name) in self._scopes:
                continue
            self._scopes[id(scope), name] = None
            place = place or self.guards.thing(scope)
            label = name if module == "__main__" else f"{module}.{name}"
            if name in scope:
                self._later(scope[name], f"{place}[{name!r}]", label, self._chains.get(name))
            else:
                # A built-in, or nothing: a global of that name would come before it.
                self.guards.begin(label, "a built-in" if name in _BUILTIN_NAMES else "nothing")
                self.guards.check(f"{name!r} in {place}")
        for name in sorted(reads.modules):
            found = sys.modules.get(name)
            if found is not None and (id(sys.modules), name) not in self._scopes:
                self._scopes[id(sys.modules), name] = None
                self._later(found, f"{self.guards.thing(sys.modules)}[{name!r}]", name)

    def _later(
        self,
        value: Any,
        expression: str,
        label: str,
        chains: frozenset[tuple[str, ...]] | None = None,
    ) -> None:
        self._pending.append((value, expression, label, chains))

    # One value.

    def _visit(
        self,
        value: Any,
        expression: str,
        label: str,
        chains: frozenset[tuple[str, ...]] | None,
    ) -> None:
        guards, kind = self.guards, type(value)
        guards.begin(label, value)
        if kind in _SINGLE:
            guards.check(f"{expression} is not {guards.thing(value)}")
        elif kind in _PLAIN or isinstance(value, np.generic):
            now, seen = guards.local(expression), guards.thing(value)
            guards.check(f"{now} is not {seen} and {guards.thing(_is_other)}({now}, {seen})")
        elif id(value) in self._met:
            # Reached before by another way: it is still the same object there.
            guards.check(f"{expression} is not {self._met[id(value)][0]}")
        elif isinstance(value, types.ModuleType):
            self._visit_module(value, expression, label, chains)
        elif isinstance(value, type):
            now = self._meet(value, expression)
            guards.check(f"{now} is not {guards.thing(value)}")
            self._visit_class(value, label)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, expression, label)
        elif isinstance(value, types.MethodType):
            now = self._meet(value, expression)
            guards.check(f"type({now}) is not {guards.thing(types.MethodType)}")
            self._later(value.__func__, f"{now}.__func__", label)
            self._later(value.__self__, f"{now}.__self__", f"{label}.__self__")
        elif kind is np.ndarray:
            self._visit_array(value, expression, label)
        elif kind in (tuple, list, deque):
            self._visit_sequence(value, expression, label)
        elif kind in _MAPPINGS:
            self._visit_mapping(value, expression, label)
        elif kind in _SETS:
            self._visit_set(value, expression, label)
        elif isinstance(value, _BUILTINS):
            self._visit_builtin(value, expression, label)
        elif isinstance(value, _FIXED) or kind.__module__ in _FIXED_MODULES:
            now, seen = guards.local(expression), guards.thing(value)
            guards.check(f"{now} is not {seen} and {guards.thing(_is_other)}({now}, {seen})")
        else:
            self._visit_object(value, expression, label)

    def _meet(self, value: Any, expression: str) -> str:
        now = self.guards.local(expression)
        self._met[id(value)] = (now, value)
        return now

    def _visit_array(self, value: Any, expression: str, label: str) -> None:
        now = self._meet(value, expression)
        if value.dtype.kind not in "biufcUSmMV":
            self.unknown.append(f"{label} is an array of Python objects")
        elif _may_change(value):
            self.guards.check(f"{self.guards.thing(ArrayContent(value).differs)}({now})")
        else:
            self.guards.check(f"{now} is not {self.guards.thing(value)}")

    def _visit_module(
        self,
        value: types.ModuleType,
        expression: str,
        label: str,
        chains: frozenset[tuple[str, ...]] | None,
    ) -> None:
        """A module, and what is read of it by name."""
        guards = self.guards
        now = guards.local(expression)
        guards.check(f"{now} is not {guards.thing(value)}")
        names: Iterable[str] = self._names
        if chains is not None and () not in chains:
            names = {chain[0] for chain in chains}
        held = ""
        for name in sorted(names):
            if name in vars(value):
                held = held or guards.thing(vars(value))
                rest = None
                if chains is not None:
                    rest = frozenset(chain[1:] for chain in chains if chain and chain[0] == name)
                    rest = rest or None
                key = (id(value), name)
                if key not in self._scopes:
                    self._scopes[key] = None
                    self._later(vars(value)[name], f"{held}[{name!r}]", f"{label}.{name}", rest)

    def _visit_builtin(self, value: Any, expression: str, label: str) -> None:
        guards = self.guards
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            guards.check(f"{expression} is not {guards.thing(value)}")
        else:
            now = self._meet(value, expression)
            guards.check(f"type({now}) is not {guards.thing(type(value))}")
            guards.check(f"{now}.__name__ != {value.__name__!r}")
            self._later(owner, f"{now}.__self__", f"{label}.__self__")
        if not is_pure_builtin(value):
            self.unknown.append(f"{label} is a function of C that is not known to be pure")

    def _visit_function(self, value: Any, expression: str, label: str) -> None:
        guards = self.guards
        now = self._meet(value, expression)
        guards.check(f"{now} is not {guards.thing(value)}")
        code = value.__code__
        trusted = is_trusted_function(value)
        if not trusted:
            self._execute(value)
            guards.check(f"{now}.__code__ is not {guards.thing(code)}")
            for name in sorted(self._names):
                if name in value.__dict__:
                    self._later(value.__dict__[name], f"{now}.{name}", f"{label}.{name}")
        self._found.add(code)
        if trusted or code in self.executed:
            self._visit_parts(value, now, label, trusted)

    def _visit_parts(self, value: Any, now: str, label: str, trusted: bool) -> None:
        """Defaults and closures of a function."""
        guards = self.guards
        if not trusted:
            seen = guards.thing(value.__defaults__)
            guards.check(f"{now}.__defaults__ is not {seen}")
            for number, default in enumerate(value.__defaults__ or ()):
                if not isinstance(default, (*_PLAIN, *_SINGLE)):
                    self._later(default, f"{seen}[{number}]", f"{label}, default {number}")
            if value.__kwdefaults__:
                self._later(value.__kwdefaults__, f"{now}.__kwdefaults__", f"{label}, defaults")
            else:
                guards.check(f"{now}.__kwdefaults__")
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:
                content = _MISSING
            if content is not _MISSING and id(cell) not in self._met:
                self._met[id(cell)] = ("", cell)
                self._later(content, f"{guards.thing(cell)}.cell_contents", name)

    def _execute(self, function: Any) -> None:
        """Without an observation, every function that is found counts as one that runs."""
        if not self._observed and function.__code__ not in self.executed:
            codes = (function.__code__, *nested_code(function.__code__))
            self.executed.update((code, function.__globals__) for code in codes)
            self.grew = True

    # Containers.

    def _visit_sequence(self, value: Any, expression: str, label: str) -> None:
        guards = self.guards
        now = self._meet(value, expression)
        guards.check(f"type({now}) is not {guards.thing(type(value))}")
        guards.check(f"len({now}) != {len(value)}")
        self._visit_items(value, now, label)

    def _visit_items(self, value: Any, now: str, label: str) -> None:
        """What is in a sequence."""
        items, guards = list(value), self.guards
        if all(isinstance(item, (*_PLAIN, *_SINGLE)) for item in items):
            if items:
                guards.check(f"{guards.thing(_are_others)}({now}, {guards.thing(items)})")
            return
        for number, item in enumerate(items):
            self._later(item, f"{now}[{number}]", f"{label}[{number}]")

    def _visit_mapping(self, value: Any, expression: str, label: str) -> None:
        now = self._meet(value, expression)
        self.guards.check(f"type({now}) is not {self.guards.thing(type(value))}")
        self._visit_entries(value, now, label, "{now}[{key}]")

    def _visit_entries(self, value: Any, now: str, label: str, reading: str) -> None:
        """Keys, in their order, and what is found under them."""
        guards = self.guards
        keys, values = [*dict.keys(value)], [*dict.values(value)]
        guards.check(f"{guards.thing(dict.__len__)}({now}) != {len(keys)}")
        if not keys:
            return
        listed = guards.local(f"[*{guards.thing(dict.keys)}({now})]")
        if all(isinstance(key, (*_PLAIN, *_SINGLE)) for key in keys):
            guards.check(f"{guards.thing(_are_others)}({listed}, {guards.thing(keys)})")
        else:
            for number, key in enumerate(keys):
                self._later(key, f"{listed}[{number}]", f"a key of {label}")
        if all(isinstance(item, (*_PLAIN, *_SINGLE)) for item in values):
            found = f"[*{guards.thing(dict.values)}({now})]"
            guards.check(f"{guards.thing(_are_others)}({found}, {guards.thing(values)})")
            return
        held = guards.local(f"[*{guards.thing(dict.values)}({now})]")
        for number, (key, item) in enumerate(zip(keys, values, strict=True)):
            self._later(item, f"{held}[{number}]", f"{label}[{key!r}]")

    def _visit_set(self, value: Any, expression: str, label: str) -> None:
        guards = self.guards
        now = self._meet(value, expression)
        guards.check(f"type({now}) is not {guards.thing(type(value))}")
        if all(isinstance(item, (*_PLAIN, *_SINGLE)) for item in value):
            guards.check(f"{now} != {guards.thing(frozenset(value))}")
        else:
            guards.check(f"len({now}) != {len(value)}")
            listed = guards.local(f"[*{now}]")
            for number, item in enumerate(value):
                self._later(item, f"{listed}[{number}]", f"an element of {label}")

    # Objects.

    def _visit_object(self, value: Any, expression: str, label: str) -> None:
        """An instance of a class: its class, and its attributes by the names that are read."""
        guards, kind = self.guards, type(value)
        base = c_base(kind)
        now = self._meet(value, expression)
        try:
            reference: Any = weakref.ref(value)
        except TypeError:
            guards.check(f"{now} is not {guards.thing(value)}")
        else:
            # The object may be gone, and None in its place.
            guards.check(f"{now} is None or {now} is not {guards.thing(reference)}()")
        if isinstance(value, _FOLLOWED):
            self._visit_followed(value, now, label)
            return
        if isinstance(value, functools.partial):
            self._later(value.func, f"{now}.func", f"{label}.func")
            self._later(value.args, f"{now}.args", f"{label}.args")
            self._later(value.keywords, f"{now}.keywords", f"{label}.keywords")
        elif isinstance(value, functools._lru_cache_wrapper):
            self._visit_wrapped(value.__wrapped__, f"{now}.__wrapped__", label)
            return
        elif isinstance(value, functools.cached_property):
            self._later(value.func, f"{now}.func", label)
            return
        elif isinstance(value, (staticmethod, classmethod)):
            self._later(value.__func__, f"{now}.__func__", label)
            return
        elif isinstance(value, property):
            for part in ("fget", "fset", "fdel"):
                self._later(getattr(value, part), f"{now}.{part}", f"{label}.{part}")
            return
        elif base in (list, deque, tuple):
            items = [*base.__iter__(value)]
            guards.check(f"{guards.thing(base.__len__)}({now}) != {len(items)}")
            listed = guards.local(f"[*{guards.thing(base.__iter__)}({now})]")
            self._visit_items(items, listed, label)
        elif base in _MAPPINGS:
            self._visit_entries(value, now, label, "")
        elif base in _SETS:
            guards.check(f"{guards.thing(_as_set)}({now}) != {guards.thing(frozenset(value))}")
        elif base in (int, float, complex, str, bytes):
            plain = base.__new__(base, value) if base is not str else str.__str__(value)
            convert = guards.thing(functools.partial(base.__new__, base))
            if base is str:
                convert = guards.thing(str.__str__)
            guards.check(f"{guards.thing(_is_other)}({convert}({now}), {guards.thing(plain)})")
        elif base is not object and base is not types.SimpleNamespace:
            self.unknown.append(
                f"{label} is a {kind.__module__}.{kind.__qualname__}, whose state cannot be seen"
            )
            return
        guards.check(f"type({now}) is not {guards.thing(kind)}")
        self._visit_attributes(value, now, label)
        self._visit_class(kind, kind.__qualname__)

    def _visit_followed(self, value: Any, now: str, label: str) -> None:
        """Tensors, variables and generators: the capture knows what they hold."""
        if isinstance(value, Variable) and (self._any or "trainable" in self._names):
            self._later(value.trainable, f"{now}.trainable", f"{label}.trainable")

    def _visit_wrapped(self, function: Any, expression: str, label: str) -> None:
        """A cached function: what it would read counts, for the cache may be emptied."""
        if isinstance(function, types.FunctionType) and not is_trusted_function(function):
            if function.__code__ not in self.executed:
                self.executed[function.__code__] = function.__globals__
                self._enter_globals(function.__code__, function.__globals__)
        self._later(function, expression, label)

    def _visit_attributes(self, value: Any, now: str, label: str) -> None:
        guards, kind = self.guards, type(value)
        held: Any = getattr(value, "__dict__", None)
        has_dictionary = type(held) is dict
        if not has_dictionary:
            held = {}
        everything = self._any or is_trusted_module(kind.__module__)
        names = sorted(held) if everything else sorted(self._names & held.keys())
        for name in names:
            if name.isidentifier():
                self._later(held[name], _attribute(kind, now, name), f"{label}.{name}")
        for name in _slots(kind):
            if everything or name in self._names:
                found = getattr(value, name, _MISSING)
                if found is _MISSING:
                    guards.check(f"hasattr({now}, {name!r})")
                else:
                    self._later(found, f"{now}.{name}", f"{label}.{name}")
        if everything and has_dictionary:
            guards.check(f"len({now}.__dict__) != {len(held)}")
        elif has_dictionary:
            # An attribute of the object would come before that of its class.
            absent = self._names - held.keys()
            if not self._handles:
                absent = {name for name in absent if _in_class(kind, name)}
            absent = {name for name in absent if not (name[:2] == "__" == name[-2:])}
            if absent:
                hidden = guards.thing(frozenset(absent))
                guards.check(f"not {now}.__dict__.keys().isdisjoint({hidden})")

    def _visit_class(self, kind: type, label: str) -> None:
        """A class and its bases: what is read of them by name, and methods that ran."""
        if id(kind) in self._classes:
            return
        self._classes[id(kind)] = kind
        guards = self.guards
        ways = [each for each in kind.__mro__ if c_base(each) is not each]
        if not ways:
            return
        guards.begin(f"class {label}", kind)
        guards.check(f"{guards.thing(kind)}.__mro__ is not {guards.thing(kind.__mro__)}")
        if type(kind) is not type:
            self._visit_class(type(kind), type(kind).__qualname__)
        for number, each in enumerate(ways):
            if is_trusted_module(each.__module__):
                continue
            self._visit_own(each, f"{label}" if each is kind else each.__qualname__)
            # A name that a later base has could be given to this class.
            later = {
                name
                for name in (*self._names, *self._special)
                if name not in each.__dict__
                and any(name in base.__dict__ for base in ways[number + 1 :])
            }
            if later:
                guards.begin(f"class {label}", kind)
                own = f"{guards.thing(each)}.__dict__"
                guards.check(f"not {own}.keys().isdisjoint({guards.thing(frozenset(later))})")

    def _visit_own(self, kind: type, label: str) -> None:
        key = (id(kind), "")
        if key in self._scopes:
            return
        self._scopes[key] = None
        entries = [
            (name, entry)
            for name, entry in kind.__dict__.items()
            if name in self._names or (_is_special(name) and _functions(entry))
        ]
        entries = [each for each in entries if each[0] not in _NO_ENTRIES]
        if not entries:
            return
        own = self.guards.thing(kind)
        for name, entry in entries:
            called = _functions(entry)
            if called and name not in self._names and not self._runs(called):
                continue
            self._later(entry, f"{own}.__dict__[{name!r}]", f"{label}.{name}")

    def _runs(self, functions: list[Any]) -> bool:
        if not self._observed:
            return True
        return any(function.__code__ in self.executed for function in functions)


_BUILTIN_NAMES = frozenset(vars(sys.modules["builtins"]))
_NO_ENTRIES = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__"))


def _is_special(name: str) -> bool:
    return name[:2] == "__" == name[-2:]


def _functions(entry: Any) -> list[Any]:
    """The Python functions behind an entry of a class."""
    if isinstance(entry, types.FunctionType):
        return [entry]
    if isinstance(entry, (staticmethod, classmethod)):
        return _functions(entry.__func__)
    if isinstance(entry, property):
        parts = (entry.fget, entry.fset, entry.fdel)
        return [each for part in parts if part is not None for each in _functions(part)]
    return []


def _chains(reads: Iterable[CodeReads]) -> dict[str, frozenset[tuple[str, ...]]]:
    """By global name, the attributes that are read straight from it."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for each in reads:
        for chain in each.chains:
            found.setdefault(chain[0], set()).add(chain[1:])
    return {name: frozenset(chains) for name, chains in found.items()}


def _attribute(kind: type, now: str, name: str) -> str:
    """How an attribute in the dictionary of an object is read."""
    return f"{now}.__dict__[{name!r}]" if _in_class(kind, name) else f"{now}.{name}"


def _in_class(kind: type, name: str) -> bool:
    return any(name in each.__dict__ for each in kind.__mro__)


def _slots(kind: type) -> list[str]:
    return [
        name
        for each in kind.__mro__
        for name, entry in each.__dict__.items()
        if isinstance(entry, types.MemberDescriptorType) and c_base(each) is not each
    ]


def _may_change(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None


def _is_other(now: Any, seen: Any) -> bool:
    """Whether a plain value is another one: -0.0 is not 0.0, NaN is NaN, True is not 1."""
    if type(now) is not type(seen):
        return True
    if isinstance(seen, (float, complex, np.floating, np.complexfloating)):
        return repr(now) != repr(seen)
    return bool(now != seen)


def _are_others(now: Iterable[Any], seen: list[Any]) -> bool:
    if all(map(operator.is_, now, seen)):
        return False
    return any(a is not b and _is_other(a, b) for a, b in zip(now, seen, strict=True))


_as_set = frozenset


class ArrayContent:
    """The content of an array that may be changed in place."""

    # Arrays of so many bytes are compared as strings of them.
    SHORT = 4096

    def __init__(self, array: Any) -> None:
        self._content = np.array(array, order="C")

    def differs(self, now: Any) -> bool:
        """Whether this is another array, or its content is another one."""
        then = self._content
        if type(now) is not np.ndarray or now.shape != then.shape or now.dtype != then.dtype:
            return True
        if now.nbytes <= self.SHORT or not now.flags.c_contiguous:
            return bool(now.tobytes() != then.tobytes())
        word = np.uint64 if now.nbytes % 8 == 0 else np.uint8
        return not np.array_equal(now.reshape(-1).view(word), then.reshape(-1).view(word))


def in_words(value: Any) -> str:
    """A value as a user would say it."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (*_PLAIN, *_SINGLE, list, tuple, dict, set, frozenset)):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}..."
    # Not by getattr: attributes may be computed by the user's code.
    own = getattr(type(value), "__dict__", {})
    name = value.__name__ if "__name__" in own or isinstance(value, type) else None
    called = f" {name}" if isinstance(name, str) else ""
    return f"a {type(value).__name__}{called} at {id(value):#x}"
