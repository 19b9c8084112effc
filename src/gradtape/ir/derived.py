"""Derived facts: what is computed once from a graph and remembered, with all that it depends on.

A table of nodes and a program remember what was derived from them: derivatives, patterns, batched
graphs, verdicts. Equal keys must mean equal facts. So a key is made of everything that a fact may
depend on, each in its own field, and none of the fields has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from gradtape.dtypes import Array

F = TypeVar("F")

# A digest for each leaf whose contents a fact reads; None stands for contents that are not known.
Digests = tuple[str | None, ...]


class Fact(NamedTuple):
    """The key of a derived fact. It is a tuple because look-ups are frequent."""

    kind: str
    # The nodes, programs and params from which it is derived. Leaves count without their contents.
    structure: tuple[Hashable, ...]
    # The contents that it reads; see `gradtape.autodiff.sparse.detect`.
    contents: Digests
    # Budgets, modes, thread counts, and the values that the recording keeps (`available`).
    settings: tuple[Hashable, ...]


def digest_of(array: Array) -> str:
    """A digest that distinguishes contents."""
    # It loads OpenSSL, which takes longer than most of our packages.
    import hashlib

    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()


def of_structure(kind: str, *structure: Hashable) -> Fact:
    """The key of a fact that follows from structure alone: it holds for all contents of leaves."""
    return tuple.__new__(Fact, (kind, structure, (), ()))  # without a call of Python code


class Derived(dict[Fact, Any]):
    """The facts derived from one table or program."""

    __slots__ = ()

    def once(self, key: Fact, derive: Callable[[], F]) -> F:
        """The fact with this key, derived at the first call.

        If two threads derive it at the same time, both get the object of the first.
        """
        found: F = self.get(key, _MISSING)
        return self.setdefault(key, derive()) if found is _MISSING else found


_MISSING: Any = object()
