"""Bound plans: a plan, where in a recording its inputs come from, and its outputs.

`plan_of_flush` chooses the one that a flush runs; `bind` makes one that runs outside a flush.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.memory_limit import explained
from gradtape.config import LARGEST_COMPUTED_LOSS, PLAN_SLACK_FACTOR, PLAN_SLACK_NODES
from gradtape.dtypes import Array
from gradtape.ir.node import LEAF, PLACEHOLDER, Node
from gradtape.ir.program import Program, program, with_outputs
from gradtape.ir.walk import topological
from gradtape.runtime import tiers
from gradtape.runtime.error_lines import Lines, may_fail
from gradtape.runtime.kept_for_backward import kept
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.profiler_sink import PROBE
from gradtape.trace.pause_collector import uncollected
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
        else:
            inputs = [
                leaves[binding]
                if not isinstance(binding, Node)
                else (given[binding] if binding in given else values[binding])
                for binding in self.bindings
            ]
        compiled = self.plan.compiled
        run = self.plan.run if compiled is None or tiers.MODE == "off" else compiled.run
        try:
            return run(inputs)
        except MemoryError as error:
            raise explained(error, program(self.outputs, self.inputs).nodes) from None
        except Exception as error:
            if self.fallible is not None and recording.lines:
                Lines(self.fallible, recording.lines).explain(error, inputs)
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
            recording.observed = True
            return self.run(recording, given)


def bind(recording: Recording, outputs: Sequence[Node], given: Collection[Node] = ()) -> BoundPlan:
    """The plan that computes `outputs` from the values a recording holds and a caller gives.

    It depends on which values the recording holds: a key under which it is kept has
    `plan_settings`.
    """
    known = {*recording.values, *given} if given else recording.values.keys()
    return BoundPlan(program(outputs, known), recording.fastmath)


def plan_settings(recording: Recording) -> tuple[object, bool]:
    """The dependencies of `bind` beside the nodes, for the key of a cached bound plan."""
    return recording.values.available, recording.fastmath


def plan_of_flush(recording: Recording, roots: tuple[Node, ...]) -> BoundPlan | None:
    """The bound plan for these roots in this state of the recording, by identity if seen before.

    None if a root depends on a placeholder, which has no value.
    """
    watched = tuple(recording.watched) if recording.tapes else ()
    plans = recording.table.plans
    # The values that a plan keeps follow from its roots and the watched sources, except those that
    # the user marked to be saved.
    wishes = None
    if recording.values.saved or recording.fastmath:
        wishes = (recording.values.available, frozenset(recording.values.saved), recording.fastmath)
    # Losses are outputs of the plan too, and may read leaves that no root reads.
    key = (roots, wishes or recording.values.available, watched, tuple(recording.targets))
    found: BoundPlan | None = plans.get(key)
    if found is not None:
        COUNTS.plan_hits += 1
        return found
    wanted = uncollected(program_of_flush, recording, roots, watched)
    if any(node.op is PLACEHOLDER and node not in recording.values for node in wanted.inputs):
        return None
    candidates = plans.setdefault((roots[-1], *key[1:]), [])
    found = _superset(wanted, candidates)
    if found is None:
        found = uncollected(BoundPlan, wanted, recording.fastmath)
        candidates.append(found)
    else:
        COUNTS.plan_hits += 1
    plans[key] = found
    return found


def _superset(wanted: Program, candidates: list[BoundPlan]) -> BoundPlan | None:
    """A known plan with the wanted outputs and a few more, if it costs hardly more.

    Steps of a training loop differ in which handles happen to be alive: they share one plan.
    """
    outputs, inputs = set(wanted.outputs), set(wanted.inputs)
    for candidate in candidates:
        # Its other outputs must not need leaves that this recording may not have.
        if not candidate.inputs <= inputs:
            continue
        limit = (1 + PLAN_SLACK_FACTOR) * len(wanted.nodes) + PLAN_SLACK_NODES
        if candidate.node_count <= limit and outputs <= set(candidate.outputs):
            return candidate
    return None


def program_of_flush(
    recording: Recording, roots: Sequence[Node], watched: Sequence[Node]
) -> Program:
    """The program that computes the roots, the values that a live tape keeps, and losses."""
    known = recording.values.keys()
    found = program(roots, known)
    extra = kept(found, watched) if watched else []
    discarded = recording.values.recomputed.union(roots)
    if watched and recording.values.saved:
        extra += [node for node in found.nodes if node in recording.values.saved]
        discarded -= recording.values.saved
    extra += _losses(recording, found)
    outputs = dict.fromkeys((*roots, *[node for node in extra if node not in discarded]))
    more = tuple(outputs)[len(roots) :]
    return with_outputs(found, more, known) if more else found


def _losses(recording: Recording, found: Program) -> list[Node]:
    """Scalars whose gradient the program computes, where giving them out costs next to nothing.

    Then one plan serves the steps that print the loss and those that do not.
    """
    targets = [target for target in recording.targets if target not in recording.values]
    if not targets:
        return []
    computed = {*found.nodes, *found.inputs}
    missing = [node for node in topological(targets, stop=computed) if node not in computed]
    cheap = len(missing) <= PLAN_SLACK_FACTOR * len(found.nodes) + PLAN_SLACK_NODES
    small = all(
        type(node.spec) is not tuple and node.spec.size <= LARGEST_COMPUTED_LOSS for node in missing
    )
    # The leaves of a recording are numbered and have values; those of a derivative rule have none.
    valued = all(isinstance(node.params[0], int) for node in missing if node.op is LEAF)
    return targets if cheap and small and valued else []


def unknowns_of(recording: Recording, node: Node) -> list[Node]:
    """The placeholders without a value that a node depends on."""
    found = program([node], recording.values.keys()).inputs
    return [one for one in found if one.op is PLACEHOLDER and one not in recording.values]
