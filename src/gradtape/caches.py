"""Caches: one register of everything the library remembers between calls.

A cache is declared where it lives, by `remembered` in the place of `functools.lru_cache`, or by
`register` for a table of another kind. `gt.caches` lists them all, and clears them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar

from gradtape.display import rows_as_html

F = TypeVar("F", bound=Callable[..., Any])

_NAMES: dict[str, Cache] = {}


class Cache:
    """One cache: how much it holds, how much it may hold, and how to empty it.

    >>> gt.caches()["ops.families.strides.row_major"].bound > 0
    True
    """

    __slots__ = ("_clear", "_entries", "_nbytes", "bound", "name")

    def __init__(
        self,
        name: str,
        bound: int | None,
        entries: Callable[[], int],
        clear: Callable[[], object],
        nbytes: Callable[[], int] | None,
    ) -> None:
        self.name = name
        # Entries at most. None: one for each object of another register, such as a loaded module.
        self.bound = bound
        self._entries, self._clear, self._nbytes = entries, clear, nbytes

    @property
    def entries(self) -> int:
        """The current number of entries."""
        return self._entries()

    @property
    def nbytes(self) -> int | None:
        """The bytes of its values, where they are counted."""
        return None if self._nbytes is None else self._nbytes()

    def clear(self) -> None:
        """Forget all entries: they are computed again when they are needed."""
        self._clear()


_COLUMNS = ("name", "entries", "bytes", "bound")


class Caches:
    """The caches of this process by name. As text it is a table."""

    def __getitem__(self, name: str) -> Cache:
        return _NAMES[name]

    def __iter__(self) -> Iterator[Cache]:
        return iter([_NAMES[name] for name in sorted(_NAMES)])

    def __len__(self) -> int:
        return len(_NAMES)

    def clear(self) -> None:
        """Clear every cache."""
        for each in self:
            each.clear()

    def _rows(self) -> list[tuple[str, ...]]:
        numbers = ((each.name, (each.entries, each.nbytes, each.bound)) for each in self)
        return [(name, *("-" if n is None else str(n) for n in row)) for name, row in numbers]

    def _repr_html_(self) -> str:
        """As a table, for notebooks."""
        return rows_as_html("Caches", _COLUMNS, self._rows())

    def __repr__(self) -> str:
        rows = [_COLUMNS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *cells in rows:
            padded = [f"{n:>{width}}" for n, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([f"{name:<{widths[0]}}", *padded]))
        return "\n".join(lines)


def caches() -> Caches:
    """All caches of this process: entries, bytes and bounds, and how to clear them.

    Only caches of modules that are loaded are listed. `gt.empty_cache` gives memory back;
    `gt.clear_plans` drops plans.

    >>> found = gt.caches()
    >>> print(found)  # doctest: +ELLIPSIS
    name  ...
    >>> found["ops.families.strides.row_major"].clear()
    """
    return Caches()


def register(
    name: str,
    table: Sized,
    bound: int | None,
    *,
    clear: Callable[[], object] | None = None,
    nbytes: Callable[[], int] | None = None,
) -> None:
    """Enter a table that is no `remembered` function; `clear` is its own method by default."""
    emptied = table.clear if clear is None else clear  # type: ignore[attr-defined]
    _NAMES[name] = Cache(name, bound, lambda: len(table), emptied, nbytes)


def remembered(bound: int | None) -> Callable[[F], F]:
    """`functools.lru_cache` with an entry in the register.

    >>> from gradtape.caches import remembered
    >>> @remembered(8)
    ... def square(n):
    ...     return n * n
    >>> square(3), square(3), square.cache_info().hits
    (9, 9, 1)
    """

    def decorate(function: F) -> F:
        found: Any = functools.lru_cache(maxsize=bound)(function)
        module = function.__module__.removeprefix("gradtape.")
        name = f"{module}.{function.__qualname__.lstrip('_')}"
        _NAMES[name] = Cache(
            name, bound, lambda: found.cache_info().currsize, found.cache_clear, None
        )
        return found

    return decorate
