"""Bound plans: a plan, where in a recording its inputs come from, and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter

from gradtape.compiler.lower.beyond_memory import explained
from gradtape.dtypes import Array
from gradtape.ir.node import LEAF, Node
from gradtape.ir.program import Program, program
from gradtape.runtime.failures import Lines, may_fail
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.probe import PROBE
from gradtape.trace.recording import Recording
from gradtape.trace.trace import Trace
from gradtape.trace.value import Content, LeafValue, Value

# Values for the nodes of a program that are inputs of the caller's own, such as seeds.
Given = Mapping[Node, LeafValue]

_NOTHING: Given = {}


class BoundPlan:
    """A plan that runs on the leaves and kept values of a recording, and on what a caller gives.

    Leaves are found by number and kept values by node, so the bound plan serves every recording
    that holds the same values in the same state (`KeptValues.available`).
    """

    __slots__ = (
        "_from_leaves",
        "available",
        "bindings",
        "fallible",
        "inputs",
        "node_count",
        "outputs",
        "plan",
    )

    def __init__(self, found: Program, fastmath: bool) -> None:
        self.plan = plan_for(found, fastmath)
        if PROBE.sink is not None:
            PROBE.sink.bound(found, self.plan)
        self.outputs = found.outputs
        self.inputs = frozenset(found.inputs)
        self.node_count = len(found.nodes)
        # The program, if something in it may fail on values.
        self.fallible = found if may_fail(found) else None
        # The state of a recording in which this plan was flushed: equal histories share the object.
        self.available = object()
        self.bindings: tuple[int | Node, ...] = tuple(
            node.params[0] if node.op is LEAF and isinstance(node.params[0], int) else node
            for node in found.inputs
        )
        # Most bound plans read leaves only: then one call picks them all.
        self._from_leaves: Callable[[Sequence[LeafValue]], Sequence[LeafValue]] | None = None
        leaves = [binding for binding in self.bindings if not isinstance(binding, Node)]
        if len(leaves) == len(self.bindings):
            if len(leaves) == 1:
                self._from_leaves = itemgetter(slice(leaves[0], leaves[0] + 1))
            elif leaves:
                self._from_leaves = itemgetter(*leaves)

    def run(self, recording: Recording, given: Given = _NOTHING) -> list[Content]:
        """The contents of the outputs; an error names the user's line that recorded the op."""
        leaves, values = recording.leaves, recording.values
        inputs: Sequence[LeafValue]
        if self._from_leaves is not None:
            inputs = self._from_leaves(leaves)
        elif given:
            inputs = [
                leaves[binding]
                if not isinstance(binding, Node)
                else (given[binding] if binding in given else values[binding])
                for binding in self.bindings
            ]
        else:
            inputs = [
                values[binding] if isinstance(binding, Node) else leaves[binding]
                for binding in self.bindings
            ]
        try:
            return self.plan.run(inputs)
        except MemoryError as error:
            raise explained(error, program(self.outputs, self.inputs).nodes) from None
        except Exception as error:
            if self.fallible is not None and recording.pending.lines:
                Lines(self.fallible, recording.pending.lines).explain(error, inputs)
            raise

    def arrays(self, recording: Recording, given: Given = _NOTHING) -> list[Array]:
        """The outputs as NumPy arrays, computed outside a flush."""
        found = zip(self.contents(recording, given), self.outputs, strict=True)
        return [Value(content, node.spec).array for content, node in found]

    def contents(self, recording: Recording, given: Given = _NOTHING) -> list[Content]:
        """The outputs as arrays or pool buffers, computed outside a flush.

        The recording stays as it is: no handle gets a value. It only notes that it was observed.
        """
        with recording.guard():
            if recording.capturing:
                recording.capturing.escape()
            elif isinstance(recording, Trace):
                for node in self.outputs:
                    if recording.lacks_value(node):
                        raise recording.refusal(node)
                recording.compute_leaves(self.bindings)
            recording.pending.observed = True
            return self.run(recording, given)


def bind(recording: Recording, outputs: Sequence[Node], given: Collection[Node] = ()) -> BoundPlan:
    """The plan that computes `outputs` from the values a recording holds and a caller gives.

    It depends on which values the recording holds: a key under which it is kept has
    `plan_settings`.
    """
    known = {*recording.values, *given} if given else recording.values.keys()
    return BoundPlan(program(outputs, known), recording.fastmath)


def plan_settings(recording: Recording) -> tuple[object, bool]:
    """What `bind` depends on beside the nodes, for the key of a fact that holds a bound plan."""
    return recording.values.available, recording.fastmath
