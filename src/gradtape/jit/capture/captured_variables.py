"""Captured variables: what a captured run reads and assigns, and the state that it makes.

A replay reads a variable when it begins and assigns it when it ends. That repeats the captured run
only if nobody else assigned the variable during the run, so every look at a variable is compared
with the latest one.
"""

from __future__ import annotations

import weakref

from gradtape.ir.node import Node
from gradtape.jit.replay.sources import value_of
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.handle import Handle
from gradtape.trace.recording import Recording
from gradtape.trace.value import Value


class CapturedVariables:
    """Notes how a captured run uses variables."""

    __slots__ = ("_latest", "_leaves", "_made", "assigned", "disturbed", "read")

    def __init__(self) -> None:
        # Variables that were assigned, with what each held before the run; and those read.
        self.assigned: dict[Variable, Tensor] = {}
        self.read: dict[Variable, None] = {}
        # What each variable holds, as far as the run knows.
        self._latest: dict[Variable, Handle | Value] = {}
        # Leaves by the ids of variable and value.
        self._leaves: dict[tuple[int, int], Node] = {}
        # Variables and generators that the run made: nobody's state unless they outlive it.
        self._made: dict[int, weakref.ref[object]] = {}
        # Whether somebody else assigned a variable during the run.
        self.disturbed = False

    def enter(self, variable: Variable, handle: Tensor, recording: Recording) -> tuple[Node, bool]:
        """The leaf of the value of a variable; and whether later calls read the variable for it.

        The leaf is the variable's own: a tensor may hold the same value, and does not follow the
        variable.
        """
        value = value_of(handle)
        is_outside = not self.is_made_here(variable)
        if is_outside:
            self._compare(variable, handle)
            self._latest[variable] = value
            self.read[variable] = None
        key = (id(variable), id(value))
        node = self._leaves.get(key)
        if node is None:
            node = self._leaves[key] = recording.add_leaf(value, value.spec)
        return node, is_outside

    def assign(self, variable: Variable, before: Tensor, handle: Tensor) -> None:
        """A variable was assigned; later calls assign it at their end."""
        if not self.is_made_here(variable):
            self._compare(variable, before)
            self.assigned.setdefault(variable, before)
            self._latest[variable] = handle

    def last_assigned(self, recording: Recording) -> list[tuple[Variable, Node]]:
        """The variables assigned, with the node that each was given last."""
        latest = [(variable, self._latest[variable]) for variable in self.assigned]
        return [
            (variable, handle.node)
            for variable, handle in latest
            if isinstance(handle, Handle) and handle.recording is recording
        ]

    def _compare(self, variable: Variable, handle: Handle) -> None:
        """Compare what a variable holds with what it was last seen or assigned to hold."""
        latest = self._latest.get(variable)
        if latest is not None and latest is not handle and latest is not handle.computed:
            self.disturbed = True

    def compare_all(self) -> None:
        """Notice assignments by other threads to variables that were read or assigned here."""
        for variable in self._latest:
            self._compare(variable, variable._handle)

    def known(self) -> list[Handle | Value]:
        """Handles that variables hold, so that captures of other threads may know them."""
        return list(self._latest.values())

    def undo(self) -> None:
        """Let variables hold again what they held before the run."""
        for variable, handle in self.assigned.items():
            variable.restore(handle, self._latest[variable])

    # Variables and generators that the run makes.

    def make(self, thing: object) -> None:
        """The run has made a variable or a generator."""
        self._made[id(thing)] = weakref.ref(thing)

    def is_made_here(self, thing: object) -> bool:
        """Whether the run has made a variable or a generator."""
        found = self._made.get(id(thing))
        return found is not None and found() is thing

    def lasting(self) -> list[object]:
        """Variables and generators that the run made, and that somebody still holds."""
        return [thing for ref in self._made.values() if (thing := ref()) is not None]
