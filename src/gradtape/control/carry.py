"""Carry: the values that a loop passes from one step to the next, variables among them.

A variable that the body of a loop or branch assigns becomes one more value that the op takes and
gives; after the loop the variable is assigned the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.control.traced_bodies import BodyTrace, TracedBody
from gradtape.errors import DtypeError, NoValueError, ShapeError
from gradtape.ir import Node, Spec, spec
from gradtape.pytree import Structure, flatten, leaf_names, unflatten
from gradtape.tensor import Tensor, TensorLike, Variable, asarray
from gradtape.trace import SCALARS, Handle, enter, plain, state

# A body that makes the variables it assigns may do so only at its first call: it is traced again so
# often to see whether it makes more.
ATTEMPTS = 3


def described(structure: Structure) -> str:
    """A nest in words, for errors."""
    if structure.kind is None:
        return "a tensor"
    return f"a {structure.kind.__name__} with {structure.count} tensors"


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


class Carry:
    """The values that a loop begins with, and checks of those that its body returns.

    Variables that the body assigns are carried after the values that the user gave.
    """

    def __init__(self, name: str, function: str, init: object) -> None:
        self.name = name
        # The name of the body's function in errors.
        self.function = function
        self.leaves, self.structure = flatten(init)
        self.tensors = [asarray(leaf) for leaf in self.leaves]
        self.state = CarriedState(name)

    @property
    def given(self) -> list[Tensor]:
        """The values that the loop begins with."""
        return [*self.tensors, *(variable.value for variable in self.state.variables)]

    @property
    def specs(self) -> list[Spec]:
        """Specs of the values that the user gave."""
        return [tensor.spec for tensor in self.tensors]

    @property
    def all_specs(self) -> list[Spec]:
        """Specs of all values, those of variables included."""
        return [*self.specs, *(spec(of.shape, of.dtype) for of in self.state.variables)]

    @property
    def count(self) -> int:
        """The number of carried tensors."""
        return len(self.tensors) + len(self.state.variables)

    def opened(self, made: BodyTrace, arguments: list[Tensor]) -> Any:
        """The nest of values at the beginning of a step; variables get theirs, too."""
        cut = len(self.tensors)
        self.state.enter(made, arguments[cut : self.count])
        return unflatten(self.structure, arguments[:cut])

    def returned(self, made: BodyTrace, value: object) -> list[Node | TensorLike | Handle]:
        """The leaves of the next values, as a body returned them."""
        leaves, structure = flatten(value)
        if structure != self.structure:
            raise ValueError(
                f"{self.name}: {self.function} was given {described(self.structure)} to carry and "
                f"returned {described(structure)}. Return the same structure."
            )
        # A Python number takes the dtype of the value it replaces, where it fits.
        own = [
            enter(made, leaf, of.dtype) if _fits(leaf, of) else leaf
            for leaf, of in zip(leaves, self.specs, strict=True)
        ]
        return [*own, *self.state.leave(made)]

    def closed(self, results: Sequence[Tensor]) -> Any:
        """The nest of values after the loop; variables are assigned theirs."""
        cut = len(self.tensors)
        self.state.assign(results[cut : self.count])
        return unflatten(self.structure, results[:cut])

    def adapted(self, body: TracedBody) -> bool:
        """Check the values that came back; True if the body must be traced again.

        That is so if Python numbers at the start took the dtypes that came back, or if the body
        assigned variables that were not carried yet.
        """
        again = self.state.grows(body.trace)
        names = leaf_names(self.structure, "carry")
        for number, (name, of) in enumerate(zip(names, self.specs, strict=True)):
            found = body.roots[number].spec
            if found is of:
                continue
            adapts = type(self.leaves[number]) in SCALARS and found.shape == ()
            if adapts and np.can_cast(of.dtype, found.dtype, "same_kind"):
                self.tensors[number] = asarray(self.leaves[number], dtype=found.dtype)
                again = True
                continue
            kind, what = (ShapeError, "shape") if found.shape != of.shape else (DtypeError, "dtype")
            raise kind(
                f"{self.name}: {name} is {of} going in and {found} coming out of {self.function}. "
                f"A loop carries values of one {what}: change the start, or what is returned."
            )
        return again


def _fits(leaf: Any, of: Spec) -> bool:
    """Whether a leaf is a Python number that the dtype of the carried value can hold."""
    if type(leaf) not in SCALARS:
        return False
    number = plain(leaf)
    return bool(np.can_cast(np.min_scalar_type(number), of.dtype))
