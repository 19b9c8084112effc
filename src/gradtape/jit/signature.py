"""Signature: what two calls of a function must have in common to share a capture.

The key of a signature has one entry for each argument: a part for a leaf, or a `NestEntry` of
parts. Inputs are there by spec or class: tensors, arrays, floats, and ints of which several values
were seen. Everything else is static, and is there by value or identity.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.config import MOST_STATIC_INTS
from gradtape.ir.spec import Spec
from gradtape.pytree import Structure, flatten, leaf_names, unflatten, with_more
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.variable import Variable

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
# The inputs of a call: values of tensors, and Python numbers.
InputValues = list[Any]
# Labels and texts of the parts of a key.
_Described = list[tuple[str, str]]

_LEAF = flatten(0)[1]
_NUMBERS = (int, float, complex)
_Kind = inspect._ParameterKind
# Classes that are static and compared by value.
_STATIC = (bool, str, type(None))
# Defaults that a call is completed with. Others may be changed in place, and are left to Python.
_SIMPLE = (bool, int, float, complex, str, type(None), tuple, Tensor)


class NestEntry(NamedTuple):
    """The entry of an argument that is no leaf.

    Attributes outside the pytree distinguish instances: these are kept `apart`.
    """

    structure: Structure
    parts: tuple[Any, ...]
    apart: tuple[Identity, ...]


class Static(NamedTuple):
    """The entry of an argument that is static by its name."""

    content: Any


class CallKey(NamedTuple):
    """The key of a signature.

    If one object is passed several times, `aliases` has a number for each input: that of the first
    input which is the same object.
    """

    entries: tuple[Any, ...]
    # The names of the arguments.
    names: tuple[str, ...]
    aliases: tuple[int, ...]

    def described(self) -> Iterator[tuple[str, Structure, Sequence[Any]]]:
        """The name, structure and parts of each argument."""
        for name, entry in zip(self.names, self.entries, strict=True):
            is_nest = type(entry) is NestEntry
            yield (name, *((entry.structure, entry.parts) if is_nest else (_LEAF, (entry,))))

    def in_words(self) -> _Described:
        """The parts in words, with the names of their leaves."""
        found = [
            (label, in_words(part))
            for name, structure, parts in self.described()
            for label, part in zip(leaf_names(structure, name), parts, strict=True)
        ]
        if self.aliases:
            found.append(("the arguments", f"the same as number {[*self.aliases]} of them"))
        return found


class Identity:
    """An object that is compared by identity, and held by a weak reference only."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, thing: object) -> None:
        self._hash = id(thing)
        try:
            self._reference: Callable[[], object | None] = weakref.ref(thing)
        except TypeError:
            self._reference = lambda: thing

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return False
        mine = self._reference()
        return mine is not None and mine is other._reference()

    @property
    def gone(self) -> bool:
        """Whether the object does not exist any more: then no call has this key again."""
        return self._reference() is None

    @property
    def moves_on(self) -> bool:
        """Whether the object is an iterator, which reading changes."""
        return hasattr(type(self._reference()), "__next__")

    def __repr__(self) -> str:
        thing = self._reference()
        if thing is None:
            return "an object that is gone"
        try:
            name = getattr(thing, "__name__", None) or getattr(thing, "name", None)
        except Exception:  # attributes may be computed by the user's code
            name = None
        called = f" {name}" if isinstance(name, str) else ""
        return f"{type(thing).__name__}{called} at {id(thing):#x}"


def identities(key: object) -> Iterator[Identity]:
    """The objects that a key, or a part of one, names by identity."""
    if isinstance(key, Identity):
        yield key
    elif isinstance(key, (tuple, frozenset)):
        for part in key:
            yield from identities(part)


def is_input(part: object) -> bool:
    """Whether a part of a key stands for an input, which every call passes anew."""
    if type(part) is tuple:
        return type(part[0]) is Spec
    return type(part) is Spec or part in _NUMBERS


def in_words(part: Any) -> str:
    """A part of a key as a user would say it."""
    if type(part) is Static:
        part = part.content
    if isinstance(part, type):
        return f"{'an' if part is int else 'a'} {part.__name__}, whatever its value"
    if type(part) is not tuple:
        return repr(part)
    kind, content = part
    if type(kind) is Spec:
        return str(kind)
    if kind in (list, tuple, set, frozenset):
        return f"{kind.__name__}({', '.join(map(in_words, content))})"
    if kind is dict:
        return f"dict({', '.join(f'{in_words(k)}: {in_words(v)}' for k, v in content)})"
    if issubclass(kind, (np.ndarray, Tensor)):
        return f"{kind.__name__} of shape {content[0]}"
    return content if kind in (float, complex) else repr(content)


