"""Walk: find all values that code can read, starting from the function and its globals.

The walk follows attributes by the names that the executed code reads, and containers through all
that they hold. Names do not tell which object an attribute is read from, so a name is followed on
every object that can be reached: that is more than was read, never less. What cannot be compared,
such as an object whose state is hidden in C, is named in `unknown`.
"""

from __future__ import annotations

import abc
import builtins
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

import numpy as np

from gradtape.functions.outside import visit_containers, visit_functions, visit_objects
from gradtape.functions.outside.code_reads import Chain, nested_code, reads_of
from gradtape.functions.outside.comparisons import PLAIN, SINGLE, Comparisons
from gradtape.functions.outside.run_observer import Observation
from gradtape.functions.outside.trusted_code import (
    is_compiled,
    is_impure_name,
    is_own_scope,
    is_pure_class,
    what_it_may_do,
)

# A function that reads more outside than this is not replayed: comparing would take longer.
MOST_PLACES = 20_000

_Pair = namedtuple("_Pair", "first")
MAPPINGS = (dict, OrderedDict, defaultdict)
SETS = (set, frozenset)
_BUILTINS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType,
)  # fmt: skip
# Classes of C and of the library whose objects never change.
_FIXED = (
    range, slice, np.dtype, np.ufunc, type(np.sum), types.GetSetDescriptorType,
    types.MemberDescriptorType, types.CodeType, type(_Pair.first), types.GenericAlias,
    types.UnionType,
)  # fmt: skip
_FIXED_MODULES = ("fractions", "datetime", "re", "typing", "pathlib", "uuid")
# The built-ins as the interpreter has them.
_BUILT_IN = dict(vars(builtins))

_MISSING = object()

Chains = frozenset[Chain] | None


