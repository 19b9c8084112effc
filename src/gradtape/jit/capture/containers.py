"""Containers: lists, dicts and dataclasses among arguments and results of a captured run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from gradtape.trace.followed_number import plain

# The entries of a container by index, key or name.
Content = dict[Any, object]


class ContainerChanges:
    """Notices changes of the lists, dicts and dataclasses that a function is given."""

    def __init__(
        self,
        originals: Sequence[object],
        stand_ins: Sequence[object],
        inputs: Iterable[tuple[object, object]],
    ) -> None:
        # Containers of the caller, their stand-ins, and what these held at first.
        self._pairs: list[tuple[object, object, Content]] = []
        self._theirs = {id(mine): original for original, mine in inputs}
        for theirs, mine in zip(originals, stand_ins, strict=True):
            self._pair(theirs, mine)

    def _pair(self, original: object, mine: object) -> None:
        if original is mine or type(original) is not type(mine):
            return
        held = content(mine)
        if held is None:
            return
        theirs = content(original) or {}
        if dataclasses.is_dataclass(mine):
            # A pytree has the fields of a dataclass only; other attributes are copied here.
            for name in theirs.keys() - held.keys():
                object.__setattr__(mine, name, theirs[name])
                held[name] = theirs[name]
        if not isinstance(mine, tuple):
            self._pairs.append((original, mine, held))
            self._theirs[id(mine)] = original
        if not held.keys() <= theirs.keys():
            # As Python says of a dict whose size changes during iteration.
            raise RuntimeError(
                f"gt.function: another thread changed a {type(original).__name__} among the "
                "arguments while they were read. Pass a copy, or use a lock."
            )
        for key, part in held.items():
            self._pair(theirs[key], part)

    @property
    def originals(self) -> dict[int, object]:
        """The caller's containers by the ids of their stand-ins."""
        return {id(mine): original for original, mine, _ in self._pairs}

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return any(_differs(mine, before) for _, mine, before in self._pairs)

    def carry_out(self) -> None:
        """Change the caller's containers as their stand-ins were."""
        for original, mine, before in self._pairs:
            if _differs(mine, before):
                now = content(mine) or {}
                fill(original, {key: self._own(part) for key, part in now.items()})

    def _own(self, part: object) -> object:
        """The caller's own object for a stand-in."""
        if id(part) in self._theirs:
            return self._theirs[id(part)]
        return plain(part)


def _differs(container: object, before: Content) -> bool:
    now = content(container) or {}
    return list(now) != list(before) or any(now[key] is not before[key] for key in now)


def content(container: object) -> Content | None:
    """The entries of a list, tuple, dict or dataclass by key; None for anything else."""
    if isinstance(container, (list, tuple)):
        return dict(enumerate(container))
    if isinstance(container, dict):
        return dict(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        names = [field.name for field in dataclasses.fields(container)]
        held = {name: getattr(container, name) for name in names if hasattr(container, name)}
        return held | getattr(container, "__dict__", {})
    return None


def fill(container: object, entries: Content) -> None:
    """Let a list, dict or dataclass have these entries and no others."""
    if isinstance(container, list):
        container[:] = entries.values()
    elif isinstance(container, dict):
        container.clear()
        container.update(entries)
    else:
        for name in getattr(container, "__dict__", {}).keys() - entries.keys():
            object.__delattr__(container, name)
        for name, part in entries.items():
            object.__setattr__(container, name, part)