def static_key(thing: Any) -> Any:
    """The part of a key for a static value: the value, or the identity of the object."""
    kind = type(thing)
    if isinstance(thing, (bool, int, float, complex, str, bytes, type(None))):
        # Equal in a dictionary, but not in a program: True and 1, 0.0 and -0.0.
        return kind, repr(thing) if isinstance(thing, (float, complex)) else thing
    if isinstance(thing, Variable) or callable(thing):
        return Identity(thing)
    if isinstance(thing, Tensor) or (isinstance(thing, np.ndarray) and thing.dtype.kind != "O"):
        return kind, (thing.shape, thing.dtype, np.asarray(thing).tobytes())
    if kind in (list, tuple):
        return kind, tuple(map(static_key, thing))
    if kind is dict:
        return kind, tuple((static_key(name), static_key(part)) for name, part in thing.items())
    if kind in (set, frozenset):
        return kind, frozenset(map(static_key, thing))
    try:
        hash(thing)
    except TypeError:
        return Identity(thing)
    return Identity(thing) if kind.__hash__ is object.__hash__ else (kind, thing)


class CallArguments(NamedTuple):
    """The arguments of one call, in the order of the parameters."""

    args: Args
    kwargs: Kwargs
    key: CallKey

    def described(self) -> list[tuple[str, Any, Structure, Sequence[Any]]]:
        """Each argument with its name, its structure, and the part of the key for each leaf."""
        arguments = (*self.args, *self.kwargs.values())
        return [
            (name, argument, structure, parts)
            for argument, (name, structure, parts) in zip(
                arguments, self.key.described(), strict=True
            )
        ]

    def rebuilt(self, inputs: Sequence[object]) -> tuple[Args, Kwargs]:
        """The arguments with other inputs in the place of theirs."""
        fresh = iter(inputs)
        built = []
        for _, argument, structure, parts in self.described():
            leaves = zip(_leaves(argument, structure), parts, strict=True)
            filled = [next(fresh) if is_input(part) else leaf for leaf, part in leaves]
            built.append(unflatten(structure, filled))
        count = len(self.args)
        return tuple(built[:count]), dict(zip(self.kwargs, built[count:], strict=True))

    def inputs(self) -> list[tuple[str, Any]]:
        """The name of each input, and the object that the caller passed."""
        return [(label, leaf) for label, leaf, part in self._labelled() if is_input(part)]

    def passed(self) -> list[object]:
        """The inputs as the caller passed them."""
        return [original for _, original in self.inputs()]

    def objects(self) -> list[tuple[str, object]]:
        """Arguments, or leaves of them, that are not inputs, with their names."""
        found = [(label, leaf) for label, leaf, part in self._labelled() if not is_input(part)]
        for name, argument, structure, _ in self.described():
            found += [(name, each) for each in with_more(argument, structure)]
            found += [(name, kind) for kind in _classes(structure)]
        return [each for each in found if type(each[1]) not in (*_STATIC, int)]

    def _labelled(self) -> Iterator[tuple[str, Any, object]]:
        """Each leaf with its name and its part of the key."""
        for name, argument, structure, parts in self.described():
            leaves = _leaves(argument, structure)
            yield from zip(leaf_names(structure, name), leaves, parts, strict=True)


