"""Carried state: variables that the body of a loop or branch assigns.

The function of a body is called once, on tensors without values. A variable that it assigns becomes
one more value that the op takes and gives; after the loop the variable is assigned the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.control.traced_bodies import BodyTrace
from gradtape.errors import NoValueError
from gradtape.graph.spec import Spec, spec
from gradtape.recording import Handle, state
from gradtape.tensor import Tensor, Variable

# A body that makes the variables it assigns may do so only at its first call: it is traced again so
# often to see whether it makes more.
ATTEMPTS = 3


class CarriedState:
    """The variables that a body assigns, known after it was traced."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.variables: list[Variable] = []
        self._attempts = 0

    def grows(self, *traces: BodyTrace) -> bool:
        """Whether bodies assigned variables that were not known, and must be traced again."""
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

    def values(self) -> list[Tensor]:
        """The values of the variables before the loop."""
        return [variable.value for variable in self.variables]

    def enter(self, made: BodyTrace, tensors: Sequence[Tensor]) -> None:
        """Let the variables have these tensors as values inside a body, until it assigns them."""
        carries, made.carries = made.carries, True
        for variable, tensor in zip(self.variables, tensors, strict=True):
            made.bind(variable, tensor)
        made.carries = carries

    def leave(self, made: BodyTrace) -> list[Handle | Variable]:
        """The values at the end of a body; the variable itself where it was not assigned."""
        found = [(variable, made.bound(variable)) for variable in self.variables]
        return [variable if bound is None else bound for variable, bound in found]

    def assign(self, tensors: Sequence[Tensor]) -> None:
        """Assign the variables their values after the loop."""
        for variable, tensor in zip(self.variables, tensors, strict=True):
            if isinstance(state.recording, BodyTrace):
                state.recording.bind(variable, tensor)
            else:
                variable.assign(tensor)
