"""Signature: what two calls of a function must have in common to share a capture.

The key of a signature has one entry for each argument. Inputs are there by spec or class: tensors,
arrays, floats, and ints of which several values were seen. Everything else is static, and is there
by value or identity (`argument_keys`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.jit.arguments.argument_keys import Identity, in_words, is_input, static_key
from gradtape.pytree import Structure, flatten, leaf_names, unflatten, with_more
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.tensor import Tensor, asarray

# An int that was passed with so many values is an input from then on.
STATIC_INTS = 3

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
# The key of a signature: one entry for each argument.
Key = tuple[Any, ...]
# Name, structure and parts of an argument; "static" in the place of a structure.
Entry = tuple[str, Any, Any]
# The inputs of a call: values of tensors, and Python numbers.
Inputs = list[Any]
# Where an int was passed: the number of its argument, or its name and the number of the leaf.
Place = int | tuple[str, int]
Words = list[tuple[str, str]]

_NUMBERS = (float, complex)
_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Classes that are static and compared by value.
_STATIC = (bool, str, type(None))
# Defaults that a call is completed with. Others may be changed in place, and are left to Python.
_SIMPLE = (bool, int, float, complex, str, type(None), tuple, Tensor)


class Aliases(tuple[int, ...]):
    """The last entry of a key if one tensor is passed several times: who is the same as whom.

    There is one number for each input: that of the first input which is the same object.
    """


class Arguments:
    """The arguments of one call, in the order of the parameters."""

    __slots__ = ("args", "key", "kwargs", "signature")

    def __init__(self, signature: Signature, args: Args, kwargs: Kwargs, key: Key) -> None:
        self.signature = signature
        self.args = args
        self.kwargs = kwargs
        self.key = key

    @property
    def aliases(self) -> Sequence[int]:
        """For each input, the first one that is the same object; empty if all are different."""
        last = self.key[-1] if self.key else ()
        return last if type(last) is Aliases else ()

    def rebuilt(self, inputs: Sequence[object]) -> tuple[Args, Kwargs]:
        """The arguments with other inputs in the place of theirs."""
        fresh = iter(inputs)
        built = []
        for _, argument, entry in self._entries():
            if entry[1] == "static" or argument is None:
                built.append(argument)
                continue
            leaves, structure = flatten(argument)
            filled = [
                next(fresh) if is_input(part) else leaf
                for leaf, part in zip(leaves, entry[2], strict=True)
            ]
            built.append(unflatten(structure, filled))
        count = len(self.args)
        return tuple(built[:count]), dict(zip(self.kwargs, built[count:], strict=True))

    def inputs(self) -> list[tuple[str, Any]]:
        """The name of each input, and the object that the caller passed."""
        return [(label, leaf) for label, leaf, part in self._leaves() if is_input(part)]

    def _leaves(self) -> Iterable[tuple[str, Any, object]]:
        """Each leaf of an argument that is not static, with its name and its part of the key."""
        for name, argument, entry in self._entries():
            if entry[1] != "static" and argument is not None:
                leaves, structure = flatten(argument)
                yield from zip(leaf_names(structure, name), leaves, entry[2], strict=True)

    def objects(self) -> list[tuple[str, object]]:
        """Arguments, or leaves of them, that are not inputs, with their names."""
        found = [(label, leaf) for label, leaf, part in self._leaves() if not is_input(part)]
        for name, argument, entry in self._entries():
            if entry[1] == "static":
                found.append((name, argument))
            elif argument is not None:
                structure = flatten(argument)[1]
                found += [(name, each) for each in with_more(argument, structure)]
                found += [(name, kind) for kind in _classes(structure)]
        return [each for each in found if type(each[1]) not in (*_STATIC, int)]

    def passed(self) -> list[object]:
        """The inputs as the caller passed them."""
        return [original for _, original in self.inputs()]

    def described(self) -> list[tuple[Any, Structure, Key]]:
        """Each argument with its structure, and the part of the key for each of its leaves."""
        return [(argument, entry[1], entry[2]) for _, argument, entry in self._entries()]

    def _entries(self) -> Iterable[tuple[str, Any, Entry]]:
        names = [*map(self.signature.name, range(len(self.args))), *self.kwargs]
        arguments = [*self.args, *self.kwargs.values()]
        return zip(names, arguments, _full(self.key, names), strict=True)


class Signature:
    """Sorts the arguments of calls of one function into inputs and static values."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_names: tuple[str, ...],
        dynamic_ints: bool,
    ) -> None:
        names, self._names, self._rest = _parameter_names(f)
        unknown = [name for name in static_names if names and name not in names]
        if unknown:
            raise ValueError(
                f"function: static_argnames {unknown} are not among the parameters "
                f"{names}. Name parameters of the function."
            )
        self._static = frozenset(static_names)
        self._int_limit = 0 if dynamic_ints else STATIC_INTS
        # Values of ints that were passed, by argument and leaf.
        self._ints: dict[Place, set[int]] = {}
        # Parameters by position and by name only, and their defaults; None if they are unknown.
        self._order: list[str] | None = None
        self._by_name: list[str] = []
        self._defaults: dict[str, object] = {}
        # The number of positional arguments of a call that need not be arranged.
        self._complete = -1
        self._read_parameters(f)

    def _read_parameters(self, f: Callable[..., Any]) -> None:
        try:
            # Its own parameters, not those of a function that it wraps.
            parameters = inspect.signature(f, follow_wrapped=False).parameters.values()
        except (TypeError, ValueError):
            return
        kinds = {parameter.kind for parameter in parameters}
        self._more = inspect.Parameter.VAR_KEYWORD in kinds
        self._order = [p.name for p in parameters if p.kind in _PLACED]
        self._nameless = {p.name for p in parameters if p.kind is _PLACED[0]}
        self._by_name = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        self._defaults = {
            p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty
        }
        if not self._by_name and inspect.Parameter.VAR_POSITIONAL not in kinds:
            self._complete = len(self._order)

    @property
    def has_static(self) -> bool:
        """Whether some parameters are static whatever is passed for them."""
        return bool(self._static)

    def name(self, position: int) -> str:
        """The name of a positional argument."""
        if position < len(self._names):
            return self._names[position]
        rest = "argument" if self._rest is None else self._rest
        return f"{rest}[{position - len(self._names)}]"

    def of(self, args: Args, kwargs: Kwargs) -> tuple[Key, Inputs, Arguments]:
        """The key of a call, its inputs, and its arguments in the order of the parameters."""
        if kwargs or len(args) != self._complete:
            args, kwargs = self.arranged(args, kwargs)
        if not kwargs and not self._static:
            key: list[Any] = []
            leaves: Inputs = []
            for argument in args:
                kind = type(argument)
                if kind is Tensor:
                    value = argument.computed
                    if value is None:
                        compute_handle(argument)
                        value = argument.computed
                    key.append(value.spec)
                    leaves.append(value)
                elif kind is float:
                    key.append(float)
                    leaves.append(argument)
                elif kind in _STATIC:
                    key.append((kind, argument))
                elif kind is int:
                    part, value = self._leaf(len(key), argument)
                    key.append(part)
                    if part is int:
                        leaves.append(value)
                else:
                    break
            else:
                if len(leaves) < 2 or len(set(map(id, args))) == len(args):
                    found = tuple(key)
                    return found, leaves, Arguments(self, args, kwargs, found)
        return self._general(args, kwargs)

    def arranged(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The call with arguments and simple defaults in the order of the parameters.

        Unchanged if it does not fit the parameters: Python will raise the error.
        """
        order = self._order
        if order is None or not (kwargs or self._by_name or len(args) < len(order)):
            return args, kwargs
        rest, placed, named = dict(kwargs), list(args), {}
        for name in (*order[len(args) :], *self._by_name):
            if name in rest and name not in self._nameless:
                value = rest.pop(name)
            elif name not in self._defaults:
                return args, kwargs
            elif isinstance(self._defaults[name], _SIMPLE):
                value = self._defaults[name]
            else:
                continue
            if len(placed) < len(order) and order[len(placed)] == name:
                placed.append(value)
            elif name in self._nameless:
                return args, kwargs
            else:
                named[name] = value
        if rest and not self._more:
            return args, kwargs
        return tuple(placed), {**named, **rest}

    def _general(self, args: Args, kwargs: Kwargs) -> tuple[Key, Inputs, Arguments]:
        names = self._names
        if len(args) > len(names):
            names = [self.name(position) for position in range(len(args))]
        parts = [*zip(names, args, strict=False), *kwargs.items()]
        key: list[Any] = []
        leaves: Inputs = []
        passed: list[object] = []
        for name, argument in parts:
            if name in self._static:
                key.append((name, "static", static_key(argument)))
                continue
            found, structure = flatten(argument)
            entries: list[object] = []
            for leaf in found:
                kind = type(leaf)
                if kind is Tensor and leaf.computed is not None:
                    part, value = leaf.computed.spec, leaf.computed
                else:
                    part, value = self._leaf((name, len(entries)), leaf)
                entries.append(part)
                if is_input(part):
                    leaves.append(value)
                    passed.append(leaf)
            # Attributes that are not in the pytree tell one instance from another.
            apart = [Identity(each) for each in with_more(argument, structure)]
            key.append((name, structure, tuple(entries), *apart))
        if len(passed) > 1 and len(set(map(id, passed))) < len(passed):
            firsts: dict[int, int] = {}
            pattern = Aliases(
                number
                if type(each) in _NUMBERS or type(each) is int
                else firsts.setdefault(id(each), number)
                for number, each in enumerate(passed)
            )
            if list(pattern) != list(range(len(passed))):
                key.append(pattern)
        return tuple(key), leaves, Arguments(self, args, kwargs, tuple(key))

    def _leaf(self, place: Place, leaf: Any) -> tuple[Any, Any]:
        """The part of the key for a leaf, and its value if it is an input."""
        if isinstance(leaf, Tensor):
            if leaf.computed is None:
                compute_handle(leaf)
            value: Any = leaf.computed
            kind = leaf.result_class
            return value.spec if kind is Tensor else (value.spec, kind), value
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biufc":
            value = asarray(leaf).computed
            return value.spec, value
        if type(leaf) in _NUMBERS:
            return type(leaf), leaf
        if type(leaf) is int:
            seen = self._ints.setdefault(place, set())
            if len(seen) <= self._int_limit:
                seen.add(leaf)
            if len(seen) > self._int_limit:
                return int, leaf
        return static_key(leaf), leaf

    def difference(self, key: Key, known: Iterable[Key]) -> tuple[str, str, str] | None:
        """The argument that makes a key differ from known ones, with what it was and is, in words.

        The key is compared with the known one that is most like it, and the latest of those.
        """
        now = self._described(key)
        best: list[tuple[str, str, str]] | None = None
        for other in known:
            before = self._described(other)
            if [label for label, _ in before] != [label for label, _ in now]:
                found = [_structural(now, before)]
            else:
                pairs = zip(now, before, strict=True)
                found = [(label, old, new) for (label, new), (_, old) in pairs if new != old]
            if best is None or len(found) <= len(best):
                best = found
        return best[0] if best else None

    def _described(self, key: Key) -> list[tuple[str, str]]:
        """The parts of a key in words, with the names of their leaves."""
        found = []
        count = len(key) - (type(key[-1]) is Aliases if key else 0)
        names = [self.name(position) for position in range(count)]
        for name, entry in zip(names, _full(key, names), strict=True):
            if entry[1] == "static":
                found.append((entry[0], in_words(entry[2])))
                continue
            labels = leaf_names(entry[1], entry[0] or name)
            found += [(label, in_words(part)) for label, part in zip(labels, entry[2], strict=True)]
        if count < len(key):
            found.append(("the arguments", f"the same as number {list(key[-1])} of them"))
        return found


def _classes(structure: Structure) -> set[type]:
    """The classes of the objects in a nest; functions may call their methods."""
    inner = set[type]().union(*map(_classes, structure.children))
    kind = structure.kind
    return inner if kind in (None, list, tuple, dict) else {kind, *inner}


def _structural(now: Words, before: Words) -> tuple[str, str, str]:
    labels = [dict(each) for each in (before, now)]
    for label in (*labels[0], *labels[1]):
        if (label in labels[0]) != (label in labels[1]):
            return label, labels[0].get(label, "absent"), labels[1].get(label, "absent")
    return "the arguments", "in one order", "in another"


def _full(key: Key, names: Sequence[str]) -> Iterable[Entry]:
    """The entries of a key as (name, structure, parts); those of simple calls have one part."""
    leaf = flatten(0)[1]
    key = key[:-1] if key and type(key[-1]) is Aliases else key
    for name, entry in zip(names, key, strict=True):
        general = type(entry) is tuple and len(entry) >= 3 and type(entry[0]) is str
        yield entry[:3] if general else (name, leaf, (entry,))


def _parameter_names(f: Callable[..., Any]) -> tuple[list[str], list[str], str | None]:
    """All parameters, those by position, and the name of `*args`; none if any name will do."""
    # A partial has fewer than what it wraps.
    f = inspect.unwrap(f, stop=lambda found: isinstance(found, functools.partial))
    try:
        parameters = inspect.signature(f, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return [], [], None
    rest = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    placed = [p.name for p in parameters if p.kind in _PLACED]
    if inspect.Parameter.VAR_KEYWORD in {p.kind for p in parameters}:
        return [], placed, rest[0] if rest else None  # any name will do
    return [p.name for p in parameters], placed, rest[0] if rest else None
