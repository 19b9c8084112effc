"""Carried state: variables that the body of a loop or branch assigns.

The function of a body is called once, on tensors without values. A variable that it assigns is one
more value that goes in and comes out; after the loop it is assigned what came out last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.control.traced_bodies import BodyTrace
from gradtape.errors import NoValueError
from gradtape.graph.spec import Spec, spec
from gradtape.recording.thread_state import state

# A body that makes new variables and assigns them is traced so often to see them stay.
ATTEMPTS = 3


class CarriedState:
    """The variables that a body assigns, known after it was traced."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.variables: list[Any] = []
        self._attempts = 0

    def grows(self, *traces: BodyTrace) -> bool:
        """Whether bodies assigned variables that were not known: they are to be traced again."""
        known = {id(variable) for variable in self.variables}
        found = {id(v): v for trace in traces for v in trace.assigned() if id(v) not in known}
        if not found:
            return False
        self._attempts += any(id(v) in found for trace in traces for v in trace.made())
        if self._attempts > ATTEMPTS:
            names = ", ".join(variable.name for variable in found.values())
            raise NoValueError(
                f"{self.name}: every call of the function makes variables that it assigns and "
                f"that outlive it ({names}). Make them outside."
            )
        self.variables += found.values()
        return True

    def specs(self) -> list[Spec]:
        return [spec(variable.shape, variable.dtype) for variable in self.variables]

    def values(self) -> list[Any]:
        """What the variables are before."""
        return [variable.value for variable in self.variables]

    def enter(self, made: BodyTrace, tensors: Sequence[Any]) -> None:
        """Inside a body the variables are these tensors, until it assigns them."""
        carries, made.carries = made.carries, True
        for variable, tensor in zip(self.variables, tensors, strict=True):
            made.bind(variable, tensor)
        made.carries = carries

    def leave(self, made: BodyTrace) -> list[Any]:
        """What the variables are at the end of a body; itself where it was not assigned."""
        found = [(variable, made.bound(variable)) for variable in self.variables]
        return [variable if bound is None else bound for variable, bound in found]

    def assign(self, tensors: Sequence[Any]) -> None:
        """What the variables are after the loop."""
        for variable, tensor in zip(self.variables, tensors, strict=True):
            if isinstance(state.recording, BodyTrace):
                state.recording.bind(variable, tensor)
            else:
                variable.assign(tensor)
