"""Stand-ins: the arguments that a captured run gets in place of the caller's.

The function gets tensors of the capture, in lists, dicts and dataclasses like those of the call.
Its in-place changes of these are carried out on the caller's own afterwards.
"""

from __future__ import annotations

import weakref
from collections.abc import Container
from typing import Any

import numpy as np

from gradtape.jit.capture.capture import Capture
from gradtape.jit.capture.containers import ContainerChanges
from gradtape.jit.replay.steps import rebind
from gradtape.jit.signature import Arguments, InputValues
from gradtape.pytree import flatten
from gradtape.tensor.tensor import Tensor
from gradtape.trace.followed_number import followed
from gradtape.trace.value import Value


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
