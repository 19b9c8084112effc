"""Carry: the values that a loop hands from one step to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.control.carried_state import CarriedState
from gradtape.control.checks import described
from gradtape.control.traced_bodies import Body, BodyTrace
from gradtape.errors import DtypeError, ShapeError
from gradtape.graph import Node, Spec
from gradtape.pytree import flatten, leaf_names, unflatten
from gradtape.recording import SCALARS, Deferred, Handle, enter
from gradtape.tensor import Tensor, TensorLike, asarray


class Carry:
    """The values that a loop begins with, and checks of those that its body returns.

    Variables that the body assigns are carried after the values that the user gave.
    """

    def __init__(self, name: str, function: str, init: object) -> None:
        self.name = name
        # What errors call the function of the body.
        self.function = function
        self.leaves, self.structure = flatten(init)
        self.tensors = [asarray(leaf) for leaf in self.leaves]
        self.state = CarriedState(name)

    @property
    def given(self) -> list[Tensor]:
        """The values that the loop begins with."""
        return [*self.tensors, *self.state.values()]

    @property
    def specs(self) -> list[Spec]:
        """Specs of the values that the user gave."""
        return [tensor.spec for tensor in self.tensors]

    @property
    def all_specs(self) -> list[Spec]:
        """Specs of all values, those of variables included."""
        return [*self.specs, *self.state.specs()]

    @property
    def count(self) -> int:
        """How many tensors are carried."""
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

    def adapted(self, body: Body) -> bool:
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
    number = leaf.value if type(leaf) is Deferred else leaf
    return bool(np.can_cast(np.min_scalar_type(number), of.dtype))
