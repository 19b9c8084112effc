"""Captured tensors: which tensors of a captured run are the caller's, from outside, or its own.

The run gets stand-in arguments for the tensors of the caller. It may change them in place, and
tensors from outside, too; a replay then does the same. Tensors that somebody holds after the run
without a replay being able to give them the same show that the function cannot be replayed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gradtape.errors import InPlaceError
from gradtape.ir.node import Node
from gradtape.trace.handle import Handle
from gradtape.trace.recording import Recording
from gradtape.trace.value import Value

VIEW_CHANGED = "a tensor that was made by indexing or viewing another is changed in place"

Reference = Callable[[], Handle | None]
# What a handle stands for.
Binding = tuple[Node | None, Recording | None, Value | None]


def is_view(thing: object) -> bool:
    """Whether something is a tensor that refuses to be changed in place."""
    return type(thing) is getattr(thing, "view_class", None)


class _StandIn(NamedTuple):
    """A stand-in argument: its input, a reference to its tensor, and what the caller passed."""

    position: int
    handle: Reference
    original: object


class CapturedTensors:
    """Notes the tensors that a captured run was given, made and changed in place."""

    __slots__ = (
        "_computed",
        "_made",
        "_originals",
        "_rebound",
        "_stand_ins",
        "changed_arguments",
        "shares_argument",
    )

    def __init__(self) -> None:
        # Stand-ins by the id of their handle, and by the id of what the caller passed.
        self._stand_ins: dict[int, _StandIn] = {}
        self._originals: dict[int, list[_StandIn]] = {}
        # Stand-ins that were changed in place, by position.
        self.changed_arguments: dict[int, Handle] = {}
        # Tensors from outside that were changed in place, with what they were before.
        self._rebound: dict[int, tuple[Reference, Binding]] = {}
        # Tensors of host memory that the run made; tensors that were held when a plan ran.
        self._made: dict[int, Reference] = {}
        self._computed: dict[int, Reference] = {}
        # Whether a tensor that is changed was passed twice, or is known to the function otherwise.
        self.shares_argument = False

    # Stand-in arguments.

    def add_stand_in(self, position: int, handle: Handle, original: object) -> None:
        """The run gets this tensor for an input; a tensor that is passed twice gets two."""
        stand_in = _StandIn(position, weakref.ref(handle), original)
        self._stand_ins[id(handle)] = stand_in
        self._originals.setdefault(id(original), []).append(stand_in)

    def position(self, handle: Handle) -> int | None:
        """The input that a tensor stands for."""
        stand_in = self._stand_in(handle)
        return None if stand_in is None else stand_in.position

    def _stand_in(self, handle: Handle) -> _StandIn | None:
        found = self._stand_ins.get(id(handle))
        return found if found is not None and found.handle() is handle else None

    def changed_stand_in(self, original: Handle) -> Handle | None:
        """The stand-in for a caller's tensor that was changed in place, if it was."""
        if self.changed_arguments:
            for stand_in in self._originals.get(id(original), ()):
                if stand_in.position in self.changed_arguments:
                    self.shares_argument = True
                    return self.changed_arguments[stand_in.position]
        return None

    # In-place changes.

    def rebinding(self, handle: Handle, new: Handle, recording: Recording) -> None:
        """A tensor is about to be changed in place, which everybody who holds it will see."""
        stand_in = self._stand_in(handle)
        if stand_in is None:
            if handle.recording is not recording and not self.is_made_here(handle):
                before = (handle.node, handle.recording, handle.computed)
                self._rebound.setdefault(id(handle), (weakref.ref(handle), before))
            return
        original = stand_in.original
        if is_view(original):
            raise InPlaceError(VIEW_CHANGED)
        self.changed_arguments[stand_in.position] = handle
        if isinstance(original, Handle) and original.computed is not None:
            # The function may know the caller's tensor, too: let it be entered again.
            original.computed.entry = (0, None)
        self._rebind_others(original, handle, new)

    def _rebind_others(self, original: object, handle: Handle, new: Handle) -> None:
        """The caller has passed one tensor in several places: all stand-ins are changed."""
        for stand_in in self._originals[id(original)]:
            other = stand_in.handle()
            if other is not None and other is not handle:
                self.shares_argument = True
                self.changed_arguments[stand_in.position] = other
                other.node, other.recording, other.computed = new.node, new.recording, new.computed
                if other.computed is None and other.recording is not None:
                    other.recording.handles.append(other)

    def is_rebound(self, handle: Handle) -> bool:
        """Whether a tensor is from outside and was changed in place."""
        found = self._rebound.get(id(handle))
        return found is not None and found[0]() is handle

    def rebound(self, recording: Recording) -> list[tuple[Reference, Node]]:
        """Tensors from outside that now stand for nodes of the run."""
        found = [(reference, reference()) for reference, _ in self._rebound.values()]
        return [
            (reference, handle.node)
            for reference, handle in found
            if handle is not None and handle.recording is recording
        ]

    def undo(self) -> None:
        """Let tensors from outside be what they were before the run."""
        for reference, before in self._rebound.values():
            handle = reference()
            if handle is not None:
                handle.node, handle.recording, handle.computed = before

    # Tensors that may outlive the run.

    def make(self, handle: Handle) -> None:
        """The run has made a tensor of host memory: it is not from outside."""
        self._made[id(handle)] = weakref.ref(handle)

    def is_made_here(self, handle: Handle) -> bool:
        """Whether the run has made a tensor of host memory."""
        found = self._made.get(id(handle))
        return found is not None and found() is handle

    def held(self, handles: Iterable[Handle]) -> None:
        """These tensors were held when a plan ran."""
        self._computed.update((id(handle), weakref.ref(handle)) for handle in handles)

    def leaked(self, stand_ins: Sequence[Reference], known: Sequence[object]) -> bool:
        """Whether somebody still holds a tensor of the run that is not among the known ones."""
        expected = {id(handle) for handle in known}
        expected.update(id(reference()) for reference, _ in self._rebound.values())
        references = (*self._computed.values(), *self._made.values(), *stand_ins)
        alive = (reference() for reference in references)
        return any(handle is not None and id(handle) not in expected for handle in alive)
