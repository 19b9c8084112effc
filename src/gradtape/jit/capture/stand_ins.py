"""Stand-ins: the arguments that a captured run gets in place of the caller's.

The function gets tensors of the capture, in lists, dicts and dataclasses like those of the call.
Its in-place changes of these are carried out on the caller's own afterwards.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.jit.capture.capture import Capture
from gradtape.jit.replay.steps import rebind
from gradtape.jit.signature import Arguments, InputValues
from gradtape.pytree import flatten
from gradtape.tensor.tensor import Tensor
from gradtape.trace.followed_number import followed, plain
from gradtape.trace.value import Value

# The entries of a container by index, key or name.
_Entries = dict[Any, object]


class StandIns:
    """Stand-in arguments of one captured run."""

    def __init__(
        self,
        capture: Capture,
        arguments: Arguments,
        leaves: InputValues,
        pinned: Container[int] = (),
        plain_numbers: bool = False,
    ) -> None:
        self._capture = capture
        self._arguments = arguments
        self.inputs: list[Any] = []
        originals = arguments.inputs()
        aliases = arguments.key.aliases or range(len(leaves))
        for position, (leaf, (label, original)) in enumerate(zip(leaves, originals, strict=True)):
            if aliases[position] < position:
                self.inputs.append(self.inputs[aliases[position]])
            elif type(leaf) is Value:
                kind = getattr(original, "result_class", Tensor)
                self.inputs.append(capture.argument(position, leaf, kind, original))
            else:
                capture.labels[position] = label
                number = followed(leaf, position, capture.number_guards)
                if plain_numbers or position in pinned:
                    number.read()
                self.inputs.append(leaf if plain_numbers else number)
        self.args, self.kwargs = arguments.rebuilt(self.inputs)
        passed = [original for _, original in originals]
        pairs = list(zip(passed, self.inputs, strict=True))
        whole = (arguments.args, list(arguments.kwargs.values()))
        self.changes = ContainerChanges(whole, (self.args, list(self.kwargs.values())), pairs)
        # The caller's own tensors, by the ids of their stand-ins.
        self.originals = {id(mine): each for each, mine in pairs if isinstance(each, Tensor)}

    def carry_out(self) -> None:
        """Carry out in-place changes of the stand-ins on the caller's arguments."""
        changed = self._capture.tensors.changed_arguments
        if changed:
            originals = self._arguments.inputs()
            for position, handle in changed.items():
                if handle.computed is not None:
                    rebind(originals[position][1], handle.computed)
        self.changes.carry_out()

    def may_be_to_blame(self, error: BaseException) -> bool:
        """Whether an error may come from a tensor in the place of an array."""
        return isinstance(error, (TypeError, AttributeError)) and any(
            isinstance(each, (np.ndarray, np.generic)) for each in self._arguments.passed()
        )

    def static_leaves(self) -> list[Any]:
        """Leaves of the caller's arguments, which a function may return as they are."""
        return flatten((self._arguments.args, self._arguments.kwargs))[0]

    def release(self) -> list[weakref.ref[Tensor]]:
        """Let go of the stand-ins; returns references that tell whether somebody holds them."""
        found = [weakref.ref(each) for each in self.inputs if isinstance(each, Tensor)]
        self.inputs, self.args, self.kwargs = [], (), {}
        self.changes = ContainerChanges((), (), [])
        self._capture.tensors.changed_arguments = {}
        return found


class ContainerChanges:
    """Notices changes of the lists, dicts and dataclasses that a function is given."""

    def __init__(
        self,
        originals: Sequence[object],
        stand_ins: Sequence[object],
        inputs: Iterable[tuple[object, object]],
    ) -> None:
        # Containers of the caller, their stand-ins, and what these held at first.
        self._pairs: list[tuple[object, object, _Entries]] = []
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


def _differs(container: object, before: _Entries) -> bool:
    now = content(container) or {}
    return list(now) != list(before) or any(now[key] is not before[key] for key in now)


def content(container: object) -> _Entries | None:
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


def fill(container: object, entries: _Entries) -> None:
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
