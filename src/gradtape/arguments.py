"""Arguments: the nests that a captured function is given in place of the caller's own.

The function gets tensors of the capture, in lists, dicts and dataclasses like those of the call.
What it does to these is done to the caller's own afterwards, as if it had been given them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.graph.deferred import Deferred
from gradtape.graph.recording import Value
from gradtape.pytree import unflatten
from gradtape.tensor import Tensor


class Arguments:
    """Arguments of a call, with places for the inputs among them."""

    def __init__(self, slots: list[Any], count: int, names: tuple[str, ...]) -> None:
        self._slots = slots
        self._count = count
        self._names = names

    @property
    def inputs(self) -> list[Any]:
        """What the caller gave for each input."""
        found = {
            place: leaf
            for _, entries in self._slots
            for place, leaf in entries
            if place is not None
        }
        return [found[place] for place in range(len(found))]

    def filled(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments around other inputs."""
        built = []
        for structure, entries in self._slots:
            leaves = [leaf if place is None else given[place] for place, leaf in entries]
            built.append(leaves[0] if structure is None else unflatten(structure, leaves))
        names = self._names
        return tuple(built[: self._count]), dict(zip(names, built[self._count :], strict=True))


def like(tensor: Tensor, original: Any) -> Tensor:
    """A fresh tensor in the class of tensors that the caller's own has."""
    kind = getattr(original, "result_class", Tensor)
    if kind is Tensor or not isinstance(original, Tensor):
        return tensor
    return kind(tensor.node, tensor.recording, tensor.computed)


def rebind(original: Any, value: Value) -> None:
    """Do to the caller's tensor or array what was done in place to the one given for it."""
    if isinstance(original, Tensor):
        original.node = original.recording = None
        original.computed = value
    elif isinstance(original, np.ndarray):
        original[...] = value.array


class Changes:
    """Notices what happens to the containers that a function is given."""

    def __init__(self, originals: Any, given: Any, inputs: Sequence[tuple[Any, Any]]) -> None:
        # Containers of the caller by those given for them, with what was in these at first.
        self._pairs: list[tuple[Any, Any, dict[Any, Any]]] = []
        self._theirs = {id(mine): original for original, mine in inputs}
        self._pair(originals, given)

    def _pair(self, original: Any, mine: Any) -> None:
        if original is mine or type(original) is not type(mine):
            return
        content = _content(mine)
        if content is None:
            return
        if not isinstance(mine, tuple):
            self._pairs.append((original, mine, content))
            self._theirs[id(mine)] = original
        theirs = _content(original)
        if dataclasses.is_dataclass(mine):
            # Attributes that are no fields are no part of the nest.
            for name in theirs.keys() - content.keys():  # type: ignore[union-attr]
                object.__setattr__(mine, name, theirs[name])  # type: ignore[index]
                content[name] = theirs[name]  # type: ignore[index]
        for key, part in content.items():
            self._pair(theirs[key], part)  # type: ignore[index]

    def carry_out(self) -> bool:
        """Do the same to the caller's containers. Whether there was anything to do."""
        changed = False
        for original, mine, before in self._pairs:
            now = _content(mine)
            assert now is not None
            if list(now) != list(before) or any(now[key] is not before[key] for key in now):
                changed = True
                _fill(original, {key: self._own(part) for key, part in now.items()})
        return changed

    def _own(self, part: Any) -> Any:
        """What the caller knows something by."""
        if type(part) is Deferred:
            return part.value
        return self._theirs.get(id(part), part)


def _content(container: Any) -> dict[Any, Any] | None:
    """What a list, tuple, dict or dataclass holds, by where; None of anything else."""
    if isinstance(container, (list, tuple)):
        return dict(enumerate(container))
    if isinstance(container, dict):
        return dict(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        names = [field.name for field in dataclasses.fields(container)]
        held = {name: getattr(container, name) for name in names if hasattr(container, name)}
        return held | getattr(container, "__dict__", {})
    return None


def _fill(container: Any, content: dict[Any, Any]) -> None:
    if isinstance(container, list):
        container[:] = content.values()
    elif isinstance(container, dict):
        container.clear()
        container.update(content)
    else:
        for name, part in content.items():
            object.__setattr__(container, name, part)