class Walk:
    """One walk, and the comparisons that it writes.

    `observation` tells what an earlier run executed. Without one, every function of the user that
    can be reached by name counts as executed.
    """

    def __init__(
        self, observation: Observation | None, known: dict[CodeType, Any] | None = None
    ) -> None:
        self.observed = observation is not None
        self.executed: dict[CodeType, Any] = dict(known or {})
        if observation is not None:
            self.executed.update(observation.everything())
        # Functions of layers and optimisers are where the library has put them.
        ran = {} if observation is None else observation.executed
        self._must_be_found = [code for code, scope in ran.items() if not is_own_scope(scope)]
        reads = [reads_of(code) for code in self.executed]
        self.names = frozenset().union(*[each.attributes for each in reads])
        # Whether any attribute of anything may be read; and any of layers and optimisers, for their
        # own code reads attributes of others by names that it writes down.
        dynamic = [each for each in self.executed.items() if reads_of(each[0]).any_attribute]
        own = [reads_of(code) for code, scope in dynamic if is_own_scope(scope)]
        self.any_attribute = len(own) < len(dynamic) or (
            observation is not None and observation.any_attribute
        )
        self.any_own_attribute = self.any_attribute or bool(own)
        self.names = self.names.union(*[each.texts for each in own])
        self.handles_errors = any(each.handles_errors for each in reads)
        self._chains = _by_global(each.chains for each in reads)
        self._passed = frozenset().union(*[each.passed for each in reads])
        self.compares_registrations = False
        # Special methods that ran: Python looks them up in the class, by no name in the code.
        self.special = {code.co_name for code in self.executed if is_special(code.co_name)}
        self.comparisons = Comparisons()
        self.unknown: list[str] = []
        # Whether code was found that was not known when the walk began.
        self.grew = False
        # Tensors that were met: who passes one of them as an argument has two names for it.
        self.tensors: list[weakref.ref[Any]] = []
        # Objects that were met, by id, with the local name; kept so that no id is used twice.
        self.met: dict[int, tuple[str, Any]] = {}
        # Names that were read of a scope, and classes that were visited.
        self.scopes: dict[tuple[int, str], None] = {}
        self.found: set[CodeType] = set()
        self._pending: list[tuple[Any, str, str, Chains, bool]] = []

    def run(self, function: Any, arguments: Iterable[tuple[str, Any]]) -> None:
        """Walk from a function and arguments."""
        self.enter_root(getattr(function, "__qualname__", "the function"), function)
        for label, argument in arguments:
            self.enter_root(label, argument)
        for code, scope in self.executed.items():
            for name in () if is_own_scope(scope) else reads_of(code).escapes:
                self.unknown.append(f"{code.co_qualname} reads {name}, which shows other scopes")
        for code, scope in list(self.executed.items()):
            self.enter_globals(code, scope)
        while self._pending:
            value, expression, label, chains, told = self._pending.pop()
            if len(self.comparisons.places) > MOST_PLACES:
                self.unknown.append(f"it reads more than {MOST_PLACES} things from outside")
                self.grew = False  # more of it would be no use
                return
            self._visit(value, expression, label, chains, told)
        if self.observed:
            self._check_executed()

    def _check_executed(self) -> None:
        """All code of this run must have been found: else nobody knows where it was read from."""
        inside = {inner for code in self.found for inner in nested_code(code)}
        for code in self._must_be_found:
            if code not in self.found and code not in inside and code.co_name != "<module>":
                self.unknown.append(
                    f"it calls {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}), "
                    "which cannot be found from the names that it reads"
                )
                return

    def enter_root(self, label: str, thing: Any, told: bool = False) -> None:
        """Start from an object. The comparisons do not keep it alive, if that is possible."""
        try:
            reference: Callable[[], Any] = weakref.ref(thing)
        except TypeError:
            self.later(thing, self.comparisons.thing(thing), label, None, told)
        else:
            self.later(thing, f"{self.comparisons.thing(reference)}()", label, None, told)

    def enter_globals(self, code: CodeType, scope: dict[str, Any]) -> None:
        """Start from the globals that a code object reads."""
        if is_own_scope(scope):
            return  # layers and optimisers: nobody assigns to globals of their modules
        module = scope.get("__name__") or ""
        reads, place = reads_of(code), ""
        for name in sorted(reads.globals):
            # No source has names with an @: they are those of rewritten assertions.
            if (id(scope), name) in self.scopes or name.startswith("@"):
                continue
            self.scopes[id(scope), name] = None
            place = place or self.comparisons.thing(scope)
            label = name if module == "__main__" else f"{module}.{name}"
            if name in scope:
                self.later(scope[name], f"{place}[{name!r}]", label, self._chains.get(name))
                continue
            # A built-in, or nothing: a global of that name would come before it.
            self.comparisons.begin(label, "a built-in" if name in _BUILT_IN else "nothing")
            self.comparisons.check(f"{name!r} in {place}")
            self._enter_builtin(scope, name)
            if (name,) in self._passed and is_impure_name(name):
                self.unknown.append(f"it passes on {name}, {what_it_may_do(name)}")
        for name in sorted(reads.modules):
            found = sys.modules.get(name)
            if found is not None and (id(sys.modules), name) not in self.scopes:
                self.scopes[id(sys.modules), name] = None
                self.later(found, f"{self.comparisons.thing(sys.modules)}[{name!r}]", name)

    def _enter_builtin(self, scope: dict[str, Any], name: str) -> None:
        """Somebody may put other things among the built-ins."""
        held = scope.get("__builtins__", builtins)
        held = held if isinstance(held, dict) else vars(held)
        place, found = self.comparisons.thing(held), held.get(name, _MISSING)
        if found is _MISSING:
            self.comparisons.check(f"{name!r} in {place}")
        elif found is _BUILT_IN.get(name, _MISSING):
            seen = self.comparisons.thing(found)
            self.comparisons.check(f"{place}[{name!r}] is not {seen}", f"{place}[{name!r}]")
        else:
            self.later(found, f"{place}[{name!r}]", name)

    def compare_registrations(self) -> None:
        """Abstract classes may take others for their subclasses: Python counts when they do."""
        if not self.compares_registrations:
            self.compares_registrations = True
            self.comparisons.begin("subclasses of abstract classes", "those registered so far")
            now = f"{self.comparisons.thing(abc.get_cache_token)}()"
            self.comparisons.check(f"{now} != {abc.get_cache_token()}")

    def later(
        self, value: Any, expression: str, label: str, chains: Chains = None, told: bool = False
    ) -> None:
        """Visit a value that the expression gives."""
        self._pending.append((value, expression, label, chains, told))

    def meet(self, value: Any, expression: str) -> str:
        """A local name for an object that is visited now."""
        now = self.comparisons.local(expression)
        self.met[id(value)] = (now, value)
        return now

    def is_called_only(self, name: str) -> bool:
        """Whether all executed code calls what has this name on the spot: then it was observed."""
        return not any(chain[-1] == name for chain in self._passed)

    def _visit(self, value: Any, expression: str, label: str, chains: Chains, told: bool) -> None:
        comparisons, kind = self.comparisons, type(value)
        comparisons.begin(label, value)
        if kind in SINGLE:
            comparisons.check(f"{expression} is not {comparisons.thing(value)}", expression, told)
        elif kind in PLAIN or isinstance(value, np.generic):
            comparisons.check_value(expression, value, told)
        elif id(value) in self.met:
            # Reached before by another way: it is still the same object there.
            comparisons.check(f"{expression} is not {self.met[id(value)][0]}", expression, told)
        elif isinstance(value, types.ModuleType):
            visit_functions.visit_module(self, value, expression, label, chains)
        elif isinstance(value, type):
            now = self.meet(value, expression)
            comparisons.check(f"{now} is not {comparisons.thing(value)}", now, told)
            if isinstance(value, abc.ABCMeta):
                self.compare_registrations()
            if not is_pure_class(value):
                self.unknown.append(f"it reads {label}, a class of C, {what_it_may_do(label)}")
            visit_objects.visit_class(self, value, label)
        elif isinstance(value, types.FunctionType):
            visit_functions.visit_function(self, value, expression, label, told)
        elif isinstance(value, types.MethodType):
            now = self.meet(value, expression)
            comparisons.check(f"type({now}) is not {comparisons.thing(types.MethodType)}", now)
            self.later(value.__func__, f"{now}.__func__", label)
            self.later(value.__self__, f"{now}.__self__", f"{label}.__self__")
        elif kind is np.ndarray:
            visit_containers.visit_array(self, value, expression, label)
        elif kind in (tuple, list, deque):
            visit_containers.visit_sequence(self, value, expression, label, told)
        elif value is sys.modules:
            self.unknown.append(f"it reads {label}, which holds all modules of the process")
        elif kind in MAPPINGS:
            visit_containers.visit_mapping(self, value, expression, label)
        elif kind in SETS:
            visit_containers.visit_set(self, value, expression, label)
        elif isinstance(value, _BUILTINS):
            visit_functions.visit_builtin(self, value, expression, label)
        elif isinstance(value, _FIXED) or kind.__module__ in _FIXED_MODULES or is_compiled(value):
            comparisons.check_value(expression, value, told)
        else:
            visit_objects.visit_object(self, value, expression, label, told)


def is_special(name: str) -> bool:
    """Whether a name is one that Python itself looks up."""
    return name[:2] == "__" == name[-2:]


def _by_global(all_chains: Iterable[frozenset[Chain]]) -> dict[str, frozenset[Chain]]:
    """By global name, the attributes that are read straight from it."""
    found: dict[str, set[Chain]] = {}
    for chains in all_chains:
        for chain in chains:
            found.setdefault(chain[0], set()).add(chain[1:])
    return {name: frozenset(chains) for name, chains in found.items()}
