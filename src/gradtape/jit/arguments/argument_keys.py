"""Argument keys: the parts of a signature's key that stand for the leaves of arguments."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.ir.spec import Spec
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable


def is_input(part: object) -> bool:
    """Whether a part of a key stands for an input, which every call passes anew."""
    if type(part) is tuple:
        return type(part[0]) is Spec
    return type(part) is Spec or part is float or part is int or part is complex


def in_words(part: Any) -> str:
    """A part of a key as a user would say it."""
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


def is_gone(key: object) -> bool:
    """Whether a key, or a part of one, names an object that does not exist any more."""
    if isinstance(key, Identity):
        return key.gone
    return isinstance(key, (tuple, frozenset)) and any(map(is_gone, key))


def has_iterator(key: object) -> bool:
    """Whether a key, or a part of one, names an iterator."""
    if isinstance(key, Identity):
        return key.moves_on
    return isinstance(key, (tuple, frozenset)) and any(map(has_iterator, key))


def static_key(thing: Any) -> Any:
    """The part of a key for a static value: the value, or the identity of the object."""
    kind = type(thing)
    if isinstance(thing, (bool, int, float, complex, str, bytes, type(None))):
        # Equal in a dictionary, but not in a program: True and 1, 0.0 and -0.0.
        return kind, repr(thing) if isinstance(thing, (float, complex)) else thing
    if isinstance(thing, Variable) or callable(thing):
        return Identity(thing)
    if isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        return kind, (thing.shape, thing.dtype, thing.tobytes())
    if isinstance(thing, Tensor):
        return kind, (thing.shape, thing.dtype, thing.numpy().tobytes())
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