class CallSignature:
    """Sorts the arguments of calls of one function into inputs and static values."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_names: tuple[str, ...],
        dynamic_ints: bool,
    ) -> None:
        # A partial has fewer parameters than what it wraps.
        wrapped = inspect.unwrap(f, stop=lambda found: isinstance(found, functools.partial))
        named = _names_by_kind(_parameters(wrapped))
        names = [each for kind in _Kind for each in named[kind]]
        unknown = [name for name in static_names if name not in names]
        if unknown and names and not named[_Kind.VAR_KEYWORD]:
            raise ValueError(
                f"function: static_argnames {unknown} are not among the parameters "
                f"{names}. Name parameters of the function."
            )
        self._rest = named[_Kind.VAR_POSITIONAL][0] if named[_Kind.VAR_POSITIONAL] else "argument"
        self._names = named[_Kind.POSITIONAL_ONLY] + named[_Kind.POSITIONAL_OR_KEYWORD]
        # Whether some parameters are static whatever is passed for them.
        self.has_static = bool(static_names)
        self._static = frozenset(static_names)
        self._int_limit = 0 if dynamic_ints else MOST_STATIC_INTS
        # Values of ints that were passed, by the numbers of argument and leaf.
        self._ints: dict[tuple[int, int], set[int]] = {}
        # Parameters by position and by name only, and their defaults; None if they are unknown.
        # Its own parameters, not those of a function that it wraps.
        own = _parameters(f)
        own_names = _names_by_kind(own)
        self._nameless = own_names[_Kind.POSITIONAL_ONLY]
        self._by_name = own_names[_Kind.KEYWORD_ONLY]
        placed = [*self._nameless, *own_names[_Kind.POSITIONAL_OR_KEYWORD]]
        self._order = None if own is None else placed
        self._defaults = {p.name: p.default for p in own or () if p.default is not p.empty}
        self._more = bool(own_names[_Kind.VAR_KEYWORD])
        # The number of positional arguments of a call that need not be arranged.
        is_open = own is None or self._by_name or own_names[_Kind.VAR_POSITIONAL]
        self._complete = -1 if is_open else len(placed)

    def of(self, args: Args, kwargs: Kwargs) -> tuple[CallKey, InputValues, CallArguments]:
        """The key of a call, its inputs, and its arguments in the order of the parameters."""
        if kwargs or len(args) != self._complete:
            args, kwargs = self.arranged(args, kwargs)
        # The last positional arguments may have no parameters.
        unnamed = [f"{self._rest}[{each}]" for each in range(len(args) - len(self._names))]
        names = (*self._names[: len(args)], *unnamed, *kwargs)
        entries: list[Any] = []
        values: InputValues = []
        passed: list[object] = []
        for place, argument in enumerate((*args, *kwargs.values()) if kwargs else args):
            kind = type(argument)
            if self._static and names[place] in self._static:
                entries.append(Static(static_key(argument)))
            elif kind is Tensor and argument.computed is not None:
                entries.append(argument.computed.spec)
                values.append(argument.computed)
                passed.append(argument)
            elif kind in _STATIC:
                entries.append((kind, argument))
            else:
                leaves, structure = flatten(argument)
                parts = []
                for number, leaf in enumerate(leaves):
                    part, value = self._leaf((place, number), leaf)
                    parts.append(part)
                    if value is not None:
                        values.append(value)
                        passed.append(leaf)
                if structure is _LEAF:
                    entries += parts
                else:
                    apart = tuple([Identity(each) for each in with_more(argument, structure)])
                    entries.append(NestEntry(structure, tuple(parts), apart))
        aliases = _aliases(passed) if len(passed) > 1 else ()
        key = CallKey(tuple(entries), names, aliases)
        return key, values, CallArguments(args, kwargs, key)

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

    def _leaf(self, place: tuple[int, int], leaf: Any) -> tuple[Any, Any]:
        """The part of the key for a leaf, and its value; None if it is static."""
        if isinstance(leaf, Tensor):
            if leaf.computed is None:
                compute_handle(leaf)
            value: Any = leaf.computed
            kind = leaf.result_class
            return value.spec if kind is Tensor else (value.spec, kind), value
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biufc":
            value = asarray(leaf).computed
            return value.spec, value
        if type(leaf) in (float, complex):
            return type(leaf), leaf
        if type(leaf) is int:
            seen = self._ints.setdefault(place, set())
            if len(seen) <= self._int_limit:
                seen.add(leaf)
            if len(seen) > self._int_limit:
                return int, leaf
        return static_key(leaf), None


def key_difference(key: CallKey, known: Iterable[CallKey]) -> tuple[str, str, str] | None:
    """The argument that makes a key differ from known ones, with what it was and is, in words.

    The key is compared with the known one that is most like it, and the latest of those.
    """
    best: list[tuple[str, str, str]] | None = None
    for other in known:
        now, before = key.in_words(), other.in_words()
        if [label for label, _ in before] != [label for label, _ in now]:
            found = [_structural(now, before)]
        else:
            pairs = zip(now, before, strict=True)
            found = [(label, old, new) for (label, new), (_, old) in pairs if new != old]
        if best is None or len(found) <= len(best):
            best = found
    return best[0] if best else None


def static_names(f: Callable[..., Any], places: Sequence[int]) -> tuple[str, ...]:
    """The names of the parameters at these positions."""
    named = _names_by_kind(_parameters(f))
    names = named[_Kind.POSITIONAL_ONLY] + named[_Kind.POSITIONAL_OR_KEYWORD]
    for place in places:
        if not -len(names) <= place < len(names):
            raise ValueError(
                f"function: static_argnums {place} is not a place among the parameters {names}. "
                "Count them from 0, or name them in static_argnames."
            )
    return tuple(names[place] for place in places)


def _parameters(f: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return [*inspect.signature(f, follow_wrapped=False).parameters.values()]
    except (TypeError, ValueError):
        return None


def _names_by_kind(parameters: list[inspect.Parameter] | None) -> dict[_Kind, list[str]]:
    return {kind: [p.name for p in parameters or () if p.kind is kind] for kind in _Kind}


def _leaves(argument: Any, structure: Structure) -> list[Any]:
    return [argument] if structure is _LEAF else flatten(argument)[0]


def _aliases(passed: Sequence[object]) -> tuple[int, ...]:
    """For each input, the first one that is the same object; () if all are different."""
    firsts: dict[int, int] = {}
    found = tuple(
        number if type(each) in _NUMBERS else firsts.setdefault(id(each), number)
        for number, each in enumerate(passed)
    )
    return () if len(set(found)) == len(passed) else found


def _classes(structure: Structure) -> set[type]:
    """The classes of the objects in a nest; functions may call their methods."""
    inner = set[type]().union(*map(_classes, structure.children))
    kind = structure.kind
    return inner if kind in (None, list, tuple, dict) else {kind, *inner}


def _structural(now: _Described, before: _Described) -> tuple[str, str, str]:
    labels = [dict(each) for each in (before, now)]
    for label in (*labels[0], *labels[1]):
        if (label in labels[0]) != (label in labels[1]):
            return label, labels[0].get(label, "absent"), labels[1].get(label, "absent")
    return "the arguments", "in one order", "in another"
