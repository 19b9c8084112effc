"""Bound plans: programs that run on what a recording holds, without a flush and without handles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.graph.node import LEAF, Node
from gradtape.graph.program import program
from gradtape.recording.recording import Recording
from gradtape.recording.trace import Trace
from gradtape.recording.value import Value
from gradtape.runtime.plan_cache import plan_for


@dataclass(frozen=True)
class Bound:
    """A plan whose inputs are leaves and kept values of a recording, and what a caller gives."""

    plan: Any
    bindings: tuple[int | Node, ...]
    outputs: tuple[Node, ...]

    def run(self, recording: Recording, given: Mapping[Node, Any]) -> list[Any]:
        """One array for each output."""
        found = zip(self.contents(recording, given), self.outputs, strict=True)
        return [Value(content, node.spec).array for content, node in found]

    def contents(self, recording: Recording, given: Mapping[Node, Any]) -> list[Any]:
        """The same as the runtime has it: arrays, or buffers of its pool."""
        with recording.guard():
            if recording.capturing:
                recording.escape()  # type: ignore[attr-defined]
            elif isinstance(recording, Trace):
                for node in self.outputs:
                    if recording.lacks_value(node):
                        raise recording.refusal(node)
                recording.compute_leaves(self.bindings)
            recording.observed = True
            return self.plan.run(self.inputs(recording, given))

    def inputs(self, recording: Recording, given: Mapping[Node, Any]) -> list[Any]:
        """What the plan runs on."""
        return [self._input(recording, each, given) for each in self.bindings]

    def _input(self, recording: Recording, binding: int | Node, given: Mapping[Node, Any]) -> Any:
        if isinstance(binding, int):
            return recording.leaves[binding]
        return given[binding] if binding in given else recording.values[binding]


def bind(recording: Recording, outputs: Sequence[Node], given: Collection[Node] = ()) -> Bound:
    """The program that computes `outputs` from what a recording holds now, and a caller gives.

    Which values that are is part of the recording's state: who keeps a Bound keeps it under
    `recording.available`.
    """
    found = program(outputs, {*recording.values, *given} if given else recording.values.keys())
    bindings: list[int | Node] = [
        node.params[0] if node.op is LEAF and isinstance(node.params[0], int) else node
        for node in found.inputs
    ]
    return Bound(plan_for(found, recording.fastmath), tuple(bindings), found.outputs)
