"""Signature: what two calls of a function have in common when they run the same program."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.arguments import Arguments
from gradtape.dtypes import as_dtype
from gradtape.graph.recording import state
from gradtape.pytree import flatten
from gradtape.tensor import Tensor, asarray
from gradtape.variable import Variable

# An int that has been seen with so many values is an input from then on.
STATIC_INTS = 3

Specs = Sequence[Any] | None


class Signature:
    """Sorts the arguments of calls into inputs and static values."""

    def __init__(
        self, f: Callable[..., Any], static_names: tuple[str, ...], reduce_retracing: bool
    ) -> None:
        self._names = _parameter_names(f)
        unknown = [name for name in static_names if self._names and name not in self._names]
        if unknown:
            raise ValueError(
                f"function: static_argnames {unknown} are not among the parameters "
                f"{self._names}. Name parameters of the function."
            )
        self._static = frozenset(static_names)
        self._int_limit = 0 if reduce_retracing else STATIC_INTS
        # Values of ints seen, by where they were passed.
        self._ints: dict[Any, set[int]] = {}
        self._last: list[tuple[str, Any]] | None = None

    def of(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any], Arguments | None]:
        """The key of a call, its inputs, and where they are; None if they are the arguments."""
        if not kwargs and not self._static:
            key: list[Any] = []
            leaves: list[Any] = []
            for argument in args:
                kind = type(argument)
                if kind is Tensor:
                    value = argument.computed
                    if value is None:
                        state.evaluate(argument)
                        value = argument.computed
                    key.append(value.spec)
                    leaves.append(value)
                elif kind is float:
                    key.append(float)
                    leaves.append(argument)
                else:
                    break
            else:
                if not _repeats(args):
                    return tuple(key), leaves, None
        return self._general(args, kwargs)

    def _general(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any], Arguments | None]:
        parts = [(self._name(position), argument) for position, argument in enumerate(args)]
        parts += list(kwargs.items())
        key: list[Any] = []
        leaves: list[Any] = []
        slots: list[Any] = []
        # In-place writes to a tensor that is given twice are seen in both places.
        places: dict[int, int] = {}
        for name, argument in parts:
            if name in self._static:
                key.append((name, "static", _identity(argument)))
                slots.append((None, [(None, argument)]))
                continue
            found, structure = flatten(argument)
            entries: list[tuple[int | None, Any]] = []
            key.append((name, structure))
            for number, leaf in enumerate(found):
                part, value, dynamic = self._leaf((name, number), leaf)
                if not dynamic:
                    entries.append((None, leaf))
                elif isinstance(leaf, (Tensor, np.ndarray)) and id(leaf) in places:
                    part = ("the same as input", places[id(leaf)])
                    entries.append((places[id(leaf)], leaf))
                else:
                    places[id(leaf)] = len(leaves)
                    entries.append((len(leaves), leaf))
                    leaves.append(value)
                key.append(part)
            slots.append((structure, entries))
        return tuple(key), leaves, Arguments(slots, len(args), tuple(kwargs))

    def _leaf(self, where: Any, leaf: Any) -> tuple[Any, Any, bool]:
        """Its part of the key, the input it is, and whether it is one."""
        if isinstance(leaf, Tensor):
            if leaf.computed is None:
                state.evaluate(leaf)
            value: Any = leaf.computed
            kind = leaf.result_class
            return value.spec if kind is Tensor else (value.spec, kind), value, True
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biufc":
            value = asarray(leaf).computed
            return value.spec, value, True
        if type(leaf) is float:
            return float, leaf, True
        if type(leaf) is int:
            seen = self._ints.setdefault(where, set())
            if len(seen) <= self._int_limit:
                seen.add(leaf)
            if len(seen) > self._int_limit:
                return int, leaf, True
        return _identity(leaf), leaf, False

    def _name(self, position: int) -> str:
        if position < len(self._names):
            return self._names[position]
        return f"argument {position}"

    def difference(self, key: tuple[Any, ...]) -> str:
        """Why a call is of another kind than the one before."""
        now = _labelled(key, self._names)
        last, self._last = self._last, now
        if last is None:
            return "first call"
        for (name, new), (_, old) in zip(now, last, strict=False):
            if new != old:
                return f"{name} was {old} and is {new}"
        return "the number of arguments changed"


def _labelled(key: tuple[Any, ...], names: list[str]) -> list[tuple[str, Any]]:
    found = []
    name = ""
    for position, part in enumerate(key):
        if isinstance(part, tuple) and part and isinstance(part[0], str) and len(part) > 1:
            name = part[0]
            if part[1] == "static":
                found.append((name, part[2]))
            continue
        label = name or (names[position] if position < len(names) else f"argument {position}")
        found.append((label, part.__name__ if isinstance(part, type) else part))
    return found


def _repeats(args: tuple[Any, ...]) -> bool:
    """Whether an object is there twice."""
    count = len(args)
    if count < 3:
        return count == 2 and args[0] is args[1]
    return len(set(map(id, args))) < count


class Identity:
    """An object that is told from others by being itself; it is not kept alive by that."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, thing: Any) -> None:
        self._hash = id(thing)
        try:
            self._reference: Any = weakref.ref(thing)
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
        """Whether the object is no more: then no call has this key again."""
        return self._reference() is None

    def __repr__(self) -> str:
        thing = self._reference()
        return "an object that is gone" if thing is None else f"{type(thing).__name__} object"


def _identity(thing: Any) -> Any:
    """What stands for a static value in a key: the value, or the object itself."""
    if isinstance(thing, (bool, int, str, bytes, complex, type(None))):
        # True is 1 to a dictionary, but not to a program.
        return type(thing), thing
    if isinstance(thing, Variable) or callable(thing):
        return Identity(thing)
    try:
        hash(thing)
    except TypeError:
        return Identity(thing)
    return Identity(thing) if type(thing).__hash__ is object.__hash__ else (type(thing), thing)


def is_gone(key: tuple[Any, ...]) -> bool:
    """Whether a key names an object that is no more."""
    for part in key:
        named = part[2] if isinstance(part, tuple) and part[1:2] == ("static",) else part
        if isinstance(named, Identity) and named.gone:
            return True
    return False


def _parameter_names(f: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return []


def check_signature(name: str, specs: Sequence[Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Positional arguments as tensors that agree with the given shapes and dtypes."""
    if len(args) != len(specs):
        raise ValueError(
            f"{name}: input_signature has {len(specs)} entries and the call {len(args)} "
            "positional arguments. Pass one for each."
        )
    found = []
    for position, (argument, of) in enumerate(zip(args, specs, strict=True)):
        tensor = asarray(argument, dtype=as_dtype(of.dtype))
        shape = of.shape
        if shape is not None and not _agrees(tensor.shape, tuple(shape)):
            raise ValueError(
                f"{name}: argument {position} has shape {tensor.shape}, and input_signature asks "
                f"for {tuple(shape)}. Pass such a shape, or None where any length will do."
            )
        found.append(tensor)
    return tuple(found)


def _agrees(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or want == have for have, want in zip(shape, wanted, strict=True)
    )
