"""Stand-ins: the arguments that a captured run gets in place of the caller's.

The function gets tensors of the capture, in lists, dicts and dataclasses like those of the call.
Its in-place changes of these are carried out on the caller's own afterwards.
"""

from __future__ import annotations

import dataclasses
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.functions.arguments.signature import Arguments, Inputs
from gradtape.functions.capture.capture import Capture
from gradtape.functions.replay.sources import Compute
from gradtape.pytree import flatten
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.value import Value
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# The entries of a container by index, key or name.
Content = dict[Any, object]


class StandIns:
    """Stand-in arguments of one captured run."""

    def __init__(self, capture: Capture, arguments: Arguments, leaves: Inputs) -> None:
        self._capture = capture
        self._arguments = arguments
        self.inputs: list[Any] = []
        originals = arguments.inputs()
        for position, (leaf, (label, original)) in enumerate(zip(leaves, originals, strict=True)):
            if type(leaf) is Value:
                kind = getattr(original, "result_class", Tensor)
                self.inputs.append(capture.argument(position, leaf, kind, original))
            else:
                self.inputs.append(_deferred(position, leaf, label, capture))
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


def _deferred(position: int, leaf: Any, label: str, capture: Capture) -> Deferred:
    """The stand-in for a number: it is computed with, and a look at it becomes a guard."""

    def guard(compute: Compute, value: object) -> None:
        capture.guard_number(compute, value, label)

    return Deferred(leaf, operator.itemgetter(position), guard)


def rebind(original: object, value: Value) -> None:
    """Change a tensor or an array of the caller in place."""
    if isinstance(original, Tensor):
        original.rebind(Tensor(None, None, value), "x op= v inside a function")
    elif isinstance(original, np.ndarray):
        original[...] = value.array


def change_all(
    changes: Sequence[tuple[object, Value]],
    variables: Sequence[Variable],
    assign: Callable[..., None],
    *handles: Tensor,
) -> None:
    """Change tensors and arrays of the caller in place, and assign variables: all of it or none."""
    places = [_content_of(original) for original, _ in changes]
    before = [variable._handle for variable in variables]
    try:
        for original, value in changes:
            rebind(original, value)
        assign(*handles)
    except BaseException:
        Variable.hold_again(variables, before)
        for (original, _), content in zip(changes, places, strict=True):
            if isinstance(original, Tensor):
                original.node, original.recording, original.computed = content
            elif isinstance(original, np.ndarray) and original.flags.writeable:
                original[...] = content
        raise


def _content_of(original: object) -> Any:
    if isinstance(original, Tensor):
        return original.node, original.recording, original.computed
    return np.array(original) if isinstance(original, np.ndarray) else None


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
        content = _content(mine)
        if content is None:
            return
        theirs = _content(original) or {}
        if dataclasses.is_dataclass(mine):
            # A pytree has the fields of a dataclass only; other attributes are copied here.
            for name in theirs.keys() - content.keys():
                object.__setattr__(mine, name, theirs[name])
                content[name] = theirs[name]
        if not isinstance(mine, tuple):
            self._pairs.append((original, mine, content))
            self._theirs[id(mine)] = original
        for key, part in content.items():
            self._pair(theirs[key], part)

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return any(_differs(mine, before) for _, mine, before in self._pairs)

    def carry_out(self) -> None:
        """Change the caller's containers as their stand-ins were."""
        for original, mine, before in self._pairs:
            if _differs(mine, before):
                now = _content(mine) or {}
                _fill(original, {key: self._own(part) for key, part in now.items()})

    def _own(self, part: object) -> object:
        """The caller's own object for a stand-in."""
        if id(part) in self._theirs:
            return self._theirs[id(part)]
        return part.value if type(part) is Deferred else part


def _differs(container: object, before: Content) -> bool:
    now = _content(container) or {}
    return list(now) != list(before) or any(now[key] is not before[key] for key in now)


def _content(container: object) -> Content | None:
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


def _fill(container: object, content: Content) -> None:
    if isinstance(container, list):
        container[:] = content.values()
    elif isinstance(container, dict):
        container.clear()
        container.update(content)
    else:
        for name in getattr(container, "__dict__", {}).keys() - content.keys():
            object.__delattr__(container, name)
        for name, part in content.items():
            object.__setattr__(container, name, part)
